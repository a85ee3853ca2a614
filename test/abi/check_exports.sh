#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_exports.sh LIBRARY LIST: LIBRARY (a shared object) exports exactly the names in LIST and has the SONAME that its
# list file is named after (VER-2, VER-3, N22-140), none with a version (NB-3). A number behind a data object
# is its size, which programs copy (NB-6, NB-25, NB-26, NB-27, NB-28). Prints each missing or extra name and wrong size.
# Exit status: 0 agree, 1 differ, 2 could not look.
set -eu

if [ $# -ne 2 ] || [ ! -r "$1" ] || [ ! -r "$2" ]; then
    echo "usage: check_exports.sh LIBRARY LIST (both must be readable)" >&2
    exit 2
fi

symbols=$(nm -D --defined-only "$1") || exit 2
dynamic=$(readelf -dW "$1") || exit 2

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# a version node that a linker adds shows as an absolute symbol
printf '%s\n' "$symbols" | awk 'NF && $(NF-1) != "A" { sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort -u >"$tmp/have"
grep -v '^#' "$2" | cut -d' ' -f1 | LC_ALL=C sort -u >"$tmp/want" || [ $? -eq 1 ]

LC_ALL=C comm -13 "$tmp/have" "$tmp/want" | sed 's/^/missing: /' >"$tmp/report"
LC_ALL=C comm -23 "$tmp/have" "$tmp/want" | sed 's/^/extra: /' >>"$tmp/report"

nm -DS --defined-only "$1" | awk 'NF == 4 { print $4, $2 }' >"$tmp/sizes"
awk '!/^#/ && NF == 2 { print $1, $2 }' "$2" | while read -r name size; do
    grep -q "^$name $(printf '%016x' "$size")\$" "$tmp/sizes" || echo "not of $size bytes: $name"
done >>"$tmp/report"

soname=$(basename "$2" .txt).so.0
case $dynamic in
    *"[$soname]"*) ;;
    *) echo "SONAME is not $soname" >>"$tmp/report" ;;
esac

if [ -s "$tmp/report" ]; then
    cat "$tmp/report"
    exit 1
fi
echo "$(wc -l <"$tmp/want") names agree"
