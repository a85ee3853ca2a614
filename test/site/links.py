#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No link of the site is dead: links.py HTML.

Each link and picture of a page that stays in the site names a file of it, and the anchor behind # is in that page.
Nothing is loaded from another site.
"""

import html.parser
import os
import sys
import tempfile
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])
        source = values.get("href") if tag == "link" else values.get("src")
        if source and values.get("rel") not in ("canonical", "prev", "next"):
            self.links.append(source)
            self.loaded.append(source)


def read(root):
    """{path: page}"""
    found = {}
    for folder, _, names in os.walk(root):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".html")):
            with open(path, encoding="utf-8") as file:
                found[path] = Page(file.read())
    return found


def check(root):
    """Complaints, and the number of links."""
    pages, complaints, count = read(root), [], 0
    for path, page in sorted(pages.items()):
        if os.path.basename(path) == "404.html":  # its links begin at the root of a server
            continue
        name = os.path.relpath(path, root)
        complaints += ["%s: loads %s" % (name, link) for link in page.loaded if urllib.parse.urlsplit(link).netloc]
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = path
            if parts.path:
                target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path)))
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            if not os.path.exists(target):
                complaints.append("%s: there is no %s" % (name, link))
            elif parts.fragment and target in pages and parts.fragment not in pages[target].anchors:
                complaints.append("%s: no such place: %s" % (name, link))
    return complaints, count


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for name, text in (("a.html", '<p id="x"><a href="b.html#y"><a href="c.html"><a href="#x"><img src="p.svg">'),
                           ("b.html", '<a href="a.html#x"><script src="https://elsewhere/x.js"></script>')):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        expected = ["a.html: no such place: b.html#y", "a.html: there is no c.html", "a.html: there is no p.svg",
                    "b.html: loads https://elsewhere/x.js"]
        assert check(root) == (expected, 5), check(root)


def main():
    self_test()
    complaints, count = check(sys.argv[1])
    print("\n".join(complaints + ["%d links" % count]))
    return 1 if complaints or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
