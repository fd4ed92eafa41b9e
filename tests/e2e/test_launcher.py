# SPDX-License-Identifier: Apache-2.0
"""redsumrun: ranks, output, exit codes, and no process left behind."""
import os
import signal
from pathlib import Path

from processes import BIN, SLOW, WORKER, until


def launch(bench, *arguments, env=None):
    return bench.process(BIN / "redsumrun", *arguments, env=env, new_session=True)


def session_members(session):
    """Pids of a session that live (zombies do not)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def nobody_left(session, limit_s=10 * SLOW):
    until(lambda: not session_members(session), limit_s, lambda: f"left behind: {session_members(session)}")


def test_ranks_and_prefixes(bench):
    run = launch(bench, "-np", "3", "--reducers", "1", "sh", "-c", "echo I am $RANK of $WORLD_SIZE")
    assert run.wait() == 0, run.output()
    for rank in range(3):
        line = run.line(f"I am {rank} of 3")
        assert str(rank) in line.split("I am")[0], line
    nobody_left(run.pid)


def test_job_runs_with_the_pool_it_starts(bench):
    run = launch(bench, "-np", "3", "--reducers", "2", WORKER, "loop", "100003", "3")
    assert run.wait() == 0, run.output()
    nobody_left(run.pid)


def test_NET_02_the_card_is_for_the_workers_and_not_for_the_pool_on_loopback(bench):
    for mode, pool in (("server", ["--reducers", "1"]), ("ring", [])):
        run = launch(bench, "-np", "2", "--mode", mode, *pool, WORKER, "loop", "1000", "1",
                     env={"REDSUM_INTERFACES": "127.0.0.0/8"})
        assert run.wait() == 0, run.output()
    run = launch(bench, "-np", "2", "--reducers", "1", WORKER, "loop", "1000", "1", env={"REDSUM_INTERFACES": "nosuch0"})
    assert run.wait() == 3, run.output()
    run.line(r"\[\d\].*interfaces is 'nosuch0'.*lo 127\.0\.0\.1")  # a worker says so


def test_two_launchers_at_once_do_not_meet(bench):
    runs = [launch(bench, "-np", "2", "--reducers", "1", WORKER, "loop", "100003", "20") for _ in range(2)]
    for run in runs:
        assert run.wait(60 * SLOW) == 0, run.output()


def test_exit_code_of_a_failed_rank_passes_through_and_ends_the_rest(bench):
    run = launch(bench, "-np", "3", "--reducers", "1", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 100")
    assert run.wait(20 * SLOW) == 7, run.output()
    nobody_left(run.pid)


def test_command_that_does_not_exist(bench):
    run = launch(bench, "-np", "2", "--reducers", "1", "/nonexistent/program")
    assert run.wait() not in (0, None)
    assert "/nonexistent/program" in run.output()
    nobody_left(run.pid)


def test_killed_rank_ends_everything(bench):
    run = launch(bench, "-np", "3", "--reducers", "1", "sh", "-c", f"[ $RANK = 2 ] && kill -9 $$; exec {WORKER} loop 1000 100000000")
    assert run.wait(30 * SLOW) != 0, run.output()
    nobody_left(run.pid)


def test_LIF_08_interrupt_leaves_no_orphans(bench):
    run = launch(bench, "-np", "3", "--reducers", "2", WORKER, "loop", "100000", "100000000")
    run.line("ready")
    run.signal(signal.SIGINT)
    assert run.wait(20 * SLOW) != 0
    nobody_left(run.pid)


def test_killed_launcher_leaves_no_orphans(bench):
    run = launch(bench, "-np", "2", "--reducers", "2", WORKER, "loop", "100000", "100000000")
    run.line("ready")
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    nobody_left(run.pid, 20 * SLOW)


def test_bad_arguments(bench):
    for words in ([], ["-np", "0", "true"], ["-np", "2", "--reducers", "-1", "true"], ["--nonsense"]):
        run = launch(bench, *words)
        assert run.wait() == 2, (words, run.output())
