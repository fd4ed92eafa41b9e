#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Server mode against its ceiling on loopback: `./dev bench echo`.

Runs redsum-perf (4 workers, 2 reducers, fp32 sum, every element checked) and an echo program of the same bytes over the
same kind of sockets in turn, so that both meet the same machine, and prints the medians and their ratio.
Ends with 1 when a program fails, an element is wrong, or the ratio is above --max-ratio.
"""
import os
import statistics
import sys

import common

def run_echo(options, size, like):
    """The echo with the lanes, chunks and window that redsum used."""
    return common.run_json([options.bin / "echo_bench", "--workers", str(options.workers), "--servers", str(like["shards"]),
                            "--bytes", str(size), "--chunk", str(like["chunk_bytes"]), "--window", str(like["window"]),
                            "--iterations", str(options.iterations), "--warmup", "2"])


def measure(options, size):
    redsum, echo = [], []
    for _ in range(options.repetitions):
        result = common.run_redsum(options, size, options.iterations, common.pool(options))
        redsum.append(result["results"][0]["time_us"])
        echo.append(run_echo(options, size, result)["median_us"])
    row = {"bytes": size, "redsum_us": redsum, "echo_us": echo, "redsum_median_us": statistics.median(redsum),
           "echo_median_us": statistics.median(echo)}
    row["ratio"] = row["redsum_median_us"] / row["echo_median_us"]
    row["ratio_of_pairs"] = statistics.median(r / e for r, e in zip(redsum, echo))
    row.update({key: result[key] for key in ("reducers", "shards", "chunk_bytes", "window", "transport", "cpus")})
    return row


def parse():
    parser = common.parser("echo", __doc__)
    parser.add_argument("--reducers", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5, help="of each program and size, in turn")
    parser.add_argument("--iterations", type=int, default=10, help="of each repetition, whose median counts")
    return parser.parse_args()


def main():
    options = parse()
    rows = []
    print(f"{'MiB':>6} {'redsum (ms)':>12} {'echo (ms)':>10} {'redsum/echo':>12} {'of pairs':>9}", flush=True)
    for size in options.sizes.split(","):
        row = measure(options, int(float(size) * 2**20))
        rows.append(row)
        print(f"{float(size):6g} {row['redsum_median_us'] / 1e3:12.2f} {row['echo_median_us'] / 1e3:10.2f} "
              f"{row['ratio']:12.3f} {row['ratio_of_pairs']:9.3f}", flush=True)
    first = rows[0]
    print(f"{options.workers} workers, {first['reducers']} reducers, {first['shards']} shards in all, chunk {first['chunk_bytes']}, "
          f"window {first['window']}, {first['transport']} on loopback, cpus {first['cpus']}; medians of "
          f"{options.repetitions} runs of {options.iterations}")
    return common.finish("echo", options, rows, load_average=os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
