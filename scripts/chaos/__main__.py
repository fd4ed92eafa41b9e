# SPDX-License-Identifier: Apache-2.0
"""A pool and the workers of a job under faults: processes killed by -9, stopped, drained and started again, links cut.
Every result is checked bit for bit by the workers. Prints one line for each fault: when, which, whom; by how much the longest
step of any worker that it touched was longer than the median; when all were at work again; how many results were checked in the
meantime. Ends with 0 only if no result was wrong, no call failed or hung, nobody ended or was given up without a reason, and the
times are within their limits.
"""
import argparse
import random
import shlex
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

import hosts
from faults import KINDS, deal
from run import Failed, Run

ROOT = Path(__file__).resolve().parent.parent.parent
FAILURES = {"wrong": "wrong results", "hang": "hangs", "failed": "failed collectives", "other": "other failures"}


def parse():
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="default 1")
    parser.add_argument("--seed", type=int, help="of the faults that are drawn; default: another one in each run")
    parser.add_argument("--network", choices=["auto", "lab", "loopback"], default="auto",
                        help="auto: a lab, which needs root; where there can be none, loopback, without faults of links")
    parser.add_argument("--only", default="", metavar="KINDS", help=f"of {', '.join(kind.name for kind in KINDS)}; comma separated")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--reducers", type=int, default=3)
    parser.add_argument("--rate", default="4gbit", help="of each card in the lab; default 4gbit")
    parser.add_argument("--heartbeat", type=float, default=2, metavar="S", help="limit of silence; default 2")
    parser.add_argument("--hang", type=float, default=15, metavar="S", help="no call may take longer; default 15")
    parser.add_argument("--untimed", action="store_true", help="times have no limits but that of a hang: for a machine that is busy")
    parser.add_argument("--reducer-kills", type=int, default=0, metavar="N", help="fail when there were fewer")
    parser.add_argument("--worker-kills", type=int, default=0, metavar="N", help="fail when there were fewer")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a good run, too")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("--sabotage", nargs=2, default=[], metavar=("flip|sleep|exit", "STEPS"), help="prove that the run fails then")
    options = parser.parse_args()
    options.seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    if options.reducers < 2 or options.workers < 2:
        parser.error("--reducers, --workers: at least 2, so that one can be missed")
    options.only = [name.strip() for name in options.only.split(",") if name.strip()]
    for name in options.only:
        if name not in [kind.name for kind in KINDS]:
            parser.error(f"--only: there is no '{name}'")
    return options


def chosen(options, where):
    kinds = [kind for kind in KINDS if not options.only or kind.name in options.only]
    for kind in kinds:
        if kind.needs_cables and not where.cables:
            print(f"skipped: {kind.name}: needs a lab, this is {where.name}")
    return [kind for kind in kinds if where.cables or not kind.needs_cables]


def print_fault(fault):
    print(f"{fault['at_s']:7.1f} s  {fault['kind'].name:<23} {fault['what']:<48} {1e3 * fault['extra_s']:+6.0f} ms  "
          f"whole in {fault['whole_s']:4.1f} s  {fault['checked']:6} checked", flush=True)


def play(run, kinds, options, faults):
    """Faults until the time is over, each after a calm moment."""
    draw = random.Random(options.seed)
    until = time.monotonic() + 60 * options.minutes
    for kind in deal(kinds, draw):
        calm_s = draw.uniform(0.1, 0.5)
        if time.monotonic() + calm_s > until:
            return
        run.sleep(calm_s)
        faults.append(run.strike(kind, draw))
        print_fault(faults[-1])


def by_kind(faults):
    rows = {}
    for fault in faults:
        rows.setdefault(fault["kind"], []).append(fault["extra_s"])
    return rows


def shortcomings(faults, options):
    """(kind of failure, text) for what is wrong with the run as a whole."""
    for what, kills in (("reducer", options.reducer_kills), ("worker", options.worker_kills)):
        count = total(faults, what)
        if count < kills:
            yield "other", f"{count} {what} kills, not {kills}"
    if options.untimed:
        return
    for kind, extra in by_kind(faults).items():
        if kind.median_limit_s and statistics.median(extra) > kind.median_limit_s:
            yield "other", f"{kind.name}: {statistics.median(extra):.3f} s in the median, limit {kind.median_limit_s} s"
        if kind.silence and max(extra) > options.heartbeat + 1:
            yield "other", f"{kind.name}: {max(extra):.3f} s at most, limit {options.heartbeat + 1} s"


def total(faults, what):
    return sum(fault[what] for fault in faults)


def print_summary(run, faults, failures):
    print(f"\n{'fault':<23} {'times':>6} {'median extra':>13} {'longest':>9}")
    for kind, extra in sorted(by_kind(faults).items(), key=lambda row: -len(row[1])):
        print(f"{kind.name:<23} {len(extra):6} {1e3 * statistics.median(extra):10.0f} ms {1e3 * max(extra):6.0f} ms")
    step = f"{1e3 * run.median_s():.1f} ms" if run.durations else "unknown"
    print(f"{len(faults)} faults: {total(faults, 'reducer')} reducer kills, {total(faults, 'worker')} worker kills; median step {step}; "
          f"{run.checked()} results checked")
    print(", ".join(f"{sum(kind == failed for failed, _ in failures)} {text}" for kind, text in FAILURES.items()))


def attempt(run, options, faults):
    """What went wrong, as (kind, text)."""
    try:
        run.start()
        play(run, chosen(options, run.hosts), options, faults)
        run.end()
    except Failed as failed:
        return [(failed.kind, str(failed))]
    finally:
        run.kill()
    return list(shortcomings(faults, options))


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that nothing is left behind
    folder = ROOT / "build" / "logs" / f"chaos-{options.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with hosts.find(options.network, 1 + options.reducers + options.workers, options.rate) as where:
        print(f"chaos: seed {options.seed}, {options.workers} workers, {options.reducers} reducers, {where.name}, "
              f"heartbeat limit {options.heartbeat:g} s", flush=True)
        run, faults = Run(options, where, folder), []
        failures = attempt(run, options, faults)
    print_summary(run, faults, failures)
    if not failures:
        if not options.keep:
            shutil.rmtree(folder)
        print("chaos: OK")
        return 0
    if run.pulse.longest_s > options.heartbeat / 2:
        print(f"chaos: this machine stood still for {run.pulse.longest_s:.1f} s, which alone may have caused what follows")
    for kind, text in failures:
        print(f"chaos: {FAILURES[kind]}: {text}")
    words = [*sys.argv[1:], *([] if "--seed" in sys.argv else ["--seed", str(options.seed)])]
    print(f"chaos: FAILED; logs: {folder.relative_to(ROOT)}; the same faults again: ./dev chaos {shlex.join(words)}")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except hosts.namespaces.Failure as failure:
        print(f"chaos: {failure}", file=sys.stderr)
        sys.exit(failure.code)
    except KeyboardInterrupt:
        sys.exit(130)
