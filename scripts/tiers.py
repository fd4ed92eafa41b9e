# SPDX-License-Identifier: Apache-2.0
"""The test tiers: quick, push, label NAME, full. What each contains stands here and nowhere else."""
import argparse
import os
import subprocess
import sys

import abi
import verification
from runner import JOBS, ROOT, Runner

CORE = "^(unit|conformance)$"  # labels of the tests that need one process only


def lint(run):
    run.command("lint", [ROOT / "dev", "lint"], limit_s=300)


def simulate(run, preset, seeds):
    run.command(f"simulation, {seeds} seeds ({preset})", [f"build/{preset}/tests/sim_world", "--seeds", str(seeds)])


def same_trace(run, *presets):
    run.command(f"simulation, the same trace from {' and '.join(presets)}",
                [sys.executable, "tests/sim/same_trace.py", "200", *[f"build/{preset}/tests/sim_world" for preset in presets]])


def mutants(run):
    """Every deliberate fault must be caught: the simulator fails when one is not."""
    if run.build("dev", ["sim_world"]):
        run.command("simulation, every mutant is caught", ["build/dev/tests/sim_world", "--mutant", "all", "--seeds", "300"], limit_s=900)


def quick(run):
    lint(run)
    if run.build("release"):
        run.ctest("unit and conformance", "release", label=CORE)
        simulate(run, "release", 200)


def push(run):
    lint(run)
    if run.build("release"):
        run.command("demo", [ROOT / "dev", "demo"], limit_s=300)  # first: it fetches the digits that other tests use
        run.ctest("unit, conformance, corpora (release)", "release", not_label="^(e2e|lab|sim)$")
        run.ctest("processes (release)", "release", label="^e2e$", limit_s=900)
        run.ctest("processes in a lab of rate-limited networks (release)", "release", label="^lab$")
        simulate(run, "release", 2000)
    mutants(run)
    same_trace(run, "release", "dev")
    if run.build_label("asan", CORE) and run.build("asan", ["sim_world"]):
        run.ctest("unit, conformance (ASan, UBSan)", "asan", label=CORE)
        simulate(run, "asan", 200)
    if run.build_label("tsan", "^threads$"):
        run.ctest("threads (TSan)", "tsan", label="^threads$")
    verification.show(FULL)


def sanitized(preset):
    def check(run):
        if run.build(preset):
            run.ctest(f"everything ({preset})", preset, not_label="^lint$", limit_s=3600)
    return check


def seeds(run):
    if run.build("release", ["sim_world"]):
        simulate(run, "release", 20000)


def chaos(run):
    if run.build("release", ["redsumd", "chaos_worker"]):
        run.command("chaos, 10 minutes", [ROOT / "dev", "chaos", "--minutes", "10", "--reducer-kills", "100", "--worker-kills", "50"], limit_s=900)


def clang(run):
    """The whole tree with the other compiler; the arithmetic must give the same bits."""
    run.command("clang: configure", ["cmake", "-S", ".", "-B", "build/clang", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                                     "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", "-DREDSUM_WERROR=ON",
                                     "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"])
    if run.command("clang: build", ["cmake", "--build", "build/clang", "--parallel", JOBS], limit_s=3600):
        run.ctest("clang: unit, conformance", "clang", label=CORE)
        if run.build("release", ["sim_world"]):
            same_trace(run, "release", "clang")


def aarch64(run):
    """The NEON body of the kernels: cross-compiled, run under qemu-user."""
    toolchain = [f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/scripts/aarch64/toolchain.cmake", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-G", "Ninja",
                 "-DREDSUM_WERROR=ON"]
    run.command("aarch64: configure", ["cmake", "-S", "scripts/aarch64", "-B", "build/aarch64", *toolchain])
    if run.command("aarch64: build", ["cmake", "--build", "build/aarch64", "--parallel", JOBS], limit_s=1800):
        run.ctest("aarch64: kernels under qemu", "aarch64", limit_s=1800)


def tidy(run):
    """clang-tidy over our sources, with the commands of the release build."""
    if not run.build("release"):
        return
    files = subprocess.run(["git", "ls-files", "*.cc"], capture_output=True, text=True, cwd=ROOT).stdout.split()
    run.command("clang-tidy", ["xargs", "-a", "/dev/null"] if not files else
                ["sh", "-c", f"printf '%s\\n' \"$@\" | xargs -n 1 -P {JOBS} clang-tidy -p build/release --quiet", "tidy", *files],
                limit_s=3600)


def interface(run):
    """libredsum against the last release; before the first there is nothing to compare with, which is no pass."""
    name = "binary interface against the last tag"
    if abi.last_tag() is None:
        run.skip(name, "no tag yet")
    else:
        run.command(name, [ROOT / "dev", "abi"], limit_s=1800)


def fuzz(run):
    if run.build("fuzz"):
        run.command(f"fuzz, {OPTIONS.fuzz_seconds} s for each parser", [ROOT / "dev", "fuzz", "", str(OPTIONS.fuzz_seconds)],
                    limit_s=36000)


FULL = {
    "everything under ASan and UBSan": sanitized("asan"),
    "everything under TSan": sanitized("tsan"),
    "20,000 simulation seeds": seeds,
    "chaos, 10 minutes": chaos,
    "clang build": clang,
    "aarch64 kernels under qemu": aarch64,
    "clang-tidy": tidy,
    "binary interface": interface,
    "fuzzing": fuzz,
}


def full(run):
    for check, function in FULL.items():
        before = run.totals.failed, run.totals.passed, run.totals.skipped
        print(f"== {check}", flush=True)
        function(run)
        failed, passed = run.totals.failed - before[0], run.totals.passed - before[1]
        only_skipped = not failed and not passed and run.totals.skipped > before[2]
        result = "skipped" if only_skipped else "failed" if failed or not passed else "passed"
        verification.record(check, result, f"{passed} passed, {failed} failed")
    verification.show(FULL)


def label(run):
    if run.build("release"):
        for name in OPTIONS.labels:
            run.ctest(f"label {name}", "release", label=f"^{name}$")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="run one test tier")
    parser.add_argument("tier", choices=["quick", "push", "label", "full"])
    parser.add_argument("labels", nargs="*")
    parser.add_argument("--fuzz-seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "600")))
    OPTIONS = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    runner = Runner()
    {"quick": quick, "push": push, "label": label, "full": full}[OPTIONS.tier](runner)
    runner.end()
