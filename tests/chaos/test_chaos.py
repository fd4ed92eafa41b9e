# SPDX-License-Identifier: Apache-2.0
"""`./dev chaos`, short, on loopback and in a lab; and it fails, with the right name, when something is wrong."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("REDSUM_BUILD", ROOT / "build" / "release"))
SLOW = 3 if os.environ.get("REDSUM_SANITIZED") else 1
UNABLE = 3  # exit code: this machine cannot have a lab
LIMIT_S = 120 * SLOW


def chaos(*words):
    """On a machine that does other things too, only a hang is too slow."""
    return subprocess.run([sys.executable, "-B", ROOT / "scripts" / "chaos", "--build", BUILD, "--heartbeat", str(2 * SLOW), "--untimed",
                           *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def test_FLT_02_every_bit_is_right_under_faults():
    done = chaos("--network", "loopback", "--minutes", 0.2 * SLOW, "--seed", 1, "--reducer-kills", 1)
    assert done.returncode == 0, done.stdout + done.stderr


def test_FLT_02_every_bit_is_right_when_links_are_cut():
    done = chaos("--network", "lab", "--minutes", 0.2 * SLOW, "--seed", 2, "--only",
                 "cut a link shortly,cut a link silently,pull a cable,kill a reducer")
    if done.returncode == UNABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what, found", [("flip", "1 wrong results"), ("sleep", "1 hangs"), ("exit", "1 failed collectives|1 other failures")])
def test_the_watch_sees_what_it_watches_for(what, found):
    done = chaos("--network", "loopback", "--minutes", 0.2 * SLOW, "--seed", 3, "--only", "kill a reducer", "--hang", 4 * SLOW,
                 "--sabotage", what, 40)
    assert done.returncode == 1 and any(text in done.stdout for text in found.split("|")), done.stdout + done.stderr
    assert "--seed 3" in done.stdout.splitlines()[-1]
