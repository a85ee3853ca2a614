#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that were built for the release before load this tree's libraries: abidiff (libabigail) finds no function
# that has gone, and no type of the public headers that has changed so that they would break. What has changed is
# printed. Usage: abi.sh RELEASE SOURCE LIBRARIES, the directory of older.py, this tree, and where its libraries are.
# Status 77: no abidiff, or the release is not here.
set -u
release=$1 source=$2 libraries=$3
command -v abidiff >/dev/null || { echo "SKIPPED: no abidiff (Debian: abigail-tools)"; exit 77; }
[ -e "$release/lib/libucp.so.0" ] || { echo "SKIPPED: no libraries of the release before in $release"; exit 77; }
failed=0
for library in ucp ucs uct ucm; do
    [ -e "$release/lib/lib$library.so.0" ] || continue
    echo "== lib$library.so.0"
    abidiff --headers-dir1 "$release/source/include" --headers-dir2 "$source/include" \
        "$release/lib/lib$library.so.0" "$libraries/lib$library.so.0" 2>&1
    status=$?
    # Bits of its status: 1 and 2 an error, 4 a change, 8 one that breaks programs.
    [ $((status & 11)) = 0 ] || { echo "FAILED: lib$library.so.0: abidiff says $status"; failed=1; }
done
exit $failed
