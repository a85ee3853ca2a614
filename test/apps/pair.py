#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program of Debian's ucx-utils or libucx-dev over our libucp: a server and its client, once for each case of a
list.

    pair.py --lib DIRECTORY --work DIRECTORY [--tls LIST] [--seconds N] [--only REGEX] [--all]
            [--set NAME=VALUE] PROGRAM

io_demo is a storage server of requests by active messages or by tags, which checks what it reads (-q); it runs on our
libraries alone, as do the examples ucp_hello_world and ucp_client_server, which are compiled first. ucx_perftest
borrows much from the reference's libucs and libuct: it gets those of the system beside our libucp. --all runs a long
list instead of the one for every day. docs/use/mpi.md says what cannot pass on any library. With the directory of the
system's libucp.so.0 as DIRECTORY the program runs on the system's.

Status: 0, 77 when the package is missing, 1 for a failure. The programs must have loaded our libucp (LD_DEBUG).
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import run

COMPLAINT = re.compile(r"^.*\b(ERROR|WARN|FATAL|DIAG)\b.*$|^.*corrupt.*$", re.MULTILINE)
IO_DEMO = ["-d 1:100000 -w 16", "-A -d 1:100000 -w 16", "-d 1000000:4000000 -w 4 -z", "-A -d 1:3000000 -k 100000 -w 8",
           "-A -d 8:64 -w 64"]
EXAMPLES = "/usr/share/doc/libucx-dev/examples"
HELLO_WORLD = ["-b", "-w", "-f", "-b -s 100000", "-f -s 1000000", "-e send", "-e keepalive"]
CLIENT_SERVER = ["-c %s -i 20 -s %s" % (kind, size) for kind in ("stream", "tag", "am")
                 for size in ("16", "3000", "300000")] + ["-c am -i 5 -v 4 -s 8192"]
CASES = {"io_demo": IO_DEMO, "ucp_hello_world": HELLO_WORLD, "ucp_client_server": CLIENT_SERVER}
# How server and client end if not with 0: the first kills itself, or it is ended.
STATUSES = {"-e send": [-signal.SIGKILL, 255], "-e keepalive": [0, -signal.SIGKILL],
            "ucp_client_server": [-signal.SIGINT, 0]}
SUCCESS = {"io_demo": "Client exit with status 'OK'", "ucp_hello_world": "UCP TEST SUCCESS"}
BANDWIDTH = ["tag_bw", "tag_sync_bw", "ucp_put_bw", "ucp_get", "stream_bw", "ucp_am_bw"]
LATENCY = ["tag_lat", "tag_sync_lat", "ucp_put_lat", "stream_lat", "ucp_am_lat"]
ATOMIC = ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"]


def perftest_cases(everything):
    """Arguments of ucx_perftest. Put latency with a list of buffers is left out: the program overwrites its list."""
    cases = ["-t %s -s 3000" % test for test in BANDWIDTH + LATENCY] + ["-t %s -s 8" % test for test in ATOMIC]
    cases += ["-t tag_bw -s 300000 -T 2 -M multi", "-t ucp_am_bw -s 16,48,8192,14 -D iov", "-t tag_lat -s 8192 -C -U",
              "-t stream_bw -s 300000 -r recv_data", "-t ucp_get -s 300000 -o", "-t tag_bw -s 64 -I -O 7"]
    if not everything:
        return cases
    for test in BANDWIDTH + LATENCY:
        cases += ["-t %s -s %s" % (test, size) for size in ("1", "8", "1000", "8192", "70000", "3000000")]
        cases += ["-t %s %s" % (test, words) for words in ("-s 4096 -T 2 -M multi", "-s 300000 -T 3 -M multi",
                                                           "-s 64 -M serialized -O 7", "-s 64 -I", "-s 100000 -I -B")]
        if test != "ucp_put_lat":
            cases += ["-t %s -s %s -D %s" % (test, sizes, layout) for layout in ("iov", "contig,iov", "iov,contig")
                      for sizes in ("16,48,8192,8192,14", "8,8", "300000,1,400000")]
    for size in ("8", "8192", "300000"):
        cases += ["-t tag_%s -s %s %s" % (test, size, words) for test in ("lat", "bw", "sync_lat", "sync_bw")
                  for words in ("-C", "-U", "-C -U")]
        cases += ["-t %s -s %s -r recv_data" % (test, size) for test in ("stream_bw", "stream_lat")]
        cases += ["-t %s -s %s -o" % (test, size) for test in ("ucp_put_lat", "ucp_put_bw", "ucp_get")]
    for test in ATOMIC:
        cases += ["-t %s %s" % (test, words) for words in ("-s 4", "-s 8 -o", "-s 8 -O 5", "-s 4 -T 2 -M multi")]
    return cases


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def wait_for_listener(port, server, end):
    """Until somebody listens there, as /proc/net says: a connection of ours would be taken for the client."""
    wanted = re.compile(r"^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A " % port, re.MULTILINE)
    while server.poll() is None and time.monotonic() < end:
        if wanted.search(run.read("/proc/net/tcp") + run.read("/proc/net/tcp6")):
            return
        time.sleep(0.02)


def commands(options, case, port):
    program, words = options.program, case.split()
    if options.name == "io_demo":
        words = ["-p", str(port), "-q", "-o", "read,write"] + words
        return [program] + words, [program] + words + ["-i", "60", "127.0.0.1:%d" % port]
    if options.name in CASES:
        words = [program, "-p", str(port)] + words
        return words, words + ["-n" if options.name == "ucp_hello_world" else "-a", "127.0.0.1"]
    words = ["-p", str(port), "-n", "30", "-w", "3", "-f"] + words
    return [program] + words, [program, "127.0.0.1"] + words


def play(options, case):
    """What is wrong with one case, None if nothing is, and what both programs said."""
    port, end = free_port(), time.monotonic() + options.seconds
    logs = [os.path.join(options.directory, name) for name in ("server", "client")]
    processes = []
    for command, log in zip(commands(options, case, port), logs):
        with open(log, "w", encoding="utf-8") as output:
            processes.append(subprocess.Popen(command, env=options.env, stdin=subprocess.DEVNULL, stdout=output,
                                              stderr=subprocess.STDOUT, cwd=options.directory))
        wait_for_listener(port, processes[0], end)
    server, client = processes
    while client.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    if options.name in ("io_demo", "ucp_client_server") and client.poll() is not None:
        server.send_signal(signal.SIGINT) # it serves until then
    while server.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    states = [process.poll() for process in processes]
    if None in states:
        run.print_what_hangs(os.path.realpath(options.program))
    run.kill_all()
    said = "".join("--- %s\n%s" % (os.path.basename(log), run.read(log)) for log in logs)
    wanted = STATUSES.get(case, STATUSES.get(options.name, [0, 0]))
    if states != wanted:
        return "server and client ended with %s (None: not at all), not %s" % (states, wanted), said
    complaint = COMPLAINT.search(said)
    if complaint is not None and case not in STATUSES:
        return complaint.group(), said
    if SUCCESS.get(options.name, "") not in said and case not in STATUSES:
        return "the client reports no success", said
    return None, said


def libraries_for(options):
    """ucx_perftest: a directory with our libucp alone."""
    if options.name != "ucx_perftest":
        return options.lib
    directory = os.path.join(options.directory, "lib")
    os.makedirs(directory)
    os.symlink(os.path.join(options.lib, "libucp.so.0"), os.path.join(directory, "libucp.so.0"))
    return directory


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs a program of ucx-utils or libucx-dev over our libucp.")
    for name in ("--lib", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--tls", default="all")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("name", metavar="PROGRAM", choices=list(CASES) + ["ucx_perftest"])
    options = parser.parse_args()
    options.lib, options.work = os.path.realpath(options.lib), os.path.abspath(options.work)
    return options


def compiled(options):
    source = os.path.join(EXAMPLES, options.name + ".c")
    if not os.path.exists(source):
        run.skip("there is no %s (Debian: libucx-dev)" % source)
    program = os.path.join(options.directory, options.name)
    subprocess.run(["cc", "-O1", "-o", program, source, "-lucp", "-lucs"], check=True)
    return program


def main():
    options = parse_arguments()
    options.directory = os.path.join(options.work, "pair-%d" % os.getpid())
    os.makedirs(options.directory)
    options.program = shutil.which(options.name)
    if options.program is None and options.name.startswith("ucp_"):
        options.program = compiled(options)
    if options.program is None:
        run.skip("there is no %s (Debian: ucx-utils)" % options.name)
    if options.name == "ucx_perftest":  # which warns when it may run on more
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    run.subreaper()
    libraries = libraries_for(options)
    options.env = {name: value for name, value in os.environ.items() if not name.startswith("UCX_")}
    options.env.update({"LD_LIBRARY_PATH": libraries, "UCX_TLS": options.tls, "LD_DEBUG": "libs",
                        "LD_DEBUG_OUTPUT": os.path.join(options.directory, "loader")})
    options.env.update(setting.split("=", 1) for setting in options.set)
    cases = CASES[options.name] if options.name in CASES else perftest_cases(options.all)
    failed = 0
    try:
        for case in [case for case in cases if re.search(options.only, case)]:
            wrong, said = play(options, case)
            verdict = "passed" if wrong is None else "FAILED: " + wrong + ":"
            print(verdict, options.name, case, flush=True)
            if wrong is not None:
                failed += 1
                print(said)
        used = run.used_libraries(options.program, options.directory, libraries)
        used = sorted(path for path in used if "/libucp.so" in path)
        if used != [os.path.join(libraries, "libucp.so.0")]:
            run.fail("the programs loaded %s, not %s/libucp.so.0" % (", ".join(used) or "no libucp", libraries))
        return 1 if failed > 0 else 0
    finally:
        run.kill_all()
        shutil.rmtree(options.directory, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
