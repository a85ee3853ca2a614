#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names in the archives: what a static link brings into a program begins with cw_, ucp_, ucs_, ucm_ or uct_.

Usage: names.py ARCHIVE... | names.py --self-test
"""

import re
import subprocess
import sys

OURS = re.compile(r"(cw|ucp|ucs|ucm|uct)_[a-z0-9_]+$")
# Weak and hidden, in each object with probes of sys/sdt.h, whosever it is: it cannot collide with anything.
SHARED_BY_ALL = {"_.stapsdt.base"}


def defined(listing):
    """The names in what `nm -g --defined-only` printed."""
    lines = (line.split() for line in listing.splitlines())
    return [words[2] for words in lines if len(words) == 3 and words[2] not in SHARED_BY_ALL]


def check(names):
    return ["%s: a name that is not ours" % name for name in names if not OURS.match(name)]


def self_test():
    listing = "\ngood.c.o:\n0000 T cw_thing_new\n0008 T ucp_init\n" \
              "\nbad.c.o:\n0000 T helper\n0000 D table\n0010 T ucpx\n0000 V _.stapsdt.base\n"
    return check(defined(listing)) == ["%s: a name that is not ours" % name for name in ("helper", "table", "ucpx")]


def main(arguments):
    if arguments == ["--self-test"]:
        return 0 if self_test() else 1
    names = []
    for archive in arguments:
        command = ["nm", "-g", "--defined-only", archive]
        names += defined(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    complaints = check(names)
    print("\n".join(complaints + ["%d names, %d complaints" % (len(names), len(complaints))]))
    return 1 if complaints or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
