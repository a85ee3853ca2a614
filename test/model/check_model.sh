#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_model.sh <model.pml> holds|fails|wrong [-D<variant> ...]: explores all states of the model. Ends with 0 when the
# outcome is the expected one, with 77 (skipped) when spin is not installed.

set -eu
model=$1
expected=$2
shift 2

if ! command -v spin >/dev/null 2>&1; then
    echo "SKIPPED: spin is not installed (Debian: apt-get install spin)"
    exit 77
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT INT TERM
cp "$model" "$directory/model.pml"
cd "$directory"
spin -a "$@" model.pml
"${CC:-cc}" -O0 -w -DSAFETY -DNOREDUCE -o pan pan.c
./pan -m200000 -w20 >report 2>&1 || true
cat report

# A search that was cut short proves nothing.
if grep -q -e 'max search depth too small' -e 'out of memory' -e 'Warning: Search not completed' report &&
        [ "$expected" = holds ]; then
    echo "the search was not complete"
    exit 1
fi
errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' report)
case $expected in
    holds) [ "$errors" = 0 ] ;;
    fails) [ "${errors:-0}" -gt 0 ] && grep -q 'invalid end state' report ;;
    wrong) [ "${errors:-0}" -gt 0 ] && grep -q 'assertion violated' report ;;
    *) echo "expected must be holds, fails or wrong"; exit 2 ;;
esac
