#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What two links between two hosts are worth: messages, active messages, puts and gets by ucx_perftest.

    links.py --perftest BUILD/bin/ucx_perftest [--rate MBIT] [--sizes BYTES,...] [--tests NAME,...] [--rounds N]
             [--steady] [--cut]

Hosts are network namespaces (bed.py), links are slowed by tc. For each test and size one line with medians of the
rounds: MB/s of one link, and how many times of that two equal ones reach, one of a third of its rate beside it, and
one of a hundredth. --steady: the MB/s are those of the links in the midst of an endless transfer, so that neither the
search for the speed of each link counts nor the wait for the last piece on the slowest one. --cut: one of two equal
links is cut under way, without a word; the line says for how long nothing came through the other one afterwards, at
most. Status 77: this system does not let us make namespaces.
"""

import argparse
import statistics
import subprocess
import sys
import time

import bed


def make_hosts(rates):
    """Two hosts with links of these rates in MBit/s."""
    the_bed = bed.Bed(None)
    a, b = the_bed.host("a"), the_bed.host("b")
    for number, rate in enumerate(rates):
        the_bed.link(a, "e%d" % number, b, "e%d" % number)
        for host, end in ((a, 1), (b, 2)):
            host.address("e%d" % number, "10.%d.0.%d/24" % (number, end))
            host.slow("e%d" % number, "%dmbit" % rate)
    return the_bed, a, b


class Job:
    """ucx_perftest between the two hosts."""

    def __init__(self, perftest, test, size, count, lanes):
        self.line = ["env", "UCX_TLS=tcp", "UCX_MAX_RNDV_RAILS=%d" % lanes, "UCX_MAX_RMA_RAILS=%d" % lanes, perftest,
                     "-t", test, "-s", str(size), "-n", str(count), "-w", str(max(4, count // 4))]
        self.server = subprocess.Popen(["ip", "netns", "exec", "b"] + self.line, stdout=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "exec", "b", "sh", "-c", "until ss -Hltn | grep -q :13337; do sleep 0.1; done"],
                       check=True, timeout=20)
        self.client = subprocess.Popen(["ip", "netns", "exec", "a"] + self.line + ["10.0.0.2"],
                                       stdout=subprocess.PIPE, text=True)

    def bandwidth(self, seconds):
        done, _ = self.client.communicate(timeout=seconds)
        final = [one for one in done.splitlines() if one.startswith("Final:")][0].split()
        return float(final[-3])

    def end(self):
        for process in (self.client, self.server):
            process.kill()
            process.wait()


def bandwidth(perftest, rates, test, size, seconds):
    """MB/s over links of these rates."""
    the_bed, _, _ = make_hosts(rates)
    job = Job(perftest, test, size, max(8, int(sum(rates) * 1e6 / 8 * seconds / size)), 2)
    try:
        return job.bandwidth(60 + 10 * seconds)
    finally:
        job.end()
        the_bed.end(quietly=True)


def steady_bandwidth(perftest, rates, test, size, seconds):
    """MB/s that the links of these rates carry once the lanes know them."""
    the_bed, a, b = make_hosts(rates)
    sender = b if "get" in test else a
    job = Job(perftest, test, size, 1 << 20, 2)
    try:
        time.sleep(seconds)
        begin, before = time.monotonic(), [sender.sent("e%d" % link) for link in range(len(rates))]
        time.sleep(seconds)
        after, end = [sender.sent("e%d" % link) for link in range(len(rates))], time.monotonic()
        if job.client.poll() is not None:
            raise bed.Failed("the transfer ended")
        return (sum(after) - sum(before)) / (end - begin) / 1e6
    finally:
        job.end()
        the_bed.end(quietly=True)


def silence(perftest, rate, test, size, seconds):
    """How long nothing comes through when one of two links is cut."""
    the_bed, a, b = make_hosts((rate, rate))
    sender, receiver = (b, a) if "get" in test else (a, b)
    job = Job(perftest, test, size, 1 << 20, 2)
    try:
        time.sleep(seconds)
        receiver.firewall('meta iifname "e1" drop')
        end, last, longest = time.monotonic() + seconds, time.monotonic(), 0
        before = sender.sent("e0")
        while time.monotonic() < end:
            time.sleep(0.01)
            now = sender.sent("e0")
            if now - before > 100000:
                before, last = now, time.monotonic()
            longest = max(longest, time.monotonic() - last)
        if job.client.poll() is not None:
            raise bed.Failed("the transfer ended")
        return longest
    finally:
        job.end()
        the_bed.end(quietly=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--perftest", required=True)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--sizes", default="1048576,8388608")
    parser.add_argument("--tests", default="tag_bw,ucp_am_bw,ucp_put_bw,ucp_get_bw")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steady", action="store_true")
    parser.add_argument("--cut", action="store_true")
    options = parser.parse_args()
    bed.enter()
    rate = options.rate
    if options.cut:
        print("%-12s %10s %16s" % ("test", "bytes", "silence, ms"))
    else:
        print("%-12s %10s %12s %9s %9s %9s" % ("test", "bytes", "one, MB/s", "1 : 1", "3 : 1", "100 : 1"))
    for test in options.tests.split(","):
        for size in [int(one) for one in options.sizes.split(",")]:
            if options.cut:
                silences = [silence(options.perftest, rate, test, size, options.seconds)
                            for _ in range(options.rounds)]
                print("%-12s %10d %16.0f" % (test, size, max(silences) * 1e3))
            else:
                columns = ((rate,), (rate, rate), (rate, rate // 3), (rate, max(1, rate // 100)))
                measure = steady_bandwidth if options.steady else bandwidth
                rounds = [[measure(options.perftest, rates, test, size, options.seconds) for rates in columns]
                          for _ in range(options.rounds)]
                one = statistics.median(row[0] for row in rounds)
                ratios = [statistics.median(row[column] / row[0] for row in rounds) for column in (1, 2, 3)]
                print("%-12s %10d %12.1f %9.2f %9.2f %9.2f" % (test, size, one, *ratios))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
