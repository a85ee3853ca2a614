#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed over RDMA of this library and of another one, in turn: medians, the ratio of each pair of runs, and the bar.

    speed.py --ours PATH-OF-OUR-ucx_perftest [--theirs ucx_perftest] [--library DIRECTORY] [--rounds 11] [--minutes 11]

With --library our tool measures the other library, too, which lies in that directory. Without it each library has its
own tool, and figures of one-sided tests compare tools as well: the target of UCX's tool sleeps while the origin reads,
so that the processors of an emulated machine are free for the device in software.

Meant for the virtual machine of test/rdma with four virtual processors, beside no other work; absolute figures mean
nothing there. All cases have their turn in each round, so that a change of the machine's pace meets all. When the
minutes are over, the rounds so far count. Status 1: a ratio misses its bar, or a case has no run of both.

Ratios of single rounds scatter widely. The table has the range in which the median lies with 95 % confidence: where the
bar is inside, it says "open", and more rounds are needed (30 or more for 64 KiB).
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

# Name, test of the tool, bytes, iterations, column of the last line, whether more is better, bar of the ratio.
CASES = [("tag, latency", "tag_lat", 8, 300, 2, False, 1.1), ("am, latency", "ucp_am_lat", 8, 300, 2, False, 1.1),
         ("put, latency", "ucp_put_lat", 8, 300, 2, False, 1.1), ("get, latency", "ucp_get", 8, 300, 2, False, 1.1),
         ("fetch-add, latency", "ucp_fadd", 8, 300, 2, False, 1.1), ("tag, messages", "tag_bw", 8, 2000, 8, True, 1.2),
         ("tag, 64 KiB", "tag_bw", 65536, 100, 6, True, 1.0),
         ("tag, bytes", "tag_bw", 1048576, 6, 6, True, 0.95), ("put, bytes", "ucp_put_bw", 1048576, 6, 6, True, 0.95),
         ("get, bytes", "ucp_get", 1048576, 6, 6, True, 0.95)]
OURS = {"UCX_TLS": "rc,self"}
THEIRS = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_IB_GID_INDEX": "0"}
FAILURES = 3  # of a case, after which it has no further turn


def wait_for_listener(port, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with open("/proc/net/tcp", encoding="ascii") as tcp, open("/proc/net/tcp6", encoding="ascii") as tcp6:
            if re.search(r":%04X [0-9A-F:]* 0A" % port, tcp.read() + tcp6.read()):
                return
        time.sleep(0.05)


def run(tool, settings, case, port, seconds):
    """The figure, or None."""
    _, test, size, iterations, column, _, _ = case
    command = [tool, "-t", test, "-s", str(size), "-n", str(iterations), "-w", str(max(2, iterations // 10)), "-p",
               str(port)]
    sides = []
    for device, arguments in (("rxe0:1", []), ("rxe1:1", ["127.0.0.1"])):
        sides.append(subprocess.Popen(command[:1] + arguments + command[1:], text=True, stdin=subprocess.DEVNULL,
                                      env=dict(os.environ, UCX_NET_DEVICES=device, **settings),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        if not arguments:
            wait_for_listener(port, seconds)
    try:
        output = sides[1].communicate(timeout=seconds)[0]
        sides[0].communicate(timeout=seconds / 2)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for side in sides:
            side.kill()
            side.wait()
    last = [line.split() for line in output.split("\n") if line.startswith("Final:")]
    return float(last[-1][column]) if last else None


def theirs_of(options):
    if options.library is None:
        return "theirs", options.theirs, THEIRS
    return "theirs", options.ours, dict(THEIRS, LD_LIBRARY_PATH=os.path.abspath(options.library))


def measure(options, cases):
    """Pairs of figures, ours and theirs, by the name of the case."""
    pairs = {case[0]: [] for case in cases}
    failed = {case[0]: 0 for case in cases}
    end, port = time.monotonic() + 60 * options.minutes, 21000
    for number in range(options.rounds):
        order = [("ours", options.ours, OURS), theirs_of(options)]
        if number % 2 == 1:
            order.reverse()
        for case in cases:
            if failed[case[0]] == FAILURES or time.monotonic() > end:
                continue
            figures = {}
            for name, tool, settings in order:
                figures[name] = run(tool, settings, case, port, options.seconds)
                port += 1
                if figures[name] is None:
                    print("%s: a run of %s did not end well" % (case[0], name), flush=True)
            if None in figures.values():
                failed[case[0]] += 1
            else:
                pairs[case[0]].append((figures["ours"], figures["theirs"]))
        print("round %d of %d" % (number + 1, options.rounds), flush=True)
    return pairs


def median_range(ratios):
    """The median lies between these with 95 % confidence (sign test), or the least and the most of too few ratios."""
    chance, rank = 0.5 ** len(ratios), 0
    total = chance
    while total <= 0.025:
        rank += 1
        chance *= (len(ratios) - rank + 1) / rank
        total += chance
    rank = max(rank, 1)
    return ratios[rank - 1], ratios[-rank]


def report(options, cases, pairs):
    """Prints the table. Returns how many cases miss their bar."""
    missed = 0
    print("%-20s %8s %12s %12s %8s %9s        %s" % ("", "bytes", "ours", "theirs", "ratio", "bar",
                                                     "range of the median; least and most ratio; runs"))
    for name, _, size, _, _, more, bar in cases:
        if not pairs[name]:
            missed += 1
            print("%-20s %8d no run of both ended" % (name, size))
            continue
        ratios = sorted(ours / theirs for ours, theirs in pairs[name])
        ratio, (low, high) = statistics.median(ratios), median_range(ratios)
        keeps = ratio >= bar if more else ratio <= bar
        missed += not keeps
        verdict = " ".join(["" if keeps else "no"] + (["open"] if low < bar < high else []))
        print("%-20s %8d %12.2f %12.2f %8.2f %s %.2f %-7s %.2f %.2f; %.2f %.2f; %d of %d" % (
            name, size, statistics.median(pair[0] for pair in pairs[name]),
            statistics.median(pair[1] for pair in pairs[name]), ratio, ">=" if more else "<=", bar, verdict, low, high,
            ratios[0], ratios[-1], len(ratios), options.rounds))
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--theirs", default="ucx_perftest")
    parser.add_argument("--library", help="directory of the other libucp.so.0, for our tool")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--minutes", type=float, default=11)
    parser.add_argument("--seconds", type=float, default=20, help="limit of one run")
    parser.add_argument("--cases", nargs="+", default=[case[0] for case in CASES])
    options = parser.parse_args()
    cases = [case for case in CASES if case[0] in options.cases]
    return 1 if report(options, cases, measure(options, cases)) else 0


if __name__ == "__main__":
    sys.exit(main())
