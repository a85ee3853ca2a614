#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds up the results of a test run: prints what failed with the end of its output, and as its last line
"N passed, N failed[, N skipped]".

Usage: summarize.py DIRECTORY

DIRECTORY holds *.xml, written by `ctest --output-junit`, and steps.tsv: lines "passed|failed|skipped<TAB>name".
A program of cmocka counts as its single cases, anything else as one case. Rules:
  - a case that began and did not end, or never began (crash, timeout, failed set-up), has failed;
  - a program that failed though all its cases passed (leak found at exit, wrong status) is one more failed case;
  - a program that passed though cases failed expected that: it is one passed case;
  - an entry that could not be run at all has failed; it is skipped only where it says so itself (status 77);
  - a file without a single test, or that cannot be read, has failed.
Exit status: 0; 1 when anything failed or nothing ran.
"""

import collections
import glob
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

GROUP = re.compile(r"\[==========\] (?:.*: )?Running (\d+) test\(s\)\.")
CASE = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (.*)")
KINDS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
OUTPUT_LINES = 60
OUTPUT_ENTRIES = 10


def cmocka_cases(output):
    """Returns a Counter of passed, failed, skipped and the names of failed cases; None where cmocka printed nothing."""
    expected = None
    counts = collections.Counter()
    failed_names = []
    running = None
    for line in output.splitlines():
        group = GROUP.search(line)
        if group:
            expected = (expected or 0) + int(group.group(1))
            running = None
            continue
        case = CASE.search(line)
        if not case or expected is None:
            continue
        word, name = case.groups()
        if word == "RUN":
            if running is not None:
                failed_names.append(running)
            running = name
        elif name == running:
            counts[KINDS[word]] += 1
            if word == "FAILED":
                failed_names.append(name)
            running = None
    if expected is None:
        return None, []
    if running is not None:
        failed_names.append(running + " (did not end)")
    counts["failed"] += max(0, expected - sum(counts.values()))
    return counts, failed_names


def entry_result(entry):
    """Returns a Counter and the names of what failed for one <testcase>."""
    name = entry.get("name", "?")
    status = entry.get("status")
    skipped = entry.find("skipped")
    if status == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return collections.Counter(skipped=1), []
    if status not in ("run", "fail"):
        return collections.Counter(failed=1), [name + " (could not be run)"]
    counts, failed_names = cmocka_cases(entry.findtext("system-out") or "")
    if status == "run":
        if counts is None or counts["failed"]:
            counts = collections.Counter(passed=1)
        return counts, []
    if counts is None or not counts["failed"]:
        counts = (counts or collections.Counter()) + collections.Counter(failed=1)
        return counts, [name]
    return counts, ["%s: %s" % (name, case) for case in failed_names or ["cases that never began"]]


def file_results(path):
    """Yields (Counter, names, output) for every entry of one file."""
    try:
        entries = ElementTree.parse(path).getroot().findall("testcase")
    except (ElementTree.ParseError, OSError) as error:
        yield collections.Counter(failed=1), ["%s (%s)" % (path, error)], ""
        return
    if not entries:
        yield collections.Counter(failed=1), ["%s (no tests)" % path], ""
    for entry in entries:
        counts, names = entry_result(entry)
        yield counts, names, entry.findtext("system-out") or ""


def step_results(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            outcome, name = line.rstrip("\n").split("\t", 1)
            if outcome not in ("passed", "failed", "skipped"):
                outcome = "failed"
            yield collections.Counter({outcome: 1}), [name] if outcome == "failed" else [], ""


def summarize(directory):
    """Returns the totals and for every entry that failed its names and its output."""
    total = collections.Counter()
    failures = []
    sources = [(os.path.basename(path)[:-len(".xml")] + ": ", file_results(path))
               for path in sorted(glob.glob(os.path.join(directory, "*.xml")))]
    steps = os.path.join(directory, "steps.tsv")
    if os.path.exists(steps):
        sources.append(("", step_results(steps)))
    for prefix, results in sources:
        for counts, names, output in results:
            total.update(counts)
            if names:
                failures.append(([prefix + name for name in names], output))
    return total, failures


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    total, failures = summarize(arguments[0])
    for names, output in [failure for failure in failures if failure[1]][:OUTPUT_ENTRIES]:
        for line in output.splitlines()[-OUTPUT_LINES:]:
            print("| " + line)
        print("^ " + names[0] + "\n")
    for names, _ in failures:
        for name in names:
            print("failed: " + name)
    last = "%d passed, %d failed" % (total["passed"], total["failed"])
    if total["skipped"]:
        last += ", %d skipped" % total["skipped"]
    print(last)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
