# SPDX-License-Identifier: Apache-2.0
"""Every rule finds what it forbids and leaves alone what it allows. A rule without a sample here fails the test."""
import sys

import lint

CC = "// SPDX-License-Identifier: Apache-2.0\n"
H = CC + "#pragma once\n"
LONG = "void f(int a) {\n" + "  g(a);\n" * 80 + "}\n"

# rule, path, text, how many lines it must find
SAMPLES = [
    ("licence", "client/api.cc", "int a;\n", 1),
    ("licence", "client/api.cc", CC, 0),
    ("guard", "client/window.h", CC + "int a;\n", 1),
    ("guard", "client/window.h", H, 0),
    ("characters", "client/api.cc", CC + "\tint a;\n", 1),
    ("characters", "client/api.cc", CC + "int a; \n", 1),
    ("characters", "client/api.cc", CC + "int a;", 1),
    ("characters", "client/api.cc", CC + "// TO" + "DO: later\n", 1),
    ("characters", "client/api.cc", CC + "int a;\n", 0),
    ("file length", "client/api.cc", CC + "int a;\n" * 420, 1),
    ("file length", "client/api.cc", CC + "int a;\n" * 400, 0),
    ("function length", "client/api.cc", CC + "namespace redsum {\n" + LONG + "}\n", 1),
    ("function length", "client/api.cc", CC + "class A : B<int> {\n public:\n  A() : a_{1}, b_(2) {}\n" + LONG + "};\n", 1),
    ("function length", "client/api.cc", CC + "struct alignas(64) A {\n" + "  int f() const { return 1; }\n" * 100 + "};\n", 0),
    ("function length", "client/api.cc", CC + 'const char* kText = R"({{{)";\nnamespace a {\n' + "void f() {}\n" * 100 + "}\n", 0),
    ("function length", "client/api.cc", CC + "int a[] = {\n" + "  1'000,\n" * 100 + "};\n", 0),
    ("pure cores", "server/core/slot.cc", CC + "#include <thread>\n", 1),
    ("pure cores", "server/core/slot.cc", CC + "auto t = new std::thread(f);\n", 1),
    ("pure cores", "client/core/window.cc", CC + "auto t = std::chrono::steady_clock::now();\n", 1),
    ("pure cores", "client/core/window.cc", CC + "auto t = monotonic_now();\n", 1),
    ("pure cores", "transport/wire/codec.cc", CC + "std::random_device device;\n", 1),
    ("pure cores", "transport/wire/codec.cc", CC + "int a = rand();\n", 1),
    ("pure cores", "transport/wire/codec.cc", CC + 'auto a = std::getenv("A");\n', 1),
    ("pure cores", "transport/wire/codec.cc", CC + 'printf("a");\n', 1),
    ("pure cores", "transport/wire/codec.cc", CC + "int fd = ::socket(a, b, c);\n", 1),
    ("pure cores", "transport/wire/codec.cc", CC + "// the caller reads steady_clock::now() and rand()\nint operand(int a);\n", 0),
    ("pure cores", "server/core/coordinator_core.cc", CC + "void Core::send(int a) {}\n", 0),
    ("pure cores", "transport/tcp/lane.cc", CC + "#include <thread>\n", 0),
    ("exceptions", "server/config.cc", CC + "if (bad) throw Error(a);\n", 1),
    ("exceptions", "bench/perf.cc", CC + "if (bad) throw Error(a);\n", 0),
    ("exceptions", "server/config.cc", CC + "// never throw\n", 0),
    ("python", "tests/e2e/test_a.py", "import pickle\n", 1),
    ("python", "tests/e2e/test_a.py", "a = eval(text)\n", 1),
    ("python", "tests/e2e/test_a.py", "a = pickle.loads(text)\n", 1),
    ("python", "tests/e2e/test_a.py", "evaluate(text)\n", 0),
    ("includes", "server/core/slot.h", H + '#include "transport/transport.h"\n', 1),
    ("includes", "server/core/slot.h", H + '#include "kernels/fold.h"\n', 1),
    ("includes", "server/core/slot.h", H + '#include "kernels/dtype.h"\n#include "transport/wire/header.h"\n', 0),
    ("includes", "server/shard.cc", CC + '#include "client/redsum.h"\n', 1),
    ("includes", "client/api.cc", CC + '#include "server/reducer.h"\n', 1),
    ("includes", "client/api.cc", CC + '#include "tests/util.h"\n', 1),
    ("includes", "client/api.cc", CC + '#include "window.h"\n', 1),
    ("includes", "kernels/fold.cc", CC + '#include "transport/base/types.h"\n', 1),
    ("includes", "transport/tcp/lane.cc", CC + '#include "transport/sim/sim.h"\n', 1),
    ("includes", "transport/tcp/lane.cc", CC + "#include <boost/asio.hpp>\n", 0),
    ("includes", "client/progress.cc", CC + "#include <boost/asio.hpp>\n", 1),
    ("includes", "server/shard.cc", CC + "#include <prometheus/registry.h>\n", 1),
    ("includes", "server/metrics.cc", CC + "#include <prometheus/registry.h>\n", 0),
    ("includes", "bench/peers/gloo_peer.cc", CC + "#include <gloo/barrier.h>\n", 0),
    ("includes", "client/api.cc", CC + "#include <mpi.h>\n", 1),
    ("includes", "transport/wire/control.h", H + "#include <nlohmann/json.hpp>\n", 1),
    ("includes", "transport/wire/control.cc", CC + "#include <nlohmann/json.hpp>\n", 0),
    ("includes", "transport/tcp/lane.cc", CC + "#include <infiniband/verbs.h>\n", 1),
    ("includes", "novel/thing.cc", CC + '#include "kernels/fold.h"\n', 1),
    ("cmake links", "server/core/CMakeLists.txt", "redsum_library(redsum_server_core SOURCES a.cc DEPS redsum_seam)\n", 1),
    ("cmake links", "server/core/CMakeLists.txt", "redsum_library(redsum_server_core SOURCES a.cc DEPS redsum_wire redsum_dtype)\n", 0),
    ("cmake links", "kernels/CMakeLists.txt", "target_link_libraries(redsum_kernels PUBLIC redsum_base)\n", 1),
]


def main():
    failures = []
    for rule, path, text, expected in SAMPLES:
        found = list(lint.RULES[rule](path, text.splitlines(keepends=True)))
        if len(found) != expected:
            failures.append(f"rule '{rule}' finds {len(found)}, not {expected}, in {path}:\n{text[:200]}")
    proven = {rule for rule, _, _, expected in SAMPLES if expected}
    failures += [f"rule '{rule}' has no sample that breaks it" for rule in lint.RULES if rule not in proven]
    print("\n".join(failures) or f"every one of {len(lint.RULES)} rules fails where it must ({len(SAMPLES)} samples)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
