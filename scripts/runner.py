# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of a test tier and adds up honestly: a part that cannot be built, started or counted has failed."""
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
JOBS = os.environ.get("JOBS") or str(os.cpu_count())


class Totals:
    """Numbers of tests, and the names of those that did not pass."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.failures, self.skips = [], []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_googletest(output):
    """Totals of one GoogleTest program, or None when `output` is not from one that ran to its end."""
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", output, re.M)
    if not ran:
        return None
    totals = Totals()
    for word, field in (("PASSED", "passed"), ("FAILED", "failed"), ("SKIPPED", "skipped")):
        for number in re.findall(rf"^\[  {word}\s+\] (\d+) tests?[.,]", output, re.M):
            setattr(totals, field, int(number))
    for name in re.findall(r"^\[  SKIPPED \] (\S+) \(", output, re.M):
        block = output.split(f"[ RUN      ] {name}\n", 1)[-1].split(f"[  SKIPPED ] {name}", 1)[0]
        reason = " ".join(line for line in block.splitlines() if not re.match(r"\S+:\d+: Skipped", line))
        totals.skips.append((name, reason.strip() or "no reason given"))
    totals.failures = re.findall(r"^\[  FAILED  \] (\S+?),? \(?.*?\d+ ms\)", output, re.M)
    return totals


def count_pytest(output):
    """Totals of one pytest run, or None."""
    lines = re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$", output, re.M)
    if not lines:
        return None
    numbers = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])}
    totals = Totals(numbers.get("passed", 0), numbers.get("failed", 0) + numbers.get("error", 0) + numbers.get("errors", 0),
                    numbers.get("skipped", 0))
    totals.skips = [(place, reason) for place, reason in re.findall(r"^SKIPPED \[\d+\] (\S+): (.*)$", output, re.M)]
    totals.failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
    return totals


def count_entry(name, status, output):
    """Totals of one ctest entry: its program's own count where it has one, else the entry itself."""
    inner = count_googletest(output) or count_pytest(output)
    if inner is None:
        inner = Totals(passed=1 if status == "run" else 0)
    elif inner.passed + inner.failed + inner.skipped == 0:
        inner.failed, inner.failures = 1, [f"{name} ran no test"]
    if status == "notrun":
        inner = Totals(skipped=1)
        inner.skips = [(name, "ctest did not run it")]
    elif status != "run":  # failed, crashed, timed out
        if inner.failed == 0:
            inner.failed, inner.failures = 1, [name]
    return inner


def count_junit(path):
    totals = Totals()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        output = (case.findtext("system-out") or "")
        totals.add(count_entry(case.get("name"), case.get("status"), output))
    return totals


class Runner:
    def __init__(self):
        self.totals = Totals()
        self.start = time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)

    def report(self, name, totals, since):
        self.totals.add(totals)
        print(f"{name:<58} {totals}  ({time.monotonic() - since:.0f} s)", flush=True)
        for failure in totals.failures:
            print(f"    FAILED {failure}", flush=True)
        return totals.failed == 0

    def fail(self, name, why, since):
        totals = Totals(failed=1)
        totals.failures = [why]
        return self.report(name, totals, since)

    def skip(self, name, reason):
        totals = Totals(skipped=1)
        totals.skips = [(name, reason)]
        self.report(name, totals, time.monotonic())

    def build(self, preset, targets=()):
        """True when it is built; else one failure is counted."""
        since = time.monotonic()
        if subprocess.run([ROOT / "dev", "build", preset, *targets], stdout=subprocess.DEVNULL, cwd=ROOT).returncode == 0:
            print(f"{'build ' + preset:<58} done  ({time.monotonic() - since:.0f} s)", flush=True)
            return True
        return self.fail(f"build {preset}", f"./dev build {preset}", since)

    def build_label(self, preset, label):
        """Builds only the programs that a label's tests run."""
        self.execute([ROOT / "dev", "build", preset, "help"], LOGS / f"configure-{preset}.log", None, 600)  # configures
        listing = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1", "-L", label],
                                 capture_output=True, text=True, cwd=ROOT).stdout
        wanted = {test["name"] for test in json.loads(listing or "{}").get("tests", [])}
        build, programs = ROOT / "build" / preset, set()
        for file in build.glob("**/CTestTestfile.cmake"):  # the listing leaves out programs that are not built yet
            for name, program in re.findall(r'^add_test\((?:\[=+\[)?(.+?)(?:\]=+\])? "([^"]+)"', file.read_text(), re.M):
                if name in wanted and Path(program).is_relative_to(build):
                    programs.add(Path(program).name)
        if not programs:
            return self.fail(f"build {preset}", f"no test program has the label {label}", time.monotonic())
        return self.build(preset, sorted(programs))

    def ctest(self, name, preset, *, label=None, not_label=None, only=None, env=None, limit_s=1200):
        since = time.monotonic()
        slug = re.sub(r"\W+", "-", name).strip("-")
        junit, log = LOGS / f"{slug}.xml", LOGS / f"{slug}.log"
        junit.unlink(missing_ok=True)
        argv = ["ctest", "--test-dir", f"build/{preset}", "--output-junit", str(junit), "-j", JOBS, "--output-on-failure",
                "--no-tests=error", "--test-output-size-passed", "4000000", "--test-output-size-failed", "4000000"]
        for flag, value in (("-L", label), ("-LE", not_label), ("-R", only)):
            argv += [flag, value] if value else []
        if preset == "tsan" and subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0:
            argv = ["setarch", "-R", *argv]  # g++ 12's TSan cannot live with every random memory layout
        self.execute(argv, log, env, limit_s)
        if not junit.exists():
            return self.fail(name, f"ctest did not end properly: {log.relative_to(ROOT)}", since)
        totals = count_junit(junit)
        if totals.failed:
            totals.failures.append(f"output: {log.relative_to(ROOT)}")
        return self.report(name, totals, since)

    def command(self, name, argv, *, env=None, limit_s=1200):
        """A program that passes with exit 0; counts as one test."""
        since = time.monotonic()
        log = LOGS / (re.sub(r"\W+", "-", name).strip("-") + ".log")
        if self.execute(argv, log, env, limit_s) == 0:
            return self.report(name, Totals(passed=1), since)
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        print(tail, flush=True)
        return self.fail(name, f"{' '.join(map(str, argv))}: see {log.relative_to(ROOT)}", since)

    @staticmethod
    def execute(argv, log, env, limit_s):
        with open(log, "w") as out:
            try:
                return subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
                                      env={**os.environ, **(env or {})}, timeout=limit_s).returncode
            except subprocess.TimeoutExpired:
                print(f"\nended after the limit of {limit_s} s", file=out)
                return 124
            except OSError as error:
                print(error, file=out)
                return 127

    def end(self):
        """Names what was skipped, prints the totals as the last line and leaves with 0 or 1."""
        for name, reason in self.totals.skips:
            print(f"skipped: {name}: {reason}")
        for failure in self.totals.failures:
            print(f"failed: {failure}")
        print(f"took {(time.monotonic() - self.start) / 60:.1f} minutes")
        print(self.totals, flush=True)
        sys.exit(1 if self.totals.failed or not self.totals.passed else 0)
