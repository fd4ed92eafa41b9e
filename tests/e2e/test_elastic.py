# SPDX-License-Identifier: Apache-2.0
"""Workers die, come back, leave and join: the others go on, every result is checked by the workers."""
import re
import time

import pytest
from processes import BUILD, SLOW, until

ENDLESS = 10**9


def elastic(bench, coordinator, size, count=1000, calls=ENDLESS, ranks=None, **env):
    return bench.workers(coordinator, size, count, calls, ranks=ranks, env={"REDSUM_OPERATION_TIMEOUT": "1800", **env},
                         program=BUILD / "tests" / "elastic_worker")


def memberships(worker):
    """[(rank, size, epoch, sequence, stayed), ...] as it told them."""
    found = re.findall(r"member (\d+) of (\d+), epoch (\d+), sequence (\d+), stayed (\d+)", worker.output())
    return [tuple(map(int, words)) for words in found]


def in_world(workers, size, limit_s=20):
    """All are in one membership of that size and have had a result in it; what they were told of it."""
    def there():
        for worker in workers:
            if not memberships(worker) or memberships(worker)[-1][1] != size:
                return False
            if "ready" not in worker.output().rsplit("member ", 1)[1]:
                return False
        return True
    until(there, limit_s * SLOW, lambda: "\n--\n".join(worker.output() for worker in workers))
    told = [memberships(worker)[-1] for worker in workers]
    assert len({row[1:] for row in told}) == 1, told
    assert sorted(row[0] for row in told) == list(range(size)), told
    return told


@pytest.mark.parametrize("mode", ["server", "direct", "ring"])
@pytest.mark.parametrize("count", [1000, 4000000])
def test_FLT_01_survivors_of_a_killed_worker_go_on(bench, mode, count):
    coordinator, *_ = bench.pool(2 if mode == "server" else 0)
    workers = elastic(bench, coordinator, 4, count, REDSUM_MODE=mode)
    in_world(workers, 4)
    workers[2].signal(9)
    start = time.monotonic()
    rest = [worker for rank, worker in enumerate(workers) if rank != 2]
    for worker in rest:
        assert re.search("peer_lost.*rank 2", worker.line("^lost: ")), worker.output()
        assert time.monotonic() - start < 2 * SLOW
    told = in_world(rest, 3)
    assert [row[0] for row in told] == [0, 1, 2] and told[0][4] == 3, told
    for worker in rest[1:]:
        worker.signal(9)  # one of three is not more than half: it waits
    rest[0].line("^lost: .*rank [12]")
    time.sleep(0.5)
    assert memberships(rest[0])[-1][1] == 3
    back = elastic(bench, coordinator, 4, count, ranks=[1, 2], REDSUM_MODE=mode)
    told = in_world([rest[0], *back], told[0][1])
    assert told[0][0] == 0, "the one that stayed"


def test_FLT_05_a_process_that_is_restarted_at_once_takes_its_place(bench):
    coordinator, *_ = bench.pool(2, "--heartbeat-timeout", "30")
    workers = elastic(bench, coordinator, 3, REDSUM_HEARTBEAT_TIMEOUT="30")
    in_world(workers, 3)
    workers[1].signal(9)
    time.sleep(0.1)
    start = time.monotonic()
    again, = elastic(bench, coordinator, 3, ranks=[1], REDSUM_HEARTBEAT_TIMEOUT="30")
    in_world([workers[0], workers[2], again], 3)
    assert time.monotonic() - start < 3 * SLOW


def test_FLT_05_a_process_that_hangs_is_superseded_long_before_its_heartbeats_are_missed(bench):
    coordinator, *_ = bench.pool(2, "--heartbeat-timeout", "30")
    workers = elastic(bench, coordinator, 3, REDSUM_HEARTBEAT_TIMEOUT="30")
    in_world(workers, 3)
    workers[1].signal(19)
    start = time.monotonic()
    again, = elastic(bench, coordinator, 3, ranks=[1], REDSUM_HEARTBEAT_TIMEOUT="30")
    in_world([workers[0], workers[2], again], 3)
    assert time.monotonic() - start < 3 * SLOW
    workers[1].signal(18)  # it wakes up, and has no place any more
    assert workers[1].wait() == 3, workers[1].output()
    assert "stale" in workers[1].line("^(error|lost): "), workers[1].output()


def test_FLT_06_the_one_that_comes_back_counts_again(bench):
    """Sums are checked against the number of workers of each membership."""
    coordinator, *_ = bench.pool(2)
    workers = elastic(bench, coordinator, 4, 100000)
    in_world(workers, 4)
    for victim in (2, 0):
        workers[victim].signal(9)
        rest = [worker for rank, worker in enumerate(workers) if rank != victim]
        in_world(rest, 3)
        workers[victim], = elastic(bench, coordinator, 4, 100000, ranks=[victim])
        in_world(workers, 4)


def test_FLT_07_below_the_minimum_all_wait_and_get_the_same_record(bench):
    coordinator, *_ = bench.pool(1)
    workers = elastic(bench, coordinator, 3, REDSUM_MIN_WORKERS="3")
    in_world(workers, 3)
    workers[0].signal(9)
    for worker in workers[1:]:
        worker.line("^lost: ")
    time.sleep(0.5)
    start = time.monotonic()
    workers[0], = elastic(bench, coordinator, 3, ranks=[0], REDSUM_MIN_WORKERS="3")
    told = in_world(workers, 3)
    assert time.monotonic() - start < 5 * SLOW
    assert told[0][0] == 2 and told[1][4] == 2, "the new one comes after those that stayed"


def test_workers_and_reducers_are_killed_together(bench):
    coordinator, *reducers = bench.pool(3)
    workers = elastic(bench, coordinator, 4, 300000)
    in_world(workers, 4)
    for round_, reducer in enumerate(reducers[:2]):
        victim = round_ + 1
        reducer.signal(9)
        workers[victim].signal(9)
        workers[victim], = elastic(bench, coordinator, 4, 300000, ranks=[victim])
        in_world(workers, 4)


def test_all_that_reach_the_end_leave(bench):
    coordinator, *_ = bench.pool(1)
    workers = elastic(bench, coordinator, 3, 200000, 200)
    in_world(workers, 3)
    workers[0].signal(9)
    for worker in workers[1:]:
        assert worker.wait(60 * SLOW) == 0, worker.output()
    until(lambda: not coordinator.status()["coordinator"]["jobs"], 5 * SLOW, coordinator.output)
