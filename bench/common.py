# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks' programs share: where the built programs are, how they are run, and how a run ends."""
import argparse
import json
import subprocess
import sys
from pathlib import Path

LIMIT_S = 300


def parser(name, doc):
    """For bench-NAME, with the flags that all have; `doc` becomes the help text."""
    here = Path(sys.argv[0]).absolute()
    built = here.parent if here.name == f"bench-{name}" else Path(__file__).resolve().parent.parent / "build/release/bin"
    made = argparse.ArgumentParser(prog=f"bench-{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bin", type=Path, default=built, help="folder of the built programs")
    made.add_argument("--workers", type=int, default=4)
    made.add_argument("--shards", type=int, default=1, help="of each reducer")
    made.add_argument("--sizes", default="16,64", help="in MiB, comma separated")
    made.add_argument("--max-ratio", type=float, help="fail where redsum is above it")
    made.add_argument("--json", type=Path, help=f"default: bench/{name}.json in the build folder")
    return made


def fail(command, code, text):
    sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(map(str, command))} ended with {code}:\n{text}")


def run_json(command):
    """The one JSON object that the command prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        fail(command, done.returncode, done.stderr + done.stdout)
    return json.loads(done.stdout)


def perf_flags(size, iterations, warmup):
    """Of redsum-perf: one size, every element of the last result checked on every rank."""
    return ["-b", str(size), "-e", str(size), "-n", str(iterations), "-w", str(warmup), "-d", "fp32", "-o", "sum", "-c", "1", "--format", "json"]


def run_redsum(options, size, iterations, where, *more):
    """redsum-perf on loopback; `where` is what redsumrun is told about the mode and the pool, `more` goes to redsum-perf."""
    command = [options.bin / "redsumrun", "-np", str(options.workers), *where, "--no-prefix", options.bin / "redsum-perf",
               *perf_flags(size, iterations, 2), *more]
    result = run_json(command)
    if result["total_wrong"] != 0:
        fail(command, 0, f"{result['total_wrong']} elements came out wrong")
    return result


def pool(options):
    return ["--reducers", str(options.reducers), "--shards", str(options.shards)]


def finish(name, options, rows, **more):
    """Writes the rows (and what else there is) to the JSON file. The exit code: 1 where one of redsum's ratios is above its limit."""
    path = options.json or options.bin.parent / f"bench/{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**more, "rows": rows}, indent=2) + "\n")
    code = 0
    for ratio in ("ratio", "peer_ratio"):
        limit = getattr(options, f"max_{ratio}", None)
        for row in rows:
            program = row.get("program", "redsum")
            if limit and program.startswith("redsum") and row.get(ratio, 0) > limit:
                print(f"bench-{name}: {program}, {row['bytes'] / 2**20:g} MiB: {ratio} {row[ratio]:.3f} is above {limit}")
                code = 1
    return code
