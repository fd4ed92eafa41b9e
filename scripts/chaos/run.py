# SPDX-License-Identifier: Apache-2.0
"""One run: a coordinator, reducers and the workers of one job; a fault at a time, and a watch over all of them."""
import json
import re
import secrets
import signal
import statistics
import threading
import time
from collections import deque

from members import Member, Worker

CONTROL, DATA = 7400, 7401
START_LIMIT_S = 30
TICK_S = 0.01
SANITIZER = re.compile(r"WARNING: ThreadSanitizer|ERROR: (?:Address|Leak)Sanitizer|: runtime error: ")
CALM_STEPS = 3  # of every worker, with all reducers, before a fault counts as over


class Failed(Exception):
    """Ends the run. `kind`: wrong (a result), hang, failed (a collective) or other."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Pulse:
    """How long this machine stood still: with every process of the run asleep, a limit of time says nothing of redsum."""
    BEAT_S = 0.05

    def __init__(self):
        self.longest_s = 0
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        while True:
            before = time.monotonic()
            time.sleep(self.BEAT_S)
            self.longest_s = max(self.longest_s, time.monotonic() - before - self.BEAT_S)


class Run:
    def __init__(self, options, hosts, folder):
        self.hosts, self.folder = hosts, folder
        self.heartbeat_s, self.hang_s = options.heartbeat, options.hang
        self.failure, self.lock, self.pulse = None, threading.Lock(), Pulse()
        self.durations = deque(maxlen=1000)  # of undisturbed steps
        self.secret = folder / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text(secrets.token_hex() + "\n")
        self.bin = options.build / "bin"
        self.coordinator = self.daemon("coordinator", 0, "--role", "coordinator", "--control", hosts.listen(0, CONTROL),
                                       "--min-reducers", options.reducers, "--ports-file", folder / "ports.json")
        self.reducers, self.workers = [], []
        self.options, self.began_ns = options, time.monotonic_ns()
        self.kind, self.what = None, ""  # of the fault that is under way

    def daemon(self, name, host, *flags):
        argv = [self.bin / "redsumd", *flags, "--admin", "off", "--secret-file", self.secret, "--heartbeat-timeout", f"{self.heartbeat_s}s"]
        return Member(name, host, self.hosts.argv(host, argv), {}, self.folder / f"{name}.log")

    def members(self):
        return [self.coordinator, *self.reducers, *self.workers]

    # Start and end.

    def start(self):
        self.coordinator.start()
        control = self.wait_for(self.control_address, START_LIMIT_S, "the coordinator does not listen")
        for index in range(self.options.reducers):
            host = 1 + index
            self.reducers.append(self.daemon(f"reducer-{index}", host, "--role", "reducer", "--coordinators", control, "--name",
                                             f"reducer-{index}", "--data", self.hosts.listen(host, DATA), "--shards", 1))
        environment = {"REDSUM_COORDINATOR": control, "REDSUM_JOB_ID": "chaos", "REDSUM_SECRET_FILE": str(self.secret),
                       "WORLD_SIZE": str(self.options.workers), "REDSUM_HEARTBEAT_TIMEOUT": str(self.heartbeat_s),
                       "REDSUM_OPERATION_TIMEOUT": str(self.hang_s), "REDSUM_DEBUG": "INFO"}
        for rank in range(self.options.workers):
            host = 1 + self.options.reducers + rank
            argv = [self.options.build / "tests" / "chaos_worker", *(self.options.sabotage if rank == 1 else [])]
            self.workers.append(Worker(f"worker-{rank}", host, self.hosts.argv(host, argv), {**environment, "RANK": str(rank)},
                                       self.folder / f"worker-{rank}.log", tell=self.on_event))
        for member in [*self.reducers, *self.workers]:
            member.start()
        self.settle()

    def control_address(self):
        try:
            return json.loads((self.folder / "ports.json").read_text())["control"]
        except (FileNotFoundError, json.JSONDecodeError, KeyError):
            return None

    def end(self):
        """All ranks end after the same step, then the pool; every one with exit code 0."""
        for worker in self.workers:
            worker.expected_end = True
            worker.ask_to_end()
        for worker in self.workers:
            code = worker.wait()
            if self.failure:
                raise self.failure
            if code != 0 or not worker.done:
                raise Failed("hang" if code == -signal.SIGKILL else "other", f"{worker.name} ended with {code}:\n{worker.last_words()}")
        for daemon in [*self.reducers, self.coordinator]:
            daemon.signal(signal.SIGTERM)
            code = daemon.wait()
            if code != 0:
                raise Failed("other", f"{daemon.name} ended with {code} after SIGTERM:\n{daemon.last_words()}")
        for log in self.folder.glob("*.log"):  # also of those that were killed
            if SANITIZER.search(log.read_text(errors="replace")):
                raise Failed("other", f"a sanitizer's report is in {log.name}")

    def kill(self):
        for member in reversed(self.members()):
            member.kill()

    # One fault.

    def tell(self, what):
        """For a story: whom it strikes, and how long."""
        self.what = what

    def strike(self, kind, draw):
        """What came of it."""
        for worker in self.workers:
            self.durations.extend(step.seconds for step in worker.steps)
            del worker.steps[:-1]
        before, checked, kills = self.workers[0].latest().epoch, self.checked(), self.kills()
        began_ns, self.kind = time.monotonic_ns(), kind
        for wait in kind.story(self, draw):
            if callable(wait):
                self.wait_for(wait, self.hang_s, f"{kind.name} ({self.what}): nothing came of it")
            else:
                self.sleep(wait)
        self.settle()
        ended_ns, self.kind = time.monotonic_ns(), None
        if kind.unnoticed and self.workers[0].latest().epoch != before:
            self.fail("other", f"{kind.name} ({self.what}): somebody was given up")
        longest = max(step.seconds for worker in self.workers for step in list(worker.steps)
                      if step.end_ns > began_ns and step.begin_ns < ended_ns)
        for worker in self.workers:
            del worker.steps[:-1]  # disturbed ones are no measure of the others
        return {"kind": kind, "what": self.what, "at_s": (began_ns - self.began_ns) / 1e9, "extra_s": longest - self.median_s(),
                "whole_s": (ended_ns - began_ns) / 1e9, "checked": self.checked() - checked,
                **{what: count - kills[what] for what, count in self.kills().items()}}

    def settle(self):
        """Back when every worker makes its steps with all the others and all reducers of the pool."""
        since_ns = time.monotonic_ns()

        def calm(worker):
            return sum(step.begin_ns > since_ns and step.reducers == len(self.reducers) and step.size == len(self.workers)
                       for step in list(worker.steps)) >= CALM_STEPS
        self.wait_for(lambda: all(map(calm, self.workers)), START_LIMIT_S, lambda: "not whole again: " + ", ".join(
            f"{worker.name} in its last step {worker.latest()}" for worker in self.workers if not calm(worker)))

    def kills(self):
        return {"reducer": sum(member.kills for member in self.reducers), "worker": sum(member.kills for member in self.workers)}

    def median_s(self):
        return statistics.median(self.durations)

    def checked(self):
        return sum(worker.checked for worker in self.workers)

    # The watch.

    def on_event(self, worker, event, words):
        """On the thread of the worker's reader: something that is no step. The first one is what the run fails with."""
        text = f"{worker.name}: {event} {' '.join(words)}"
        if event == "lost" and self.kind and self.kind.loses_worker:
            return
        if event == "wrong":
            self.note("wrong", text)
        else:
            self.note("hang" if words[:1] == ["timeout"] else "failed", text)

    def note(self, kind, text):
        with self.lock:
            self.failure = self.failure or Failed(kind, text)

    def fail(self, kind, text):
        raise Failed(kind, text)

    def look(self):
        if self.failure:
            time.sleep(0.2)  # so that what others say of it is in the logs, too
            raise self.failure
        for member in self.members():
            if member.process and not member.expected_end and member.ended():
                time.sleep(0.2)
                raise self.failure or Failed("other", f"{member.name} ended with {member.process.returncode}:\n{member.last_words()}")
        for worker in self.workers:
            if worker.process and not worker.ended() and not worker.stopped and worker.silent_s() > self.hang_s + 5:
                raise Failed("hang", f"{worker.name} has made no step for {worker.silent_s():.1f} s")

    def sleep(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.look()
            time.sleep(min(TICK_S, left))

    def wait_for(self, condition, limit_s, text):
        until = time.monotonic() + limit_s
        while not (value := condition()):
            self.look()
            if time.monotonic() > until:
                raise Failed("hang", f"{text() if callable(text) else text} after {limit_s} s")
            time.sleep(TICK_S)
        return value
