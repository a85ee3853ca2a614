#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_size.sh MOST LIBRARY...: the libraries, stripped, are not larger than MOST bytes in all.
set -eu
command -v strip >/dev/null || { echo "skipped: no strip"; exit 77; }
most=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
total=0
for library in "$@"; do
    strip -o "$folder/stripped" "$library"
    total=$((total + $(wc -c <"$folder/stripped")))
done
echo "$total bytes, at most $most"
[ "$total" -le "$most" ]
