#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed over a provider of libfabric of this library and of libfabric's own fi_pingpong, in turn: medians, and the
ratio of each pair of runs. Both send one message to and fro; a figure is the average of microseconds for one direction.

    speed.py --tool build/optimized/bin/ucx_perftest [--provider tcp] [--rounds 11]

With --instructions it also counts, under valgrind, the instructions inside libucp for one message of 8 bytes, over the
provider and over this library's own TCP: two runs with different numbers of iterations, and their difference. With
--instructions-only it does nothing else. The status is 1 if a bar is missed: latency at most 1.1 of fi_pingpong's,
bandwidth at least 0.9 of it, instructions no more than over TCP.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [(8, 20000), (1048576, 300)]
LIMITS = {8: 1.1, 1048576: 1 / 0.9}  # of the ratio of times


def pair(server, client, environment, column, row):
    """Runs both; returns the figure of the last line of the client that matches `row`, or None."""
    environment = dict(os.environ, **environment)
    with subprocess.Popen(server, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        time.sleep(0.7)
        try:
            output = subprocess.run(client, env=environment, text=True, stdout=subprocess.PIPE, timeout=60,
                                    stderr=subprocess.STDOUT, check=False).stdout
        except subprocess.TimeoutExpired:
            output = ""
        finally:
            first.kill()
    lines = [line.split() for line in output.split("\n") if re.match(row, line)]
    return float(lines[-1][column]) if lines else None


def ours(options, size, iterations, port):
    command = [options.tool, "-t", "tag_lat", "-s", str(size), "-n", str(iterations), "-w", str(iterations // 10),
               "-p", str(port)]
    return pair(command, command[:1] + ["127.0.0.1"] + command[1:],
                {"UCX_TLS": "ofi", "UCX_NET_DEVICES": options.provider + ":lo"}, 3, r"Final:")


def theirs(options, size, iterations, port):
    command = ["fi_pingpong", "-e", "rdm", "-p", options.full, "-d", "lo", "-I", str(iterations), "-S", str(size)]
    return pair(command + ["-B", str(port)], command + ["-P", str(port), "127.0.0.1"], {}, 6, r"\S+ +[0-9.]+[km]? ")


def in_libucp(path):
    """The instructions of a file of callgrind inside libucp."""
    names, total, inside, skip = {}, 0, False, False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            found = re.match(r"ob=\((\d+)\)(?: (.*))?", line)
            if found:
                names[found[1]] = found[2] or names.get(found[1], "")
                inside = "libucp" in names[found[1]]
            elif line.startswith("calls="):
                skip = True
            elif line[0] in "0123456789+-*":
                total += int(line.split()[1]) if inside and not skip else 0
                skip = False
            else:
                found = re.match(r"cob=\((\d+)\) (.*)", line)
                if found:
                    names[found[1]] = found[2]
    return total


def instructions(options, settings):
    counts = []
    for iterations in (2000, 4000):
        with tempfile.TemporaryDirectory() as directory:
            out = os.path.join(directory, "out")
            subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, options.tool, "-l", "-t",
                            "tag_lat", "-s", "8", "-n", str(iterations), "-w", "100"],
                           env=dict(os.environ, **settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=400, check=True)
            counts.append(in_libucp(out))
    return (counts[1] - counts[0]) / 4000  # two messages of an iteration


def compare(options):
    """Measures both in turn; returns the bars that were missed."""
    port = 23000 + os.getpid() % 10000
    missed = []
    print("%-10s %12s %12s %8s   %s" % ("bytes", "ours", "fi_pingpong", "ratio", "least and most ratio; runs"))
    for size, iterations in SIZES:
        figures = []
        for _ in range(options.rounds):
            port += 2
            figure = (ours(options, size, iterations, port), theirs(options, size, iterations, port + 1))
            if None not in figure:
                figures.append(figure)
        if not figures:
            sys.exit("no run came to its end")
        ratios = [one / other for one, other in figures]
        ratio = statistics.median(ratios)
        print("%-10d %12.2f %12.2f %8.2f   %.2f to %.2f; %d" % (
            size, statistics.median(one for one, _ in figures), statistics.median(other for _, other in figures),
            ratio, min(ratios), max(ratios), len(ratios)), flush=True)
        if ratio > LIMITS[size]:
            missed.append("%d bytes take %.2f of the time of fi_pingpong, more than %.2f" % (size, ratio, LIMITS[size]))
    return missed


def count(options):
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is not installed")
        sys.exit(77)
    over = instructions(options, {"UCX_TLS": "ofi", "UCX_NET_DEVICES": options.provider + ":lo"})
    own = instructions(options, {"UCX_TLS": "tcp"})
    print("instructions inside libucp for a message of 8 bytes: %.0f, over its own TCP %.0f" % (over, own))
    return [] if over <= own else ["more instructions than over TCP"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--provider", default="tcp", help="as in the name of the device")
    parser.add_argument("--full", default="tcp;ofi_rxm", help="the provider's whole name")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--instructions-only", action="store_true")
    options = parser.parse_args()
    missed = [] if options.instructions_only else compare(options)
    if options.instructions or options.instructions_only:
        missed += count(options)
    for bar in missed:
        print("missed:", bar)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
