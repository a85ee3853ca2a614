#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tool on the reference's library: it is a plain program of the interface, so every test of it runs there as well.
. "$(dirname "$0")/lib.sh"
need_perftest

# The library that a program without a path of its own would load, if it is another one than ours.
other=$(ldconfig -p 2>/dev/null | sed -n 's/.*libucp\.so\.0 .*=> //p' | head -n 1)
if [ -z "$other" ] || ldd "$perftest" | grep -q 'asan\|tsan'; then
    echo "skipped: no other libucp.so.0 is installed, or it cannot be used with a sanitizer"
    exit 77
fi
export LD_LIBRARY_PATH="${other%/*}" UCX_TLS=self,shm
expect_status 0 "$perftest" --library
[ "$(cat "$work/out")" != "$(cat "$work/library")" ] || {
    echo "skipped: the library that is installed is the one at hand"
    exit 77
}
echo "reference: $(cat "$work/out")"

for test in tag_lat tag_bw tag_sync_lat tag_sync_bw ucp_put_lat ucp_put_bw ucp_get ucp_get_bw ucp_add ucp_fadd \
    ucp_swap ucp_cswap stream_bw stream_lat ucp_am_lat ucp_am_bw; do
    expect_status 0 "$perftest" -l -t $test -n 100 -w 10 --verify --timeout 20 -X -T 2
done
for test in tag_bw ucp_am_bw stream_bw ucp_put_bw; do
    expect_status 0 "$perftest" -l -t $test -n 100 -w 10 --verify --timeout 20 -z -s 5000
done
pair -t tag_lat -n 60 -w 10
pair -t ucp_am_bw -n 60 -w 10 -T 2
pair -t tag_bw -n 60 -w 10 -E sleep
pair -t stream_lat -n 60 -w 10 -D iov,iov -s 5,0,70

# The tool of the other project, if it is installed: neither side is taken for one of ours.
theirs=/usr/bin/ucx_perftest
if [ -x $theirs ] && ! cmp -s $theirs "$perftest"; then
    unset LD_LIBRARY_PATH
    next_port
    timeout 60 $theirs -p "$port" >"$work/theirs" 2>&1 &
    pids="$pids $!"
    tries=0
    until said=$("$perftest" -p "$port" 127.0.0.1 -t tag_lat --timeout 2 2>&1 >/dev/null); [ $? = 255 ] &&
        case $said in *"Connection refused"*) false ;; esac; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || break
        sleep 0.1
    done
    case $said in
    *"UCX's own tool, or another program"*) ;;
    *) fail "the server of the other project is not recognised: $said" ;;
    esac
fi
finish
