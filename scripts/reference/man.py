# SPDX-License-Identifier: Apache-2.0
"""Manual pages in roff (the man macros), from the same --help and the same variables as the pages in docs/reference."""
import re

import environment

CHAPTERS = {"redsumd": 8, "redsumctl": 1, "redsumrun": 1, "redsum-perf": 1}
CHAPTER_NAMES = {1: "User Commands", 8: "System Administration"}
FILES = {"redsumd": [("/usr/share/redsum/redsumd.toml", "every setting with its default, commented out; in the prefix of the installation")]}


def escape(text):
    """Text, never a request: no line of it begins with a dot or a quote."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def bold(text):
    return "\\fB" + escape(text) + "\\fR"


def sentences(text):
    """One a line, as roff wants it, from a capital to a full stop."""
    text = re.sub(r"\w$", r"\g<0>.", text[:1].upper() + text[1:])
    return "\n".join(escape(part) for part in re.split(r"(?<=[a-z)\"]\.) (?=[A-Z])", text))


def option(one):
    value = one.value if one.names[0].startswith("-") else ""
    head = ", ".join(map(bold, one.names)) + (" \\fI" + escape(value) + "\\fR" if value else "")
    notes = [note for note in ("required" if one.required else "", "may be repeated" if one.repeats and "repeated" not in one.meaning else "",
                               f"default: {one.default}" if one.default else "") if note]
    return ".TP\n" + head + "\n" + escape(one.meaning) + (f"\n[{escape('; '.join(notes))}]" if notes else "")


def sections(program):
    parts = []
    for title, entries in program.sections:
        heading = {"Options": "OPTIONS", "Positionals": "ARGUMENTS", "Subcommands": "COMMANDS"}.get(title)
        parts += [f".SH {heading}" if heading else f".SS {escape(title)}", *map(option, entries)]
    for sub in program.subcommands:
        parts += [f".SH {sub.name.split()[-1].upper()}", sentences(sub.description), ".PP", bold(sub.name) +
                  escape(sub.usage.removeprefix(sub.name))]
        parts += [option(one) for _, entries in sub.sections for one in entries]
    return parts


def variables(program, files):
    """(name, default, meaning) of what the program itself reads, and for a worker what the library reads."""
    names = [program] + (["libredsum"] if program == "redsum-perf" else [])
    rows = [(name, default, meaning) for name, who, default, meaning in environment.others(files)
            if set(who.split(", ")) & set(names)]
    if program == "redsum-perf":
        rows += [(", ".join(one.names), one.default, one.meaning)
                 for one in environment.options(files["client/options.cc"], files["client/redsum.h"])]
    return rows


def exit_status(program):
    lines = [sentences(program.exit_codes)] if program.exit_codes else []
    lines += [f"{bold(sub.name)}: {escape(sub.exit_codes)}" for sub in program.subcommands if sub.exit_codes]
    if not lines:
        raise ValueError(f"{program.name} --help does not tell the exit codes")
    return [".SH EXIT STATUS", "\n.br\n".join(lines)]


def page(program, files):
    chapter = CHAPTERS[program.name]
    others = ", ".join(f"{bold(name)}({number})" for name, number in CHAPTERS.items() if name != program.name)
    parts = [
        '.\\" SPDX-License-Identifier: Apache-2.0',
        f'.\\" Made by `./dev docs --write` from {program.name} \\-\\-help; do not edit. A test compares.',
        f'.TH {escape(program.name.upper())} {chapter} "" "redsum {program.version}" "{CHAPTER_NAMES[chapter]}"',
        ".SH NAME", escape(program.name) + " \\- " + escape(program.summary[:1].lower() + program.summary[1:]),
        ".SH SYNOPSIS", bold(program.name) + escape(program.usage.removeprefix(program.name)),
        ".SH DESCRIPTION", sentences(program.description)]
    if program.examples:
        parts += [".PP", ".EX", *map(escape, program.examples), ".EE"]
    parts += sections(program)
    parts += [".SH ENVIRONMENT"]
    if program.name == "redsumd":
        parts += [escape("Every setting section.key is also a variable REDSUM_SECTION_KEY.")]
    for name, default, meaning in variables(program.name, files):
        parts += [".TP", bold(name), escape(meaning), f"[default: {escape(default)}]"]
    for number, (path, meaning) in enumerate(FILES.get(program.name, [])):
        parts += [".SH FILES"] * (number == 0) + [".TP", f"\\fI{escape(path)}\\fR", escape(meaning)]
    return "\n".join([*parts, *exit_status(program), ".SH SEE ALSO", others, ""])


def pages(programs, files):
    return {f"docs/man/{program.name}.{CHAPTERS[program.name]}": page(program, files) for program in programs}
