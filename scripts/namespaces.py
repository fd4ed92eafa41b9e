# SPDX-License-Identifier: Apache-2.0
"""What a laboratory is made of (scripts/lab.py has the commands): namespaces, cables and token buckets, by iproute2."""
import contextlib
import fcntl
import ipaddress
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

MAX_HOSTS = 200
NETWORK = ipaddress.ip_network("10.77.0.0/24")
GSO_BYTES = 65536  # the largest packet that TCP hands to a card
EGRESS_QUEUE_BYTES = 16 << 20  # a host's own queue: TCP waits for room in it, nothing is dropped
NETEM_PACKETS = 100000  # in flight on a cable with a delay; its default of 1000 would drop
END_LIMIT_S = 2  # what `down` gives processes between SIGTERM and SIGKILL
WRONG, UNABLE = 1, 3  # exit codes: the call failed; this machine cannot have a lab


class Failure(Exception):
    code = WRONG


class Unable(Failure):
    """This machine cannot have a lab (or not this one): rights, tools, the kernel."""
    code = UNABLE


UNABLE_BECAUSE = (
    (r"netem.*qdisc kind is unknown", "this kernel has no netem (NET_SCH_NETEM), which --delay needs"),
    (r"qdisc kind is unknown", "this kernel has no token bucket (NET_SCH_TBF), which limits the rates"),
    (r"Unknown device type", "this kernel cannot make such a link: it needs VETH and BRIDGE"),
    (r"Operation not permitted|Permission denied", "network namespaces are not permitted here; in a container, add CAP_SYS_ADMIN "
     "and CAP_NET_ADMIN"),
)


def tool(*argv, lines=(), check=True):
    """Output of an iproute2 command; `lines` are its batch."""
    done = subprocess.run(argv, input="".join(line + "\n" for line in lines), capture_output=True, text=True)
    if check and done.returncode != 0:
        what = " ".join(argv)
        at = re.search(r"Command failed -:(\d+)", done.stderr)
        if at:
            what += f" '{lines[int(at[1]) - 1]}'"
        text = f"{what}: {' '.join(done.stderr.split())}"
        for pattern, why in UNABLE_BECAUSE:
            if re.search(pattern, text):
                raise Unable(f"{why} ({text})")
        raise Failure(text)
    return done.stdout


class Lab:
    """One lab. It keeps no file: the namespaces are its state, and the alias of the bridge, set last, says that it is whole."""

    def __init__(self, name):
        self.name = name
        self.switch = self.namespace("switch")

    def namespace(self, host):
        return f"redsum-{self.name}-{host}"

    def namespaces(self):
        folder = Path("/run/netns")
        return sorted(path.name for path in folder.glob(f"redsum-{self.name}-*")) if folder.is_dir() else []

    @staticmethod
    def address(index):
        return str(NETWORK[1 + index])

    def settings(self):
        """What it was made with, or None when it is not (wholly) up."""
        shown = tool("ip", "-n", self.switch, "-j", "link", "show", "dev", "switch", check=False)
        alias = json.loads(shown or "[{}]")[0].get("ifalias") if self.switch in self.namespaces() else None
        return json.loads(alias) if alias else None

    def must_be_up(self):
        settings = self.settings()
        if settings is None:
            raise Failure(f"lab '{self.name}' is not up; ./dev lab up makes it")
        return settings

    def index(self, host):
        hosts = self.must_be_up()["hosts"]
        if not re.fullmatch(r"h\d{1,3}", host) or int(host[1:]) >= hosts:
            raise Failure(f"no host '{host}' in lab '{self.name}': it has h0 to h{hosts - 1}")
        return int(host[1:])

    def make(self, settings):
        check_congestion_control(settings["tcp"])
        tool("ip", "netns", "add", self.switch)
        # Bridge filters of the firewall would cost time for each packet.
        self.system(self.switch, {"net.bridge.bridge-nf-call-iptables": 0, "net.ipv6.conf.all.disable_ipv6": 1})
        tool("ip", "-n", self.switch, "-batch", "-", lines=[
            f"link add switch mtu {settings['mtu']} type bridge stp_state 0 forward_delay 0 mcast_snooping 0", "link set switch up"])
        for index in range(settings["hosts"]):
            self.make_host(index, settings)
        tool("ip", "-n", self.switch, "link", "set", "dev", "switch", "alias", json.dumps(settings))

    def make_host(self, index, settings):
        host, mtu = f"h{index}", settings["mtu"]
        namespace = self.namespace(host)
        tool("ip", "netns", "add", namespace)
        self.system(namespace, {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv4.tcp_no_metrics_save": 1})
        tool("ip", "-n", self.switch, "link", "add", host, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "mtu", str(mtu),
             "netns", namespace)
        # Nobody can send before its card is shaped.
        shape(namespace, "eth0", settings, max(settings["queue"], EGRESS_QUEUE_BYTES), settings["delay_us"])
        shape(self.switch, host, settings, settings["queue"], 0)
        # The congestion control is the route's: a namespace's own default must be allowed by the machine's settings.
        tool("ip", "-n", namespace, "-batch", "-", lines=[
            "link set lo up", f"addr add {self.address(index)}/{NETWORK.prefixlen} dev eth0", "link set eth0 up",
            f"route replace {NETWORK} dev eth0 proto kernel scope link src {self.address(index)} congctl {settings['tcp']}"])
        tool("ip", "-n", self.switch, "-batch", "-", lines=[f"link set {host} master switch", f"link set {host} up"])

    @staticmethod
    def system(namespace, values):
        """Kernel settings inside a namespace; one that this kernel lacks is left out."""
        script = "".join(f"p=/proc/sys/{key.replace('.', '/')}; [ ! -e $p ] || echo {value} >$p || exit 1; " for key, value in values.items())
        tool("ip", "netns", "exec", namespace, "sh", "-c", script)

    def processes(self):
        """pid -> host of what runs in the lab."""
        found = {}
        for namespace in self.namespaces():
            for pid in tool("ip", "netns", "pids", namespace, check=False).split():
                found[int(pid)] = namespace.rsplit("-", 1)[1]
        return found

    def remove(self):
        """Takes away whatever there is of it; True if there was anything."""
        found = self.namespaces()
        running = self.processes()
        if os.getpid() in running:
            raise Failure(f"this runs on host {running[os.getpid()]} of the lab itself; call it from outside")
        end(running)
        # A namespace lives as long as anything uses it; a cable taken out at the switch is gone at both ends at once.
        if self.switch in found:
            for link in json.loads(tool("ip", "-n", self.switch, "-j", "link", check=False) or "[]"):
                if link["ifname"] != "lo":
                    tool("ip", "-n", self.switch, "link", "del", link["ifname"], check=False)
        for namespace in found:
            tool("ip", "netns", "del", namespace)
        return bool(found)

    def cut(self, host, silent):
        """Pulls its cable; silent: the switch drops its packets, and the host sees nothing."""
        if silent:
            tool("bridge", "-n", self.switch, "link", "set", "dev", host, "state", "0")
        else:
            tool("ip", "-n", self.switch, "link", "set", host, "down")

    def heal(self, host):
        tool("ip", "-n", self.switch, "link", "set", host, "up")
        tool("bridge", "-n", self.switch, "link", "set", "dev", host, "state", "3")

    def link_state(self, port):
        if "UP" not in port["flags"]:
            return "cut"
        return "cut (silent)" if port["linkinfo"]["info_slave_data"]["state"] == "disabled" else "up"

    def status(self):
        settings, running = self.must_be_up(), self.processes()
        ports = {port["ifname"]: port for port in json.loads(tool("ip", "-n", self.switch, "-d", "-j", "link", "show", "master", "switch"))}
        hosts = []
        for index in range(settings["hosts"]):
            host = f"h{index}"
            if host not in ports:
                raise Failure(f"the cable of host '{host}' is gone; ./dev lab down, then up")
            row = {"host": host, "address": self.address(index), "namespace": self.namespace(host), "link": self.link_state(ports[host]),
                   "processes": sorted(pid for pid, where in running.items() if where == host)}
            for way, namespace, card in (("sent", self.namespace(host), "eth0"), ("received", self.switch, host)):
                bucket = next(q for q in json.loads(tool("tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", card)) if q["kind"] == "tbf")
                row[way] = {key: bucket[key] for key in ("bytes", "drops")}
            hosts.append(row)
        return {"lab": self.name, **settings, "hosts": hosts}


def shape(namespace, card, settings, queue, delay_us):
    """A token bucket bills a large TCP packet by what its segments would be on the wire, headers included, if its bucket
    holds it; a smaller bucket would have to cut it up. So `burst` is one such packet, or a quarter of a millisecond."""
    bucket = f"tbf rate {settings['rate_bps']}bit burst {settings['burst']} limit {queue}"
    lines = [f"qdisc add dev {card} root handle 1: {bucket}"]
    if delay_us:
        lines = [f"qdisc add dev {card} root handle 1: netem delay {delay_us}us limit {NETEM_PACKETS}",
                 f"qdisc add dev {card} parent 1:1 handle 10: {bucket}"]
    tool("tc", "-n", namespace, "-batch", "-", lines=lines)


def check_congestion_control(name):
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if name not in available:
        raise Unable(f"this kernel has no TCP congestion control '{name}'; --tcp takes one of: {' '.join(available)}")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(pids):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(alive, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + END_LIMIT_S
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)


@contextlib.contextmanager
def alone():
    """One `up` or `down` at a time on this machine."""
    folder = os.open("/run", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
