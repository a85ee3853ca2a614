#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_taken.sh LIBRARY...: what our libraries take from each other is the text of a status, and by weak references
# what libucs and libucm share with libucp (src/compat/ucs/share.h, src/compat/ucm/share.h) and the log of UCX's libucs.
# They take no data object: a program that is not position independent has a copy of that, as long as it was in the
# release that the program was linked with (NB-6). Programs call libucm from inside the allocator, so it takes nothing
# that allocates or locks (NB-42).
set -eu

[ $# -gt 0 ] || { echo "usage: check_taken.sh LIBRARY..." >&2; exit 2; }
failed=0
for library; do
    taken=$(nm -D --undefined-only "$library" | awk '$NF ~ /^uc[pstm]_/ { print $(NF - 1), $NF }' |
        grep -v -e '^U ucs_status_string$' -e '^w ucs_cw_' -e '^w ucs_log_dispatch$' -e '^w ucm_cw_' || true)
    [ -z "$taken" ] || { echo "$library takes: $taken"; failed=1; }
    case $library in
    *libucm*)
        taken=$(nm -D --undefined-only "$library" | awk '{ print $NF }' |
            grep -e alloc -e '^free' -e pthread -e mmap -e munmap -e brk || true)
        [ -z "$taken" ] || { echo "$library may allocate or lock: $taken"; failed=1; }
        ;;
    esac
    # Another library may come first with functions of these names.
    own=$(nm -D --defined-only "$library" | awk '$(NF - 1) == "T" { print $NF }')
    taken=$(readelf -rW "$library" | awk '{ print $5 }' | grep -xF "$own" || true)
    [ -z "$taken" ] || { echo "$library finds by name what it has itself: $taken"; failed=1; }
    ! readelf -dW "$library" | grep -q 'Flags:.*\(INTERPOSE\|NODELETE\)' ||
        { echo "$library puts itself before others or stays loaded"; failed=1; }
done
exit $failed
