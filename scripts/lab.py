# SPDX-License-Identifier: Apache-2.0
"""A laboratory: hosts with network cards of a known rate, on this one machine.

A host (h0, h1, ...) is a network namespace with one card, eth0, 10.77.0.1 for h0, .2 for h1 and so on. Its rate is limited
in both directions: what it sends by a token bucket on eth0, what it receives by one on the switch's end of the cable. The
switch is a bridge in a namespace of its own, so this machine's own network sees nothing of it, and labs of different names
(--lab) can be up at once, with the same addresses, and do not meet.

Processes and files are those of this machine; a program on a host listens on the host's address or on 0.0.0.0.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from namespaces import GSO_BYTES, MAX_HOSTS, WRONG, Failure, Lab, Unable, alone, end


def bits_per_second(text):
    """'500mbit' -> 500000000, as tc writes rates."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)bit", text)
    rate = int(float(match[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[match[2]]) if match else 0
    if rate < 10**6:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate of 1mbit or more; write 500mbit or 2.5gbit")
    return rate


def microseconds(text):
    """'200us', '5ms' -> microseconds; '0' is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)|0", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no delay; write 200us or 5ms")
    return int(float(match[1]) * {"us": 1, "ms": 1000, "s": 10**6}[match[2]]) if match[1] else 0


def between(least, most):
    def number(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not from {least} to {most}")
        return int(text)
    return number


def lab_name(text):
    if not re.fullmatch(r"[a-z0-9]{1,16}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no name for a lab: 1 to 16 lower-case letters and digits")
    return text


def wanted(options):
    segments = GSO_BYTES // (options.mtu - 52) + 1  # 52: IP and TCP with time stamps; on the wire each segment has 14 more
    burst = max(GSO_BYTES + segments * 66, options.rate // 8 // 4000)
    return {"hosts": options.hosts, "rate_bps": options.rate, "delay_us": options.delay, "mtu": options.mtu, "burst": burst,
            "queue": max(options.queue_kib * 1024, burst), "tcp": options.tcp}


def up(lab, options):
    settings = wanted(options)
    with alone():
        now = lab.settings()
        if now == settings:
            print(f"lab '{lab.name}' is up already")
            return
        if now is not None:
            differ = ", ".join(f"{key} {now.get(key)}" for key in settings if now.get(key) != settings[key])
            raise Failure(f"lab '{lab.name}' is up with {differ}; ./dev lab down first, or another --lab")
        if lab.remove():
            print(f"removed what was left of lab '{lab.name}'")
        try:
            lab.make(settings)
        except BaseException:  # Ctrl-C too
            lab.remove()
            raise
    print(f"lab '{lab.name}': h0 to h{settings['hosts'] - 1}, {lab.address(0)} to {lab.address(settings['hosts'] - 1)}, "
          f"{rate_text(settings['rate_bps'])} each way", flush=True)


def rate_text(bits):
    return next(f"{bits / scale:g}{unit}bit" for scale, unit in ((10**9, "g"), (10**6, "m")) if bits >= scale)


def down(lab, _options):
    with alone():
        print(f"lab '{lab.name}' {'is removed' if lab.remove() else 'was not up'}", flush=True)


def run(lab, options):
    """CMD on this machine, with $LAB_NAME set so that its own `./dev lab exec h0 ...` means this lab."""
    def stop(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    argv = command_of(options)
    if lab.settings() is not None:  # somebody's, and not ours to remove
        raise Failure(f"lab '{lab.name}' is up already; run makes one of its own and removes it")
    try:
        up(lab, options)
        child = subprocess.Popen(argv, env={**os.environ, "LAB_NAME": lab.name})
        try:
            status = child.wait()
        finally:
            if child.poll() is None:
                end([child.pid])
    except FileNotFoundError as error:
        raise Failure(f"cannot run {argv[0]}: {error.strerror}") from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # impatience must not leave half a lab
        down(lab, options)
    return status if status >= 0 else 128 - status


def command_of(options):
    argv = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not argv:
        raise Failure("no command is given")
    return argv


def execute(lab, options):
    address = lab.address(lab.index(options.host))
    os.environ.update(LAB_NAME=lab.name, LAB_HOST=options.host, LAB_ADDRESS=address)
    os.execvp("ip", ["ip", "netns", "exec", lab.namespace(options.host), *command_of(options)])


def cut(lab, options):
    lab.index(options.host)
    lab.cut(options.host, options.silent)


def heal(lab, options):
    lab.index(options.host)
    lab.heal(options.host)


def status(lab, options):
    found = lab.status()
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"lab '{lab.name}': {rate_text(found['rate_bps'])} each way, delay {found['delay_us']} us, mtu {found['mtu']}, "
          f"burst {found['burst']}, switch queue {found['queue']}, tcp {found['tcp']}")
    print(f"{'host':<5} {'address':<12} {'link':<13} {'sent MB':>9} {'dropped':>8} {'received':>9} {'dropped':>8}  processes")
    for row in found["hosts"]:
        print(f"{row['host']:<5} {row['address']:<12} {row['link']:<13} {row['sent']['bytes'] / 1e6:9.1f} {row['sent']['drops']:8} "
              f"{row['received']['bytes'] / 1e6:9.1f} {row['received']['drops']:8}  {' '.join(map(str, row['processes']))}")


def parse():
    parser = argparse.ArgumentParser(prog="./dev lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit codes: 1 it failed, 2 wrong usage, 3 this machine cannot have a lab")
    parser.add_argument("--lab", type=lab_name, help="name of the lab; default: $LAB_NAME, else 'lab' (run: one of its own)")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def command(function, name, text, makes=False, host=False):
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(function=function)
        if makes:
            one.add_argument("--hosts", type=between(1, MAX_HOSTS), default=8, metavar="N", help="default 8")
            one.add_argument("--rate", type=bits_per_second, default="500mbit", help="of each card, each way; default 500mbit")
            one.add_argument("--delay", type=microseconds, default="0", help="one way, from host to host, e.g. 200us; needs netem")
            one.add_argument("--mtu", type=between(576, 65000), default=9000, help="default 9000")
            one.add_argument("--queue-kib", type=between(64, 1 << 20), default=1024, metavar="KIB",
                             help="the switch's queue for each host; what does not fit is dropped; default 1024")
            one.add_argument("--tcp", default="cubic", help="congestion control of the hosts; default cubic")
        if host:
            one.add_argument("host", metavar="HOST", help="h0, h1, ...")
        return one

    command(up, "up", "make the lab; one that is half made is replaced", makes=True)
    command(run, "run", "make a lab, run CMD on this machine, remove the lab", makes=True).add_argument("command", nargs=argparse.REMAINDER)
    command(execute, "exec", "run CMD on a host", host=True).add_argument("command", nargs=argparse.REMAINDER)
    command(cut, "cut", "pull a host's cable", host=True).add_argument(
        "--silent", action="store_true", help="drop its packets at the switch instead: the host's own link stays up")
    command(heal, "heal", "end a cut of either kind", host=True)
    command(status, "status", "hosts, addresses, links, traffic and processes").add_argument("--json", action="store_true")
    command(down, "down", "end what runs on the hosts and remove the lab; nothing to do when it is not up")
    options = parser.parse_args()
    options.lab = options.lab or (f"run{os.getpid()}" if options.function is run else lab_name(os.environ.get("LAB_NAME") or "lab"))
    return options


def main():
    try:
        options = parse()
        if os.geteuid() != 0:
            raise Unable("this makes network namespaces and needs root: sudo ./dev lab ...")
        for name in ("ip", "tc", "bridge"):
            if not shutil.which(name):
                raise Unable(f"'{name}' is not installed; ./dev setup installs it (Debian package iproute2)")
        return options.function(Lab(options.lab), options) or 0
    except (Failure, argparse.ArgumentTypeError) as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return getattr(failure, "code", WRONG)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
