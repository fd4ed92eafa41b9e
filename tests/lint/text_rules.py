# SPDX-License-Identifier: Apache-2.0
"""Rules about the text of a file: licence line, lengths, characters, calls that have no place where they stand. How lines
are broken is clang-format's business."""
import re

CODE = (".h", ".hpp", ".cc", ".cu", ".c")
SOURCES = CODE + (".py", ".sh", ".cmake", ".toml")
FILE_LINES = 420  # aim at 400
FUNCTION_LINES = 70
FUNCTION_LINES_IN_TESTS = 100  # a table of cases is read line by line

CORES = ("server/core/", "client/core/", "transport/wire/")
# In a core, time and randomness are arguments, and nothing reaches outside.
BANNED_IN_CORES = {
    r"std::j?thread\b|std::async\b|pthread_|#\s*include\s*<(thread|mutex|condition_variable|future|shared_mutex)>": "a thread or a lock",
    r"std::(mutex|condition_variable|shared_mutex)\b": "a lock",
    r"_clock::now\b|\bmonotonic_now\s*\(|\bclock_gettime\b|\bgettimeofday\b|\btime\s*\(\s*(NULL|nullptr|0)\s*\)": "a clock",
    r"#\s*include\s*<(sys/socket|netinet/.*|arpa/inet|sys/epoll|poll|unistd|fcntl)\.h>|(?<![\w>])::(socket|connect|recv|send)\s*\(": "a socket",
    r"std::random_device\b|\bs?rand\s*\(|std::mt19937": "a random source",
    r"\bgetenv\s*\(": "the environment",
    r"\b(f|s)?printf\s*\(|std::(cout|cerr|clog)\b|#\s*include\s*<iostream>": "output",
}
BANNED_IN_PYTHON = r"^\s*(import|from)\s+(pickle|marshal|shelve)\b|\b(pickle|marshal|shelve)\.|(?<![.\w])(eval|exec)\s*\("
LEFT_OVER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")


NOT_CODE = re.compile(r"""R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/""", re.S)


def bare(lines):
    """The lines without comments, strings and characters, for rules about code."""
    text = NOT_CODE.sub(lambda match: ("" if match[0].startswith("/") else '""') + "\n" * match[0].count("\n"), "".join(lines))
    return text.split("\n")


def check_licence(path, lines):
    if path.endswith(SOURCES) or path.endswith("CMakeLists.txt") or path in ("dev", ".ci/run"):
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            yield 1, "no line `SPDX-License-Identifier: Apache-2.0` among the first three"


def check_guard(path, lines):
    if path.endswith((".h", ".hpp")) and "#pragma once\n" not in lines and not any(l.startswith("#ifndef REDSUM_") for l in lines):
        yield 1, "a header without #pragma once"


def check_characters(path, lines):
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if "\t" in text:
            yield number, "a tab"
        if text != text.rstrip():
            yield number, "a space at the end of the line"
        if LEFT_OVER.search(text) and path.endswith(SOURCES):
            yield number, "a note to do something later: do it, or write it into an issue"
    if lines and not lines[-1].endswith("\n"):
        yield len(lines), "no newline at the end of the file"


def check_length(path, lines):
    if path.endswith(SOURCES) and len(lines) > FILE_LINES:
        yield 1, f"{len(lines)} lines, more than {FILE_LINES}: is there a second noun in this file?"


CONTAINER = re.compile(r"\s*((public|private|protected)\s*:\s*)*(template\s*<.*>\s*)?(inline\s+|typedef\s+)?"
                       r"(namespace|extern|class|struct|union|enum)\b")


def check_functions(path, lines):
    """Length of a C++ function, from the line on which its body opens to the one on which it closes. Outside of bodies, a
    brace after a statement with a parameter list opens a body, any other (namespace, class, initialiser) does not."""
    if not path.endswith(CODE):
        return
    most = FUNCTION_LINES_IN_TESTS if path.startswith("tests/") else FUNCTION_LINES
    open_braces, statement = [], ""  # of each open brace: its line for a body, 0 inside a body, None for others
    for number, line in enumerate(bare(lines), 1):
        if line.lstrip().startswith("#"):
            continue
        for char in line:
            if char == "{":
                holds = CONTAINER.match(statement) and not re.search(r"\)\s*(const|noexcept|override|final|\s)*$", statement)
                inside = any(opened is not None for opened in open_braces)
                open_braces.append(0 if inside else None if holds or "(" not in statement else number)
            elif char == "}" and open_braces:
                opened = open_braces.pop()
                if opened and number - opened + 1 > most:
                    yield opened, f"a function of {number - opened + 1} lines, more than {most}"
            statement = "" if char in "{};" else statement + char
        statement += " "


def check_cores(path, lines):
    if not path.startswith(CORES) or not path.endswith(CODE):
        return
    for number, line in enumerate(bare(lines), 1):
        for pattern, what in BANNED_IN_CORES.items():
            if re.search(pattern, line):
                yield number, f"{what} in a pure core: pass it in as an argument or an effect"


def check_errors(path, lines):
    """Exceptions do not cross units: in the library and the daemon none of ours is thrown at all."""
    if path.endswith(CODE) and path.startswith(("kernels/", "transport/", "server/", "client/")):
        for number, line in enumerate(bare(lines), 1):
            if re.search(r"\bthrow\b", line):
                yield number, "an exception: return a Status"


def check_python(path, lines):
    if path.endswith(".py") and not path.startswith("tests/lint/"):
        for number, line in enumerate(lines, 1):
            if re.search(BANNED_IN_PYTHON, line.split("#")[0]):
                yield number, "pickle, marshal, shelve, eval and exec are banned: input from a network may reach them"


RULES = {
    "licence": check_licence, "guard": check_guard, "characters": check_characters, "file length": check_length,
    "function length": check_functions, "pure cores": check_cores, "exceptions": check_errors, "python": check_python,
}
