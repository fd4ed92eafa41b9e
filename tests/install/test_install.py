# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays down is enough for a project that knows nothing of this tree."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ["REDSUM_BUILD"])
CONSUMER = Path(__file__).parent / "consumer"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def test_cmake_package_serves_c_and_cxx(prefix, tmp_path):
    run("cmake", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "from_c").startswith("redsum 0.")
    assert "job_id is 'not/a/job'" in run(tmp_path / "from_cxx")


@pytest.mark.parametrize("compiler, source, expected", [
    (["cc"], "from_c.c", "redsum 0."),
    (["c++", "-std=c++17"], "from_cxx.cc", "job_id is 'not/a/job'"),
], ids=["c", "cxx"])
def test_pkg_config_serves_c_and_cxx(prefix, tmp_path, compiler, source, expected):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    pc = next(prefix.rglob("redsum.pc"))
    flags = run("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "redsum",
                env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).split()
    run(*compiler, CONSUMER / source, "-o", tmp_path / "program", *flags)
    library = next(prefix.rglob("libredsum.so")).parent
    assert expected in run(tmp_path / "program", env={**os.environ, "LD_LIBRARY_PATH": str(library)})


def test_another_minor_version_is_refused(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(a NONE)\nfind_package(redsum 0.9 REQUIRED)\n")
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "considered but not accepted" in done.stderr, done.stderr


def test_only_the_c_interface_is_visible(prefix):
    symbols = run("nm", "-D", "--defined-only", next(prefix.rglob("libredsum.so"))).split("\n")
    names = {line.split()[-1].split("@")[0] for line in symbols if line}
    assert names and all(name.startswith("redsum_") or name.startswith("REDSUM_") for name in names), names


def test_installed_programs_start(prefix):
    for program in ("redsumd", "redsumctl", "redsumrun"):
        assert run(prefix / "bin" / program, "--version").strip()
    assert "-b" in run(prefix / "bin" / "redsum-perf", "--help")


def test_every_installed_program_has_its_manual_page(prefix):
    pages = {path.stem: path.read_text() for path in prefix.glob("share/man/man[18]/*")}
    assert set(pages) == {path.name for path in (prefix / "bin").iterdir()}
    for name, page in pages.items():
        assert f"\n.TH {name.upper()} ".replace("-", "\\-") in page
