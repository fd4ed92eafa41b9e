# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py: what it computes, what it skips, and that it notices a wrong element of each peer that was built."""
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ["REDSUM_BUILD"]) / "bin"
sys.path.insert(0, str(ROOT / "bench"))
import common  # noqa: E402
import peers  # noqa: E402

PEERS = {"gloo": "gloo-ring", "openmpi": "openmpi-tcp"}


def bench(folder, *arguments):
    command = [sys.executable, "-B", ROOT / "bench/peers.py", "--bin", folder, "--sizes", "0.0625", "--repetitions", "1",
               "--iterations", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def need_peer(begin):
    why = peers.missing(SimpleNamespace(bin=BIN), PEERS[begin])
    if why:
        pytest.skip(f"{why}; `./dev bench peers` installs and builds it")


def test_medians_and_ratios(monkeypatch):
    series = {"redsum-server": iter([10.0, 30.0, 20.0]), "gloo-ring": iter([5.0, 10.0, 40.0])}
    asked = []

    def program(name):
        return lambda options, size, iterations: (asked.append((name, size, iterations)), next(series[name]))[1]
    monkeypatch.setattr(peers, "PROGRAMS", {name: program(name) for name in series})
    ours, theirs = peers.measure(SimpleNamespace(iterations=None, repetitions=3, base="gloo-ring"), list(series), 2**24)
    assert asked == [("redsum-server", 2**24, 10), ("gloo-ring", 2**24, 10)] * 3  # in turn
    assert (ours["median_us"], theirs["median_us"]) == (20.0, 10.0)
    assert (ours["ratio"], ours["ratio_of_pairs"]) == (2.0, 2.0)
    assert (theirs["ratio"], theirs["ratio_of_pairs"]) == (1.0, 1.0)


def test_no_ratios_without_the_base(monkeypatch):
    monkeypatch.setattr(peers, "PROGRAMS", {"redsum-server": lambda *_: 1.0})
    [row] = peers.measure(SimpleNamespace(iterations=1, repetitions=1, base="gloo-ring"), ["redsum-server"], 4)
    assert "ratio" not in row


@pytest.mark.parametrize(("limits", "code"), [({}, 0), ({"max_ratio": 1.2}, 0), ({"max_ratio": 1.1}, 1),
                                              ({"max_ratio": 1.2, "max_peer_ratio": 0.7}, 1), ({"max_peer_ratio": 0.8}, 0)])
def test_limits_are_for_redsum_only(limits, code, tmp_path):
    rows = [{"bytes": 4, "program": "redsum-server", "ratio": 1.15, "peer_ratio": 0.75},
            {"bytes": 4, "program": "gloo-ring", "ratio": 2.0, "peer_ratio": 1.0}]
    options = SimpleNamespace(**{"json": tmp_path / "a.json", "max_ratio": None, **limits})
    assert common.finish("a", options, rows, cpus=2) == code
    assert json.loads((tmp_path / "a.json").read_text()) == {"cpus": 2, "rows": rows}


def test_missing_peers_are_skipped_by_name(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("redsumrun", "redsumd", "redsum-perf"):
        (folder / program).symlink_to(BIN / program)
    done = bench(folder)
    assert done.returncode == 0, done.stderr
    for name in peers.PROGRAMS:
        assert (f"skipped: {name}: " in done.stdout) == (not name.startswith("redsum")), name
    rows = json.loads((tmp_path / "bench/peers.json").read_text())["rows"]
    assert [row["program"] for row in rows] == [name for name in peers.PROGRAMS if name.startswith("redsum")]
    assert all(row["median_us"] > 0 for row in rows)
    done = bench(folder, "--only", "redsum-server,gloo-ring", "--max-ratio", "1")
    assert done.returncode == 1 and "gloo-ring, which does not run" in done.stderr


@pytest.mark.parametrize("begin", PEERS)
def test_right_sums(begin, tmp_path):
    need_peer(begin)
    done = bench(BIN, "--only", f"{begin}-*", "--json", tmp_path / "peers.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert [row["program"] for row in rows] == [name for name in peers.PROGRAMS if name.startswith(begin)]


@pytest.mark.parametrize("begin", PEERS)
def test_a_changed_bit_is_noticed(begin, tmp_path):
    need_peer(begin)
    done = bench(BIN, "--only", PEERS[begin], "--tamper", "2", "--json", tmp_path / "peers.json")
    assert done.returncode == 1
    assert "rank 2: 1 elements came out wrong" in done.stderr
