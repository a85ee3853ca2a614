#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Latency at every size: where is the library behind another version, and where does a size cost more than the next?

Usage: sizes.py BINDIR LIBDIR [--newer FOLDER]... [--transports shm,tcp,self] [--operations tag,am,am_header,stream]

Contestants take turns in runs of bench_sizes over all sizes; a size's value is the median of the rounds. A size is
behind when it takes more than 1/0.97 of the newest other version's time, and jumps when it takes more than 1.3 times
the time of the next larger one.
"""

import argparse
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from contestants import Failure, find_contestants, run  # noqa: E402

OPERATIONS = ["tag", "am", "am_header", "stream"]
BEHIND = 1 / 0.97
JUMP = 1.3


def command_of(settings, transport, operation, usec, step=16):
    alone = ["-1"] if transport == "self" else []
    return [os.path.join(settings.bindir, "bench_sizes"), "-o", operation, "-u", str(usec), "-i", str(step), "-l",
            str(settings.largest), "-c", ",".join(settings.cpus)] + alone


def measured(settings, tool, transport, operation, usec, step=16):
    """Microseconds of each size."""
    text = run(command_of(settings, transport, operation, usec, step), tool.env(transport), 300)
    return {int(size): float(value) for size, value in (line.split() for line in text.splitlines())}


def operations_of(transport, wanted=OPERATIONS):
    return [operation for operation in wanted if (transport, operation) != ("self", "stream")]


def jumps(times):
    """(size, its time, time of the next larger size), for each that takes much more than the next."""
    sizes = sorted(times)
    return [(size, times[size], times[larger]) for size, larger in zip(sizes, sizes[1:])
            if times[size] > JUMP * times[larger]]


def ranges(ours, theirs):
    """Runs of sizes that are behind, each with the size at which it is worst."""
    found, run_of = [], []
    for size in sorted(ours) + [None]:
        if size is not None and ours[size] > BEHIND * theirs[size]:
            run_of.append(size)
        elif run_of:
            worst = max(run_of, key=lambda one: ours[one] / theirs[one])
            found.append(f"{run_of[0]}..{run_of[-1]} ({worst}: {ours[worst]:.4g}/{theirs[worst]:.4g})")
            run_of = []
    return found


def medians(samples):
    return {size: statistics.median(one[size] for one in samples) for size in samples[0]}


def compare(settings, tools, transport, operation):
    samples = {tool.name: [] for tool in tools}
    for turn in range(settings.rounds):
        for tool in tools[turn % len(tools):] + tools[:turn % len(tools)]:
            samples[tool.name].append(measured(settings, tool, transport, operation, settings.usec, settings.step))
    times = {name: medians(found) for name, found in samples.items()}
    ours, print_all = times[tools[0].name], " ".join
    print(f"{transport} {operation}: {len(ours)} sizes")
    for tool in tools[1:]:
        theirs = times[tool.name]
        ratios = [ours[size] / theirs[size] for size in ours]
        behind = [size for size in ours if ours[size] > BEHIND * theirs[size]]
        print(f"  against {tool.name}: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, "
              f"best {min(ratios):.2f}, behind at {len(behind)} sizes")
        if behind:
            print("   ", ", ".join(ranges(ours, theirs)))
    for tool in tools:
        found = jumps(times[tool.name])
        if found:
            print(f"  jumps of {tool.name}:", print_all(f"{size}:{one:.4g}/{next_one:.4g}"
                                                        for size, one, next_one in found))
    sys.stdout.flush()


def main(arguments):
    parser = argparse.ArgumentParser(description="Latency at every size, in turn with other versions.")
    parser.add_argument("bindir")
    parser.add_argument("libdir")
    parser.add_argument("--reference", help="folder of the reference's libucp.so.0")
    parser.add_argument("--newer", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--transports", default="self,shm,tcp")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--usec", type=int, default=3000, help="how long a size is measured in a round")
    parser.add_argument("--step", type=int, default=16)
    parser.add_argument("--largest", type=int, default=16 << 20)
    parser.add_argument("--cpus", default="0,1")
    settings = parser.parse_args(arguments)
    settings.cpus = settings.cpus.split(",")
    settings.reference_tool = ""
    settings.bindir, settings.libdir = os.path.abspath(settings.bindir), os.path.abspath(settings.libdir)
    try:
        tools, versions = find_contestants(settings)
        print("versions:", ", ".join(f"{name} {version}" for name, version in versions.items()))
        for transport in settings.transports.split(","):
            for operation in operations_of(transport, settings.operations.split(",")):
                compare(settings, tools, transport, operation)
    except Failure as failure:
        print(f"sizes.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
