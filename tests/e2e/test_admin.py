# SPDX-License-Identifier: Apache-2.0
"""What an operator sees: probes, metrics, status."""
import json
import re
import subprocess

from processes import BIN, SLOW, START_LIMIT_S, until


def redsumctl(*arguments):
    return subprocess.run([BIN / "redsumctl", *arguments], capture_output=True, text=True, timeout=20 * SLOW, stdin=subprocess.DEVNULL)


def samples(text):
    """{name with labels: value} of a metrics page; fails on a line that is neither comment nor sample."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)(?: \d+)?", line)
            assert match, line
            found[match[1]] = float(match[2])
    return found


def test_probes_answer(bench):
    daemon = bench.daemon()
    assert daemon.get("/livez")[0] == 200
    assert daemon.get("/readyz")[0] == 200
    assert daemon.get("/version")[0] == 200
    assert daemon.get("/nothing-here")[0] == 404


def test_reducer_without_coordinator_is_alive_but_not_ready(bench):
    lonely = bench.daemon("--role", "reducer", "--coordinators", "127.0.0.1:1", ready=False)
    until(lambda: lonely.ports().get("admin") or lonely.ended(), START_LIMIT_S, lonely.output)
    assert lonely.get("/livez")[0] == 200
    assert lonely.get("/readyz")[0] == 503


def test_draining_daemon_is_alive_but_not_ready(bench):
    daemon = bench.daemon("--drain-timeout", "1h")
    for worker in bench.workers(daemon, 2, "idle"):
        worker.line("^ready$")
    daemon.signal(15)
    until(lambda: daemon.get("/readyz")[0] == 503, 5 * SLOW, "a draining daemon says that it is ready")
    assert daemon.get("/livez")[0] == 200


def test_metrics_follow_the_conventions_and_count_a_job(bench):
    daemon = bench.daemon()
    before = samples(daemon.get("/metrics")[1])
    for worker in bench.workers(daemon, 2, "loop", 100000, 5):
        assert worker.wait() == 0, worker.output()
    text = daemon.get("/metrics")[1]
    after = samples(text)
    assert before and all(name.startswith(("redsum_", "process_")) for name in after), sorted(after)
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        assert kind != "summary"
        assert (kind == "counter") == name.endswith("_total") or kind == "histogram" or name.startswith("process_"), (name, kind)
    reduced = sum(value for name, value in after.items() if name.startswith("redsum_reduced_bytes_total"))
    assert reduced == 2 * 5 * 400000, [name for name in after if "reduced" in name]
    assert not re.search(r'[{,](job|instance)="', text)


def test_LIF_13_job_is_gone_from_metrics_after_it_ended(bench):
    daemon = bench.daemon()
    for number in range(20):
        for worker in bench.workers(daemon, 1, "loop", 10, 1, job=f"job-{number}"):
            assert worker.wait() == 0, worker.output()
    text = daemon.get("/metrics")[1]
    assert len(text) < 200 * 1024 and len(samples(text)) < 500


def test_status_shows_the_running_job(bench):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 2, "idle", job="shown-job"):
        worker.line("^ready$")
    assert "shown-job" in json.dumps(daemon.status())
    shown = redsumctl("status", daemon.address("admin"))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "shown-job" in shown.stdout
    parsed = json.loads(redsumctl("status", daemon.address("admin"), "-o", "json").stdout)
    assert "shown-job" in json.dumps(parsed)


def test_redsumctl_says_by_its_exit_code_what_is_wrong(bench):
    down = redsumctl("status", "127.0.0.1:1")
    assert down.returncode == 2 and "127.0.0.1:1" in down.stderr + down.stdout
    lonely = bench.daemon("--role", "reducer", "--coordinators", "127.0.0.1:1", ready=False)
    until(lambda: lonely.ports().get("admin") or lonely.ended(), START_LIMIT_S, lonely.output)
    assert redsumctl("status", lonely.address("admin")).returncode == 1
    assert redsumctl("nonsense").returncode == 2


def test_log_lines_are_json_objects(bench):
    daemon = bench.daemon()
    for worker in bench.workers(daemon, 2, "loop", 1000, 2, job="logged"):
        assert worker.wait() == 0, worker.output()
    assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.output().splitlines()]
    assert lines and all({"level", "msg"} <= set(line) or {"level", "message"} <= set(line) for line in lines), lines[:3]
    assert any("logged" in json.dumps(line) and "reserv" in json.dumps(line) for line in lines), daemon.output()
