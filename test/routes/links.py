#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What two links between two hosts are worth: messages, active messages, puts and gets by ucx_perftest.

    links.py --perftest BUILD/bin/ucx_perftest [--rate MBIT] [--sizes BYTES,...] [--tests NAME,...]

Hosts are network namespaces (bed.py), links are slowed by tc. For each test and size one line: MB/s of one link, and
what two equal ones, and one of a third of its rate beside it, reach of their sum. Status 77: this system does not let
us make namespaces.
"""

import argparse
import subprocess
import sys

import bed


def bandwidth(perftest, rates, test, size, lanes, seconds):
    """MB/s between two hosts with links of these rates in MBit/s."""
    the_bed = bed.Bed(None)
    a, b = the_bed.host("a"), the_bed.host("b")
    for number, rate in enumerate(rates):
        the_bed.link(a, "e%d" % number, b, "e%d" % number)
        for host, end in ((a, 1), (b, 2)):
            host.address("e%d" % number, "10.%d.0.%d/24" % (number, end))
            host.slow("e%d" % number, "%dmbit" % rate)
    count = max(8, int(sum(rates) * 1e6 / 8 * seconds / size))
    line = [perftest, "-t", test, "-s", str(size), "-n", str(count), "-w", str(max(4, count // 4))]
    settings = ["env", "UCX_TLS=tcp", "UCX_MAX_RNDV_RAILS=%d" % lanes, "UCX_MAX_RMA_RAILS=%d" % lanes]
    server = subprocess.Popen(["ip", "netns", "exec", "b"] + settings + line, stdout=subprocess.DEVNULL)
    try:
        subprocess.run(["ip", "netns", "exec", "b", "sh", "-c", "until ss -Hltn | grep -q :13337; do sleep 0.1; done"],
                       check=True, timeout=20)
        done = subprocess.run(["ip", "netns", "exec", "a"] + settings + line + ["10.0.0.2"], check=True,
                              capture_output=True, text=True, timeout=60 + 10 * seconds).stdout
    finally:
        server.kill()
        server.wait()
        the_bed.end(quietly=True)
    final = [one for one in done.splitlines() if one.startswith("Final:")][0].split()
    return float(final[-3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--perftest", required=True)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--sizes", default="1048576,8388608")
    parser.add_argument("--tests", default="tag_bw,ucp_am_bw,ucp_put_bw,ucp_get_bw")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    bed.enter()
    rate = options.rate
    print("%-12s %10s %12s %14s %14s" % ("test", "bytes", "one, MB/s", "two equal", "3 : 1"))
    for test in options.tests.split(","):
        for size in [int(one) for one in options.sizes.split(",")]:
            one, two, unlike = [bandwidth(options.perftest, rates, test, size, 2, options.seconds)
                                for rates in ((rate,), (rate, rate), (rate, rate // 3))]
            print("%-12s %10d %12.1f %11.2f of 2 %11.2f of 1.33" % (test, size, one, two / one, unlike / one))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
