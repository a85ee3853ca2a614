#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The style that a program can see.

Sources: an SPDX line first (behind #! where there is one), then in src/ a comment of at most 15 lines that says what
the file is for; at most 120 columns; no tabs, no blanks at the ends of lines, a line feed at the end and no blank line
before it; in C and Python no conditional operator within another. Everywhere: no marks of unfinished work, and no paths
that only one machine has.
In src/ nothing ends the program, installs signal handlers or runs before main; style.txt lists the exceptions (PATH
NAME REASON), and one that nobody needs any more is an error. Where src/ moves the bytes of programs, what may be long
is copied by base/bytes.h, which knows where memcpy is slow; memcpy and memmove are for constant lengths, for what two
ends exchange on demand, and for what style.txt lists with its length.
"""

import ast
import os
import re

import tree

MAX_COLUMNS, MAX_HEAD = 120, 15
SOURCES = (".c", ".h", ".cc", ".def", ".map", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in")
C_SOURCES = (".c", ".h", ".cc", ".def", ".map")
TEXTS = SOURCES + (".md", ".txt", ".json", ".yml", ".yaml", ".pml")
SPDX = "SPDX-License-Identifier: BSD-3-Clause"
HAS_NO_HEAD = re.compile(r"packaging/|.*\.in$")  # what is generated from them begins otherwise
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
MACHINE = re.compile(r"(?<![\w.$}~)>\]*/-])/(" + "|".join(["home", "root", "Users", "work", "mnt", "media", "srv"]) +
                     r")/\w")
EXCEPTIONS = "test/checks/style.txt"
FORBIDDEN = [
    (re.compile(r"\b(abort|exit|_exit|_Exit|quick_exit|atexit)\s*\("), "ends the program; return a status"),
    (re.compile(r"\b(signal|sigaction|sigprocmask|raise)\s*\("), "signals belong to the program"),
    (re.compile(r"\b(con|de)structor\b"), "runs outside of calls; do it at the first call that needs it"),
    (re.compile(r"\b(system|popen|fork|vfork)\s*\("), "starts processes"),
    (re.compile(r"\b(sprintf|vsprintf|gets)\s*\("), "cannot know the size of its target"),
]

MOVES_BYTES = tuple("src/%s/" % name for name in ("mem", "proto", "tag", "am", "stream", "rma", "rndv", "access", "msg",
                                                  "transport"))
COPY = re.compile(r"\bmem(?:cpy|move)\(")
STATEMENT = re.compile(r"\b(if|while|for|switch) *$")
DIRECTIVE = re.compile(r"^ *#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
IS_SHORT = re.compile(r"[A-Z0-9_]+$|.*\bsizeof\(|(.*->)?(hello|reply|address)_length$")


def head_lines(text):
    """How many lines of text the comment under the SPDX line has; None if there is none."""
    match = re.match(r"/\*[^\n]*\*/\n+/\*(.*?)\*/", text, re.DOTALL)
    if match is None:
        return None
    return len([line for line in match.group(1).split("\n") if line.strip(" *")])


def check_source(path, text, complaints):
    lines = text.split("\n")
    spdx = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if SPDX not in spdx and not HAS_NO_HEAD.match(path):
        complaints.append("%s: the first line is no SPDX line" % path)
    if path.startswith("src/") and path.endswith((".c", ".h")):
        head = head_lines(text)
        if head is None:
            complaints.append("%s: no comment below the SPDX line says what the file is for" % path)
        elif head > MAX_HEAD:
            complaints.append("%s: the comment at the head has %d lines, more than %d" % (path, head, MAX_HEAD))
    for number, line in enumerate(lines):
        if len(line) > MAX_COLUMNS:
            complaints.append("%s:%d: %d columns, more than %d" % (path, number + 1, len(line), MAX_COLUMNS))
        if "\t" in line:
            complaints.append("%s:%d: a tab" % (path, number + 1))
        if line != line.rstrip():
            complaints.append("%s:%d: blanks at the end of the line" % (path, number + 1))
    if not text.endswith("\n") or text.endswith("\n\n"):
        complaints.append("%s: must end with one line feed" % path)


def load_exceptions(root):
    """{(path, name): it has a reason}"""
    lines = tree.read(root, EXCEPTIONS).split("\n") if os.path.exists(os.path.join(root, EXCEPTIONS)) else []
    rows = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return {tuple((row + [""])[:2]): len(row) == 3 for row in rows}


def check_forbidden(path, text, complaints, exceptions, used):
    for number, line in enumerate(tree.code_only(text).split("\n")):
        for pattern, reason in FORBIDDEN:
            match = pattern.search(line)
            name = match.group().rstrip(" (") if match is not None else None
            if exceptions.get((path, name)):
                used.add((path, name))
            elif match is not None:
                complaints.append("%s:%d: %s: %s" % (path, number + 1, name, reason))


def last_argument(text):
    """Of a call whose opening parenthesis is right before the text."""
    depth, begin = 1, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return re.sub(r"\s", "", text[begin:at])
        if letter == "," and depth == 1:
            begin = at + 1
    return ""


def nested_in(code):
    """Offsets of each `?` that is within another conditional operator or has one in its condition."""
    found = []
    stack = [[False, False, False]]  # per bracket: had a `?`; had one in brackets; is the head of a statement
    for at, letter in enumerate(code):
        if letter in "([{":
            stack.append([False, False, letter == "(" and STATEMENT.search(code[max(0, at - 10):at]) is not None])
        elif letter in ")]}" and len(stack) > 1:
            had, had_inside, is_head = stack.pop()
            if letter == "}":
                stack[-1][:2] = [False, False]
            elif not is_head:
                stack[-1][1] |= had or had_inside
        elif letter in ";,":
            stack[-1][:2] = [False, False]
        elif letter == "?":
            if stack[-1][1] or any(level[0] for level in stack):
                found.append(at)
            stack[-1][0] = True
    return found


def check_nested(path, text, complaints):
    if path.endswith(".py"):
        outer = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.IfExp)]
        numbers = [node.lineno for node in outer if sum(isinstance(inner, ast.IfExp) for inner in ast.walk(node)) > 1]
    else:
        code = tree.code_only(text)
        parts = [(found.start(), found.group()) for found in DIRECTIVE.finditer(code)]  # each is a text of its own
        parts.append((0, DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)))
        numbers = [code.count("\n", 0, start + at) + 1 for start, part in parts for at in nested_in(part)]
    for number in sorted(set(numbers)):
        complaints.append("%s:%d: a conditional operator within another" % (path, number))


def check_copies(path, text, complaints, exceptions, used):
    code = tree.code_only(text)
    for match in COPY.finditer(code):
        length = last_argument(code[match.end():])
        name = "%s%s)" % (match.group(), length)
        if exceptions.get((path, name)):
            used.add((path, name))
        elif not IS_SHORT.match(length):
            complaints.append("%s:%d: %s: cw_bytes_copy_any or cw_bytes_move of base/bytes.h, unless it is short" %
                              (path, code.count("\n", 0, match.start()) + 1, name))


def check(root):
    complaints, exceptions, used = [], load_exceptions(root), set()
    for path in tree.files(root, suffixes=TEXTS) + [p for p in tree.files(root) if p == "causeway"]:
        text = tree.read(root, path)
        if text == "":
            complaints.append("%s: empty" % path)
            continue
        if path.endswith(SOURCES) or path == "causeway":
            check_source(path, text, complaints)
        if path.endswith(C_SOURCES + (".py",)):
            check_nested(path, text, complaints)
        if path.startswith("src/") and path.endswith((".c", ".h")):
            check_forbidden(path, text, complaints, exceptions, used)
        if path.startswith(MOVES_BYTES) and path.endswith((".c", ".h")):
            check_copies(path, text, complaints, exceptions, used)
        for number, line in enumerate(text.split("\n")):
            for pattern, what in ((UNFINISHED, "a mark of unfinished work"), (MACHINE, "a path of one machine")):
                match = pattern.search(line)
                if match is not None:
                    complaints.append("%s:%d: %s: %s" % (path, number + 1, what, match.group()))
    complaints += ["%s: %s does not use %s, or has no reason to: take the line out" % (EXCEPTIONS, path, name)
                   for path, name in sorted(set(exceptions) - used)]
    return complaints


HEAD = "/* %s */\n/*\n * Purpose.\n */\n" % SPDX
SAMPLE = {
    "src/base/good.c": HEAD + 'const char *text = "abort(";\n/* never calls exit() */\nint cw_poller_signal(int a);\n'
                       'char name[] = "/tmp/fileXXXXXX";\n',
    "src/base/nohead.c": "/* %s */\nint a;\n" % SPDX,
    "src/base/nospdx.c": "/* Purpose. */\n/* Purpose. */\n",
    "src/base/longhead.c": "/* %s */\n/*\n%s */\n" % (SPDX, " * Line.\n" * 16),
    "src/base/longhead_is_fine.c": "/* %s */\n/*\n%s */\n" % (SPDX, " * Line.\n" * 15),
    "src/base/wide.c": HEAD + "int a" + "a" * 116 + ";\n",
    "src/base/tab.c": HEAD + "\tint a;\n",
    "src/base/blank.c": HEAD + "int a; \n",
    "src/base/end.c": HEAD + "int a;",
    "src/base/ends.c": HEAD + "int a;\n\n",
    "src/base/ends_program.c": HEAD + "void f(void)\n{\n    exit (1);\n    abort();\n}\n",
    "src/base/excused.c": HEAD + "void f(void)\n{\n    abort();\n}\n",
    "src/msg/copies.c": HEAD + "void f(void)\n{\n    memcpy(a, b, 8);\n    memcpy(&a, b, n * sizeof(a));\n"
                       "    memcpy(a, g(b, 1), MOST_BYTES);\n    memcpy(a, b,\n           of(a, b));\n"
                       "    memmove(a, b, a->length);\n    memcpy(a, b, c - d);\n"
                       "    memcpy(a, b, a->hello_length);\n}\n",
    "src/base/copies.c": HEAD + "void f(void)\n{\n    memcpy(a, b, n);\n}\n",
    EXCEPTIONS: "src/msg/copies.c memcpy(c-d) a reason\nsrc/msg/copies.c memcpy(n) a reason\n"
                "# comment\nsrc/base/excused.c abort a reason\nsrc/base/good.c exit a reason\n"
                "src/base/ends_program.c abort\n",
    "src/base/signals.c": HEAD + "void f(void)\n{\n    signal(1, g);\n    sigaction(1, a, b);\n}\n",
    "src/base/early.c": HEAD + "__attribute__((constructor)) void f(void);\n",
    "src/base/unsafe.c": HEAD + "void f(void)\n{\n    sprintf(a, b);\n}\n",
    "test/unit/nested.c": HEAD + "#define A(a) ((a) ? \\\n    1 : (b) ? 2 : 3)\nint a = b ? c : d ? e : f;\n"
                          "int b = g(c ? 1 : 2) ? 1 : 2;\nint d = c ? 1 : g(e ? 1 : 2);\n",
    "test/unit/not_nested.c": HEAD + "#define A(a) (a) ? 1 : 2\n#define B(a) (a) ? 1 : 2\n"
                              "void f(void)\n{\n    if (g(a ? 1 : 2))\n        b = a ? 1 : 2;\n"
                              "    g(a ? 1 : 2, b ? 1 : 2);\n"
                              "    h(\"? ?\", '?', a ? 1 : 2); /* ? ? */\n}\n",
    "tools/nested.py": "# %s\na = 1 if b else 2 if c else 3\nd = 1 if b else 2\n" % SPDX,
    "test/unit/may_exit.c": HEAD + "void f(void)\n{\n    exit(1);\n}\n",
    "test/unit/unfinished.c": HEAD + "/* %s: more */\n" % ("TO" + "DO"),
    "docs/MACHINE.md": "See %s/somebody/file, but a$/home/x or dir/home/x is none.\n" % ("/ho" + "me"),
    "tools/run.sh": "#!/bin/sh\n# %s\n" % SPDX,
    "tools/bad.sh": "#!/bin/sh\n# No licence.\n",
    "tools/empty.py": "",
}
EXPECTED = [r"nohead.c: no comment", r"nospdx.c: the first line is no SPDX", r"/longhead.c: .* 16 lines",
            r"wide.c:5: 122 columns", r"tab.c:5: a tab", r"blank.c:5: blanks", r"end.c: must end", r"ends.c: must end",
            r"ends_program.c:7: exit", r"ends_program.c:8: abort", r"signals.c:7: signal", r"signals.c:8: sigaction",
            r"early.c:5: constructor", r"unsafe.c:7: sprintf", r"unfinished.c:5: a mark", r"MACHINE.md:1: a path",
            r"unit/nested.c:6: a cond", r"unit/nested.c:7: a cond", r"unit/nested.c:8: a cond",
            r"unit/nested.c:9: a cond", r"tools/nested.py:2: a cond",
            r"bad.sh: the first line", r"empty.py: empty",
            r"msg/copies.c:10: memcpy\(of\(a,b\)\)", r"msg/copies.c:12: memmove\(a->length\)",
            r"msg/copies.c does not use memcpy\(n\)",
            r"good.c does not use exit", r"ends_program.c does not use abort, or has no reason"]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
