# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays down is enough for a project that knows nothing of this tree."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ["REDSUM_BUILD"])
CONSUMER = Path(__file__).parent / "consumer"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def test_cmake_package_serves_c_and_cxx(prefix, tmp_path):
    run("cmake", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "from_c").startswith("redsum 0.")
    assert "job_id is 'not/a/job'" in run(tmp_path / "from_cxx")


def test_pkg_config_serves_c(prefix, tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    pc = next(prefix.rglob("redsum.pc"))
    flags = run("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "redsum",
                env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).split()
    run("cc", CONSUMER / "from_c.c", "-o", tmp_path / "from_c", *flags)
    library = next(prefix.rglob("libredsum.so")).parent
    assert run(tmp_path / "from_c", env={**os.environ, "LD_LIBRARY_PATH": str(library)}).startswith("redsum 0.")


def test_only_the_c_interface_is_visible(prefix):
    symbols = run("nm", "-D", "--defined-only", next(prefix.rglob("libredsum.so"))).split("\n")
    names = {line.split()[-1].split("@")[0] for line in symbols if line}
    assert names and all(name.startswith("redsum_") or name.startswith("REDSUM_") for name in names), names


def test_installed_programs_start(prefix):
    for program in ("redsumd", "redsumctl", "redsumrun"):
        assert run(prefix / "bin" / program, "--version").strip()
    assert "-b" in run(prefix / "bin" / "redsum-perf", "--help")
