#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Functions of at most 70 lines, files of at most 800, internal headers of at most 300.

sizes.txt lists what is larger, with its size: PATH SIZE, or PATH:FUNCTION SIZE. The list may only shrink. A number
there must be exact, and compared with the last committed list (or with the one before, if this one is committed
already) nothing may be new and no number greater. Public headers and tables (.def) may have any length.
"""

import os
import re
import subprocess

import tree

MAX_FUNCTION, MAX_FILE, MAX_HEADER = 70, 800, 300
LIST = "test/checks/sizes.txt"
DIRECTORIES = ("src", "tools", "bench", "examples", "test")


def parse(text):
    found = {}
    for line in text.split("\n"):
        words = line.split()
        if len(words) == 2 and words[1].isdigit() and not line.startswith("#"):
            found[words[0]] = int(words[1])
    return found


def measure(root):
    """{what: (size, limit)} of all that is too large."""
    large = {}
    for path in tree.files(root, DIRECTORIES, [".c", ".h", ".cc", ".py", ".sh"]):
        text = tree.read(root, path)
        count, limit = text.count("\n"), MAX_HEADER if path.endswith(".h") else MAX_FILE
        if count > limit:
            large[path] = (count, limit)
        if path.endswith((".c", ".h", ".cc")):
            for name, _, length in tree.functions(text):
                if length > MAX_FUNCTION:
                    large["%s:%s" % (path, name)] = (length, MAX_FUNCTION)
    return large


def git(root, *arguments):
    try:
        done = subprocess.run(["git", "-C", root] + list(arguments), capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def earlier_list(root, now):
    """The list that this one came from, or None: no repository, or no such list before."""
    top = git(root, "rev-parse", "--show-toplevel")
    if top is None or os.path.realpath(top.strip()) != os.path.realpath(root):
        return None
    commits = (git(root, "rev-list", "-2", "HEAD", "--", LIST) or "").split()
    for commit in commits:
        then = git(root, "show", "%s:%s" % (commit, LIST))
        if then is not None and parse(then) != now:
            return parse(then)
    return None


def grown(before, now):
    return ["%s: %s is new or grew; make it smaller instead of excusing it" % (LIST, what)
            for what, size in sorted(now.items()) if size > before.get(what, 0)]


def check(root):
    now = parse(tree.read(root, LIST)) if os.path.exists(os.path.join(root, LIST)) else {}
    large, complaints = measure(root), []
    for what, (size, limit) in sorted(large.items()):
        if now.get(what, 0) < size:
            complaints.append("%s has %d lines, more than %d" % (what, size, max(limit, now.get(what, 0))))
    for what, size in sorted(now.items()):
        if large.get(what, (0, 0))[0] < size:
            complaints.append("%s: %s has only %d lines by now: lower the number, or take the line out if it fits" %
                              (LIST, what, large.get(what, (0, 0))[0]))
    before = earlier_list(root, now)
    if before is not None:
        complaints += grown(before, now)
    elif os.path.exists(os.path.join(root, "earlier.txt")):  # the sample's
        complaints += grown(parse(tree.read(root, "earlier.txt")), now)
    return complaints


def function(name, lines):
    return "static int %s(int a,\n    int b)\n{\n%s}\n" % (name, "    a += b; /* } */\n" * (lines - 4))


SAMPLE = {
    "src/core/good.c": function("fits", 70) + function("fits_too", 70),
    "src/core/bad.c": function("large", 71) + function("excused", 80) + function("outgrown", 90),
    "src/core/long.c": "\n" * 801,
    "src/core/long.h": "\n" * 301,
    "src/core/table.def": "\n" * 1000,
    "include/ucp/api/ucp.h": "\n" * 1000,
    LIST: "# comment\nsrc/core/bad.c:excused 80\nsrc/core/bad.c:outgrown 85\nsrc/core/good.c:fits 75\n"
          "src/core/gone.c 900\n",
    "earlier.txt": "src/core/bad.c:excused 79\nsrc/core/bad.c:outgrown 85\nsrc/core/good.c:fits 75\n",
}
EXPECTED = [r"bad.c:large has 71 lines, more than 70", r"bad.c:outgrown has 90 lines, more than 85",
            r"good.c:fits has only 0 lines by now", r"gone.c has only 0 lines by now", r"long.c has 801 lines",
            r"long.h has 301 lines", r"bad.c:excused is new or grew", r"gone.c is new or grew"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
