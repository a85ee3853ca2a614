# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark measures: each suite is a function that yields the rows of the report."""

import copy
import math
import os
import shutil
import tempfile

import report
import sizes as sizes_of
from contestants import Failure, Tool, key_values, run
from rows import SLICES, Row, Shared, ratio_of
from sources import (bare_bandwidth_source, bare_connect_source, bare_remote_source, bare_ring_source,
                     bare_sleep_source, bare_source, mpi_source, program_source, shared_programs, tool_run,
                     tool_source, values_of)

TRANSPORTS = ["shm", "tcp"]
LATENCY_SIZES = [8, 64, 512] + [1024 << power for power in range(7)]
TAIL_SIZES = [8, 65536]
BANDWIDTH_SIZES = [1 << power for power in range(27)]
FAMILY_SIZES = [1024, 8192, 32768, 65536, 1048576, 16777216]
BOTH_SIZES = [65536, 1048576]
BOTH_COPIED = 131072  # over shared memory, where each side copies what it receives
TYPES = [(16384, 32), (65536, 32), (262144, 16), (1048576, 8), (16777216, 4)]  # bytes, messages in a window
LIST_PARTS = [64, 1024, 8192, 262144]
RMA_SIZES = [4096 << 2 * power for power in range(7)]
BOTH_COPY_LEAST = 1 << 20
THREADS_MESSAGES = 500000
PROMISED_SIZES = [32768, 65536, 1048576, 16777216]  # what promises are about is measured in more slices
SLEEPS = 100
CONNECTIONS = 100
DEPTHS = [0] + [10 ** power for power in range(6)]


def libraries_of(tools):
    """Our tool on each library."""
    return [tool for tool in tools if tool.name != "ref. tool"]


def rate_sources(settings, tools, transport, test):
    """Messages of 8 bytes a second."""
    sources = {}
    if transport == "shm":
        sources["bare"] = bare_ring_source(settings, ["lines", "cells"], slices=SLICES)
    sources.update({tool.name: tool_source(settings, tool, transport, test, 8, "rate", least=2000, slices=SLICES)
                    for tool in tools})
    return sources


def latency_rows(settings, tools):
    for transport, program in (("shm", "bare_shm"), ("tcp", "bare_tcp")):
        for size in LATENCY_SIZES:
            sources = {"bare": bare_source(settings, program, ["-s", str(size)], SLICES)}
            for tool in tools:
                sources[tool.name] = tool_source(settings, tool, transport, "tag_lat", size, "p50_us", slices=SLICES)
            if size <= settings.largest:
                yield Row("latency", f"{transport}, {report.size_text(size)}, median", "usec", "less", sources, SLICES)


def tails_rows(settings, tools):
    """The slow messages of a latency test; the reference's own tool does not print them."""
    for transport in TRANSPORTS:
        for size in TAIL_SIZES:
            runs = {tool.name: Shared(tool_run(settings, tool, transport, "tag_lat", size))
                    for tool in libraries_of(tools)}
            for key in ("p50", "p99", "p99.9"):
                yield Row("tails", f"{transport}, {report.size_text(size)}, {key}", "usec", "less",
                          values_of(runs, f"{key}_us"))


def rate_rows(settings, tools):
    for transport in TRANSPORTS:
        yield Row("rate", f"{transport}, 8 B", "msg/s", "more", rate_sources(settings, tools, transport, "tag_bw"),
                  SLICES)


def least_messages(size):
    """How few messages a slice may have: enough for a small size, not too long for a big one."""
    return max(6, min(2000, (32 << 20) // size))


def slices_of(size):
    return SLICES if size in PROMISED_SIZES else 1


def parts_of(transport, slices):
    """How many slices share the seconds of a repetition. Not those of TCP: its windows need some time to grow."""
    return slices if transport == "shm" else 1


def bandwidth_row(settings, tools, suite, transport, test, size):
    slices = slices_of(size)
    parts = parts_of(transport, slices)
    sources = {}
    if suite in ("bandwidth", "am") and transport == "tcp":
        sources["bare"] = bare_bandwidth_source(settings, size, slices=parts)
    if suite != "am" and transport == "shm" and size > 1024:  # shorter ones go otherwise
        sources["bare"] = bare_ring_source(settings, ["copy", "past"], size, parts)
    for tool in tools:
        sources[tool.name] = tool_source(settings, tool, transport, test, size, "mbps", (), least_messages(size), parts)
    return Row(suite, f"{transport}, {report.size_text(size)}", "MB/s", "more", sources, slices)


def bandwidth_rows(settings, tools):
    for transport in TRANSPORTS:
        for size in BANDWIDTH_SIZES:
            if size <= settings.largest:
                yield bandwidth_row(settings, tools, "bandwidth", transport, "tag_bw", size)


def sweep(settings, tool, transport, sizes):
    """Runs of one size after the other, upwards and downwards in turn."""
    sources = [(size, tool_source(settings, tool, transport, "tag_bw", size, "mbps", (), least_messages(size), SLICES))
               for size in sizes]

    def measure():
        found = {size: source() for size, source in sources}
        sources.reverse()
        return found
    return measure


def sweep_alone(settings, tool, sizes):
    """Within one process all sizes are of one run, upwards: what one leaves behind in the process meets the next."""
    def measure():
        rows = tool.alone(settings, "self", ["-t", "tag_bw", "--sweep", f"{sizes[0]}:{sizes[-1]}"])
        found = {row["size"]: row["mib_per_s"] for row in rows}
        if list(found) != sizes:
            raise Failure("the sweep has other sizes")
        return found
    return measure


def steps_rows(settings, tools):
    """Each size against its half, which is measured right before it or right after it."""
    sizes = [size for size in BANDWIDTH_SIZES if size <= settings.largest]
    for transport in ["self"] + TRANSPORTS:
        sweeps = {tool.name: Shared(sweep_alone(settings, tool, sizes) if transport == "self" else
                                    sweep(settings, tool, transport, sizes)) for tool in libraries_of(tools)}
        for size in sizes[1:]:
            yield Row("steps", f"{transport}, to {report.size_text(size)}", "times", "more",
                      values_of(sweeps, lambda found, size=size: found[size] / found[size // 2]), SLICES)


def both_rows(settings, tools):
    """Both directions at the same time. The sum of both is bound by the two processors."""
    for size in BOTH_SIZES:
        options = ["-c", ",".join(reversed(settings.cpus)), "-s", str(size),
                   "-n", str(max(8, int(settings.seconds * 2e9 / 10 / size)))]
        one, both = (bare_bandwidth_source(settings, size, kind) for kind in ("one", "both"))
        shared = {"bare": Shared(lambda one=one, both=both: {"one_mbps": one(), "both_mbps": both()})}
        shared |= shared_programs(settings, libraries_of(tools), "bench_both", options, "tcp")
        for key, what, unit in (("one_mbps", "one way", "MB/s"), ("both_mbps", "both ways", "MB/s"),
                                (lambda found: found["both_mbps"] / found["one_mbps"],
                                 "ratio of both ways to one", "times")):
            yield Row("both", f"tcp, {report.size_text(size)}, {what}", unit, "more", values_of(shared, key), SLICES)
    options = ["-c", ",".join(reversed(settings.cpus)), "-s", str(BOTH_COPIED), "-n",
               str(max(8, int(settings.seconds * 2e10 / 10 / BOTH_COPIED)))]
    shared = shared_programs(settings, libraries_of(tools), "bench_both", options, "shm")
    for key, what in (("one_mbps", "one way"), ("both_mbps", "both ways")):
        label = f"shm, {report.size_text(BOTH_COPIED)}, {what}"
        yield Row("both", label, "MB/s", "more", values_of(shared, key), SLICES)


def types_rows(settings, tools):
    """Windows of messages of a generic datatype."""
    for transport in TRANSPORTS:
        for size, window in TYPES:
            options = ["-c", ",".join(reversed(settings.cpus)), "-s", str(size), "-w", str(window), "-t",
                       str(max(1, round(settings.seconds * 1000)))]
            yield Row("types", f"{transport}, {window} x {report.size_text(size)}", "MB/s", "more",
                      {tool.name: program_source(settings, tool, "mbps", options, transport, 3, "bench_types")
                       for tool in libraries_of(tools)})


def family_rows(suite, latency_test, bandwidth_test):
    """Latency, rate and bandwidth of another kind of message."""
    def rows(settings, tools):
        libraries = libraries_of(tools)
        for transport in TRANSPORTS:
            yield Row(suite, f"{transport}, 8 B, median", "usec", "less",
                      {tool.name: tool_source(settings, tool, transport, latency_test, 8, "p50_us", slices=SLICES)
                       for tool in tools}, SLICES)
            yield Row(suite, f"{transport}, 8 B, rate", "msg/s", "more",
                      rate_sources(settings, tools, transport, bandwidth_test), SLICES)
            for size in FAMILY_SIZES:
                if size <= settings.largest:
                    yield bandwidth_row(settings, libraries, suite, transport, bandwidth_test, size)
            if suite == "am":
                yield from list_rows(settings, libraries, suite, transport, bandwidth_test)
    return rows


def list_rows(settings, tools, suite, transport, test):
    """Lists of four entries at both sides."""
    for part in LIST_PARTS:
        size = ",".join([str(part)] * 4)
        yield Row(suite, f"{transport}, list of 4 x {report.size_text(part)}", "MB/s", "more",
                  {tool.name: tool_source(settings, tool, transport, test, size, "mbps", ["-D", "iov,iov"],
                                          least_messages(4 * part), parts_of(transport, SLICES))
                   for tool in tools}, SLICES)


# ---- one-sided operations ----


def rma_source(settings, tool, transport, test, size, key, options=(), least=200, slices=SLICES):
    """The reference's own tool of older versions has no ucp_get_bw: there ucp_get does the same with a window."""
    if tool.name == "ref. tool" and test == "ucp_get_bw":
        test, options = "ucp_get", list(options) + ["-O", "32"]
    return tool_source(settings, tool, transport, test, size, key, options, least, slices)


def rma_latency_row(settings, tools, transport, name, test, bare=None, options=()):
    sources = {"bare": bare} if bare else {}
    for tool in tools:
        sources[tool.name] = rma_source(settings, tool, transport, test, 8, "p50_us", options, 2000)
    return Row("rma", f"{transport}, {name}, 8 B, median", "usec", "less", sources, SLICES)


def rma_bandwidth_row(settings, tools, transport, name, test, size, bare=None, options=()):
    slices = slices_of(size)
    parts = parts_of(transport, slices)
    sources = {"bare": bare} if bare else {}
    if transport == "shm" and "--user-memory" in options:
        sources["bare ring"] = bare_ring_source(settings, ["copy", "past"], size, parts)
        if size >= BOTH_COPY_LEAST:
            sources["bare both"] = bare_remote_source(settings, "both", size, parts)
    for tool in tools:
        sources[tool.name] = rma_source(settings, tool, transport, test, size, "mbps", options, least_messages(size),
                                        parts)
    return Row("rma", f"{transport}, {name}, {report.size_text(size)}", "MB/s", "more", sources, slices)


def even_row(settings, tools, size):
    """Put against get, one right after the other. Sides change processors between them, so that bytes go from the
    same one to the same one: that is what a machine's two directions differ by."""
    turned = copy.copy(settings)
    turned.cpus = settings.cpus[::-1]
    sources = {}
    for tool in tools:
        put, get = (rma_source(sides, tool, "tcp", test, size, "mbps", (), least_messages(size), 1)
                    for sides, test in ((settings, "ucp_put_bw"), (turned, "ucp_get_bw")))
        sources[tool.name] = ratio_of(put, get)
    return Row("rma", f"tcp, put against get, {report.size_text(size)}", "times", "more", sources, SLICES)


def rma_rows(settings, tools):
    # Only our tool has an option to use memory of its own.
    ours = libraries_of(tools)
    own = ["--user-memory"]
    bare = {"shm": {"put": bare_source(settings, "bare_shm", (), SLICES),
                    "get": bare_remote_source(settings, "load", 8, SLICES),
                    "atomic": bare_remote_source(settings, "atomic", 8, SLICES)},
            "tcp": dict.fromkeys(["put", "get", "atomic"], bare_source(settings, "bare_tcp", (), SLICES))}
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
                      {tool.name: rma_source(settings, tool, transport, test, 8, "rate", (), 2000) for tool in tools},
                      SLICES)
        for name, test in (("put", "ucp_put_bw"), ("get", "ucp_get_bw")):
            for size in RMA_SIZES:
                if size > settings.largest:
                    continue
                is_shm, slices = transport == "shm", slices_of(size)
                limit = (bare_remote_source(settings, name, size, slices) if is_shm
                         else bare_bandwidth_source(settings, size))
                other = bare_remote_source(settings, "readv", size, slices) if is_shm else limit
                yield rma_bandwidth_row(settings, ours, transport, name, test, size, limit)
                yield rma_bandwidth_row(settings, ours, transport, f"{name}, user memory", test, size, other, own)
        if transport == "tcp":
            yield even_row(settings, ours, 1 << 20)
        flushes = shared_programs(settings, ours, "bench_flush", (), transport)
        for key, label in (("worker_flush_us", "flush of a worker with 1,000 idle endpoints"),
                           ("endpoints_flush_us", "flush of 1,000 idle endpoints one by one")):
            yield Row("rma", f"{transport}, {label}", "usec", "less", values_of(flushes, key))


def mpis_with(settings, program):
    for flavour, name, starter in (("mpich", "MPICH", "mpiexec.hydra"), ("openmpi", "Open MPI", "mpirun.openmpi")):
        if shutil.which(starter) and os.path.exists(os.path.join(settings.bindir, f"bench_{program}.{flavour}")):
            yield flavour, name


def mpi_init_rows(settings, tools):
    for flavour, name in mpis_with(settings, "mpi_init"):
        for key, label in (("init_us", "MPI_Init"), ("total_us", "MPI_Init and MPI_Finalize")):
            yield Row("mpi_init", f"{name}, two processes, {label}", "msec", "less",
                      {tool.name: mpi_source(settings, tool, flavour, "mpi_init", key) for tool in libraries_of(tools)})


def mpi_types_rows(settings, tools):
    for flavour, name in mpis_with(settings, "mpi_types"):
        for transport in TRANSPORTS:
            for key, label in (("vector", "vector, 1 MiB"), ("struct", "structures, 1 MB"),
                               ("indexed", "every second structure, 0.8 MB"),
                               ("faces", "exchange of 16 faces of 64 KiB")):
                yield Row("mpi_types", f"{name}, {transport}, {label}", "msec", "less",
                          {tool.name: mpi_source(settings, tool, flavour, "mpi_types", f"{key}_us", transport)
                           for tool in libraries_of(tools)})


def startup_rows(settings, tools):
    libraries = libraries_of(tools)
    starts = shared_programs(settings, libraries, "bench_startup")
    for key, label, unit in (("total_us", "init + worker", "usec"), ("resident_kib", "resident memory added", "KiB"),
                             ("dirty_kib", "of it private and written", "KiB")):
        yield Row("startup", label, unit, "less", values_of(starts, key), SLICES)
    for transport in TRANSPORTS:
        yield Row("startup", f"{transport}, process start to first message received", "usec", "less",
                  {tool.name: program_source(settings, tool, "first_message_us", (), transport, 1, "bench_first")
                   for tool in libraries})


def idle_rows(settings, tools):
    """Of our library alone: the reference takes minutes to make so many connections."""
    for transport in TRANSPORTS:
        runs = shared_programs(settings, tools[:1], "bench_idle", ["-n", str(settings.endpoints)], transport)
        for key, label in (("idle_ratio", "progress that finds nothing"), ("message_ratio", "message of 8 B")):
            yield Row("idle", f"{transport}, {label}, {settings.endpoints:,} endpoints against one", "times", "less",
                      values_of(runs, key))


def endpoints_rows(settings, tools):
    runs = shared_programs(settings, libraries_of(tools), "bench_startup", ["-e", str(settings.endpoints)])
    for key, label, unit in (("endpoint_resident_bytes", "resident memory of an endpoint", "B"),
                             ("endpoint_malloc_bytes", "of it from malloc", "B"),
                             ("endpoint_ns", "time to make one", "nsec")):
        yield Row("endpoints", label, unit, "less", values_of(runs, key))


def memory_rows(settings, tools):
    further = "each further connected idle peer"
    for transport in TRANSPORTS:
        dialled, accepted = (shared_programs(settings, libraries_of(tools), "bench_memory", options, transport)
                             for options in ([], ["-a"]))
        for key, label, unit, runs in (
                ("one_peer_kib", "process with one worker and one peer", "KiB", dialled),
                ("peer_bytes", f"{further}, where it was dialled from", "B", dialled),
                ("peer_bytes", f"{further}, where the dial came in", "B", accepted)):
            yield Row("memory", f"{transport}, {label}", unit, "less", values_of(runs, key))


def matching_rows(settings, tools):
    libraries = libraries_of(tools)
    time = ["-t", str(max(1, round(settings.seconds * 1000 / 2)))]
    for kind in ("posted", "unexpected"):
        for name, mask, order in (("exact", "exact", "hot"), ("any source", "any", "hot"),
                                  ("exact, random order", "exact", "spread")):
            for depth in DEPTHS:
                if depth == 0 and order == "spread":
                    continue
                options = ["-k", kind, "-m", mask, "-o", order, "-q", str(depth)] + time
                yield Row("matching", f"{kind}, {name}, {depth:,} queued", "nsec", "less",
                          {tool.name: program_source(settings, tool, "operation_ns", options, "self", 1, "bench_match")
                           for tool in libraries})


def wakeup_rows(settings, tools):
    """Two that answer at once may not get to sleep at all; for sure they do where each pauses before it sends."""
    for transport, program, options, kind in (("shm", "bare_wakeup", [], "eventfd"),
                                              ("tcp", "bare_tcp", ["-S"], "tcp")):
        sources = {"bare": bare_source(settings, program, options)}
        for tool in tools:
            sources[tool.name] = tool_source(settings, tool, transport, "tag_lat", 8, "p50_us", ["-E", "sleep"])
        yield Row("wakeup", f"{transport}, 8 B, asleep, median", "usec", "less", sources)
        bare = {"bare": bare_sleep_source(settings, kind)}
        for label, more in (("8 B, both asleep for sure", ["-b"]), ("8 B to one that sleeps for sure", [])):
            options = more + ["-n", str(SLEEPS), "-c", ",".join(settings.cpus)]
            yield Row("wakeup", f"{transport}, {label}, median", "usec", "less",
                      bare | {tool.name: program_source(settings, tool, "wake_us", options, transport, 1, "bench_wake")
                              for tool in libraries_of(tools)}, SLICES)


def connect_rows(settings, tools):
    for transport in ("tcp", "shm,tcp"):
        runs = shared_programs(settings, libraries_of(tools), "bench_connect", (), transport)
        for key, label, unit, better in (
                ("first_reply_usec", "endpoint by socket address to first reply", "usec", "less"),
                ("rate", "connections made, asked, answered, closed", "1/s", "more")):
            yield Row("connect", f"{transport}, {label}", unit, better, values_of(runs, key))
    yield from address_rows(settings, tools)


def live_rows(settings, tools):
    """One worker with thousands of live endpoints."""
    options = ["-n", str(min(settings.endpoints, 9000)), "-m", str(max(10000, int(settings.seconds * 4e5)))]
    runs = shared_programs(settings, libraries_of(tools), "bench_live", options, "tcp")
    bare = Shared(lambda: key_values(run([os.path.join(settings.bindir, "bare_live")] + options, None, 60)))
    for key, label, unit, better in (
            ("connect_sec", "all endpoints dial one listener and are heard", "sec", "less"),
            ("dialled_bytes", "resident memory of an endpoint, where it was dialled from", "B", "less"),
            ("accepted_bytes", "resident memory of an endpoint, where the dial came in", "B", "less"),
            ("few_rate", "8 B in turn on 10 of them", "1/s", "more"),
            ("all_rate", "8 B in turn on all of them", "1/s", "more"),
            ("all_ratio", "all against 10 of them", "", "more")):
        limit = {"bare": bare.value(key)} if key.endswith(("rate", "ratio")) else {}
        yield Row("live", label, unit, better, limit | values_of(runs, key))


def address_rows(settings, tools):
    """Of 100 peers, one after the other, by the addresses of their workers."""
    options = ["-n", str(CONNECTIONS + 1), "-i", "1"]
    for transport in TRANSPORTS:
        sources = {"bare": bare_connect_source(settings, CONNECTIONS)} if transport == "shm" else {}
        for tool in libraries_of(tools):
            sources[tool.name] = program_source(settings, tool, "first_reply_usec", options, transport, 1,
                                                "bench_memory")
        yield Row("connect", f"{transport}, endpoint by worker address to first reply", "usec", "less", sources, SLICES)


def modes_rows(settings, tools):
    """What mode MULTI costs a thread that has its worker to itself. Both sides in one process."""
    runs = shared_programs(settings, libraries_of(tools), "bench_modes", (), "shm")
    for key, label, unit in (("idle_multi_ns", "progress that finds nothing", "nsec"),
                             ("idle_ratio", "the same against SINGLE", "times"),
                             ("am_multi_ns", "active message of 8 B", "nsec"),
                             ("am_ratio", "the same against SINGLE", "times"),
                             ("tag_multi_ns", "tag message of 8 B", "nsec"),
                             ("tag_ratio", "the same against SINGLE", "times")):
        yield Row("modes", f"shm, MULTI, {label}", unit, "less", values_of(runs, key))


def threads_rows(settings, tools):
    """Threads that share a worker. Nothing is bound: there may be more threads than processors."""
    libraries = {}
    for tool in libraries_of(tools):  # some take ten times as long
        messages = THREADS_MESSAGES if tool.name == "causeway" else THREADS_MESSAGES // 10
        libraries |= shared_programs(settings, [tool], "bench_threads", ["-n", str(messages)], "shm")
    bare = Shared(lambda: key_values(run([os.path.join(settings.bindir, "bare_threads"), "-n", str(THREADS_MESSAGES)],
                                         dict(os.environ))))

    def two_to_one(found):
        return found["two_rate"] / found["one_rate"]

    for key, label, unit, better in (("single_rate", "SINGLE, one thread sends and progresses", "msg/s", "more"),
                                     ("alone_rate", "MULTI, one thread sends and progresses", "msg/s", "more"),
                                     ("one_rate", "MULTI, one sends, one progresses", "msg/s", "more"),
                                     ("two_rate", "MULTI, two send, one progresses", "msg/s", "more"),
                                     ("longest_us", "longest send beside one that progresses", "usec", "less"),
                                     ("longest_kept_us", "the same, of a thread that kept its processor", "usec",
                                      "less"),
                                     (two_to_one, "MULTI, two threads against one", "times", "more")):
        runs = {"bare": bare, **libraries} if key in ("one_rate", "two_rate", two_to_one) else libraries
        yield Row("threads", f"shm, {label}", unit, better, values_of(runs, key), SLICES)


def mixed_rows(settings, tools):
    """Messages of 8 B that take the same path as messages of 1 MiB."""
    for transport in TRANSPORTS:
        for how, label in (("alone", "nothing else"), ("same", "1 MiB on the same endpoint"),
                           ("other", "1 MiB on another endpoint")):
            options = ["-m", how, "-c", ",".join(settings.cpus), "-n", str(max(200, int(settings.seconds * 2e4)))]
            runs = shared_programs(settings, libraries_of(tools), "bench_mixed", options, transport)
            for key, what, unit, better in (("short_us", "8 B beside {}, median", "usec", "less"),
                                            ("short_p90_us", "8 B beside {}, 90th percentile", "usec", "less"),
                                            ("long_mbps", "{}, bandwidth", "MB/s", "more")):
                if how != "alone" or key == "short_us":
                    yield Row("mixed", f"{transport}, {what.format(label)}", unit, better, values_of(runs, key))


def sizes_rows(settings, tools):
    """Latency at every size, as geometric means of bands, and the largest step down to the next larger size."""
    bands = ((1, 64), (65, 2048), (2049, 65536), (65537, settings.largest + 1))
    usec = int(settings.seconds * 1e6 / 200)

    def mean_of(found, least, most):
        return math.exp(math.fsum(logs := [math.log(value) for size, value in found.items()
                                           if least <= size <= most]) / len(logs))

    def worst_step(found):
        order = sorted(found)
        return max(found[size] / found[larger] for size, larger in zip(order, order[1:]))

    for transport in ["self"] + TRANSPORTS:
        for operation in sizes_of.operations_of(transport):
            runs = {tool.name: Shared(lambda tool=tool, transport=transport, operation=operation: sizes_of.measured(
                settings, tool, transport, operation, usec)) for tool in libraries_of(tools)}
            name = f"{transport}, {operation.replace('am_header', 'am with header')}"
            for least, most in bands:
                if least < settings.largest:
                    yield Row("sizes", f"{name}, {least:,} to {most:,} B, mean", "usec", "less", values_of(
                        runs, lambda found, least=least, most=most: mean_of(found, least, most)))
            yield Row("sizes", f"{name}, a size against the next larger one, at most", "times", "less",
                      values_of(runs, worst_step))


def guarded_rows(settings, tools):
    """Our library with protection, beside the same without ("bare")."""
    folder = tempfile.TemporaryDirectory()
    key = os.path.join(folder.name, "key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(os.urandom(32))
    protections = (("checksum", {"UCX_TCP_CHECKSUM": "y"}), ("secret", {"UCX_AUTH_KEY_FILE": key}),
            ("TLS", {"UCX_AUTH_KEY_FILE": key, "UCX_AUTH_TLS": "psk"}))
    for name, protection in protections:
        guarded = Tool("causeway", tools[0].program, tools[0].libdir, tools[0].extra)
        guarded.settings, guarded.folder = protection, folder
        for label, test, size, value, unit, better, least in (
                ("8 B, median", "tag_lat", 8, "p50_us", "usec", "less", 200),
                ("64 KiB", "tag_bw", 65536, "mbps", "MB/s", "more", 500),
                ("1 MiB", "tag_bw", 1 << 20, "mbps", "MB/s", "more", 64)):
            yield Row("guarded", f"tcp, {name}, {label}", unit, better,
                      {"bare": tool_source(settings, tools[0], "tcp", test, size, value, (), least),
                       "causeway": tool_source(settings, guarded, "tcp", test, size, value, (), least)})


ROWS = {"latency": latency_rows, "tails": tails_rows, "rate": rate_rows, "bandwidth": bandwidth_rows,
        "steps": steps_rows, "am": family_rows("am", "ucp_am_lat", "ucp_am_bw"),
        "stream": family_rows("stream", "stream_lat", "stream_bw"), "rma": rma_rows, "startup": startup_rows,
        "endpoints": endpoints_rows, "memory": memory_rows, "wakeup": wakeup_rows, "connect": connect_rows,
        "live": live_rows, "idle": idle_rows, "matching": matching_rows, "guarded": guarded_rows, "modes": modes_rows,
        "threads": threads_rows, "mixed": mixed_rows, "both": both_rows, "types": types_rows, "sizes": sizes_rows,
        "mpi_init": mpi_init_rows, "mpi_types": mpi_types_rows}
SUITES = list(ROWS)
