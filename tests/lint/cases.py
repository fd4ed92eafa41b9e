# SPDX-License-Identifier: Apache-2.0
"""Failures seen in the field, by their id, and the tests that show that they cannot happen here: a test belongs to a case
when its name carries the id (`NUM_05` for NUM-05). Prints where each case is tested; ends with 1 when one has no test."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

CASES = {  # in the words of a user
    "NUM-01": "a mean of half-precision numbers overflowed on the way",
    "NUM-03": "a mean of tiny half-precision numbers became zero",
    "NUM-04": "the mean was a multiplication by a reciprocal",
    "NUM-05": "the same data gave other bits, by the order of arrival",
    "NUM-07": "a NaN spread to its neighbours",
    "NUM-09": "the mean of integers had another rule on every path",
    "NUM-10": "asked for the average, got the sum",
    "NUM-11": "integers that overflow had no defined sum",
    "NUM-12": "fp8 was summed as bytes, or to NaN",
    "NUM-14": "-0.0 + -0.0 became +0.0",
    "SHP-01": "ranks passed different counts and hung or got a wrong tail",
    "SHP-03": "ranks passed different types or operations of the same size",
    "SHP-04": "tensors without elements crashed",
    "SHP-06": "strided memory was read as if it were contiguous",
    "SHP-07": "a name kept an old buffer, or named two calls",
    "SHP-08": "calls in another order on another rank hung for ever",
    "SHP-10": "complex numbers were ordered and multiplied as pairs of reals",
    "SHP-11": "a rank without entries broke the sum of sparse gradients",
    "SHP-12": "counts that nothing divides gave wrong or untouched results",
    "SHP-13": "reduce overwrote memory of ranks that are not the root",
    "SHP-14": "a view at an odd offset was misaligned",
    "SHP-15": "a counter of 32 bits wrapped and the job hung",
    "LIF-01": "every group that came and went left descriptors behind",
    "LIF-02": "memory grew with ever new sizes and names",
    "LIF-03": "init after shutdown aborted, calls after it hung",
    "LIF-04": "wrong ranks and sizes hung the start",
    "LIF-08": "after an end by signal the port was still in use, or processes were left",
    "LIF-09": "idle or waiting processes burnt CPU, or init moved threads",
    "LIF-10": "a limited container got a thread for every CPU of the host",
    "LIF-12": "a call outlived its memory",
    "LIF-13": "the daemon went on after its last job, or kept its state",
    "NET-02": "an interface setting of another syntax crashed the start",
    "NET-04": "IPv6 addresses lost their scope, machines without IPv6 filled the log",
    "NET-06": "a healthy rank that paused was declared lost",
    "NET-07": "clients that came before the server, or all at once, failed",
    "NET-11": "writing to a peer that had gone killed the process",
    "NET-13": "a peer that died before its first use hung the others",
    "NET-14": "a short write was taken for an error, or began again",
    "NET-15": "a jump of the wall clock fired or froze timeouts",
    "SEC-02": "a length from a stranger was believed and allocated",
    "SEC-05": "a number out of range crashed the server",
    "FLT-01": "a killed worker left the others waiting for half an hour, or aborted them",
    "FLT-02": "a killed server froze the system",
    "FLT-05": "a worker that was quickly restarted was ignored, as its predecessor still counted as alive",
    "FLT-06": "the average was divided by another number than that of the contributors",
    "FLT-07": "some members went on after a change of members, others waited",
    "FLT-09": "one built-in limit for everything broke some runs and delayed the errors of others",
    "NET-06": "a busy or briefly paused peer was declared dead",
    "OPS-03": "other versions and settings gave errors that nobody understood",
}

LATER = {  # why there is no test yet; an entry whose case has one fails the check
}

NAME = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)|^def (test_\w+)\(", re.M)


def tests():
    """(name, path:line) of every test of the tree."""
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix == ".cc" or (path.suffix == ".py" and path.name.startswith("test_")):
            text = path.read_text(errors="replace")
            for match in NAME.finditer(text):
                name = match[3] or f"{match[1]}.{match[2]}"
                yield name, f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"


def of_case(case, found):
    marker = re.compile(rf"(?<![A-Za-z0-9]){case.replace('-', '_')}(?![0-9])")
    return [(name, where) for name, where in found if marker.search(name)]


def missing(cases, found):
    return [case for case in cases if not of_case(case, found)]


def main():
    found = list(tests())
    for case, words in CASES.items():
        print(f"{case}  {words}")
        for name, where in of_case(case, found):
            print(f"        {name}  {where}")
    # The check itself: an id of which no test can carry the name is found missing, one inside another word is no hit.
    proof = [("Numerics.NUM_01_x", "a"), ("Links.XNUM_03_x", "b"), ("test_NUM_045", "c")]
    assert missing(["NUM-01", "NUM-03", "NUM-04"], proof) == ["NUM-03", "NUM-04"]
    without = missing(CASES, found)
    wrong = [f"no test carries {case}" for case in without if case not in LATER]
    wrong += [f"{case} is not to come any more" for case in LATER if case not in without]
    for case, why in LATER.items():
        print(f"later: {case}: {why}")
    for problem in wrong:
        print(f"cases: {problem}")
    print(f"cases: {len(CASES)} cases, {len(CASES) - len(without)} tested, {len(LATER)} to come, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
