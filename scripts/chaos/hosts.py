# SPDX-License-Identifier: Apache-2.0
"""Where the processes of a run live: each on a host of its own in a lab (./dev lab), whose cable can be cut, or all on loopback."""
import contextlib
import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
import namespaces  # noqa: E402


class Loopback:
    """Whoever listens takes a free port: a fixed one may be another program's, or one of a connection of our own."""
    cables = False

    def __init__(self, why=""):
        self.name = f"loopback ({why})" if why else "loopback"

    @staticmethod
    def argv(_host, words):
        return words

    @staticmethod
    def listen(_host, _port):
        return "127.0.0.1:0"


class Laboratory:
    cables = True

    def __init__(self, count, rate):
        self.count, self.rate = count, rate
        self.lab = namespaces.Lab(f"chaos{os.getpid()}")
        self.name = f"a lab of {count} hosts with a card of {rate} each"

    def _call(self, *words):
        """./dev lab, which holds a lock and removes what a broken run has left."""
        done = subprocess.run([sys.executable, "-B", str(SCRIPTS / "lab.py"), "--lab", self.lab.name, *map(str, words)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            kind = namespaces.Unable if done.returncode == namespaces.UNABLE else namespaces.Failure
            raise kind(done.stderr.strip())

    def up(self):
        self._call("up", "--hosts", self.count, "--rate", self.rate)

    def down(self):
        self._call("down")

    def argv(self, host, words):
        return ["ip", "netns", "exec", self.lab.namespace(f"h{host}"), *words]

    def listen(self, host, port):
        return f"{self.lab.address(host)}:{port}"

    def cut(self, host, silent):
        self.lab.cut(f"h{host}", silent)

    def heal(self, host):
        self.lab.heal(f"h{host}")


@contextlib.contextmanager
def find(wanted, count, rate):
    """`wanted`: lab, loopback, or auto: loopback where there can be no lab."""
    why = ""
    if wanted != "loopback":
        lab = Laboratory(count, rate)
        try:
            lab.up()
        except namespaces.Unable as unable:
            if wanted == "lab":
                raise
            why = str(unable)
        else:
            try:
                yield lab
            finally:
                lab.down()
            return
    yield Loopback(why)
