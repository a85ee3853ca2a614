#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a new system (fresh.sh), as root: installs all packages that `./causeway test` has use for and runs the tests that
# need one of them. None of these may be skipped, for then a package is missing from the lists.
set -eu
cd "$(dirname "$0")/../.."

apt-get -q update
# shellcheck disable=SC2046 # the words are meant to be split
DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $(./causeway packages)
./causeway build debug
programs="openmpi\.(edge|fftw|hpcc|lammps|mpi4py|netpipe|scalapack_xdlu)|mpich\.edge|openshmem\.shmem_put"
status=0
ctest --test-dir build/debug -j "$(nproc)" --output-on-failure --no-tests=error --timeout 300 \
    -L '^(abi|checks|examples|fuzz|install|model|packaging)$' >build/tests.log 2>&1 || status=1
ctest --test-dir build/debug -j "$(nproc)" --output-on-failure --no-tests=error --timeout 300 \
    -R "^tools\.|^apps\.($programs)\.shm\$" >>build/tests.log 2>&1 || status=1
# What no package of Debian brings: the notes that abi.facts reads, PRRTE.
if grep '\*\*\*Skipped' build/tests.log | grep -vE ' (abi\.facts|tools\.perftest_prun) '; then
    status=1
fi
[ $status -eq 0 ] || cat build/tests.log
exit $status
