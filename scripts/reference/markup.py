# SPDX-License-Identifier: Apache-2.0
"""Plain text of the code's comments as Markdown: names become code, everything else stays readable as text."""
import re
import textwrap

WIDTH = 120
HEAD = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- Made by `./dev docs --write` from {source}; do not edit. A test compares. -->\n"

# What a reader types as it stands: quoted code, snake_case, REDSUM_*, calls, character classes, flags.
CODE = re.compile(r"`[^`]+`|\"[^\"\s]*\"|(?<![\w-])--?[a-zA-Z][\w.-]*(?:=[\w.=-]+)?|\[[^\]\s]+\]\{[^}]*\}|sizeof\(\w+\)"
                  r"|\b[a-z]+\.\w+_\w+|\*?\b\w+(?:::\w+)+(?:\(\))?|\*?\b[A-Za-z]\w*_[\w*]*(?:\(\))?|\b\w+\(\)|\*[a-z]\w*\b|<[\w/.]+>")
SPECIAL = re.compile(r"([\\*<>\[\]|_])")


def inline(text):
    """One line or paragraph of text, safe outside and inside of a table."""
    text, out, end = " ".join(text.split()), [], 0
    for match in CODE.finditer(text):
        out += [SPECIAL.sub(r"\\\1", text[end:match.start()]), "`" + match[0].strip("`").replace("|", "\\|") + "`"]
        end = match.end()
    return "".join([*out, SPECIAL.sub(r"\\\1", text[end:])])


def sentence(text):
    """With a capital, where it begins with a word and not with a name."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+[ ,;]", text) else text


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def paragraphs(text):
    """Text with empty lines between its paragraphs, wrapped."""
    return "\n\n".join(textwrap.fill(inline(part), WIDTH, break_long_words=False, break_on_hyphens=False)
                       for part in re.split(r"\n\s*\n", text.strip()) if part.strip())


def table(head, rows):
    """Cells are Markdown already."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def page(source, title, *parts):
    return HEAD.format(source=source) + f"# {title}\n\n" + "\n\n".join(part for part in parts if part) + "\n"
