#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes src/startup.txt: the functions that come first in the library, because nearly every process runs them.

Usage: startup_order.py BUILDDIR

Runs bench_startup, bench_memory and the shortest operations of bench_paths under callgrind and collects what they
called. BUILDDIR: a build of the preset release or optimized, whose functions have sections of their own. Needs valgrind
and binutils.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

HEAD = """\
# Functions that a process runs which opens a worker, meets one peer and exchanges short messages, by shared memory
# or by TCP. The linker puts them next to each other in this order (cmake/CwOrder.cmake), so that such a process has
# little else of the library in memory (docs/why/scale.md). Names that do not exist any more do no harm. Written by
# bench/startup_order.py.
"""
# Only these calls are looked at; the whole program where there are none.
START = ["--collect-atstart=no"] + [f"--toggle-collect={call}" for call in
                                    ("ucp_get_version", "ucp_init_version", "ucp_worker_create")]
RUNS = [("bench_memory", ["-n", "12", "-i", "200"]), ("bench_memory", ["-n", "12", "-i", "200", "-a"])]
RUNS += [("bench_paths", [case, None, "500"]) for case in ("tag", "am", "idle")]
START_GROUP, PEER_GROUP, END_GROUP = "Making a context and a worker.", "A peer and messages.", "Ending."
WIDTH = 118


def called(path):
    """Names of the library's functions in a file of callgrind."""
    names, objects, found, inside = {}, {}, set(), False
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?", line)
            if not match:
                continue
            known = objects if match[2] == "ob" else names
            if match[4]:
                known[match[3]] = match[4]
            if match[2] == "ob" and not match[1]:
                inside = "libucp.so" in objects[match[3]]
            elif match[2] == "fn" and not match[1] and inside:
                found.add(names[match[3]].split("'")[0])
    return found


def run_all(build, runs, collect):
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        for tls in ("all", "tcp", "shm"):
            for program, options in runs:
                options = [tls if option is None else option for option in options]
                command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/out.%p", *collect,
                           os.path.join(build, "bin", program)] + options
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=os.environ | {"UCX_TLS": tls, "LD_LIBRARY_PATH": os.path.join(build, "lib")})
        for path in glob.glob(folder + "/out.*"):
            found |= called(path)
    return found


def sections(build):
    """Which sections hold a function: symbol -> names behind ".text."."""
    found = {}
    for path in glob.glob(os.path.join(build, "src/CMakeFiles/cw_objects.dir/**/*.o"), recursive=True):
        table = subprocess.run(["objdump", "-t", path], check=True, capture_output=True, text=True).stdout
        for line in table.splitlines():
            match = re.search(r" F \.text\.(\S+)\s+[0-9a-f]+(?: \.hidden)? (\S+)$", line)
            if match:
                found.setdefault(match[2], set()).add(match[1])
    return found


def wrapped(names):
    lines = [""]
    for name in sorted(names):
        if len(lines[-1]) + 1 + len(name) > WIDTH:
            lines.append("")
        lines[-1] = (lines[-1] + " " + name).strip()
    return lines


def main(build):
    held, seen, groups = sections(build), set(), {}
    start = [("bench_startup", [])]
    for title, runs, collect in ((START_GROUP, start, START), (END_GROUP, start, []), (PEER_GROUP, RUNS, [])):
        names = set()
        for function in run_all(build, runs, collect):
            for name in held.get(function, ()):
                cold, bare = re.match(r"(unlikely\.)?([^.]+)", name).groups()
                names.add((cold or "") + bare)
        groups[title] = names - seen
        seen |= names
    target = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "startup.txt")
    with open(target, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for title in (START_GROUP, PEER_GROUP, END_GROUP):
            file.write(f"# {title}\n" + "\n".join(wrapped(groups[title])) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
