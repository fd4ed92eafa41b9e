# SPDX-License-Identifier: Apache-2.0
"""A lab as a test uses it, under a name that no other run has."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from processes import Process, end_all, until  # noqa: E402

COMMAND = [str(ROOT / "dev"), "lab"]
PROGRAM = [sys.executable, "-B", str(ROOT / "scripts" / "lab.py")]  # what COMMAND runs, without its look at the packages
UNABLE = 3  # exit code: this machine cannot have a lab
LIMIT_S = 60
TRANSFER = Path(__file__).resolve().parent / "transfer.py"


def call(*words, program=PROGRAM):
    environment = {key: value for key, value in os.environ.items() if key != "LAB_NAME"}
    return subprocess.run([*program, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                          env=environment)


def namespaces(name):
    """Those of the lab of that name; other labs of this machine come and go."""
    shown = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in shown.splitlines() if f"-{name}-" in line]


def tcp_settings():
    """Those of the machine that hosts of a lab must not change."""
    return [file.read_text() for file in sorted(Path("/proc/sys/net/ipv4").glob("tcp_*congestion_control"))]


def links():
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout


class Laboratory:
    def __init__(self, name):
        self.name, self.started = name, []

    def call(self, *words):
        return call("--lab", self.name, *words)

    def must(self, *words):
        done = self.call(*words)
        assert done.returncode == 0, f"lab {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def up(self, *flags):
        done = self.call("up", *flags)
        if done.returncode == UNABLE:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self):
        return json.loads(self.must("status", "--json"))

    def host(self, host):
        return next(row for row in self.status()["hosts"] if row["host"] == host)

    def start(self, host, *argv, env=None):
        """argv on a host; the process itself, not a wrapper."""
        self.started.append(Process([*PROGRAM, "--lab", self.name, "exec", host, *argv], env))
        return self.started[-1]

    def send(self, megabytes, *pairs):
        """Bits per second of payload that all transfers (from, to) together got, from the first byte received to the last."""
        receivers = []
        for number, (_, to) in enumerate(pairs):
            receivers.append(self.start(to, sys.executable, TRANSFER, "receive", str(5000 + number)))
        for receiver in receivers:
            receiver.line("^listening$")
        senders = [self.start(source, sys.executable, TRANSFER, "send", self.address(to), str(5000 + number), str(megabytes * 10**6))
                   for number, (source, to) in enumerate(pairs)]
        for process in [*senders, *receivers]:
            assert process.wait(LIMIT_S) == 0, process.output()
        counts, starts, ends = zip(*(map(float, receiver.line("^received").split()[1:]) for receiver in receivers))
        return 8 * sum(counts) / (max(ends) - min(starts))

    @staticmethod
    def address(host):
        return f"10.77.0.{int(host[1:]) + 1}"

    def reaches(self, source, to, port, limit_s=1):
        """Whether a new connection can be made in limit_s."""
        return self.call("exec", source, sys.executable, TRANSFER, "connect", self.address(to), port, limit_s).returncode == 0

    def end(self):
        try:
            end_all(self.started)
        finally:
            self.call("down")


__all__ = ["COMMAND", "LIMIT_S", "ROOT", "TRANSFER", "UNABLE", "Laboratory", "call", "links", "namespaces", "tcp_settings", "until"]
