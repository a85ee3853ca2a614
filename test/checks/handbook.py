#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The handbook stays one that can be read.

A page of docs/why says context, decision and consequence. The table of docs/reference/tests.md names every directory
of test/. CHANGELOG.md begins with the release that CMakeLists.txt names. The pictures of docs/plots are what their
sources say.
"""

import os
import re
import subprocess
import sys

import tree

MAX_WHY = 500
TABLE = "docs/reference/tests.md"


def check(root):
    complaints = []
    for path in tree.files(root, ["docs"], (".md",)):
        text = tree.read(root, path)
        words = len(text.split())
        if path.startswith("docs/why/"):
            if words > MAX_WHY:
                complaints.append("%s: %d words, more than %d: one page" % (path, words, MAX_WHY))
            for part in ("Context", "Decision", "Consequence"):
                if "**%s.**" % part not in text:
                    complaints.append("%s: there is no part %s" % (path, part))
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
    "docs/why/long.md": "**Context.** **Decision.** **Consequence.** " + "word " * 500,
    "docs/why/good.md": "**Context.** a **Decision.** b **Consequence.** c\n",
    "docs/why/bad.md": "**Context.** a **Decision.** b\n",
    TABLE: "| `test/unit` | `-L unit` | all |\n",
    "test/unit/a.c": "",
    "test/other/a.c": "",
    "CMakeLists.txt": "set(CW_RELEASE 1.0.0)\n",
    "CHANGELOG.md": "# Changes\n\n## 1.0.1\n",
    "docs/plots/pictures.py": "print('one.svg is old')\n",
}
EXPECTED = [r"why/long.md: \d+ words", r"bad.md: there is no part Consequence",
            r"tests.md: test/other is missing", r"CHANGELOG.md: does not begin", r"one.svg is old"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
