# SPDX-License-Identifier: Apache-2.0
"""The check of the binary interface finds what breaks old programs and lets pass what does not: redsum.h against deliberately
changed copies of it, each compiled into a library of empty functions."""
import shutil
import subprocess

import pytest

import abi
import c_api

pytestmark = pytest.mark.skipif(not shutil.which("abidiff"), reason="abidiff is not installed (abigail-tools)")


def library(folder, header):
    """(library, header): every declared function, doing nothing."""
    folder.mkdir()
    (folder / "redsum.h").write_text(header)
    bodies = [item.text.removesuffix(";") + (" {}" if item.text.startswith("void ") else " { return 0; }")
              for item in c_api.parse(header)[1] if item.kind == "function"]
    (folder / "a.c").write_text('#include "redsum.h"\n' + "\n".join(bodies) + "\n")
    subprocess.run(["cc", "-g", "-w", "-shared", "-fPIC", "-Wl,-soname,libredsum.so.0", "-o", folder / "libredsum.so", folder / "a.c"],
                   check=True, timeout=60)
    return folder / "libredsum.so", folder / "redsum.h"


def report(tmp_path, old, new):
    return abi.compare(*library(tmp_path / "old", old), *library(tmp_path / "new", new))


def changed(header, old, new):
    assert header.count(old) == 1, old
    return header.replace(old, new)


def test_the_same_is_compatible(tmp_path, header):
    assert report(tmp_path, header, header) == ""


@pytest.mark.parametrize("old, new", [
    ("/** Frees the handle;", "REDSUM_API int redsum_new(int a);\n/** Frees the handle;"),
    ("REDSUM_INTERNAL = 13", "REDSUM_INTERNAL = 13,\n  REDSUM_NEW = 14"),
    ("} redsum_statistics;", "  uint64_t new_counter;\n} redsum_statistics;"),
    ("} redsum_options;", "  int64_t new_field;\n} redsum_options;"),
    ("} redsum_call_options;", "  int64_t new_field;\n} redsum_call_options;"),
], ids=["function", "enumerator", "counter at the end", "options at the end", "call options at the end"])
def test_additions_are_compatible(tmp_path, header, old, new):
    assert report(tmp_path, header, changed(header, old, new)) == ""


@pytest.mark.parametrize("old, new, named", [
    ("REDSUM_API uint64_t redsum_handle_sequence(const redsum_handle* handle);", "", "redsum_handle_sequence"),
    ("redsum_wait(redsum_handle* handle, int64_t timeout_ns)", "redsum_wait(redsum_handle* handle, int32_t timeout_ns)", "redsum_wait"),
    ("uint64_t count;    /**<", "uint32_t count;    /**<", "redsum_tensor"),
    ("int32_t rank;                 /**< 0 ..", "int32_t new_field;\n  int32_t rank;                 /**< 0 ..", "redsum_options"),
    ("int64_t heartbeat_timeout_ns; /**<", "int64_t heartbeat_timeout_ns;\n  int64_t new_field; /**<", "redsum_options"),
    ("double postscale;", "float postscale;", "redsum_call_options"),
    ("void* output; ", "void* output;\n  void* new_field; ", "redsum_tensor"),
    ("uint64_t bytes_sent, ", "uint64_t new_counter, bytes_sent, ", "redsum_statistics"),
    ("uint32_t epoch;\n", "uint64_t epoch;\n", "redsum_statistics"),
    ("REDSUM_CLOSED = 12", "REDSUM_CLOSED = 15", "REDSUM_CLOSED"),
], ids=["function gone", "argument", "field's type", "field inserted", "options grown in the middle",
        "call option's type", "tensor grown", "counter inserted", "counter's type",
        "enumerator"])
def test_breaks_are_found(tmp_path, header, old, new, named):
    assert named in report(tmp_path, header, changed(header, old, new))


def test_what_cannot_be_compared_is_no_success(tmp_path, header):
    good = library(tmp_path / "old", header)
    assert abi.compare(*good, tmp_path / "missing.so", good[1]) != ""
