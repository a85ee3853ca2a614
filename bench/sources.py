# SPDX-License-Identifier: BSD-3-Clause
"""How one number is measured: functions that give the function that measures one contestant for one slice.

How many messages a slice has follows from how long the slice before took, for the machine's speed changes.
"""

import os

from contestants import Failure, Tool, key_values, run
from rows import Shared

MOST_MESSAGES = 20000000


class Count:
    """How many trips fill a slice."""

    def __init__(self, seconds, least):
        self.seconds, self.least, self.count = seconds, least, 0

    def learn(self, seconds_each):
        self.count = min(MOST_MESSAGES, max(self.least, round(self.seconds / max(seconds_each, 1e-9))))


def bare_run(settings, program, options, trips, warmup):
    command = [os.path.join(settings.bindir, program), "-c", ",".join(settings.cpus)]
    return key_values(run(command + list(options) + ["-n", str(trips), "-w", str(warmup)], dict(os.environ)))


def bare_trips(settings, program, options, least, slices=1, key="oneway_ns_mean", directions=2):
    """Runs of a bare program that take about as long as a slice: a function that gives what it printed."""
    count = Count(settings.seconds / slices, least)

    def measure():
        if not count.count:
            count.learn(bare_run(settings, program, options, least, max(1, least // 4))[key] * directions / 1e9)
        found = bare_run(settings, program, options, count.count, max(2, count.count // 4))
        count.learn(found[key] * directions / 1e9)
        return found
    return measure


def bare_source(settings, program, options=(), slices=1):
    """Microseconds one way."""
    trips = bare_trips(settings, program, options, 200, slices)
    return lambda: trips()["oneway_ns_p50"] / 1e3


def bare_sleep_source(settings, kind, sleeps=100):
    """Microseconds from the call that wakes to the one that slept, where both pause before they send."""
    return lambda: bare_run(settings, "bare_sleep", ["-k", kind], sleeps, 20)["wake_ns_p50"] / 1e3


def bare_connect_source(settings, connections):
    """Microseconds until the first answer over memory that was made and passed for it."""
    return lambda: bare_run(settings, "bare_connect", (), connections, 20)["oneway_ns_p50"] * 2 / 1e3


def bytes_rate(found):
    """MB/s of trips that are answered when all has arrived."""
    return found["bytes_per_trip"] / (2 * found["oneway_ns_mean"]) * 1e9 / 1048576


def bare_bandwidth_source(settings, size, kind="one", slices=1):
    trips = bare_trips(settings, "bare_tcp_bw", ["-s", str(size), "-k", kind], 3, slices)
    return lambda: bytes_rate(trips())


def bare_remote_source(settings, kind, size=8, slices=1):
    """Microseconds of one operation, or MB/s where a trip is one copy."""
    key, directions = ("oneway_ns_mean", 2) if kind == "both" else ("trip_ns_mean", 1)
    trips = bare_trips(settings, "bare_remote", ["-k", kind, "-s", str(size)], 3 if size >= 1 << 20 else 20, slices,
                       key, directions)

    def measure():
        found = trips()
        if found["operations_per_trip"] == 1:
            return found["bytes_per_trip"] / (directions * found[key]) * 1e9 / 1048576
        return found["trip_ns_p50"] / found["operations_per_trip"] / 1e3
    return measure


def bare_ring_source(settings, kinds, size=8, slices=1):
    """MB/s through a bare ring of shared memory, or messages a second of lines: the fastest of these kinds."""
    all_kinds = [bare_trips(settings, "bare_ring", ["-k", kind, "-s", str(size)], 2, slices * len(kinds))
                 for kind in kinds]

    def one(trips):
        found = trips()
        amount = found["messages_per_trip"] if size == 8 else found["bytes_per_trip"] / 1048576
        return amount / (2 * found["oneway_ns_mean"]) * 1e9

    return lambda: max(one(trips) for trips in all_kinds)


def tool_run(settings, tool, transport, test, size, options=(), least=200, slices=1):
    """A run of ucx_perftest: a function that gives the numbers of its row."""
    count = Count(settings.seconds / slices, least)
    base = ["-t", test, "-s", str(size)] + list(options)

    def run_pair(messages):
        found = tool.pair(settings, transport, base + ["-n", str(messages), "-w", str(max(2, messages // 4))])
        count.learn(found["overall_us"] * (2 if test.endswith("_lat") else 1) / 1e6)
        return found

    def measure():
        if not count.count:
            run_pair(least)
        return run_pair(count.count)
    return measure


def tool_source(settings, tool, transport, test, size, key, options=(), least=200, slices=1):
    """One of the numbers of its row."""
    measure = tool_run(settings, tool, transport, test, size, options, least, slices)
    return lambda: measure()[key]


def program_run(settings, tool, program, options=(), transport=None):
    """A run of a program of ours on the tool's library: a function that gives what it printed."""
    command = [os.path.join(settings.bindir, program)] + list(options)
    return lambda: key_values(run(command, tool.env(transport)))


def program_source(settings, tool, key, options=(), transport=None, runs=3, program="bench_startup"):
    """One of its numbers: the median of several runs."""
    one = program_run(settings, tool, program, options, transport)

    def measure():
        values = [one()[key] for _ in range(runs)]
        return sorted(values)[len(values) // 2]
    return measure


def shared_programs(settings, tools, program, options=(), transport=None):
    """For each tool runs that several rows share."""
    return {tool.name: Shared(program_run(settings, tool, program, options, transport)) for tool in tools}


def values_of(shared, pick):
    return {name: runs.value(pick) for name, runs in shared.items()}


def mpi_source(settings, tool, flavour, program, key, transport=None):
    starter = {"mpich": ["mpiexec.hydra", "-n", "2"],
               "openmpi": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--mca", "pml", "ucx", "--mca",
                           "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-n", "2"]}[flavour]

    def measure():
        # Handed over on the command line: what starts the processes has no need of the library.
        env = Tool(tool.name, tool.program, None, []).env()
        starter_env = [f"LD_LIBRARY_PATH={tool.libdir}"] if tool.libdir else []
        if transport is not None:  # MPICH has shared memory of its own
            starter_env += [f"UCX_TLS={transport},self", "MPIR_CVAR_NOLOCAL=1"]
        path = os.path.join(settings.bindir, f"bench_{program}.{flavour}")
        return key_values(run(starter + ["env"] + starter_env + [path], env, 60))[key] / 1e3
    return measure
