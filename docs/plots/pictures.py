#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pictures of the handbook: every *.txt beside this script becomes an SVG of the same name.

    pictures.py [FOLDER]      writes them to FOLDER (default: beside the sources)
    pictures.py --check       status 1 if a picture beside the sources is not what its source says

The first line of a source is its kind and title, "KIND: TITLE"; lines with # at the beginning are comments.

  stack      NAME | TEXT                    one bar below the other; several NAME | TEXT with || between share a row
  sequence   A | B                          the parties, in the second line
             A -> B: TEXT                   a message
             A: TEXT                        a note at one party; "all: TEXT" at all of them
  graph      NAME at X Y: TEXT              a box in a grid, TEXT below its name
             NAME -> NAME: TEXT             an arrow, or "--" for a line
"""

import glob
import html
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STYLE = """<style>
text { font: 13px sans-serif; fill: #222; } .name { font-weight: bold; } .title { font-size: 15px; font-weight: bold; }
.box { fill: #eef3f8; stroke: #56789a; } .tip { fill: #56789a; }
.line { stroke: #56789a; stroke-width: 1.4; fill: none; }
.note { fill: #fbf6e3; stroke: #b9a45a; } .dash { stroke: #9aa; stroke-dasharray: 4 4; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .box { fill: #22303c; } .note { fill: #38331f; } }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>
"""


class Picture:
    def __init__(self, title):
        self.parts, self.width, self.height, self.title = [], 0, 0, title
        self.text(12, 24, title, "title")

    def grow(self, x, y):
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, x, y, text, kind="", anchor="start"):
        self.parts.append('<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>' %
                          (x, y, kind, anchor, html.escape(text)))
        before = {"start": 0, "middle": 0.5, "end": 1}[anchor]
        self.grow(x + int(len(text) * 7.4 * (1 - before)) + 12, y + 12)

    def box(self, x, y, width, height, kind="box"):
        self.parts.append('<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="%s"/>' %
                          (x, y, width, height, kind))
        self.grow(x + width + 12, y + height + 12)

    def line(self, x1, y1, x2, y2, arrow=True, kind="line"):
        self.parts.append('<path d="M%d %dL%d %d" class="%s"%s/>' %
                          (x1, y1, x2, y2, kind, ' marker-end="url(#tip)"' if arrow else ""))

    def svg(self):
        return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">\n'
                "<title>%s</title>\n%s%s\n</svg>\n") % (self.width, self.height, self.width, self.height,
                                                       html.escape(self.title), STYLE, "\n".join(self.parts))


def stack(picture, lines):
    top, whole = 40, 860
    for line in lines:
        cells = [cell.split("|", 1) for cell in line.split("||")]
        width = (whole - 8 * (len(cells) - 1)) // len(cells)
        for number, (name, text) in enumerate(cells):
            left = 12 + number * (width + 8)
            picture.box(left, top, width, 44)
            picture.text(left + 10, top + 18, name.strip(), "name")
            picture.text(left + 10, top + 36, text.strip())
        top += 52


def sequence(picture, lines):
    parties = [name.strip() for name in lines[0].split("|")]
    place = {name: 130 + 420 * number for number, name in enumerate(parties)}
    top, drawn = 100, len(picture.parts)
    for line in lines[1:]:
        who, text = (part.strip() for part in line.split(":", 1))
        ends = [end.strip() for end in who.split("->")]
        if len(ends) == 2:
            begin, end = place[ends[0]], place[ends[1]]
            picture.text((begin + end) // 2, top - 6, text, "", "middle")
            picture.line(begin, top, end, top)
            top += 34
            continue
        middle = sum(place.values()) // len(place) if who == "all" else place[who]
        width = max(int(len(text) * 7.2) + 20, 120)
        picture.box(middle - width // 2, top - 18, width, 26, "note")
        picture.text(middle, top - 1, text, "", "middle")
        top += 40
    lanes = []
    for name, left in place.items():
        lanes.append('<path d="M%d 70L%d %d" class="line dash"/>' % (left, left, top - 10))
    picture.parts[drawn:drawn] = lanes
    for name, left in place.items():
        picture.box(left - 60, 44, 120, 28)
        picture.text(left, 63, name, "name", "middle")
    picture.grow(max(place.values()) + 180, top + 10)


def graph(picture, lines):
    boxes = {}
    for line in lines:
        node = re.match(r"(\w[\w ]*) at ([\d.]+) ([\d.]+):\s*(.*)$", line)
        if node is not None:
            name, text = node.group(1), node.group(4)
            width = max(int(max(len(name) * 8.2, len(text) * 7.2)) + 20, 110)
            left, top = 16 + int(float(node.group(2)) * 250), 50 + int(float(node.group(3)) * 90)
            boxes[name] = (left, top, width, 46 if text else 30)
            picture.box(*boxes[name])
            picture.text(left + 10, top + 19, name, "name")
            if text:
                picture.text(left + 10, top + 37, text)
    for line in lines:
        edge = re.match(r"(\w[\w ]*) (->|--) (\w[\w ]*?):\s*(.*)$", line)
        if edge is None:
            continue
        a, b = boxes[edge.group(1)], boxes[edge.group(3)]
        ax, ay, bx, by = a[0] + a[2] / 2, a[1] + a[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2
        begin, end = border(a, bx, by), border(b, ax, ay)
        picture.line(*begin, *end, arrow=edge.group(2) == "->")
        long, level = abs(begin[0] - end[0]) > 350, abs(begin[1] - end[1]) < 12
        part = 0.2 if long and level else 0.5
        x, y = begin[0] + (end[0] - begin[0]) * part, begin[1] + (end[1] - begin[1]) * part
        upward = (end[1] - begin[1]) * (end[0] - begin[0]) < 0
        if level:
            picture.text(int(x), int(y - 7), edge.group(4), "", "middle")
        else:
            picture.text(int(x - 8 if upward else x + 8), int(y - 5), edge.group(4), "", "end" if upward else "start")


def border(box, x, y):
    """Where the line from the middle of the box to (x, y) leaves it."""
    mx, my = box[0] + box[2] / 2, box[1] + box[3] / 2
    dx, dy = x - mx, y - my
    scale = min(box[2] / 2 / abs(dx) if dx else 1e9, box[3] / 2 / abs(dy) if dy else 1e9)
    return mx + dx * scale, my + dy * scale


def draw(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file if line.strip() and not line.startswith("#")]
    kind, title = (part.strip() for part in lines[0].split(":", 1))
    picture = Picture(title)
    {"stack": stack, "sequence": sequence, "graph": graph}[kind](picture, lines[1:])
    return picture.svg()


def main():
    checking = sys.argv[1:] == ["--check"]
    folder = HERE if checking or not sys.argv[1:] else sys.argv[1]
    wrong = 0
    for source in sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        target = os.path.join(folder, os.path.basename(source)[:-len(".txt")] + ".svg")
        made = draw(source)
        if not checking:
            with open(target, "w", encoding="utf-8") as file:
                file.write(made)
        elif not os.path.exists(target) or open(target, encoding="utf-8").read() != made:
            print("%s is not what %s says: run docs/plots/pictures.py" % (target, source))
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
