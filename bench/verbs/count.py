#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts below the library what one operation asks of a device of RDMA: a table that no machine changes.

Runs the performance tool between two devices, twice with different numbers of iterations, each process with
verbs_count.so before its libraries, and divides the difference: what starting and warming up ask for falls out. A row
is one message (or one operation), both sides together. Meant for the virtual machine:

    sh test/rdma/vm.sh -- python3 bench/verbs/count.py --count build/debug/lib/verbs_count.so

--library DIRECTORY takes libucp.so.0 from there instead of the system's. "in place" are bytes of sends that the device
gathers behind the header of a packet: out of memory that nobody copied them to.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

# Name, test of the tool, messages of one iteration.
OPERATIONS = {
    "tag": ("tag_lat", 2), "am": ("ucp_am_lat", 2), "put": ("ucp_put_lat", 2), "get": ("ucp_get", 1),
    "fadd": ("ucp_fadd", 1), "tag, many": ("tag_bw", 1), "am, many": ("ucp_am_bw", 1), "put, many": ("ucp_put_bw", 1),
}
SIZES = [8, 1024, 8192, 65536, 1048576]
KINDS = [("send", ("rc_send", "rc_send_imm")), ("write", ("rc_write", "rc_write_imm")), ("read", ("rc_read",)),
         ("atomic", ("rc_fadd", "rc_cas")), ("ud", ("ud_send", "ud_send_imm"))]
COLUMNS = [("requests", "sends"), ("doorbells", "doorbells"), ("signalled", "signalled"),
           ("inlined B", "inlined_bytes"), ("in place B", "gathered_bytes"), ("completions", "completions"),
           ("received", "received"), ("arms", "arms"), ("registered", "registrations")]


def read_counts(pattern):
    """The sum of the counters of all processes, and how many there were."""
    total, files = {}, glob.glob(pattern)
    for path in files:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, value = line.split()
                total[name] = total.get(name, 0) + int(value)
    return total, len(files)


def run_pair(options, test, size, iterations, port):
    """Counters of both sides together, or a sentence."""
    common = dict(os.environ, LD_PRELOAD=os.path.abspath(options.count))
    if options.library:
        common["LD_LIBRARY_PATH"] = options.library
    common.update(setting.split("=", 1) for setting in options.set)
    command = [options.tool, "-t", test, "-n", str(iterations), "-w", str(options.warm_up), "-s", str(size),
               "-p", str(port)] + options.argument
    with tempfile.TemporaryDirectory() as directory:
        common["CW_VERBS_COUNT"] = os.path.join(directory, "count")
        sides = []
        for device, arguments in ((options.devices[0], []), (options.devices[1], ["127.0.0.1"])):
            environment = dict(common, UCX_NET_DEVICES=device + ":1")
            sides.append(subprocess.Popen(command[:1] + arguments + command[1:], env=environment, text=True,
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT))
            if not arguments:
                wait_for_listener(port)
        try:
            outputs = [side.communicate(timeout=options.seconds)[0] for side in reversed(sides)]
        except subprocess.TimeoutExpired:
            return "no end after %d s" % options.seconds
        finally:
            for side in sides:
                side.kill()
                side.wait()
        if any(side.returncode != 0 for side in sides):
            return "failed: " + " ".join(outputs).strip().split("\n")[-1][:100]
        total, processes = read_counts(os.path.join(directory, "count.*"))
        # What was taken, not what was posted: a queue that is filled bit by bit says nothing of one message.
        total["received"] = total.get("completions", 0) - total.get("completions_send", 0)
        return total if processes == 2 else "counters of %d processes" % processes


def wait_for_listener(port):
    for _ in range(200):
        with open("/proc/net/tcp", encoding="ascii") as tcp, open("/proc/net/tcp6", encoding="ascii") as tcp6:
            if re.search(r":%04X [0-9A-F:]* 0A" % port, tcp.read() + tcp6.read()):
                return
        subprocess.run(["sleep", "0.1"], check=True)


def measure(options, test, size, messages, port):
    """Counters of one message, or a sentence."""
    # Starting up asks for more or less, as it comes: only many iterations make that small.
    if size <= 8192:
        few = options.iterations
    else:
        few = options.iterations // (2 if size <= 65536 else 6)
    many = 4 * few
    results = []
    for number, iterations in enumerate((few, many)):
        for attempt in range(options.attempts):
            result = run_pair(options, test, size, iterations, port + 10 * number + attempt)
            if not isinstance(result, str):
                break
        if isinstance(result, str):
            return result
        results.append(result)
    return {name: (results[1][name] - results[0][name]) / ((many - few) * messages) for name in results[1]}


def line(name, size, counts):
    if isinstance(counts, str):
        return "%-10s %8d  %s" % (name, size, counts)
    kinds = ["%s %.2f" % (kind, sum(counts[part] for part in parts)) for kind, parts in KINDS
             if sum(counts[part] for part in parts) >= 0.005]
    return "%-10s %8d %s  %s" % (name, size, " ".join("%11.2f" % counts[key] for _, key in COLUMNS), ", ".join(kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", required=True, help="verbs_count.so")
    parser.add_argument("--tool", default="ucx_perftest")
    parser.add_argument("--library", help="directory with libucp.so.0")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of both sides")
    parser.add_argument("--argument", action="append", default=[], help="of the tool: --argument=-z gives handles")
    parser.add_argument("--devices", nargs=2, default=["rxe0", "rxe1"])
    parser.add_argument("--iterations", type=int, default=96, help="in the shorter run, of small messages")
    parser.add_argument("--warm-up", type=int, default=32, help="iterations before")
    parser.add_argument("--seconds", type=int, default=40, help="limit of one run")
    parser.add_argument("--attempts", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=list(OPERATIONS))
    options = parser.parse_args()
    titles = " ".join("%11s" % title for title, _ in COLUMNS)
    print("%-10s %8s %s  %s" % ("operation", "bytes", titles, "requests by kind"))
    failed, port = 0, 20000
    for name in options.operations:
        test, messages = OPERATIONS[name]
        for size in options.sizes if name != "fadd" else [8]:
            counts = measure(options, test, size, messages, port)
            port += 20
            failed += isinstance(counts, str)
            print(line(name, size, counts), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
