#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A stream of ADIOS2 (engine SST) between two processes, whose data plane is UCP: the reader gets what is written.

Usage: adios2_stream.py DIRECTORY-OF-LIBUCP. Both processes load libucp from there, or this fails,
as it does after SECONDS.
"""

import faulthandler
import os
import subprocess
import sys

import adios2
import numpy

STEPS, LENGTHS, SECONDS = 5, (1, 1000, 300000), 120
NAME = "stream"


def fail(text):
    print("FAILED: " + text, flush=True)
    sys.exit(1)


def stream(mode):
    io = adios2.Adios().declare_io(mode)
    io.set_engine("SST")
    io.set_parameters({"DataTransport": "UCX", "RendezvousReaderCount": "1"})
    return adios2.Stream(io, NAME, mode)


def values(step, length):
    return numpy.arange(length, dtype=numpy.int64) * 7 + step


def write():
    with stream("w") as out:
        for step in range(STEPS):
            out.begin_step()
            for length in LENGTHS:
                out.write("x%d" % length, values(step, length), [length], [0], [length])
            out.end_step()


def read():
    seen = 0
    with stream("r") as source:
        for _ in source.steps():
            for length in LENGTHS:
                if not numpy.array_equal(source.read("x%d" % length), values(seen, length)):
                    fail("step %d of %d numbers" % (seen, length))
            seen += 1
    if seen != STEPS:
        fail("%d steps of %d" % (seen, STEPS))


def check_library(directory):
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split()[-1] for line in file if "/libucp.so" in line}
    if {os.path.dirname(path) for path in paths} != {os.path.realpath(directory)}:
        fail("libucp comes from " + ", ".join(sorted(paths)))


def main():
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    if len(sys.argv) == 3:
        read()
    else:
        reader = subprocess.Popen([sys.executable, __file__, sys.argv[1], "read"])
        write()
        if reader.wait() != 0:
            fail("the reader")
        print("adios2_stream: passed", flush=True)
    check_library(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
