#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program of an MPI library, or of OpenSHMEM, over our libucp (APP-1: Open MPI, APP-3: MPICH).

    run.py [OPTIONS] openmpi|mpich|openshmem PROCESSES PROGRAM [ARGUMENTS]

PROGRAM is a source (compiled when it is newer than what was built of it): mpi_*.c, osc_*.c for one-sided MPI, shmem_*.c
for OpenSHMEM, fftw_*.c for FFTW under Open MPI; or an installed program.

    --lib DIRECTORY    where our libraries are; what it does not have is taken from the system. The directory of the
                       system's libucp.so.0 runs the program on the system's, to see whether the program is right
    --other DIRECTORY  the system's libucp.so.0: what fails runs there, too, and is a failure only if it passes there
    --work DIRECTORY   where programs are built and run
    --set NAME=VALUE   an environment variable of the processes
    --launch WORD      one more argument of mpirun
    --osc COMPONENT    what does one-sided MPI in Open MPI, instead of what the program's name asks for
    --input FILE       a file that the program wants in its working directory
    --need FILE        the test is skipped where that is not installed
    --expect REGEX     must match a line of the output (or of --output FILE); can be given several times
    --refuse REGEX     must match none of its lines
    --output FILE      what the program writes in its working directory
    --seconds N        after which the program hangs

Status: 0, 77 when a package is missing here, 1 for anything else. A run that hangs is a failure: what the processes do
is printed (if gdb is there) and all of them are killed. Our library must have been used: the sources look at
themselves (CW_APPS_LIB), and the loader writes down what each process loads (LD_DEBUG).
"""

import argparse
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_CHILD_SUBREAPER = 36
LIBRARY = re.compile(r"calling init: (/\S*/(libuc[pstm]\.so)[^\s]*)")
BACKTRACE_LINES = 150

# docs/use/mpi.md says what each is for.
OPENMPI = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-mca", "mpi_yield_when_idle", "1",
           "-mca", "pml", "ucx", "-mca", "pml_ucx_tls", "any", "-mca", "pml_ucx_devices", "any",
           "-mca", "opal_common_ucx_tls", "any", "-mca", "opal_common_ucx_devices", "any"]
LAUNCH = {
    "openmpi": OPENMPI,
    "openshmem": OPENMPI + ["-mca", "spml", "ucx", "-mca", "atomic", "ucx",
                            "-mca", "opal_common_ucx_opal_mem_hooks", "0"],
    "mpich": [],
}
# What may do one-sided MPI in Open MPI, by the beginning of the program's name. Its component ucx has no windows of
# shared memory; sm has, and would take all others of one machine, too.
ONE_SIDED = {"osc_": ["-mca", "osc", "ucx"],
             "osc_shared": ["-mca", "osc", "ucx,sm", "-mca", "osc_ucx_priority", "200"]}
SYMMETRIC_SIZE = "128M"
COMPILER = {"openmpi": "mpicc.openmpi", "openshmem": "oshcc", "mpich": "mpicc.mpich"}
# What a source is linked with, by the beginning of its name.
LINKED = {"fftw_": ["-lfftw3_mpi", "-lfftw3", "-lm"]}
LAUNCHER = {"openmpi": "mpirun.openmpi", "openshmem": "oshrun", "mpich": "mpirun.mpich"}
PACKAGES = {"openmpi": "openmpi-bin and libopenmpi-dev", "openshmem": "openmpi-bin and libopenmpi-dev",
            "mpich": "mpich and libmpich-dev"}


def skip(text):
    print("skipped: " + text)
    sys.exit(SKIP)


def fail(text):
    print("FAILED: " + text)
    sys.exit(1)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def compiled(mpi, source, work):
    """The program built of a source."""
    compiler = shutil.which(COMPILER[mpi])
    if compiler is None:
        skip("there is no %s (Debian: %s)" % (COMPILER[mpi], PACKAGES[mpi]))
    directory = os.path.join(work, mpi)
    os.makedirs(directory, exist_ok=True)
    program = os.path.join(directory, os.path.basename(source)[:-len(".c")])
    inputs = [source] + [os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".h")]
    if not os.path.exists(program) or os.path.getmtime(program) < max(map(os.path.getmtime, inputs)):
        # MPICH's MPI_STATUSES_IGNORE is a constant address, of which the compiler thinks that nothing can be there.
        command = [compiler, "-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow",
                   "-Wno-array-bounds", "-pthread", "-rdynamic", "-o", program, source]
        for prefix, libraries in LINKED.items():
            command += libraries if os.path.basename(program).startswith(prefix) else []
        built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if built.returncode != 0:
            print(built.stdout)
            fail("this does not compile: " + " ".join(command))
    return program


def descendants():
    """Every process below this one, mpirun's orphans too: they are given to us (subreaper)."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = read("/proc/%s/stat" % name)
            if stat:
                parents[int(name)] = int(stat[stat.rindex(")") + 2:].split()[1])
    found, front = [], [os.getpid()]
    while front:
        front = [pid for pid, parent in parents.items() if parent in front]
        found += front
    return found


def subreaper():
    """Orphans below this process become its children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_all():
    for _ in range(100):
        pids = descendants()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


def used_libraries(program, directory, lib):
    """Which libraries that `lib` has the processes loaded, from wherever, as the loader wrote it down."""
    found = set()
    started = "transferring control: "
    for name in os.listdir(directory):
        text = read(os.path.join(directory, name)) if name.startswith("loader.") else ""
        names = [line.split(started, 1)[1] for line in text.split("\n") if started in line]
        if any(os.path.basename(other) == os.path.basename(program) for other in names):
            found.update(path for path, base in LIBRARY.findall(text) if os.path.exists("%s/%s.0" % (lib, base)))
    return found


def print_what_hangs(program):
    for pid in descendants():
        try:
            if os.path.realpath(os.readlink("/proc/%d/exe" % pid)) != program:
                continue
        except OSError:
            continue
        print("--- process %d" % pid)
        if shutil.which("gdb") is None:
            print(read("/proc/%d/stack" % pid) or "(without gdb there is nothing to print)")
            continue
        try:
            trace = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 25"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False).stdout
        except subprocess.TimeoutExpired:
            trace = "(gdb took too long)"
        lines = [line for line in trace.split("\n") if line.startswith(("#", "Thread"))]
        print("\n".join(lines[:BACKTRACE_LINES]))


def environment(options, mpi):
    result = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "OMPI_", "MPIR_"))}
    result["LD_LIBRARY_PATH"] = ":".join([options.lib] + result.get("LD_LIBRARY_PATH", "").split(":")).rstrip(":")
    result["CW_APPS_LIB"] = options.lib
    names = ["LD_LIBRARY_PATH", "CW_APPS_LIB"]
    if mpi == "mpich":
        # Between processes of one machine MPICH has shared memory of its own.
        result["MPIR_CVAR_NOLOCAL"] = "1"
    if mpi == "openshmem":
        result["SHMEM_SYMMETRIC_SIZE"] = SYMMETRIC_SIZE
        names.append("SHMEM_SYMMETRIC_SIZE")
    for setting in options.set:
        name, value = setting.split("=", 1)
        result[name] = value
        names.append(name)
    return result, names


def one_sided(program):
    """The settings that say what does one-sided MPI for a program of Open MPI."""
    name = os.path.basename(program)
    fitting = [prefix for prefix in ONE_SIDED if name.startswith(prefix)]
    return ONE_SIDED[max(fitting, key=len)] if fitting else []


def run(options, program, env, names):
    """(status, output, loaded libraries); status None: it hung."""
    launcher = shutil.which(LAUNCHER[options.mpi])
    if launcher is None:
        skip("there is no %s (Debian: %s)" % (LAUNCHER[options.mpi], PACKAGES[options.mpi]))
    command = [launcher] + LAUNCH[options.mpi]
    if options.mpi != "mpich":
        command += one_sided(program) if options.osc is None else ["-mca", "osc", options.osc]
        for name in names:
            command += ["-x", name]
    command += options.launch + ["-np", str(options.processes), program] + options.arguments
    settings = " ".join("%s=%s" % (name, env[name]) for name in names if name != "CW_APPS_LIB")
    print("running: %s %s" % (settings, " ".join(command)), flush=True)
    subreaper()
    env = dict(env, LD_DEBUG="libs", LD_DEBUG_OUTPUT=os.path.join(options.directory, "loader"))
    log = os.path.join(options.directory, "output")
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, cwd=options.directory, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT)
        end = time.monotonic() + options.seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.03)
    status = process.poll()
    if status is None:
        print(read(log))
        print("FAILED: the program hangs: it has not ended within %d seconds. What its processes do:" %
              options.seconds)
        print_what_hangs(program)
    kill_all()
    return status, read(log), used_libraries(program, options.directory, options.lib)


def judge(options, status, output, libraries):
    text = output
    if options.output is not None:
        text = read(os.path.join(options.directory, options.output))
        print(text)
    complaints = []
    if status != 0:
        complaints.append("mpirun ended with status %d" % status)
    strange = sorted(path for path in libraries if os.path.dirname(path) != options.lib)
    if strange:
        complaints.append("the processes loaded other libraries: " + ", ".join(strange))
    if not options.source and not any("/libucp.so" in path for path in libraries):
        complaints.append("no process loaded our libucp")
    for pattern in options.expect:
        if re.search(pattern, text, re.MULTILINE) is None:
            complaints.append("no line of the output matches " + pattern)
    for pattern in options.refuse:
        match = re.search("^.*" + pattern + ".*$", text, re.MULTILINE)
        if match is not None:
            complaints.append("the output says: " + match.group())
    return complaints


def attempt(options, program):
    """What is wrong with a run of the program on options.lib."""
    if not os.path.exists(os.path.join(options.lib, "libucp.so.0")):
        fail("there is no libucp.so.0 in " + options.lib)
    options.directory = os.path.join(options.work, "run-%d" % os.getpid())
    os.makedirs(options.directory)
    try:
        if options.input is not None:
            shutil.copy(os.path.join(HERE, options.input), options.directory)
        env, names = environment(options, options.mpi)
        start = time.monotonic()
        status, output, libraries = run(options, program, env, names)
        if status is None:
            return ["the program hangs"]
        print(output, end="")
        complaints = judge(options, status, output, libraries)
        for complaint in complaints:
            print("FAILED: " + complaint)
        print("%.1f seconds" % (time.monotonic() - start))
        return complaints
    finally:
        kill_all()
        shutil.rmtree(options.directory, ignore_errors=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs a program of an MPI library over our libucp.")
    for name in ("--lib", "--work"):
        parser.add_argument(name, required=True)
    for name in ("--set", "--launch", "--expect", "--refuse", "--need"):
        parser.add_argument(name, action="append", default=[])
    for name in ("--input", "--output", "--osc", "--other"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("mpi", choices=sorted(LAUNCH))
    parser.add_argument("processes", type=int)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.lib, options.work = os.path.realpath(options.lib), os.path.abspath(options.work)
    options.source = options.program.endswith(".c")
    return options


def main():
    options = parse_arguments()
    for path in options.need:
        if not os.path.exists(path):
            skip("there is no %s on this machine" % path)
    if options.source:
        program = compiled(options.mpi, os.path.join(HERE, options.program), options.work)
        options.expect.append("^%s: passed" % os.path.basename(program))
    else:
        program = shutil.which(options.program)
        if program is None:
            skip("there is no %s on this machine" % options.program)
    program = os.path.realpath(program)
    complaints = attempt(options, program)
    if complaints and options.other is not None:
        options.lib = os.path.realpath(options.other)
        print("once more on %s" % options.lib)
        if attempt(options, program):
            skip("the program fails there, too")
    return 1 if complaints else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
