# SPDX-License-Identifier: Apache-2.0
"""Jobs whose workers sum in a ring, as real processes: every result, both orders, a loss, a disagreement, bad requests."""
import time

import pytest
from processes import BIN, SLOW, START_LIMIT_S

COLLECTIVES = ["allreduce", "reduce", "broadcast", "reduce_scatter", "all_gather"]
LOSS_LIMIT_S = 5 * SLOW


def launch(bench, size, *arguments, flags=("--mode", "ring"), env=None):
    run = bench.process(BIN / "redsumrun", "-np", size, *flags, *arguments, env=env, new_session=True)
    return run.wait(120 * SLOW), run


@pytest.mark.parametrize("size", range(1, 9))
def test_every_collective(bench, size):
    """Small, and of more than one chunk for each rank; every second size in place, one chunk size apart from the default."""
    for i, collective in enumerate(COLLECTIVES):
        order = ("ring", "rank")[(size + i) % 2]
        status, run = launch(bench, size, BIN / "redsum-perf", "--collective", collective, "-b", 20, "-e", "120K", "-f", 6000,
                             "-d", "fp32,bf16", "-o", "sum", "-n", 1, "-w", 0, "-I", size % 2,
                             flags=("--mode", "ring", "--chunk-bytes", 4096), env={"REDSUM_RING_ORDER": order})
        assert status == 0, run.output()
        run.line(f"mode ring \\(order {order}\\).*reducers 0 .*chunk 4096")
        run.line("Out of bounds values : 0 OK")


def test_a_flag_says_the_order_too(bench):
    status, run = launch(bench, 3, BIN / "redsum-perf", "--ring-order", "rank", "-b", "100K", "-e", "100K", "-n", 1, "-w", 0,
                         env={"REDSUM_RING_ORDER": "ring"})
    assert status == 0, run.output()
    run.line("mode ring \\(order rank\\)")


def test_one_rank_may_say_the_order_for_all(bench):
    status, run = launch(bench, 3, "sh", "-c", f"[ $RANK = 1 ] && export REDSUM_RING_ORDER=rank; exec {BIN}/redsum-perf -b 100K -e 100K "
                         "-n 1 -w 0")
    assert status == 0, run.output()
    run.line("mode ring \\(order rank\\)")


def test_order_rank_gives_the_bits_of_server_mode_and_order_ring_the_same_bits_each_time(bench):
    daemon = bench.daemon()

    def hashes(job, **env):
        workers = bench.workers(daemon, 4, "hash", 50021, job=job, env=env)
        found = set()
        for worker in workers:
            assert worker.wait() == 0, worker.output()
            found.add(worker.line("^hash "))
        assert len(found) == 1, found
        return found.pop()
    server = hashes("server", REDSUM_MODE="server")
    rank = hashes("rank", REDSUM_MODE="ring", REDSUM_RING_ORDER="rank")
    first, second = (hashes(f"ring-{i}", REDSUM_MODE="ring") for i in range(2))
    assert rank == server
    assert first == second and first != server


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("count", [1000, 8000000])
def test_a_killed_worker_is_named_to_all_others(bench, count, victim):
    coordinator, = bench.pool(0)
    workers = bench.workers(coordinator, 4, "loop", count, 10000000, env={"REDSUM_MODE": "ring"})
    for worker in workers:
        worker.line("^ready$")
    workers[victim].signal(9)
    start = time.monotonic()
    for rank, worker in enumerate(workers):
        if rank != victim:
            assert worker.wait() == 3, worker.output()  # and not 4: its input was as before the call
            assert time.monotonic() - start < LOSS_LIMIT_S
            error = worker.line("^error: ")
            assert "peer_lost" in error and f"rank {victim}" in error, error
    for worker in bench.workers(coordinator, 3, "loop", 100000, 3, env={"REDSUM_MODE": "ring"}):  # the same job again
        assert worker.wait() == 0, worker.output()


@pytest.mark.parametrize("counts", [(409600, 409598, 409598), (4, 4, 8), (50000, 50000, 0)])
def test_different_counts_are_an_error_on_every_rank_naming_both(bench, counts):
    coordinator, = bench.pool(0)
    for rank, worker in enumerate(bench.workers(coordinator, 3, "loop", lambda rank: counts[rank], 1, env={"REDSUM_MODE": "ring"})):
        assert worker.wait() == 3, worker.output()
        error = worker.line("^error: ")
        assert "mismatch" in error and "count" in error and "rank" in error, error
        assert all(f" {count}" in error for count in set(counts)), error


def test_reducers_beside_a_ring_are_refused(bench):
    status, run = launch(bench, 2, "true", flags=("--mode", "ring", "--reducers", 2))
    assert status == 2
    run.line("--mode ring has no reducers")


def test_an_unknown_order_is_refused(bench):
    status, run = launch(bench, 2, BIN / "redsum-perf", env={"REDSUM_RING_ORDER": "bad"})
    assert status not in (0, None)
    run.line("invalid_argument.*REDSUM_RING_ORDER")


@pytest.mark.parametrize("mode", ["direct", "ring"])
def test_redsumrun_reads_the_mode_from_the_environment(bench, mode):
    """No reducer is started, whether it was told by flag or variable: direct mode counts its workers as reducers."""
    status, run = launch(bench, 2, BIN / "redsum-perf", "-b", "100K", "-e", "100K", "-n", 1, "-w", 0, flags=("--verbose",),
                         env={"REDSUM_MODE": mode})
    assert status == 0, run.output()
    run.line(f"mode {mode}.*reducers {0 if mode == 'ring' else 2} ", START_LIMIT_S)
    assert "[reducer" not in run.output(), run.output()
    status, run = launch(bench, 2, "true", flags=("--reducers", 1), env={"REDSUM_MODE": mode})
    assert status == 2
    run.line(f"REDSUM_MODE={mode} has no reducers")
