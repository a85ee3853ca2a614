#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the programs and libraries of Debian's packages that depend on libucx0 find all their symbols in our libraries?

    debian.py --lib DIRECTORY --work DIRECTORY
    debian.py --lib DIRECTORY FILE...

Asks apt which packages depend on libucx0, fetches those into the work directory (once; nothing is installed), unpacks
them and holds every undefined name ucp_*, ucs_*, uct_* and ucm_* of every ELF file in them against what libucp, libucs,
libuct and libucm export, and every libuc*.so.N that they need against those four names. With files as arguments those
are checked instead (NB-95). KNOWN are programs of the reference that take its inner parts (NB-96).

Status: 0, 1 if a name is missing, 77 where apt cannot tell or fetch.
"""

import argparse
import os
import re
import subprocess
import sys

SKIPPED = 77
OURS = ("libucp.so.0", "libucs.so.0", "libuct.so.0", "libucm.so.0")
KNOWN = ("usr/bin/ucx_perftest", "usr/bin/ucx_perftest_daemon", "usr/bin/ucx_info", "usr/bin/ucx_read_profile",
         "usr/bin/ucx_vfs")
NAME = re.compile(r"\buc[pstm]_\w+")


def output(command, **options):
    """What a command prints, or None if it failed or does not exist."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
                                timeout=120, stdin=subprocess.DEVNULL, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None


def exported(directory):
    """Names that our libraries define."""
    names = set()
    for library in OURS:
        listed = output(["nm", "-D", "--defined-only", os.path.join(directory, library)])
        if listed is None:
            sys.exit("nm cannot read %s in %s" % (library, directory))
        names.update(NAME.findall(listed))
    return names


def dependents():
    """Packages that depend on libucx0, without those for development."""
    listed = output(["apt-cache", "rdepends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
                     "--no-replaces", "--no-enhances", "libucx0"])
    names = re.findall(r"^ +\|?([a-z0-9.+-]+)$", listed or "", re.MULTILINE)
    return sorted({name for name in names if not name.endswith("-dev") and "causeway" not in name})


def unpack(packages, work):
    """The directories into which the packages were unpacked; None if one cannot be had."""
    directories = []
    for package in packages:
        directory = os.path.join(work, package)
        if not os.path.isdir(directory):
            if output(["apt-get", "download", package], cwd=work) is None:
                return None
            archives = [name for name in os.listdir(work) if name.startswith(package + "_") and name.endswith(".deb")]
            if output(["dpkg-deb", "-x", archives[0], directory + ".new"], cwd=work) is None:
                return None
            os.rename(directory + ".new", directory)
            os.remove(os.path.join(work, archives[0]))
        directories.append(directory)
    return directories


def elf_files(directories):
    for directory in directories:
        for parent, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(parent, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path, os.path.relpath(path, directory)


def check(path, name, have):
    """(number of names that the file takes, complaints)."""
    wanted = set(NAME.findall(output(["nm", "-D", "--undefined-only", path]) or ""))
    needed = re.findall(r"NEEDED.*\[(libuc[pstm]\.so\.\d+)\]", output(["readelf", "-dW", path]) or "")
    if not needed and not wanted:
        return 0, []
    missing = sorted(wanted - have)
    complaints = ["%s: needs %s" % (name, library) for library in needed if library not in OURS]
    complaints += ["%s: undefined %s" % (name, symbol) for symbol in missing]
    if name in KNOWN:
        complaints = [] if missing else ["%s: takes nothing that is missing, yet is a known exception" % name]
    return len(wanted), complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--work")
    parser.add_argument("file", nargs="*")
    options = parser.parse_args()
    have = exported(options.lib)
    if options.file:
        files = [(path, path) for path in options.file]
    else:
        packages = dependents()
        os.makedirs(options.work, exist_ok=True)
        directories = unpack(packages, options.work) if packages else None
        if directories is None:
            print("SKIPPED: apt does not know packages that depend on libucx0, or cannot fetch them")
            return SKIPPED
        print("packages: " + ", ".join(packages))
        files = list(elf_files(directories))
    users, names, complaints = 0, 0, []
    for path, name in files:
        count, found = check(path, name, have)
        users += count > 0
        names += count
        complaints += found
    for complaint in complaints:
        print(complaint)
    print("%d of %d files take %d names in all" % (users, len(files), names))
    return 1 if complaints or users == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
