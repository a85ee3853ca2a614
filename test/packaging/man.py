#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the manual pages of a build. Usage: man.py CASE BUILD SOURCE MAP...

CASE: pages (each function that a library exports, each tool and each setting is described, nothing of a comment is
lost, references lead somewhere), lint (mandoc and groff have nothing to say), self_test (both notice what is wrong).
Status 77: what is needed is not on this machine.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PLAIN_HEADER = re.compile(r"/\*\*(?!<)((?:(?!\*/).)*)\*/\s*(?:static inline )?[\w\s*]*?\b(\w+)\(", re.DOTALL)
REFERENCE = re.compile(r"\\f\[B\]([\w.\\-]+)\\f\[R\]\((\d)\)")
FRAGILE = "WARNING: .so is fragile"  # our aliases are such pages on purpose


def exported(maps):
    """Names of functions in the export maps, without data objects and what a map says is no part of the interface."""
    names = []
    for path in maps:
        with open(path, encoding="utf-8") as file:
            interface = file.read().partition("/* No part of the interface")[0]
        names += re.findall(r"^\s+(uc\w+);", interface, re.MULTILINE)
    return [name for name in names if not name.endswith(("_names", "_descs", "_opts"))]


def read_pages(directory):
    """{"name.section": source}"""
    pages = {}
    for section in sorted(os.listdir(directory)):
        for name in sorted(os.listdir(os.path.join(directory, section))):
            with open(os.path.join(directory, section, name), encoding="utf-8") as file:
                pages[name] = file.read()
    return pages


def comments(source):
    """{function: its doc comment}, of all public headers."""
    found = {}
    for directory, _, names in os.walk(os.path.join(source, "include")):
        for name in names:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                for comment, function in PLAIN_HEADER.findall(file.read()):
                    found.setdefault(function, comment)
    return found


def check_function(name, page, comment):
    """What is missing on the page of a function."""
    if name.startswith("ucp_") and "@thread" not in comment:
        yield "%s: no thread rule" % name
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
        if "\n.SH %s\n" % heading not in page:
            yield "%s: no section %s" % (name, heading)
    if not re.search(r"\n\.SH SYNOPSIS\n(?:.*\n)*?.*\b%s\(" % name, page):
        yield "%s: not in its synopsis" % name
    for parameter in re.findall(r"@param\s+(\w+)", comment):
        if "\n.TP\n\\f[I]%s\\f[R]\n" % parameter not in page:
            yield "%s: parameter %s is not described" % (name, parameter)
    for status in set(re.findall(r"UCS_ERR_\w+", comment)):
        if "\n.TP\n\\f[B]%s\\f[R]\n" % status not in page:
            yield "%s: error %s is not described" % (name, status)
    if "@return" in comment and "\n.SH RETURN VALUE\n" not in page:
        yield "%s: no return value" % name
    for tag, heading in (("@thread", "THREADS"), ("@code", "EXAMPLES")):
        if tag in comment and "\n.SH %s\n" % heading not in page:
            yield "%s: no section %s" % (name, heading)


def settings(source):
    """Variables that docs/CONFIG.md describes."""
    with open(os.path.join(source, "docs", "CONFIG.md"), encoding="utf-8") as file:
        return re.findall(r"^\| `(UCX_\w+)` \|", file.read(), re.MULTILINE)


def check_tool(name, page, usage):
    """Which options of --help are not on the page, and which of its headings are sentences."""
    plain = page.replace("\\-", "-")
    for title in re.findall(r"^\.SS (.{60,}|.*\. .*)$", plain, re.MULTILINE):
        yield "%s: a heading is a sentence: %s" % (name, title)
    for names in re.findall(r"^ {1,10}(-[^ ].*?)(?:  .*)?$", usage, re.MULTILINE):
        for option in re.findall(r"(?:^|[ ,|])(--?\w[\w-]*)", names):
            if not re.search(r"\n\.TP\n(?:.*, )?\\f\[B\]%s\\f\[R\]" % re.escape(option), plain):
                yield "%s: option %s is not on its page" % (name, option)


def check_pages(pages, names, tools, variables, described):
    listed = re.findall(r"^\.TP\n\\f\[B\](UCX_\w+)\\f\[R\]", pages["ucx.conf.5"], re.MULTILINE)
    complaints = ["%s: not in ucx.conf(5)" % name for name in variables if name not in listed]
    for name in names:
        page = pages.get(name + ".3")
        if page is None:
            complaints.append("%s: there is no manual page" % name)
            continue
        alias = re.fullmatch(r"\.so man3/(\w+\.3)\n", page)
        if alias is not None:
            page = pages.get(alias.group(1), "")
        complaints += check_function(name, page, described.get(name, ""))
    for tool, usage in tools.items():
        if tool + ".1" not in pages:
            complaints.append("%s: there is no manual page" % tool)
        else:
            complaints += check_tool(tool, pages[tool + ".1"], usage)
    for name, page in pages.items():
        target = re.fullmatch(r"\.so man\d/([\w.]+)\n", page)
        if target is not None and (target.group(1) not in pages or pages[target.group(1)].startswith(".so")):
            complaints.append("%s: stands for %s, which is no page" % (name, target.group(1)))
        for reference in REFERENCE.findall(page):
            reference = "%s.%s" % reference
            if reference.replace("\\-", "-") not in pages:
                complaints.append("%s: refers to %s, which is no page" % (name, reference))
    return complaints


def lint(directory):
    """What mandoc and groff complain about; None if there is neither."""
    files = [os.path.join(directory, section, name) for section in sorted(os.listdir(directory))
             for name in sorted(os.listdir(os.path.join(directory, section)))]
    complaints, ran = [], False
    commands = (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-ww", "-mandoc", "-Tutf8", "-z"])
    for command in commands:
        if shutil.which(command[0]) is None:
            print("There is no %s on this machine." % command[0])
            continue
        ran = True
        result = subprocess.run(command + files, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False)
        complaints += [line for line in result.stdout.splitlines() if FRAGILE not in line]
    return complaints if ran else None


def self_test(pages, *rest):
    """Pages with one thing taken away or broken, each of which must be noticed."""
    def without(name, text, instead=""):
        changed = dict(pages)
        changed[name] = changed[name].replace(text, instead)
        return changed

    missing = {name: page for name, page in pages.items() if name != "ucp_mem_map.3"}
    broken = [
        (missing, r"ucp_mem_map: there is no manual page"),
        ({name: page for name, page in pages.items() if name != "ucx_perftest.1"}, r"ucx_perftest: there is no"),
        (without("ucx_perftest.1", "\n.TP\n\\f[B]\\-t\\f[R]"), r"ucx_perftest: option -t"),
        (without("ucx_info.1", "\\f[B]\\-\\-why"), r"ucx_info: option --why"),
        (without("ucx_info.1", ".SS How", ".SS How it is done. Or not"), r"ucx_info: a heading is a sentence"),
        (without("ucp_mem_map.3", "\\f[I]params\\f[R]\n", "\\f[I]others\\f[R]\n"), r"ucp_mem_map: parameter params"),
        (without("ucp_mem_map.3", "\n.TP\n\\f[B]UCS_ERR_UNREACHABLE\\f[R]"), r"ucp_mem_map: error UCS_ERR_UNREACHABLE"),
        (without("ucp_mem_map.3", ".SH RETURN VALUE"), r"ucp_mem_map: no return value"),
        (without("ucp_mem_map.3", ".SH THREADS"), r"ucp_mem_map: no section THREADS"),
        (without("ucp_mem_map.3", ".SH EXAMPLES"), r"ucp_mem_map: no section EXAMPLES"),
        (without("ucp_params_field.3", "params_t", "param_t"), r"ucp_params_field\.3: stands for"),
        (without("ucx.conf.5", "\\f[B]UCX_TLS\\f[R]"), r"UCX_TLS: not in ucx\.conf"),
        (without("ucp_mem_map.3", "\\f[B]ucp\\f[R](7)", "\\f[B]ucp\\f[R](8)"), r"ucp_mem_map\.3: refers to ucp\.8"),
    ]
    missed = [expected for changed, expected in broken
              if not any(re.match(expected, c) for c in check_pages(changed, *rest))]
    if not any("no thread rule" in c for c in check_function("ucp_mem_map", pages["ucp_mem_map.3"], "Map memory.")):
        missed.append("a function without a thread rule")
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(os.path.join(directory, "man3"))
        with open(os.path.join(directory, "man3", "bad.3"), "w", encoding="utf-8") as file:
            file.write('.TH bad 3 2026-01-01 "a" "b"\n.SH NAME\nbad \\- bad\n.SH BAD\n.RE\n.nosuch \\*[undefined]\n')
        if lint(directory) == []:
            missed.append("lint of a bad page")
    return ["not noticed: %s" % expected for expected in missed]


def main():
    case, build, source, maps = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    directory = os.path.join(build, "man")
    if not os.path.isdir(directory):
        print("SKIPPED: this build has no manual pages (Debian: pandoc)")
        sys.exit(77)
    if case == "lint":
        complaints = lint(directory)
        if complaints is None:
            print("SKIPPED: neither mandoc nor groff is on this machine.")
            sys.exit(77)
    else:
        pages, names = read_pages(directory), exported(maps)
        if len(names) < 100:
            sys.exit("the export maps name %d functions only: they were not read right" % len(names))
        programs = os.path.join(build, "bin")
        tools = {name: subprocess.run([os.path.join(programs, name), "--help"], stdout=subprocess.PIPE, text=True,
                                      timeout=60, check=True).stdout
                 for name in os.listdir(programs) if re.fullmatch(r"ucx_[a-z]+", name)}
        variables = settings(source)
        if len(variables) < 50:
            sys.exit("docs/CONFIG.md names %d settings only: it was not read right" % len(variables))
        arguments = (pages, names + ["ucp_init"], tools, variables, comments(source))
        complaints = self_test(*arguments) if case == "self_test" else check_pages(*arguments)
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
