# SPDX-License-Identifier: BSD-3-Clause
"""Several hosts on one machine: network namespaces, joined by bridges and routers, with peers (peer.c) running in them.

Everything lives in namespaces of its own (mounts, processes, network, and users unless root calls), which the kernel
ends with this program, however that ends: nothing is left behind, and nothing of the machine's own network is touched.
"""

import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

INSIDE = "CW_ROUTES_INSIDE"
SKIPPED = 77


class Failed(Exception):
    """A scenario did not go as it should."""


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIPPED)


def enter():
    """Goes on inside of the namespaces: runs this program there again."""
    if os.environ.get(INSIDE):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        for line in ("mount -t tmpfs none /run", "ip link set lo up"):
            subprocess.run(line.split(), check=True)
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for name in ("unshare", "ip", "nft", "mount"):
        if shutil.which(name) is None:
            skip("there is no %s; install iproute2, nftables, mount and util-linux" % name)
    line = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    line += [] if os.getuid() == 0 else ["--map-root-user"]
    check = "mount -t tmpfs none /run && ip netns add a && ip -n a link add v0 type veth peer name v1 && "
    check += "ip -n a link add b0 type bridge && ip netns exec a nft list tables"
    tried = subprocess.run(line + ["sh", "-c", check], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        skip("this system lets nobody here make network namespaces, veth pairs, bridges and tables of nftables: "
             + tried.stderr.strip())
    os.environ[INSIDE] = "1"
    os.execvp(line[0], line + [sys.executable, "-B"] + sys.argv)


def run(line, text=None):
    done = subprocess.run(line.split() if isinstance(line, str) else line, input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failed("%s: %s" % (line, done.stderr.strip()))
    return done.stdout


def limit_files():
    """Files and shared memory cannot grow; the signal that this brings is ignored, as Python left it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class Peer:
    """A worker in a namespace."""

    def __init__(self, host, program, settings, sleeps, no_files):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UCX_")}
        environment.update({"UCX_LOG_LEVEL": "diag", "UCX_LOG_FILE": "stderr"}, **settings)
        self.host, self.events, self.lines, self.rest, self.log = host, [], [], b"", b""
        # nsenter would leave /sys as it is
        self.process = subprocess.Popen(["ip", "netns", "exec", host.name, program] + (["sleep"] if sleeps else []),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment, restore_signals=False,
                                        preexec_fn=limit_files if no_files else None)
        for pipe in (self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self.wait_event("ready", 10)

    def read(self, seconds):
        """Takes in what comes, at most for so long; returns at the first bytes."""
        pipes = [pipe for pipe in (self.process.stdout, self.process.stderr) if not pipe.closed]
        if not pipes:
            raise Failed("%s: its process has ended" % self.host.name)
        for pipe in select.select(pipes, [], [], max(seconds, 0))[0]:
            got = os.read(pipe.fileno(), 65536)
            if not got:
                pipe.close()
            elif pipe is self.process.stderr:
                self.log += got
            else:
                *whole, self.rest = (self.rest + got).split(b"\n")
                for line in whole:
                    (self.events if line.startswith(b"!") else self.lines).append(line.decode().lstrip("!"))

    def wait_event(self, start, seconds=20):
        end = time.monotonic() + seconds
        while not any(event.startswith(start) for event in self.events):
            if time.monotonic() > end:
                raise Failed("%s: no '%s' within %g s" % (self.host.name, start, seconds))
            self.read(0.2)
        return next(event for event in self.events if event.startswith(start))

    def order(self, command):
        self.process.stdin.write((command + "\n").encode())
        self.process.stdin.flush()

    def hear(self, seconds=30):
        """The answer of a command sent before."""
        end = time.monotonic() + seconds
        while not self.lines:
            if time.monotonic() > end:
                raise Failed("%s: no answer within %g s" % (self.host.name, seconds))
            self.read(0.2)
        return self.lines.pop(0)

    def ask(self, command, seconds=30):
        self.order(command)
        return self.hear(seconds)

    def log_text(self):
        """Its log up to now."""
        self.read(0)
        return self.log.decode(errors="replace")

    def connections(self):
        """[(local, remote)] of established TCP connections, each 'address:port'."""
        lines = run("ip netns exec %s ss -Htn state established" % self.host.name).splitlines()
        return [tuple(re.sub(r"::ffff:(?=\d)|[][]", "", word) for word in line.split()[2:4]) for line in lines]

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self, seconds=10):
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("%s: it does not end" % self.host.name) from None
        if self.process.returncode != 0:
            raise Failed("%s: it ended with %d" % (self.host.name, self.process.returncode))


class Host:
    def __init__(self, bed, name):
        self.bed, self.name = bed, name
        run("ip netns add " + name)
        self.ip("link set lo up")

    def ip(self, *lines):
        run(["ip", "-n", self.name, "-batch", "-"], "\n".join(lines) + "\n")

    def nft(self, text):
        run(["ip", "netns", "exec", self.name, "nft", "-f", "-"], text)

    def sysctl(self, name, value):
        # its namespace has its own view of /proc/sys/net
        run(["ip", "netns", "exec", self.name, "sh", "-c", "echo %s >/proc/sys/net/%s" % (value, name)])

    def address(self, device, *addresses):
        self.ip(*["addr add %s dev %s%s" % (one, device, " nodad" if ":" in one else "") for one in addresses])

    def bridge(self, name, *addresses):
        """An inner bridge with one port that has a carrier, like that of a host of containers."""
        self.ip("link add %s type bridge" % name, "link add %sp type veth peer name %sq" % (name, name),
                "link set %sp master %s" % (name, name), *["link set %s%s up" % (name, end) for end in ("", "p", "q")])
        self.address(name, *addresses)

    def slow(self, device, rate):
        """What this host sends there takes that long, such as "200mbit"."""
        run(["ip", "netns", "exec", self.name, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
             "burst", "128kb", "latency", "100ms"])

    def sent(self, device):
        """Bytes."""
        text = subprocess.run(["ip", "netns", "exec", self.name, "cat", "/proc/net/dev"], check=True,
                              capture_output=True, text=True).stdout
        return int([line for line in text.splitlines() if line.strip().startswith(device + ":")][0].split()[9])

    def firewall(self, *rules, hook="input"):
        lines = "".join("add rule inet wall %s %s\n" % (hook, rule) for rule in rules)
        self.nft("add table inet wall\nadd chain inet wall %s { type filter hook %s priority 0; }\n%s" %
                 (hook, hook, lines))

    def peer(self, sleeps=False, no_files=False, **settings):
        settings = {"UCX_" + name: str(value) for name, value in settings.items()}
        peer = Peer(self, self.bed.program, settings, sleeps, no_files)
        self.bed.peers.append(peer)
        return peer


class Bed:
    """The hosts of one scenario."""

    def __init__(self, program):
        self.program, self.hosts, self.peers = program, [], []

    def host(self, name):
        self.hosts.append(Host(self, name))
        return self.hosts[-1]

    def link(self, left, left_device, right, right_device):
        """A cable."""
        run("ip -n %s link add %s type veth peer name %s netns %s" %
            (left.name, left_device, right_device, right.name))
        for host, device in ((left, left_device), (right, right_device)):
            host.sysctl("ipv6/conf/%s/accept_dad" % device, 0)
            host.ip("link set %s up" % device)

    def end(self, quietly):
        for peer in self.peers:
            if quietly:
                peer.process.kill()
            else:
                peer.end()
        for host in self.hosts:
            run("ip netns del " + host.name)
