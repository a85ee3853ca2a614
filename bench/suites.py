# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark measures: each suite is a function that yields the rows of the report."""

import os
import shutil
import tempfile

import report
from contestants import Failure, Tool, key_values, run

SUITES = ["latency", "rate", "bandwidth", "am", "stream", "rma", "startup", "endpoints", "memory", "wakeup",
          "connect", "idle", "matching", "guarded", "modes", "threads", "mixed", "both",
          "mpi_init"]
TRANSPORTS = ["shm", "tcp"]
LATENCY_SIZES = [8, 64, 512] + [1024 << power for power in range(7)]
BANDWIDTH_SIZES = [1 << power for power in range(27)]
FAMILY_SIZES = [1024, 8192, 32768, 65536, 1048576, 16777216]
BOTH_SIZES = [65536, 1048576]
LIST_PARTS = [64, 1024, 8192, 262144]
RMA_SIZES = [4096 << 2 * power for power in range(7)]
DEPTHS = [0] + [10 ** power for power in range(6)]


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


def modes_rows(settings, tools):
    """What mode MULTI costs a thread that has its worker to itself. Both sides in one process."""
    libraries = [tool for tool in tools if tool.name != "ref. tool"]
    for key, label, unit in (("idle_multi_ns", "progress that finds nothing", "nsec"),
                             ("idle_ratio", "the same against SINGLE", "times"),
                             ("am_multi_ns", "active message of 8 B", "nsec"),
                             ("am_ratio", "the same against SINGLE", "times"),
                             ("tag_multi_ns", "tag message of 8 B", "nsec"),
                             ("tag_ratio", "the same against SINGLE", "times")):
        yield Row("modes", f"shm, MULTI, {label}", unit, "less",
                  {tool.name: startup_source(settings, tool, key, (), "shm", 1, "bench_modes")
                   for tool in libraries})


def threads_source(settings, tool, key):
    """`tool`: None for the bare limit. `key` may name a ratio: one_rate/two_rate."""
    def measure():
        program = "bench_threads" if tool else "bare_threads"
        found = key_values(run([os.path.join(settings.bindir, program)], tool.env("shm") if tool else dict(os.environ)))
        above, _, below = key.partition("/")
        return found[above] / found[below] if below else found[above]
    return measure


def threads_rows(settings, tools):
    """Threads that share a worker. Nothing is bound: there may be more threads than processors."""
    libraries = {tool.name: tool for tool in tools if tool.name != "ref. tool"}
    for key, label, unit, better in (("single_rate", "SINGLE, one thread sends and progresses", "msg/s", "more"),
                                     ("alone_rate", "MULTI, one thread sends and progresses", "msg/s", "more"),
                                     ("one_rate", "MULTI, one sends, one progresses", "msg/s", "more"),
                                     ("two_rate", "MULTI, two send, one progresses", "msg/s", "more"),
                                     ("longest_us", "longest send beside one that progresses", "usec", "less"),
                                     ("longest_kept_us", "the same, of a thread that kept its processor", "usec",
                                      "less"),
                                     ("two_rate/one_rate", "MULTI, two threads against one", "times", "more")):
        contestants = {"bare": None, **libraries} if key in ("one_rate", "two_rate", "two_rate/one_rate") else libraries
        yield Row("threads", f"shm, {label}", unit, better,
                  {name: threads_source(settings, tool, key) for name, tool in contestants.items()})


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
        "threads": threads_rows, "modes": modes_rows, "mixed": mixed_rows, "both": both_rows, "idle": idle_rows,
        "am": family_rows("am", "ucp_am_lat", "ucp_am_bw"), "stream": family_rows("stream", "stream_lat", "stream_bw")}
