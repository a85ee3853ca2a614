#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_status.sh SOURCE_DIR: docs/STATUS.md names exactly the public functions that answer UCS_ERR_NOT_IMPLEMENTED
# somewhere in src/api. Rows that say "does nothing" or "prints nothing" are void functions, which no status betrays.
# Two statuses that no call returns stand in the table of texts alone (ABU-12).
set -eu

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cat "$1"/src/api/*.c | awk '
    /^[a-z].*[ *]ucp_[a-z0-9_]+\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    /UCS_ERR_NOT_IMPLEMENTED;|UCS_ERR_NOT_IMPLEMENTED\)/ { if (name != "") print name }
    /^}/ { name = "" }' | LC_ALL=C sort -u >"$tmp/code"

awk -F'`' '
    /^## Small libraries/ { exit }
    /^Deprecated functions/ { skip = 1 }
    /^Calls that work/ { skip = 0 }
    !skip && /^\| `ucp_/ && !/does nothing|prints nothing/ { print $2 }' "$1/docs/STATUS.md" |
    LC_ALL=C sort -u >"$tmp/docs"

grep -rnE 'UCS_ERR_(OUT_OF_RANGE|BUFFER_TOO_SMALL)' --include='*.[ch]' "$1/src" | grep -v '/src/compat/ucs/status\.c:' |
    sed 's/^/a status that no call returns: /' >"$tmp/odd" || true
LC_ALL=C comm -23 "$tmp/code" "$tmp/docs" | sed 's/^/not implemented, yet not in docs\/STATUS.md: /' >"$tmp/report"
LC_ALL=C comm -13 "$tmp/code" "$tmp/docs" | sed 's/^/in docs\/STATUS.md, yet implemented: /' >>"$tmp/report"
cat "$tmp/odd" >>"$tmp/report"
if [ -s "$tmp/report" ]; then
    cat "$tmp/report"
    exit 1
fi
echo "$(wc -l <"$tmp/docs") functions are not implemented, as docs/STATUS.md says"
