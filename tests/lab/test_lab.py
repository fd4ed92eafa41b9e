# SPDX-License-Identifier: Apache-2.0
"""`./dev lab` itself: rates, cuts, and that nothing is left of it."""
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from laboratory import COMMAND, ROOT, TRANSFER, UNABLE, call, links, namespaces, tcp_settings, until
from processes import Process

MBIT = 100  # low, so that a busy machine can keep up with it
MTU = 9000


def check_rate(lab, megabytes, *pairs, wanted_mbit, mtu=MTU):
    """The payload of all pairs together comes at a wanted rate on the wire. It must never be faster; for slower it is measured
    again, as this machine may be too busy to send as fast as the lab lets it."""
    wanted = wanted_mbit * 1e6 * (mtu - 52) / (mtu + 14)  # IP, TCP with time stamps, Ethernet
    rates = []
    for _ in range(3):
        rates.append(lab.send(megabytes, *pairs) / wanted)
        assert rates[-1] <= 1.1, f"{rates[-1]} of the rate"
        if rates[-1] >= 0.9:
            return
    raise AssertionError(f"{rates} of the rate")


def test_a_card_sends_and_receives_at_its_rate_both_ways_at_once(lab):
    lab.up("--hosts", 2, "--rate", f"{MBIT}mbit")
    check_rate(lab, 12, ("h0", "h1"), ("h1", "h0"), wanted_mbit=2 * MBIT)


def test_the_hosts_use_the_congestion_control_asked_for(lab):
    for control in ("reno", "cubic"):
        lab.up("--hosts", 2, "--tcp", control)
        lab.send(1, ("h0", "h1"))
        assert lab.started[-2].line("^control ") == f"control {control}"
        lab.must("down")


def test_two_senders_share_the_rate_of_one_receiver(lab):
    lab.up("--hosts", 3, "--rate", f"{MBIT}mbit")
    check_rate(lab, 6, ("h0", "h2"), ("h1", "h2"), wanted_mbit=MBIT)


def test_two_receivers_share_the_rate_of_one_sender(lab):
    lab.up("--hosts", 3, "--rate", f"{MBIT}mbit", "--mtu", 1500)
    check_rate(lab, 6, ("h0", "h1"), ("h0", "h2"), wanted_mbit=MBIT, mtu=1500)


@pytest.mark.parametrize("kind, shown", [([], "cut"), (["--silent"], "cut (silent)")])
def test_cut_stops_traffic_and_heal_brings_it_back(lab, kind, shown):
    lab.up("--hosts", 3)
    lab.start("h1", sys.executable, TRANSFER, "echo", "5000").line("^listening$")
    lab.start("h1", sys.executable, TRANSFER, "serve", "5001").line("^listening$")
    tick = lab.start("h0", sys.executable, TRANSFER, "tick", lab.address("h1"), "5000")
    tick.line("^tick 10$")
    lab.must("cut", "h1", *kind)
    assert lab.host("h1")["link"] == shown and lab.host("h0")["link"] == "up"
    stopped = len(tick.lines)
    time.sleep(0.5)
    assert len(tick.lines) <= stopped + 1  # one may have been under way
    assert not lab.reaches("h0", "h1", 5001, limit_s=0.3)
    lab.must("heal", "h1")
    assert lab.host("h1")["link"] == "up"
    until(lambda: len(tick.lines) > stopped + 5, 20, "the connection did not go on after heal")
    assert lab.reaches("h2", "h1", 5001, limit_s=10)


def test_down_leaves_nothing_and_can_be_repeated(lab):
    before = links(), tcp_settings()
    lab.up("--hosts", 4)
    assert len(namespaces(lab.name)) == 5 and (links(), tcp_settings()) == before  # the machine's own network sees nothing of a lab
    stubborn = lab.start("h3", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    stubborn.line("^ready$")
    assert stubborn.pid in lab.host("h3")["processes"]
    assert "is removed" in lab.must("down")
    assert stubborn.wait(5) == -signal.SIGKILL
    assert not namespaces(lab.name) and (links(), tcp_settings()) == before
    assert "was not up" in lab.must("down")


def test_up_after_a_killed_up(lab):
    lab.up("--hosts", 1)  # skips where there can be none
    lab.must("down")
    making = Process([*COMMAND, "--lab", lab.name, "up", "--hosts", "100"])
    until(lambda: len(namespaces(lab.name)) > 3, 20, making.output)
    making.signal(signal.SIGKILL)
    assert making.wait() == -signal.SIGKILL
    making.end()
    assert 3 < len(namespaces(lab.name)) < 100
    assert "is not up" in lab.call("status").stderr
    assert "removed what was left" in lab.must("up", "--hosts", 2)
    assert [row["host"] for row in lab.status()["hosts"]] == ["h0", "h1"]
    lab.must("down")
    assert not namespaces(lab.name)


def test_up_twice_is_once_and_other_settings_are_refused(lab):
    lab.up("--hosts", 2, "--rate", "200mbit")
    assert "is up already" in lab.must("up", "--hosts", 2, "--rate", "200mbit")
    refused = lab.call("up", "--hosts", 3, "--rate", "200mbit")
    assert refused.returncode == 1 and "hosts 2" in refused.stderr and "down" in refused.stderr
    assert len(lab.status()["hosts"]) == 2


def test_two_labs_do_not_meet(lab, other_lab):
    lab.up("--hosts", 2)
    other_lab.up("--hosts", 2)
    lab.start("h1", sys.executable, TRANSFER, "serve", "5001").line("^listening$")
    assert lab.reaches("h0", "h1", 5001, limit_s=10)
    assert not other_lab.reaches("h0", "h1", 5001)
    other_lab.must("down")
    assert lab.reaches("h0", "h1", 5001, limit_s=10)


def test_run_removes_the_lab_however_its_command_ends(lab):
    lab.up("--hosts", 1)
    lab.must("down")
    inner = f"{' '.join(COMMAND)} exec h1 sh -c 'echo at $LAB_ADDRESS'; exit 7"
    done = call("--lab", lab.name, "run", "--hosts", 2, "--rate", "200mbit", "--", "sh", "-c", inner, program=COMMAND)
    assert done.returncode == 7 and "at 10.77.0.2" in done.stdout and "is removed" in done.stdout, done.stderr
    assert not namespaces(lab.name)
    long = Process([*COMMAND, "run", "--hosts", "2", "--", "sh", "-c", "echo begun; exec sleep 600"])
    long.line("^begun$")
    assert len(namespaces(f"run{long.pid}")) == 3
    long.signal(signal.SIGTERM)
    assert long.wait(20) == 128 + signal.SIGTERM
    long.end()
    assert not namespaces(f"run{long.pid}")
    missing = lab.call("run", "--hosts", 1, "--", "./no-such-program")
    assert missing.returncode == 1 and "no-such-program" in missing.stderr
    assert not namespaces(lab.name)


def test_exec_says_where_it_is_and_passes_the_status_on(lab):
    lab.up("--hosts", 2)
    done = lab.call("exec", "h1", "sh", "-c", "echo $LAB_NAME $LAB_HOST $LAB_ADDRESS; exit 5")
    assert (done.returncode, done.stdout) == (5, f"{lab.name} h1 10.77.0.2\n")


def test_wrong_calls_are_refused_and_named(lab):
    lab.up("--hosts", 2)
    for words, named in [(["exec", "h2", "true"], "h0 to h1"), (["cut", "switch"], "'switch'"), (["exec", "h0"], "no command"),
                         (["up", "--rate", "fast"], "'fast'"), (["up", "--hosts", "0"], "'0'"), (["up", "--delay", "5"], "'5'")]:
        refused = lab.call(*words)
        assert refused.returncode in (1, 2) and named in refused.stderr, (words, refused.stderr)
    assert len(lab.status()["hosts"]) == 2


def test_a_lab_that_is_not_up_is_named(lab):
    lab.up("--hosts", 1)
    lab.must("down")
    for words in (["exec", "h0", "true"], ["cut", "h0"], ["heal", "h0"], ["status"]):
        refused = lab.call(*words)
        assert refused.returncode == 1 and lab.name in refused.stderr and "not up" in refused.stderr, words


def test_delay_is_kept_or_refused_with_the_kernels_option_named(lab):
    lab.up("--hosts", 1)
    lab.must("down")
    done = lab.call("up", "--hosts", 2, "--delay", "50ms")
    if done.returncode == UNABLE:
        assert "NET_SCH_NETEM" in done.stderr and not namespaces(lab.name)
        return
    assert done.returncode == 0, done.stderr
    lab.start("h1", sys.executable, TRANSFER, "serve", "5001").line("^listening$")
    assert not lab.reaches("h0", "h1", 5001, limit_s=0.09)  # there and back: 100 ms
    assert lab.reaches("h0", "h1", 5001, limit_s=10)


def program(env=None, **options):
    """The script without ./dev, which would install what it lacks; from standard input, as another user may not read it."""
    script = (ROOT / "scripts" / "lab.py").read_text()
    return subprocess.run([sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
                           f"sys.argv = ['lab', 'up']\n" + script], capture_output=True, text=True, timeout=20, env=env, **options)


def test_missing_rights_and_tools_are_named():
    if os.geteuid() == 0 and not shutil.which("ip"):
        pytest.skip("iproute2 is not installed")
    if os.geteuid() == 0:
        missing = program(env={"PATH": "/nonexistent"})
        assert missing.returncode == UNABLE and "iproute2" in missing.stderr, missing.stderr
        refused = program(user=65534, group=65534, extra_groups=[])
    else:
        refused = program()
    assert refused.returncode == UNABLE and "root" in refused.stderr, refused.stderr
