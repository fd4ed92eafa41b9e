#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redsum against the limit of the network: `./dev bench lab`, as root.

Makes a lab (`./dev lab`) in which every worker and every reducer has a host with a network card of the same rate, runs
redsum-perf on the workers (fp32 sum, every element checked) and prints the time of an all-reduce of S bytes against its
ceiling: in server mode S/B where the pool has the workers' bandwidth, times workers/reducers where it has less; where the
workers send to each other 2(n-1)/n S/B. The modes and the peers (Gloo, on the same hosts) take turns.
Ends with 1 when a program fails, an element is wrong, or redsum takes more than --max-ratio times the ceiling, or more
than --max-peer-ratio times as long as the first peer.
"""
import contextlib
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import peers

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "lab.py"
LIMIT_S = 600
READY_LIMIT_S = 20
PORT = 7400


def fail(text):
    sys.exit(f"bench-lab: {text}")


class Lab:
    def __init__(self, hosts, rate, folder):
        self.argv = [sys.executable, "-B", str(SCRIPT), "--lab", f"bench{os.getpid()}"]
        self.folder, self.hosts, self.rate = folder, hosts, rate

    def __enter__(self):
        self.call("up", "--hosts", self.hosts, "--rate", self.rate)
        return self

    def __exit__(self, *_):
        self.call("down")  # ends what still runs, too

    def call(self, *words):
        done = subprocess.run([*self.argv, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            fail(done.stderr.strip())
        return done.stdout

    def start(self, host, name, *words, **environment):
        """The program on a host, its output in a file of its name."""
        with open(self.folder / f"{name}.out", "w") as out, open(self.folder / f"{name}.err", "w") as err:
            return subprocess.Popen([*self.argv, "exec", host, *map(str, words)], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env={**os.environ, **environment})

    def text(self, name):
        return (self.folder / f"{name}.out").read_text() + (self.folder / f"{name}.err").read_text()


def address(host):
    return f"10.77.0.{int(host[1:]) + 1}"


def ready(file):
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        return json.loads(file.read_text())["ready"]
    return False


def start_pool(lab, options, hosts):
    """A reducer on each host; the coordinator, which sees no gradient, beside the first. Back when all take jobs."""
    coordinator = f"{address(hosts[0])}:{PORT}"
    common = ["--secret-file", lab.folder / "secret", "--admin", "off", "--min-reducers", len(hosts)]
    started = []
    for name, host, role in [("coordinator", hosts[0], ["--role", "coordinator", "--control", coordinator]),
                             *((f"reducer-{host}", host, ["--role", "reducer", "--coordinators", coordinator, "--data",
                                f"{address(host)}:{PORT + 1}", "--shards", options.shards]) for host in hosts)]:
        ports = lab.folder / f"{name}.ports"
        started.append((name, ports, lab.start(host, name, options.bin / "redsumd", *role, *common, "--ports-file", ports)))
    deadline = time.monotonic() + READY_LIMIT_S
    for name, ports, process in started:
        while not ready(ports):
            if process.poll() is not None or time.monotonic() > deadline:
                fail(f"{name} is not ready:\n{lab.text(name)}")
            time.sleep(0.02)
    return coordinator


def run_ranks(lab, options, name, command, environment):
    """Runs the command on all workers' hosts. `command` and `environment` are functions of the rank. Returns rank 0's output."""
    workers = [lab.start(f"h{rank}", f"{name}-{rank}", *command(rank), **environment(rank)) for rank in range(options.workers)]
    deadline = time.monotonic() + LIMIT_S
    for rank, worker in enumerate(workers):
        try:
            status = worker.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = f"no status in {LIMIT_S} s"
        if status != 0:
            fail(f"rank {rank} ended with {status}:\n{lab.text(f'{name}-{rank}')}")
    return json.loads((lab.folder / f"{name}-0.out").read_text())


def run_redsum(lab, options, coordinator, mode, size, name):
    result = run_ranks(
        lab, options, name,
        lambda rank: [options.bin / "redsum-perf", *common.perf_flags(size, options.iterations, 1), "--mode", mode],
        lambda rank: {"REDSUM_COORDINATOR": coordinator, "REDSUM_JOB_ID": name, "REDSUM_SECRET_FILE": str(lab.folder / "secret"),
                      "RANK": str(rank), "WORLD_SIZE": str(options.workers)})
    if result["total_wrong"] != 0:
        fail(f"{result['total_wrong']} elements came out wrong")
    return result["results"][0]["time_us"], {key: result[key] for key in ("shards", "chunk_bytes", "window", "transport", "cpus")}


def run_gloo(lab, options, peer, size, name):
    """Checks every element itself. Files are those of this machine, so the ranks can meet in a folder."""
    store = lab.folder / f"{name}.store"
    store.mkdir()
    command = peers.gloo_command(options, peer, size, options.iterations, 1, store)
    result = run_ranks(lab, options, name, lambda rank: [*command, "--rank", rank, "--address", address(f"h{rank}")], lambda rank: {})
    return result["median_us"], {}


def measure(lab, options, coordinator, size):
    """One row for each mode and peer; each repetition runs all of them."""
    programs = {f"redsum-{mode}": mode for mode in options.mode.split(",")} | {peer: None for peer in options.peers}
    times, details = {name: [] for name in programs}, {}
    for number in range(options.repetitions):
        for name, mode in programs.items():
            job = f"{name}-{size}-{number}"
            time_us, details[name] = (run_redsum(lab, options, coordinator, mode, size, job) if mode else
                                      run_gloo(lab, options, name, size, job))
            times[name].append(time_us)
    line = 8e6 * size / lab.bits_per_second  # us that S bytes take on one card
    rows = []
    for name, mode in programs.items():
        ceiling = line * (max(1, options.workers / options.reducers) if mode == "server" else 2 * (options.workers - 1) / options.workers)
        median = statistics.median(times[name])
        rows.append({"bytes": size, "program": name, "time_us": times[name], "median_us": median, "ceiling_us": ceiling,
                     "ratio": median / ceiling, **details[name]})
    peers.add_ratios(rows, times, options.peers[0] if options.peers else None, "peer_ratio")
    return rows


def print_row(row):
    peer = f"{row['peer_ratio']:10.3f} {row['peer_ratio_of_pairs']:9.3f}" if "peer_ratio" in row else ""
    print(f"{row['bytes'] / 2**20:6g} {row['program']:22} {row['median_us'] / 1e3:10.1f} {row['ceiling_us'] / 1e3:13.1f} "
          f"{row['ratio']:13.3f} {peer}".rstrip(), flush=True)


def parse():
    parser = common.parser("lab", __doc__)
    parser.add_argument("--reducers", type=int, default=4)
    parser.add_argument("--rate", default="500mbit", help="of every card, each way")
    parser.add_argument("--mode", default="server", help="modes of redsum-perf, comma separated")
    parser.add_argument("--peer", default="", help=f"to run in turn with them, comma separated: {', '.join(peers.GLOO)}")
    parser.add_argument("--max-peer-ratio", type=float, help="fail where redsum's time over the first peer's is above it")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each size, whose median counts")
    parser.add_argument("--iterations", type=int, default=5, help="of each run")
    options = parser.parse_args()
    options.peers = [name for name in options.peer.split(",") if name]
    for name in options.peers:
        if name not in peers.GLOO:
            parser.error(f"--peer {name}: none of {', '.join(peers.GLOO)}")
        if why := peers.missing(options, name):
            fail(f"{name}: {why}")
    if options.max_peer_ratio and not options.peers:
        parser.error("--max-peer-ratio needs a --peer")
    return options


def print_drops(status):
    dropped = sum(row[way]["drops"] for row in status["hosts"] for way in ("sent", "received"))
    print(f"{dropped} packets of {sum(row['sent']['bytes'] for row in status['hosts']) / 1e9:.2f} GB were dropped in the lab")


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the lab is removed
    rows, load = [], os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="bench-lab.") as folder, \
            Lab(options.workers + options.reducers, options.rate, Path(folder)) as lab:
        secret = lab.folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex() + "\n")
        lab.bits_per_second = json.loads(lab.call("status", "--json"))["rate_bps"]
        coordinator = start_pool(lab, options, [f"h{options.workers + i}" for i in range(options.reducers)])
        peer = f"{'/' + options.peers[0]:>10} {'of pairs':>9}" if options.peers else ""
        print(f"{'MiB':>6} {'program':22} {'time (ms)':>10} {'ceiling (ms)':>13} {'time/ceiling':>13} {peer}".rstrip(), flush=True)
        for size in options.sizes.split(","):
            for row in measure(lab, options, coordinator, int(float(size) * 2**20)):
                rows.append(row)
                print_row(row)
        status = json.loads(lab.call("status", "--json"))
    first = rows[0]
    print(f"{options.workers} workers, {options.reducers} reducers of {options.shards} shards, chunk {first['chunk_bytes']}, "
          f"window {first['window']}, {first['transport']}, a card of {options.rate} each, cpus {first['cpus']}, "
          f"load before {load[0]:.1f}; medians of {options.repetitions} runs of {options.iterations}")
    print_drops(status)
    network = {key: status[key] for key in ("rate_bps", "delay_us", "mtu", "burst", "queue", "tcp")}
    return common.finish("lab", options, rows, load_average_before=load, network=network, workers=options.workers,
                         reducers=options.reducers, shards=options.shards)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
