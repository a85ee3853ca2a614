#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the program `twin` on the system's libucp and on ours and compares what it prints.

    twin.py --program FILE --lib DIRECTORY --other DIRECTORY [--known FILE]... [--tls LIST] [--only WORD] [--print]
            [--under COMMAND] [--other-tls LIST] [--set NAME=VALUE]... [--table FILE --section NAME [--write]]

COMMAND, with its arguments, runs the program: "sh bench/with_libc.sh FOLDER" for a library that wants a newer C
library.

--other-tls and --set are for what the other one does not have: it uses the first, ours alone gets the second.

A table has, for the cases gone.*, lines `CASE: HOW: WHAT, ...: THE OTHER'S => OURS`, one answer if both are equal, in
sections [NAME]. Ours must be there, as one of those with " or " between them; what the other one answers at times is
the list's matter.

A difference is a line `CASE: WHAT: THE OTHER'S => OURS`, and a failure unless an entry of the list of known differences
is found in it: REGEX, two blanks or more, and the reason.

Status: 0, 1 for a difference that the list does not know, or an answer of ours that the table does not have.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys

BY_NAME = ("config.values", "config.defaults")


def record(options, directory, tls, settings):
    """What the program prints on the library of a directory: {case: its lines}."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_"))}
    env.update({"LD_LIBRARY_PATH": directory, "UCX_TLS": tls, "UCX_LOG_LEVEL": "fatal",
                "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_HANDLE_ERRORS": "none"})
    env.update(setting.split("=", 1) for setting in settings)
    command = shlex.split(options.under) + [options.program] + ([options.only] if options.only else [])
    result = subprocess.run(command, env=env, text=True,
                            errors="replace", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            stdin=subprocess.DEVNULL, check=False)
    lines = result.stdout.splitlines()
    if not lines or os.path.dirname(lines[0]) != os.path.realpath(directory):
        sys.exit("the library in use is %s, not one of %s" % (lines[0] if lines else "unknown", directory))
    if result.returncode != 0:
        sys.exit("the program ended with status %d" % result.returncode)
    cases = {}
    for line in lines[1:]:
        name, text = line.split(": ", 1)
        cases.setdefault(name, []).append(text)
    return cases


def keyed(lines):
    """{what a line is about, and which one of that: line}"""
    result, seen = {}, {}
    for line in lines:
        key = line.split(": ", 1)[0] if ": " in line else ""
        seen[key] = seen.get(key, 0) + 1
        result[key, seen[key]] = line
    return result


def differences(theirs, ours):
    """Lines that differ. What only one knows of in the configuration (names of settings) does not count."""
    for name in dict.fromkeys(list(theirs) + list(ours)):
        one, other = keyed(theirs.get(name, [])), keyed(ours.get(name, []))
        if name in BY_NAME:
            names = {re.split("=", key[0])[0] for key in one} & {re.split("=", key[0])[0] for key in other}
            one, other = ({key: line for key, line in lines.items() if re.split("=", key[0])[0] in names}
                          for lines in (one, other))
        for key in dict.fromkeys(list(one) + list(other)):
            if one.get(key) != other.get(key):
                begin = key[0] + ": " if key[0] else ""
                answers = [lines[key][len(begin):] if key in lines else "nothing" for lines in (one, other)]
                yield "%s: %s%s => %s" % (name, begin, *answers)


def answers_of(cases):
    """{(case, how, what): answer} of lines `WHAT, HOW: ANSWER`"""
    result = {}
    for name, lines in cases.items():
        for line in lines if name.startswith("gone.") else []:
            match = re.match(r"([^,:]+), ([^:]+): (.*)", line)
            if match:
                result[name, match.group(2), match.group(1)] = re.sub(
                    r"^(\w+), reported \1, then \1, close \1$", r"\1 throughout", match.group(3))
    return result


def section_lines(path, section):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    match = re.search(r"^\[%s\]\n(.*?)(?=^\[|\Z)" % re.escape(section), text, re.M | re.S)
    return text, match


def table_of(theirs, ours):
    rows = {}
    for key in sorted(ours):
        name, how, what = key
        other = theirs.get(key, "nothing")
        answer = ours[key] if other == ours[key] else "%s => %s" % (other, ours[key])
        rows.setdefault((name, how, answer), []).append(what)
    return "".join("%s: %s: %s: %s\n" % (name, how, ", ".join(whats), answer)
                   for (name, how, answer), whats in rows.items())


def write_table(path, section, theirs, ours):
    text, match = section_lines(path, section)
    lines = table_of(answers_of(theirs), answers_of(ours))
    if match:
        text = text[:match.start(1)] + lines + "\n" * (match.end(1) < len(text)) + text[match.end(1):]
    else:
        text += "\n[%s]\n%s" % (section, lines)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def not_in_table(path, section, ours):
    match = section_lines(path, section)[1]
    expected = {}
    for line in match.group(1).splitlines() if match else []:
        if line.strip():
            name, how, whats, answer = line.split(": ", 3)
            for what in whats.split(", "):
                expected[name, how, what] = answer.split(" => ")[-1].split(" or ")
    found = answers_of(ours)
    for key in sorted(set(expected) | set(found)):
        if found.get(key, "nothing") not in expected.get(key, []):
            name, how, what = key
            yield "%s: %s, %s: %s, and not %s" % (name, what, how, found.get(key, "nothing"),
                                                  " or ".join(expected.get(key, ["in the table"])))


def known_differences(paths):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    return [re.compile(re.split(r" {2,}", line)[0]) for line in lines]


def main():
    parser = argparse.ArgumentParser(description="Compares two libraries by what a program prints of them.")
    for name in ("--program", "--lib", "--other"):
        parser.add_argument(name, required=True)
    parser.add_argument("--known", action="append", default=[])
    parser.add_argument("--only")
    parser.add_argument("--tls", default="all")
    parser.add_argument("--other-tls", metavar="LIST")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--section", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--under", default="", metavar="COMMAND")
    parser.add_argument("--print", action="store_true", dest="show")
    options = parser.parse_args()
    ours = record(options, options.lib, options.tls, options.settings)
    theirs = record(options, options.other, options.other_tls or options.tls, [])
    if options.show:
        for name, lines in ours.items():
            print("\n".join("  %s: %s" % (name, line) for line in lines))
    known, unknown, total = known_differences(options.known), 0, 0
    for line in differences(theirs, ours):
        total += 1
        if not any(pattern.search(line) for pattern in known):
            unknown += 1
            print(line)
    if options.table and options.write:
        write_table(options.table, options.section, theirs, ours)
    elif options.table:
        for line in not_in_table(options.table, options.section, ours):
            unknown += 1
            print(line)
    print("%d lines of %d cases, %d differ, %d of them unknown" %
          (sum(map(len, ours.values())), len(ours), total, unknown))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
