#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the instructions of short operations and compares them with what is kept beside this file.

Usage: paths.py BIN [--update] [--case NAME]...

BIN is the directory of bench_paths, of an optimized build without assertions. valgrind's callgrind counts what one
operation costs in user space, sender and receiver together. Such a count does not depend on the machine's load, only on
the compiler and the C library; where they are others than those of the kept numbers nothing can be said, and the status
is 77. More than 3 % above a kept number is a failure: either the growth is an accident, or the commit that causes it
says why and brings new numbers (--update). An idle round of progress checks descriptors when some time has passed, so
its mean depends on how slow the counting is: it is printed and not checked. Under valgrind each yield changes threads,
so progress gives its processor away to nobody here. Over rc the device is the stand-in of test/devices, and only
instructions of libucp count. Beside 400 idle connections (idle_many) it may cost twice as much as beside one: by pace
alone both wander by a third; a walk over all would cost twenty times as much.
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paths.json")
OPERATIONS = 2000
GROWTH = 0.03
SKIPPED = 77
STAND_IN = "test/devices/lib"  # of the build
PACED = ("idle", "idle_many", "idle_multi")
MANY = 2
CASES = [(case, tls) for tls in ("shm", "self,shm,tcp") for case in ("idle", "tag", "am", "stream")] + \
        [(case, "shm") for case in ("tag_64", "am_64", "tag_late", "tag_probe", "tag_list", "am_list", "stream_recv",
                                   "put", "get", "fadd", "fadd_32", "fadd_old", "add_old", "idle_many", "user_put",
                                   "user_get", "user_fadd", "flush")] + \
        [(case, "self") for case in ("tag", "tag_64", "tag_late", "am")] + \
        [(case, "tcp") for case in ("tag", "am", "put", "idle", "idle_many")] + \
        [(f"{case}_multi", "shm") for case in ("idle", "tag", "tag_64", "am", "am_64", "stream", "stream_recv", "put",
                                               "get", "fadd", "fadd_32", "add_old", "user_put", "user_get",
                                               "user_fadd", "tag_probe", "flush")] + \
        [(case, "rc") for case in ("tag", "tag_64", "am", "stream", "put")]


def surroundings():
    compiler = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return {"machine": platform.machine(), "gcc": compiler, "libc": " ".join(platform.libc_ver())}


def within(path, library):
    """Instructions of the functions of that library alone."""
    total, here, names, is_call = 0, False, {}, False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("ob="):
                number, _, name = line[3:].strip().partition(" ")
                names[number] = name or names[number]
                here = library in names[number]
            elif line.startswith("cob="):
                number, _, name = line[4:].strip().partition(" ")
                names[number] = name or names[number]
            elif line.startswith("calls="):
                is_call = True
            elif line[0] in "0123456789+-*":
                total += int(line.split()[1]) if here and not is_call else 0
                is_call = False
    return total


def has_stand_in(folder):
    return os.path.exists(f"{folder}/libibverbs.so.1") and os.path.exists(f"{folder}/verbs_listed.so")


def count(binary, case, tls):
    """Instructions per operation."""
    environment = dict(os.environ, UCX_PROGRESS_YIELD="n")
    if tls == "rc":
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(binary))), STAND_IN)
        if not has_stand_in(folder):
            return None
        environment.update(LD_LIBRARY_PATH=folder, LD_PRELOAD=f"{folder}/verbs_listed.so")
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
                   "--toggle-collect=measured", binary, case, tls, str(OPERATIONS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not found:
            sys.exit(f"paths.py: {case} over {tls} failed:\n{done.stderr}")
        counted = within(f"{folder}/out", "libucp.so") if tls == "rc" else int(found.group(1))
    return counted / OPERATIONS


def load():
    try:
        with open(KEPT, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"surroundings": None, "instructions": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--update", action="store_true", help="keep what is counted now")
    parser.add_argument("--case", action="append", help="only these")
    options = parser.parse_args()
    binary = os.path.join(options.bin, "bench_paths")
    kept = load()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    if not options.update and kept["surroundings"] != surroundings():
        print(f"skipped: the numbers were counted with {kept['surroundings']}, here are {surroundings()}")
        return SKIPPED
    failed, counted = 0, {}
    print(f"{'operation':<24}{'kept':>8}{'now':>8}{'change':>9}")
    for case, tls in CASES:
        if options.case and case not in options.case:
            continue
        name = f"{case} {tls}"
        now, before = count(binary, case, tls), kept["instructions"].get(name)
        if now is None:
            print(f"{name:<24}left out: no stand-in for libibverbs is built")
            continue
        change = now / before - 1 if before else 0
        grown = not options.update and (before is None or (change > GROWTH and case not in PACED))
        failed += grown
        print(f"{name:<24}{before or 0:>8.0f}{now:>8.0f}{change:>+9.1%}{'   TOO MANY' if grown else ''}")
        counted[name] = now
        kept["instructions"][name] = round(now)
    for tls in ("shm", "tcp"):
        if counted.get(f"idle_many {tls}", 0) > MANY * counted.get(f"idle {tls}", float("inf")):
            print(f"progress beside many idle connections over {tls} costs too much")
            failed += 1
    if options.update:
        kept["surroundings"] = surroundings()
        with open(KEPT, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=2)
            file.write("\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
