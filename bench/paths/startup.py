#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts what ucp_get_version, ucp_init and ucp_worker_create cost and compares it with what is kept beside this file.

Usage: startup.py BIN [--update]

BIN is the directory of bench_startup, of an optimized build without assertions. valgrind's callgrind counts the
instructions, those of the C library included, and the pages of the library's code in which they lie. Neither depends on
the machine's load.
The number of network addresses has a part in the first, so more than 10 % above a kept number is a failure; where
compiler or C library are others than those of the kept numbers nothing can be said, and the status is 77.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from paths import SKIPPED, surroundings

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup.json")
CALLS = ("ucp_get_version", "ucp_init_version", "ucp_worker_create")
GROWTH = 0.1
PAGE = 4096


def code_pages(path):
    """How many pages of libucp's code a file of callgrind names."""
    objects, inside, pages = {}, False, set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line)
            if match:
                objects[match[2]] = match[3] or objects[match[2]]
                inside = inside if match[1] else "libucp.so" in objects[match[2]]
            elif inside and line.startswith("0x"):
                pages.add(int(line.split()[0], 16) // PAGE)
    return len(pages)


def count(binary):
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
                   *[f"--toggle-collect={call}" for call in CALLS], "--dump-instr=yes", "--compress-pos=no", binary]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": "/"})
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not found:
            sys.exit(f"startup.py: {binary} failed:\n{done.stderr}")
        return {"instructions": int(found[1]), "code pages": code_pages(folder + "/out")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--update", action="store_true", help="keep what is counted now")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    now = count(os.path.join(options.bin, "bench_startup"))
    if options.update:
        with open(KEPT, "w", encoding="utf-8") as file:
            json.dump({"surroundings": surroundings(), "counts": now}, file, indent=2)
            file.write("\n")
        return 0
    with open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    if kept["surroundings"] != surroundings():
        print(f"skipped: the numbers were counted with {kept['surroundings']}, here are {surroundings()}")
        return SKIPPED
    failed = 0
    for name, before in kept["counts"].items():
        grown = now[name] > before * (1 + GROWTH)
        failed += grown
        print(f"{name:<16}{before:>8}{now[name]:>8}{now[name] / before - 1:>+9.1%}{'   TOO MANY' if grown else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
