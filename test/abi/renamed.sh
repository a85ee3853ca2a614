#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# renamed.sh ORIGINAL WORK COMMAND...: runs COMMAND with copies of the libraries in the directory ORIGINAL,
# in WORK, where they have other names and name each other so, as tools that bundle libraries into packages have it. The
# copy of libucp.so.0 keeps the name of its file, by which it is loaded.
set -eu

[ $# -gt 2 ] || { echo "usage: renamed.sh ORIGINAL WORK COMMAND..." >&2; exit 2; }
original=$1 work=$2
shift 2
mkdir -p "$work"
for library in ucp ucs ucm uct; do
    target=$work/lib$(echo $library | sed s/uc/ux/).so.0
    [ $library != ucp ] || target=$work/libucp.so.0
    LC_ALL=C sed 's/libuc\([pstm]\)\.so\.0/libux\1.so.0/g' "$original/lib$library.so.0" >"$target.new"
    mv "$target.new" "$target"
done
LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$@"
