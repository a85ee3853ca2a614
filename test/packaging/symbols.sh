#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A stripped file of a package and the symbols of its debug package belong together. Usage: symbols.sh FILE FUNCTION
# DEBUG-ROOT, where DEBUG-ROOT is the debug package unpacked. The symbols lie under the file's build id; gdb, where it
# is installed, names the source line of the function with them, and cannot without.
set -eu

file=$1
function=$2
debug=$3/usr/lib/debug

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

id=$(readelf -n "$file" | sed -n 's/^ *Build ID: //p')
[ -n "$id" ] || fail "$file has no build id"
! readelf -SW "$file" | grep -q '\.debug_info' || fail "$file is not stripped"
first=$(echo "$id" | cut -c1-2)
symbols=$debug/.build-id/$first/$(echo "$id" | cut -c3-).debug
[ -f "$symbols" ] || fail "$file has the build id $id, and the debug package no $symbols"
readelf -SW "$symbols" | grep -q '\.debug_info' || fail "$symbols holds no symbols"
[ "$(readelf -n "$symbols" | sed -n 's/^ *Build ID: //p')" = "$id" ] || fail "$symbols has another build id"
command -v gdb >/dev/null || { echo "There is no gdb: it was not asked."; exit 0; }

# line DIRECTORY: what gdb says of the function with the symbols of that directory.
line()
{
    DEBUGINFOD_URLS='' gdb -nx -batch -iex "set debug-file-directory $1" -ex "info line $function" "$file" 2>&1
}

line "$debug" | grep -q "^Line [0-9]* of \".*\.c\" starts at" || fail "gdb does not find $function: $(line "$debug")"
! line /nonexistent | grep -q '^Line [0-9]* of' || fail "gdb finds $function without the debug package"
