# SPDX-License-Identifier: Apache-2.0
"""The CMake targets link what the include rules allow, and nothing else of ours."""
import re

from include_rules import MAY_INCLUDE

# target -> folder; a target that is not listed is not judged.
FOLDER = {
    "redsum_dtype": "kernels", "redsum_kernels": "kernels", "redsum_base": "transport/base", "redsum_wire": "transport/wire",
    "redsum_seam": "transport", "redsum_loop": "transport/loop", "redsum_tcp": "transport/tcp",
    "redsum_control": "transport/control", "redsum_sim": "transport/sim", "redsum_fault": "transport/fault",
    "redsum_server_core": "server/core", "redsum_client_core": "client/core",
}
CALL = re.compile(r"\b(redsum_library|redsum_program|target_link_libraries)\s*\(\s*(\w+)([^)]*)\)", re.S)


def allowed(folder, dependency):
    other = FOLDER[dependency]
    rules = MAY_INCLUDE[folder]
    return other == folder or rules is None or other in rules or (dependency == "redsum_dtype" and "kernels/dtype.h" in rules)


def check(path, lines):
    if not path.endswith(("CMakeLists.txt", ".cmake")) or path.startswith(("tests/", "cmake/")):
        return
    text = "".join(re.sub(r"#.*", "", line) for line in lines)
    own = max((unit for unit in MAY_INCLUDE if path.startswith(unit + "/")), key=len, default=None)
    for match in CALL.finditer(text):
        function, target, rest = match.groups()
        folder = FOLDER.get(target, own)
        if folder is None:
            continue
        for dependency in re.findall(r"\bredsum_\w+\b", rest):
            if dependency in FOLDER and not allowed(folder, dependency):
                yield text[:match.start()].count("\n") + 1, f"{target} ({folder}) may not link {dependency} ({FOLDER[dependency]})"
