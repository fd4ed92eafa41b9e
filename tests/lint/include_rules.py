# SPDX-License-Identifier: Apache-2.0
"""Who may include whom, and which outside library is allowed where. The map is the architecture: change it on purpose."""
import re

# folder -> folders of ours that it may include (itself always). A file's folder is the longest key that is its prefix.
MAY_INCLUDE = {
    "kernels": [],
    "transport/base": [],
    "transport/wire": ["transport/base", "kernels/dtype.h"],
    "transport": ["transport/loop", "transport/wire", "transport/base"],  # the seam, and agent.h, the thread around it
    "transport/loop": ["transport/base"],
    "transport/control": ["transport/loop", "transport/tcp", "transport/wire", "transport/base"],
    "transport/tcp": ["transport", "transport/loop", "transport/wire", "transport/base"],
    "transport/rdma": ["transport", "transport/loop", "transport/wire", "transport/base"],
    "transport/shm": ["transport", "transport/loop", "transport/wire", "transport/base"],
    "transport/sim": ["transport", "transport/wire", "transport/base"],
    "transport/fault": ["transport", "transport/wire", "transport/base"],
    "server/core": ["transport/wire", "transport/base", "kernels/dtype.h"],
    "client/core": ["transport/wire", "transport/base", "kernels/dtype.h"],
    "server": ["server/core", "transport", "transport/loop", "transport/control", "transport/tcp", "transport/wire",
               "transport/base", "kernels"],
    # Where a worker is its own reducer: the one place where the client uses the server.
    "client/direct": ["server", "transport", "transport/loop", "transport/tcp", "transport/wire", "transport/base"],
    "client": ["client/core", "client/direct", "transport", "transport/loop", "transport/control", "transport/tcp", "transport/wire",
               "transport/base", "kernels"],
    "bench": ["client", "transport", "transport/wire", "transport/loop", "transport/base", "transport/tcp",
              "transport/control", "kernels", "server", "server/core", "client/core"],
    "examples": ["client/redsum.h", "client/redsum.hpp", "kernels/dtype.h", "transport/base", "kernels"],
    "tests": None,  # may include everything
    "configs": [],
}

OUTSIDE = {  # regular expression of an include -> folders that may have it
    r"boost/.*": ["transport/loop", "transport/tcp", "transport/control", "server/admin", "bench", "tests"],
    r"(infiniband|rdma)/.*": ["transport/rdma", "tests"],
    r"prometheus/.*": ["server/metrics", "tests"],
    r"spdlog/.*": ["server", "tests"],
    r"(CLI|toml\+\+)/.*|toml\.hpp": ["server", "client/run", "bench", "tests"],
    r"nlohmann/.*": ["transport/wire:cc", "server", "client/run", "bench", "tests"],
    r"openssl/.*": ["transport/wire:cc", "tests"],
    r"cuda.*\.h(pp)?": ["kernels/cuda", "client/cuda", "client/torch"],
    r"(gtest|gmock)/.*": ["tests"],
    r"benchmark/.*": ["bench", "tests"],
    r"gloo/.*|mpi\.h": ["bench/peers"],
    r"tl/.*": ["transport/base", "tests"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def unit_of(path):
    """The folder of the map that `path` belongs to; None outside the map."""
    candidates = [unit for unit in MAY_INCLUDE if path.startswith(unit + "/")]
    return max(candidates, key=len, default=None)


def in_places(path, places):
    """`path` lies in one of `places`: a folder, a file stem such as server/admin, or either with :cc for .cc files only."""
    for place in places:
        place, _, only = place.partition(":")
        if only and not path.endswith("." + only):
            continue
        if path.startswith(place + "/") or re.match(re.escape(place) + r"[._]", path):
            return True
    return False


def check_include(path, quote, target):
    """Why `path` may not include `target`, or None."""
    for pattern, places in OUTSIDE.items():
        if re.fullmatch(pattern, target):
            return None if in_places(path, places) else f"<{target}> belongs into {', '.join(places)} only"
    if quote == "<":
        return None  # the standard library and the system
    unit, allowed = unit_of(path), None
    if unit is None:
        return f"the folder of {path} is not on the map (tests/lint/include_rules.py)"
    if "/" not in target:
        return f'"{target}": name the file from the top of the tree'
    allowed = MAY_INCLUDE[unit]
    if allowed is None or target in allowed or unit_of(target) == unit or unit_of(target) in allowed:
        return None
    return f'{unit} may not include "{target}"; it may include: {", ".join(allowed) or "nothing of ours"}'


def check(path, lines):
    if not path.endswith((".h", ".hpp", ".cc", ".cu", ".c")):
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        problem = match and check_include(path, *match.groups())
        if problem:
            yield number, problem
