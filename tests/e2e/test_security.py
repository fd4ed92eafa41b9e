# SPDX-License-Identifier: Apache-2.0
"""Strangers and wrong secrets have no effect, and nothing listens beyond loopback by accident."""
import socket
import time

import pytest
from processes import SLOW, descriptors, resident_bytes, until


def secret(folder, name, text):
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_right_secret_works_and_is_never_shown(bench, tmp_path):
    path = secret(tmp_path, "secret", "open-sesame-4711\n")
    daemon = bench.daemon("--secret-file", path, "--log-level", "trace")
    workers = bench.workers(daemon, 2, "loop", 1000, 3, env={"REDSUM_SECRET_FILE": str(path), "REDSUM_DEBUG": "TRACE"})
    for worker in workers:
        assert worker.wait() == 0, worker.output()
    for path in ("/status", "/metrics", "/"):
        assert "open-sesame" not in daemon.get(path)[1]
    daemon.stop()
    for process in [daemon, *workers]:
        assert "open-sesame" not in process.output()


@pytest.mark.parametrize("theirs", ["wrong", None])
def test_wrong_or_missing_secret_is_auth_failed(bench, tmp_path, theirs):
    daemon = bench.daemon("--secret-file", secret(tmp_path, "right", "right\n"))
    env = {"REDSUM_SECRET_FILE": str(secret(tmp_path, "wrong", "wrong\n"))} if theirs else {}
    worker = bench.workers(daemon, 1, "loop", 10, 1, env=env)[0]
    start = time.monotonic()
    assert worker.wait() == 3
    assert "auth_failed" in worker.line("^error: ") and time.monotonic() - start < 5 * SLOW


def test_stranger_with_a_wrong_secret_does_not_hold_a_rank(bench, tmp_path):
    right = secret(tmp_path, "right", "right\n")
    daemon = bench.daemon("--secret-file", right)
    stranger = bench.workers(daemon, 2, "loop", 10, 1, ranks=[1], env={"REDSUM_SECRET_FILE": str(secret(tmp_path, "wrong", "no\n"))})[0]
    for worker in bench.workers(daemon, 2, "loop", 10, 1, env={"REDSUM_SECRET_FILE": str(right)}):
        assert worker.wait() == 0, worker.output()
    assert stranger.wait() == 3


@pytest.mark.parametrize("which", ["control", "data"])
def test_bind_beyond_loopback_needs_a_secret(bench, tmp_path, which):
    refused = bench.daemon(ready=False, **{which: "0.0.0.0:0"})
    assert refused.wait() == 1
    assert "secret" in refused.output() and "insecure" in refused.output(), refused.output()
    bench.daemon("--secret-file", secret(tmp_path, "secret", "text\n"), **{which: "0.0.0.0:0"})
    bench.daemon("--insecure", **{which: "0.0.0.0:0"})


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5 * SLOW)


NOISE = {
    "http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 300,
    "zeros": bytes(4096),
    "pickle": b"cos\nsystem\n(S'touch /tmp/redsum-was-here'\ntR." + bytes(300),
    "hello of a newer protocol": b"redsumH1" + b"\xff" * 248,
}


@pytest.mark.parametrize("noise", NOISE)
def test_strangers_are_closed_and_the_job_goes_on(bench, noise):
    daemon = bench.daemon()
    workers = bench.workers(daemon, 2, "idle")
    for worker in workers:
        worker.line("^ready$")
    for which in ("control", "data"):
        with connect(daemon.address(which)) as stranger:
            try:
                stranger.sendall(NOISE[noise])
                while stranger.recv(4096):  # until the daemon closes; the timeout of the socket is the limit
                    pass
            except ConnectionError:
                pass
    for worker in workers:
        worker.type("go on\n")
    for worker in workers:
        assert worker.wait() == 0, worker.output()


def test_bare_touches_leave_no_trace(bench):
    daemon = bench.daemon()
    # The log is written behind the daemon's back: what it says at its start must be here before lines are counted.
    until(lambda: '"ready"' in daemon.output() and "registered as" in daemon.output(), 10 * SLOW, "the daemon is not ready")
    lines, files = len(daemon.output().splitlines()), descriptors(daemon.pid)
    for which in ("control", "data"):
        for _ in range(100):
            connect(daemon.address(which)).close()
    until(lambda: descriptors(daemon.pid) <= files, 10 * SLOW, "descriptors of closed strangers are still open")
    assert len(daemon.output().splitlines()) == lines, daemon.output()


def test_SEC_02_silent_strangers_cost_little_and_are_closed(bench):
    daemon = bench.daemon()
    memory, files = resident_bytes(daemon.pid), descriptors(daemon.pid)
    strangers = [connect(daemon.address(which)) for which in ("control", "data") for _ in range(50)]
    try:
        for stranger in strangers:
            stranger.sendall((1 << 40).to_bytes(8, "little"))
        assert resident_bytes(daemon.pid) - memory < 16 << 20
        until(lambda: descriptors(daemon.pid) <= files, 10 * SLOW, "silent strangers are never closed")
    finally:
        for stranger in strangers:
            stranger.close()
    assert daemon.get("/livez")[0] == 200
