#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark: bare limits, the reference library and Causeway, measured in turn in one run.

Usage: run.py BINDIR LIBDIR [options]

BINDIR holds the programs of the build (ucx_perftest, bench_startup, bare_*), LIBDIR our libucp.so.0. Every
repetition measures each contestant once before the next repetition begins (A B A B), so that slow changes of the
machine meet all of them alike. Ratios are taken within a repetition; printed are the median and the range.

Contestants:
  bare       the bare-limit program for this row
  causeway   our tool on our library
  reference  our tool on the reference's library
  ref. tool  the reference's own ucx_perftest on the reference's library
  ref. 1.x   our tool on each further version that --newer names (a C library of its own: with_libc.sh)

Needs Python's standard library alone. Results: a table on stdout, results.json, report.md and plots/*.svg.
Exit status: 0, or 1 when a measurement of our library failed, 2 for wrong use, 77 when this machine cannot do it.
"""

import argparse
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plot  # noqa: E402
import report  # noqa: E402

SUITES = ["latency", "rate", "bandwidth", "am", "stream", "rma", "startup", "endpoints", "memory", "wakeup",
          "connect", "idle", "matching", "guarded", "threads", "mixed", "both",
          "mpi_init"]
TRANSPORTS = ["shm", "tcp"]
LATENCY_SIZES = [8, 64, 512] + [1024 << power for power in range(7)]
BANDWIDTH_SIZES = [1 << power for power in range(27)]
FAMILY_SIZES = [1024, 8192, 32768, 65536, 1048576, 16777216]
BOTH_SIZES = [65536, 1048576]
LIST_PARTS = [64, 1024, 8192, 262144]
RMA_SIZES = [4096 << 2 * power for power in range(7)]
DEPTHS = [0] + [10 ** power for power in range(6)]
RUN_SECONDS_MAX = 120


class Failure(Exception):
    """A measurement that gave no number; the text says why."""


# ---- programs ----


def last_error(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "ERROR" in line]
    line = (wrong or lines or ["no output"])[-1]
    return re.sub(r"^\[[0-9.]+\]\s*\[[^\]]*\]\s*\S+\s+", "", line)[:200]


def run(command, env, timeout=RUN_SECONDS_MAX):
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end within {timeout} s") from None
    except OSError as error:
        raise Failure(f"cannot start: {error.strerror}") from None
    if done.returncode != 0:
        raise Failure(f"status {done.returncode}: {last_error(done.stdout + done.stderr)}")
    return done.stdout


def key_values(text):
    """The "key value" lines of the bare programs and of bench_startup."""
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        try:
            found[key] = float(value)
        except ValueError:
            found[key] = value
    return found


def perftest_row(text):
    """Numbers of the last line of ucx_perftest -f."""
    lines = [line for line in text.splitlines() if line.strip()]
    words = lines[-1].split() if lines else []
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != 8:
        raise Failure("unexpected output: " + (lines[-1].strip()[:120] if lines else "nothing"))
    keys = ["iterations", "p50_us", "average_us", "overall_us", "average_mbps", "mbps", "average_rate", "rate"]
    row = dict(zip(keys, numbers))
    for line in lines:
        if line.startswith("# percentiles (usec):"):
            words = line.split(":", 1)[1].split()
            row.update({f"{name}_us": float(value) for name, value in zip(words[::2], words[1::2])})
    return row


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def is_listening(port):
    wanted = f":{port:04X}"
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as table:
                if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in table.readlines()[1:]):
                    return True
        except OSError:
            continue
    return False


# ---- contestants ----


class Tool:
    """A performance tool together with the library it runs on."""

    def __init__(self, name, program, libdir, extra):
        self.name = name
        self.program = program
        self.libdir = libdir
        self.extra = extra
        self.settings = {}  # of the library, beside UCX_TLS

    def env(self, transport=None):
        env = {key: value for key, value in os.environ.items() if not key.startswith("UCX_")}
        env["LC_ALL"] = "C"
        if self.libdir:
            env["LD_LIBRARY_PATH"] = self.libdir
        if transport:
            env["UCX_TLS"] = transport
        return env | self.settings

    def pair(self, settings, transport, options):
        """Runs server and client; the row of the client."""
        port = free_port()
        env = self.env(transport)
        common = [self.program, "-p", str(port)]
        server = subprocess.Popen(common + ["-c", settings.cpus[0]], env=env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not is_listening(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Failure("the server does not start")
                time.sleep(0.01)
            text = run(common + ["-c", settings.cpus[1], "-f", "127.0.0.1"] + self.extra + options, env)
            return perftest_row(text)
        finally:
            try:
                server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def library_of(program, libdir):
    """Version and real path of the library that a program of ours loads."""
    env = dict(os.environ)
    if libdir:
        env["LD_LIBRARY_PATH"] = libdir
    words = run([program, "--library"], env, 20).split(maxsplit=1)
    return words[0], os.path.realpath(words[1].strip())


def find_reference(libdir):
    """Folder of an installed libucp.so.0 that is not ours, or None."""
    folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
    for folder in folders:
        path = os.path.join(folder, "libucp.so.0")
        if os.path.exists(path) and os.path.dirname(os.path.realpath(path)) != os.path.realpath(libdir):
            return folder
    return None


def find_contestants(settings):
    program = os.path.join(settings.bindir, "ucx_perftest")
    version, path = library_of(program, settings.libdir)
    if os.path.dirname(path) != os.path.realpath(settings.libdir):
        raise Failure(f"the programs do not load the library of LIBDIR but version {version} of elsewhere")
    tools = [Tool("causeway", program, settings.libdir, ["--percentiles"])]
    versions = {"causeway": version}
    folder = settings.reference or find_reference(settings.libdir)
    if folder:
        ref_version, ref_path = library_of(program, folder)
        if ref_path == path:
            raise Failure("the reference's folder leads to our own library")
        tools.append(Tool("reference", program, folder, ["--percentiles"]))
        versions["reference"] = ref_version
        ref_tool = settings.reference_tool
        if ref_tool is None:
            ref_tool = shutil.which("ucx_perftest", path="/usr/bin:/usr/local/bin")
        if ref_tool:
            tools.append(Tool("ref. tool", ref_tool, folder, []))
            versions["ref. tool"] = ref_version
    for folder in settings.newer:
        version, newer_path = library_of(program, folder)
        name = f"ref. {version}"
        if newer_path == path or name in versions:
            raise Failure(f"{folder} leads to our own library or to a version that was named before")
        tools.append(Tool(name, program, folder, ["--percentiles"]))
        versions[name] = version
    return tools, versions


# ---- measuring ----


class Row:
    """One line of the report: the same quantity of several contestants, one sample per repetition."""

    def __init__(self, suite, label, unit, better, sources):
        self.suite = suite
        self.label = label
        self.unit = unit
        self.better = better
        self.sources = sources  # contestant -> function giving one number
        self.samples = {name: [] for name in sources}
        self.errors = {}

    def measure_once(self):
        for name, source in self.sources.items():
            if name in self.errors:
                continue
            try:
                self.samples[name].append(source())
            except Failure as failure:
                self.errors[name] = str(failure)

    def as_dict(self):
        return {"suite": self.suite, "label": self.label, "unit": self.unit, "better": self.better,
                "samples": self.samples, "errors": self.errors}


def bare_source(settings, program, options=()):
    def measure():
        command = [os.path.join(settings.bindir, program), "-c", ",".join(settings.cpus)]
        probe = key_values(run(command + ["-n", "200", "-w", "50"] + list(options), dict(os.environ)))
        count = max(200, int(settings.seconds * 1e9 / (2 * probe["oneway_ns_p50"] + 1)))
        text = run(command + ["-n", str(count)] + list(options), dict(os.environ))
        return key_values(text)["oneway_ns_p50"] / 1e3
    return measure


def bare_bandwidth_source(settings, size, kind="one"):
    counts = {}

    def measure():
        command = [os.path.join(settings.bindir, "bare_tcp_bw"), "-c", ",".join(settings.cpus), "-s", str(size),
                   "-k", kind]
        if "count" not in counts:
            probe = key_values(run(command + ["-n", "3", "-w", "1"], dict(os.environ)))
            counts["count"] = max(3, int(settings.seconds * 1e9 / (2 * probe["oneway_ns_p50"] + 1)))
        found = key_values(run(command + ["-n", str(counts["count"]), "-w", "2"], dict(os.environ)))
        return found["bytes_per_trip"] / (2 * found["oneway_ns_mean"]) * 1e9 / 1048576
    return measure


def tool_source(settings, tool, transport, test, size, key, options=(), least=200):
    counts = {}

    def measure():
        base = ["-t", test, "-s", str(size)] + list(options)
        if "count" not in counts:
            probe = tool.pair(settings, transport, base + ["-n", str(least), "-w", str(least // 4)])
            per_message = probe["overall_us"] * (2 if test.endswith("_lat") else 1)
            counts["count"] = min(20000000, max(least, int(settings.seconds * 1e6 / max(per_message, 0.01))))
        count = counts["count"]
        return tool.pair(settings, transport, base + ["-n", str(count), "-w", str(count // 20)])[key]
    return measure


def bare_remote_source(settings, kind, size=8):
    """Microseconds of one operation, or MB/s where a trip is one copy."""
    counts = {}

    def measure():
        command = [os.path.join(settings.bindir, "bare_remote"), "-c", ",".join(settings.cpus), "-k", kind,
                   "-s", str(size)]
        if "count" not in counts:
            probe = key_values(run(command + ["-n", "20", "-w", "5"], dict(os.environ)))
            counts["count"] = max(20, int(settings.seconds * 1e9 / (probe["trip_ns_p50"] + 1)))
        found = key_values(run(command + ["-n", str(counts["count"]), "-w", "20"], dict(os.environ)))
        if found["operations_per_trip"] == 1:
            return found["bytes_per_trip"] / found["trip_ns_mean"] * 1e9 / 1048576
        return found["trip_ns_p50"] / found["operations_per_trip"] / 1e3
    return measure


def bare_ring_source(settings, kinds, size=8):
    """MB/s through a bare ring of shared memory, or messages a second of lines: the fastest of these kinds."""
    counts = {}

    def one(kind):
        command = [os.path.join(settings.bindir, "bare_ring"), "-c", ",".join(settings.cpus), "-k", kind,
                   "-s", str(size)]
        if kind not in counts:
            probe = key_values(run(command + ["-n", "3", "-w", "1"], dict(os.environ)))
            counts[kind] = max(3, int(settings.seconds * 1e9 / (2 * probe["oneway_ns_p50"] + 1)))
        found = key_values(run(command + ["-n", str(counts[kind]), "-w", "2"], dict(os.environ)))
        amount = found["messages_per_trip"] if size == 8 else found["bytes_per_trip"] / 1048576
        return amount / (2 * found["oneway_ns_mean"]) * 1e9

    return lambda: max(one(kind) for kind in kinds)


def rate_sources(settings, tools, transport, test):
    """Messages of 8 bytes a second."""
    sources = {"bare": bare_ring_source(settings, ["lines", "cells"])} if transport == "shm" else {}
    sources.update({tool.name: tool_source(settings, tool, transport, test, 8, "rate", least=2000) for tool in tools})
    return sources


def startup_source(settings, tool, key, options=(), transport=None, runs=3, program="bench_startup"):
    def measure():
        command = [os.path.join(settings.bindir, program)] + list(options)
        values = [key_values(run(command, tool.env(transport)))[key] for _ in range(runs)]
        return sorted(values)[len(values) // 2]
    return measure


def latency_rows(settings, tools):
    for transport, program in (("shm", "bare_shm"), ("tcp", "bare_tcp")):
        for size in LATENCY_SIZES:
            sources = {"bare": bare_source(settings, program, ["-s", str(size)])}
            for tool in tools:
                sources[tool.name] = tool_source(settings, tool, transport, "tag_lat", size, "p50_us")
            if size <= settings.largest:
                yield Row("latency", f"{transport}, {report.size_text(size)}, median", "usec", "less", sources)


def rate_rows(settings, tools):
    for transport in TRANSPORTS:
        yield Row("rate", f"{transport}, 8 B", "msg/s", "more", rate_sources(settings, tools, transport, "tag_bw"))


def least_messages(size):
    """How few messages a run may have: enough for a small size, not too long for a big one."""
    return max(8, min(2000, (64 << 20) // size))


def bandwidth_row(settings, tools, suite, transport, test, size):
    sources = {}
    if suite == "bandwidth" and transport == "tcp":
        sources["bare"] = bare_bandwidth_source(settings, size)
    if suite != "am" and transport == "shm" and size > 1024:  # shorter ones go otherwise
        sources["bare"] = bare_ring_source(settings, ["copy", "past"], size)
    for tool in tools:
        sources[tool.name] = tool_source(settings, tool, transport, test, size, "mbps", least=least_messages(size))
    return Row(suite, f"{transport}, {report.size_text(size)}", "MB/s", "more", sources)


def bandwidth_rows(settings, tools):
    for transport in TRANSPORTS:
        for size in BANDWIDTH_SIZES:
            if size <= settings.largest:
                yield bandwidth_row(settings, tools, "bandwidth", transport, "tag_bw", size)


def both_rows(settings, tools):
    """Both directions at the same time. The sum of both is bound by the two processors."""
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for size in BOTH_SIZES:
        options = ["-c", ",".join(reversed(settings.cpus)), "-s", str(size),
                   "-n", str(max(8, int(settings.seconds * 2e9 / 10 / size)))]
        bare = {kind: bare_bandwidth_source(settings, size, kind) for kind in ("one", "both")}
        label = f"tcp, {report.size_text(size)}"
        for key, what, unit, limit in (("one_mbps", "one way", "MB/s", bare["one"]),
                                       ("both_mbps", "both ways", "MB/s", bare["both"]),
                                       ("ratio", "ratio of both ways to one", "times",
                                        lambda bare=bare: bare["both"]() / bare["one"]())):
            sources = {"bare": limit}
            for tool in libraries:
                sources[tool.name] = startup_source(settings, tool, key, options, "tcp", 1, "bench_both")
            yield Row("both", f"{label}, {what}", unit, "more", sources)


def family_rows(suite, latency_test, bandwidth_test):
    """Latency, rate and bandwidth of another kind of message."""
    def rows(settings, tools):
        for transport in TRANSPORTS:
            yield Row(suite, f"{transport}, 8 B, median", "usec", "less",
                      {tool.name: tool_source(settings, tool, transport, latency_test, 8, "p50_us") for tool in tools})
            yield Row(suite, f"{transport}, 8 B, rate", "msg/s", "more",
                      rate_sources(settings, tools, transport, bandwidth_test))
            for size in FAMILY_SIZES:
                if size <= settings.largest:
                    yield bandwidth_row(settings, tools, suite, transport, bandwidth_test, size)
            if suite == "am":
                yield from list_rows(settings, tools, suite, transport, bandwidth_test)
    return rows


def list_rows(settings, tools, suite, transport, test):
    """Lists of four entries at both sides."""
    for part in LIST_PARTS:
        size = ",".join([str(part)] * 4)
        yield Row(suite, f"{transport}, list of 4 x {report.size_text(part)}", "MB/s", "more",
                  {tool.name: tool_source(settings, tool, transport, test, size, "mbps", ["-D", "iov,iov"],
                                          least_messages(4 * part)) for tool in tools})


# ---- one-sided operations ----


def rma_source(settings, tool, transport, test, size, key, options=(), least=200):
    """The reference's own tool of older versions has no ucp_get_bw: there ucp_get does the same with a window."""
    if tool.name == "ref. tool" and test == "ucp_get_bw":
        test, options = "ucp_get", list(options) + ["-O", "32"]
    return tool_source(settings, tool, transport, test, size, key, options, least)


def rma_latency_row(settings, tools, transport, name, test, bare=None, options=()):
    sources = {"bare": bare} if bare else {}
    for tool in tools:
        sources[tool.name] = rma_source(settings, tool, transport, test, 8, "p50_us", options, 2000)
    return Row("rma", f"{transport}, {name}, 8 B, median", "usec", "less", sources)


def rma_bandwidth_row(settings, tools, transport, name, test, size, bare=None, options=()):
    sources = {"bare": bare} if bare else {}
    if transport == "shm" and "--user-memory" in options:
        sources["bare ring"] = bare_ring_source(settings, ["copy", "past"], size)
    for tool in tools:
        sources[tool.name] = rma_source(settings, tool, transport, test, size, "mbps", options, least_messages(size))
    return Row("rma", f"{transport}, {name}, {report.size_text(size)}", "MB/s", "more", sources)


def rma_rows(settings, tools):
    # Only our tool can be told to use memory of its own.
    ours = [tool for tool in tools if tool.name != "ref. tool"]
    own = ["--user-memory"]
    bare = {"shm": {"put": bare_source(settings, "bare_shm"), "get": bare_remote_source(settings, "load"),
                    "atomic": bare_remote_source(settings, "atomic")},
            "tcp": dict.fromkeys(["put", "get", "atomic"], bare_source(settings, "bare_tcp"))}
    for transport in TRANSPORTS:
        limits = bare[transport]
        yield rma_latency_row(settings, tools, transport, "put", "ucp_put_lat", limits["put"])
        yield rma_latency_row(settings, ours, transport, "put, user memory", "ucp_put_lat", limits["put"], own)
        yield rma_latency_row(settings, tools, transport, "get", "ucp_get", limits["get"])
        yield rma_latency_row(settings, ours, transport, "get, user memory", "ucp_get", None, own)
        for name, test in (("fetch-and-add", "ucp_fadd"), ("swap", "ucp_swap"), ("compare-and-swap", "ucp_cswap")):
            yield rma_latency_row(settings, tools, transport, name, test, limits["atomic"])
        for name, test in (("put", "ucp_put_bw"), ("add", "ucp_add")):
            yield Row("rma", f"{transport}, {name}, 8 B, rate", "msg/s", "more",
                      {tool.name: rma_source(settings, tool, transport, test, 8, "rate", (), 2000) for tool in tools})
        for name, test in (("put", "ucp_put_bw"), ("get", "ucp_get_bw")):
            for size in RMA_SIZES:
                if size > settings.largest:
                    continue
                is_shm = transport == "shm"
                limit = (bare_remote_source(settings, name, size) if is_shm
                         else bare_bandwidth_source(settings, size))
                other = bare_remote_source(settings, "readv", size) if is_shm else limit
                yield rma_bandwidth_row(settings, tools, transport, name, test, size, limit)
                yield rma_bandwidth_row(settings, ours, transport, f"{name}, user memory", test, size, other, own)
        for key, label in (("worker_flush_us", "flush of a worker with 1,000 idle endpoints"),
                           ("endpoints_flush_us", "flush of 1,000 idle endpoints one by one")):
            yield Row("rma", f"{transport}, {label}", "usec", "less",
                      {tool.name: startup_source(settings, tool, key, (), transport, 1, "bench_flush")
                       for tool in ours})


def mpi_source(settings, tool, flavour, key):
    starter = {"mpich": ["mpiexec.hydra", "-n", "2"],
               "openmpi": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--mca", "pml", "ucx", "--mca",
                           "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-n", "2"]}[flavour]

    def measure():
        # Handed over on the command line: what starts the processes has no need of the library.
        env = Tool(tool.name, tool.program, None, []).env()
        starter_env = [f"LD_LIBRARY_PATH={tool.libdir}"] if tool.libdir else []
        program = os.path.join(settings.bindir, f"bench_mpi_init.{flavour}")
        return key_values(run(starter + ["env"] + starter_env + [program], env, 60))[key] / 1e3
    return measure


def mpi_init_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for flavour, name, starter in (("mpich", "MPICH", "mpiexec.hydra"), ("openmpi", "Open MPI", "mpirun.openmpi")):
        if not shutil.which(starter) or not os.path.exists(os.path.join(settings.bindir, f"bench_mpi_init.{flavour}")):
            continue
        for key, label in (("init_us", "MPI_Init"), ("total_us", "MPI_Init and MPI_Finalize")):
            yield Row("mpi_init", f"{name}, two processes, {label}", "msec", "less",
                      {tool.name: mpi_source(settings, tool, flavour, key) for tool in libraries})


def startup_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for key, label, unit in (("total_us", "init + worker", "usec"), ("resident_kib", "resident memory added", "KiB"),
                             ("dirty_kib", "of it private and written", "KiB")):
        yield Row("startup", label, unit, "less",
                  {tool.name: startup_source(settings, tool, key) for tool in libraries})
    for transport in TRANSPORTS:
        yield Row("startup", f"{transport}, process start to first message received", "usec", "less",
                  {tool.name: startup_source(settings, tool, "first_message_us", (), transport, 1, "bench_first")
                   for tool in libraries})


def idle_rows(settings, tools):
    """Of our library alone: the reference takes minutes to make so many connections."""
    for transport in TRANSPORTS:
        for key, label in (("idle_ratio", "progress that finds nothing"), ("message_ratio", "message of 8 B")):
            yield Row("idle", f"{transport}, {label}, {settings.endpoints:,} endpoints against one", "times", "less",
                      {"causeway": startup_source(settings, tools[0], key, ["-n", str(settings.endpoints)], transport,
                                                  1, "bench_idle")})


def endpoints_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    options = ["-e", str(settings.endpoints)]
    for key, label, unit in (("endpoint_resident_bytes", "resident memory of an endpoint", "B"),
                             ("endpoint_malloc_bytes", "of it from malloc", "B"),
                             ("endpoint_ns", "time to make one", "nsec")):
        yield Row("endpoints", label, unit, "less",
                  {tool.name: startup_source(settings, tool, key, options, runs=1) for tool in libraries})


def memory_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    further = "each further connected idle peer"
    for transport in TRANSPORTS:
        for key, label, unit, options in (
                ("one_peer_kib", "process with one worker and one peer", "KiB", []),
                ("peer_bytes", f"{further}, where it was dialled from", "B", []),
                ("peer_bytes", f"{further}, where the dial came in", "B", ["-a"])):
            yield Row("memory", f"{transport}, {label}", unit, "less",
                      {tool.name: startup_source(settings, tool, key, options, transport, 1, "bench_memory")
                       for tool in libraries})


def matching_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    time = ["-t", str(max(1, round(settings.seconds * 1000 / 2)))]
    for kind in ("posted", "unexpected"):
        for name, mask, order in (("exact", "exact", "hot"), ("any source", "any", "hot"),
                                  ("exact, random order", "exact", "spread")):
            for depth in DEPTHS:
                if depth == 0 and order == "spread":
                    continue
                options = ["-k", kind, "-m", mask, "-o", order, "-q", str(depth)] + time
                yield Row("matching", f"{kind}, {name}, {depth:,} queued", "nsec", "less",
                          {tool.name: startup_source(settings, tool, "operation_ns", options, "self", 1, "bench_match")
                           for tool in libraries})


def wakeup_rows(settings, tools):
    for transport, program, options in (("shm", "bare_wakeup", []), ("tcp", "bare_tcp", ["-S"])):
        sources = {"bare": bare_source(settings, program, options)}
        for tool in tools:
            sources[tool.name] = tool_source(settings, tool, transport, "tag_lat", 8, "p50_us", ["-E", "sleep"])
        yield Row("wakeup", f"{transport}, 8 B, asleep, median", "usec", "less", sources)
        yield Row("wakeup", f"{transport}, 8 B to one that sleeps for sure, median", "usec", "less",
                  {tool.name: startup_source(settings, tool, "wake_us", ["-c", ",".join(settings.cpus)], transport, 1,
                                             "bench_wake") for tool in tools if tool.name != "ref. tool"})


def connect_rows(settings, tools):
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for transport in ("tcp", "shm,tcp"):
        for key, label, unit, better in (
                ("first_reply_usec", "endpoint by socket address to first reply", "usec", "less"),
                ("rate", "connections made, asked, answered, closed", "1/s", "more")):
            yield Row("connect", f"{transport}, {label}", unit, better,
                      {tool.name: startup_source(settings, tool, key, (), transport, 1, "bench_connect")
                       for tool in libraries})
    yield from address_rows(settings, tools)


def address_rows(settings, tools):
    """Of 200 peers, one after the other, by the addresses of their workers."""
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for transport in TRANSPORTS:
        yield Row("connect", f"{transport}, endpoint by worker address to first reply", "usec", "less",
                  {tool.name: startup_source(settings, tool, "first_reply_usec", ["-n", "201", "-i", "1"], transport, 1,
                                             "bench_memory") for tool in libraries})


def threads_ratio_source(settings, tool):
    def measure():
        found = key_values(run([os.path.join(settings.bindir, "bench_threads")], tool.env("shm")))
        return found["two_rate"] / found["one_rate"]
    return measure


def threads_rows(settings, tools):
    """Threads that share a worker. Nothing is bound: there may be more threads than processors."""
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for key, label, unit, better in (("single_rate", "SINGLE, one thread sends and progresses", "msg/s", "more"),
                                     ("alone_rate", "MULTI, one thread sends and progresses", "msg/s", "more"),
                                     ("one_rate", "MULTI, one sends, one progresses", "msg/s", "more"),
                                     ("two_rate", "MULTI, two send, one progresses", "msg/s", "more"),
                                     ("longest_us", "longest send beside one that progresses", "usec", "less"),
                                     ("longest_kept_us", "the same, of a thread that kept its processor", "usec",
                                      "less")):
        yield Row("threads", f"shm, {label}", unit, better,
                  {tool.name: startup_source(settings, tool, key, (), "shm", 1, "bench_threads")
                   for tool in libraries})
    yield Row("threads", "shm, MULTI, two threads against one", "times", "more",
              {tool.name: threads_ratio_source(settings, tool) for tool in libraries})


def mixed_rows(settings, tools):
    """Messages of 8 B that go the same way as messages of 1 MiB."""
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for transport in TRANSPORTS:
        for how, label in (("alone", "nothing else"), ("same", "1 MiB on the same endpoint"),
                           ("other", "1 MiB on another endpoint")):
            options = ["-m", how, "-c", ",".join(settings.cpus), "-n", str(max(200, int(settings.seconds * 2e4)))]
            for key, what, unit, better in (("short_us", "8 B beside {}, median", "usec", "less"),
                                            ("short_p90_us", "8 B beside {}, 90th percentile", "usec", "less"),
                                            ("long_mbps", "{}, bandwidth", "MB/s", "more")):
                if how != "alone" or key == "short_us":
                    yield Row("mixed", f"{transport}, {what.format(label)}", unit, better,
                              {tool.name: startup_source(settings, tool, key, options, transport, 1, "bench_mixed")
                               for tool in libraries})


def guarded_rows(settings, tools):
    """Our library with protection, beside the same without ("bare")."""
    folder = tempfile.TemporaryDirectory()
    key = os.path.join(folder.name, "key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(os.urandom(32))
    ways = (("checksum", {"UCX_TCP_CHECKSUM": "y"}), ("secret", {"UCX_AUTH_KEY_FILE": key}),
            ("TLS", {"UCX_AUTH_KEY_FILE": key, "UCX_AUTH_TLS": "psk"}))
    for name, protection in ways:
        guarded = Tool("causeway", tools[0].program, tools[0].libdir, tools[0].extra)
        guarded.settings, guarded.folder = protection, folder
        for label, test, size, value, unit, better, least in (
                ("8 B, median", "tag_lat", 8, "p50_us", "usec", "less", 200),
                ("64 KiB", "tag_bw", 65536, "mbps", "MB/s", "more", 500),
                ("1 MiB", "tag_bw", 1 << 20, "mbps", "MB/s", "more", 64)):
            yield Row("guarded", f"tcp, {name}, {label}", unit, better,
                      {"bare": tool_source(settings, tools[0], "tcp", test, size, value, (), least),
                       "causeway": tool_source(settings, guarded, "tcp", test, size, value, (), least)})


ROWS = {"latency": latency_rows, "rate": rate_rows, "bandwidth": bandwidth_rows, "startup": startup_rows,
        "endpoints": endpoints_rows, "rma": rma_rows, "wakeup": wakeup_rows, "mpi_init": mpi_init_rows,
        "connect": connect_rows, "guarded": guarded_rows, "memory": memory_rows, "matching": matching_rows,
        "threads": threads_rows, "mixed": mixed_rows, "both": both_rows, "idle": idle_rows,
        "am": family_rows("am", "ucp_am_lat", "ucp_am_bw"), "stream": family_rows("stream", "stream_lat", "stream_bw")}


# ---- the machine ----


def first_match(path, pattern):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
            return found.group(1).strip() if found else None
    except OSError:
        return None


def machine():
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    return {
        "processor": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine(),
        "architecture": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory) / 1048576, 1) if memory else None,
        "kernel": platform.release(),
        "virtual": first_match("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b") is not None,
        "system": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
    }


# ---- the run ----


def parse(arguments):
    parser = argparse.ArgumentParser(description="Measures bare limits, the reference and Causeway in turn.")
    parser.add_argument("bindir")
    parser.add_argument("libdir")
    parser.add_argument("--suites", default=",".join(SUITES), help="of " + ", ".join(SUITES))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long one run measures")
    parser.add_argument("--largest", type=int, default=64 << 20, help="the largest message, in bytes")
    parser.add_argument("--endpoints", type=int, default=10000)
    parser.add_argument("--cpus", help="server's and client's processor, such as 0,1")
    parser.add_argument("--reference", help="folder of the reference's libucp.so.0")
    parser.add_argument("--reference-tool", help="the reference's own ucx_perftest (empty: without it)")
    parser.add_argument("--newer", action="append", default=[], metavar="FOLDER",
                        help="one more version of the reference: the folder of its libucp.so.0 (may be repeated)")
    parser.add_argument("--only", type=re.compile, metavar="REGEX", help="rows whose 'suite: label' matches")
    parser.add_argument("--out", help="folder for results.json, report.md and plots (BINDIR/../bench-report)")
    parser.add_argument("--update", help="a Markdown file whose part between the bench marks is replaced "
                        "(pictures: plots beside it)")
    parser.add_argument("--quick", action="store_true", help="a trial: short and too inexact to be quoted")
    settings = parser.parse_args(arguments)
    settings.suites = settings.suites.split(",")
    for suite in settings.suites:
        if suite not in ROWS:
            parser.error(f"suite '{suite}' is not known")
    if settings.quick:
        settings.repetitions, settings.seconds, settings.endpoints = 2, 0.02, 1000
    if settings.repetitions < 1 or not settings.seconds > 0 or settings.endpoints < 1:
        parser.error("repetitions, seconds and endpoints must be positive")
    allowed = sorted(os.sched_getaffinity(0))
    settings.cpus = settings.cpus.split(",") if settings.cpus else [str(cpu) for cpu in allowed[:2]]
    settings.bindir = os.path.abspath(settings.bindir)
    settings.libdir = os.path.abspath(settings.libdir)
    settings.out = settings.out or os.path.join(os.path.dirname(settings.bindir), "bench-report")
    return settings


class Progress:
    """One line on a terminal's stderr; nothing elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.shown = total, 0, sys.stderr.isatty()

    def step(self, text):
        if self.shown:
            bar = "#" * (30 * self.done // max(1, self.total))
            sys.stderr.write(f"\r\033[K[{bar:.<30}] {self.done}/{self.total} {text}")
            sys.stderr.flush()
        self.done += 1

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def measure_all(settings, tools):
    rows = [row for suite in settings.suites for row in ROWS[suite](settings, tools)
            if not settings.only or settings.only.search(f"{row.suite}: {row.label}")]
    progress = Progress(len(rows) * settings.repetitions)
    for row in rows:
        for repetition in range(settings.repetitions):
            progress.step(f"{row.suite}: {row.label} ({repetition + 1})")
            row.measure_once()
    progress.end()
    return [row.as_dict() for row in rows]


def check_outputs(settings):
    """What can be known before hours of measuring."""
    os.makedirs(settings.out, exist_ok=True)
    with open(os.path.join(settings.out, "report.md"), "a", encoding="utf-8"):
        pass
    if settings.update:
        with open(settings.update, "r+", encoding="utf-8") as file:
            report.update_text(file.read(), "")


def main(arguments):
    settings = parse(arguments)
    if len(settings.cpus) != 2 or len(os.sched_getaffinity(0)) < 2:
        print("run.py: two processors are needed", file=sys.stderr)
        return 77
    load = os.getloadavg()[0]
    try:
        check_outputs(settings)
    except (OSError, ValueError) as error:
        print(f"run.py: the report cannot be written: {error}", file=sys.stderr)
        return 2
    try:
        tools, versions = find_contestants(settings)
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 77
    results = {
        "machine": machine(), "versions": versions, "load_before": round(load, 2), "quick": settings.quick,
        "repetitions": settings.repetitions, "seconds": settings.seconds, "cpus": settings.cpus,
        "date": time.strftime("%Y-%m-%d", time.gmtime()), "rows": measure_all(settings, tools),
    }
    with open(os.path.join(settings.out, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    text = report.markdown(results)
    with open(os.path.join(settings.out, "report.md"), "w", encoding="utf-8") as file:
        file.write(text)
    plot.write(results["rows"], os.path.join(settings.out, report.PLOTS))
    if settings.update:
        report.update_file(settings.update, results)
    print(text)
    return 1 if any("causeway" in row["errors"] for row in results["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
