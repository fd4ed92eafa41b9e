# SPDX-License-Identifier: Apache-2.0
import pytest

from processes import WORKER, Daemon, Process, end_all


class Bench:
    """Starts what a test needs and ends it afterwards, the youngest first."""

    def __init__(self, folder):
        self.folder, self.started = folder, []

    def process(self, *argv, env=None, new_session=False):
        self.started.append(Process(argv, env, new_session))
        return self.started[-1]

    def daemon(self, *flags, **options):
        self.started.append(Daemon(self.folder, *flags, **options))
        return self.started[-1]

    def pool(self, reducers, *flags, **options):
        """A coordinator apart and so many reducers, all registered: [coordinator, reducer, ...]."""
        coordinator = self.daemon("--role", "coordinator", "--min-reducers", str(max(reducers, 1)), *flags, ready=False, **options)
        from processes import START_LIMIT_S, until
        until(lambda: coordinator.ports().get("control") or coordinator.ended(), START_LIMIT_S, coordinator.output)
        members = [self.daemon("--role", "reducer", "--coordinators", coordinator.address("control"), "--name", f"reducer-{i}",
                               *flags, ready=False, **options) for i in range(reducers)]
        for member in [coordinator, *members] if reducers else []:  # alone it is ready for direct mode only, and says not
            member.wait_ready()
        return [coordinator, *members]

    def workers(self, coordinator, size, *arguments, job="job", env=None, ranks=None, program=WORKER):
        """The ranks of one job, each PROGRAM ARGUMENTS; an argument may be a function of the rank."""
        started = []
        for rank in range(size) if ranks is None else ranks:
            words = [str(word(rank)) if callable(word) else str(word) for word in arguments]
            started.append(self.process(program, *words, env={
                "REDSUM_COORDINATOR": coordinator.address("control"), "REDSUM_JOB_ID": job, "RANK": str(rank),
                "WORLD_SIZE": str(size), **(env or {})}))
        return started

    def end(self):
        end_all(self.started)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.end()
