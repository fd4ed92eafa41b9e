# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks' programs share: where the built programs are, and how a run ends."""
import argparse
import json
import sys
from pathlib import Path


def parser(name, doc):
    """For bench-NAME, with the flags that all have; `doc` becomes the help text."""
    here = Path(sys.argv[0]).absolute()
    built = here.parent if here.name == f"bench-{name}" else Path(__file__).resolve().parent.parent / "build/release/bin"
    made = argparse.ArgumentParser(prog=f"bench-{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bin", type=Path, default=built, help="folder of the built programs")
    made.add_argument("--workers", type=int, default=4)
    made.add_argument("--shards", type=int, default=1, help="of each reducer")
    made.add_argument("--sizes", default="16,64", help="in MiB, comma separated")
    made.add_argument("--max-ratio", type=float, help="fail above it")
    made.add_argument("--json", type=Path, help=f"default: bench/{name}.json in the build folder")
    return made


def finish(name, options, rows, **more):
    """Writes the rows (and what else there is) to the JSON file. The exit code: 1 where a ratio is above --max-ratio."""
    path = options.json or options.bin.parent / f"bench/{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**more, "rows": rows}, indent=2) + "\n")
    too_slow = [row for row in rows if options.max_ratio and row["ratio"] > options.max_ratio]
    if too_slow:
        print(f"bench-{name}: the ratio {too_slow[0]['ratio']:.3f} is above {options.max_ratio}")
    return 1 if too_slow else 0
