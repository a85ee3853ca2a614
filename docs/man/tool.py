#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual page of a tool: a frame written by hand (TOOL.1.in, or a plain one) and, in it, the synopsis and
the options as the tool's own --help tells them.

The frame is roff. Lines of their own in it: @TITLE@, @SYNOPSIS@, @OPTIONS@.
"""

import argparse
import os
import re
import subprocess
import sys

import roff

FRAME = """@TITLE@
.SH NAME
%(tool)s \\- a tool of the Causeway communication library
.SH SYNOPSIS
@SYNOPSIS@
.SH OPTIONS
@OPTIONS@
.SH EXIT STATUS
0 on success, 1 on failure.
.SH SEE ALSO
.BR ucx.conf (5),
.BR ucp (7)
"""
OPTION = re.compile(r" {1,10}(-\w|--[\w-]+)((?:, | \| |\|)(?:-\w|--[\w-]+))?(.*)")
ARGUMENT = re.compile(r" ((?:[<\[]\S*)|(?:\S+(?=  )))(?: +(.*)|$)")
VALUE = re.compile(r"\s+(\w[\w,]*) {2,}(\S.*)")


def help_text(program, tool):
    """What the tool prints for --help or -h, under the name that users call it by."""
    for option in ("--help", "-h"):
        result = subprocess.run([tool, option], executable=program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=60, check=False, text=True)
        if result.returncode == 0 and result.stdout.strip():
            return result.stdout.replace(program, tool)
    sys.exit("%s %s failed with status %d: %s" % (program, option, result.returncode, result.stdout))


class Option:
    def __init__(self, names, argument, text):
        self.names, self.argument, self.text, self.values = names, argument, text, []


def parse(text):
    """(usage lines, parts) of a help text. A part is a heading or sentence (str) or an Option."""
    usage, parts, option = [], [], None
    for line in text.expandtabs().split("\n"):
        used = re.match(r"(?:Usage:| {6,})\s*(\S.*)", line)
        found = OPTION.match(line)
        if not line.strip():
            option = None
        elif used is not None and not parts:
            usage.append(used.group(1).strip())
        elif found is not None:
            argument = ARGUMENT.match(found.group(3))
            names = [found.group(1)] + ([found.group(2).lstrip(", |")] if found.group(2) else [])
            option = Option(names, argument.group(1) if argument else "",
                            (argument.group(2) or "") if argument else found.group(3).strip())
            parts.append(option)
        elif option is not None and line.startswith(" "):
            value = VALUE.match(line)
            if value is not None:
                option.values.append(value.groups())
            elif option.values:
                option.values[-1] = (option.values[-1][0], option.values[-1][1] + " " + line.strip())
            else:
                option.text += " " + line.strip()
        else:
            parts.append(line.strip())
            option = None
    return usage, parts


def placeholder(text):
    """<name> becomes the name in italics; the rest stays as it is, in bold."""
    pieces = re.split(r"<([^>]*)>", text)
    return "".join(roff.italic(piece) if index % 2 else (roff.bold(piece) if piece else "")
                   for index, piece in enumerate(pieces))


def synopsis(usage):
    lines = []
    for line in usage:
        call, _, meaning = line.partition("  ")
        name, _, rest = call.partition(" ")
        text = roff.bold(name) + (" " + placeholder(rest).replace("\\fB[options]\\fP", "[\\fIoptions\\fP]")
                                  if rest else "")
        lines.append(text + ("    (%s)" % re.sub("[<>]", "", roff.escape(meaning.strip())) if meaning else ""))
    return [".nf"] + lines + [".fi"]


def options(parts):
    lines = []
    for part in parts:
        if isinstance(part, Option):
            label = ", ".join(roff.bold(name) for name in part.names)
            lines += [".TP", label + (" " + placeholder(part.argument) if part.argument else "")]
            lines += roff.fill(roff.option_text(part.text)) or ["\\&"]
            if part.values:
                lines.append(".RS")
                for value, meaning in part.values:
                    lines += [".TP", roff.bold(value)] + roff.fill(roff.option_text(meaning))
                lines.append(".RE")
        elif part.endswith("."):
            lines += [".PP"] + roff.fill(roff.option_text(part))
        else:
            lines.append('.SS "%s"' % roff.escape(part.rstrip(":")).replace('"', "\\(dq"))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the tool's file")
    parser.add_argument("output", help="the page to be written, TOOL.1")
    parser.add_argument("--frame", help="what is written by hand; may be missing")
    parser.add_argument("--date", required=True, help="date of the page, YYYY-MM-DD")
    parser.add_argument("--version", required=True, help="version of the package")
    arguments = parser.parse_args()
    tool = os.path.basename(arguments.output)[:-2]
    frame = FRAME % {"tool": tool}
    if arguments.frame and os.path.exists(arguments.frame):
        with open(arguments.frame, encoding="utf-8") as file:
            frame = file.read()
    usage, parts = parse(help_text(os.path.abspath(arguments.program), tool))
    filled = {"@TITLE@": roff.Page(tool, "1", arguments.date, arguments.version, {}).lines,
              "@SYNOPSIS@": synopsis(usage), "@OPTIONS@": options(parts)}
    lines = []
    for line in frame.rstrip("\n").split("\n"):
        lines += filled.get(line, [line])
    os.makedirs(os.path.dirname(os.path.abspath(arguments.output)), exist_ok=True)
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
