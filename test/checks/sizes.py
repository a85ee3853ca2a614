#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A smoke alarm: functions of more than 150 lines and files of more than 1,500 want a reader's attention.

Public headers, tables (.def) and what is generated may have any length.
"""

import tree

MAX_FUNCTION, MAX_FILE = 150, 1500
DIRECTORIES = ("src", "tools", "bench", "examples", "test")


def check(root):
    complaints = []
    for path in tree.files(root, DIRECTORIES, [".c", ".h", ".cc", ".py", ".sh"]):
        text = tree.read(root, path)
        if text.count("\n") > MAX_FILE:
            complaints.append("%s has %d lines, more than %d" % (path, text.count("\n"), MAX_FILE))
        if path.endswith((".c", ".h", ".cc")):
            complaints += ["%s:%s has %d lines, more than %d" % (path, name, length, MAX_FUNCTION)
                           for name, _, length in tree.functions(text) if length > MAX_FUNCTION]
    return complaints


def function(name, lines):
    return "static int %s(int a,\n    int b)\n{\n%s}\n" % (name, "    a += b; /* } */\n" * (lines - 4))


SAMPLE = {
    "src/core/good.c": function("fits", 150) + function("fits_too", 150),
    "src/core/bad.c": function("large", 151),
    "src/core/long.c": "\n" * 1501,
    "src/core/table.def": "\n" * 2000,
    "include/ucp/api/ucp.h": "\n" * 2000,
}
EXPECTED = [r"bad.c:large has 151 lines, more than 150", r"long.c has 1501 lines"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
