# SPDX-License-Identifier: Apache-2.0
"""The processes of a run, and what the workers tell (tests/chaos/chaos_worker.cc says how)."""
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

END_LIMIT_S = 10


class Member:
    """One place in the run: a process that is killed, stopped and started again. Its output is appended to one file."""

    def __init__(self, name, host, argv, environment, log):
        self.name, self.host, self.argv, self.log = name, host, [str(word) for word in argv], log
        clean = {key: value for key, value in os.environ.items() if not key.startswith("REDSUM_")}
        self.environment = {**clean, **environment}
        self.process, self.stopped, self.expected_end, self.kills = None, False, False, 0

    def start(self):
        self.stopped = self.expected_end = False
        with open(self.log, "a") as log:
            print(f"--- started at {time.monotonic_ns()}", file=log, flush=True)
            self.process = subprocess.Popen(self.argv, env=self.environment, **self.streams(log))

    def streams(self, log):
        return {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}

    def signal(self, number):
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.stopped = number == signal.SIGSTOP
        else:
            self.expected_end = True
        self.process.send_signal(number)

    def ended(self):
        return self.process.poll() is not None

    def wait(self):
        """The exit code. One that does not end is killed, which its code tells."""
        try:
            return self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def kill(self):
        if self.process and not self.ended():
            self.kills += 1
            self.signal(signal.SIGKILL)
            self.process.wait()

    def last_words(self, count=5):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


@dataclass
class Step:
    """From the end of the step before to the end of this one, as the worker's clock (CLOCK_MONOTONIC, also ours) had it."""
    begin_ns: int
    end_ns: int
    epoch: int
    reducers: int
    size: int

    @property
    def seconds(self):
        return (self.end_ns - self.begin_ns) / 1e9


class Worker(Member):
    """`tell(worker, event, words)` is called, on a thread of its own, for each line that is no step."""

    def __init__(self, *arguments, tell):
        super().__init__(*arguments)
        self.tell = tell
        self.steps, self.checked, self.since_ns, self.done = [], 0, 0, False

    def start(self):
        super().start()
        self.since_ns, self.done = time.monotonic_ns(), False
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()

    def streams(self, log):
        return {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True, "errors": "replace"}

    def _read(self, process):
        met = False
        with open(self.log, "a", buffering=1) as log:
            for line in process.stdout:
                log.write(line)
                event, *words = line.split() if line.endswith("\n") else [""]
                if event == "step":
                    end, _, checked, epoch, reducers, size = map(int, words)
                    self.steps.append(Step(self.since_ns, end, epoch, reducers, size))
                    self.since_ns, self.checked = end, self.checked + checked
                elif event == "met" and not met:  # in a later one the step goes on that was broken off
                    self.since_ns, met = int(words[0]), True
                elif event == "done":
                    self.done = True
                elif event not in ("", "met"):
                    self.tell(self, event, words)

    def ask_to_end(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait(self):
        code = super().wait()
        self.reader.join(END_LIMIT_S)
        return code

    def kill(self):
        """What it said before its end is read, too."""
        super().kill()
        if self.process:
            self.reader.join(END_LIMIT_S)

    def latest(self):
        return self.steps[-1] if self.steps else None

    def silent_s(self):
        return (time.monotonic_ns() - self.since_ns) / 1e9
