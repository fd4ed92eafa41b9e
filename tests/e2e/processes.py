# SPDX-License-Identifier: Apache-2.0
"""Processes of one test: started with a limit on every wait, their output collected, ended by pid whatever happens."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

BUILD = Path(os.environ.get("REDSUM_BUILD", Path(__file__).resolve().parent.parent.parent / "build" / "release"))
BIN = BUILD / "bin"
WORKER = BUILD / "tests" / "e2e_worker"
SANITIZED = os.environ.get("REDSUM_SANITIZED", "")
SLOW = 3 if SANITIZED else 1  # times of the requirements hold for an unloaded machine without sanitizers
START_LIMIT_S = 20 * SLOW
REPORT = re.compile(r"WARNING: ThreadSanitizer|ERROR: (?:Address|Leak)Sanitizer|: runtime error: ")


class Process:
    def __init__(self, argv, env=None, new_session=False):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("REDSUM_", "OMPI_", "PMI_", "SLURM_")) and name not in ("RANK", "WORLD_SIZE")}
        self.argv = [str(word) for word in argv]
        self.lines, self.changed = [], threading.Condition()
        self.new_session = new_session
        self.popen = subprocess.Popen(self.argv, env={**clean, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=new_session)
        self.pid = self.popen.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.popen.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)  # the end
            self.changed.notify_all()

    def output(self):
        with self.changed:
            return "\n".join(line for line in self.lines if line is not None)

    def line(self, pattern, limit_s=START_LIMIT_S):
        """The first line that matches, or a failure that shows everything there was."""
        def found():
            return next((line for line in self.lines if line is not None and re.search(pattern, line)), None)
        with self.changed:
            self.changed.wait_for(lambda: found() is not None or (self.lines and self.lines[-1] is None), limit_s)
            line = found()
        assert line is not None, f"{self.argv[0]} (pid {self.pid}) never said /{pattern}/ in {limit_s} s:\n{self.output()}"
        return line

    def wait(self, limit_s=START_LIMIT_S):
        """The exit status; negative: the signal. Waits for the output's end too."""
        try:
            status = self.popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{' '.join(self.argv)} (pid {self.pid}) still runs after {limit_s} s:\n{self.output()}") from None
        self.reader.join(5)
        return status

    def ended(self):
        return self.popen.poll() is not None

    def signal(self, number):
        self.popen.send_signal(number)

    def type(self, text):
        self.popen.stdin.write(text)
        self.popen.stdin.flush()

    def end(self):
        if self.new_session:
            try:
                os.killpg(self.pid, signal.SIGKILL)  # the launcher's own session: it and its children
            except ProcessLookupError:
                pass
        if not self.ended():
            self.popen.kill()
        self.popen.wait(10)
        self.reader.join(5)
        self.popen.stdin.close()
        self.popen.stdout.close()


class Daemon(Process):
    """A redsumd with free ports, ready or (ready=False) merely started."""

    def __init__(self, folder, *flags, env=None, control="127.0.0.1:0", data="127.0.0.1:0", admin="127.0.0.1:0", ready=True):
        self.ports_file = folder / f"ports.{time.monotonic_ns()}.json"
        super().__init__([BIN / "redsumd", "--control", control, "--data", data, "--admin", admin, "--drain-timeout", "500ms",
                          "--log-format", "json", "--ports-file", self.ports_file, *flags], env)
        if ready:
            self.wait_ready()

    def ports(self):
        try:
            return json.loads(self.ports_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def wait_ready(self, limit_s=START_LIMIT_S):
        until(lambda: self.ports().get("ready") or self.ended(), limit_s, f"redsumd is not ready:\n{self.output()}")
        assert not self.ended(), f"redsumd ended:\n{self.output()}"

    def address(self, which):
        return self.ports()[which]

    def get(self, path, limit_s=5 * SLOW):
        """(status, text) of a GET on the admin port."""
        try:
            with urllib.request.urlopen(f"http://{self.address('admin')}{path}", timeout=limit_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.get("/status")[1])

    def stop(self, limit_s=10 * SLOW):
        self.signal(signal.SIGTERM)
        return self.wait(limit_s)


def end_all(processes):
    """The youngest first. What a sanitizer reported fails the test even where nobody looked at the exit code."""
    for process in reversed(processes):
        process.end()
    for process in processes:
        assert not REPORT.search(process.output()), f"{' '.join(process.argv)} (pid {process.pid}):\n{process.output()}"


def until(condition, limit_s, text):
    """Polls what has no event to wait for (another process' state)."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, text() if callable(text) else text
        time.sleep(0.01)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid, field="VmRSS"):
    return int(re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)[1]) * 1024


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def ready(workers):
    """Every worker has the result of its first call."""
    for worker in workers:
        worker.line("^ready$")
