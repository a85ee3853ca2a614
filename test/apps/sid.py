#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command in a Debian sid, whose MPI libraries and UCX are newer than those of this machine.

    sid.py --root DIRECTORY --make
    sid.py --root DIRECTORY [--bind PATH:PLACE]... COMMAND [ARGUMENTS]

The first makes the system in DIRECTORY, from the archive of this machine's packages, unless one of these PACKAGES is
there that is younger than DAYS; an older one is used where the archive does not answer. --bind shows a directory of
this machine at /PLACE. The command has processes, shared memory and mounts of its own: nothing of it is left.

Status: the command's; 77 where there is no such system: it needs root, mmdebstrap and the archive.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

import run
import suites

PACKAGES = ["gcc", "libc6-dev", "libmpich-dev", "libopenmpi-dev", "libucc1", "mpich", "openmpi-bin", "python3",
            "python3-adios2", "python3-adios2-serial", "python3-mpi4py", "python3-numpy", "ucc-utils", "ucx-utils"]
DAYS = 14
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s sid main\n"
# $0: the root; up to the word --, pairs of a directory and its place; then the command.
INSIDE = """
root=$0
mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" && mount -t tmpfs shm "$root/dev/shm" &&
    mount -t tmpfs tmp "$root/tmp" || exit 1
while [ "$1" != -- ]; do
    mkdir -p "$root/$2" && mount --bind "$1" "$root/$2" || exit 1
    shift 2
done
shift
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$root" "$@"
"""


def is_fresh(root):
    made = root + ".packages"
    return run.read(made).split() == PACKAGES and time.time() - os.path.getmtime(made) < DAYS * 86400


def make(root):
    """False if there is no system in the end."""
    new = root + ".new"
    shutil.rmtree(new, ignore_errors=True)
    settings = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    kept = [line for line in settings.splitlines() if line.startswith(("Acquire::http", "Acquire::Retries",
                                                                       "Acquire::Check-"))]
    with open(root + ".apt", "w", encoding="utf-8") as file:
        file.write("\n".join(kept) + "\n")
    command = ["mmdebstrap", "--variant=minbase", "--aptopt=%s.apt" % root, "--include=" + ",".join(PACKAGES), "sid",
               new, SOURCE % suites.archive()[0]]
    with open(root + ".log", "w", encoding="utf-8") as log:
        made = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"] + command,
                              stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        print(run.read(root + ".log")[-1000:] + "No new Debian sid can be made from the archive")
        shutil.rmtree(new, ignore_errors=True)
        return os.path.isdir(root)
    shutil.rmtree(root, ignore_errors=True)
    os.rename(new, root)
    with open(root + ".packages", "w", encoding="utf-8") as file:
        file.write("\n".join(PACKAGES) + "\n")
    return True


def main():
    parser = argparse.ArgumentParser(description="Runs a command in a Debian sid.")
    parser.add_argument("--root", required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    root = os.path.abspath(options.root)
    if os.geteuid() != 0:
        run.skip("only root makes a system here")
    for tool in ("apt-get", "mmdebstrap", "unshare"):
        if shutil.which(tool) is None:
            run.skip("there is no %s on this machine" % tool)
    if options.make:
        os.makedirs(os.path.dirname(root), exist_ok=True)
        return 0 if is_fresh(root) or make(root) else run.SKIP
    if not os.path.isdir(root):
        run.skip("there is no Debian sid in %s" % root)
    binds = [word for bind in options.bind for word in bind.rsplit(":", 1)]
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc=" + root + "/proc",
                          "sh", "-c", INSIDE, root] + binds + ["--"] + options.command)


if __name__ == "__main__":
    sys.exit(main())
