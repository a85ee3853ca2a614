#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the site shows as code is code: examples.py ROOT MAN INCLUDE COMPILER.

- Every synopsis of a manual page of section 3 is given to the C compiler as it stands, after the header that it names:
  a prototype or a type that differs from the header's is an error.
- Every indented program of the documents in Python is compiled (the tests of python/ run them), every line of shell is
  read by `sh -n`. Other indented blocks are drawings and output.
"""

import glob
import os
import re
import subprocess
import sys

SHELL = re.compile(r"^(\./|[A-Z_]+=\S+ |mpirun|oshrun|cmake |cc |sh |pip |head |test/|bench/|target/|ucx_)")


def blocks(path):
    """Indented blocks of a document, without the indent."""
    with open(path, encoding="utf-8") as file:
        for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", file.read(), re.MULTILINE):
            text = re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n")
            if text:
                yield text + "\n"


def synopsis(path):
    """Headers and declarations of a manual page."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH ", file.read(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"\\f[A-Z]", "", found.group(1)) if found else ""
    lines = [line.replace("\\-", "-").replace("\\e", "\\") for line in text.split("\n") if not line.startswith(".")]
    return ([line for line in lines if line.startswith("#include")],
            "\n".join(line for line in lines if not line.startswith("#include")).strip())


def check_synopses(man, include, compiler):
    """Number of declarations; raises with what the compiler says."""
    headers, declarations = [], []
    for path in sorted(glob.glob(os.path.join(man, "man3", "*.3"))):
        named, text = synopsis(path)
        headers += [line for line in named if line not in headers]
        name = os.path.basename(path)[:-2]
        if text and not re.match(re.escape(name) + r"\(", text):  # else a macro, which has no declaration
            declarations.append("#ifndef %s\n#line 1 \"%s\"\n%s\n#endif\n" % (name, os.path.basename(path), text))
    done = subprocess.run([compiler, "-std=gnu17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-"] +
                          ["-I" + each for each in include.split(":")], text=True, check=False, capture_output=True,
                          input="\n".join(headers + declarations))
    assert done.returncode == 0, done.stderr
    return len(declarations)


def check_documents(root):
    """Numbers of programs in Python and of commands."""
    programs = commands = 0
    names = glob.glob(os.path.join(root, "**", "*.md"), recursive=True)
    for path in sorted(name for name in names if "/build" not in name[len(root):]):
        for text in blocks(path):
            if re.match(r"(import|from) \w+", text):
                compile(text, path, "exec")
                programs += 1
                continue
            for part in filter(SHELL.match, text.split("\n\n")):
                done = subprocess.run(["sh", "-n"], input=part, text=True, check=False, capture_output=True)
                assert done.returncode == 0, "%s: %s\n%s" % (path, done.stderr, part)
                commands += 1
    return programs, commands


def main():
    root, man, include, compiler = sys.argv[1:5]
    declared = check_synopses(man, include, compiler)
    programs, commands = check_documents(root)
    print("%d synopses, %d programs, %d commands" % (declared, programs, commands))
    assert declared > 100 and programs >= 1 and commands >= 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
