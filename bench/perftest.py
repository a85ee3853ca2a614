#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares two libraries by ucx_perftest, and draws what it has written with --json.

    perftest.py compare [--rounds N] [--perftest PROGRAM] LIBRARY OPTIONS...
        runs the tests of OPTIONS (such as -t tag_lat -s 8, or -b FILE --sweep 8:4M) in turn with the library that
        PROGRAM finds (A) and with the libucp.so.0 of LIBRARY, a file or its folder (B); prints medians and ranges.
        With -l both sides are one process, otherwise two on this machine.
    perftest.py plot PICTURE RESULTS...
        draws latency and bandwidth against message size; needs matplotlib. A curve is one test of one file.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PERFTEST = os.path.join(HERE, "..", "build", "release", "bin", "ucx_perftest")
SHOWN = [("p50 (usec)", lambda row: row["usec"]["p50"]), ("mean (usec)", lambda row: row["usec"]["mean"]),
         ("bandwidth (MiB/s)", lambda row: row["mib_per_s"]), ("rate (msg/s)", lambda row: row["messages_per_s"])]


def results(lines, where):
    """Rows of --json; lines that are none end the program."""
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            float(row["usec"]["p50"]), float(row["mib_per_s"]), int(row["size"]), str(row["test"]), str(row["kind"])
        except (ValueError, TypeError, KeyError):
            sys.exit("%s: line %d is no result of ucx_perftest --json: %.60s" % (where, number, line.rstrip()))
        rows.append(row)
    if not rows:
        sys.exit("%s holds no result" % where)
    return rows


def title(row):
    """What tells the tests of a run apart, without the size."""
    names = [name for name in row.get("names", []) if name != str(row["size"])]
    pair = ["%s -> %s" % (row["client"], row["server"])] if "client" in row and "server" in row else []
    return " ".join([row["test"]] + names + pair)


# ---- comparison ----

class Side:
    """A library that `program` is run with; `folder`: where it lies, None for the one that the program finds."""

    def __init__(self, program, folder):
        self.program, self.environment = os.path.abspath(program), dict(os.environ)
        if folder is not None:
            old = [self.environment["LD_LIBRARY_PATH"]] if self.environment.get("LD_LIBRARY_PATH") else []
            self.environment["LD_LIBRARY_PATH"] = os.pathsep.join([folder] + old)
        done = subprocess.run([self.program, "--library"], env=self.environment, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit("%s does not run with the library of %s: %s" % (program, folder or "its own", done.stderr.strip()))
        version, _, path = done.stdout.strip().partition(" ")
        self.name = "%s %s" % (version, os.path.realpath(path))

    def start(self, options, processor):
        bind = [] if processor is None else ["-c", str(processor)]
        return subprocess.Popen([self.program] + bind + options, env=self.environment, text=True,
                                stdout=subprocess.PIPE)

    def run(self, options, alone):
        """Rows of one run."""
        processors = sorted(os.sched_getaffinity(0))
        first, second = processors[:2] if len(processors) > 1 and "-c" not in options else (None, None)
        server, words = None, ["--json"] + options
        both = [word for word in options if word in ("-e", "--yield")]  # what each side gets for itself
        if not alone:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = ["-p", str(free.getsockname()[1])]
            server = self.start(port + ["--timeout", "60"] + both, first)
            for line in server.stdout:
                if line.startswith("Waiting for connection"):
                    break
            words += port + ["127.0.0.1"]
        client = self.start(words, second)
        text = client.communicate()[0]
        if server is not None:
            if client.returncode != 0:
                server.kill()
            server.communicate()
        if client.returncode != 0 or server is not None and server.returncode != 0:
            sys.exit("the comparison ends: a run with %s failed" % self.name)
        return results(text.splitlines(), self.name)


def cell(values):
    middle = statistics.median(values)
    if middle >= 1000:
        digits = 0
    else:
        digits = 1 if middle >= 10 else 3
    return "%.*f (%.*f to %.*f)" % (digits, middle, digits, min(values), digits, max(values))


def compare(arguments):
    folder = arguments.library if os.path.isdir(arguments.library) else os.path.dirname(arguments.library) or "."
    folder = os.path.realpath(folder)
    if not os.path.exists(os.path.join(folder, "libucp.so.0")):
        sys.exit("%s: there is no libucp.so.0" % arguments.library)
    sides = [Side(arguments.perftest, None), Side(arguments.perftest, folder)]
    if sides[0].name == sides[1].name:
        sys.exit("%s leads to the library that is loaded anyway: %s" % (arguments.library, sides[0].name))
    rounds = []  # within a round a machine that becomes slower slows both alike
    for _ in range(arguments.rounds):
        rounds.append([side.run(arguments.options, "-l" in arguments.options) for side in sides])
    print("# A: %s\n# B: %s\n# median (range) of %d rounds" % (sides[0].name, sides[1].name, len(rounds)))
    for index, row in enumerate(rounds[0][0]):
        print("%-30s %32s %32s %32s" % ("%s, %d bytes" % (title(row), row["size"]), "A", "B", "A / B"))
        for name, value in SHOWN:
            a, b = ([value(one[side][index]) for one in rounds] for side in (0, 1))
            ratios = [x / y if y > 0 else 0 for x, y in zip(a, b)]
            print("%-30s %32s %32s %32s" % (name, cell(a), cell(b), cell(ratios)))


# ---- pictures ----

def plot(arguments):
    curves = {}
    for path in arguments.results:
        try:
            with open(path, encoding="utf-8") as file:
                rows = results(file, path)
        except OSError as error:
            sys.exit(str(error))
        run = [os.path.splitext(os.path.basename(path))[0]] if len(arguments.results) > 1 else []
        for row in rows:
            name = ": ".join(run + [title(row)])
            curves.setdefault(name, []).append((row["size"], row["usec"]["p50"], row["mib_per_s"], row["kind"]))
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("pictures need matplotlib (Debian: python3-matplotlib)")
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(1, 2, figsize=(14, 6), layout="constrained")
    for index, (name, points) in enumerate(sorted(curves.items())):
        style = {"label": name, "marker": "osD^vx+*"[index % 8], "linestyle": ("-", "--", ":", "-.")[index % 4]}
        points.sort()
        if points[0][3] == "latency":
            axes[0].plot([point[0] for point in points], [point[1] for point in points], **style)
        sized = [point for point in points if point[0] > 0]
        axes[1].plot([point[0] for point in sized], [point[2] for point in sized], **style)
    for one, name, unit in ((axes[0], "Latency (median)", "usec"), (axes[1], "Bandwidth", "MiB/s")):
        one.set(title=name, xlabel="message size (bytes)", ylabel=unit, yscale="log")
        one.set_xscale("symlog", base=2, linthresh=1)
        one.set_xlim(left=0)
        one.grid(True, alpha=0.4)
        if one.has_data():
            one.legend(fontsize="small")
    try:
        figure.savefig(arguments.picture)
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    one = kinds.add_parser("compare")
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--perftest", default=PERFTEST, metavar="PROGRAM")
    one.add_argument("library")
    one.add_argument("options", nargs=argparse.REMAINDER)
    one.set_defaults(run=compare)
    one = kinds.add_parser("plot")
    one.add_argument("picture")
    one.add_argument("results", nargs="+")
    one.set_defaults(run=plot)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
