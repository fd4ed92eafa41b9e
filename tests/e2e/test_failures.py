# SPDX-License-Identifier: Apache-2.0
"""Loss and disagreement: every rank is told what happened, by name, in time, and its input is as it was."""
import time

import pytest
from processes import SLOW, START_LIMIT_S, ready, until

LIMIT_S = 2 * SLOW  # a killed process is noticed at once; 2 s is the bound


@pytest.mark.parametrize("count", [1000, 4000000])
@pytest.mark.parametrize("mode", ["server", "direct"])
def test_FLT_01_killed_worker_is_named_to_all_others(bench, mode, count):
    coordinator, *_ = bench.pool(2 if mode == "server" else 0)
    workers = bench.workers(coordinator, 4, "loop", count, 10000000, env={"REDSUM_MODE": mode})
    ready(workers)
    workers[2].signal(9)
    start = time.monotonic()
    for rank, worker in enumerate(workers):
        if rank != 2:
            assert worker.wait() == 3, worker.output()
            assert time.monotonic() - start < LIMIT_S
            error = worker.line("^error: ")
            assert "peer_lost" in error and "rank 2" in error, error
    for worker in bench.workers(coordinator, 3, "loop", 100000, 3, env={"REDSUM_MODE": mode}):  # the same job again
        assert worker.wait() == 0, worker.output()


def test_pool_serves_the_next_job_after_a_worker_was_killed(bench):
    coordinator, *_ = bench.pool(2)
    workers = bench.workers(coordinator, 3, "loop", 100000, 10000000, job="first")
    ready(workers)
    workers[0].signal(9)
    for worker in workers[1:]:
        assert worker.wait() == 3, worker.output()
    for worker in bench.workers(coordinator, 3, "loop", 100000, 3, job="second"):
        assert worker.wait() == 0, worker.output()


def test_other_jobs_go_on_when_a_worker_is_killed(bench):
    coordinator, *_ = bench.pool(2)
    lasting = bench.workers(coordinator, 2, "idle", job="lasting")
    failing = bench.workers(coordinator, 2, "loop", 100000, 10000000, job="failing")
    ready(lasting + failing)
    failing[1].signal(9)
    assert failing[0].wait() == 3
    for worker in lasting:
        worker.type("go on\n")
    for worker in lasting:
        assert worker.wait() == 0, worker.output()


@pytest.mark.parametrize("count, calls", [(1000, 20000), (4000000, 60)])
def test_FLT_02_killed_reducers_are_not_noticed_as_long_as_one_is_left(bench, count, calls):
    """Every result is checked by the workers; two of three reducers die under way."""
    coordinator, *reducers = bench.pool(3)
    workers = bench.workers(coordinator, 3, "loop", count, calls)
    ready(workers)
    for killed, reducer in enumerate(reducers[:2], 1):
        time.sleep(0.2)  # in the middle of something
        reducer.signal(9)
        until(lambda killed=killed: coordinator.status()["coordinator"]["jobs"][0]["epoch"]["count"] == 1 + killed, 5 * SLOW,
              coordinator.output)
        assert not any(worker.ended() for worker in workers), workers[0].output()
    for worker in workers:
        assert worker.wait(60 * SLOW) == 0, worker.output()


@pytest.mark.parametrize("count", [1000, 4000000])
def test_FLT_02_the_last_reducer_that_is_killed_is_named_to_all_without_fallback(bench, count):
    coordinator, only = bench.pool(1)
    workers = bench.workers(coordinator, 3, "loop", count, 10000000, env={"REDSUM_FALLBACK": "none"})
    ready(workers)
    only.signal(9)
    start = time.monotonic()
    for worker in workers:
        assert worker.wait() == 3, worker.output()
        assert time.monotonic() - start < LIMIT_S
        error = worker.line("^error: ")
        assert "reducer_lost" in error and ("reducer-0" in error or only.address("data") in error), error
    bench.daemon("--role", "reducer", "--coordinators", coordinator.address("control"), "--name", "reducer-0")
    for worker in bench.workers(coordinator, 3, "loop", 1000, 3, job="with-a-new-one"):
        assert worker.wait() == 0, worker.output()
    assert not coordinator.ended()


def test_silent_worker_is_lost_after_the_heartbeat_limit(bench):
    coordinator, *_ = bench.pool(1, "--heartbeat-timeout", f"{SLOW}s")
    workers = bench.workers(coordinator, 3, "loop", 1000, 10000000)
    ready(workers)
    workers[1].signal(19)  # SIGSTOP: alive, connected, silent
    start = time.monotonic()
    for rank in (0, 2):
        assert workers[rank].wait(10 * SLOW) == 3, workers[rank].output()
        error = workers[rank].line("^error: ")
        assert "peer_lost" in error and "rank 1" in error, error
    assert time.monotonic() - start < (1 + 1) * SLOW + 1


def test_SHP_01_different_counts_are_an_error_on_every_rank_naming_both(bench):
    coordinator, *_ = bench.pool(2)
    counts = [409600, 409598, 409598]
    workers = bench.workers(coordinator, 3, "loop", lambda rank: counts[rank], 1)
    for worker in workers:
        assert worker.wait() == 3, worker.output()
        error = worker.line("^error: ")
        assert "mismatch" in error and "409600" in error and "409598" in error and "count" in error, error
    assert all(member.get("/livez")[0] == 200 for member in bench.started[:3])


def test_SHP_04_small_counts_that_differ(bench):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 2, "loop", lambda rank: [0, 4][rank], 1):
        assert worker.wait() == 3, worker.output()
        assert "mismatch" in worker.line("^error: ")


def test_LIF_04_missing_rank_ends_formation_with_its_number(bench):
    daemon = bench.daemon("--formation-timeout", f"{SLOW}s")
    workers = bench.workers(daemon, 3, "loop", 1000, 1, ranks=[0, 2])
    for worker in workers:
        assert worker.wait() == 3, worker.output()
        error = worker.line("^error: ")
        assert "timeout" in error and "1" in error.split("timeout", 1)[1], error


def test_LIF_04_two_holders_of_one_rank(bench):
    """The others never come: the newer life of the rank takes over at once, or is refused at once; both never wait."""
    daemon = bench.daemon()
    holders = []
    for _ in range(2):
        holders += bench.workers(daemon, 3, "loop", 1000, 1, ranks=[0], job="doubled")
        until(lambda: "doubled" in daemon.get("/status")[1], START_LIMIT_S, "no such job")
    until(lambda: any(holder.ended() for holder in holders), 5 * SLOW, "two processes hold rank 0")
    refused = next(holder for holder in holders if holder.ended())
    assert refused.wait() == 3
    assert "rank 0" in refused.line("^error: "), refused.output()


def test_NET_07_coordinator_that_is_not_there(bench):
    daemon = bench.daemon()
    address = daemon.address("control")
    daemon.stop()

    class Gone:
        @staticmethod
        def address(_):
            return address
    lost = bench.workers(Gone, 1, "loop", 10, 1, env={"REDSUM_CONNECT_TIMEOUT": "1"})[0]
    assert lost.wait(10 * SLOW) == 3
    error = lost.line("^error: ")
    assert "timeout" in error and address in error, error
