#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Types what README.md, docs/start.md and docs/use/examples.md say, where nothing is installed.

Usage: start.py SOURCE [print]

Every indented line of these pages, and before those of the third every command of its first table, is run in a system
that fresh.sh makes, except those of LEFT_OUT. What a command needs that the reader is supposed to have (a program, a
process) is made by BEFORE. A command fails by its status, or if EXPECTED is not in its output. With `print` the script
is only printed.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../site"))
import examples  # pylint: disable=wrong-import-position

LEFT_OUT = {
    "git clone": "fresh.sh copies the tree",
    "./causeway test": "install.fresh.* run it",
    "find_package(": "install.cmake",
    "target_link_libraries(": "install.cmake",
    "cd rust": "rust.crate.*",
    "cargo build": "rust.crate.*",
    "target/debug/examples/echo": "rust.crate.*",
}
MPI = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d\\n", sum);
    return MPI_Finalize();
}
"""
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
BEFORE = {
    "LD_LIBRARY_PATH=$PWD/build/release/lib/swap ./program": INSTALL + """ ucx-utils
        cat >program <<'END'
#!/bin/sh
ucx_perftest -p 4711 & sleep 1
ucx_perftest -p 4711 127.0.0.1 -t tag_lat -n 100 -w 10
wait
END
        chmod +x program""",
    "LD_LIBRARY_PATH=$PWD/build/release/lib/swap mpirun": INSTALL + """ openmpi-bin libopenmpi-dev
        cat >mpi.c <<'END'%sEND
        mpicc mpi.c -o mpi-program
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1""" % MPI,
    "grep libuc": """LD_LIBRARY_PATH=$PWD/build/release/lib ./build/release/bin/ucx_perftest -p 4712 & PID=$!
        sleep 1""",
    "cc hello.c": INSTALL + " gcc libc6-dev pkg-config",
    "ucx_info -d": "PATH=$PWD/build/release/bin:$PATH; unset LD_LIBRARY_PATH",
    "python3 -m venv": INSTALL + " python3-venv",
}
INSTEAD = {
    "grep libuc /proc/PID/maps": "grep libuc /proc/$PID/maps; kill $PID",
    "UCX_TLS=self,tcp ucx_perftest ...": "UCX_TLS=self,tcp ucx_perftest -l -t tag_lat",
    "ucx_top": "timeout 3 ucx_top || [ $? = 124 ]",
}
EXPECTED = {
    "./causeway run": "tcp",
    "LD_LIBRARY_PATH=$PWD/build/release/lib/swap ./program": "Final: ",
    "LD_LIBRARY_PATH=$PWD/build/release/lib/swap mpirun": "sum 1",
    "grep libuc": r"libucp\.so",
    "build/release/bin/ucx_info -d": "Transport: tcp",
    "build/release/bin/ucx_info --why": "65536\\|64 KiB\\|64K",
    "build/release/bin/ucx_info -c": "UCX_TLS=",
    "UCX_LOG_LEVEL=info ./program": "INFO",
    "wait": "received: good morning",
    "./stream_echo client": "^good day",
    "printf": "^yad doog",
    "env/bin/python python/examples/echo.py localhost": "^good evening",
    "ucx_perftest & sleep": "Final: ",
    "ucx_perftest -l -t tag_lat --sweep": "^{",
}
START = """
set -u
run() {
    echo "== $1"
    [ "$1" = wait ] || : >/tmp/log
    eval "$1" >>/tmp/log 2>&1 </dev/null || { tail -n 30 /tmp/log; echo "FAILED: status $? of: $1"; exit 1; }
}
expect() {
    grep -q -e "$1" /tmp/log || { tail -n 30 /tmp/log; echo "FAILED: no '$1' in the output of: $2"; exit 1; }
}
"""


def from_blocks(path):
    """Shell of the indented blocks: a program is saved under the name that the text before gives, a line is typed."""
    with open(path, encoding="utf-8") as file:
        names = re.findall(r"`(\w+\.c)`:\n\n    #include", file.read())
    for text in examples.blocks(path):
        if text.startswith("#include"):
            yield "cat >%s <<'END'\n%sEND\n" % (names.pop(0), text)
            continue
        for line in re.sub(r"\\\n *", "", text).splitlines():
            yield from command(re.sub(r"(?<=\w) {2,}(?!\S*#).*", "", line))


def from_tables(path):
    """Shell of the table: each command is in a cell; two of one cell are typed in two terminals."""
    with open(path, encoding="utf-8") as file:
        rows = re.findall(r"^\| (.*) \|$", file.read(), re.MULTILINE)
    for row in rows:
        cell = row.split(" | ")[0]
        quoted = re.findall(r"`([^`]*)`", cell)
        if len(quoted) == 2 and " and " in cell:
            yield from command("%s & sleep 1; %s && wait || { kill $!; false; }" % tuple(quoted))
            continue
        for line in quoted:
            yield from command(line)


def command(line):
    def of(table):
        return next((value for start, value in table.items() if line.startswith(start)), None)

    if of(LEFT_OUT) is not None:
        yield "echo '-- left out, tested by %s: %s'\n" % (of(LEFT_OUT), line)
        return
    if of(BEFORE):
        yield "{ %s\n} >>/tmp/log 2>&1 || { tail -n 20 /tmp/log; echo FAILED; exit 1; }\n" % of(BEFORE)
    yield "run '%s'\n" % (INSTEAD.get(line) or line).replace("'", "'\\''")
    if of(EXPECTED):
        yield "expect '%s' '%s'\n" % (of(EXPECTED), line.replace("'", ""))


def main():
    source = sys.argv[1]
    script = START + "".join(from_blocks(os.path.join(source, "README.md"))) + \
        "".join(from_blocks(os.path.join(source, "docs/start.md"))) + \
        "".join(from_tables(os.path.join(source, "docs/use/examples.md"))) + \
        "".join(from_blocks(os.path.join(source, "docs/use/examples.md"))) + "echo 'all commands work'\n"
    if sys.argv[2:] == ["print"]:
        print(script)
        return
    fresh = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fresh.sh")
    os.execvp("sh", ["sh", fresh, source, script])


if __name__ == "__main__":
    main()
