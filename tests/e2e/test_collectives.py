# SPDX-License-Identifier: Apache-2.0
"""All-reduces through a real pool, checked element by element by redsum-perf and by the workers themselves."""
import json

import pytest
from processes import BIN, SANITIZED, SLOW

EXCHANGES = ["all_to_all", "gather", "scatter", "sendrecv"]
ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}


def run_perf(bench, size, reducers, *arguments, limit_s=240 * SLOW):
    launcher = bench.process(BIN / "redsumrun", "-np", size, "--reducers", reducers, BIN / "redsum-perf", *arguments,
                             new_session=True)
    status = launcher.wait(limit_s)
    assert status == 0, launcher.output()
    return launcher.output()


def rows(output):
    """The table's rows as lists of words, however the launcher prefixes them."""
    found = [line.split("]", 1)[-1].split() if line.startswith("[") else line.split() for line in output.splitlines()]
    found = [row for row in found if len(row) >= 8 and row[0].isdigit() and row[1].isdigit()]
    assert found, output
    return found


def test_the_program_of_the_readme(bench):
    run = bench.process(BIN / "redsumrun", "-np", 4, "--reducers", 2, BIN / "first_allreduce", new_session=True)
    assert run.wait() == 0, run.output()
    for rank in range(4):
        run.line(f"rank {rank} of 4: average 2.5$")


def test_every_type_and_operation(bench):
    output = run_perf(bench, 4, 2, "-b", "16", "-e", "1M", "-f", "4", "-d", "all", "-o", "all", "-n", "2", "-w", "0")
    kinds = {(row[2], row[3]) for row in rows(output)}
    # 17 types, 5 operations, but PROD, MIN and MAX of the two complex types are undefined.
    assert len(kinds) == 17 * 5 - 2 * 3, sorted(kinds)


def test_large_sizes(bench):
    largest = "16M" if SANITIZED else "64M"
    output = run_perf(bench, 4, 2, "-b", "16M", "-e", largest, "-f", "4", "-d", "fp32,bf16", "-o", "sum", "-n", "5")
    assert {row[2] for row in rows(output)} == {"fp32", "bf16"}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_world_sizes(bench, size):
    run_perf(bench, size, 2, "-b", "4", "-e", "256K", "-f", "8", "-d", "fp32,int8,bf16", "-o", "sum,avg", "-n", "2", "-w", "0")


def check_counts(output, parts):
    """The size is that of the whole, the count that of one rank's part."""
    for row in rows(output):
        assert int(row[0]) == int(row[1]) * parts * ELEMENT_BYTES[row[2]], row


@pytest.mark.parametrize("collective", ["reduce", "broadcast", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_collective(bench, collective, size):
    output = run_perf(bench, size, 2, "--collective", collective, "-b", "4", "-e", "1M", "-f", "16", "-d", "fp32,int8,bf16",
                      "-o", "sum,avg", "-n", "2", "-w", "0", "-I", size % 2)
    check_counts(output, size if collective in ("reduce_scatter", "all_gather") else 1)
    reduces = collective.startswith("reduce")
    assert {row[3] for row in rows(output)} == ({"sum", "avg"} if reduces else {"none"})


@pytest.mark.parametrize("collective", ["allreduce", "reduce", "broadcast", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_collective_in_direct_mode(bench, collective, size):
    launcher = bench.process(BIN / "redsumrun", "-np", size, "--mode", "direct", BIN / "redsum-perf", "--collective", collective,
                             "-b", "4", "-e", "1M", "-f", "16", "-d", "fp32,int8,bf16", "-o", "sum,avg", "-n", "2", "-w", "0",
                             "-I", size % 2, new_session=True)
    assert launcher.wait(240 * SLOW) == 0, launcher.output()
    assert rows(launcher.output())


@pytest.mark.parametrize("mode", [("--reducers", 2), ("--mode", "direct"), ("--mode", "ring")], ids=["server", "direct", "ring"])
@pytest.mark.parametrize("collective", EXCHANGES)
def test_exchanges_in_every_mode(bench, collective, mode):
    """Out of place, in place where there is such a thing, and with two calls in flight that have names."""
    variants = [(), ("-z", 0, "--key", "two")] + ([("-I", 1)] if collective in ("gather", "scatter") else [])
    for size, variant in zip((3, 5, 2), variants):
        run = bench.process(BIN / "redsumrun", "-np", size, *mode, BIN / "redsum-perf", "--collective", collective, "-b", 4,
                            "-e", "600K", "-f", 7.3, "-d", "fp32,int8,bf16", "-n", 3, "-w", 1, "-J", bench.folder / "perf.json",
                            *variant, new_session=True)
        assert run.wait(120 * SLOW) == 0, run.output()
        run.line("Out of bounds values : 0 OK")
        assert {row[3] for row in rows(run.output())} == {"none"}
        check_counts(run.output(), 1 if collective == "sendrecv" else size)
        factor = 1 if collective == "sendrecv" else (size - 1) / size
        for row in json.loads((bench.folder / "perf.json").read_text())["results"]:
            assert row["busbw_gb_s"] == pytest.approx(row["algbw_gb_s"] * factor), row
            assert row["wrong"] == 0 and row["nicbw_gb_s"] > 0, row


@pytest.mark.parametrize("collective", EXCHANGES)
def test_exchanges_of_one_rank(bench, collective):
    run = bench.process(BIN / "redsumrun", "-np", 1, BIN / "redsum-perf", "--collective", collective, "-b", 4, "-e", "64K", "-f", 90,
                        "-n", 2, "-w", 0, new_session=True)
    if collective == "sendrecv":
        assert run.wait(60 * SLOW) == 2, run.output()
        run.line("sendrecv at 1 rank: there is no next rank")
    else:
        assert run.wait(60 * SLOW) == 0, run.output()
        run.line("Out of bounds values : 0 OK")


@pytest.mark.parametrize("reducers", [1, 3])
def test_reducer_counts(bench, reducers):
    run_perf(bench, 3, reducers, "-b", "4", "-e", "1M", "-f", "16", "-d", "fp32", "-o", "all", "-n", "2", "-w", "0")


@pytest.mark.parametrize("count", [0, 1, 3, 1023, 1025, 65537, 1000003])
def test_counts_divisible_by_nothing(bench, count):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 3, "loop", count, 3, 1):
        assert worker.wait(60 * SLOW) == 0, worker.output()


def test_a_list_of_tensors_is_one_collective(bench):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 3, "loop", 100003, 3, 7):
        assert worker.wait(60 * SLOW) == 0, worker.output()


def test_NUM_05_fresh_launches_give_the_same_bits_on_every_rank(bench):
    """With one reducer and with three, so that neither arrival nor layout nor a start of the processes decides."""
    hashes = set()
    for daemon in (bench.daemon("--shards", "2"), bench.pool(3)[0]):
        for launch in range(10):
            for worker in bench.workers(daemon, 4, "hash", 50021, job=f"launch-{launch}"):
                assert worker.wait() == 0, worker.output()
                hashes.add(worker.line("^hash "))
    assert len(hashes) == 1, hashes


def test_many_shards(bench):
    daemon = bench.daemon("--shards", "3")
    for worker in bench.workers(daemon, 3, "loop", 500009, 5):
        assert worker.wait(60 * SLOW) == 0, worker.output()


def test_two_jobs_at_once_do_not_meet(bench):
    daemon = bench.daemon()
    first = bench.workers(daemon, 2, "loop", 100003, 50, job="first")
    second = bench.workers(daemon, 3, "loop", 70001, 50, job="second")
    for worker in first + second:
        assert worker.wait(60 * SLOW) == 0, worker.output()
