# SPDX-License-Identifier: Apache-2.0
"""examples/elastic_digits.cc: workers and a reducer die and come back, and the network learns as well as undisturbed."""
import re
import time
from pathlib import Path

import pytest
from processes import BIN, SLOW

DIGITS = Path(__file__).resolve().parent.parent.parent / ".cache" / "digits.csv.gz"
START_S = 0.1


def accuracy(worker):
    return float(re.search("accuracy ([0-9.]+)", worker.line("result: ", 90 * SLOW))[1])


@pytest.mark.skipif(not DIGITS.exists(), reason="no digits: run ./dev demo first, it fetches them")
def test_FLT_06_training_goes_on_and_learns_as_much(bench):
    coordinator, first, _ = bench.pool(2)

    def train(job, ranks, pause_ms):
        return bench.workers(coordinator, 4, "--data", DIGITS, "--pause-ms", pause_ms, job=job, ranks=ranks, program=BIN / "elastic_digits")
    undisturbed = train("undisturbed", range(4), 0)
    wanted = {accuracy(worker) for worker in undisturbed}
    assert len(wanted) == 1, wanted

    workers = train("disturbed", range(4), 15)
    for worker in workers:
        worker.line("goes on with step 0")
    stay = workers[:1] + workers[3:]
    for victim, away_s in ((1, START_S), (2, 1)):
        time.sleep(0.5)
        workers[victim].signal(9)
        if victim == 2:
            first.signal(9)
        for worker in stay:
            worker.line(f"peer_lost.*rank [0-3] .*:{workers[victim].pid} at")
        time.sleep(away_s)
        workers[victim], = train("disturbed", [victim], 15)
        workers[victim].line("goes on with step [1-9]")
    found = {accuracy(worker) for worker in workers}
    for worker in workers:
        assert worker.wait() == 0, worker.output()
    assert len(found) == 1, f"the workers have not the same weights: {found}"
    assert abs(found.pop() - wanted.pop()) <= 1, "percentage points"
