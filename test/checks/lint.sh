#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Static analysis of the whole tree. Usage: lint.sh tidy|cppcheck|shell BUILD, where BUILD has a compile database of
# clang. Status 77: the analyzer is not installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
jobs=$(getconf _NPROCESSORS_ONLN)

need()
{
    command -v "$1" >/dev/null || { echo "SKIPPED: there is no $1 on this machine."; exit 77; }
}

case $1 in
tidy)
    need clang-tidy
    find src tools bench -name '*.c' ! -name 'mpi_*' | sort |
        xargs -P "$jobs" -n 4 clang-tidy -p "$2" --quiet 2>/dev/null
    ;;
cppcheck)
    need cppcheck
    mkdir -p "$2/cppcheck"
    cppcheck -j "$jobs" --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
        --cppcheck-build-dir="$2/cppcheck" --error-exitcode=1 -D_GNU_SOURCE -D__x86_64__ -I include -I src src
    ;;
shell)
    need shellcheck
    find causeway .ci/run tools test bench packaging python cmake -type f \
        \( -name causeway -o -name run -o -name smoke -o -name '*.sh' \) -exec shellcheck -x -P SCRIPTDIR {} +
    ;;
*)
    echo "lint.sh: there is no '$1'" >&2
    exit 1
    ;;
esac
