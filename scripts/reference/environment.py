# SPDX-License-Identifier: Apache-2.0
"""docs/reference/environment.md: every variable that the product's code reads. What the library's options take comes from
client/options.cc and the fields' comments in redsum.h, redsumd's settings from the page of its table; the few others are
described here. A variable that the code reads and nobody describes is an error, and so is the other way round."""
import re
from dataclasses import dataclass

import c_api
import markup

FOLDERS = ("kernels", "transport", "server", "client", "bench", "examples")
SOURCES = (".cc", ".h", ".hpp", ".c", ".cu", ".py")

# Where a variable is read: the longest prefix of the file's name decides.
READERS = {"kernels/": "libredsum, redsumd", "transport/": "libredsum", "client/": "libredsum", "client/run": "redsumrun",
           "server/": "redsumd", "server/ctl": "redsumctl", "bench/": "redsum-perf", "examples/": "the examples"}

# variable -> (default, meaning)
OTHERS = {
    "REDSUM_DEBUG": ("WARN", "ERROR, WARN, INFO or TRACE: the least important line that the library logs"),
    "REDSUM_DEBUG_FILE": ("standard error", "the library's log is appended to this file; %h stands for the host, %p for the process"),
    "REDSUM_ISA": ("the best that works", "scalar, baseline (SSE2), avx2, avx512 or neon: the instruction set of the kernels. A name "
                   "that is unknown or not usable on this machine is reported and ignored; results are the same bits with each"),
    "REDSUM_CONFIG": ("none", "the TOML file, where there is no flag --config"),
    "REDSUM_ADMIN": ("127.0.0.1:7402", "admin addresses, host:port, separated by commas, where the command line names none"),
    "REDSUM_BINDIR": ("the folder of redsumrun", "where redsumd is looked for first; then beside redsumrun, then in PATH"),
    "REDSUM_TRANSPORT": ("tcp", "the name of the transport that the report states; it chooses none"),
    "REDSUM_CHECK_FINITE": ("0", "1: every rank looks at its inputs of reductions, and logs a warning for each call in which one is NaN or infinite: "
                            "rank, call, key, tensor, element and value; at most 10"),
    "REDSUM_COORDINATOR": ("none", "where it is set and --reducers is not given, no pool is started: this one is used"),
    "REDSUM_INSECURE": ("none", "1: workers may listen for each other (direct mode, rings) beyond loopback without a secret; whoever reaches the port can then read and "
                        "change gradients"),
    "REDSUM_MODE": ("server", "as --mode, where that is not given"),
    "REDSUM_JOB_ID": ("a fresh name", "name of the job, where there is no flag --job-id"),
    "LOCAL_WORLD_SIZE": ("1", "ranks on this machine, among which the replay of a model shares the memory"),
    "NOTIFY_SOCKET": ("none", "set by systemd: told when the daemon is ready, and when it drains"),
    "PATH": ("/usr/bin:/bin", "where programs are looked for; workers get it with the folder of redsumrun behind it"),
    "PYTHONUNBUFFERED": ("1", "set for the workers unless it is set already, so that their lines come at once"),
    "TMPDIR": ("/tmp", "where the folder of the run is made: secret and ports files, removed at the end"),
}

# A getenv() of something that is not written there: the file, and what covers it.
INDIRECT = {"client/options.cc": "variable(), integer() and seconds_ns() with the names written out",
            "server/main.cc": "the table of settings"}
BUILT_NAMES = ("server/config",)  # may put names together, from the table of settings

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
NAME = r"[A-Z][A-Z0-9_]*"


@dataclass
class Option:
    """A field of redsum_options that the environment fills: the first variable that is set counts."""
    field: str
    names: list
    default: str
    meaning: str


def without_comments(path, text):
    if path.endswith(".py"):
        return re.sub(r"#[^\n]*", "", text)
    return COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith('"') else "", text)


def sources(root):
    return {str(path.relative_to(root)): path.read_text() for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
            if path.name.endswith(SOURCES) and "build" not in path.parts}


def reads(files):
    """{variable: files that read it}. REDSUM_ names count wherever they stand as a whole string: code also reads through
    helper functions. What sets variables (redsumrun's supervisor, scripts) is looked at for getenv() and environ only."""
    found = {}
    for path, text in files.items():
        code = without_comments(path, text)
        names = set(re.findall(rf"getenv\(\"({NAME})\"\)", code))
        names |= set(re.findall(rf"(?:environ(?:\.get)?|getenv)[\[(]['\"]({NAME})['\"]", code)) if path.endswith(".py") else set()
        if path != "client/run_supervisor.cc" and not path.endswith(".py"):
            names |= set(re.findall(r"['\"](REDSUM_[A-Z0-9_]*[A-Z0-9])['\"]", code))
        for name in names:
            found.setdefault(name, []).append(path)
    return found


def hidden_reads(files):
    """Reads that the check above cannot see."""
    for path, text in files.items():
        code = without_comments(path, text)
        if re.search(r"\bgetenv\((?!\")", code) and path not in INDIRECT:
            yield f"{path}: getenv() of a name that is not written there; see INDIRECT in scripts/reference/environment.py"
        if re.search(r"['\"]REDSUM_['\"]", code) and not path.startswith(BUILT_NAMES):
            yield f"{path}: puts a variable's name together; write it out, so that it can be documented"


def options(code, header):
    """The fields of redsum_options as client/options.cc fills them."""
    struct = next(item for item in c_api.parse(header)[1] if item.name == "redsum_options")
    comments = {member.name: member.comment for member in struct.members}
    body = code[code.index("void options_from_environment"):]
    body = body[:body.index("\n}\n")]
    found = []
    for target, reader, arguments in re.findall(
            r"((?:o\.)?\w+) = (?:static_cast<[\w:]+>\()?(variable|integer|seconds_ns)\(((?:[^()]|\n)*?)\)", body):
        name = target.removeprefix("o.")
        if not target.startswith("o."):  # goes through a local variable
            name = re.search(rf"o\.(\w+) = [^;]*\b{name}\b", body)[1]
        names = re.findall(r'"(\w+)"', arguments)
        meaning = re.sub(r"\.? Default \d+ s$| \(REDSUM_\w+\)$", "", comments[name]) + (", in seconds" if reader == "seconds_ns" else "")
        if reader == "variable":
            text = re.search(rf'if \(!o\.{name}\) o\.{name} = "([^"]*)"', body)
            default = text[1] if text else "none"
        else:
            default = arguments.rsplit(",", 1)[1].strip().replace(" * kSecond", " s")
        found.append(Option(name, names, default, meaning))
    for name, variable in re.findall(r'o\.(\w+) = choice\("(\w+)",', body):
        found.append(choice(name, comments[name], variable, header))
    return found


def choice(name, comment, variable, header):
    """A field whose comment begins with the enum that it takes; its variable says the same in words."""
    enum = next(item for item in c_api.parse(header)[1] if item.kind == "enum" and comment.startswith(f"a {item.name}."))
    word = {one.name: one.name.removeprefix(f"{enum.name}_".upper()).lower() for one in enum.members}
    default = word[re.search(r"Default (\w+)", comment)[1]]
    meanings = "; ".join(f"{word[one.name]}: {one.comment.split(':')[0]}" for one in enum.members)
    return Option(name, [variable], default, meanings)


def settings(configuration):
    """[(variable, setting)] of the table in docs/reference/configuration.md."""
    rows = re.findall(r"^\| `([\w.]+)` \| (`[^|]*`) \|", configuration, re.M)
    return [(name, key) for key, names in rows for name in re.findall(r"`(\w+)`", names)]


def given_to_workers(supervisor):
    """What redsumrun sets."""
    body = supervisor[supervisor.index("SpawnSpec Supervisor::worker_spec"):]
    body = body[:body.index("\n}\n")]
    loops = [name for names in re.findall(r"for \(const char\* name : \{([^}]*)\}\)", body) for name in re.findall(r'"(\w+)"', names)]
    return sorted(set(loops + re.findall(rf'emplace_back\("({NAME})"', body)))


def reader_of(path):
    return READERS[max((prefix for prefix in READERS if path.startswith(prefix)), key=len)]


def readers(paths):
    return ", ".join(sorted({name for path in paths for name in reader_of(path).split(", ")}))


def problems(files, configuration):
    """What keeps the page from being complete, as texts."""
    found = reads(files)
    by_options = {name for option in options(files["client/options.cc"], files["client/redsum.h"]) for name in option.names}
    by_settings = {name for name, _ in settings(configuration)}
    yield from hidden_reads(files)
    for name in sorted(found):
        paths = [path for path in found[name] if not (path == "client/options.cc" and name in by_options) and
                 not (path.startswith("server/config") and name in by_settings)]
        if paths and name not in OTHERS:
            yield f"{paths[0]}: reads {name}, which is not described; add it to OTHERS in scripts/reference/environment.py"
    for name in sorted(set(OTHERS) - set(found)):
        yield f"scripts/reference/environment.py: describes {name}, which no code reads"
    unseen = re.findall(r'"(\w+)"', " ".join(re.findall(r"\{(\"[^{}]*\")\}", files["client/options.cc"].split("check_options")[0])))
    for name in sorted(set(unseen) - by_options):
        yield f"client/options.cc: reads {name} in a form that scripts/reference/environment.py does not understand"


def others(files):
    """[(variable, who reads it, default, meaning)] of those that are described here."""
    found, rows = reads(files), []
    by_options = {name for one in options(files["client/options.cc"], files["client/redsum.h"]) for name in one.names}
    for name, (default, meaning) in OTHERS.items():
        paths = [path for path in found.get(name, []) if not (path == "client/options.cc" and name in by_options) and not path.startswith("server/config")]
        rows.append((name, readers(paths), default, meaning))
    return rows


def page(files, configuration):
    workers = [[", ".join(map(markup.code, option.names)), markup.code(option.field), markup.inline(option.default),
                markup.inline(option.meaning)] for option in options(files["client/options.cc"], files["client/redsum.h"])]
    rest = [[markup.code(name), who, markup.inline(default), markup.inline(meaning)] for name, who, default, meaning in others(files)]
    daemon = [[markup.code(name), f"[{markup.code(key)}](configuration.md)"] for name, key in settings(configuration)]
    sets = ", ".join(map(markup.code, given_to_workers(files["client/run_supervisor.cc"])))
    return markup.page(
        "client/options.cc, client/redsum.h, docs/reference/configuration.md and scripts/reference/environment.py",
        "Environment variables",
        "An empty `REDSUM_` variable counts as not set. Where a flag or a field of the interface says the same, it beats the variable.",
        "## Workers", "What `redsum_options_init` takes, and so every program that calls `redsum_init` without options. Of several "
        "names the first\nthat is set counts: launchers set different ones.",
        markup.table(["variable", "field of `redsum_options`", "default", "meaning"], workers),
        "## Library and programs", markup.table(["variable", "read by", "default", "meaning"], rest),
        "## Settings of redsumd", "Every setting `section.key` is also `REDSUM_SECTION_KEY`.",
        markup.table(["variable", "setting"], daemon),
        "## What redsumrun gives to its workers", f"{sets}; of the `REDSUM_` ones those that it has a value for.")
