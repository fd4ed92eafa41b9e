# SPDX-License-Identifier: Apache-2.0
"""The project's own rules over the whole tree: `./dev lint`, and a test. Ends with 1 when a file breaks a rule."""
import subprocess
import sys
from pathlib import Path

import cmake_rules
import include_rules
import text_rules

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = {**text_rules.RULES, "includes": include_rules.check, "cmake links": cmake_rules.check}
TEXT = (".h", ".hpp", ".cc", ".cu", ".c", ".py", ".sh", ".cmake", ".toml", ".txt", ".md", ".json", ".in", ".map")

EXEMPT = {  # (file, rule): why. Short, and each with a reason that a reader accepts.
    ("client/redsum.hpp", "includes"): "installed beside redsum.h, where the tree's folders do not exist",
    ("client/redsum.hpp", "exceptions"): "compiled into the user's program: there a failed call is an exception, as C++ users expect",
}


def files():
    """What git knows or would add; everything when this is no checkout."""
    listing = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, cwd=ROOT)
    names = listing.stdout.split("\0") if listing.returncode == 0 else \
        [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not {"build", ".git"} & set(path.parts)]
    return [name for name in names if name and (name.endswith(TEXT) or name in ("dev", ".ci/run")) and (ROOT / name).is_file()]


def check_file(path, lines):
    for rule, check in RULES.items():
        if (path, rule) not in EXEMPT:
            for number, problem in check(path, lines):
                yield f"{path}:{number}: {rule}: {problem}"


def main():
    names = files()
    problems = [problem for name in names
                for problem in check_file(name, (ROOT / name).read_text(errors="replace").splitlines(keepends=True))]
    for problem in problems:
        print(problem)
    print(f"lint: {len(names)} files, {len(RULES)} rules, {len(problems)} problems")
    return 1 if problems or not names else 0


if __name__ == "__main__":
    sys.exit(main())
