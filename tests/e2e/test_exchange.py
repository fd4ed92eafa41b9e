# SPDX-License-Identifier: Apache-2.0
"""Data from worker to worker, as real processes, in each mode: every result, and a loss."""
import time

import pytest
from processes import SLOW, ready

LIMIT_S = 2 * SLOW
MODES = ["server", "direct", "ring"]


def exchangers(bench, mode, count, calls, **env):
    coordinator, *_ = bench.pool(1 if mode == "server" else 0)
    return coordinator, bench.workers(coordinator, 4, "exchange", count, calls, env={"REDSUM_MODE": mode, **env})


@pytest.mark.parametrize("mode", MODES)
def test_every_rank_gets_its_parts(bench, mode):
    for worker in exchangers(bench, mode, 50000, 20)[1]:
        assert worker.wait() == 0, worker.output()


@pytest.mark.parametrize("count", [100, 1000000])
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_worker_is_named_to_all_others(bench, mode, count):
    coordinator, workers = exchangers(bench, mode, count, 10000000)
    ready(workers)
    workers[1].signal(9)
    start = time.monotonic()
    for rank, worker in enumerate(workers):
        if rank != 1:
            assert worker.wait() == 3, worker.output()  # and not 4: its input was as before the call
            assert time.monotonic() - start < LIMIT_S
            error = worker.line("^error: ")
            assert "peer_lost" in error and "rank 1" in error, error
    for worker in bench.workers(coordinator, 3, "exchange", 1000, 3, env={"REDSUM_MODE": mode}):  # the same job again
        assert worker.wait() == 0, worker.output()
