# SPDX-License-Identifier: Apache-2.0
"""The totals that end a test run are honest: what crashed, was not run or was skipped is counted as that, by name."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import runner

GOOGLETEST = """[==========] Running 3 tests from 1 test suite.
[ RUN      ] A.good
[       OK ] A.good (0 ms)
[ RUN      ] A.skipped
/a/b.cc:12: Skipped
this processor has no AVX-512
[  SKIPPED ] A.skipped (0 ms)
[ RUN      ] A.bad
[  FAILED  ] A.bad (3 ms)
[==========] 3 tests from 1 test suite ran. (4 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.skipped
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A.bad
"""
PYTEST = """SKIPPED [1] tests/e2e/test_a.py:3: a sanitizer has threads of its own
FAILED tests/e2e/test_a.py::test_bad - assert 1 == 2
1 failed, 3 passed, 1 skipped, 1 error in 0.31s
"""
ALL_GOOD = "[==========] 12 tests from 2 test suites ran. (4 ms total)\n[  PASSED  ] 12 tests.\n"

# name, ctest's status, output, totals, names that must be told
CASES = [
    ("every GoogleTest counts", "run", ALL_GOOD, (12, 0, 0), []),
    ("failed and skipped ones are named", "fail", GOOGLETEST, (1, 1, 1), ["A.bad", "A.skipped", "this processor has no AVX-512"]),
    ("a failure that the exit code hides is one", "run", GOOGLETEST, (1, 1, 1), ["A.bad"]),
    ("pytest, errors too", "fail", PYTEST, (3, 2, 1), ["test_bad", "a sanitizer has threads of its own"]),
    ("a crash in the middle", "fail", GOOGLETEST.split("[ RUN      ] A.bad")[0] + "Segmentation fault", (0, 1, 0), ["a crash"]),
    ("a crash after the last test", "fail", ALL_GOOD + "ERROR: LeakSanitizer", (12, 1, 0), ["a crash after"]),
    ("a program that does not count", "run", "fine", (1, 0, 0), []),
    ("one that fails", "fail", "", (0, 1, 0), ["one that fails"]),
    ("one that was not run", "notrun", "", (0, 0, 1), ["one that was not run"]),
    ("a program that ran no test", "run", "[==========] 0 tests from 0 test suites ran.\n[  PASSED  ] 0 tests.\n", (0, 1, 0), ["ran no test"]),
]


def main():
    problems = []
    for name, status, output, expected, told in CASES:
        totals = runner.count_entry(name, status, output)
        said = f"{totals.failures} {totals.skips}"
        if (totals.passed, totals.failed, totals.skipped) != expected or not all(word in said for word in told):
            problems.append(f"{name}: {totals}, {said}")
    print("\n".join(problems) or f"{len(CASES)} cases are counted right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
