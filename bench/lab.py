#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redsum against the limit of the network: `./dev bench lab`, as root.

Makes a lab (`./dev lab`) in which every worker and every reducer has a host with a network card of the same rate, runs
redsum-perf on the workers (fp32 sum, every element checked) and prints the time of an all-reduce of S bytes against the
ceiling of server mode: S/B where the pool has the workers' bandwidth, times workers/reducers where it has less.
Ends with 1 when a program fails, an element is wrong, or the time is above --max-ratio times the ceiling.
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


def run_job(lab, options, coordinator, size, number):
    """The result of one run of redsum-perf on all workers."""
    job = f"bench-{size}-{number}"
    workers = []
    for rank in range(options.workers):
        workers.append(lab.start(
            f"h{rank}", f"{job}-{rank}", options.bin / "redsum-perf", "-b", size, "-e", size, "-n", options.iterations, "-w", 1, "-d", "fp32",
            "-o", "sum", "-c", 1, "--mode", options.mode, "--format", "json", REDSUM_COORDINATOR=coordinator, REDSUM_JOB_ID=job,
            REDSUM_SECRET_FILE=str(lab.folder / "secret"), RANK=str(rank), WORLD_SIZE=str(options.workers)))
    deadline = time.monotonic() + LIMIT_S
    for rank, worker in enumerate(workers):
        try:
            status = worker.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = f"no status in {LIMIT_S} s"
        if status != 0:
            fail(f"rank {rank} ended with {status}:\n{lab.text(f'{job}-{rank}')}")
    result = json.loads((lab.folder / f"{job}-0.out").read_text())
    if result["total_wrong"] != 0:
        fail(f"{result['total_wrong']} elements came out wrong")
    return result


def measure(lab, options, coordinator, size):
    times = []
    for number in range(options.repetitions):
        result = run_job(lab, options, coordinator, size, number)
        times.append(result["results"][0]["time_us"])
    line = 8e6 * size / lab.bits_per_second  # us that S bytes take on one card
    row = {"bytes": size, "time_us": times, "median_us": statistics.median(times),
           "ceiling_us": line * max(1, options.workers / options.reducers),
           "ring_ceiling_us": line * 2 * (options.workers - 1) / options.workers}
    row["ratio"] = row["median_us"] / row["ceiling_us"]
    row.update({key: result[key] for key in ("mode", "reducers", "shards", "chunk_bytes", "window", "transport", "cpus")})
    return row


def parse():
    parser = common.parser("lab", __doc__)
    parser.add_argument("--reducers", type=int, default=4)
    parser.add_argument("--rate", default="500mbit", help="of every card, each way")
    parser.add_argument("--mode", default="server", help="passed on to redsum-perf")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each size, whose median counts")
    parser.add_argument("--iterations", type=int, default=5, help="of each run")
    return parser.parse_args()


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
        print(f"{'MiB':>6} {'time (ms)':>10} {'ceiling (ms)':>13} {'time/ceiling':>13} {'ring ceiling (ms)':>18}", flush=True)
        for size in options.sizes.split(","):
            row = measure(lab, options, coordinator, int(float(size) * 2**20))
            rows.append(row)
            print(f"{float(size):6g} {row['median_us'] / 1e3:10.1f} {row['ceiling_us'] / 1e3:13.1f} {row['ratio']:13.3f} "
                  f"{row['ring_ceiling_us'] / 1e3:18.1f}", flush=True)
        status = json.loads(lab.call("status", "--json"))
    first = rows[0]
    print(f"{options.workers} workers, {first['reducers']} reducers, {first['shards']} shards in all, mode {first['mode']}, "
          f"chunk {first['chunk_bytes']}, window {first['window']}, {first['transport']}, a card of {options.rate} each, "
          f"cpus {first['cpus']}, load before {load[0]:.1f}; medians of {options.repetitions} runs of {options.iterations}")
    print_drops(status)
    network = {key: status[key] for key in ("rate_bps", "delay_us", "mtu", "burst", "queue", "tcp")}
    return common.finish("lab", options, rows, load_average_before=load, network=network)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
