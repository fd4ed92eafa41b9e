# SPDX-License-Identifier: Apache-2.0
"""NET-02: hosts with two cards each. The second ones, `data0`, are joined by a cable of their own; the coordinator is reached by
the first ones only."""
import pytest
from laboratory import LIMIT_S, namespaces
from processes import BIN, SLOW
from test_lab_job import start_pool

SIZE = 1 << 20
PAYLOAD = 4 * SIZE  # of the timed calls alone: n workers send 2(n-1)/n of each


def second_cards(lab, first, second):
    """data0 on both hosts, 10.78.0.1 and 10.78.0.2."""
    names = {host: next(name for name in namespaces(lab.name) if name.endswith(f"-{host}")) for host in (first, second)}
    lab.must("exec", first, "ip", "link", "add", "data0", "type", "veth", "peer", "name", "data0", "netns", names[second])
    for number, host in enumerate((first, second), 1):
        lab.must("exec", host, "ip", "addr", "add", f"10.78.0.{number}/24", "dev", "data0")
        lab.must("exec", host, "ip", "link", "set", "data0", "up")


def sent(lab, host, card):
    return int(lab.must("exec", host, "cat", f"/sys/class/net/{card}/statistics/tx_bytes"))


def workers(lab, hosts, interfaces, **env):
    return [lab.start(host, BIN / "redsum-perf", "-b", SIZE, "-e", SIZE, "-n", 4, "-d", "fp32", "-c", 1,
                      env={"REDSUM_COORDINATOR": f"{lab.address('h0')}:7400", "REDSUM_INTERFACES": interfaces, "RANK": str(rank),
                           "WORLD_SIZE": str(len(hosts)), "REDSUM_INSECURE": "1", **env})
            for rank, host in enumerate(hosts)]


@pytest.mark.parametrize("mode", ["ring", "direct"])
@pytest.mark.parametrize("interfaces", ["data0", "data", "nosuch0,da*", "10.78.0.0/16", "^lo,eth"])
def test_NET_02_data_leaves_by_the_card_that_was_named(lab, tmp_path, mode, interfaces):
    lab.up("--hosts", 3, "--rate", "1gbit")
    second_cards(lab, "h1", "h2")
    start_pool(lab, tmp_path, [], "--insecure")
    for worker in workers(lab, ["h1", "h2"], interfaces, REDSUM_MODE=mode):
        assert worker.wait(LIMIT_S * SLOW) == 0, worker.output()
    for host in ("h1", "h2"):
        assert sent(lab, host, "data0") > PAYLOAD > SIZE > sent(lab, host, "eth0"), host


def test_NET_02_a_reducer_tells_workers_the_card_that_was_named(lab, tmp_path):
    lab.up("--hosts", 3, "--rate", "1gbit")
    second_cards(lab, "h1", "h2")
    ready = tmp_path / "h1.json"
    start_pool(lab, tmp_path, [], "--insecure", "--min-reducers", 1)
    lab.start("h1", BIN / "redsumd", "--role", "reducer", "--coordinators", f"{lab.address('h0')}:7400", "--interfaces", "data",
              "--insecure", "--admin", "off", "--ports-file", ready)
    lab.started[-1].line("registered as '10.78.0.1:7401'")
    for worker in workers(lab, ["h2"], "data"):
        assert worker.wait(LIMIT_S * SLOW) == 0, worker.output()
    assert sent(lab, "h2", "data0") > SIZE > sent(lab, "h2", "eth0")


@pytest.mark.parametrize("mode", ["server", "direct", "ring"])
def test_NET_02_loopback_on_a_job_of_several_hosts_is_refused_at_once(lab, tmp_path, mode):
    lab.up("--hosts", 2, "--rate", "200mbit")
    start_pool(lab, tmp_path, [], "--insecure")
    worker, = workers(lab, ["h1"], "lo", REDSUM_MODE=mode)
    assert worker.wait(10 * SLOW) == 1
    for part in ("invalid_argument: interfaces is 'lo'", "127.0.0.1", f"{lab.address('h0')}:7400", "'^lo'", f"eth0 {lab.address('h1')}"):
        assert part in worker.output(), worker.output()
