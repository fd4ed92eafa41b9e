# SPDX-License-Identifier: Apache-2.0
"""The binary interface of libredsum against the last tag (or another revision): `./dev abi [REVISION]`. Fails when a program
that was linked with the old library would not work with this one. With no tag there is nothing to keep yet: it says so."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts" / "reference"))

import c_api  # noqa: E402  (after the path that it is found by)

FOLDER = ROOT / "build" / "abi"
ACCEPTED = ROOT / "scripts" / "abi.suppr"  # what may change, with the reason
GROWS = ("redsum_options", "redsum_call_options", "redsum_statistics")  # they carry the size that the caller knows


def last_tag():
    """The newest release among the ancestors, or None."""
    done = subprocess.run(["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"], capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip() if done.returncode == 0 else None


def only_grown(old_header, new_header):
    """Whether the structs that may grow have all of their old fields where they were: abidiff's rule for insertions at the end
    would also let pass a field of another type."""
    old, new = ({item.name: [field.text for field in item.members] for item in c_api.parse(header.read_text())[1]}
                for header in (old_header, new_header))
    return all(new.get(name, [])[:len(old[name])] == old[name] for name in GROWS if name in old)


def compare(old_library, old_header, new_library, new_header):
    """abidiff's report of what is not compatible; "" when all is well. New functions and enumerators are fine; any other
    change counts, also one that abidiff's exit code would call a mere change: it cannot know who owns a struct's memory."""
    with tempfile.TemporaryDirectory() as folder:  # of public headers: what they do not show is nobody's business
        public = [Path(folder) / "old", Path(folder) / "new"]
        for place, header in zip(public, (old_header, new_header)):
            place.mkdir()
            shutil.copy(header, place / "redsum.h")
        # Not --header-file1: with abidiff 2.2 that hides every type.
        accepted = ["--suppressions", ACCEPTED] if only_grown(old_header, new_header) else []
        done = subprocess.run(["abidiff", "--no-added-syms", *accepted, "--headers-dir1", public[0],
                               "--headers-dir2", public[1], old_library, new_library], capture_output=True, text=True, timeout=300)
    if done.returncode & 3:  # it could not compare
        return done.stdout + done.stderr or f"abidiff ended with {done.returncode}"
    return done.stdout if done.returncode else ""


def build(source, name):
    """libredsum of a tree, with full debug information, which abidiff reads the types from."""
    folder = FOLDER / name
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    jobs = os.environ.get("JOBS") or str(os.cpu_count())
    environment = {**os.environ, "CCACHE_BASEDIR": str(source)}
    for command in (["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g",
                     "-DREDSUM_TESTS=OFF", *launcher], ["cmake", "--build", folder, "--target", "redsum_client", "--parallel", jobs]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return folder / "lib" / "libredsum.so"


def export(revision):
    """The tree of a revision, beside the build; the clone itself is left as it is."""
    source = FOLDER / "old-source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], check=True, capture_output=True, cwd=ROOT).stdout
    subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
    return source


def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else last_tag()
    if revision is None:
        print("abi: no tag yet, so there is no interface to keep: nothing compared")
        return 0
    try:
        old = export(revision)
        report = compare(build(old, "old"), old / "client/redsum.h", build(ROOT, "new"), ROOT / "client/redsum.h")
    except subprocess.CalledProcessError as error:
        print(f"abi: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr)
        return 1
    print(report + f"abi: not compatible with {revision}" if report else f"abi: compatible with {revision}")
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
