#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The USDT probes of the library are those of docs/reference/observing.md, and a debugger finds at those of the send
# slots what the page says.
. "$(dirname "$0")/lib.sh"
library=$bindir/../lib/libucp.so.0
page=$(dirname "$0")/../../docs/reference/observing.md
command -v readelf >/dev/null || { echo "skipped: readelf is not here"; exit 77; }
readelf -n "$library" >"$work/notes" 2>/dev/null || { echo "skipped: there is no $library"; exit 77; }
grep -A1 'Provider: causeway' "$work/notes" | sed -n 's/.*Name: //p' | sort -u >"$work/there"
[ -s "$work/there" ] || { echo "skipped: built without sys/sdt.h"; exit 77; }
sed -n '/^## Probes/,$s/^| `\([a-z_]*\)` |.*/\1/p' "$page" | sort >"$work/written"
diff "$work/written" "$work/there" || fail "docs/reference/observing.md has other probes than the library"

# Stops at the first packet of the kind: transport, size (8 bytes of tag, 8 of data), status.
seen() {
    # shellcheck disable=SC2016 # gdb's variables
    UCX_TLS=$1 timeout -s KILL 60 gdb -nx -batch -ex 'set confirm off' -ex 'set debuginfod enabled off' -ex start \
        -ex "break -probe-stap causeway:$3" -ex continue \
        -ex 'printf "seen %d %d %d\n", $_probe_arg0, $_probe_arg1, $_probe_arg2' -ex kill \
        --args "$perftest" -l -t tag_lat -s 8 -n 5 -w 0 --timeout 20 >"$work/out" 2>&1 </dev/null
    grep -qx "seen $2 16 0" "$work/out" || fail "$3 over $1: $(tail -n 5 "$work/out")"
}
if ! gdb -nx -batch -ex start --args "$perftest" -h </dev/null 2>&1 | grep -q 'Temporary breakpoint 1, '; then
    echo "the arguments are not checked: there is no gdb that can stop a program"
    finish
fi
seen self 1 send_short
seen shm 2 send_short
seen tcp 3 send_short
finish
