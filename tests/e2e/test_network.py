# SPDX-License-Identifier: Apache-2.0
"""Networks, clocks and names as they are in the field: late, slow, jumping, half configured."""
import os
import re
import signal
import struct
import time
from pathlib import Path

import pytest
from processes import BUILD, SANITIZED, SLOW, WORKER, ready, until
from throttle import Link

PRELOAD = str(BUILD / "tests" / "libwall_clock.so")
preloaded = pytest.mark.skipif(bool(SANITIZED), reason="a sanitizer's run-time library has to be the first one loaded")


class At:
    """Stands for a daemon where only its control address matters."""

    def __init__(self, address):
        self.control = address

    def address(self, _):
        return self.control


def test_NET_06_a_rank_that_pauses_within_the_limit_is_not_lost(bench):
    limit = 2 * SLOW
    daemon = bench.daemon("--heartbeat-timeout", f"{limit}s")
    workers = bench.workers(daemon, 3, "idle", env={"REDSUM_HEARTBEAT_TIMEOUT": str(limit)})
    ready(workers)
    workers[1].signal(signal.SIGSTOP)
    for rank in (0, 2):
        workers[rank].type("go on\n")  # their call waits for the one that sleeps
    workers[1].type("go on\n")
    time.sleep(limit * 2 / 3)  # the pause is the input
    workers[1].signal(signal.SIGCONT)
    for worker in workers:
        assert worker.wait() == 0, worker.output()


def test_NET_06_heartbeats_do_not_queue_behind_bulk_data(bench):
    """Two ranks behind one slow link, control and data in turn: the collective takes longer than the heartbeat limit."""
    limit, count, rate = 1, 1 << 18, 1 << 20
    link = Link(rate)
    try:
        (control, open_control), (data, open_data) = link.open(), link.open()
        daemon = bench.daemon("--heartbeat-timeout", f"{limit}s", "--advertise", data)
        open_control(daemon.address("control"))
        open_data(daemon.address("data"))
        start = time.monotonic()
        for worker in bench.workers(At(control), 2, "loop", count, 1, env={"REDSUM_HEARTBEAT_TIMEOUT": str(limit)}):
            assert worker.wait(60) == 0, worker.output()
        assert time.monotonic() - start > 1.5 * limit, "the link was not slow"
        assert min(link.passed.values()) >= 2 * 4 * count, "the data took another way"
    finally:
        link.close()


def test_NET_07_clients_that_are_there_before_the_daemon(bench):
    daemon = bench.daemon()
    ports = {which: daemon.address(which) for which in ("control", "data", "admin")}
    assert daemon.stop() == 0
    workers = bench.workers(At(ports["control"]), 4, "loop", 1000, 1)
    time.sleep(1.5)  # the daemon is late: the delay is the input
    assert not any(worker.ended() for worker in workers)
    bench.daemon(**ports)
    for worker in workers:
        assert worker.wait() == 0, worker.output()


def test_NET_11_writing_to_a_daemon_that_is_gone_ends_the_call_and_not_the_process(bench):
    """SIGPIPE has its default action in the workers, and the library leaves it at that (or they end with 6)."""
    daemon = bench.daemon()
    workers = bench.workers(daemon, 2, "idle")
    busy = bench.workers(daemon, 2, "loop", 4000000, 1000000, job="busy")
    ready(workers + busy)
    workers[0].signal(signal.SIGSTOP)  # it sees the loss only when it is about to write
    daemon.signal(signal.SIGKILL)
    assert daemon.wait() == -signal.SIGKILL
    for worker in workers:
        worker.type("go on\n")
    workers[0].signal(signal.SIGCONT)
    for worker in workers + busy:
        assert worker.wait() == 3, worker.output()
        assert "reducer_lost" in worker.line("^error: ")


def test_NET_13_a_communicator_that_was_never_used_has_its_limit_too(bench):
    daemon = bench.daemon()
    workers = bench.workers(daemon, 3, "subgroup", env={"REDSUM_OPERATION_TIMEOUT": "2", "REDSUM_CONNECT_TIMEOUT": "10"})
    ready(workers)  # every rank holds the world's result: the loss of rank 0 is no longer that call's
    workers[0].type("die\n")
    assert workers[0].wait() == 0, workers[0].output()
    for worker in workers[1:]:
        worker.type("go on\n")
    for worker in workers[1:]:
        assert worker.wait() == 3, worker.output()
        error = worker.line("^error: ")
        assert "peer_lost" in error and "rank 0" in error, error
        assert "peer_lost" in worker.line("^[a-z_]+: .*") and float(worker.line("^took ").split()[1]) < 2.5 * SLOW, worker.output()


class WallClock:
    """A wall clock for the processes of a test, set while they run."""

    def __init__(self, folder):
        self.path = folder / "seconds"
        self.path.write_bytes(struct.pack("q", 0))
        self.env = {"LD_PRELOAD": PRELOAD, "REDSUM_TEST_WALL_CLOCK": str(self.path)}

    def jump(self, seconds):
        with open(self.path, "r+b") as file:
            file.write(struct.pack("q", seconds))


@preloaded
def test_NET_15_the_clock_of_the_test_jumps(bench, tmp_path):
    """Or the next test would show nothing."""
    clock = WallClock(tmp_path)
    clock.jump(3600)
    process = bench.process("/usr/bin/python3", "-c", "import time; print(time.time(), time.monotonic())", env=clock.env)
    wall, monotonic = map(float, process.line(r"^[\d.]+ ").split())
    assert 3590 < wall - time.time() < 3610 and abs(monotonic - time.monotonic()) < 60


@preloaded
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_NET_15_a_jump_of_the_wall_clock_moves_no_limit(bench, tmp_path, seconds):
    clock = WallClock(tmp_path)
    daemon = bench.daemon("--heartbeat-timeout", "10s", env=clock.env)
    workers = bench.workers(daemon, 2, "wait", 1, env={"REDSUM_OPERATION_TIMEOUT": "2", **clock.env})
    ready(workers)
    workers[0].type("go on\n")
    time.sleep(0.3)  # it waits now
    clock.jump(seconds)
    assert workers[0].wait() == 3, workers[0].output()
    waited = re.match(r"waited ([\d.]+): (\w+)", workers[0].line("^waited "))
    assert 1 <= float(waited[1]) < 1.5 and waited[2] == "timeout"
    assert 2 <= float(workers[0].line("^ended ").split()[1]) < 2.5
    assert "timeout" in workers[0].line("^error: ") and "operation_timeout is 2.0 s" in workers[0].output()
    for worker in bench.workers(daemon, 2, "loop", 1000, 20, job="after", env=clock.env):
        assert worker.wait() == 0, worker.output()
    for process in bench.started:
        assert "a timed wait on the wall clock" not in process.output(), process.output()


def in_hosts(bench, hosts, worker_env, *arguments):
    """A worker in a mount namespace of its own, where /etc/hosts is `hosts`."""
    script = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    return bench.process("unshare", "-rm", "sh", "-c", script, "sh", WORKER, *arguments, env=worker_env)


def may_unshare(bench):
    return bench.process("unshare", "-rm", "true").wait() == 0


def has_ipv6():
    return "00000000000000000000000000000001" in Path("/proc/net/if_inet6").read_text() if os.path.exists("/proc/net/if_inet6") else False


@pytest.mark.skipif(not has_ipv6(), reason="this kernel has no IPv6")
def test_NET_04_a_pool_on_ipv6_is_reached_by_address_and_by_name(bench, tmp_path):
    daemon = bench.daemon(control="[::1]:0", data="[::1]:0", admin="[::1]:0")
    assert daemon.address("control").startswith("[::1]:")
    for worker in bench.workers(daemon, 2, "loop", 1000, 1, job="by-address"):
        assert worker.wait() == 0, worker.output()
    if not may_unshare(bench):
        pytest.skip("no mount namespace for a name of our own; the address was tested")
    hosts = tmp_path / "hosts"
    hosts.write_text("::1 six-only\n")
    port = daemon.address("control").rsplit(":", 1)[1]
    worker = in_hosts(bench, hosts, {"REDSUM_COORDINATOR": f"six-only:{port}"}, "loop", 10, 1)
    assert worker.wait() == 0, worker.output()


@preloaded
def test_NET_04_without_ipv6_a_name_with_both_is_reached_over_ipv4(bench, tmp_path):
    if not may_unshare(bench):
        pytest.skip("no mount namespace for a name of our own")
    hosts = tmp_path / "hosts"
    hosts.write_text("::1 both\n127.0.0.1 both\n127.0.0.1 four-only\n")
    without = {"LD_PRELOAD": PRELOAD, "REDSUM_TEST_NO_IPV6": "1"}
    daemon = bench.daemon(env=without)
    port = daemon.address("control").rsplit(":", 1)[1]
    for name in ("both", "four-only"):
        worker = in_hosts(bench, hosts, {"REDSUM_COORDINATOR": f"{name}:{port}", **without}, "loop", 10, 1)
        assert worker.wait() == 0, worker.output()
        assert len(worker.output().splitlines()) <= 3, "more than one line about it: " + worker.output()  # ready, done
    for line in daemon.output().splitlines():
        assert "97" not in re.findall(r"\berrno (\d+)|\((\d+)\)", line), line
