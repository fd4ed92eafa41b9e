# SPDX-License-Identifier: Apache-2.0
"""A redsum job whose members each have a host of their own."""
import json

from laboratory import LIMIT_S, until
from processes import BIN, SLOW

ITERATIONS = 3


def start_pool(lab, folder, reducers, *flags):
    """A coordinator on h0 and a reducer on each of the hosts."""
    ready = []
    for host, role in [("h0", "coordinator"), *((host, "reducer") for host in reducers)]:
        ready.append(folder / f"{host}.json")
        lab.start(host, BIN / "redsumd", "--role", role, "--control", f"{lab.address(host)}:7400", "--data", f"{lab.address(host)}:7401",
                  "--admin", "off", "--min-reducers", len(reducers), "--shards", 1, "--ports-file", ready[-1], *flags,
                  *([] if role == "coordinator" else ["--coordinators", f"{lab.address('h0')}:7400"]))
        if role == "coordinator":
            lab.started[-1].line("7400")
    for file in ready:
        until(lambda: file.exists() and json.loads(file.read_text())["ready"], 20 * SLOW,
              lambda: "\n".join(process.output() for process in lab.started))


def run_job(lab, hosts, env):
    """The JSON of rank 0's redsum-perf."""
    workers = [lab.start(host, BIN / "redsum-perf", "-b", "4K", "-e", "1M", "-f", 16, "-n", ITERATIONS, "-d", "fp32,bf16", "-c", 1, "--format", "json",
                         env={"REDSUM_COORDINATOR": f"{lab.address('h0')}:7400", "RANK": str(rank), "WORLD_SIZE": str(len(hosts)), **env})
               for rank, host in enumerate(hosts)]
    for worker in workers:
        assert worker.wait(LIMIT_S * SLOW) == 0, worker.output()
    return json.loads(workers[0].output())


def test_a_job_over_the_labs_network_sums_right(lab, tmp_path):
    lab.up("--hosts", 5, "--rate", "200mbit")
    secret = tmp_path / "secret"
    secret.write_text("of this test only\n")
    secret.chmod(0o600)
    start_pool(lab, tmp_path, ["h1", "h2"], "--secret-file", secret)
    result = run_job(lab, ["h3", "h4"], {"REDSUM_SECRET_FILE": str(secret)})
    assert result["total_wrong"] == 0 and len(result["results"]) == 6
    # Everything went over the cards, and over those of both reducers.
    contributed = 2 * ITERATIONS * sum(row["size"] for row in result["results"])
    received = [lab.host(reducer)["received"]["bytes"] for reducer in ("h1", "h2")]
    assert sum(received) > contributed and min(received) > contributed / 3, received


def test_an_open_pool_serves_a_job_too(lab, tmp_path):
    lab.up("--hosts", 3, "--rate", "200mbit")
    start_pool(lab, tmp_path, ["h0"], "--insecure")
    assert run_job(lab, ["h1", "h2"], {})["total_wrong"] == 0


def test_a_job_goes_on_without_a_partitioned_reducer_which_serves_again_once_healed(lab, tmp_path):
    lab.up("--hosts", 5, "--rate", "200mbit")
    start_pool(lab, tmp_path, ["h1", "h2"], "--insecure", "--heartbeat-timeout", f"{SLOW}s")
    coordinator = {"REDSUM_COORDINATOR": f"{lab.address('h0')}:7400", "WORLD_SIZE": "2",
                   "REDSUM_HEARTBEAT_TIMEOUT": str(SLOW)}
    workers = [lab.start(host, BIN / "redsum-perf", "-b", "8M", "-e", "8M", "-n", 20, env={**coordinator, "RANK": str(rank)})
               for rank, host in enumerate(["h3", "h4"])]
    until(lambda: lab.host("h2")["received"]["bytes"] > 1 << 20, 20 * SLOW, workers[0].output)
    lab.must("cut", "h2", "--silent")
    for worker in workers:
        assert worker.wait(60 * SLOW) == 0, worker.output()
    lab.must("heal", "h2")
    # A job waits until both reducers are registered.
    assert run_job(lab, ["h3", "h4"], {"REDSUM_JOB_ID": "after"})["total_wrong"] == 0
