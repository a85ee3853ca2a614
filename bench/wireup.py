#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs the processes of a job to meet all to all: bench_wireup over each library, in turn.

Usage: wireup.py BINDIR LIBDIR [--ranks N] [--hosts H] [--newer FOLDER]... [--transports shm,tcp]

Started are N processes, on one host or on H ones: these are network namespaces, joined by a bridge, and processes of
different ones have TCP alone between them. The starter is mpirun of Open MPI, or prterun (one host). Printed is a table
for each transport: of each quantity the median over the processes and the maximum, of several rounds the median.
"machine" is by how much the machine's available memory sank, the starter and memory of the kernel included: it counts
only when nothing else runs.
Exit status: 0, 1 when a run failed, 2 for wrong use, 77 when this machine cannot do it.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "test", "apps"))
import hosts as host_beds  # noqa: E402
from contestants import Failure, find_contestants, key_values, run  # noqa: E402

SKIPPED = 77
KIB, MIB = 1024, 1 << 20
# What a process may need at most, of any of the libraries, beside what grows with the number of its peers.
RANK_BYTES, ENDPOINT_BYTES = 16 * MIB, 64 * KIB
RANK_FILES, RANK_THREADS = 64, 4
STARTER_FILES = 6  # of the starter, for each process
# Label, key, factor, unit.
ROWS = [("context and worker", "init_sec", 1e3, "ms"), ("processor time", "init_cpu_sec", 1e3, "ms"),
        ("exchange of addresses", "exchange_sec", 1e3, "ms"), ("processor time", "exchange_cpu_sec", 1e3, "ms"),
        ("creation of endpoints", "endpoints_sec", 1e3, "ms"), ("processor time", "endpoints_cpu_sec", 1e3, "ms"),
        ("first message to and from all", "first_sec", 1e3, "ms"), ("processor time", "first_cpu_sec", 1e3, "ms"),
        ("second message to and from all", "second_sec", 1e3, "ms"), ("processor time", "second_cpu_sec", 1e3, "ms"),
        ("teardown", "teardown_sec", 1e3, "ms"), ("processor time", "teardown_cpu_sec", 1e3, "ms"),
        ("address", "address_bytes", 1, "B"), ("endpoint, resident", "endpoint_rss_bytes", 1, "B"),
        ("endpoint, shared pages in part", "endpoint_pss_bytes", 1, "B"),
        ("endpoint, descriptors", "endpoint_descriptors", 1, ""),
        ("process, resident", "rank_rss_kib", 1 / KIB, "MiB"),
        ("process, shared pages in part", "rank_pss_kib", 1 / KIB, "MiB"),
        ("process, descriptors", "rank_descriptors", 1, "")]
WHOLE_ROWS = [("whole job", "job_sec", 1, "s"), ("machine", "machine_kib", 1 / KIB, "MiB")]


# ---- limits ----


def number_in(path, default=float("inf")):
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError):
        return default


def available_kib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))


def short_limits(ranks, hosts):
    """A sentence for each limit that so many processes exceed. Raises that of open files as far as allowed."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    memory = ranks * RANK_BYTES + ranks * ranks * ENDPOINT_BYTES
    needed_files = RANK_FILES + max(2 * ranks, STARTER_FILES * ranks // hosts)
    unlimited = {files: files == resource.RLIM_INFINITY, processes: processes == resource.RLIM_INFINITY}
    limits = [("open files of a process (ulimit -n)", files, needed_files),
              ("open files of all (/proc/sys/fs/file-max)", number_in("/proc/sys/fs/file-max"),
               ranks * (2 * ranks + RANK_FILES)),
              ("processes and threads (ulimit -u)", processes, RANK_THREADS * ranks),
              ("threads (/proc/sys/kernel/threads-max)", number_in("/proc/sys/kernel/threads-max"),
               RANK_THREADS * ranks),
              ("threads (/proc/sys/kernel/pid_max)", number_in("/proc/sys/kernel/pid_max"), RANK_THREADS * ranks),
              ("available memory in bytes", available_kib() * KIB, memory)]
    if os.path.isdir("/dev/shm"):
        room = os.statvfs("/dev/shm")
        limits.append(("free bytes of /dev/shm", room.f_bavail * room.f_frsize, memory))
    return [f"{name}: {limit}, but {needed} may be needed" for name, limit, needed in limits
            if not unlimited.get(limit) and limit < needed]


# ---- a job ----


class MemoryWatch:
    """How far the available memory of the machine sinks meanwhile."""

    def __init__(self):
        self.first = self.least = available_kib()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.05):
            self.least = min(self.least, available_kib())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def starter(settings):
    """The words that come before those of the library."""
    ranks = ["-n", str(settings.ranks)]
    for name in ("mpirun.openmpi", "mpirun"):
        if shutil.which(name) and "Open MPI" in run([name, "--version"], dict(os.environ), 60):
            words = [name, "--allow-run-as-root", "--bind-to", "none", "--timeout", str(settings.seconds)]
            if settings.hosts == 1:
                return words + ["--oversubscribe"] + ranks
            slots = -(-settings.ranks // settings.hosts)
            names = [f"h{number}" for number in range(1, settings.hosts + 1)]
            return host_beds.entered(names[0]) + words + host_beds.launcher("openmpi", names, slots) + ranks
    if shutil.which("prterun") and settings.hosts == 1:
        return ["prterun", "--allow-run-as-root", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"] + ranks
    raise Failure("there is no mpirun of Open MPI" + (" and no prterun" if settings.hosts == 1 else "")
                  + ": install openmpi-bin")


def job(settings, tool, transport):
    """What the process of rank 0 printed, and what was seen from outside."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UCX_")}
    variables = {"LD_LIBRARY_PATH": tool.libdir, "UCX_TLS": transport} | dict(one.split("=", 1) for one in settings.set)
    words = list(starter(settings))
    for name, value in variables.items():
        words += ["-x", f"{name}={value}"]
    words += [os.path.join(settings.bindir, "bench_wireup"), "-t", str(settings.seconds)]
    start = time.monotonic()
    with MemoryWatch() as memory:
        found = key_values(run(words, environment, settings.seconds + 30))
    if found.get("ranks") != settings.ranks:
        raise Failure("the job's first process reported nothing")
    return found | {"job_sec": time.monotonic() - start, "machine_kib": memory.first - memory.least}


# ---- the table ----


def number(value, factor):
    value *= factor
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def cell(rounds, key, factor):
    """The median over the rounds: of the median over the processes, and of the maximum."""
    if not rounds:
        return "failed"
    if key in rounds[0]:
        return number(statistics.median(one[key] for one in rounds), factor)
    return " / ".join(number(statistics.median(one[f"{key}_{which}"] for one in rounds), factor)
                      for which in ("median", "max"))


def table(found):
    """`found`: the rounds of each contestant."""
    lines = ["| quantity | unit | " + " | ".join(found) + " |", "|---" * (2 + len(found)) + "|"]
    for label, key, factor, unit in ROWS + WHOLE_ROWS:
        lines.append(f"| {label} | {unit} | " + " | ".join(cell(rounds, key, factor) for rounds in found.values())
                     + " |")
    return "\n".join(lines)


# ---- the run ----


def measure(settings, tools, transport):
    """The rounds of each contestant, and whether all ended well."""
    found, well = {tool.name: [] for tool in tools}, True
    for turn in range(settings.rounds):
        for tool in tools[turn % len(tools):] + tools[:turn % len(tools)]:
            try:
                found[tool.name].append(job(settings, tool, transport))
            except Failure as failure:
                print(f"wireup.py: {transport}, {tool.name}: {failure}", file=sys.stderr)
                well = False
    return found, well


def parse(arguments):
    parser = argparse.ArgumentParser(description="Processes of a job meet all to all, over each library in turn.")
    parser.add_argument("bindir")
    parser.add_argument("libdir")
    parser.add_argument("--ranks", type=int, default=300)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--transports", help="lists of UCX_TLS, separated by spaces (default: 'shm tcp', between "
                        "hosts 'tcp')")
    parser.add_argument("--reference", help="folder of the reference's libucp.so.0")
    parser.add_argument("--newer", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--alone", action="store_true", help="without the reference")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the processes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=180, help="after which a job has failed")
    parser.add_argument("--json", metavar="FILE", help="all that was measured")
    settings = parser.parse_args(arguments)
    if not 2 <= settings.ranks <= 10000 or not 1 <= settings.hosts <= min(settings.ranks, 250) or settings.rounds < 1:
        parser.error("2 to 10000 ranks, 1 to 250 hosts and at least one round")
    settings.transports = (settings.transports or ("shm tcp" if settings.hosts == 1 else "tcp")).split()
    settings.bindir, settings.libdir = os.path.abspath(settings.bindir), os.path.abspath(settings.libdir)
    settings.reference_tool = ""
    return settings


def enter_hosts(settings):
    """Makes the hosts; goes on inside of their namespaces."""
    host_beds.bed.enter()
    names = host_beds.build(settings.hosts, host_beds.NETWORKS[:1])
    with tempfile.TemporaryDirectory() as work:
        host_beds.names_of_hosts(work, names)
    host_beds.write_agent()


def main(arguments):
    settings = parse(arguments)
    short = short_limits(settings.ranks, settings.hosts)
    for sentence in short:
        print(f"wireup.py: {sentence}", file=sys.stderr)
    if short:
        return SKIPPED
    if settings.hosts > 1:
        enter_hosts(settings)
    try:
        starter(settings)
        tools, versions = find_contestants(settings)
    except Failure as failure:
        print(f"wireup.py: {failure}", file=sys.stderr)
        return SKIPPED
    tools = tools[:1] if settings.alone else tools
    print("versions:", ", ".join(f"{tool.name} {versions[tool.name]}" for tool in tools))
    print(f"{settings.ranks} processes on {len(os.sched_getaffinity(0))} processors, {settings.hosts} hosts; "
          "median / maximum over the processes")
    results, all_well = {}, True
    for transport in settings.transports:
        results[transport], well = measure(settings, tools, transport)
        all_well = all_well and well
        print(f"\n{transport}\n\n{table(results[transport])}", flush=True)
    if settings.json:
        with open(settings.json, "w", encoding="utf-8") as file:
            json.dump({"versions": versions, "hosts": settings.hosts, "results": results}, file, indent=1)
            file.write("\n")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
