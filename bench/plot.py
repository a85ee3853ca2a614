#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SVG pictures: curves over logarithmic axes. Pure functions to text.

Curves differ by marks and dashes, so that a picture is as good in black and white. A point may have a range, drawn as a
thin bar through its mark. pictures() draws what results of run.py hold; draw() is for any numbers.

Usage: plot.py RESULTS.json... FOLDER     draws all pictures that the results of run.py give
"""

import html
import json
import math
import os
import re
import sys

WIDTH, LEFT, RIGHT, LEGEND = 940, 92, 660, 690
HEAD, AREA, PANEL, FOOT = 52, 300, 424, 8
LEGEND_STEP, LABEL_MOST = 23, 31
COLOURS = ["#0b3c6f", "#c8500a", "#15806a", "#8a2f6e", "#4b9cd3", "#b08900", "#444444"]
DASHES = ["", "9 4", "2 4", "11 4 2 4", "5 3"]
STYLE = """text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: #222; }
.title { font-size: 18px; font-weight: bold; }
.unit { font-size: 13px; font-weight: normal; fill: #555; }
.tick, .label { font-size: 13px; } .grid { stroke: #cfcfcf; } .fine { stroke: #ededed; }
.frame { fill: none; stroke: #555; }
.curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.range { stroke: currentColor; stroke-width: 1; opacity: 0.6; }
.full { fill: currentColor; stroke: #fff; }
.hollow { fill: #fff; stroke: currentColor; stroke-width: 1.8; }
.stroke { fill: none; stroke: currentColor; stroke-width: 2; }"""


class Curve:
    """`points`: (x, y) or (x, y, least, most). `style`: its look, the same in all pictures."""

    def __init__(self, name, points, style):
        self.name, self.style = name, style
        self.points = sorted((x, y, *(ends or (y, y))) for x, y, *ends in points if y > 0)


class Panel:
    """`bytes_x`: x counts bytes, in powers of 2; otherwise anything, in powers of 10. 0 stands before 1."""

    def __init__(self, title, unit, x_title, curves, bytes_x=True):
        self.title, self.unit, self.x_title, self.bytes_x = title, unit, x_title, bytes_x
        self.curves = [curve for curve in curves if curve.points]
        self.top = 0
        scaled = [self.x_scale(point[0]) for curve in self.curves for point in curve.points]
        heights = [y for curve in self.curves for point in curve.points for y in point[1:] if y > 0]
        if scaled:
            alone = min(scaled) == max(scaled)
            self.x_first, self.x_last = math.floor(min(scaled)) - alone, math.ceil(max(scaled)) + alone
            self.y_first = math.log10(round_value(min(heights) * 0.95, False))
            self.y_last = math.log10(round_value(max(heights) * 1.05, True))

    def x_scale(self, x):
        if x < 1:
            return -1
        return math.log2(x) if self.bytes_x else math.log10(x)

    def place_x(self, x):
        return LEFT + (RIGHT - LEFT) * (x - self.x_first) / (self.x_last - self.x_first)

    def place_y(self, y):
        return self.top + HEAD + AREA - AREA * (y - self.y_first) / (self.y_last - self.y_first)


def round_value(value, up):
    """The next of 1, 2, 5, 10 ... up or down."""
    decade = 10 ** math.floor(math.log10(value))
    steps = [1, 2, 5, 10]
    if up:
        return next((step for step in steps if step * decade >= value * 0.9999), 10) * decade
    return next((step for step in reversed(steps) if step * decade <= value * 1.0001), 1) * decade


def bytes_text(size):
    for unit in ("", " Ki", " Mi", " Gi"):
        if size < 1024 or size % 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size} Ti"


def value_text(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# ---- parts of a panel ----


def line(kind, x1, y1, x2, y2):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(kind, x, y, words, anchor="start"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def x_axis(panel):
    bottom = panel.top + HEAD + AREA
    span = panel.x_last - panel.x_first
    if span <= 12:
        step = 1
    else:
        step = 2 if span <= 24 else 4
    for x in range(panel.x_first, panel.x_last + 1):
        at = panel.place_x(x)
        yield line("fine" if x % step else "grid", at, panel.top + HEAD, at, bottom)
        if x < 0 or x % step == 0:
            if x < 0:
                words = "0"
            else:
                words = bytes_text(2 ** x) if panel.bytes_x else value_text(10 ** x)
            yield text("tick", at, bottom + 19, words, "middle")
    yield text("unit", (LEFT + RIGHT) / 2, bottom + 42, panel.x_title, "middle")


def y_axis(panel):
    close = panel.y_last - panel.y_first <= 2.5
    for decade in range(math.floor(panel.y_first + 1e-9), math.floor(panel.y_last) + 1):
        for digit in range(1, 10):
            y = decade + math.log10(digit)
            if not panel.y_first - 1e-9 <= y <= panel.y_last + 1e-9:
                continue
            labelled = digit == 1 or (close and digit in (2, 5))
            at = panel.place_y(y)
            yield line("grid" if labelled else "fine", LEFT, at, RIGHT, at)
            if labelled:
                yield text("tick", LEFT - 9, at + 4, value_text(digit * 10.0 ** decade), "end")


def marker(style, x, y, title=""):
    """Filled and hollow shapes in turn."""
    inside = f"<title>{html.escape(title)}</title>" if title else ""
    if style % 6 == 0:
        return f'<circle class="full" cx="{x:.1f}" cy="{y:.1f}" r="4">{inside}</circle>'
    if style % 6 == 1:
        return (f'<rect class="hollow" x="{x - 3.8:.1f}" y="{y - 3.8:.1f}" width="7.6" height="7.6">{inside}</rect>')
    kind, dx, dy, path = [("full", 0, -5.4, "l5 8.6h-10z"), ("hollow", 0, -5.2, "l5.2 5.2l-5.2 5.2l-5.2 -5.2z"),
                          ("stroke", -3.8, -3.8, "l7.6 7.6m0 -7.6l-7.6 7.6"), ("hollow", 0, 5.4, "l5 -8.6h-10z")
                          ][style % 6 - 2]
    return f'<path class="{kind}" d="M{x + dx:.1f} {y + dy:.1f}{path}">{inside}</path>'


def curve_lines(panel, curve):
    at = [(panel.place_x(panel.x_scale(x)), *(panel.place_y(math.log10(value)) for value in (y, least, most)))
          for x, y, least, most in curve.points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in at)
    yield f'<g color="{COLOURS[curve.style % len(COLOURS)]}">'
    yield f'<path class="curve" stroke-dasharray="{DASHES[curve.style % len(DASHES)]}" d="M{path}"/>'
    for (x, y, least, most), point in zip(at, curve.points):
        if most < least:
            yield line("range", x, least, x, most)
        size = bytes_text(point[0]) + " B" if panel.bytes_x else value_text(point[0])
        yield marker(curve.style, x, y, f"{size}: {value_text(point[1])}")
    yield "</g>"


def legend_lines(panel, curve, index):
    y = panel.top + HEAD + 10 + LEGEND_STEP * index
    name = curve.name if len(curve.name) <= LABEL_MOST else curve.name[:LABEL_MOST - 3] + "..."
    yield f'<g color="{COLOURS[curve.style % len(COLOURS)]}">'
    yield f'<path class="curve" stroke-dasharray="{DASHES[curve.style % len(DASHES)]}" d="M{LEGEND} {y}h40"/>'
    yield marker(curve.style, LEGEND + 20, y)
    yield "</g>"
    yield text("label", LEGEND + 48, y + 4, name)


def panel_lines(panel):
    yield (f'<text class="title" x="{LEFT}" y="{panel.top + HEAD - 20}">{html.escape(panel.title)} '
           f'<tspan class="unit">{html.escape(panel.unit)}</tspan></text>')
    yield from x_axis(panel)
    yield from y_axis(panel)
    yield f'<rect class="frame" x="{LEFT}" y="{panel.top + HEAD}" width="{RIGHT - LEFT}" height="{AREA}"/>'
    for index, curve in enumerate(panel.curves):
        yield from curve_lines(panel, curve)
        yield from legend_lines(panel, curve, index)


def draw(title, panels):
    """The picture: the panels with curves, one below the other; "" when there is none."""
    panels = [panel for panel in panels if panel.curves]
    if not panels:
        return ""
    for index, panel in enumerate(panels):
        panel.top = FOOT + index * PANEL
    height = FOOT + len(panels) * PANEL + FOOT
    lines = ['<?xml version="1.0" encoding="UTF-8"?>',
             f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
             f'height="{height}">', f"<title>{html.escape(title)}</title>", f"<style>\n{STYLE}\n</style>",
             '<rect width="100%" height="100%" fill="#fff"/>']
    for panel in panels:
        lines += panel_lines(panel)
    return "\n".join(lines + ["</svg>"]) + "\n"


# ---- what results of the benchmark give ----

CONTESTANTS = ["causeway", "reference", "ref. tool", "bare"]
SIZE = r"(?P<x>\d+ [KMG]?i?B)"
MESSAGE = "message size (bytes)"
# Name of the file, title, suite, what the labels of its rows look like (`place` names the panel), unit, x axis.
PICTURES = [
    ("latency", "Latency of tag messages", "latency", rf"^(?P<place>\w+), {SIZE}, median$", "one way, median (\u00b5s)",
     MESSAGE),
    *[(f"bandwidth-{suite}", f"Bandwidth of {what}", "bandwidth" if suite == "tag" else suite,
       rf"^(?P<place>\w+), {SIZE}$", "(MiB/s)", MESSAGE)
      for suite, what in (("tag", "tag messages"), ("am", "active messages"), ("stream", "streams"))],
    *[(f"bandwidth-{what}", f"Bandwidth of {what}", "rma", rf"^(?P<place>\w+), {what}(?P<more>, user memory)?, {SIZE}$",
       "(MiB/s)", MESSAGE) for what in ("put", "get")],
    ("matching", "Cost of a message beside others that wait", "matching", r"^(?P<place>.*), (?P<x>[\d,]+) queued$",
     "(ns)", "receives or messages in the queue"),
]


def number_of(words):
    """Bytes of "64 KiB", or a plain number."""
    number, _, unit = words.replace(",", "").partition(" ")
    return int(number) << {"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[unit]


def middle(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def panels_of(picture, rows):
    _, title, suite, pattern, unit, x_title = picture
    places = {}
    for row in rows:
        found = re.match(pattern, row["label"]) if row["suite"] == suite else None
        if found:
            for name, samples in row["samples"].items():
                if samples and name in CONTESTANTS:
                    point = (number_of(found["x"]), middle(samples), min(samples), max(samples))
                    place = found["place"] + (found.groupdict().get("more") or "")
                    places.setdefault(place, {}).setdefault(name, []).append(point)
    for place, curves in places.items():
        # A single point is no curve: the table has it.
        drawn = [Curve(name, curves[name], style) for style, name in enumerate(CONTESTANTS)
                 if len(curves.get(name, [])) > 1]
        yield Panel(f"{title}: {place}", unit, x_title, drawn, x_title == MESSAGE)


def pictures(rows):
    """Name of the file and (title, suite, SVG) of each picture that the rows give."""
    drawn = {}
    for picture in PICTURES:
        svg = draw(picture[1], list(panels_of(picture, rows)))
        if svg:
            drawn[picture[0] + ".svg"] = (picture[1], picture[2], svg)
    return drawn


def write(rows, folder):
    """Writes all of them into `folder`, which is made if need be."""
    for name, (_, _, svg) in pictures(rows).items():
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(svg)


def main(arguments):
    if len(arguments) < 2:
        sys.stderr.write(__doc__.rsplit("\n\n", 1)[-1])
        return 2
    rows = []
    try:
        for path in arguments[:-1]:
            with open(path, encoding="utf-8") as file:
                rows += json.load(file)["rows"]
        write(rows, arguments[-1])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
