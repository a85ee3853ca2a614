#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark: bare limits, the reference library and Causeway, measured in turn in one run.

Usage: run.py BINDIR LIBDIR [options]

BINDIR holds the programs of the build (ucx_perftest, bench_startup, bare_*), LIBDIR our libucp.so.0. Every
repetition measures each contestant once before the next repetition begins (A B A B), so that slow changes of the
machine meet all of them alike. Ratios are taken within a repetition; printed are the median and the range.

Contestants:
  bare       the bare-limit program for this row
  causeway   our tool on our library
  reference  our tool on the reference's library
  ref. tool  the reference's own ucx_perftest on the reference's library
  ref. 1.x   our tool on each further version that --newer names (a C library of its own: with_libc.sh)

Needs Python's standard library alone. Results: a table on stdout, results.json, report.md and plots/*.svg.
Exit status: 0, or 1 when a measurement of our library failed, 2 for wrong use, 77 when this machine cannot do it.
"""
import argparse
import json
import os
import platform
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plot  # noqa: E402
import report  # noqa: E402
from contestants import Failure, find_contestants  # noqa: E402
from suites import ROWS, SUITES  # noqa: E402


# ---- the machine ----


def first_match(path, pattern):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
            return found.group(1).strip() if found else None
    except OSError:
        return None


def machine():
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    return {
        "processor": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine(),
        "architecture": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory) / 1048576, 1) if memory else None,
        "kernel": platform.release(),
        "virtual": first_match("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b") is not None,
        "system": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
    }


# ---- the run ----


def parse(arguments):
    parser = argparse.ArgumentParser(description="Measures bare limits, the reference and Causeway in turn.")
    parser.add_argument("bindir")
    parser.add_argument("libdir")
    parser.add_argument("--suites", default=",".join(SUITES), help="of " + ", ".join(SUITES))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long one run measures")
    parser.add_argument("--largest", type=int, default=64 << 20, help="the largest message, in bytes")
    parser.add_argument("--endpoints", type=int, default=10000)
    parser.add_argument("--cpus", help="server's and client's processor, such as 0,1")
    parser.add_argument("--reference", help="folder of the reference's libucp.so.0")
    parser.add_argument("--reference-tool", help="the reference's own ucx_perftest (empty: without it)")
    parser.add_argument("--newer", action="append", default=[], metavar="FOLDER",
                        help="one more version of the reference: the folder of its libucp.so.0 (may be repeated)")
    parser.add_argument("--only", type=re.compile, metavar="REGEX", help="rows whose 'suite: label' matches")
    parser.add_argument("--out", help="folder for results.json, report.md and plots (BINDIR/../bench-report)")
    parser.add_argument("--update", help="a Markdown file whose part between the bench marks is replaced "
                        "(pictures: plots beside it)")
    parser.add_argument("--resume", action="store_true",
                        help="keep the rows of results.json, which is written after each row, and measure the others")
    parser.add_argument("--quick", action="store_true", help="a trial: short and too inexact to be quoted")
    settings = parser.parse_args(arguments)
    settings.suites = settings.suites.split(",")
    for suite in settings.suites:
        if suite not in ROWS:
            parser.error(f"suite '{suite}' is not known")
    if settings.quick:
        settings.repetitions, settings.seconds, settings.endpoints = 2, 0.02, 1000
    if settings.repetitions < 1 or not settings.seconds > 0 or settings.endpoints < 1:
        parser.error("repetitions, seconds and endpoints must be positive")
    allowed = sorted(os.sched_getaffinity(0))
    settings.cpus = settings.cpus.split(",") if settings.cpus else [str(cpu) for cpu in allowed[:2]]
    settings.bindir = os.path.abspath(settings.bindir)
    settings.libdir = os.path.abspath(settings.libdir)
    settings.out = settings.out or os.path.join(os.path.dirname(settings.bindir), "bench-report")
    return settings


class Progress:
    """One line on a terminal's stderr; nothing elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.shown = total, 0, sys.stderr.isatty()

    def step(self, text):
        if self.shown:
            bar = "#" * (30 * self.done // max(1, self.total))
            sys.stderr.write(f"\r\033[K[{bar:.<30}] {self.done}/{self.total} {text}")
            sys.stderr.flush()
        self.done += 1

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def results_path(settings):
    return os.path.join(settings.out, "results.json")


def same_run(old, new):
    return all(old[key] == new[key] for key in ("machine", "versions", "repetitions", "seconds", "cpus"))


def load_earlier(settings, results):
    """The rows of an earlier run that --resume goes on with, by suite and label."""
    if not settings.resume:
        return {}
    try:
        with open(results_path(settings), encoding="utf-8") as file:
            earlier = json.load(file)
    except FileNotFoundError:
        return {}
    if not same_run(earlier, results):
        raise Failure("results.json is of another machine, library or number of repetitions: nothing to resume")
    results["load_before"] = max(results["load_before"], earlier["load_before"])
    return {(row["suite"], row["label"]): row for row in earlier["rows"]}


def save(settings, results):
    new = results_path(settings) + ".new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    os.replace(new, results_path(settings))


def measure_all(settings, tools, results):
    """Fills results["rows"], and saves after each row: a run takes hours, and may be cut off."""
    earlier = load_earlier(settings, results)
    rows = [row for suite in settings.suites for row in ROWS[suite](settings, tools)
            if not settings.only or settings.only.search(f"{row.suite}: {row.label}")]
    progress = Progress(len(rows) * settings.repetitions)
    for row in rows:
        found = earlier.get((row.suite, row.label))
        for repetition in range(settings.repetitions):
            progress.step(f"{row.suite}: {row.label} ({repetition + 1})")
            if not found:
                row.measure_once()
        results["rows"].append(found or row.as_dict())
        save(settings, results)
    progress.end()


def check_outputs(settings):
    """What can be known before hours of measuring."""
    os.makedirs(settings.out, exist_ok=True)
    with open(os.path.join(settings.out, "report.md"), "a", encoding="utf-8"):
        pass
    if settings.update:
        with open(settings.update, "r+", encoding="utf-8") as file:
            report.update_text(file.read(), "")


def main(arguments):
    settings = parse(arguments)
    if len(settings.cpus) != 2 or len(os.sched_getaffinity(0)) < 2:
        print("run.py: two processors are needed", file=sys.stderr)
        return 77
    load = os.getloadavg()[0]
    try:
        check_outputs(settings)
    except (OSError, ValueError) as error:
        print(f"run.py: the report cannot be written: {error}", file=sys.stderr)
        return 2
    try:
        tools, versions = find_contestants(settings)
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 77
    results = {
        "machine": machine(), "versions": versions, "load_before": round(load, 2), "quick": settings.quick,
        "repetitions": settings.repetitions, "seconds": settings.seconds, "cpus": settings.cpus,
        "date": time.strftime("%Y-%m-%d", time.gmtime()), "rows": [],
    }
    try:
        measure_all(settings, tools, results)
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 77
    text = report.markdown(results)
    with open(os.path.join(settings.out, "report.md"), "w", encoding="utf-8") as file:
        file.write(f"# Measurements of {results['date']}\n\n{text}")
    plot.write(results["rows"], os.path.join(settings.out, report.PLOTS))
    if settings.update:
        report.update_file(settings.update, results)
    print(text)
    return 1 if any("causeway" in row["errors"] for row in results["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
