#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names in comments and documents that no longer exist.

A name of the library (cw_..., CW_...) in a comment of src/, include/, tools/, bench/ or test/, or in a text of docs/,
is also in the code. A file that such a comment or text names exists. Left out: docs/spec, which names files of other
projects, and the walk-throughs "add a ..." of docs/change, which invent names. A name that ends with an underscore, a
star or a brace stands for several.
"""

import os
import re

import tree

CODE = (".c", ".h", ".cc", ".def", ".map", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in", ".pml", ".rs", ".json",
        ".cpp", ".pyx", ".txt", ".toml")
COMMENTED = (".c", ".h", ".cc", ".def")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"(?<![\w-])(?:cw|CW)_\w+(?![\w*{])")
FILE = re.compile(r"(?<![\w./*<$}-])[\w./-]*\w\.(?:c|h|py|sh|def|cmake)\b(?![\w*/-])")
LEFT_OUT = re.compile(r"docs/spec/|docs/change/add-a-")
OTHERS = re.compile(r"^/|^(?:cmocka\.h|program\.c)$|^(?:\.\./)*(?:usr|etc|proc|sys|dev|build)/|/usr/")


def passages(root):
    """(path, line, comment or document)"""
    for path in tree.files(root, ["src", "include", "tools", "bench", "test"], COMMENTED):
        text = tree.read(root, path)
        for match in COMMENT.finditer(text):
            yield path, text.count("\n", 0, match.start()) + 1, match.group()
    for path in tree.files(root, ["docs"], (".md",)) + ["README.md"]:
        if os.path.exists(os.path.join(root, path)) and not LEFT_OUT.match(path):
            yield path, 1, tree.read(root, path)


def check(root):
    names, leaves = set(), set()
    for path in tree.files(root):
        leaves.add(os.path.basename(path))
        if path.endswith(CODE) or path == "causeway":
            text = tree.read(root, path)
            names.update(re.findall(r"\b(?:cw|CW)_\w+", COMMENT.sub(" ", text) if path.endswith(COMMENTED) else text))
    complaints = []
    for path, first, text in passages(root):
        for match in NAME.finditer(text):
            name = match.group()
            if name not in names and not name.endswith("_"):
                complaints.append("%s:%d: %s is nowhere in the code" %
                                  (path, first + text.count("\n", 0, match.start()), name))
        for match in FILE.finditer(text):
            name = match.group()
            if os.path.basename(name) not in leaves and not OTHERS.search(name):
                complaints.append("%s:%d: there is no file %s" %
                                  (path, first + text.count("\n", 0, match.start()), name))
    return complaints


SAMPLE = {
    "src/a.c": "/* cw_gone() and cw_there(), in gone.c and b.h; cw_many_* of them */\nint cw_there;\n",
    "src/b.h": "/* CW_GONE */\n",
    "docs/a.md": "`cw_old`\n\nsee src/a.c and src/old.c\n",
}
EXPECTED = [r"a.c:1: cw_gone", r"a.c:1: there is no file gone.c", r"b.h:1: CW_GONE", r"a.md:1: cw_old",
            r"a.md:3: there is no file src/old.c"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
