# SPDX-License-Identifier: BSD-3-Clause
"""What the checks of the tree share: finding files, taking C apart, and running a check or its self-test.

A check is a function of the root of a tree that returns a list of complaints. Its self-test runs it on a small tree
made for the purpose, which breaks every rule once, so that a check that has gone blind is noticed.
"""

import argparse
import os
import re
import sys
import tempfile

SKIPPED = {".git", "__pycache__", ".cache"}


def files(root, top=("",), suffixes=None):
    """Paths relative to the root, sorted, below the directories `top`; build directories are passed over."""
    found = []
    for start in top:
        for directory, names, leaves in os.walk(os.path.join(root, start)):
            names[:] = [n for n in names if n not in SKIPPED and not re.match(r"build(-|$)", n)]
            for leaf in leaves:
                path = os.path.relpath(os.path.join(directory, leaf), root)
                if suffixes is None or path.endswith(tuple(suffixes)):
                    found.append(path)
    return sorted(set(found))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def _blank(match):
    text = match.group()
    if text.startswith('"') or text.startswith("'"):
        return text[0] + " " * (len(text) - 2) + text[-1]
    return re.sub(r"[^\n]", " ", text)


TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def code_only(text):
    """The text with comments and the insides of strings blanked, every line in its place."""
    return TOKENS.sub(_blank, text)


def functions(text):
    """(name, first line, number of lines) of each function: signature to closing brace, braces in the first column."""
    lines = code_only(text).split("\n")
    found, start = [], 0
    for number, line in enumerate(lines):
        if line.rstrip() == "{":
            start = number
        elif line.rstrip() == "}" and start > 0:
            first = start - 1
            while first > 0 and re.match(r"\s+\S", lines[first]):
                first -= 1
            signature = " ".join(lines[first:start])
            name = re.search(r"(\w+)\s*\(", signature)
            if name is not None:
                found.append((name.group(1), first + 1, number - first + 1))
            start = 0
    return found


def run(check, sample, expected):
    """The main program of a check. `sample`: path to text, of a tree that breaks the rules; `expected`: a regular
    expression for each complaint about it. With --self-test every expression must match, and every complaint be
    matched."""
    parser = argparse.ArgumentParser(description=check.__doc__)
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--self-test", action="store_true", help="run on a bad sample instead")
    arguments = parser.parse_args()
    if not arguments.self_test:
        complaints = check(os.path.abspath(arguments.root))
        for complaint in complaints:
            print(complaint)
        sys.exit(1 if complaints else 0)
    with tempfile.TemporaryDirectory() as root:
        for path, text in sample.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        complaints = check(root)
    missed = [e for e in expected if not any(re.search(e, c) for c in complaints)]
    surplus = [c for c in complaints if not any(re.search(e, c) for e in expected)]
    for expression in missed:
        print("not noticed in the sample:", expression)
    for complaint in surplus:
        print("complaint about what is right:", complaint)
    print("%d complaints about the sample" % len(complaints))
    sys.exit(1 if missed or surplus or not expected else 0)
