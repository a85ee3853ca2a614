#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The directory that holds libucp.so.0 alone, in front of UCX's libraries. Usage: swap.sh CASE DIRECTORY [PROGRAM]
# CASE: alone (the file), info, perftest (UCX's tools, from $UCX_BIN, default /usr/bin), log, handlers (by PROGRAM,
# which is linked with UCX). Status 77: there is no UCX here.
set -eu

case_name=$1
directory=$(cd "$2" && pwd)
program=${3:-}
bin=${UCX_BIN:-/usr/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
    [ ! -s "$work/out" ] || cat "$work/out"
    echo "FAILED: $*" >&2
    exit 1
}

# Runs a command on the swapped library; what was loaded is in $work/loaded.*.
swapped()
{
    LD_LIBRARY_PATH=$directory LD_DEBUG=libs LD_DEBUG_OUTPUT=$work/loaded timeout -s KILL 60 "$@" >"$work/out" 2>&1 ||
        fail "$*"
    loaded=$(sed -n 's/.*calling init: \(.*libuc[pstm]\.so.*\)/\1/p' "$work"/loaded.*)
    echo "$loaded" | grep -qxF "$directory/libucp.so.0" || fail "libucp is not that of $directory: $loaded"
    for library in ucs uct ucm; do
        files=$(echo "$loaded" | grep "/lib$library\.so" || true)
        case $library$files in
        ucs) fail "there is no libucs: $loaded" ;;
        *"$directory"*) fail "$files is ours" ;;
        esac
    done
    ! echo "$loaded" | grep '/libucp' | grep -qvxF "$directory/libucp.so.0" || fail "two libucp: $loaded"
    rm -f "$work"/loaded.*
}

need_tool()
{
    if [ ! -x "$bin/$1" ] || ! ldd "$bin/$1" | grep -q '=> /.*/libucs\.so'; then
        echo "SKIPPED: no $1 of UCX in $bin (Debian: ucx-utils)"
        exit 77
    fi
}

case $case_name in
alone)
    [ "$(ls "$directory")" = libucp.so.0 ] || fail "$directory holds: $(ls "$directory")"
    dynamic=$(readelf -dW "$directory/libucp.so.0")
    echo "$dynamic" | grep -q 'SONAME.*\[libucp\.so\.0\]' || fail "no SONAME libucp.so.0: $dynamic"
    ! echo "$dynamic" | grep -E 'NEEDED.*libuc|RPATH|RUNPATH' || fail "it needs a companion or looks for one"
    nm -D --defined-only "$directory/libucp.so.0" | awk '{ print $NF }' | LC_ALL=C sort >"$work/has"
    { cat "$(dirname "$0")/exports/libucp.txt"; echo ucs_status_string; } | grep -v '^#' | awk 'NF { print $1 }' |
        LC_ALL=C sort |
        diff - "$work/has" >"$work/out" || fail "it exports other names"
    ;;
info)
    need_tool ucx_info
    swapped "$bin/ucx_info" -c
    grep -q '^UCX_LOG_LEVEL=' "$work/out" || fail "ucx_info -c prints no settings"
    swapped "$bin/ucx_info" -e -u t
    grep -q 'UCP endpoint' "$work/out" || fail "ucx_info -e prints no endpoint"
    swapped "$bin/ucx_info" -d
    grep -q 'Transport: *tcp' "$work/out" || fail "ucx_info -d lists no transports"
    ;;
perftest)
    need_tool ucx_perftest
    for arguments in "tag_lat 8" "tag_bw 100000" "ucp_put_lat 8" "ucp_am_lat 64" "stream_bw 4096"; do
        # shellcheck disable=SC2086 # words
        set -- $arguments
        swapped "$bin/ucx_perftest" -l -t "$1" -s "$2" -n 200 -w 10 -f
        [ -s "$work/out" ] || fail "ucx_perftest -t $1 has no result"
    done
    ;;
log)
    need_tool ucx_info
    # One file for both libraries: neither writes over the lines of the other.
    UCX_LOG_LEVEL=debug UCX_LOG_FILE=$work/log swapped "$bin/ucx_info" -e -u t
    cp "$work/log" "$work/out"
    grep -q 'libucs.so.0 loaded at' "$work/log" || fail "no line of libucs in the log file"
    grep -q ' UCX  INFO .*serves a program built for' "$work/log" || fail "no line of libucp in the log file"
    UCX_TLS=self,nonsense swapped "$bin/ucx_info" -e -u t
    grep -q "WARN .*transport 'nonsense' is not available" "$work/out" || fail "no warning of libucp"
    UCX_LOG_LEVEL=error UCX_TLS=self,nonsense swapped "$bin/ucx_info" -e -u t
    ! grep -q nonsense "$work/out" || fail "a warning below the level"
    ;;
handlers)
    UCX_TLS=self,nonsense swapped "$program" "$directory"
    ! grep -q nonsense "$work/out" || fail "a record that a handler kept was printed"
    ;;
*)
    fail "there is no case $case_name"
    ;;
esac
