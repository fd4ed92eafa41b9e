# SPDX-License-Identifier: Apache-2.0
"""Memory stays within what was promised, and idle costs next to nothing."""
import json
import re
import signal
import time

import pytest
from processes import SANITIZED, SLOW, cpu_seconds, descriptors, resident_bytes

sanitized = pytest.mark.skipif(bool(SANITIZED), reason="a sanitizer has memory and threads of its own")


def reserved_bytes(daemon, job):
    """What the daemon logged at the job's join."""
    for line in daemon.output().splitlines():
        entry = json.loads(line)
        if job in json.dumps(entry) and "reserv" in json.dumps(entry):
            if isinstance(entry.get("reserved_bytes"), int):
                return entry["reserved_bytes"]
            number = re.search(r"reserv\w*\D*?(\d+) bytes|(\d+) bytes reserved", json.dumps(entry))
            if number:
                return int(number[1] or number[2])
    raise AssertionError(f"no reservation of {job} in the log:\n{daemon.output()}")


@sanitized
def test_one_gib_through_the_pool_stays_within_the_reservation(bench):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 2, "loop", 1000, 2, job="warm-up"):
        assert worker.wait() == 0, worker.output()
    before = resident_bytes(daemon.pid)
    workers = bench.workers(daemon, 2, "loop", 64 << 20, 2, job="large")  # 2 calls of 256 MiB from each of 2 ranks: 1 GiB
    for worker in workers:
        assert worker.wait(240) == 0, worker.output()
    assert resident_bytes(daemon.pid, "VmHWM") - before <= reserved_bytes(daemon, "large") + (8 << 20)


@sanitized
def test_LIF_09_idle_daemon_and_idle_client_use_little_cpu(bench):
    daemon = bench.daemon("--shards", "2")
    workers = bench.workers(daemon, 2, "idle")
    for worker in workers:
        worker.line("^ready$")
    time.sleep(1)  # what is still being finished
    pids = [daemon.pid, *(worker.pid for worker in workers)]
    before, seconds = [cpu_seconds(pid) for pid in pids], 5
    time.sleep(seconds)  # the measured time, not a synchronisation
    shares = [(cpu_seconds(pid) - start) / seconds for pid, start in zip(pids, before)]
    assert max(shares) < 0.02, shares
    for worker in workers:
        worker.type("go on\n")
    for worker in workers:
        assert worker.wait() == 0, worker.output()


@sanitized
def test_LIF_09_waiting_for_a_rank_that_sleeps_costs_little_cpu(bench):
    limits = {"REDSUM_HEARTBEAT_TIMEOUT": "60"}
    daemon = bench.daemon("--shards", "2", "--heartbeat-timeout", "60s")
    workers = bench.workers(daemon, 2, "idle", env=limits)
    for worker in workers:
        worker.line("^ready$")
    workers[1].signal(signal.SIGSTOP)
    workers[0].type("go on\n")
    pids, seconds = [daemon.pid, workers[0].pid], 4
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)  # the measured time, not a synchronisation
    shares = [(cpu_seconds(pid) - start) / seconds for pid, start in zip(pids, before)]
    assert max(shares) < 0.1, shares
    assert not workers[0].ended(), workers[0].output()
    workers[1].signal(signal.SIGCONT)
    workers[1].type("go on\n")
    for worker in workers:
        assert worker.wait() == 0, worker.output()


def test_LIF_01_jobs_leave_nothing_open(bench):
    daemon = bench.daemon()

    def job(number):
        for worker in bench.workers(daemon, 2, "loop", 1000, 2, job=f"job-{number}"):
            assert worker.wait() == 0, worker.output()
    job(0)
    job(1)
    deadline, files = time.monotonic() + 5 * SLOW, descriptors(daemon.pid)
    for number in range(2, 20):
        job(number)
    while descriptors(daemon.pid) > files and time.monotonic() < deadline + 30:
        time.sleep(0.05)
    assert descriptors(daemon.pid) <= files


def test_job_beyond_the_budget_is_refused_with_need_and_limit(bench):
    daemon = bench.daemon("--memory-budget", "1MiB", "--chunk-bytes", "1MiB", "--window", "8")
    for worker in bench.workers(daemon, 2, "loop", 1000, 1):
        assert worker.wait() == 3, worker.output()
        error = worker.line("^error: ")
        assert "resource_exhausted" in error and re.search(r"\d{7,}|MiB", error), error
