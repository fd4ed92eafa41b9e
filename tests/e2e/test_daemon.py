# SPDX-License-Identifier: Apache-2.0
"""The daemon's own life: flags, files, ports, restarts."""
import subprocess

import pytest
from processes import BIN, SLOW


def redsumd(*flags, limit_s=20 * SLOW):
    return subprocess.run([BIN / "redsumd", *flags], capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL)


def test_help_names_every_flag():
    shown = redsumd("--help")
    assert shown.returncode == 0
    for flag in ("--config", "--role", "--control", "--data", "--admin", "--secret-file", "--insecure", "--check-config"):
        assert flag in shown.stdout


def test_unknown_flag_is_refused_and_the_near_one_named():
    refused = redsumd("--shard", "2")
    assert refused.returncode == 2
    assert "--shard" in refused.stderr and "--shards" in refused.stderr


@pytest.mark.parametrize("flag, value", [("--shards", "-1"), ("--shards", "many"), ("--heartbeat-timeout", "1x"), ("--role", "king")])
def test_bad_value_is_refused_and_named(flag, value):
    refused = redsumd(flag, value, "--check-config")
    assert refused.returncode in (1, 2)
    assert value in refused.stderr + refused.stdout


def test_config_errors_carry_file_and_line(tmp_path):
    config = tmp_path / "redsumd.toml"
    config.write_text('role = "both"\n[reducer]\nshards = 2\nshrads = 3\n[log]\nlevel = "loud"\n')
    refused = redsumd("--config", str(config), "--check-config")
    assert refused.returncode == 1
    text = refused.stderr + refused.stdout
    assert f"{config}:4" in text and "shrads" in text and "shards" in text
    assert f"{config}:6" in text and "loud" in text


def test_broken_toml_carries_file_and_line(tmp_path):
    config = tmp_path / "redsumd.toml"
    config.write_text("[reducer]\nshards = = 2\n")
    refused = redsumd("--config", str(config), "--check-config")
    assert refused.returncode == 1
    assert f"{config}:2" in refused.stderr + refused.stdout


def test_precedence_is_file_environment_flag(tmp_path, bench):
    config = tmp_path / "redsumd.toml"
    config.write_text('[reducer]\nshards = 2\nname = "from-file"\n[job]\nwindow = 3\n')
    env = {"REDSUM_REDUCER_NAME": "from-environment", "REDSUM_JOB_WINDOW": "4"}
    process = bench.process(BIN / "redsumd", "--config", config, "--job.window", "5", "--print-config", env=env)
    assert process.wait() == 0
    shown = process.output()
    assert "shards = 2" in shown and 'name = "from-environment"' in shown
    assert "window = 5" in shown.replace('"', "")


def test_print_config_can_be_read_again(tmp_path):
    printed = redsumd("--shards", "3", "--print-config")
    config = tmp_path / "again.toml"
    config.write_text(printed.stdout)
    assert redsumd("--config", str(config), "--check-config").returncode == 0
    assert "shards = 3" in redsumd("--config", str(config), "--print-config").stdout


def test_LIF_08_second_daemon_on_a_port_ends_with_an_error_that_names_it(bench):
    first = bench.daemon()
    for which in ("control", "data", "admin"):
        second = bench.daemon(ready=False, **{which: first.address(which)})
        assert second.wait() == 1, which
        assert first.address(which) in second.output(), second.output()
    assert first.get("/livez")[0] == 200


def test_stop_is_clean_and_quick(bench):
    daemon = bench.daemon()
    assert daemon.stop() == 0


def test_LIF_08_restart_on_the_same_ports_with_busy_clients(bench):
    daemon = bench.daemon()
    ports = {which: daemon.address(which) for which in ("control", "data", "admin")}
    for life in range(5):
        workers = bench.workers(daemon, 2, "loop", 100000, 1000000, job=f"life-{life}")
        for worker in workers:
            worker.line("^ready$")
        assert daemon.stop() == 0
        daemon = bench.daemon(**ports)  # at once, while the clients' connections are still being torn down
        for worker in workers:
            assert worker.wait() == 3, worker.output()
            assert "error: reducer_lost" in worker.output() or "error: closed" in worker.output(), worker.output()
    for worker in bench.workers(daemon, 2, "loop", 1000, 3, job="after"):
        assert worker.wait() == 0, worker.output()


def test_killed_daemon_can_be_started_again_on_its_ports(bench):
    daemon = bench.daemon()
    ports = {which: daemon.address(which) for which in ("control", "data", "admin")}
    daemon.signal(9)
    assert daemon.wait() == -9
    again = bench.daemon(**ports)
    for worker in bench.workers(again, 2, "loop", 1000, 3):
        assert worker.wait() == 0, worker.output()


def test_second_signal_ends_at_once(bench):
    daemon = bench.daemon("--drain-timeout", "1h")
    workers = bench.workers(daemon, 2, "loop", 100000, 1000000)
    for worker in workers:
        worker.line("^ready$")
    daemon.signal(15)
    daemon.line("drain")
    assert not daemon.ended()
    daemon.signal(15)
    daemon.wait(5 * SLOW)


def test_LIF_13_one_shot_ends_after_its_job(bench):
    daemon = bench.daemon("--one-shot")
    for worker in bench.workers(daemon, 2, "loop", 1000, 3):
        assert worker.wait() == 0, worker.output()
    assert daemon.wait() == 0
