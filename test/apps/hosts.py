#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs an MPI program over several hosts, which are network namespaces with two links each (../routes/bed.py).

    hosts.py --hosts N --work DIRECTORY ARGUMENTS-OF-RUN...

Host h1 runs mpirun, as run.py starts it. mpirun reaches the other hosts as it would by a remote shell: its launcher is
a script of this program that enters the namespace of the host and gives itself that host's name. Both links of a host
lead to all others, each by a network of its own. IPC namespaces keep other UCP libraries from sharing memory across
hosts. Status: that of run.py; 77 where this system does not let anybody make namespaces.
"""

import argparse
import os
import stat
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "routes"))
import bed  # noqa: E402 (found by the line above)

NETWORKS = ("10.71.1", "10.71.2")
# /run is a file system of the namespaces alone, so the script goes with them.
AGENT_PATH = "/run/enter-host"
AGENT = """#!/bin/sh
# AGENT HOST COMMAND...: as a remote shell does, COMMAND is one line for a shell.
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc sh -c 'hostname "$0" && eval "$*"' "$host" "$@"
"""


def build(number, networks=NETWORKS):
    """The hosts h1 to hN and a switch for each network."""
    beds = bed.Bed(None)
    switch = beds.host("switch")
    for network in range(len(networks)):
        switch.ip("link add net%d type bridge" % network, "link set net%d up" % network)
    for index in range(1, number + 1):
        host = beds.host("h%d" % index)
        for network, prefix in enumerate(networks):
            port = "p%d-%d" % (index, network)
            beds.link(host, "e%d" % network, switch, port)
            switch.ip("link set %s master net%d" % (port, network))
            host.address("e%d" % network, "%s.%d/24" % (prefix, index))
    return [host.name for host in beds.hosts[1:]]


def names_of_hosts(work, hosts):
    """Gives the hosts their names, for this program and what it starts."""
    path = os.path.join(work, "hosts-%d" % os.getpid())
    with open(path, "w", encoding="utf-8") as file:
        file.write("127.0.0.1 localhost\n")
        for index, host in enumerate(hosts, 1):
            file.write("%s.%d %s\n" % (NETWORKS[0], index, host))
    bed.run(["mount", "--bind", path, "/etc/hosts"])
    os.unlink(path)


def write_agent():
    with open(AGENT_PATH, "w", encoding="utf-8") as file:
        file.write(AGENT)
    os.chmod(AGENT_PATH, stat.S_IRWXU)


def launcher(mpi, hosts, slots=8):
    """What mpirun gets for the hosts, each with so many processes at most."""
    if mpi == "mpich":
        return ["-launcher", "rsh", "-launcher-exec", AGENT_PATH, "-hosts", ",".join(hosts)]
    listed = ",".join("%s:%d" % (host, slots) for host in hosts)
    return ["-mca", "plm", "rsh", "-mca", "plm_rsh_agent", AGENT_PATH, "-mca", "oob_tcp_if_include",
            NETWORKS[0] + ".0/24", "--map-by", "node", "--host", listed]


def entered(host):
    """What a command is preceded by to run on that host."""
    namespaces = ["ip", "netns", "exec", host, "unshare", "--uts", "--ipc"]
    return namespaces + ["sh", "-c", 'hostname "$0" && exec "$@"', host]


def main():
    parser = argparse.ArgumentParser(description="Runs an MPI program over several hosts.")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--work", required=True)
    options, rest = parser.parse_known_args()
    bed.enter()
    work = os.path.abspath(options.work)
    os.makedirs(work, exist_ok=True)
    hosts = build(options.hosts)
    names_of_hosts(work, hosts)
    write_agent()
    mpi = next(word for word in rest if word in ("openmpi", "mpich", "openshmem"))
    words = ["--launch=" + word for word in launcher(mpi, hosts)]
    line = entered(hosts[0]) + [sys.executable, "-B", os.path.join(HERE, "run.py"), "--work", work]
    return subprocess.run(line + words + rest, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except bed.Failed as failure:
        print("FAILED: %s" % failure)
        sys.exit(1)
