#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The USDT probes of the library are those of docs/OBSERVE.md.
. "$(dirname "$0")/lib.sh"
library=$bindir/../lib/libucp.so.0
page=$(dirname "$0")/../../docs/OBSERVE.md
command -v readelf >/dev/null || { echo "skipped: readelf is not here"; exit 77; }
readelf -n "$library" >"$work/notes" 2>/dev/null || { echo "skipped: there is no $library"; exit 77; }
grep -A1 'Provider: causeway' "$work/notes" | sed -n 's/.*Name: //p' | sort -u >"$work/there"
[ -s "$work/there" ] || { echo "skipped: built without sys/sdt.h"; exit 77; }
sed -n '/^## Probes/,$s/^| `\([a-z_]*\)` |.*/\1/p' "$page" | sort >"$work/written"
diff "$work/written" "$work/there" || fail "docs/OBSERVE.md has other probes than the library"
finish
