#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints a table of lines and branches reached, per directory, from what `gcovr --json-summary` wrote.

Usage: coverage_table.py FILE | coverage_table.py --self-test
"""

import collections
import json
import os
import sys


def add_up(files):
    """{directory: [lines reached, lines, branches reached, branches]} with a last entry "all"."""
    table = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in files:
        counts = (file["line_covered"], file["line_total"], file["branch_covered"], file["branch_total"])
        for name in (os.path.dirname(file["filename"]), "all"):
            table[name] = [sum(pair) for pair in zip(table[name], counts)]
    return table


def share(part, whole):
    return "%5.1f %%" % (100.0 * part / whole) if whole else "      -"


def rows(table):
    width = max(len("directory"), *(len(name) for name in table))
    yield "%-*s  %-18s  %s" % (width, "directory", "lines", "branches")
    for name in sorted(table, key=lambda name: (name == "all", name)):
        lines, all_lines, branches, all_branches = table[name]
        yield "%-*s  %s of %6d  %s of %6d" % (
            width, name, share(lines, all_lines), all_lines, share(branches, all_branches), all_branches)


def self_test():
    files = [
        {"filename": "src/op/a.c", "line_covered": 1, "line_total": 4, "branch_covered": 0, "branch_total": 0},
        {"filename": "src/op/b.c", "line_covered": 3, "line_total": 4, "branch_covered": 1, "branch_total": 2},
        {"filename": "src/os/c.c", "line_covered": 0, "line_total": 2, "branch_covered": 0, "branch_total": 2},
    ]
    return [row.split() for row in rows(add_up(files))][1:] == [
        ["src/op", "50.0", "%", "of", "8", "50.0", "%", "of", "2"],
        ["src/os", "0.0", "%", "of", "2", "0.0", "%", "of", "2"],
        ["all", "40.0", "%", "of", "10", "25.0", "%", "of", "4"],
    ]


def main(arguments):
    if arguments == ["--self-test"]:
        return 0 if self_test() else 1
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        files = json.load(file)["files"]
    if not files:
        print("No file was reached: were the tests run?")
        return 1
    print("\n".join(rows(add_up(files))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
