#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two builds of two copies of the tree, in directories of different names and lengths, give the same bytes: libraries
# and tools, with their debug information. Usage: reproducible.sh SOURCE WORK, with CMAKE in the environment.
set -eu

source=$1
work=$2
: "${CMAKE:=cmake}"

rm -rf "$work"
for name in one another/directory; do
    mkdir -p "$work/$name/tree"
    tar -C "$source" --exclude=./.git --exclude='./build' --exclude='./build-*' --exclude=__pycache__ -cf - . |
        tar -C "$work/$name/tree" -xf -
    # A cache of compilations would compare a file with itself.
    {
        env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER "$CMAKE" -G Ninja -S "$work/$name/tree" \
            -B "$work/$name/tree/build/release" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCW_BUILD_TESTS=OFF \
                -DCMAKE_SKIP_RPATH=ON &&
            "$CMAKE" --build "$work/$name/tree/build/release" --target ucp ucs uct ucm ucp_static ucx_info
    } >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log"; echo "FAILED: the copy in $name does not build" >&2; exit 1; }
done
status=0
for file in lib/libucp.so.0 lib/libucs.so.0 lib/libuct.so.0 lib/libucm.so.0 lib/libucp.a bin/ucx_info; do
    if ! cmp "$work/one/tree/build/release/$file" "$work/another/directory/tree/build/release/$file"; then
        echo "FAILED: $file differs" >&2
        status=1
    fi
    if grep -qF "$work" "$work/one/tree/build/release/$file"; then
        echo "FAILED: $file names the directory in which it was built" >&2
        status=1
    fi
done
[ $status -ne 0 ] || rm -rf "$work"
exit $status
