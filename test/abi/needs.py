#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the programs of needs.txt link with our libraries, and find every name when they are loaded?

    needs.py --lib DIRECTORY --cc COMPILER --work DIRECTORY

Builds for each program a shared object that takes exactly its names, linked with its libraries alone and with none left
undefined. Loads it in a process of its own with all names bound at once (NB-1, NB-3), and looks where they were found.
Status: 0 if every program was served, else 1.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = re.compile(r"uc[pstm]_\w+\Z")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line and not line.startswith("#")]


def exported(library):
    return [line.split()[0] for line in read_lines(os.path.join(HERE, "exports", library + ".txt"))]


def programs():
    """{program: (its libraries, its names)}."""
    found = {}
    for line in read_lines(os.path.join(HERE, "needs.txt")):
        heading = re.match(r"\[(\w+)\] (.*)", line)
        if heading:
            libraries, names = heading.group(2).split(), []
            found[heading.group(1)] = (libraries, names)
            continue
        for word in line.split():
            names += exported(word[1:]) if word[0] == "@" else [word]
    return found


def build(options, program, libraries, names):
    """The shared object, or None with what the linker said printed."""
    target = os.path.join(options.work, "lib%s.so" % program)
    text = "".join("extern char %s[];\n" % name for name in names)
    text += "void *%s_needs[] = {%s};\n" % (program, ", ".join(names))
    command = [options.cc, "-x", "c", "-fno-builtin", "-shared", "-fPIC", "-o", target, "-", "-L" + options.lib,
               "-Wl,-z,defs,-z,now,--no-as-needed"] + ["-l" + library for library in libraries]
    built = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False)
    if built.returncode != 0:
        print(built.stdout)
        return None
    return target


def loaded(options, target):
    """What went wrong when the object was loaded in a new process, or an empty text."""
    environment = dict(os.environ, LD_LIBRARY_PATH=options.lib)
    ran = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), "--load", target, "--lib", options.lib],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment)
    return "" if ran.returncode == 0 else ran.stdout


def load(target, directory):
    ctypes.CDLL(target, mode=os.RTLD_NOW)
    with open("/proc/self/maps", encoding="utf-8") as file:
        used = {os.path.dirname(path) for path in re.findall(r"(/\S*/libuc[pstm]\.so\S*)", file.read())}
    if used != {os.path.realpath(directory)}:
        sys.exit("found in %s and not in %s alone" % (used, directory))


def check(options):
    failed = 0
    for program, (libraries, names) in programs().items():
        wrong = [name for name in names if not NAME.match(name)]
        target = None if wrong else build(options, program, libraries, names)
        needed = subprocess.run(["readelf", "-dW", target or os.devnull], stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL, check=False).stdout
        complaint = "it does not link %s" % wrong if target is None else loaded(options, target)
        if not complaint and set(re.findall(r"\[libuc(\w)\.so\.0\]", needed)) != {name[-1] for name in libraries}:
            complaint = "its libraries are recorded by other names"
        print("%s: %s" % (program, complaint or "%d names" % len(names)))
        failed += bool(complaint)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--cc")
    parser.add_argument("--work")
    parser.add_argument("--load")
    options = parser.parse_args()
    if options.load:
        load(options.load, options.lib)
        return 0
    os.makedirs(options.work, exist_ok=True)
    return check(options)


if __name__ == "__main__":
    sys.exit(main())
