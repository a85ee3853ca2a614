#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two builds, of the tree and of a copy, in directories of different names and lengths, give the same bytes: libraries
# and tools, with their debug information. Usage: reproducible.sh SOURCE WORK WHEEL, with CMAKE in the environment.
# WHEEL is where python.wheel works, whose build is one of the two unless it came out of a cache of compilations;
# without it both are made here.
set -eu

source=$1
work=$2
one=$3/build
: "${CMAKE:=cmake}"
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER # a cache would compare a file with itself

# build NAME TREE BUILD
build()
{
    {
        "$CMAKE" -G Ninja -S "$2" -B "$3" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCW_BUILD_TESTS=OFF \
            -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON &&
            "$CMAKE" --build "$3" --target ucp ucs uct ucm ucp_static ucx_info
    } >"$work/log" 2>&1 || { tail -n 30 "$work/log"; echo "FAILED: the $1 does not build" >&2; exit 1; }
}

rm -rf "$work"
mkdir -p "$work/another/directory/tree"
two=$work/another/directory/tree/build/release
tar -C "$source" --exclude=./.git --exclude='./build' --exclude='./build-*' --exclude=__pycache__ -cf - . |
    tar -C "$work/another/directory/tree" -xf -
if [ ! -e "$one/CMakeCache.txt" ] || grep -q '^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=.' "$one/CMakeCache.txt"; then
    one=$work/one
fi
build tree "$source" "$one"
build copy "$work/another/directory/tree" "$two"
status=0
for file in lib/libucp.so.0 lib/libucs.so.0 lib/libuct.so.0 lib/libucm.so.0 lib/libucp.a bin/ucx_info; do
    if ! cmp "$one/$file" "$two/$file"; then
        echo "FAILED: $file differs" >&2
        status=1
    fi
    if grep -qF -e "$one" -e "$work" "$one/$file" "$two/$file"; then
        echo "FAILED: $file names the directory in which it was built" >&2
        status=1
    fi
done
[ $status -ne 0 ] || rm -rf "$work"
exit $status
