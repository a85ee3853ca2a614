#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The statements of docs/spec and those who cite them.

A statement is a paragraph that begins with its id in bold (**TAG-12**). Every id that src/, include/, test/, tools/ or
docs/ cites stands in docs/spec, at both ends of a range too (TAG-1..7). Every statement is cited in test/ or
tools/test/: by its id in a comment or text, or in the name of a test (test_tag4_7_10_fuzz). A range holds nobody to
anything, so it is no citation. A statement that is marked (note: REASON) needs no test, for that reason.
test/checks/spec.txt lists the statements without a test: one that has a test, or is no longer there, must leave the
list, and none may join it.
"""

import re

import tree

SPEC, LIST = "docs/spec/", "test/checks/spec.txt"
CITING = ["src", "include", "test", "tools", "docs"]
HOLDING = ("test/", "tools/test/")
STATEMENT = re.compile(r"^\*\*((?:[A-Z]{2,4}|N2[23])-\d+|R\d+)\*\*( \(note(: [^)]+)?\))?", re.MULTILINE)


def statements(root):
    """{id: it needs a test}; and complaints."""
    found, complaints = {}, []
    for path in tree.files(root, [SPEC.rstrip("/")], (".md",)):
        for name, note, reason in STATEMENT.findall(tree.read(root, path)):
            if note and not reason:
                complaints.append("%s: %s is a note without a reason" % (path, name))
            if name in found:
                complaints.append("%s: %s stands twice" % (path, name))
            found[name] = not note
    return found, complaints


class Pattern:
    """How the ids of the specification look where they are cited."""

    def __init__(self, known):
        prefixes = "|".join(sorted({name.split("-")[0] for name in known if "-" in name}, key=len, reverse=True))
        self.cited = re.compile(r"\b(%s)-(\d+)(\.\.\d+)?((?:(?:,|,? and|,? or) \d+\b(?:\.\.\d+)?(?!-))*)" % prefixes)
        self.rule = re.compile(r"\bR(\d+)\b(\.\.\d+)?")
        self.test = re.compile(r"\btest_(\w+)")
        self.in_name = re.compile(r"(?:(?<=_)|^)(?:(%s)_?|(r))((?:\d+(?:_|$))+)" % prefixes.lower())

    def ids(self, text):
        """Yields (id, it is one end of a range)."""
        for prefix, first, until, more in self.cited.findall(text):
            for number, end in [(first, until)] + re.findall(r"(\d+)(\.\.\d+)?", more):
                yield "%s-%s" % (prefix, number), bool(end)
                if end:
                    yield "%s-%s" % (prefix, end[2:]), True
        for first, until in self.rule.findall(text):
            yield "R" + first, bool(until)
        for name in self.test.findall(text):
            for prefix, rule, numbers in self.in_name.findall(name):
                for number in re.findall(r"\d+", numbers):
                    yield (prefix.upper() + "-" + number) if prefix else "R" + number, False


def check(root):
    known, complaints = statements(root)
    pattern, held = Pattern(known), set()
    for path in tree.files(root, CITING):
        if path.startswith(SPEC) or path in (LIST, "test/checks/spec.py") or path.endswith((".svg", ".png")):
            continue
        text = tree.read(root, path)
        for name, is_range in pattern.ids(text):
            if name not in known and (is_range or not name.startswith("R")):
                complaints.append("%s: %s does not stand in %s" % (path, name, SPEC))
            if path.startswith(HOLDING) and not is_range:
                held.add(name)
    listed = [line for line in tree.read(root, LIST).split("\n") if line and not line.startswith("#")]
    for name in listed:
        if name not in known or not known[name]:
            complaints.append("%s: %s is no statement that needs a test: take the line out" % (LIST, name))
        elif name in held:
            complaints.append("%s: %s has a test: take the line out" % (LIST, name))
    for name in sorted(known):
        if known[name] and name not in held and name not in listed:
            complaints.append("%s: no test cites %s" % (SPEC, name))
    return complaints


SAMPLE = {
    SPEC + "one.md": "# One\n\n**TAG-1** Held by its id.\n\n**TAG-2** Held by a name.\n\n**TAG-3** Held by nobody.\n"
                     "\n**TAG-4** Only in a range.\n\n**TAG-5** (note: a fact) A fact.\n\n**TAG-6** Listed.\n\n"
                     "**TAG-7** Listed.\n\n**TAG-11** (note) A fact.\n\n"
                     "**TAG-8** Behind a comma.\n\n**R1** Held.\n\n**N22-4** Held.\n\n**TAG-1** Again.\n",
    "test/unit/a.c": "/* TAG-1, TAG-4..7; TAG-1, 8 and R1 */\nvoid test_tag2_n22_4_something(void) {}\n"
                     "/* TAG-9, TAG-1..77, TAG-7 */\n",
    "src/msg/a.c": "/* TAG-3, TAG-10, BIG-3, R2D2 */\n",
    LIST: "# comment\nTAG-6\nTAG-7\nTAG-5\nTAG-99\n",
}
EXPECTED = [r"one.md: TAG-1 stands twice", r"TAG-11 is a note without a reason",
            r"test/unit/a.c: TAG-9 does not stand", r"a.c: TAG-77 does not stand",
            r"src/msg/a.c: TAG-10 does not stand", r"spec.txt: TAG-7 has a test", r"spec.txt: TAG-5 is no statement",
            r"spec.txt: TAG-99 is no statement", r"no test cites TAG-3", r"no test cites TAG-4"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
