#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tries the Debian packages in a fresh Debian of this machine's release, there and back, under Open MPI, MPICH and
# ucx_perftest as they come from there. Usage: root.sh PACKAGES WORK. PACKAGES: where `./causeway deb` put them. WORK: a
# directory for what the new system is given. Status 77: it cannot be made here (test/install/fresh.sh), or there are no
# packages.
set -eu

packages=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

ls "$packages"/causeway-swap_*.deb >/dev/null 2>&1 || { echo "SKIPPED: no packages in $packages."; exit 77; }
rm -rf "$work"
mkdir -p "$work/debs"
cp "$packages"/*.deb "$work/debs"
rm -f "$work"/debs/*-dbgsym_*
cp "$here/there_and_back.sh" "$here/../../packaging/debian/tests/smoke" "$work"
# Programs are built here, which spares the new system the compilers of MPI.
for mpi in openmpi mpich; do
    ! command -v mpicc.$mpi >/dev/null || mpicc.$mpi -w "$here/../apps/mpi_collective.c" -o "$work/program.$mpi"
done
exec sh "$here/../install/fresh.sh" "$work" "sh there_and_back.sh"
