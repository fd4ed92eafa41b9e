# SPDX-License-Identifier: Apache-2.0
"""client/redsum.h as data, and docs/reference/c-api.md made of it. The header is ours and well-formed: declarations at file
level, /** before */ and /**< after */ them. What this does not understand is an error, so nothing is left out silently."""
import re
from dataclasses import dataclass, field

import markup

TOKEN = re.compile(r"/\*.*?\*/|[{};,=()]|\n|[^\S\n]+|[^\s{};,=()/]+|/", re.S)
COMMENT = re.compile(r"/\*\*(<?)(.*?)\*/", re.S)


@dataclass
class Item:
    """A function, a type, a field or an enumerator."""
    kind: str
    name: str
    text: str = ""  # the declaration, or the value of an enumerator
    before: str = ""  # its /** comment */
    after: str = ""  # its /**< comment */
    joined: bool = False  # follows the item before it without an empty line
    members: list = field(default_factory=list)

    @property
    def comment(self):
        return "\n\n".join(part for part in (self.before, self.after) if part)


def comment_text(comment):
    """Without the stars; paragraphs stay apart."""
    body = COMMENT.fullmatch(comment)[2]
    return re.sub(r"^[ \t]*\*[ \t]?", "", body, flags=re.M).strip()


def without_preprocessor(header):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", header, flags=re.M)


def squeeze(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s+([,;)])", r"\1", re.sub(r"\(\s+", "(", text))


def enumerator(text):
    name, _, value = (part.strip() for part in text.partition("="))
    return Item("enumerator", name, value)


def member(text):
    text = squeeze(text)
    return Item("field", re.sub(r"^.*?(\w+(?:, \w+)*)$", r"\1", text), text)


def declaration(text, members):
    """The item that ends with this semicolon."""
    text = squeeze(text)
    for pattern, kind in ((r"typedef enum (\w+) ?\{ ?\} ?\1", "enum"), (r"typedef struct (\w+) ?\{ ?\} ?\1", "struct"),
                          (r"typedef struct (\w+) \1", "opaque"), (r"typedef .*\(\*(\w+)\)\(.*\)", "callback"),
                          (r"REDSUM_API .*?\b(\w+)\(.*\)", "function"), (r"static inline .*?\b(\w+)\(.*\)", "inline")):
        match = re.fullmatch(pattern, text)
        if match:
            return Item(kind, match[1], re.sub("^(REDSUM_API|static inline) ", "", text) + ";", members=members)
    raise ValueError(f"client/redsum.h: cannot read the declaration `{text};`")


class Reader:
    def __init__(self):
        self.intro, self.items = "", []
        self.text, self.before, self.members, self.newlines = "", "", [], 0
        self.inside = False  # of the braces of a struct or an enum
        self.body = 0  # open braces of an inline function, which is not shown

    def comment(self, comment):
        match = COMMENT.fullmatch(comment)
        if not match:
            return
        text = comment_text(comment)
        if not match[1]:
            self.before = text
            if not self.intro:
                self.intro, self.before = text, ""
            return
        if self.inside and self.text.strip():  # behind the last enumerator, which no comma ends
            self.end_member()
        target = self.members if self.inside else self.items
        target[-1].after = (target[-1].after + " " + text).strip()

    def end_member(self):
        if not self.text.strip():
            return
        is_enum = self.opening.startswith("typedef enum")
        item = (enumerator if is_enum else member)(self.text)
        item.before, self.before, self.text = self.before, "", ""
        self.members.append(item)

    def open(self):
        self.opening, self.outer_before, self.inside = squeeze(self.text), self.before, True
        self.text, self.before, self.members = "", "", []

    def close(self):
        self.end_member()
        self.inside, self.text, self.before = False, self.opening + " {}", self.outer_before

    def end_declaration(self):
        item = declaration(self.text, self.members)
        item.before, item.joined = self.before, self.joined
        self.items.append(item)
        self.text, self.before, self.members, self.newlines = "", "", [], 0

    def take(self, token):
        if token.startswith("/*"):
            if not self.body:
                self.comment(token)
            return
        if not token.strip():
            self.newlines += token.count("\n")
            self.text += "" if self.body else " "
            return
        if not self.text.strip() and not self.inside:
            self.joined = self.newlines <= 1
        if self.body or (token == "{" and self.text.lstrip().startswith("static inline")):
            self.body += (token == "{") - (token == "}")
            if not self.body:
                self.end_declaration()
        elif token == "{":
            self.open()
        elif token == "}":
            self.close()
        elif token == ";" or (token == "," and self.inside and self.opening.startswith("typedef enum")):
            (self.end_member if self.inside else self.end_declaration)()
        else:
            self.text += token


def parse(header):
    """(introduction, items) of the header's text."""
    reader = Reader()
    text = without_preprocessor(header)
    if 'extern "C" {' in text:  # the brace that ends it is the last one of the file
        before, _, behind = text.replace('extern "C" {', "").rpartition("}")
        text = before + behind
    for token in TOKEN.findall(text):
        reader.take(token)
    if reader.text.strip():
        raise ValueError(f"client/redsum.h: left over `{squeeze(reader.text)}`")
    return reader.intro, reader.items


def is_function(item):
    return item.kind in ("function", "inline")


def functions(header):
    """Those that the library exports."""
    return [item.name for item in parse(header)[1] if item.kind == "function"]


def groups(items):
    """Functions that one comment describes: those that follow it without an empty line and have none of their own."""
    made, previous = [], None
    for item in items:
        if is_function(item):
            follows = previous is not None and is_function(previous) and item.joined and not item.comment
            if follows and made[-1][0].before and not previous.after:
                made[-1].append(item)
            else:
                made.append([item])
        previous = item
    return made


def undocumented(header):
    _, items = parse(header)
    return [group[0].name for group in groups(items) if not group[0].comment] + \
        [item.name for item in items if not is_function(item) and not item.comment]


def signature(item):
    """The declaration, one argument a line where it is long."""
    if len(item.text) <= 100:
        return item.text
    head, arguments = item.text.split("(", 1)
    return head + "(\n    " + ",\n    ".join(re.split(r",\s*", arguments))


def type_section(item):
    parts = [f"### {item.name}", markup.paragraphs(markup.sentence(item.comment))]
    if item.kind == "enum":
        columns = 3 if any(one.comment for one in item.members) else 2
        parts.append(markup.table(["name", "value", "meaning"][:columns], [
            [markup.code(one.name), one.text, markup.inline(one.comment)][:columns] for one in item.members]))
    elif item.kind == "struct":
        parts.append(markup.table(["field", "meaning"], [
            [markup.code(one.text), markup.inline(one.comment)] for one in item.members]))
    else:
        parts.append(f"```c\n{item.text}\n```")
    return "\n\n".join(part for part in parts if part)


def function_section(group):
    parts = ["### " + ", ".join(item.name for item in group), "```c\n" + "\n".join(signature(item) for item in group) + "\n```",
             markup.paragraphs(markup.sentence(group[0].comment))]
    return "\n\n".join(part for part in parts if part)


def page(header):
    intro, items = parse(header)
    intro = re.sub(r"^redsum\.h - the C interface", "The C interface", intro)
    return markup.page("client/redsum.h", "C interface", markup.paragraphs(intro), "Include `redsum/redsum.h` and link "
                       "`redsum::client` (CMake) or what `pkg-config redsum` says.", "## Types",
                       *(type_section(item) for item in items if not is_function(item)), "## Functions",
                       *(function_section(group) for group in groups(items)))
