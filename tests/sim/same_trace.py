# SPDX-License-Identifier: Apache-2.0
"""same_trace.py SEEDS PROGRAM PROGRAM...: the simulator built in different ways does the same, event by event."""
import re
import subprocess
import sys


def trace(program, seeds):
    run = subprocess.run([program, "--seeds", seeds], capture_output=True, text=True)
    found = re.search(r"trace ([0-9a-f]{16})", run.stdout)
    if run.returncode != 0 or not found:
        sys.exit(f"{program} ended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return found[1]


def main(seeds, *programs):
    traces = {program: trace(program, seeds) for program in programs}
    for program, found in traces.items():
        print(f"{found}  {program}")
    if len(programs) < 2 or len(set(traces.values())) != 1:
        sys.exit(f"the traces of seeds 0 to {int(seeds) - 1} differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
