# SPDX-License-Identifier: BSD-3-Clause
"""Programs that the benchmark measures with, and the libraries that it puts under them."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

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
                time.sleep(0.002)
            text = run(common + ["-c", settings.cpus[1], "-f", "127.0.0.1"] + self.extra + options, env)
            return perftest_row(text)
        finally:
            try:
                server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def alone(self, settings, transport, options):
        """Runs both sides in one process; a dictionary for each test, as --json has them. Of our own tool alone."""
        command = [self.program, "-l", "-c", settings.cpus[0], "--json"]
        try:
            return [json.loads(line) for line in run(command + options, self.env(transport)).splitlines()]
        except ValueError:
            raise Failure("unexpected output of --json") from None


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
