#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual page ucx.conf(5) from docs/CONFIG.md, which is made from the table of settings itself. It knows the
Markdown that stands there: headings, paragraphs, lists, indented code, and tables of settings or of other things."""

import argparse
import html
import os
import re

import roff

SETTING = ["variable", "default", "syntax", "meaning"]


def inline(text):
    """Markdown in a line: `code`, **strong**, [text](link)."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", html.unescape(text).replace("\\|", "|"))
    pieces = re.split(r"`([^`]*)`|\*\*([^*]*)\*\*", text)
    found = []
    for index, piece in enumerate(pieces):
        if piece is not None:
            found.append(roff.escape(piece) if index % 3 == 0 else roff.bold(piece))
    return "".join(found)


def setting(cells):
    """A row of a table of settings."""
    name, default, syntax, meaning = cells
    lines = [".TP", "%s    (%s)" % (inline(name), "default: " + inline(default) if default else "no default")]
    lines += roff.fill(inline(meaning))
    return lines + roff.fill("Value: %s." % inline(syntax.rstrip(".")))


def table(rows):
    if rows[0] == SETTING:
        return [line for row in rows[2:] for line in setting(row)]
    lines = []
    for row in rows[2:]:
        cells = [inline(cell) for cell in row[1:2]]
        cells += ["%s: %s" % (title, inline(cell)) for title, cell in zip(rows[0][2:], row[2:]) if cell]
        lines += [".TP", inline(row[0])] + roff.fill("; ".join(cells))
    return lines


def block(text):
    """A block between empty lines."""
    lines = text.split("\n")
    heading = re.match(r"(#+) (.*)", lines[0])
    if heading is not None:
        level = {1: None, 2: ".SH", 3: ".SS"}[len(heading.group(1))]
        title = heading.group(2)
        return ['%s "%s"' % (level, roff.escape(title.upper() if level == ".SH" else title))] if level else []
    if lines[0].startswith("|"):
        return table([[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines])
    if lines[0].startswith("    "):
        return [".PP", ".nf", ".RS"] + [roff.request(roff.code(line[4:])) for line in lines] + [".RE", ".fi"]
    if re.match(r"\d+\. |- ", lines[0]):
        found = []
        for item in re.split(r"\n(?=\d+\. |- )", text):
            mark, _, rest = item.partition(" ")
            found += [".IP %s 4" % (mark if mark != "-" else "\\(bu")] + roff.fill(inline(" ".join(rest.split())))
        return found
    return [".PP"] + roff.fill(inline(" ".join(text.split())))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="docs/CONFIG.md")
    parser.add_argument("output", help="the page to be written, ucx.conf.5")
    parser.add_argument("--date", required=True, help="date of the page, YYYY-MM-DD")
    parser.add_argument("--version", required=True, help="version of the package")
    arguments = parser.parse_args()
    with open(arguments.source, encoding="utf-8") as file:
        text = re.sub(r"<!--.*?-->\n*", "", file.read(), flags=re.DOTALL)
    page = roff.Page("ucx.conf", "5", arguments.date, arguments.version, {"ucp": "7", "ucp_config_read": "3"})
    page.heading("NAME")
    page.lines.append("ucx.conf \\- settings of the Causeway communication library, and the variables UCX_*")
    for part in re.split(r"\n\n+", text.strip()):
        lines = block(part)
        if lines[:1] == [".PP"] and page.lines[-1].startswith((".SH", ".SS")):
            lines = lines[1:]
        page.lines += lines
    page.see_also(["ucp", "ucp_config_read"])
    os.makedirs(os.path.dirname(os.path.abspath(arguments.output)), exist_ok=True)
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(page.source())


if __name__ == "__main__":
    main()
