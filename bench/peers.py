#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redsum's modes beside the all-reduces of Gloo and Open MPI: `./dev bench peers`.

Every program runs 4 processes on loopback that sum fp32 in place; all take turns within each repetition, so that they
meet the same machine. Every element of the results is checked on every rank: of each call of the peers, of the last
call of each run of redsum-perf. A peer that is not there is skipped by name. Ends with 1 when a program fails, an
element is wrong, or a mode of redsum takes more than --max-ratio times as long as --base.
"""
import fnmatch
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

# Of `redsumrun --mode`, with what else redsumrun is told. A new mode is one more line here.
MODES = {
    "server": common.pool,
    "direct": lambda options: [],
    "ring": lambda options: [],
}
GLOO = {  # by the name here, the algorithm of gloo_peer
    "gloo-ring": "ring",  # gloo::allreduce(), which PyTorch calls
    "gloo-ring-chunked": "ring-chunked",
    "gloo-ring-whole": "ring-whole",
    "gloo-halving-doubling": "halving-doubling",
}
# No shared memory, and nothing but loopback, which Open MPI excludes unless told otherwise.
MPI_TCP = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
MPI_SHARED_MEMORY = ["--mca", "btl", "vader,self"]


def redsum(mode, *more):
    def run(options, size, iterations):
        where = ["--mode", mode, *MODES[mode](options)]
        return common.run_redsum(options, size, iterations, where, "-I", "1", *more)["results"][0]["time_us"]
    return run


def gloo_command(options, name, size, iterations, warmup, store):
    """One rank of it, but for --rank (and --address, beyond loopback)."""
    return [options.bin / "gloo_peer", "--ranks", str(options.workers), "--store", store, "--algorithm", GLOO[name], "--bytes",
            str(size), "--iterations", str(iterations), "--warmup", str(warmup)]


def run_ranks(command, ranks, folder):
    """Runs the command once for each rank; the first to fail, or the time limit, ends the others. Returns rank 0's output."""
    outputs = [(folder / f"{rank}.out", folder / f"{rank}.err") for rank in range(ranks)]
    processes = []
    deadline = time.monotonic() + common.LIMIT_S
    try:
        for rank, (out, err) in enumerate(outputs):
            processes.append(subprocess.Popen([*command, "--rank", str(rank)], stdin=subprocess.DEVNULL,
                                              stdout=out.open("w"), stderr=err.open("w")))
        while None in (codes := [process.poll() for process in processes]) or any(codes):
            for rank, code in enumerate(codes):
                if code:
                    common.fail([*command, "--rank", rank], code, outputs[rank][1].read_text())
            if time.monotonic() > deadline:
                common.fail(command, "nothing", f"it runs for more than {common.LIMIT_S} s")
            time.sleep(0.01)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return outputs[0][0].read_text()


def gloo(name):
    def run(options, size, iterations):
        with tempfile.TemporaryDirectory(prefix="bench-peers.") as folder:
            store = Path(folder) / "store"
            store.mkdir()
            command = [*gloo_command(options, name, size, iterations, 2, store), *tamper(options)]
            return json.loads(run_ranks(command, options.workers, Path(folder)))["median_us"]
    return run


def mpi(transport):
    def run(options, size, iterations):
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(options.workers), "--mca", "oob_tcp_if_include",
                   "lo", "--mca", "pml", "ob1", *transport, options.bin / "mpi_peer", "--bytes", str(size), "--iterations",
                   str(iterations), *tamper(options)]
        return common.run_json(command)["median_us"]
    return run


def tamper(options):
    return [] if options.tamper is None else ["--tamper", str(options.tamper)]


# In the order in which they run. With no roll-back redsum keeps no copy of its input, as the others.
PROGRAMS = {
    **{f"redsum-{mode}": redsum(mode) for mode in MODES},
    **{f"redsum-{mode}-no-rollback": redsum(mode, "--no-rollback") for mode in MODES},
    **{name: gloo(name) for name in GLOO},
    "openmpi-tcp": mpi(MPI_TCP),
    "openmpi-shm": mpi(MPI_SHARED_MEMORY),
}


def missing(options, name):
    """Why the program cannot run here, or None."""
    if name.startswith("gloo") and not (options.bin / "gloo_peer").exists():
        return "Gloo was not found when this was built (Debian: libgloo-dev)"
    if name.startswith("openmpi"):
        if not (options.bin / "mpi_peer").exists():
            return "MPI was not found when this was built (Debian: libopenmpi-dev)"
        if shutil.which("mpirun") is None:
            return "no mpirun (Debian: openmpi-bin)"
        if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
            return "mpirun is not Open MPI's"
    return None


def add_ratios(rows, times, base, key):
    """rows[i] gets its time over the base's: of the medians, and the median of those of the single repetitions."""
    for row in rows:
        if base in times:
            row[key] = row["median_us"] / statistics.median(times[base])
            row[f"{key}_of_pairs"] = statistics.median(t / b for t, b in zip(times[row["program"]], times[base]))


def measure(options, names, size):
    """One row per program: the medians of its repetitions, and their ratio to the base's."""
    iterations = options.iterations or (100 if size <= 2**20 else 10)
    times = {name: [] for name in names}
    for _ in range(options.repetitions):
        for name in names:
            times[name].append(PROGRAMS[name](options, size, iterations))
    rows = [{"bytes": size, "program": name, "iterations": iterations, "times_us": times[name],
             "median_us": statistics.median(times[name])} for name in names]
    add_ratios(rows, times, options.base, "ratio")
    return rows


def print_row(row):
    ratio = f"{row['ratio']:10.3f} {row['ratio_of_pairs']:9.3f}" if "ratio" in row else ""
    line = (f"{row['bytes'] / 2**20:8g} {row['program']:26} {row['median_us'] / 1e3:9.3f} {min(row['times_us']) / 1e3:9.3f} "
            f"{max(row['times_us']) / 1e3:9.3f} {ratio}")
    print(line.rstrip(), flush=True)


def parse():
    parser = common.parser("peers", __doc__)
    parser.set_defaults(sizes="0.0625,1,16,64")
    parser.add_argument("--reducers", type=int, default=2, help="of server mode")
    parser.add_argument("--repetitions", type=int, default=5, help="of each program and size, in turn")
    parser.add_argument("--iterations", type=int, help="of each repetition, whose median counts; default: 100 up to 1 MiB, else 10")
    parser.add_argument("--only", default="*", help="programs to run, comma separated patterns, e.g. 'redsum-*,gloo-ring'")
    parser.add_argument("--base", default="gloo-ring", choices=PROGRAMS, metavar="PROGRAM", help="what ratios are over; default gloo-ring")
    parser.add_argument("--tamper", type=int, help="this rank of the peers changes one bit of a result: it must be noticed")
    return parser.parse_args()


def chosen(options):
    """(those to run, {name: why it is skipped})"""
    wanted = [name for name in PROGRAMS if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.only.split(","))]
    if not wanted:
        sys.exit(f"bench-peers: --only {options.only}: matches none of {', '.join(PROGRAMS)}")
    skipped = {name: why for name in wanted if (why := missing(options, name))}
    return [name for name in wanted if name not in skipped], skipped


def main():
    options = parse()
    load = os.getloadavg()
    names, skipped = chosen(options)
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")
    if options.max_ratio and options.base not in names:
        sys.exit(f"bench-peers: --max-ratio is over {options.base}, which does not run")
    rows = []
    print(f"{'MiB':>8} {'program':26} {'ms':>9} {'least':>9} {'most':>9} {'/' + options.base:>10} {'of pairs':>9}", flush=True)
    for size in options.sizes.split(","):
        for row in measure(options, names, int(float(size) * 2**20)):
            rows.append(row)
            print_row(row)
    cpus = len(os.sched_getaffinity(0))
    print(f"{options.workers} workers, server mode with {options.reducers} reducers of {options.shards} shards, fp32 sum in place, "
          f"loopback, {cpus} CPUs, load before {load[0]:.1f}; medians of {options.repetitions} runs")
    return common.finish("peers", options, rows, load_average_before=load, workers=options.workers, reducers=options.reducers,
                         shards=options.shards, cpus=cpus, base=options.base, skipped=skipped)


if __name__ == "__main__":
    sys.exit(main())
