#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The release before this tree, built from the history, talks to this tree (README.md, Releases).

    older.py build SOURCE DIRECTORY          builds the last release of packaging/releases.txt into DIRECTORY/lib, and
                                             with a hello that this tree does not know into DIRECTORY/foreign
    older.py talk SOURCE DIRECTORY PROGRAM LIB TLS new|old        who begins
    older.py refuse SOURCE DIRECTORY PROGRAM LIB TLS new|old
    older.py secret SOURCE DIRECTORY PROGRAM LIB tcp new|old      both with one cluster secret

PROGRAM is chaos_older, LIB the directory of this tree's libraries. Where every version on the wire is the release's,
the two have to talk; where one differs, both have to refuse with a sentence. Of several transports the last one has to
do, where another one differs.

Status: 0, 1, or 77 where the history does not reach back to the release.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60
HELLO = "src/wire/hello.c"
FOREIGN = 254
# Where a proof of the secret is one of its length, too.
SIZED = ("src/transport/tcp/tcp_wire.h", "CW_TCP_SIZED")
# Where each version stands, for the transports that send it.
VERSIONS = {
    "address": ("src/wire/address.c", r"^#define VERSION (\d+)u", "shm tcp"),
    "hello": (HELLO, r"^#define VERSION (\d+)u", "shm tcp"),
    "handshake of shared memory": ("src/transport/shm/shm.h", r"^#define SHM_VERSION (\d+)u", "shm"),
    "handshake of TCP": ("src/transport/tcp/tcp_wire.h", r"^#define CW_TCP_VERSION +(\d+)u", "tcp"),
}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def last_release(source):
    """(version, commit) of the last line."""
    lines = [line.split() for line in read(source, "packaging/releases.txt").splitlines() if not line.startswith("#")]
    return lines[-1]


def versions(tree, tls):
    """{what: its version in a tree}"""
    found = {}
    for what, (path, pattern, transports) in VERSIONS.items():
        if tls.split(",")[-1] in transports.split():
            match = re.search(pattern, read(tree, path), re.MULTILINE)
            if match is None:
                sys.exit("%s: the version of the %s is not there: mend VERSIONS of older.py" % (path, what))
            found[what] = match.group(1)
    return found


def unpack(source, commit, tree):
    """The release's files; False where the history does not have them."""
    git = ["git", "-C", source]
    known = subprocess.run(git + ["cat-file", "-e", commit + "^{commit}"], stderr=subprocess.DEVNULL, check=False)
    if known.returncode != 0:
        return False
    os.makedirs(tree)
    archive = subprocess.run(git + ["archive", commit], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    return True


def make(tree, to):
    """Builds the library of the tree, with types for abi.sh: little time of the compiler, as speed does not count."""
    build = tree + ".build"
    quiet = {"stdout": subprocess.DEVNULL, "check": True}
    if not os.path.exists(build):
        subprocess.run([os.environ.get("CMAKE", "cmake"), "-G", "Ninja", "-S", tree, "-B", build,
                        "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0 -g -w", "-DCW_BUILD_TESTS=OFF",
                        "-DCW_BUILD_TOOLS=OFF", "-DCW_BUILD_PYTHON=OFF"], **quiet)
    subprocess.run(["ninja", "-C", build, "ucp"], **quiet)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(os.path.join(build, "lib"), to, symlinks=True)


def build(source, directory):
    if shutil.which("git") is None:
        print("SKIPPED: there is no git on this machine, so the release before this tree cannot be had")
        return 77
    version, commit = last_release(source)
    stamp = os.path.join(directory, "commit")
    if os.path.exists(stamp) and read(stamp) == commit:
        print("release %s lies there already" % version)
        return 0
    shutil.rmtree(directory, ignore_errors=True)
    tree = os.path.join(directory, "source")
    if not unpack(source, commit, tree):
        print("SKIPPED: release %s (%s) is not in the history of %s" % (version, commit, source))
        return 77
    original = read(tree, HELLO)
    for text, to in ((re.sub(VERSIONS["hello"][1], "#define VERSION %du" % FOREIGN, original, flags=re.MULTILINE),
                      "foreign"), (original, "lib")):
        with open(os.path.join(tree, HELLO), "w", encoding="utf-8") as file:
            file.write(text)
        make(tree, os.path.join(directory, to))
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(commit)
    print("built release %s" % version)
    return 0


class Side:
    """One process, on the libraries of a directory."""

    def __init__(self, name, program, lib, tls, arguments, settings):
        self.name = name
        env = {key: value for key, value in os.environ.items() if not key.startswith(("UCX_", "LD_"))}
        env.update({"LD_LIBRARY_PATH": lib, "UCX_TLS": "self," + tls}, **settings)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program] + arguments, env=env, text=True, stdin=pipe, stdout=pipe,
                                        stderr=subprocess.STDOUT)
        self.address = self.process.stdout.readline()

    def set_address(self, address):
        self.process.stdin.write(address)
        self.process.stdin.flush()

    def end(self):
        """(status, output)"""
        try:
            output = self.process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            output = self.process.communicate()[0] + "(it had not ended after %d s)\n" % SECONDS
        print("--- %s, status %d\n%s" % (self.name, self.process.returncode, output), end="")
        return self.process.returncode, output


def used_library(process):
    """The libucp that a process has mapped."""
    for line in read("/proc/%d/maps" % process.pid).splitlines():
        if "/libucp.so" in line:
            return os.path.realpath(line.split(maxsplit=5)[5])
    return None


def pair(program, libs, tls, first, refused, settings=None):
    """Runs two sides, of which `first` begins: their (status, output), the first one's first."""
    second = "old" if first == "new" else "new"
    extra = ["refused"] if refused else []
    settings = settings or {}
    sides = [Side("%s release begins" % first, program, libs[first], tls, ["first"] + extra, settings),
             Side("%s release answers" % second, program, libs[second], tls, ["second"] + extra, settings)]
    for side, name in zip(sides, (first, second)):
        used = used_library(side.process)
        if used is None or os.path.dirname(used) != os.path.realpath(libs[name]):
            sys.exit("the library in use is %s, not one of %s" % (used, libs[name]))
    sides[0].set_address(sides[1].address)
    if not refused:
        sides[1].set_address(sides[0].address)
    return [side.end() for side in sides]


def talk(program, libs, tls, first):
    return all(status == 0 and "TALKED" in output for status, output in pair(program, libs, tls, first, False))


def refuse(program, libs, tls, first):
    """The side that answers says why, and neither side takes harm."""
    (begun, first_log), (answered, second_log) = pair(program, libs, tls, first, True)
    reason = r"version \d+ of the protocol|(no|not a) (handshake|greeting) of this protocol|another version"
    why = re.search(reason, first_log + second_log)
    return begun == 0 and "REFUSED" in first_log and answered == 0 and "NOTHING CAME" in second_log and why is not None


def secret(program, libs, trees, first):
    """Both sides have the same cluster secret: where they prove it alike they talk, otherwise both say why not."""
    sized = {name: os.path.exists(os.path.join(tree, SIZED[0])) and SIZED[1] in read(tree, SIZED[0])
             for name, tree in trees.items()}
    with tempfile.NamedTemporaryFile() as key:
        key.write(os.urandom(32))
        key.flush()
        settings = {"UCX_AUTH_KEY_FILE": key.name}
        if sized["new"] == sized["old"]:
            return all(status == 0 and "TALKED" in output
                       for status, output in pair(program, libs, "tcp", first, False, settings))
        (begun, first_log), (answered, second_log) = pair(program, libs, "tcp", first, True, settings)
    ours, theirs = (first_log, second_log) if first == "new" else (second_log, first_log)
    return (begun == 0 and "REFUSED" in first_log and answered == 0 and "NOTHING CAME" in second_log and
            "it is of release 1.0" in ours and
            re.search(r"protect connections otherwise|protection of connections differs", theirs) is not None)


def main():
    command, source, directory = sys.argv[1:4]
    if command == "build":
        return build(source, directory)
    program, lib, tls, first = sys.argv[4:8]
    if not os.path.exists(os.path.join(directory, "commit")):
        print("SKIPPED: the release before this tree could not be had: see chaos.older.build")
        return 77
    theirs, ours = versions(os.path.join(directory, "source"), tls), versions(source, tls)
    for what in ours:
        print("version of the %s: the release %s, this tree %s" % (what, theirs[what], ours[what]))
    libs = {"new": lib, "old": os.path.join(directory, "lib")}
    if command == "secret":
        return 0 if secret(program, libs, {"new": source, "old": os.path.join(directory, "source")}, first) else 1
    if command == "refuse":
        libs["old"] = os.path.join(directory, "foreign")
        return 0 if refuse(program, libs, tls, first) else 1
    if theirs != ours:
        print("a version differs: refusal is demanded")
        return 0 if refuse(program, libs, tls, first) else 1
    return 0 if talk(program, libs, tls, first) else 1


if __name__ == "__main__":
    sys.exit(main())
