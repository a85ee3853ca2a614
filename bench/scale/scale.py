#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How wire-up traffic, memory and time grow with the number of workers: bench_scale for each pattern and number.

Usage: scale.py PROGRAM [--most WORKERS] [--results FILE] [--plots FOLDER] [--check]

Prints a Markdown table. --results keeps the numbers, --plots draws curves (SVG). --check holds what does not depend on
the machine: per endpoint neither traffic nor memory of the library grows with the number of workers, and no worker
needs a descriptor.
Exit status: 0, 1 when a run failed or a check did not hold, 2 for wrong use.
"""

import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import plot  # noqa: E402

PATTERNS = ["all-to-all", "ring", "many-to-one", "tree"]
NUMBERS = [10, 100, 1000, 10000, 100000]
RUN_SECONDS_MAX = 200
# Of the smallest number: more is growth, less comes from what all workers share.
GROWTH_MOST = 1.1


def measure(program, pattern, workers):
    done = subprocess.run([program, "-p", pattern, "-n", str(workers)], capture_output=True, text=True, check=False,
                          timeout=RUN_SECONDS_MAX, env={**os.environ, "UCX_LOG_LEVEL": "error"})
    if done.returncode != 0:
        raise OSError(f"{pattern} of {workers}: status {done.returncode}: {done.stderr.strip()[-200:]}")
    row = json.loads(done.stdout)
    row["wire_bytes_per_endpoint"] = (row["hello_bytes"] + row["packet_bytes"]) / row["endpoints"]
    row["wire_packets_per_endpoint"] = (row["hellos"] + row["packets"]) / row["endpoints"]
    return row


PANELS = [
    ("wire-up and first message", "(packets and handshakes)", lambda row: row["hellos"] + row["packets"]),
    ("wire-up and first message", "(bytes, without frames of the network)",
     lambda row: row["hello_bytes"] + row["packet_bytes"]),
    ("Memory of the library", "(MiB)",
     lambda row: (row["worker_bytes"] * row["workers"] + row["endpoint_bytes"] * row["endpoints"]) / (1 << 20)),
    ("Time until all is said", "(s of processor time)",
     lambda row: (row["create_us_per_worker"] * row["workers"] + row["meet_us_per_endpoint"] * row["endpoints"]) / 1e6),
    ("The same on the simulated clock", "(ms)", lambda row: row["virtual_us"] / 1e3),
]


def pictures(rows):
    panels = []
    for title, unit, value in PANELS:
        curves = [plot.Curve(name, [(row["workers"], value(row)) for row in rows if row["pattern"] == name], style)
                  for style, name in enumerate(PATTERNS)]
        panels.append(plot.Panel(title[0].upper() + title[1:], unit, "workers", curves, False))
    return plot.draw("What it costs many workers to meet", panels)


COLUMNS = [("pattern", "pattern", "{}"), ("workers", "workers", "{:,}"), ("endpoints", "endpoints", "{:,}"),
           ("wire_packets_per_endpoint", "packets", "{:.2f}"), ("wire_bytes_per_endpoint", "bytes", "{:.0f}"),
           ("worker_bytes", "B of a worker", "{:,.0f}"), ("endpoint_bytes", "B of an endpoint", "{:,.0f}"),
           ("create_us_per_worker", "us to create", "{:.1f}"), ("meet_us_per_endpoint", "us to meet", "{:.1f}"),
           ("destroy_us_per_worker", "us to destroy", "{:.1f}"), ("virtual_us", "us simulated", "{:,.0f}")]


def table(rows):
    yield "| " + " | ".join(title for _, title, _ in COLUMNS) + " |"
    yield "|" + "---|" * len(COLUMNS)
    for row in rows:
        yield "| " + " | ".join(form.format(row[key]) for key, _, form in COLUMNS) + " |"


def broken(rows):
    """Sentences about what does not hold."""
    for pattern in PATTERNS:
        mine = [row for row in rows if row["pattern"] == pattern]
        for key in ("wire_bytes_per_endpoint", "wire_packets_per_endpoint", "worker_bytes", "endpoint_bytes"):
            for row in mine[1:]:
                if row[key] > mine[0][key] * GROWTH_MOST:
                    yield (f"{pattern}: {key} grows from {mine[0][key]:.1f} with {mine[0]['workers']} workers to "
                           f"{row[key]:.1f} with {row['workers']}")
    for row in rows:
        if row["descriptors"] > 1:  # one may serve the memory of endpoints that peers open
            yield f"{row['pattern']}: {row['workers']} workers need {row['descriptors']} descriptors"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--most", type=int, default=NUMBERS[-1])
    parser.add_argument("--results")
    parser.add_argument("--plots")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        rows = [measure(options.program, pattern, workers)
                for pattern in PATTERNS for workers in NUMBERS if workers <= options.most]
        print("\n".join(table(rows)))
        if options.results:
            with open(options.results, "w", encoding="utf-8") as file:
                json.dump({"rows": rows}, file, indent=1)
                file.write("\n")
        if options.plots:
            os.makedirs(options.plots, exist_ok=True)
            with open(os.path.join(options.plots, "scale.svg"), "w", encoding="utf-8") as file:
                file.write(pictures(rows))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"scale.py: {error}", file=sys.stderr)
        return 1
    wrong = list(broken(rows)) if options.check else []
    for sentence in wrong:
        print(f"scale.py: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
