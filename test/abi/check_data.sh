#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_data.sh DIRECTORY: the libraries in DIRECTORY take no data of libc by name but the variables below, and those in
# os/env.c alone, which finds the program's (test/abi/deepbind.c). Exit status: 0 so it is, 1 not so, 2 could not look.
set -eu

if [ $# -ne 1 ] || [ ! -r "$1/libucp.so" ]; then
    echo "usage: check_data.sh DIRECTORY (with libraries)" >&2
    exit 2
fi

known=' environ __environ stdout stderr program_invocation_short_name __progname '
wrong=0
for library in ucp ucs uct ucm; do
    symbols=$(readelf --dyn-syms -W "$1/lib$library.so") || exit 2
    for name in $(printf '%s\n' "$symbols" |
        awk '$7 == "UND" && ($4 == "OBJECT" || $4 == "TLS") { sub(/@.*/, "", $8); print $8 }'); do
        case $known in
            *" $name "*) ;;
            *) echo "lib$library takes $name of another library by name"; wrong=1 ;;
        esac
    done
    [ -r "$1/lib$library.a" ] || continue
    nm -A --undefined-only "$1/lib$library.a" 2>/dev/null |
        awk -v known="$known" 'index(known, " " $NF " ") && $1 !~ /:env\.c\./ { print $1, "takes", $NF; found = 1 }
            END { exit found }' || wrong=1
done
exit $wrong
