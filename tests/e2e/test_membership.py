# SPDX-License-Identifier: Apache-2.0
"""Reducers come and go under a running job: no call fails, every result is checked by the workers."""
import time

import pytest
from processes import SLOW, ready, until


def received(reducer):
    return sum(shard["bytes_received"] for shard in reducer.status()["reducer"]["shards"])


def works(reducer, more=1 << 20):
    """It takes part in the job: bytes come in."""
    before = received(reducer)
    until(lambda: received(reducer) > before + more, 5 * SLOW, lambda: f"nothing comes to this reducer:\n{reducer.output()}")


def start_reducer(bench, coordinator, name, *flags):
    return bench.daemon("--role", "reducer", "--coordinators", coordinator.address("control"), "--name", name, *flags)


def go_on(workers):
    assert not any(worker.ended() for worker in workers), "\n".join(worker.output() for worker in workers)


@pytest.mark.parametrize("count", [1000, 4000000])
def test_FLT_02_a_reducer_that_comes_back_is_used_within_5_s_without_restarting_workers(bench, count):
    coordinator, first, second = bench.pool(2)
    workers = bench.workers(coordinator, 3, "loop", count, 10000000)
    ready(workers)
    first.signal(9)
    first.wait()
    start = time.monotonic()
    again = start_reducer(bench, coordinator, "reducer-0")
    works(again)
    assert time.monotonic() - start < 5 * SLOW
    second.signal(9)  # now all is with the one that came
    works(again)
    go_on(workers)


@pytest.mark.parametrize("count, calls", [(1000, 20000), (4000000, 100)])
def test_FLT_02_all_reducers_are_killed_and_the_workers_go_on_by_themselves(bench, count, calls):
    coordinator, *reducers = bench.pool(2)
    workers = bench.workers(coordinator, 3, "loop", count, calls)
    ready(workers)
    for reducer in reducers:
        reducer.signal(9)
    for worker in workers:
        assert worker.wait(60 * SLOW) == 0, worker.output()
    coordinator.line("its workers sum for each other")


@pytest.mark.parametrize("count", [1000, 4000000])
def test_FLT_02_both_reducers_are_killed_and_one_is_started_again_after_3_s(bench, count):
    coordinator, *reducers = bench.pool(2)
    workers = bench.workers(coordinator, 3, "loop", count, 10000000)
    ready(workers)
    for reducer in reducers:
        reducer.signal(9)
    time.sleep(3)
    again = start_reducer(bench, coordinator, "reducer-0")
    works(again)
    again.signal(9)  # and once more
    again.wait()
    works(start_reducer(bench, coordinator, "reducer-1"))
    go_on(workers)


def test_workers_that_may_not_listen_do_not_fall_back(bench):
    """Nothing guards the pool, and the coordinator is reached by an address that is not loopback's own."""
    coordinator, only = bench.pool(1)
    workers = bench.workers(coordinator, 2, "loop", 1000, 10000000, env={"REDSUM_DATA_ADDRESS": "0.0.0.0"})
    ready(workers)
    only.signal(9)
    for worker in workers:
        assert worker.wait() == 3, worker.output()
        assert "reducer_lost" in worker.line("^error: ")
    coordinator.line("brings no reducer.*REDSUM_SECRET_FILE")


def test_a_job_that_began_with_one_reducer_grows(bench):
    coordinator, _ = bench.pool(1)
    workers = bench.workers(coordinator, 3, "loop", 4000000, 10000000)
    ready(workers)
    for name in ("more-0", "more-1"):
        works(start_reducer(bench, coordinator, name, "--shards", "2"))
    go_on(workers)


@pytest.mark.parametrize("count, calls", [(1000, 30000), (4000000, 60)])
def test_a_reducer_that_is_stopped_hands_its_work_over(bench, count, calls):
    """SIGTERM: it leaves the job at an epoch border and ends with 0 long before its drain timeout."""
    coordinator, first, *_ = bench.pool(2, "--drain-timeout", "1h")
    workers = bench.workers(coordinator, 3, "loop", count, calls)
    ready(workers)
    assert first.stop(5 * SLOW) == 0, first.output()
    for worker in workers:
        assert worker.wait(60 * SLOW) == 0, worker.output()


def test_the_only_reducer_hands_over_to_the_workers(bench):
    coordinator, only = bench.pool(1, "--drain-timeout", "1h")
    workers = bench.workers(coordinator, 2, "loop", 100000, 10000000)
    ready(workers)
    assert only.stop(5 * SLOW) == 0, only.output()
    time.sleep(0.2)
    go_on(workers)


def test_the_only_reducer_drains_once_another_has_come(bench):
    coordinator, only = bench.pool(1, "--drain-timeout", "1h")
    workers = bench.workers(coordinator, 2, "loop", 100000, 10000000, env={"REDSUM_FALLBACK": "none"})
    ready(workers)
    only.signal(15)
    only.line("drain")
    works(only)
    works(start_reducer(bench, coordinator, "next"))
    assert only.wait(5 * SLOW) == 0, only.output()
    go_on(workers)


def test_a_reducer_without_memory_for_the_job_does_not_harm_it(bench):
    coordinator, _ = bench.pool(1)
    workers = bench.workers(coordinator, 2, "loop", 4000000, 200)
    ready(workers)
    small = start_reducer(bench, coordinator, "small", "--memory-budget", "1MiB")
    coordinator.line("does without.*small")
    for worker in workers:
        assert worker.wait(60 * SLOW) == 0, worker.output()
    assert received(small) == 0
