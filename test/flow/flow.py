#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares docs/FLOW.md with the source and with the calls that really happen.

    flow.py text ROOT                the chains agree with the source: every call stands in its caller, counts are right
    flow.py backtraces ROOT SUBJECT  the chains agree with what gdb sees in the subject; 77 when gdb cannot do that here
    flow.py self-test ROOT           both comparisons notice when a chain is wrong
    flow.py show ROOT SUBJECT TRANSPORT STEP STOP   prints a chain as it happens, for whoever writes the document

A chain stands between <!-- flow: TRANSPORT STEP --> and <!-- end -->, with the word "rule" behind the step when the
rule of the house holds for it. Its lines: FUNCTION FILE, and "by SLOT" when the call is made through a pointer of that
name; "-> NAME(2)" when it ends in a system call; and "= N frames, M indirect" for those lines that lie in src/.
"""

import functools
import os
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "checks"))
import tree  # noqa: E402

MAX_FRAMES, MAX_INDIRECT = 6, 2
REQUIRED = {("shm", "send"), ("tcp", "send"), ("shm", "receive"), ("tcp", "receive"), ("shm", "dial"), ("tcp", "dial"),
            ("shm", "accept"), ("tcp", "accept"), ("shm", "opened"), ("tcp", "opened"), ("shm", "close"),
            ("tcp", "close"), ("shm", "arm"), ("tcp", "arm"), ("shm", "wake"), ("shm", "call"), ("tcp", "call"),
            ("shm", "called"), ("shm", "put"), ("tcp", "put"), ("shm", "get"), ("tcp", "get"), ("shm", "counted"),
            ("shm", "carried")}
SKIP = 77
# Its inline functions are the calls through the slots of transports: no frames of their own.
SLOTS = "src/core/lane.h"


class Chain:
    def __init__(self, transport, step, rule, line):
        self.transport, self.step, self.rule, self.line = transport, step, rule, line
        self.frames, self.syscall, self.counts = [], None, None

    def __str__(self):
        return "docs/FLOW.md:%d (%s %s)" % (self.line, self.transport, self.step)


def parse(text):
    """(chains, complaints)"""
    chains, complaints, chain = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        begin = re.match(r"<!-- flow: (\w+) (\w+)( rule)? -->$", line)
        if begin is not None:
            chain = Chain(begin.group(1), begin.group(2), begin.group(3) is not None, number)
            chains.append(chain)
        elif line == "<!-- end -->":
            chain = None
        elif chain is not None and line and not line.startswith("```"):
            frame = re.match(r"\s*(\w+)\s+((?:src|test)/\S+)(?:\s+by (\w+))?$", line)
            system = re.match(r"\s*-> (\w+)\(2\)$", line)
            counts = re.match(r"\s*= (\d+) frames?, (\d+) indirect$", line)
            if frame is not None:
                chain.frames.append(frame.groups())
            elif system is not None:
                chain.syscall = system.group(1)
            elif counts is not None:
                chain.counts = (int(counts.group(1)), int(counts.group(2)))
            else:
                complaints.append("docs/FLOW.md:%d: not understood: %s" % (number, line))
    return chains, complaints


@functools.lru_cache(maxsize=None)
def sources(root):
    return "\n".join(tree.read(root, path) for path in tree.files(root, ["src"], [".c"]))


@functools.lru_cache(maxsize=None)
def body(root, path, name):
    """The code of a function, or None."""
    text = tree.code_only(tree.read(root, path)) if os.path.exists(os.path.join(root, path)) else ""
    lines = text.split("\n")
    for found, first, count in tree.functions(text):
        if found == name:
            code = "\n".join(lines[first - 1:first - 1 + count])
            return code[code.index("\n{"):]
    return None


@functools.lru_cache(maxsize=None)
def slot_callers(root):
    """[(function, its code)] of the page whose functions call the slots of transports."""
    names = [found for found, _, _ in tree.functions(tree.code_only(tree.read(root, SLOTS)))]
    return [(name, body(root, SLOTS, name)) for name in names]


def calls_slot(root, code, slot):
    """Whether the code calls through the slot, by itself or by a function of that page."""
    call = re.compile(r"\b%s(\[[^\]]*\])?\(" % slot)
    return call.search(code) or any(call.search(inside) and re.search(r"\b%s\(" % name, code)
                                    for name, inside in slot_callers(root))


@functools.lru_cache(maxsize=None)
def is_assigned(root, slot, name):
    """Whether the function is put into the slot, into an array, or passed to somebody who calls it."""
    pattern = re.compile(r"(\b%s|\])\s*=\s*\{?%s\b|, %s[,)]" % (slot, name, name))
    return pattern.search(sources(root)) is not None


def check_call(root, chain, caller, callee):
    code = body(root, caller[1], caller[0]) or ""
    name, path, slot = callee
    if slot is None:
        return [] if re.search(r"(?<!->)(?<!\.)\b%s\(" % name, code) else ["%s: %s does not call %s directly" %
                                                                      (chain, caller[0], name)]
    complaints = []
    if not calls_slot(root, code, slot):
        complaints.append("%s: %s makes no call through %s" % (chain, caller[0], slot))
    if path.startswith("src/") and not is_assigned(root, slot, name):
        complaints.append("%s: nothing in src/ sets %s to %s" % (chain, slot, name))
    return complaints


def check_text(root, text):
    chains, complaints = parse(text)
    missing = REQUIRED - {(chain.transport, chain.step) for chain in chains}
    complaints += ["docs/FLOW.md: no chain for %s %s" % which for which in sorted(missing)]
    for chain in chains:
        ours = [frame for frame in chain.frames if frame[1].startswith("src/")]
        counts = (len(ours), len([frame for frame in chain.frames if frame[2] is not None]))
        if chain.counts != counts:
            complaints.append("%s: has %d frames, %d indirect" % ((chain,) + counts))
        if chain.rule and (counts[0] > MAX_FRAMES or counts[1] > MAX_INDIRECT):
            complaints.append("%s: more than %d frames or %d indirect calls" % (chain, MAX_FRAMES, MAX_INDIRECT))
        for name, path, _ in ours:
            if body(root, path, name) is None:
                complaints.append("%s: there is no function %s in %s" % (chain, name, path))
        for caller, callee in zip(chain.frames, chain.frames[1:]):
            complaints += check_call(root, chain, caller, callee)
    return complaints


def run_gdb(subject, transport, step, stop):
    commands = ["set debuginfod enabled off", "set pagination off", "set width 0", "set print frame-arguments none",
                "break flow_begin", "run", "delete", stop, "continue", "backtrace", "kill"]
    arguments = ["gdb", "-batch", "-nx"]
    for command in commands:
        arguments += ["-ex", command]
    done = subprocess.run(arguments + ["--args", subject, transport, step], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def backtrace(root, output):
    """[(function, path)] of the frames whose source is in the tree, outermost first."""
    found = []
    prefix = os.path.realpath(root) + os.sep
    for line in output.split("\n"):
        match = re.match(r"#\d+\s+(?:0x[0-9a-f]+ in )?(\w+) \(.*\) at (\S+):\d+$", line)
        if match is None:
            continue
        path = match.group(2)
        # A compiler cache makes names relative. So are those of the C library's sources, which must not become ours.
        inner = re.match(r"(?:\.\./)+((?:src|test)/\S+)$", path)
        path = os.path.realpath(os.path.join(root, inner.group(1)) if inner is not None else path)
        if path.startswith(prefix) and path != prefix + SLOTS and os.path.exists(path):
            found.append((match.group(1), path[len(prefix):]))
    return found[::-1]


def compare(root, chain, output):
    real = backtrace(root, output)
    names = [name for name, _ in real]
    first = names.index(chain.frames[0][0]) if chain.frames and chain.frames[0][0] in names else 0
    if real[first:] == [frame[:2] for frame in chain.frames]:
        return []
    return ["%s: in reality it is" % chain] + ["    %s %s" % frame for frame in real[first:]] + \
           ([] if real else ["    (nothing; gdb says:)", output])


def stop_of(chain):
    if chain.syscall is not None:
        # the C library of AArch64 has no epoll_wait to call
        other = {"epoll_wait": "epoll_pwait"} if platform.machine() == "aarch64" else {}
        return "catch syscall %s" % other.get(chain.syscall, chain.syscall)
    return "break %s:%s" % (os.path.basename(chain.frames[-1][1]), chain.frames[-1][0])


def check_backtraces(root, subject, text):
    if shutil.which("gdb") is None:
        print("SKIPPED: there is no gdb on this machine.")
        sys.exit(SKIP)
    complaints = []
    for chain in parse(text)[0]:
        output = run_gdb(subject, chain.transport, chain.step, stop_of(chain))
        if re.search(r"ptrace: |Could not trace the inferior|Cannot insert breakpoint", output):
            print("SKIPPED: gdb may not trace programs here:\n" + output)
            sys.exit(SKIP)
        found = compare(root, chain, output)
        complaints += found
        print("%s: %s" % (chain, "differs" if found else "%d frames, as written" % len(chain.frames)))
    return complaints


def self_test(root, text):
    """Spoils the document in every way that must be noticed."""
    complaints = ["the document itself: " + c for c in check_text(root, text)]
    chains = parse(text)[0]
    chain = next(c for c in chains if (c.transport, c.step) == ("tcp", "send"))
    block = text[text.index("<!-- flow: tcp send rule -->"):]
    block = block[:block.index("<!-- end -->")]
    lines = [line for line in block.split("\n") if " src/" in line]
    spoiled = {
        "a frame left out": block.replace(lines[2] + "\n", ""),
        "two frames exchanged": block.replace(lines[1], "@").replace(lines[2], lines[1]).replace("@", lines[2]),
        "another file": block.replace("src/os/net.c", "src/os/poll.c"),
        "an indirect call hidden": re.sub(r"\s+by \w+", "", block),
        "an indirect call invented": block.replace(lines[1], lines[1] + " by flush"),
        "a wrong count": re.sub(r"= \d+ frames", "= 1 frames", block),
        "a line that says nothing": block.replace(lines[1], lines[1] + "\nand so on"),
        "a chain gone": "",
    }
    for what, instead in spoiled.items():
        if instead == block or not check_text(root, text.replace(block, instead)):
            complaints.append("not noticed: " + what)
    long_chain = block.replace(lines[-1], "\n".join([lines[-1]] * MAX_FRAMES))
    if not any("more than" in c for c in check_text(root, text.replace(block, long_chain))):
        complaints.append("not noticed: a chain that is too long")
    real = ["#%d  0x00 in %s (...) at %s:1" % (i, f[0], os.path.join(os.path.realpath(root), f[1]))
            for i, f in enumerate(reversed(chain.frames))]
    if compare(root, chain, "\n".join(["#0  0x00 in __libc_send (...) at ../send.c:28"] + real)):
        complaints.append("a backtrace that agrees is refused")
    frame = "#0  0x00 in cw_lane_send_short (...) at %s:1" % os.path.join(os.path.realpath(root), SLOTS)
    if compare(root, chain, "\n".join(real[:2] + [frame] + real[2:])):
        complaints.append("a call through a slot counts as a frame")
    for what, output in (("a frame too few", real[1:]), ("a frame too many", [real[0]] + real), ("nothing", []),
                         ("another function", [real[0].replace(chain.frames[-1][0], "other")] + real[1:])):
        if not compare(root, chain, "\n".join(output)):
            complaints.append("not noticed in a backtrace: " + what)
    return complaints


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    mode, root = sys.argv[1], os.path.abspath(sys.argv[2])
    if mode == "show":
        print("\n".join("%s %s" % f for f in backtrace(root, run_gdb(*sys.argv[3:7]))))
        return 0
    text = tree.read(root, "docs/FLOW.md")
    complaints = {"text": lambda: check_text(root, text), "self-test": lambda: self_test(root, text),
                  "backtraces": lambda: check_backtraces(root, sys.argv[3], text)}[mode]()
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
