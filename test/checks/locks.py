#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No locked instruction on the path of a message that one thread sends over shared memory, beside what the ring needs.

Usage: locks.py LIBRARY | --self-test

Disassembles the library (x86-64, objdump) and walks from the public send calls through every function that they call or
jump to. Calls through pointers are followed as POINTERS says. The walk ends at the functions of STOPS, each with the
reason why it is no part of that path. A function that has a locked instruction - a lock prefix, an exchange with
memory, a full fence - and is not in ALLOWED fails the check, and so does a call of a function of the C library that is
not known to take no lock. Names of these tables that are not found fail it, too, so that it cannot pass for nothing.
"""
import platform
import re
import shutil
import subprocess
import sys

SKIPPED = 77
ROOTS = ("ucp_tag_send_nbx", "ucp_am_send_nbx", "ucp_stream_send_nbx")
POINTERS = {
    "cw_tag_send": ("cw_shm_send_short",),
    "cw_am_send": ("cw_shm_send_short",),
    "cw_stream_send": ("cw_shm_send_short",),
    "send_on_stack": ("cw_shm_send_short",),
    "ucp_tag_send_nbx": ("ring_doorbell",),
    "ucp_am_send_nbx": ("ring_doorbell",),
    "ucp_stream_send_nbx": ("ring_doorbell",),
    "cw_send_attempt": ("copy_start",),
    "copy_start": ("cw_shm_send_bcopy",),
}
# Not entered.
STOPS = {
    "cw_lock_enter": "workers of several threads only: behind worker->mt",
    "cw_lock_leave": "workers of several threads only: behind worker->mt",
    "send_fast_locked": "likewise: worker->fast_features is 0",
    "cw_log_emit": "logs a fault",
    "cw_log_emit_limited": "logs a fault",
    "cw_call_check_buffer": "arguments that need a check: memory handles and types",
    "cw_trace_request": "events are kept because somebody asked for them",
    "cw_ep_queue": "the message waits, or its endpoint connects first",
    "cw_ep_fail": "the connection broke",
    "cw_send_announce": "rendezvous: system calls and several packets",
    "cw_send_data": "rendezvous: its data",
}
# May have locked instructions.
ALLOWED = {
    "ring_doorbell": "a peer that may sleep: fence and exchange (docs/why/wakeup.md)",
    "cw_shm_ring": "a peer that does not poll this one of many connections (docs/why/scale.md)",
    "cw_shm_warm": "likewise: we poll it again",
    "cw_dt_start": "a generic datatype, which any thread may destroy, is held by the request",
    "cw_dt_finish": "likewise: its hold ends",
    "leave_piece": "likewise: its buffer is cached with the type",
}
# Of the C library.
HARMLESS = ("memcpy", "memmove", "memset", "malloc", "calloc", "aligned_alloc", "realloc", "free", "write",
            "__stack_chk_fail", "__errno_location", "__assert_fail")

FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(.*)$")
BRANCH = re.compile(r"^(?:bnd |addr32 |notrack )*(?:call|jmp|j[a-z]+)\s+([0-9a-f]+) <([^>+]+)(\+0x[0-9a-f]+)?>")
LOCKED = re.compile(r"^(?:lock\b|xchg\s.*\(|mfence\b)")


class Function:
    def __init__(self, start, name):
        self.start, self.name = start, name
        self.locked, self.targets, self.foreign = [], set(), set()


def parse(text):
    """Functions by their address; names of static functions may come twice."""
    functions, current = {}, None
    for line in text.splitlines():
        found = FUNCTION.match(line)
        if found:
            current = Function(int(found.group(1), 16), found.group(2))
            functions[current.start] = current
            continue
        found = INSTRUCTION.match(line)
        if not found or current is None:
            continue
        words = found.group(2)
        if LOCKED.match(words):
            current.locked.append(f"{found.group(1)}: {words}")
        branch = BRANCH.match(words)
        if branch and branch.group(2).endswith("@plt"):
            current.foreign.add(branch.group(2)[:-len("@plt")].split("@")[0])
        elif branch:
            offset = int(branch.group(3) or "0", 16)
            current.targets.add(int(branch.group(1), 16) - offset)
    return functions


def base_name(name):
    """Compilers give parts and copies of a function a suffix."""
    return name.split(".")[0]


def walk(functions, roots, pointers, stops, allowed, harmless):
    """Faults, and the names that were walked through."""
    by_name = {}
    for function in functions.values():
        by_name.setdefault(base_name(function.name), []).append(function)
    faults = [f"{name} is not in the library" for name in
              sorted({*roots, *pointers, *stops, *allowed, *(to for tos in pointers.values() for to in tos)} -
                     by_name.keys())]
    todo = [(function, root) for root in roots for function in by_name.get(root, []) if function.name == root]
    seen = {}
    while todo:
        function, chain = todo.pop()
        name = base_name(function.name)
        if function.start in seen or name in stops:
            continue
        seen[function.start] = function.name
        if function.locked and name not in allowed:
            faults += [f"{chain}: {line}" for line in function.locked]
        own = {base_name(functions[target].name) for target in function.targets if target in functions}
        faults += [f"{chain} calls {name} of the C library" for name in sorted(function.foreign - set(harmless) - own)]
        following = [functions[target] for target in function.targets if target in functions]
        following += [target for to in pointers.get(name, ()) for target in by_name.get(to, [])]
        todo += [(target, f"{chain} > {target.name}") for target in following if target is not function]
    return faults, set(seen.values())


def disassembly(library):
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True)
    return done.stdout


def check(library):
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        print("skipped: this is about x86-64 instructions as objdump prints them")
        return SKIPPED
    faults, seen = walk(parse(disassembly(library)), ROOTS, POINTERS, STOPS, ALLOWED, HARMLESS)
    names = {base_name(name) for name in seen}
    faults += [f"the walk did not come to {name}" for name in sorted({"cw_tag_send", "cw_am_send", "cw_stream_send",
                                                                      "cw_shm_send_short", "send_any"} - names)]
    for fault in faults:
        print(f"locks.py: {fault}")
    print(f"{len(seen)} functions on the path, {len(faults)} faults")
    return 1 if faults else 0


SAMPLE = """
0000000000001000 <ucp_send>:
    1000:\tcall   2000 <middle>
    1005:\tjne    1100 <ucp_send.cold>
    1007:\tcall   900 <memcpy@plt>
    100c:\txchg   %ax,%ax
    100e:\tjmp    100c <ucp_send+0xc>
0000000000001100 <ucp_send.cold>:
    1100:\tjmp    3000 <waits>
0000000000002000 <middle>:
    2000:\tcall   *0x70(%rax)
    2003:\txchg   %rax,%rbx
    2005:\tret
0000000000003000 <waits>:
    3000:\tlock cmpxchg %rdi,(%rsi)
0000000000004000 <shm_send>:
    4000:\tmov    %rax,(%rdx)
"""


def self_test():
    def faults_of(text, **more):
        tables = {"roots": ("ucp_send",), "pointers": {"middle": ("shm_send",)}, "stops": {"waits": ""}, "allowed": {},
                  "harmless": ("memcpy",)} | more
        return walk(parse(text), **tables)

    faults, seen = faults_of(SAMPLE)
    assert faults == [], faults
    assert seen == {"ucp_send", "ucp_send.cold", "middle", "shm_send"}, seen
    for old, new in (("mov    %rax,(%rdx)", "lock xadd %rax,(%rdx)"), ("mov    %rax,(%rdx)", "xchg   %rax,(%rdx)"),
                     ("mov    %rax,(%rdx)", "mfence"), ("mov    %rax,(%rdx)", "call   910 <pthread_mutex_lock@plt>"),
                     ("<shm_send>", "<other>"), ("xchg   %rax,%rbx", "lock orq $0x0,(%rsp)")):
        assert len(faults_of(SAMPLE.replace(old, new))[0]) >= 1, new
    assert faults_of(SAMPLE.replace("mov    %rax,(%rdx)", "mfence"), allowed={"shm_send": ""})[0] == []
    assert len(faults_of(SAMPLE, stops={})[0]) == 1
    assert len(faults_of(SAMPLE, harmless=())[0]) == 1
    return 0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    return self_test() if sys.argv[1] == "--self-test" else check(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
