# SPDX-License-Identifier: BSD-3-Clause
"""Statistics and Markdown of the benchmark: pure functions from the results of run.py to text. Pictures: plot.py.

Usage: report.py RESULTS.json...

Prints, row by row, the ratio of our library to each version of the reference, of the samples of all these files.
"""

import json
import os
import sys

import plot

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"
PLOTS = "plots"  # folder of the pictures, beside the report
LIMITS = ("bare", "bare ring", "bare both")  # contestants that are no library

# What the project promises: suite, start of the row's label, words, what it is held against (a contestant; "value":
# nothing; "over bare": the difference to the bare one), bound: where more is better the least, otherwise the most.
TARGETS = [
    ("latency", "shm, 8 B", "shared memory, 8 B: at most 1.25 times the bare cache-line ping-pong", "bare", 1.25),
    ("latency", "shm, 8 B", "and at most 0.55 of the reference's time", "reference", 0.55),
    ("latency", "shm, 1 KiB", "shared memory, 1 KiB: at most 0.6 of the reference's time", "reference", 0.6),
    ("latency", "shm, 8 KiB", "shared memory, 8 KiB: at most 0.6 of the reference's time", "reference", 0.6),
    ("latency", "tcp, 8 B", "TCP, 8 B: at most 1.05 times bare send/recv", "bare", 1.05),
    ("latency", "tcp, 8 B", "and at most 0.8 of the reference's time", "reference", 0.8),
    ("rate", "shm, 8 B", "shared memory, rate of 8 B: at least 3 times the reference's", "reference", 3.0),
    ("rate", "tcp, 8 B", "TCP, rate of 8 B: at least 3 times the reference's", "reference", 3.0),
    ("bandwidth", "shm, 64 KiB", "shared memory, 64 KiB: at least 1.2 times the reference", "reference", 1.2),
    ("bandwidth", "shm, 1 MiB", "shared memory, 1 MiB: at least 1.6 times the reference", "reference", 1.6),
    ("bandwidth", "shm, 16 MiB", "shared memory, 16 MiB: at least 2.2 times the reference", "reference", 2.2),
    ("bandwidth", "tcp, 64 KiB", "TCP, 64 KiB: at least 1.3 times the reference", "reference", 1.3),
    ("bandwidth", "tcp, 64 KiB", "and at least 0.95 of a bare socket", "bare", 0.95),
    ("bandwidth", "tcp, 1 MiB", "TCP, 1 MiB: at least 1.3 times the reference", "reference", 1.3),
    ("bandwidth", "tcp, 1 MiB", "and at least 0.95 of a bare socket", "bare", 0.95),
    ("both", "tcp, 1 MiB, both ways", "TCP, 1 MiB both ways at once: at least 0.95 of bare sockets", "bare", 0.95),
    ("both", "tcp, 1 MiB, ratio", "and at least 1.7 times one way, if the processors allow", "value", 1.7),
    ("am", "shm, 8 B, median", "active messages, shared memory, 8 B: at most 0.62 of the reference's time, for a start",
     "reference", 0.62),
    ("am", "shm, 8 B, median", "in the end at most 0.55", "reference", 0.55),
    ("am", "tcp, 8 B, median", "active messages, TCP, 8 B: at most 0.8", "reference", 0.8),
    ("am", "shm, 8 B, rate", "active messages, shared memory, rate of 8 B: at least 3 times", "reference", 3.0),
    ("am", "tcp, 8 B, rate", "active messages, TCP, rate of 8 B: at least 3 times", "reference", 3.0),
    ("am", "shm, 32 KiB", "active messages, shared memory, 32 KiB: at least 1.3 times", "reference", 1.3),
    ("am", "shm, 64 KiB", "active messages, shared memory, 64 KiB: at least 1.2 times", "reference", 1.2),
    ("am", "shm, 1 MiB", "active messages, shared memory, 1 MiB: at least 1.6 times", "reference", 1.6),
    ("am", "shm, 16 MiB", "active messages, shared memory, 16 MiB: at least 2.2 times", "reference", 2.2),
    ("am", "tcp, 32 KiB", "active messages, TCP, 32 KiB: at least 1.2 times", "reference", 1.2),
    ("am", "tcp, 64 KiB", "active messages, TCP, 64 KiB: at least 1.3 times", "reference", 1.3),
    ("am", "tcp, 1 MiB", "active messages, TCP, 1 MiB: at least 1.3 times", "reference", 1.3),
    ("am", "shm, list of 4 x 8 KiB", "active messages of 4 x 8 KiB, shared memory: at least 1.3", "reference", 1.3),
    ("am", "shm, list of 4 x 256 KiB", "active messages of 4 x 256 KiB, shared memory: at least 1.3", "reference", 1.3),
    ("am", "tcp, list of 4 x 8 KiB", "active messages of 4 x 8 KiB, TCP: at least 1.2", "reference", 1.2),
    ("am", "tcp, list of 4 x 256 KiB", "active messages of 4 x 256 KiB, TCP: at least 1.2", "reference", 1.2),
    ("stream", "shm, 64 KiB", "streams, shared memory, 64 KiB: at least 1.2 times the reference, for a start",
     "reference", 1.2),
    ("stream", "shm, 64 KiB", "in the end at least 1.5", "reference", 1.5),
    ("stream", "tcp, 64 KiB", "streams, TCP, 64 KiB: at least 1.2 times the reference", "reference", 1.2),
    ("rma", "shm, put, 8 B, median", "shared memory, put 8 B: at most the reference's time", "reference", 1.0),
    ("rma", "shm, put, 8 B, median", "and at most 1.2 times the bare cache-line ping-pong", "bare", 1.2),
    ("rma", "shm, get, 8 B", "shared memory, get 8 B: at most 0.5 of the reference", "reference", 0.5),
    ("rma", "shm, get, 8 B", "and at most 25 ns over the bare load", "over bare", 0.025),
    ("rma", "shm, fetch-and-add, 8 B", "fetch-and-add: at most 0.5", "reference", 0.5),
    ("rma", "shm, fetch-and-add, 8 B", "and at most 25 ns over the bare atomic", "over bare", 0.025),
    ("rma", "shm, compare-and-swap, 8 B", "compare-and-swap: at most 0.5", "reference", 0.5),
    ("rma", "shm, compare-and-swap, 8 B", "and at most 25 ns over the bare atomic", "over bare", 0.025),
    ("rma", "shm, put, 8 B, rate", "puts of 8 B: at least 1.5 times the reference's rate", "reference", 1.5),
    ("rma", "shm, put, 1 MiB", "shared memory, put 1 MiB: at least 0.95 of a bare memcpy", "bare", 0.95),
    ("rma", "shm, get, 1 MiB", "get 1 MiB: at least 0.95 of a bare memcpy", "bare", 0.95),
    ("rma", "shm, get, user memory, 8 B", "user memory, get 8 B: at most 0.7 of the reference", "reference", 0.7),
    ("rma", "shm, put, user memory, 64 KiB", "user memory, put 64 KiB: at least 1.2 times the reference",
     "reference", 1.2),
    ("rma", "shm, put, user memory, 1 MiB", "user memory, put 1 MiB: at least 1.6 times the reference",
     "reference", 1.6),
    ("rma", "shm, put, user memory, 1 MiB", "and at least 1.2 times process_vm_readv", "bare", 1.2),
    ("rma", "shm, put, user memory, 16 MiB", "user memory, put 16 MiB: at least 2.2 times the reference",
     "reference", 2.2),
    ("rma", "shm, get, user memory, 64 KiB", "user memory, get 64 KiB: at least 1.2 times the reference",
     "reference", 1.2),
    ("rma", "shm, get, user memory, 1 MiB", "user memory, get 1 MiB: at least 1.6 times the reference",
     "reference", 1.6),
    ("rma", "shm, get, user memory, 1 MiB", "and at least 1.2 times process_vm_readv", "bare", 1.2),
    ("rma", "shm, get, user memory, 16 MiB", "user memory, get 16 MiB: at least 2.2 times the reference",
     "reference", 2.2),
    ("rma", "tcp, put, 8 B, median", "TCP, put 8 B: at most 0.8 of the reference's time", "reference", 0.8),
    ("rma", "tcp, fetch-and-add, 8 B", "TCP, fetch-and-add: at most 0.8", "reference", 0.8),
    ("rma", "tcp, put, 1 MiB", "TCP, put 1 MiB: at least 1.2 times the reference", "reference", 1.2),
    ("rma", "tcp, get, 1 MiB", "TCP, get 1 MiB: at least 1.2 times the reference", "reference", 1.2),
    ("rma", "shm, flush of a worker", "flush of 1,000 idle endpoints: less than 20 us", "value", 20.0),
    ("wakeup", "shm, 8 B, both", "two that sleep for sure, shared memory: at most 0.6 of the reference", "reference",
     0.6),
    ("wakeup", "shm, 8 B, both", "and at most 1.2 times two bare eventfds", "bare", 1.2),
    ("wakeup", "tcp, 8 B, both", "the same over TCP: at most 0.9", "reference", 0.9),
    ("wakeup", "tcp, 8 B, both", "and at most 1.2 times two bare sockets", "bare", 1.2),
    ("wakeup", "shm, 8 B to one", "shared memory, 8 B to a process that sleeps for sure: at most 0.6 of the reference",
     "reference", 0.6),
    ("wakeup", "tcp, 8 B to one", "the same over TCP: at most 0.9", "reference", 0.9),
    ("startup", "init + worker", "ucp_init and ucp_worker_create: less than 1 ms", "value", 1000.0),
    ("startup", "resident memory added", "and less than 2 MiB of resident memory", "value", 2048.0),
    ("startup", "init + worker", "and at most 0.05 of the reference's time", "reference", 0.05),
    ("startup", "shm, process start", "process start to first message, shm: at most 0.2 of the reference",
     "reference", 0.2),
    ("startup", "tcp, process start", "the same over TCP: at most 0.2", "reference", 0.2),
    ("idle", "shm, progress", "shared memory, progress beside 9,999 idle endpoints: at most 1.1 times one",
     "value", 1.1),
    ("idle", "tcp, progress", "the same over TCP: at most 1.1 times", "value", 1.1),
    ("endpoints", "time to make one", "an endpoint made from an address: at most 1 us", "value", 1000.0),
    ("endpoints", "resident memory of an endpoint", "an endpoint that has not talked: at most 512 B", "value", 512.0),
    ("memory", "shm, process", "shared memory, process with a worker and a peer: at most 0.2", "reference", 0.2),
    ("memory", "tcp, process", "TCP, process with a worker and a peer: at most 0.2", "reference", 0.2),
    ("memory", "shm, each further connected idle peer, where it was",
     "shared memory, each further idle peer: at most 16 KiB where it was dialled", "value", 16384.0),
    ("memory", "shm, each further connected idle peer, where the", "and at the other side", "value", 16384.0),
    ("memory", "tcp, each further connected idle peer, where it was",
     "TCP, each further idle peer: at most 4 KiB where it was dialled", "value", 4096.0),
    ("memory", "tcp, each further connected idle peer, where the", "and at the other side", "value", 4096.0),
    ("connect", "tcp, endpoint by socket",
     "socket address to first reply, TCP: at most 0.5 of the reference", "reference", 0.5),
    ("connect", "shm,tcp, endpoint by socket", "the same moving to shared memory: at most 0.5", "reference", 0.5),
    ("connect", "shm, endpoint by worker", "worker address to first reply, shm: at most 0.5", "reference", 0.5),
    ("connect", "tcp, endpoint by worker", "the same over TCP: at most 0.3 of the reference", "reference", 0.3),
    ("connect", "tcp, connections", "at least 1,000 connections a second accepted and closed", "value", 1000.0),
    ("guarded", "tcp, TLS, 1 MiB", "TLS, 1 MiB: at least 0.5 of the bandwidth without", "bare", 0.5),
    ("threads", "shm, MULTI, two threads", "MULTI, two threads that send beside one: at least 1.5 times one",
     "value", 1.5),
]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratios(row, name, base):
    """Ratio of two contestants in each repetition in which both were measured."""
    pairs = zip(row["samples"].get(name, []), row["samples"].get(base, []))
    return [a / b for a, b in pairs if b > 0]


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or size % 1024:
            break
        size //= 1024
    else:
        unit = "GiB"
    return f"{size} {unit}"


def size_number(text):
    """Bytes of what size_text() wrote."""
    number, unit = text.split()
    return int(number) << {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[unit]


def number_text(value):
    if abs(value) >= 10000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


def range_text(values, text=number_text):
    if not values:
        return "-"
    return f"{text(median(values))} ({text(min(values))} to {text(max(values))})"


def ratio_text(values):
    return range_text(values, lambda value: f"{value:.2f}")


def cell(row, name):
    if name in row["errors"]:
        return "failed"
    if name not in row["samples"]:
        return ""
    return range_text(row["samples"][name])


def newer_versions(rows):
    """Contestants that are further versions of the reference, as run.py --newer measures them."""
    found = dict.fromkeys(name for row in rows for name in row["samples"])
    return [name for name in found if name.startswith("ref. ") and name != "ref. tool"]


def suite_table(suite, rows):
    names = [name for name in LIMITS + ("causeway", "reference", "ref. tool")
             if any(name in row["samples"] for row in rows)]
    names += newer_versions(rows)
    bases = [name for name in names if name != "causeway" and "causeway" in names]
    head = [suite, "unit"] + names + [f"causeway / {base}" for base in bases]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        words = [row["label"], row["unit"]] + [cell(row, name) for name in names]
        words += [ratio_text(ratios(row, "causeway", base)) for base in bases]
        lines.append("| " + " | ".join(words) + " |")
    return lines


CLIFF = 0.9


def steps(rows, place, name):
    """(ratio, size) of the bandwidth of each size to that of its half, medians of what was measured side by side."""
    found = []
    for row in rows:
        at, _, size = row["label"].partition(", to ")
        if row["suite"] == "steps" and at == place and row["samples"].get(name):
            found.append((median(row["samples"][name]), size_number(size)))
    return found


def verdict_of(name, is_met):
    """Only this library has a target."""
    if name != "causeway":
        return "-"
    return "met" if is_met else "MISSED"


def cliffs(results):
    """The lowest step of each transport's bandwidth."""
    lines = []
    places = dict.fromkeys(row["label"].partition(", ")[0] for row in results["rows"] if row["suite"] == "steps")
    for place in places:
        for name in ("causeway", "reference"):
            found = steps(results["rows"], place, name)
            if not found:
                continue
            ratio, size = min(found)
            falls = ", ".join(f"{size_text(at)} {step:.2f}" for step, at in found if step < CLIFF)
            verdict = verdict_of(name, not falls)
            text = f"lowest step {ratio:.2f}, to {size_text(size)}" + (f"; below {CLIFF}: {falls}" if falls else "")
            lines.append(f"| {place}, {name}: bandwidth never falls by more than 10 % from a size to its double "
                         f"| {text} | {verdict} |")
    return lines


EVEN = 0.1


def evenness(results):
    """Put and get over TCP move the same bytes: neither may be much slower."""
    rows = [row for row in results["rows"] if (row["suite"], row["label"]) == ("rma", "tcp, put against get, 1 MiB")]
    values = [value for row in rows for value in row["samples"].get("causeway", [])]
    if not values:
        return []
    verdict = "met" if 1 - EVEN <= median(values) <= 1 / (1 - EVEN) else "MISSED"
    return [f"| TCP, put and get of 1 MiB within 10 % of each other: put / get | {ratio_text(values)} | {verdict} |"]


FLAT = 2.0


def flatness(results):
    """What a queue of 100,000 adds to a message."""
    found = {row["label"]: row["samples"] for row in results["rows"] if row["suite"] == "matching"}
    lines = []
    for kind in ("posted, exact", "posted, any source", "unexpected, exact", "unexpected, any source"):
        ends = [found.get(f"{kind}, {depth} queued", {}) for depth in ("0", "100,000")]
        for name in ("causeway", "reference"):
            values = [long / short for short, long in zip(*[end.get(name, []) for end in ends]) if short > 0]
            if values:
                verdict = verdict_of(name, median(values) <= FLAT)
                lines.append(f"| matching, {kind}, {name}: 100,000 queued cost at most twice what an empty queue costs "
                             f"| {ratio_text(values)} | {verdict} |")
    return lines


def held_against(row, kind):
    if kind == "value":
        return row["samples"].get("causeway", [])
    if kind == "over bare":
        return [ours - bare for ours, bare in zip(*[row["samples"].get(name, []) for name in ("causeway", "bare")])]
    return ratios(row, "causeway", kind)


def limit_text(row):
    """What the bare ones of a row have of the reference: the bound of a promise that names the reference."""
    found = [(name, ratios(row, name, "reference")) for name in LIMITS]
    words = [f"{name} {median(values):.2f}" for name, values in found if values]
    return f"; of the reference: {', '.join(words)}" if words else ""


def verdicts(results):
    lines = []
    for suite, label, promise, kind, bound in TARGETS:
        for row in results["rows"]:
            if row["suite"] != suite or not row["label"].startswith(label):
                continue
            values = held_against(row, kind)
            if not values:
                lines.append(f"| {promise} | not measured | - |")
                continue
            text = range_text(values) + " " + row["unit"] if kind in ("value", "over bare") else ratio_text(values)
            met = median(values) >= bound if row["better"] == "more" else median(values) <= bound
            if not met and kind == "reference":
                text += limit_text(row)
            if not met and kind == "value" and row["samples"].get("bare"):
                text += f"; bare {number_text(median(row['samples']['bare']))}"
            lines.append(f"| {promise} | {text} | {'met' if met else 'MISSED'} |")
    lines += evenness(results) + flatness(results) + cliffs(results)
    return ["| promise | measured | |", "|---|---|---|"] + lines if lines else []


def machine_lines(results):
    machine = results["machine"]
    virtual = ", virtual machine" if machine["virtual"] else ""
    memory = f", {machine['memory_gib']} GiB" if machine["memory_gib"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [
        f"Machine: {machine['processor']} ({machine['architecture']}), {machine['processors']} processors{memory}"
        f"{virtual}; kernel {machine['kernel']}; {machine['system']}.",
        f"Versions of libucp: {versions}. {results['date']}, {results['repetitions']} repetitions of about "
        f"{results['seconds']} s in turn, server and client bound to processors {' and '.join(results['cpus'])}.",
        "Given are the median and the range of all slices (some rows have several in a repetition); ratios are taken "
        "between slices that follow each other. What was missed has what the bare limit reaches beside it.",
    ]
    if results["load_before"] > 0.5:
        lines.append(f"**The machine was busy in the minutes before the run (load {results['load_before']}): if other "
                     "programs went on, the numbers are not to be trusted.**")
    if results["quick"]:
        lines.append("**A quick trial: too short to be quoted.**")
    if "reference" not in results["versions"]:
        lines.append("The reference library is not installed here: no comparison.")
    return lines


def picture_lines(suite, pictures):
    lines = [f"![{title}]({PLOTS}/{name})" for name, (title, of, _) in pictures.items() if of == suite]
    return lines + [""] if lines else []


def markdown(results):
    pictures = plot.pictures(results["rows"])
    lines = machine_lines(results) + [""]
    promised = verdicts(results)
    if promised:
        lines += promised + [""]
    suites = []
    for row in results["rows"]:
        if row["suite"] not in suites:
            suites.append(row["suite"])
    for suite in suites:
        lines += suite_table(suite, [row for row in results["rows"] if row["suite"] == suite]) + [""]
        lines += picture_lines(suite, pictures)
    errors = [f"- {row['suite']}, {row['label']}, {name}: {error}"
              for row in results["rows"] for name, error in row["errors"].items()]
    if errors:
        lines += ["Failures:", ""] + errors + [""]
    return "\n".join(lines)


def versions_table(several):
    """What our library takes of each version of the reference, all samples of several results together."""
    found = {}  # (suite, label) -> the rows of that name
    for row in (row for results in several for row in results["rows"]):
        found.setdefault((row["suite"], row["label"]), []).append(row)
    versions = {name: version for results in several for name, version in results["versions"].items()}
    names = ["reference"] + newer_versions([row for rows in found.values() for row in rows])
    lines = ["| suite | quantity | unit | causeway | " + " | ".join("/ " + versions.get(name, name) for name in names)
             + " |", "|" + "---|" * (len(names) + 4)]
    for (suite, label), rows in found.items():
        ours = [value for row in rows for value in row["samples"].get("causeway", [])]
        words = [suite, label, rows[0]["unit"], number_text(median(ours)) if ours else "failed"]
        words += [ratio_text([value for row in rows for value in ratios(row, "causeway", name)]) for name in names]
        lines.append("| " + " | ".join(words) + " |")
    return lines


def update_text(old, text):
    """`old` with the part between the marks replaced; ValueError when it has no marks."""
    begin, end = old.find(BEGIN), old.find(END)
    if begin < 0 or end < begin:
        raise ValueError("no bench marks")
    return old[:begin + len(BEGIN)] + "\n" + text + old[end:]


def update_file(path, results):
    """The report between the marks of a file, and its pictures beside it."""
    with open(path, encoding="utf-8") as file:
        text = update_text(file.read(), markdown(results))
    plot.write(results["rows"], os.path.join(os.path.dirname(path), PLOTS))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    if not arguments:
        sys.stderr.write(__doc__.split("\n\n", 1)[-1])
        return 2
    several = []
    try:
        for path in arguments:
            with open(path, encoding="utf-8") as file:
                several.append(json.load(file))
        print("\n".join(versions_table(several)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
