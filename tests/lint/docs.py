# SPDX-License-Identifier: Apache-2.0
"""The documents against the code: links lead somewhere, named files exist, shown programs are the compiled ones, and the
header table of docs/protocol.md is the struct of transport/wire/header.h."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WIDTH = {"std::uint8_t": 1, "FrameType": 1, "DType": 1, "Op": 1, "std::uint16_t": 2, "std::uint32_t": 4, "std::uint64_t": 8}


def documents():
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def broken_links(path, text):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
            yield f"the link {target} leads nowhere"


def missing_files(text):
    """Paths in backticks that look like ours must exist; a folder counts too."""
    for name in re.findall(r"`((?:server|client|transport|kernels|bench|tests|configs|docs|examples|scripts|cmake)/[\w./{},-]*)`", text):
        for one in expand(name):
            if not (ROOT / one).exists():
                yield f"`{one}` does not exist"


def expand(name):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    match = re.search(r"\{([^}]*)\}", name)
    return [name] if not match else [name[:match.start()] + part + name[match.end():] for part in match[1].split(",")]


def stale_programs(text):
    """A block that is introduced by <!-- file: PATH --> is that file, without its licence line."""
    for name, block in re.findall(r"<!-- file: (\S+) -->\n+```\w*\n(.*?)```", text, re.S):
        source = (ROOT / name).read_text() if (ROOT / name).exists() else ""
        body = "".join(line for line in source.splitlines(keepends=True) if "SPDX-License-Identifier" not in line)
        if block.strip() != body.strip():
            yield f"the program shown is not {name} any more"


def struct_fields(text):
    """(offset, bytes, name) of wire::Header, in order."""
    body = re.search(r"struct Header \{(.*?)\n\s*bool has", text, re.S)[1]
    offset, fields = 0, []
    for kind, name in re.findall(r"^\s*(\S+) (\w+)(?: = [^;]+)?;", body, re.M):
        fields.append((offset, WIDTH[kind], name))
        offset += WIDTH[kind]
    return fields


def table_fields(text):
    return [(int(offset), int(size), name) for offset, size, name in re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", text, re.M)]


def wrong_header_table(protocol, header):
    wanted, shown = struct_fields(header), table_fields(protocol)
    if sum(size for _, size, _ in wanted) != 64:
        yield "cannot read wire::Header"
    for field in wanted:
        if field not in shown:
            yield f"the header table lacks (offset, bytes, name) {field}"
    for field in shown:
        if field not in wanted:
            yield f"the header table has {field}, which wire::Header has not"


def missing_messages(protocol, control):
    names = re.findall(r"^struct (\w+)", control.split("// -- a worker's life")[1], re.M)
    for name in names:
        wire = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        if f"`{wire}`" not in protocol:
            yield f"control message `{wire}` is not described"


def self_test():
    """Each check finds a planted fault."""
    header = (ROOT / "transport/wire/header.h").read_text()
    readme = ROOT / "README.md"
    planted = [
        list(broken_links(readme, "[a](nowhere.md)")), list(missing_files("`server/nothing.cc`")),
        list(stale_programs("<!-- file: examples/first_allreduce.cc -->\n```cpp\nint main() {}\n```")),
        list(wrong_header_table("| 0 | 4 | `magic` |", header)),
        list(missing_messages("", "// -- a worker's life\nstruct JoinAll { };")),
    ]
    return [f"check {number} of tests/lint/docs.py cannot fail" for number, found in enumerate(planted) if not found]


def main():
    problems = self_test()
    for path in documents():
        text = path.read_text()
        for problem in [*broken_links(path, text), *missing_files(text), *stale_programs(text)]:
            problems.append(f"{path.relative_to(ROOT)}: {problem}")
    page = ROOT / "docs/protocol.md"
    protocol = page.read_text() if page.exists() else ""
    for problem in [*wrong_header_table(protocol, (ROOT / "transport/wire/header.h").read_text()),
                    *missing_messages(protocol, (ROOT / "transport/wire/control.h").read_text())]:
        problems.append(f"docs/protocol.md: {problem}")
    print("\n".join(problems) or f"docs: {len(documents())} documents agree with the code")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
