#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the site and looks at it in a browser without a window.

    check.py ROOT TARGET [MAN]

All links are checked when the site is made. In the browser a page of each kind must show its text, a search must find
what is asked for, both sets of colours must be used, and nothing may be complained about on the console. Status 77:
there is no chromium (or no python3-markdown).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"]
PAGES = {"index.html": "Causeway", "architecture.html": "Layers", "config.html": "UCX_TLS",
         "why-wireup.html": "hello", "man-ucp_init.3.html": "ucp_init"}


def browse(profile, url, *more):
    """(document after its scripts ran, complaints of the console)."""
    done = subprocess.run(["chromium"] + QUIET + ["--user-data-dir=" + profile, "--dump-dom"] + list(more) + [url],
                          capture_output=True, text=True, timeout=60, check=False)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done.stdout, console


def main():
    root, target = sys.argv[1:3]
    man = sys.argv[3:4]
    line = [sys.executable, "-B", os.path.join(root, "docs/site/site.py")]
    made = subprocess.run(line + (["--man", man[0]] if man else []) + [root, target], check=False)
    if made.returncode != 0:
        return made.returncode
    if shutil.which("chromium") is None:
        print("SKIPPED: no chromium (Debian: chromium)")
        return 77
    complaints = []
    with tempfile.TemporaryDirectory() as profile:
        for page, text in PAGES.items():
            path = os.path.join(os.path.abspath(target), page)
            if not os.path.exists(path):
                complaints += [] if page.startswith("man-") and not man else ["there is no page " + page]
                continue
            document, console = browse(profile, "file://" + path)
            shown = re.search(r"<main>.*</main>", document, re.S)
            if shown is None or text not in shown.group(0):
                complaints.append("%s does not show '%s'" % (page, text))
            complaints += ["%s: %s" % (page, each) for each in console]
        index = "file://" + os.path.join(os.path.abspath(target), "index.html")
        for query, expected in (("wireup", "why-wireup.html"), ("zzyzx", "Nothing has all of these words.")):
            document, console = browse(profile, index + "?q=" + query)
            found = re.search(r'<div id="results".*?</div>', document, re.S)
            if found is None or expected not in found.group(0):
                complaints.append("a search for %s does not find %s" % (query, expected))
            complaints += console
        pictures = []
        for colours in ([], ["--blink-settings=preferredColorScheme=0"]):
            picture = os.path.join(profile, "page-%d.png" % len(pictures))
            browse(profile, index, "--screenshot=" + picture, *colours)
            pictures.append(open(picture, "rb").read() if os.path.exists(picture) else b"")
        if b"" in pictures or pictures[0] == pictures[1]:
            complaints.append("dark and light look alike")
    for complaint in complaints:
        print("FAILED: " + complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
