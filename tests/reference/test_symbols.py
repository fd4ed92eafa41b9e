# SPDX-License-Identifier: Apache-2.0
"""libredsum exports the functions that redsum.h declares, all of them and no others."""
import re
import subprocess

import c_api


def exported(library):
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=30)
    lines = [line.split() for line in done.stdout.splitlines()]
    # The version of the symbols (REDSUM_0) is listed as an absolute symbol.
    return {line[-1].split("@")[0] for line in lines if line[-2] != "A"}


def test_exported_symbols_are_the_declared_functions(build, header):
    declared = c_api.functions(header)
    assert len(declared) == len(set(declared)) == len(re.findall("^REDSUM_API\\b", header, re.M))
    assert exported(build / "lib" / "libredsum.so") == set(declared)
