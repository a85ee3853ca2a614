#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The handbook stays one that can be read.

The documents of docs/ have at most 25,000 words, those of reference apart (bytes on the wire, settings, specification,
docs/reference). A page of docs/why tells context, decision and consequence on at most half a page. The table of
docs/reference/tests.md names every directory of test/. CHANGELOG.md begins with the release that CMakeLists.txt names.
The pictures of docs/plots are what their sources say.
"""

import os
import re
import subprocess
import sys

import tree

MAX_WORDS, MAX_WHY = 25000, 260
REFERENCE = re.compile(r"docs/(WIRE|CONFIG)\.md$|docs/(spec|reference)/")
TABLE = "docs/reference/tests.md"


def check(root):
    complaints, total = [], 0
    for path in tree.files(root, ["docs"], (".md",)):
        text = tree.read(root, path)
        words = len(text.split())
        if not REFERENCE.match(path):
            total += words
        if path.startswith("docs/why/"):
            if words > MAX_WHY:
                complaints.append("%s: %d words, more than %d: half a page" % (path, words, MAX_WHY))
            for part in ("Context", "Decision", "Consequence"):
                if "**%s.**" % part not in text:
                    complaints.append("%s: there is no part %s" % (path, part))
    if total > MAX_WORDS:
        complaints.append("docs: %d words without reference, more than %d" % (total, MAX_WORDS))
    table = tree.read(root, TABLE)
    for name in sorted({path.split("/")[1] for path in tree.files(root, ["test"]) if path.count("/") > 1}):
        if "`test/%s`" % name not in table:
            complaints.append("%s: test/%s is missing" % (TABLE, name))
    release = re.search(r"^set\(CW_RELEASE (\S+)\)", tree.read(root, "CMakeLists.txt"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", tree.read(root, "CHANGELOG.md"), re.MULTILINE)
    if release is None or newest is None or release.group(1) != newest.group(1):
        complaints.append("CHANGELOG.md: does not begin with the release of CMakeLists.txt")
    script = os.path.join(root, "docs/plots/pictures.py")
    if os.path.exists(script):
        done = subprocess.run([sys.executable, "-B", script, "--check"], capture_output=True, text=True, check=False)
        complaints += (done.stdout + done.stderr).splitlines()
    return complaints


SAMPLE = {
    "docs/LONG.md": "word " * 25001,
    "docs/WIRE.md": "word " * 25001,
    "docs/spec/one.md": "word " * 25001,
    "docs/why/long.md": "**Context.** **Decision.** **Consequence.** " + "word " * 260,
    "docs/why/good.md": "**Context.** a **Decision.** b **Consequence.** c\n",
    "docs/why/bad.md": "**Context.** a **Decision.** b\n",
    TABLE: "| `test/unit` | `-L unit` | all |\n",
    "test/unit/a.c": "",
    "test/other/a.c": "",
    "CMakeLists.txt": "set(CW_RELEASE 1.0.0)\n",
    "CHANGELOG.md": "# Changes\n\n## 1.0.1\n",
    "docs/plots/pictures.py": "print('one.svg is old')\n",
}
EXPECTED = [r"docs: \d+ words without reference", r"why/long.md: \d+ words", r"bad.md: there is no part Consequence",
            r"tests.md: test/other is missing", r"CHANGELOG.md: does not begin", r"one.svg is old"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
