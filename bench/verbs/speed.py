#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed over RDMA of this library and of another one, in turn: medians, and the ratio of each pair of runs.

    speed.py --ours DIRECTORY-OF-ucx_perftest [--theirs ucx_perftest] [--rounds 11]

Meant for the virtual machine of test/rdma, where absolute figures mean nothing.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

# Name, test of the tool, bytes, iterations, column of the last line, whether more is better.
CASES = [("tag, latency", "tag_lat", 8, 300, 2, False), ("am, latency", "ucp_am_lat", 8, 300, 2, False),
         ("put, latency", "ucp_put_lat", 8, 300, 2, False), ("get, latency", "ucp_get", 8, 300, 2, False),
         ("fetch-add, latency", "ucp_fadd", 8, 300, 2, False), ("tag, messages", "tag_bw", 8, 2000, 8, True),
         ("tag, bytes", "tag_bw", 1048576, 6, 6, True), ("put, bytes", "ucp_put_bw", 1048576, 6, 6, True)]
OURS = {"UCX_TLS": "rc,self"}
THEIRS = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_IB_GID_INDEX": "0"}


def run(tool, settings, case, port):
    """The figure, or None."""
    _, test, size, iterations, column, _ = case
    command = [tool, "-t", test, "-s", str(size), "-n", str(iterations), "-w", str(max(2, iterations // 10)), "-p",
               str(port)]
    sides = []
    for device, arguments in (("rxe0:1", []), ("rxe1:1", ["127.0.0.1"])):
        sides.append(subprocess.Popen(command[:1] + arguments + command[1:], text=True, stdin=subprocess.DEVNULL,
                                      env=dict(os.environ, UCX_NET_DEVICES=device, **settings),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        time.sleep(0.7)
    try:
        output = sides[1].communicate(timeout=30)[0]
        sides[0].communicate(timeout=10)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for side in sides:
            side.kill()
            side.wait()
    last = [line.split() for line in output.split("\n") if line.startswith("Final:")]
    return float(last[-1][column]) if last else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--theirs", default="ucx_perftest")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--cases", nargs="+", default=[case[0] for case in CASES])
    options = parser.parse_args()
    print("%-20s %8s %12s %12s %8s   %s" % ("", "bytes", "ours", "theirs", "ratio", "least and most ratio; runs"))
    port = 21000
    for case in CASES:
        if case[0] not in options.cases:
            continue
        pairs = []
        for number in range(options.rounds):
            order = [(options.ours, OURS), (options.theirs, THEIRS)]
            if number % 2 == 1:
                order.reverse()
            figures = {}
            for tool, settings in order:
                figures[tool] = run(tool, settings, case, port)
                port += 1
            if None not in figures.values():
                pairs.append((figures[options.ours], figures[options.theirs]))
        if not pairs:
            print("%-20s %8d no run of both ended" % (case[0], case[2]), flush=True)
            continue
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        print("%-20s %8d %12.2f %12.2f %8.2f   %.2f %.2f; %d of %d" % (
            case[0], case[2], statistics.median(pair[0] for pair in pairs),
            statistics.median(pair[1] for pair in pairs), statistics.median(ratios), ratios[0], ratios[-1],
            len(pairs), options.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
