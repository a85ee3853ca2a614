#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ids that travel: docs/WIRE.md names exactly those of the source, and none of them stands for two things.

Transports: the wire_id and the name in the table of each transport, whether a number or a macro of its directory.
Packets: enum cw_packet_id in src/wire/packet.h.
"""

import os
import re

import tree

DOCUMENT = "docs/WIRE.md"


def documented(text, section):
    """[(id, name)] of the table between <!-- section --> and <!-- end -->."""
    match = re.search(r"<!-- %s -->\n(.*?)<!-- end -->" % section, text, re.DOTALL)
    return [(int(i), n) for i, n in re.findall(r"^\| (\d+) \| (\w+) \|", match.group(1) if match else "", re.MULTILINE)]


def transports(root):
    """[(id, name)] of the constant tables; id None when it cannot be found out."""
    found = []
    for path in tree.files(root, ["src/transport", "test/sim"], [".c"]):
        text = tree.read(root, path)
        for table in re.findall(r"^const struct cw_transport \w+ = \{(.*?)^\};", text, re.DOTALL | re.MULTILINE):
            name = re.search(r"\.name\s*=\s*\"(\w+)\"", table)
            value = re.search(r"\.wire_id\s*=\s*(\w+)", table)
            number = value.group(1) if value else ""
            if not number.isdigit():
                near = "".join(tree.read(root, p) for p in tree.files(root, [os.path.dirname(path)], [".c", ".h"]))
                macro = re.search(r"#define %s\s+(\d+)u?\b" % number, near) if number else None
                number = macro.group(1) if macro else None
            found.append((int(number) if number else None, name.group(1) if name else "?"))
    return found


def packets(root):
    text = tree.code_only(tree.read(root, "src/wire/packet.h"))
    names = re.findall(r"\bCW_PACKET_(\w+)\s*=\s*(\d+)", text)
    return [(int(i), n) for n, i in names if n not in ("INVALID", "COUNT")]


def compare(what, source, document):
    complaints, seen = [], {}
    for number, name in source:
        if number is None:
            complaints.append("%s %s: its id cannot be found in the source" % (what, name))
        elif seen.get(number, name) != name:
            complaints.append("%s: id %d stands for both %s and %s" % (what, number, seen[number], name))
        seen.setdefault(number, name)
    for number, name in sorted(set(document) - set(source)):
        complaints.append("%s: %s %s with id %s is not so in the source" % (DOCUMENT, what, name, number))
    for number, name in sorted(set(source) - set(document), key=str):
        complaints.append("%s: %s %s with id %s is missing" % (DOCUMENT, what, name, number))
    return complaints


def check(root):
    text = tree.read(root, DOCUMENT)
    return compare("transport", transports(root), documented(text, "transports")) + \
        compare("packet", packets(root), documented(text, "packets"))


SAMPLE = {
    "src/transport/one/one.c": 'const struct cw_transport cw_one = {\n    .name = "one",\n    .wire_id = 1,\n};\n',
    "src/transport/two/two.h": "#define TWO_ID 1u\n",
    "src/transport/two/two.c": 'const struct cw_transport cw_two = {\n    .name = "two",\n    .wire_id = TWO_ID,\n};\n',
    "src/transport/six/six.c": 'const struct cw_transport cw_six = {\n    .name = "six",\n    .wire_id = SIX_ID,\n};\n',
    "src/wire/packet.h": "enum cw_packet_id {\n    CW_PACKET_INVALID = 0,\n    CW_PACKET_A = 1,\n    CW_PACKET_B = 1,\n"
                         "    CW_PACKET_C = 3, /* CW_PACKET_D = 4 */\n    CW_PACKET_COUNT = 4\n};\n",
    DOCUMENT: "<!-- transports -->\n| 1 | one | |\n| 2 | two | |\n<!-- end -->\n"
              "<!-- packets -->\n| 1 | A | |\n| 1 | B | |\n| 4 | D | |\n<!-- end -->\n",
}
EXPECTED = [r"transport: id 1 stands for both one and two", r"transport two with id 2 is not so",
            r"transport two with id 1 is missing", r"transport six: its id cannot be found",
            r"transport six with id None is missing", r"packet: id 1 stands for both A and B",
            r"packet D with id 4 is not so", r"packet C with id 3 is missing"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
