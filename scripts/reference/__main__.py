# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference and docs/man: written from the code, or compared with it. `./dev docs --write` builds the
programs and writes all of them; without --bin only those are looked at that need no programs, so that lint stays fast."""
import argparse
import sys
from pathlib import Path

import c_api
import cpp_api
import environment
import man
import programs

ROOT = Path(__file__).resolve().parent.parent.parent


def from_sources(files, configuration):
    """{path: text} of the pages that need the tree only."""
    return {"docs/reference/c-api.md": c_api.page(files["client/redsum.h"]),
            "docs/reference/cpp-api.md": cpp_api.page(files["client/redsum.hpp"]),
            "docs/reference/environment.md": environment.page(files, configuration)}


def from_programs(folder, files):
    """{path: text} of the pages that the built programs print or describe."""
    made = {"docs/reference/configuration.md": programs.output(folder, "redsumd", "--print-reference"),
            "configs/redsumd.toml": programs.output(folder, "redsumd", "--print-example")}
    described = [programs.read(folder, name) for name in programs.PROGRAMS]
    programs.with_settings(described[0], made["docs/reference/configuration.md"])
    return {**made, "docs/reference/commands.md": programs.page(described), **man.pages(described, files)}


def stale(made, root=ROOT):
    for path, text in made.items():
        here = (root / path).read_text() if (root / path).exists() else ""
        if here != text:
            line = next((number for number, (a, b) in enumerate(zip(here.split("\n"), text.split("\n")), 1) if a != b), 1)
            yield f"{path}:{line}: is not what the code says; run ./dev docs --write"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, help="folder of the built programs; without it their pages are left alone")
    parser.add_argument("--write", action="store_true", help="write the pages instead of comparing")
    options = parser.parse_args()
    files = environment.sources(ROOT)
    made = from_programs(options.bin.resolve(), files) if options.bin else {}
    configuration = made.get("docs/reference/configuration.md") or (ROOT / "docs/reference/configuration.md").read_text()
    made.update(from_sources(files, configuration))
    found = list(environment.problems(files, configuration))
    found += [f"client/redsum.h: {name} has no comment" for name in c_api.undocumented(files["client/redsum.h"])]
    if options.write:
        for path, text in made.items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
    else:
        found += stale(made)
    print("\n".join(found) or f"reference: {len(made)} pages " + ("written" if options.write else "agree with the code"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
