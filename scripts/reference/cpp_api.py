# SPDX-License-Identifier: Apache-2.0
"""docs/reference/cpp-api.md from client/redsum.hpp: what is public, in the header's order, with its comments and without the
bodies. The header is ours and well-formed: // comments stand before what they describe."""
import re
from dataclasses import dataclass, field

import markup

TOKEN = re.compile(r'//[^\n]*|#[^\n]*|"(?:\\.|[^"\\])*"|\n|[^\S\n]+|[{}();:]{1}|[^\s{}();:"/#]+|.', re.S)


@dataclass
class Entry:
    """Declarations that stand together, without an empty line between them, under one comment."""
    comment: str
    declarations: list
    members: list = field(default_factory=list)  # of a class or struct


def squeeze(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\(\s+", "(", re.sub(r"\s+([,;)])", r"\1", text)).replace(": :", "::")


def matching_brace(tokens, at):
    """Index behind the brace that closes the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index] == "{") - (tokens[index] == "}")
        if depth == 0:
            return index + 1
    raise ValueError("client/redsum.hpp: a brace is not closed")


def head_of(text):
    """A function's declaration without the initialisers of a constructor."""
    depth, head = 0, squeeze(text)
    for index, char in enumerate(head):
        depth += (char in "(") - (char in ")")
        alone = char == ":" and ":" not in (head[index - 1:index], head[index + 1:index + 2])
        if alone and depth == 0 and ")" in head[:index]:
            return head[:index].strip() + ";"
    return head + ";"


def is_container(text):
    return re.match(r"(template\s*<.*>\s*)?(class|struct)\b", squeeze(text)) is not None


class Scope:
    """Reads the declarations of one pair of braces."""

    def __init__(self, public):
        self.entries, self.public = [], public
        self.comment, self.newlines, self.fresh = "", 0, True

    def add(self, declaration, members=None):
        if self.public:
            last = self.entries[-1] if self.entries and not self.fresh else None
            # A comment covers the overloads behind it, not the next function.
            if last and not self.comment and not members and not last.members and (
                    not last.comment or name_of(last.declarations[0]) == name_of(declaration)):
                self.entries[-1].declarations.append(declaration)
            else:
                self.entries.append(Entry(self.comment.strip(), [declaration], members or []))
        self.comment, self.newlines, self.fresh = "", 0, False

    def read(self, tokens):
        at, text, parentheses = 0, "", 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token.startswith("#"):
                continue
            if token.startswith("//"):
                if not text.strip() and self.newlines > 0:  # not one behind code
                    self.comment += re.sub(r"^// ?", "", token) + "\n"
            elif token == "\n":
                self.newlines += 1
                if self.newlines > 1 and not text.strip():
                    self.comment, self.fresh = "", True
                text += " "
                continue
            elif token == "{" and parentheses == 0:
                end = matching_brace(tokens, at - 1)
                inner = tokens[at:end - 1]
                at = end
                if text.split()[:1] == ["namespace"]:
                    at, tokens = 0, inner + tokens[end:]
                    text = ""
                elif is_container(text):
                    scope = Scope("struct" in squeeze(text).split("{")[0].split()[:1])
                    scope.read(inner)
                    self.add(squeeze(text), scope.entries)
                    text = ""
                elif "(" in text:
                    self.add(head_of(text))
                    text = ""
                else:
                    text += "{" + "".join(inner) + "}"  # the initialiser of a variable
            elif token == ";" and parentheses == 0:
                if text.strip():
                    self.add(squeeze(text) + ";")
                text = ""
            elif token == ":" and text.strip() in ("public", "private", "protected"):
                self.public, text = text.strip() == "public", ""
            else:
                parentheses += (token == "(") - (token == ")")
                text += token
            if token.strip():
                self.newlines = 0


def parse(header):
    """(introduction, entries) of the header's text."""
    scope = Scope(True)
    lines = header.splitlines()
    intro = []
    for line in lines[1:]:  # behind the licence
        if not line.startswith("//"):
            break
        intro.append(re.sub(r"^// ?", "", line))
    scope.read(TOKEN.findall("\n".join(lines[1 + len(intro):])))
    return "\n".join(intro), scope.entries


def introduction(text):
    """Indented lines are an example."""
    parts = []
    for part in re.split(r"\n\s*\n", text):
        example = all(line.startswith("  ") for line in part.splitlines())
        parts.append("```cpp\n" + re.sub(r"^  ", "", part, flags=re.M) + "\n```" if example else markup.paragraphs(part))
    return "\n\n".join(parts)


def declaration(text):
    """A template's head on a line of its own; arguments one a line where it is long."""
    match = re.match(r"(template <(?:[^<>]|<[^<>]*>|\(\))*>) (.*)", text)
    lines, text = ([match[1]], match[2]) if match else ([], text)
    if len(text) > 110 and "(" in text:
        head, arguments = text.split("(", 1)
        text = head + "(\n    " + ",\n    ".join(re.split(r",\s*", arguments))
    return "\n".join([*lines, text])


def entry_section(entry):
    code = "```cpp\n" + "\n".join(declaration(text) for text in entry.declarations) + "\n```"
    return "\n\n".join(part for part in (code, markup.paragraphs(markup.sentence(entry.comment))) if part)


def name_of(text):
    text = re.sub(r"^template <.*?> ", "", re.sub(r"\[\[\w+\]\] ", "", text))
    if re.match(r"(class|struct) ", text):
        return text.split(" : ")[0]
    function = re.search(r"(~?\w+)\s*\(", text)
    return function[1] if function else text


def section(entry):
    title = f"## {name_of(entry.declarations[0])}"
    if not entry.members:
        return "\n\n".join([title, entry_section(entry)])
    parts = [title, "```cpp\n" + entry.declarations[0] + "\n```", markup.paragraphs(markup.sentence(entry.comment)),
             *(entry_section(member) for member in entry.members)]
    return "\n\n".join(part for part in parts if part)


def page(header):
    intro, entries = parse(header)
    intro = re.sub(r"^redsum\.hpp - a", "A", intro)
    return markup.page("client/redsum.hpp", "C++ interface", introduction(intro), *(section(entry) for entry in entries))
