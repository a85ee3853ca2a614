#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the test suite of MPICH over our libucp, under MPICH or Open MPI; by hand: it takes an hour (docs/use/mpi.md).

    suites.py [OPTIONS] fetch
    suites.py [OPTIONS] build openmpi|mpich
    suites.py [OPTIONS] run openmpi|mpich DIRECTORY...

fetch gets the source package of MPICH by apt-get, with a list of sources of its own; build configures and compiles the
suite in test/mpi; run runs the lines of DIRECTORY/testlist and DIRECTORY/testlist.dtp (pt2pt, rma, threads/pt2pt, ...).
What fails is run once more on the system's libucp.so.0: a failure is ours only if the test passes there.

    --work DIRECTORY   where all of that happens
    --lib DIRECTORY    where our libraries are
    --other DIRECTORY  where the system's libucp.so.0 is
    --set NAME=VALUE   an environment variable of the processes
    --odd NAME=VALUE   one of every second process alone, so that processes of one program differ
    --osc COMPONENT    what does one-sided MPI in Open MPI (ucx)
    --only REGEX       only lines of the lists in which it is found
    --most N           leave out tests with more processes, which spin in turn where processors are few
    --jobs N           how many programs run at a time
    --under COMMAND    what starts each program, such as nice
    --yield            processes that wait let others run (yielding.c), so that four of them pass on two processors
    --seconds N        the time limit of a program for which its list has none
    --journal FILE     what has been run is written there, and is not run again with the same file
    --stop N           begin no test when N seconds have gone by; status 3, to go on with the same journal

Status: 0 unless a failure is ours.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = """Types: deb-src
URIs: %s
Suites: %s
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
CONFIGURE = ["--disable-fortran", "--disable-cxx", "--disable-spawn", "--enable-threads=multiple",
             "--enable-large-tests", "CFLAGS=-O1 -g -w"]
LIMIT = 150
# The launchers' own ways to say that a process ended with a status are no failure where a test wants one.
WANTS_STATUS = ("TestStatus", "TestErrFatal", "TestStatusNoErrors")
RANKS = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"


def call(command, **options):
    print("+ " + " ".join(command), flush=True)
    subprocess.run(command, check=True, **options)


def archive():
    """Where this machine gets its packages, and the name of its release."""
    with open("/etc/os-release", encoding="utf-8") as file:
        match = re.search(r"^VERSION_CODENAME=(\S+)", file.read(), re.MULTILINE)
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [line.split()[0] for line in lines if match and line.split()[1:] == [match.group(1)]]
    if not found:
        sys.exit("apt knows no archive of this machine's release")
    return found[0], match.group(1)


def download(package, work):
    """The source package, by a list of sources in our directory: the system's stays as it is."""
    apt = os.path.join(work, "apt")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    with open(os.path.join(apt, "only.sources"), "w", encoding="utf-8") as file:
        file.write(SOURCE % archive())
    settings = ["-oDir::Etc::sourcelist=%s/only.sources" % apt, "-oDir::Etc::sourceparts=/dev/null",
                "-oDir::State::lists=%s/lists" % apt, "-oDir::Cache=%s/cache" % apt]
    call(["apt-get"] + settings + ["update"])
    call(["apt-get"] + settings + ["source", "--download-only", package], cwd=work)


def fetch(options):
    download("mpich", options.work)
    description = [name for name in os.listdir(options.work) if re.match(r"mpich_.*\.dsc$", name)][0]
    call(["dpkg-source", "--no-check", "-x", description, "mpich-source"], cwd=options.work)


def touch(tree, pattern):
    for directory, _, names in os.walk(tree):
        for name in names:
            if re.fullmatch(pattern, name):
                os.utime(os.path.join(directory, name))


def rename_removed(tree):
    """Open MPI no longer declares what MPI-3 removed; the functions of today take the same arguments."""
    for name in os.listdir(tree):
        path = os.path.join(tree, name)
        if name.endswith(".c"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(re.sub(r"\bMPI_Type_(hindexed|hvector|struct)\b", r"MPI_Type_create_\1", text))


def build(options):
    """Fortran and C++ are left out: they test bindings. make goes on after what one of the two libraries cannot."""
    tree = os.path.join(options.work, options.mpi)
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(os.path.join(options.work, "mpich-source", "test", "mpi"), tree, symlinks=True)
    rename_removed(os.path.join(tree, "dtpools", "src"))
    # Unpacking makes these look older than what they are made of; automake is not wanted here.
    touch(tree, r"aclocal\.m4")
    touch(tree, r"configure|Makefile\.in|.*\.h\.in")
    strict = ["--enable-strictmpi"] if options.mpi == "openmpi" else []
    call(["./configure"] + CONFIGURE + strict + ["MPICC=mpicc." + options.mpi, "MPICXX=mpicxx." + options.mpi,
                                                 "MPIEXEC=mpirun." + options.mpi], cwd=tree)
    for name in ("dtpools", "util"):
        call(["make", "-s", "-k", "-j%d" % options.jobs, "-C", name], cwd=tree)


class Test:
    """A line of a list: the program, its number of processes and what else the line asks for."""

    def __init__(self, directory, line):
        self.line, words = line, line.split()
        self.directory, self.program, self.processes = directory, words[0], words[1]
        values = [word.split("=", 1) for word in words[2:] if "=" in word]
        self.arguments = [value for name, value in values if name == "arg"]
        self.settings = [value for name, value in values if name == "env"]
        self.options = {name: value for name, value in values if name not in ("arg", "env")}

    def left_out(self, options):
        """Lines that are for MPICH alone, or for another launcher, or for a larger machine."""
        if int(self.processes) > options.most:
            return "too many processes"
        if options.mpi != "mpich" and self.options.get("strict") == "false":
            return "not for " + options.mpi
        if options.mpi != "mpich" and ("mpiexecarg" in self.options or "mpix" in self.options):
            return "arguments for another launcher"
        return None


def tests_of(options, directory):
    result = []
    for name in ("testlist", "testlist.dtp"):
        path = os.path.join(options.work, options.mpi, directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = [line.split("#")[0].strip() for line in file]
            result += [Test(directory, line) for line in lines if re.match(r"\S+\s+\d+", line)]
    return [test for test in result if options.only is None or re.search(options.only, test.line)]


def uneven(options, program, directory):
    """A script of the program's name that starts it, with the settings that every second process gets."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, os.path.basename(program))
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n[ $((%s %% 2)) = 0 ] || export %s\nexec %s \"$@\"\n" %
                   (RANKS, " ".join(map(shlex.quote, options.odd)), shlex.quote(program)))
    os.chmod(path, 0o755)
    return path


def fits(library, setting, options):
    """Other settings are ours alone; a failure over a transport is compared with the system's over the same."""
    return library == options.lib or setting.startswith("UCX_TLS=")


def once(options, test, library):
    """(whether the program passed over this library, what it said)"""
    program = os.path.join(options.work, options.mpi, test.directory, test.program)
    if options.odd and library == options.lib:
        program = uneven(options, program, os.path.join(options.work, "uneven", options.mpi, test.directory))
    seconds = min(int(test.options.get("timeLimit", options.seconds)), LIMIT)
    command = shlex.split(options.under) + [sys.executable, "-B", os.path.join(HERE, "run.py"), "--lib", library,
               "--work", os.path.join(options.work, "runs"), "--seconds", str(max(seconds, 20))]
    if options.mpi == "openmpi":
        command += ["--osc", options.osc]
    for setting in test.settings + [setting for setting in options.set if fits(library, setting, options)]:
        command += ["--set", setting]
    if options.preload is not None:
        command += ["--set", "LD_PRELOAD=" + options.preload]
    if "resultTest" not in test.options:
        command += ["--expect", r"^\s*No [Ee]rrors\s*$"]
    for word in test.options.get("mpiexecarg", "").split():
        command.append("--launch=" + word)
    command += [options.mpi, test.processes, program] + test.arguments
    result = subprocess.run(command, text=True, errors="replace",
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    passed = result.returncode == 0
    if test.options.get("resultTest") in WANTS_STATUS:
        complaints = re.findall(r"^FAILED: (.*)$", result.stdout, re.MULTILINE)
        passed = len(complaints) == 1 and complaints[0].startswith("mpirun ended with status")
    return passed, result.stdout


def outcome(options, test):
    """(word, output): ours is a failure over our library alone."""
    key = "%s %s %s" % (options.mpi, test.directory, test.line)
    reason = test.left_out(options)
    if reason is not None:
        return "left out", reason
    if key in options.done:
        return options.done[key], "(printed before)"
    if time.monotonic() > options.end:
        return "later", ""
    word, output = tried(options, test)
    if options.journal is not None:
        with open(options.journal, "a", encoding="utf-8") as file:
            file.write("%s\t%s\n" % (word, key))
    return word, output


def tried(options, test):
    if not os.path.exists(os.path.join(options.work, options.mpi, test.directory, test.program)):
        return "not built", ""
    passed, output = once(options, test, options.lib)
    if passed:
        return "passed", output
    word = "as expected" if "xfail" in test.options else None
    if word is None:
        word = "OURS" if once(options, test, options.other)[0] else "both"
    return word, output


def report(counts, directory, test, word, output):
    counts[word] = counts.get(word, 0) + 1
    if word in ("passed", "left out", "as expected", "later"):
        return
    print("%-10s %s: %s" % (word, directory, test.line), flush=True)
    if word == "OURS":
        print("    " + "\n    ".join(output.rstrip().split("\n")[-60:]), flush=True)


def yielding(options):
    path = os.path.join(options.work, "yielding.so")
    source = os.path.join(HERE, "yielding.c")
    call(["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", path, source])
    return path


def run(options):
    total = {}
    options.end = time.monotonic() + options.stop
    options.preload = yielding(options) if getattr(options, "yield") else None
    if options.journal is not None and os.path.exists(options.journal):
        with open(options.journal, encoding="utf-8") as file:
            options.done = {key: word for word, key in (line.rstrip("\n").split("\t") for line in file)}
    for directory in options.directories:
        tests, counts = tests_of(options, directory), {}
        tree = os.path.join(options.work, options.mpi, directory)
        programs = sorted({test.program for test in tests if test.left_out(options) is None})
        if os.path.exists(os.path.join(tree, "Makefile")) and time.monotonic() < options.end:
            subprocess.run(shlex.split(options.under) + ["make", "-s", "-k", "-j2", "-C", tree] + programs, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for test, (word, output) in zip(tests, pool.map(lambda test: outcome(options, test), tests)):
                report(counts, directory, test, word, output)
        numbers = ", ".join("%d %s" % (number, word) for word, number in sorted(counts.items()))
        print("%s over %s: %s" % (directory, options.mpi, numbers), flush=True)
        for word, number in counts.items():
            total[word] = total.get(word, 0) + number
    if total.get("later", 0) > 0:
        return 3
    return 1 if total.get("OURS", 0) > 0 else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs the test suite of MPICH over our libucp.")
    parser.add_argument("--work", required=True)
    for name in ("--lib", "--only", "--journal"):
        parser.add_argument(name)
    parser.add_argument("--other", default="/usr/lib/x86_64-linux-gnu")
    parser.add_argument("--osc", default="ucx")
    parser.add_argument("--under", default="")
    for name in ("--set", "--odd"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--stop", type=float, default=float("inf"))
    parser.add_argument("--yield", action="store_true")
    parser.add_argument("what", choices=("fetch", "build", "run"))
    parser.add_argument("mpi", nargs="?", choices=("openmpi", "mpich"))
    parser.add_argument("directories", nargs="*")
    options = parser.parse_args()
    options.done = {}
    options.work = os.path.abspath(options.work)
    options.lib = options.lib and os.path.realpath(options.lib)
    return options


def main():
    options = parse_arguments()
    if options.what == "fetch":
        return fetch(options)
    return build(options) if options.what == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
