#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a site of static pages of the documents and the manual pages.

    site.py [--man DIRECTORY] ROOT TARGET

Documents are those of PAGES, in that order; manual pages are those below DIRECTORY.
Links between documents become links between pages; a link to a file that is no page shows the file's name. A link, or
an anchor, that leads nowhere is an error, and so is a document of docs/ that PAGES does not list. Needs
python3-markdown; manual pages need mandoc and are left out without.
"""

import argparse
import glob
import html
import json
import os
import re
import shutil
import subprocess
import sys

try:
    import markdown
except ImportError:
    print("SKIPPED: no module markdown (Debian: python3-markdown)")
    sys.exit(77)

PAGES = [
    ("Begin", ["README.md", "docs/start.md", "docs/STATUS.md", "CHANGELOG.md"]),
    ("Use it", ["docs/use/*.md", "rust/README.md", "python/README.md", "examples/rust/README.md",
                "examples/python/README.md"]),
    ("Operate it", ["docs/operate/settings.md", "docs/operate/failure.md", "docs/operate/security.md",
                    "docs/operate/observe.md", "docs/operate/*.md"]),
    ("Change it", ["docs/ARCHITECTURE.md", "docs/FLOW.md", "docs/TRANSPORT.md", "docs/change/*.md",
                   "test/rdma/README.md"]),
    ("Why", ["docs/why/*.md"]),
    ("Look it up", ["docs/WIRE.md", "docs/CONFIG.md", "docs/reference/*.md"]),
    ("Specification", ["docs/spec/README.md", "docs/spec/*.md"]),
]
HERE = os.path.dirname(os.path.abspath(__file__))
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Causeway</title>
<link rel="stylesheet" href="{up}style.css">
<script src="{up}index.js" defer></script>
<script src="{up}site.js" defer></script>
</head>
<body data-up="{up}">
<header>
<a class="home" href="{up}index.html">Causeway</a>
<input id="search" type="search" placeholder="Search" aria-label="Search" autocomplete="off">
<button id="theme" type="button">Dark or light</button>
</header>
<div id="results" role="region" aria-label="Results" hidden></div>
<div class="columns">
<nav aria-label="Pages">{nav}</nav>
<main>{body}</main>
</div>
</body>
</html>
"""


def slug(text, separator):
    """Anchors as the usual hosts of such documents make them."""
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", separator)


class Page:
    def __init__(self, source, target, title, body):
        self.source, self.target, self.title, self.body = source, target, title, body
        self.anchors = set(re.findall(r'\bid="([^"]+)"', body))


def target_of(source):
    if source == "README.md":
        return "index.html"
    name = source[len("docs/"):] if source.startswith("docs/") else source
    return re.sub(r"\.md$", ".html", name).replace("/", "-").lower()


def title_of(text, default):
    match = re.search(r"^# (.+)$", text, re.M)
    return re.sub(r"[`*]", "", match.group(1)) if match else default


def document(root, source):
    with open(os.path.join(root, source), encoding="utf-8") as file:
        text = file.read()
    extensions = ["tables", "fenced_code", "sane_lists", "toc"]
    body = markdown.markdown(text, extensions=extensions,
                             extension_configs={"toc": {"slugify": slug, "permalink": False}})
    return Page(source, target_of(source), title_of(text, source), body)


def expand(root, patterns):
    """Documents in the order of the patterns, each once."""
    found = []
    for pattern in patterns:
        found += [source for source in sorted(glob.glob(pattern, root_dir=root)) if source not in found]
    return found


def manual(path):
    """A manual page; None where mandoc is missing."""
    done = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", path], capture_output=True, text=True, check=False)
    name = os.path.basename(path)
    if done.returncode not in (0, 2) or not done.stdout:
        raise SystemExit("%s: %s" % (path, done.stderr))
    base, section = name.rsplit(".", 1)
    return Page(None, "man-%s.html" % name, "%s(%s)" % (base, section), done.stdout)


def manuals(directory):
    if directory is None or shutil.which("mandoc") is None:
        return []
    paths = sorted(path for path in glob.glob(os.path.join(directory, "man*", "*")) if os.path.isfile(path))
    # A page that only names another one is a second name of it.
    return [manual(path) for path in paths if not open(path, encoding="utf-8").read().startswith(".so ")]


def relink(root, page, pages, errors):
    """Turns links to documents into links to pages, and notes those that lead nowhere."""
    by_source = {other.source: other for other in pages if other.source}

    def replace(match):
        whole, place, text = match.group(0), html.unescape(match.group(1)), match.group(2)
        if re.match(r"[a-z]+:", place):
            return whole
        name, _, anchor = place.partition("#")
        source = os.path.normpath(os.path.join(os.path.dirname(page.source), name)) if name else page.source
        if source in by_source:
            other = by_source[source]
            if anchor and anchor not in other.anchors:
                errors.append("%s: %s has no heading #%s" % (page.source, source, anchor))
            return '<a href="%s%s">%s</a>' % (other.target, "#" + anchor if anchor else "", text)
        if not os.path.exists(os.path.join(root, source)):
            errors.append("%s: there is no %s" % (page.source, source))
        return '<span class="file" title="%s">%s</span>' % (html.escape(source), text)

    page.body = re.sub(r'<a href="([^"]*)">(.*?)</a>', replace, page.body, flags=re.S)

    def picture(match):
        source = os.path.normpath(os.path.join(os.path.dirname(page.source), match.group(1)))
        if not os.path.exists(os.path.join(root, source)):
            errors.append("%s: there is no picture %s" % (page.source, source))
        return 'src="%s"' % os.path.basename(source)

    page.body = re.sub(r'src="([^"]*)"', picture, page.body)


def navigation(groups, here):
    parts = []
    for title, pages in groups:
        entries = "".join('<li%s><a href="%s">%s</a></li>' %
                          (' class="here"' if page is here else "", page.target, html.escape(page.title))
                          for page in pages)
        opened = " open" if here in pages or title == "Begin" else ""
        parts.append("<details%s><summary>%s</summary><ul>%s</ul></details>" % (opened, html.escape(title), entries))
    return "".join(parts)


def words(page):
    """What the search looks at: a heading and the text below it, each with its place."""
    found = []
    for piece in re.split(r"(?=<h[1-3][ >])", page.body):
        heading = re.match(r'<h[1-3][^>]*?(?:id="([^"]*)")?[^>]*>(.*?)</h[1-3]>', piece, re.S)
        text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", piece))).strip()
        if text:
            anchor = "#" + heading.group(1) if heading and heading.group(1) else ""
            title = re.sub(r"<[^>]+>", "", heading.group(2)) if heading else page.title
            found.append([page.target + anchor, page.title, html.unescape(title).strip(), text[:4000]])
    return found


def main():
    parser = argparse.ArgumentParser(description="Makes a site of static pages.")
    parser.add_argument("--man")
    parser.add_argument("root")
    parser.add_argument("target")
    options = parser.parse_args()
    root, errors = os.path.abspath(options.root), []
    listed = [(title, expand(root, patterns)) for title, patterns in PAGES]
    known = {source for _, sources in listed for source in sources}
    for source in sorted(glob.glob("docs/**/*.md", root_dir=root, recursive=True)):
        if source not in known:
            errors.append("docs/site/site.py does not list " + source)
    groups = [(title, [document(root, source) for source in sources]) for title, sources in listed]
    groups.append(("Manual pages", manuals(options.man)))
    pages = [page for _, group in groups for page in group]
    for page in pages:
        if page.source:
            relink(root, page, pages, errors)
    for error in errors:
        print(error)
    if errors:
        return 1
    os.makedirs(options.target, exist_ok=True)
    for page in pages:
        text = FRAME.format(title=html.escape(page.title), up="", nav=navigation(groups, page), body=page.body)
        with open(os.path.join(options.target, page.target), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(options.target, "index.js"), "w", encoding="utf-8") as file:
        file.write("window.siteIndex = %s;\n" % json.dumps([entry for page in pages for entry in words(page)]))
    for name in ("style.css", "site.js"):
        shutil.copy(os.path.join(HERE, name), options.target)
    draw = os.path.join(root, "docs", "plots", "pictures.py")
    subprocess.run([sys.executable, "-B", draw, options.target], check=True)
    print("%d pages in %s" % (len(pages), options.target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
