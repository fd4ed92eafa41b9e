# SPDX-License-Identifier: Apache-2.0
"""`./dev bench lab` at its smallest: modes and Gloo in turn on hosts of 100 Mbit/s."""
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from laboratory import ROOT
from processes import BIN, SLOW

sys.path.insert(0, str(ROOT / "bench"))
import peers  # noqa: E402


def bench(json_file, *arguments):
    command = [sys.executable, "-B", ROOT / "bench/lab.py", "--bin", BIN, "--json", json_file, "--rate", "100mbit", "--workers", "2",
               "--reducers", "1", "--sizes", "1", "--repetitions", "1", "--iterations", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100 * SLOW)


def test_a_mode_against_its_ceiling_and_a_limit_that_no_network_meets(lab, tmp_path):
    lab.up("--hosts", 1)  # skips where there can be no lab; the bench makes its own
    done = bench(tmp_path / "lab.json", "--mode", "server,direct,ring", "--max-ratio", "0.5")
    assert done.returncode == 1, done.stderr
    server, direct, ring = json.loads((tmp_path / "lab.json").read_text())["rows"]
    assert [row["program"] for row in (server, direct, ring)] == ["redsum-server", "redsum-direct", "redsum-ring"]
    # 1 MiB at 100 Mbit/s is 83.9 ms; two workers share the card of one reducer, and send each other half of it twice.
    assert server["ceiling_us"] == pytest.approx(2 * 83886, rel=1e-3)
    assert direct["ceiling_us"] == ring["ceiling_us"] == pytest.approx(83886, rel=1e-3)
    for row in (server, direct, ring):
        assert row["ratio"] > 0.7  # a token bucket lets a little pass at once, and not much
        assert f"{row['program']}, 1 MiB: ratio {row['ratio']:.3f} is above 0.5" in done.stdout


def test_gloo_runs_in_turn_on_the_same_hosts(lab, tmp_path):
    lab.up("--hosts", 1)
    if why := peers.missing(SimpleNamespace(bin=BIN), "gloo-ring"):
        pytest.skip(f"{why}; `./dev bench peers` installs and builds it")
    done = bench(tmp_path / "lab.json", "--peer", "gloo-ring")
    assert done.returncode == 0, done.stderr
    ours, gloo = json.loads((tmp_path / "lab.json").read_text())["rows"]
    assert gloo["ratio"] > 0.7  # it went over the cards
    assert gloo["peer_ratio"] == 1 and ours["peer_ratio"] == ours["median_us"] / gloo["median_us"]
