# SPDX-License-Identifier: Apache-2.0
"""What the programs say of themselves with --help, as data, and docs/reference/commands.md made of it. The layout is CLI11's:
a description, `Usage:`, then sections whose entries have the name in the first 30 columns and the meaning behind it, or on the
line below where the name is long."""
import re
import subprocess
from dataclasses import dataclass, field

import markup

PROGRAMS = ("redsumd", "redsumctl", "redsumrun", "redsum-perf")
COLUMN = 30
TYPES = {"INT": "integer", "UINT": "integer", "FLOAT": "number", "TEXT": "text", "FILE": "existing file", "POSITIVE": "positive",
         "SIZE": "size", "TIME": "time", "ADDRESS": "address", "LIST": "list"}


@dataclass
class Entry:
    names: list  # of a flag, or the name of an argument or subcommand
    value: str  # what it takes; "" for a plain flag
    default: str
    meaning: str
    required: bool = False
    repeats: bool = False


@dataclass
class Program:
    name: str  # "redsumctl status" for a subcommand
    version: str
    summary: str  # one line
    description: str
    exit_codes: str  # the sentence of the description that begins with "Exit code:"
    usage: str
    sections: list  # (title, entries)
    examples: list  # indented lines of the description
    subcommands: list = field(default_factory=list)


def value_text(text):
    """CLI11's `INT:INT in [1 - 4096]`, `TEXT:{text,json}`, `TEXT` in words."""
    kind, _, limit = text.partition(":")
    kind = TYPES.get(kind, " or ".join(re.sub(r"\|", ", ", kind).rsplit(", ", 1)))
    span = re.fullmatch(r"\w+ in \[(\S+) - (\S+)\]", limit)
    if span:
        return f"{kind}, {span[1]} to {span[2]}"
    words = re.fullmatch(r"\{(.*)\}", limit)
    if words:
        return " or ".join(words[1].replace(",", ", ").rsplit(", ", 1))
    if limit:
        return TYPES[limit] if limit == "FILE" else f"{kind}, {TYPES[limit]}"
    return kind


def entry(head, meaning):
    names, _, rest = head.partition(" ")
    required = rest.endswith(" REQUIRED")
    rest = rest.removesuffix(" REQUIRED")
    repeats = rest.endswith(" ...")
    rest = rest.removesuffix(" ...")
    value, _, default = rest.partition("=")
    bracket = re.search(r" \[([^\]\s]+)\]$", meaning)  # redsumd's way to say it
    if bracket:
        meaning, default = meaning[:bracket.start()], bracket[1]
    return Entry(names.split(","), value_text(value.strip()), default, meaning, required, repeats)


def sections_of(lines):
    sections, exits = [], ""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if re.match(r"\S.*:$", line):
            sections.append((line[:-1], []))
        elif line.startswith(" " * COLUMN):
            continue  # taken with the line above
        elif line.startswith("  ") and following.startswith(" " * COLUMN):
            sections[-1][1].append(entry(line.strip(), following.strip()))
        elif line.startswith("  "):
            sections[-1][1].append(entry(line[:COLUMN].strip(), line[COLUMN:].strip()))
        elif line.startswith("Exit code: "):
            exits = line.removeprefix("Exit code: ").strip()
        elif line.strip():
            raise ValueError(f"cannot read the line of help {line!r}")
    return [section for section in sections if section[1]], exits


def parse_help(name, version, text):
    description, _, rest = text.partition("Usage: ")
    usage, _, rest = rest.partition("\n")
    lines = description.strip().split("\n")
    examples = [line.strip() for line in lines if line.startswith("  ")]
    prose = re.sub(r"\s+", " ", " ".join(line for line in lines if not line.startswith("  "))).strip()
    prose, _, exits = prose.partition("Exit code: ")
    prose = prose.strip().removeprefix(f"{name}: ")
    summary = re.match(r"(.*?)(?:\.(?: |$)|:(?: |$)|$)", prose)[1]
    sections, footer = sections_of(rest.split("\n"))
    return Program(name, version, summary, prose, exits.strip() or footer, usage.strip(), sections, examples)


def setting_rows(configuration):
    """{key: (value, default)} of the table that redsumd prints, which says more than its --help."""
    rows = re.findall(r"^\| `([\w.]+)` \|[^|]*\|[^|]*\| ([^|]*) \| ([^|]*) \|", configuration, re.M)
    return {key: (re.sub(r"^an? ", "", value), default.strip()) for key, value, default in rows}


def with_settings(program, configuration):
    """The program, its flags with the limits and defaults of the settings that they set."""
    rows = setting_rows(configuration)
    unseen = set(rows)
    for one in (one for _, entries in program.sections for one in entries):
        for key in {name.removeprefix("--") for name in one.names} & unseen:
            value, one.default = rows[key]
            one.value = value if one.value else ""  # a flag of its own takes no value
            unseen.remove(key)
    if unseen:
        raise ValueError(f"{program.name} --help lacks the settings {sorted(unseen)}")
    return program


def output(folder, name, *arguments):
    """As if it had been called by its name: the usage line shows that."""
    done = subprocess.run([name, *arguments], executable=folder / name, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise ValueError(f"{name} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def read(folder, name):
    version = output(folder, name, "--version").split()[-1]
    program = parse_help(name, version, output(folder, name, "--help"))
    for title, entries in program.sections:
        if title == "Subcommands":
            for one in entries:
                one.meaning = one.meaning.partition(" Exit code: ")[0]  # its own section tells
                program.subcommands.append(parse_help(f"{name} {one.names[0]}", version, output(folder, name, one.names[0], "--help")))
    return program


def section_text(title, entries):
    rows = []
    for one in entries:
        value = one.value + (", required" if one.required else "") + (", may be repeated" if one.repeats else "")
        rows.append([", ".join(map(markup.code, one.names)), markup.inline(value), markup.inline(one.default), markup.inline(one.meaning)])
    columns = [0] + [column for column in (1, 2) if any(row[column] for row in rows)] + [3]
    head = [{"Positionals": "argument", "Subcommands": "command"}.get(title, "flag"), "value", "default", "meaning"]
    heading = "" if title == "Options" else f"**{title}**\n\n"
    return heading + markup.table([head[column] for column in columns], [[row[column] for column in columns] for row in rows])


def program_text(program):
    exits = markup.paragraphs("Exit code: " + program.exit_codes) if program.exit_codes else ""
    usage = "```\n" + "\n".join([program.usage, *program.examples]) + "\n```"
    parts = [f"## {program.name}", markup.paragraphs(markup.sentence(program.description)), usage, exits,
             *(section_text(title, entries) for title, entries in program.sections)]
    return "\n\n".join(part for part in [*parts, *(program_text(one) for one in program.subcommands)] if part)


def page(programs):
    return markup.page("the programs' --help", "Commands", "All of them have a manual page. What each reads from its environment: "
                       "[environment](environment.md); the\nsettings of redsumd with their types and limits: "
                       "[configuration](configuration.md).", *map(program_text, programs))
