#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ucx_info beside that of the reference implementation, if there is one on this machine: the same kinds of lines, so
# that scripts made for the one take the other apart as well (INF-1 to INF-12).
. "$(dirname "$0")/lib.sh"
need_info

reference=$(command -v ucx_info)
if [ -z "$reference" ] || ! "$reference" -v >"$work/version" 2>&1 || grep -q 'Causeway' "$work/version"; then
    echo "skipped: there is no ucx_info of the reference here"
    exit 77
fi
sed -n 1p "$work/version"

# both OPTION...: the outputs in $work/ours and $work/theirs.
both() {
    timeout -s KILL 60 "$info" "$@" >"$work/ours" 2>&1
    ours=$?
    timeout -s KILL 60 "$reference" "$@" >"$work/theirs" 2>&1
    theirs=$?
    [ $ours -eq $theirs ] || fail "status $ours, the reference's is $theirs: $*"
}

# within WHAT FILTER: each line that the filter (sed -n) makes of ours is one that it makes of theirs.
within() {
    sed -n "$2" "$work/ours" | sort -u >"$work/our_lines"
    sed -n "$2" "$work/theirs" | sort -u >"$work/their_lines"
    [ -s "$work/our_lines" ] || fail "$1: nothing of the kind"
    comm -23 "$work/our_lines" "$work/their_lines" >"$work/only"
    [ ! -s "$work/only" ] || fail "$1: not known to the reference: $(cat "$work/only")"
}

# ---- how they end: INF-1, INF-2, INF-10 ----
for options in -h '' -Z -x '-u t' -p '-p -u z' '-p -u we' '-D none -pu t' '-P none -eu t' '-du t' -s '-d -t none' \
    -cfaC; do
    # shellcheck disable=SC2086 # a list of words
    both $options
done

# ---- INF-3 ----
both -v
for output in ours theirs; do
    sed -n 1p "$work/$output" | grep -Eq '^# .*ersion:? [0-9]+\.[0-9]+\.[0-9]+$' ||
        fail "INF-3: $output: $(cat "$work/$output")"
done
within INF-3 "s/^\\(# Git branch '\\).*\\(', revision \\)[0-9a-f]*/\\1\\2/p; s/^\\(# Configured with:\\).*/\\1/p"

# ---- INF-4 ----
both -b
within INF-4 's/^#define [A-Z]*_.*/define/p'
both -y
within INF-4 's/^    sizeof([a-z_ ]*) = \.*\. [0-9]* *$/sizeof/p; s/^UCS:/&/p'
both -s
within INF-4 's/^\(# [Tt]imer [a-z]*: \)[0-9.]*/\1/p; s/^\(# CPU [a-z]*\): .*/\1/p'
both -T
within INF-4 '/^# System topology:$/p'

# ---- INF-5 ----
both -c
for output in ours theirs; do
    for name in TLS NET_DEVICES SHM_DEVICES RNDV_THRESH LOG_LEVEL TCP_TX_SEG_SIZE; do
        grep -q "^UCX_$name=" "$work/$output" || fail "INF-5: $output has no UCX_$name"
    done
done
both -cf
within INF-5 's/^# syntax:    .*/syntax/p; s/^\(UCX_\)[A-Z0-9_]*=.*/\1/p'
both -cC
within INF-5 's/^\(# UCX_\)[A-Z0-9_]*=.*/\1/p'

# ---- INF-6 to INF-8: what our transports have and the reference's have not is named here ----
both -d
within INF-6 '/peer memory:/d; /am_placed:/d; /Devices of [a-z]*:/d; /Not probed:/d; s/^\(# *[A-Za-z_ ]*:\).*/\1/p'
within INF-6 's/^# *bandwidth: [0-9.]*\/ppn + [0-9.]* MB\/sec$/bandwidth/p; s/^# *latency: [0-9]* nsec$/latency/p'
within INF-6 's/^\(# *am_[sb][a-z]*:\) <= [0-9]*K*$/\1/p; s/^# *am_zcopy: <= [0-9]*K*, up to [0-9]* iov$/iov/p'
within INF-7 's/^#  *Transport: \(self\|tcp\|posix\)$/\1/p'
within INF-7 's/^#  *Device: \([a-z].*[0-9]\)$/\1/p'
within INF-7 's/^#  *Type: \([a-z-]*\)$/\1/p'
within INF-8 's/^# Connection manager: tcp$/tcp/p; s/^\(#  *max_conn_priv: \)[0-9]* bytes/\1/p'

# ---- INF-11, INF-12: read by a scanner that skips blanks ----
both -pwu t
within CTX-31 's/^# *resource *[0-9]* *: *md *[0-9]* *dev *[0-9]* *flags *-- *\(self\|tcp\|posix\)\/.*/\1/p'
within INF-11 's/^\(# memory: \)[0-9.]*\(MB, file descriptors: \)[0-9]*/\1\2/p; s/^\(# create time: \)[0-9.]* ms/\1/p'
within INF-12 "s/^\\(# UCP worker '\\).*'/\\1/p; s/^\\(# *address: \\)[0-9]* bytes/\\1/p"
both -eu t
within INF-12 's/^\(# UCP endpoint\).*/\1/p; s/^#  *peer: .*/peer/p; s/^#  *lane\[0\]: .*/lane/p'
both -m 1M -u r
within MEM-17 's/^#  allocated [0-9M]* at address 0x[0-9a-f]* .*/allocated/p; s/^#  registered on:.*/on/p'
finish
