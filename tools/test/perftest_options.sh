#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Wrong options of ucx_perftest end with a sentence and status 129, failures of set-up with 255 (PRF-5).
. "$(dirname "$0")/lib.sh"
need_perftest

# One line names the option or the value; the usage text is for who asks for it.
refused() {
    expect_status 129 "$perftest" "$@" || return
    [ "$(grep -c 'ERROR' "$work/err")/$(wc -l <"$work/err")" = 1/1 ] || fail "not one line: $*: $(cat "$work/err")"
    [ -s "$work/out" ] && fail "more than the error: $*"
}

expect_status 0 "$perftest" -h
grep -q 'tag_lat' "$work/out" || fail "the usage text does not name tag_lat"
expect_status 0 "$perftest" --library

refused -Z
refused --no-such-option
refused -n
refused -t nothing -l
refused -t am_lat -l
refused -t ucp_put_lat -l -m cuda
refused -t ucp_add -l -m cuda
refused -t ucp_get -l -m cuda --user-memory
refused -t tag_lat -l -n ten
refused -t tag_lat -l -n -5
refused -t tag_lat -l -s 8x
refused -t tag_lat -l -s 8:
refused -t tag_lat -l -s 8:0
refused -t tag_lat -l -s 8:33
grep -q "number of entries" "$work/err" || fail "not named: the number of entries: $(cat "$work/err")"
refused -t tag_lat -l -s 8:16,8:17
refused -t tag_lat -l -s 8:2:2
refused -t tag_lat -l -P 2
refused -t tag_lat -P 1 localhost
refused -t tag_lat -l -s 8,
refused -t tag_lat -l -s 8KK
refused -t tag_lat -l -s 8B
refused -t tag_lat -l -s K
refused -t tag_lat -l -s 2000G
refused -t tag_lat -l -s 99999999999G
refused -t tag_lat -l -s -1K
refused -t tag_lat -l -n 1K
refused -t ucp_am_lat -l -H 2M
refused -t tag_lat -l -i 8x
refused -t tag_lat -l -s 99999999999999999999999
refused -t tag_lat -l -O 99999999
refused -t tag_lat -l -edoze
refused -t tag_lat -l -e peer
grep -q "follows the letter at once: -epeer" "$work/err" || fail "no word on -e peer: $(cat "$work/err")"
refused -t tag_lat -e failover localhost
grep -q "follows the letter at once: -efailover" "$work/err" || fail "no word on -e failover: $(cat "$work/err")"
refused -t tag_lat -l -R 101
refused -t tag_lat -l -R half
refused -t tag_lat -l -E doze
refused -t tag_lat -l -M many
refused -t tag_lat -l -T 0
refused -t tag_lat -l -T 257
refused -t tag_lat -l -D bcopy
refused -t tag_lat -l -D iov,iov,iov
refused -t stream_lat -l -r peek
refused -t tag_lat -l -i 4096 --verify
refused -t tag_lat -l -s 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
refused -l --user-memory -t tag_bw
refused -t tag_lat -l -m ze-device
refused -t tag_lat -l -m cuda,marble
refused -t tag_lat -l -m cuda -z
refused -t tag_lat -l -p 0
refused -t tag_lat -l -p 65536
refused -t tag_lat -l --timeout 0
refused -t tag_lat -l localhost
refused -t tag_lat localhost another

# Sizes have suffixes wherever they stand: the size of a message, of its header and its entries, and of a sweep.
sized() {
    bytes=$1
    shift
    expect_status 0 "$perftest" -l -n 5 -w 0 --json "$@"
    grep -q "\"size\": *${bytes}[,}]" "$work/out" || fail "not of $bytes bytes: $*: $(cat "$work/out")"
}
sized 16384 -t tag_lat -s 16K
sized 16384 -t tag_lat -s 16kb
sized 1048576 -t tag_bw -s 1M
sized 3072 -t tag_bw -D iov -s 1k,2K -i 4K
sized 32768 -t tag_bw --sweep 16K:32K
sized 4128 -t tag_bw -D iov -s 1K:4,16:2
sized 1048576 -t tag_bw --sweep 512k:1MB
expect_status 0 "$perftest" -l -n 5 -w 0 -t ucp_am_lat -s 8 -H 1K

# Options of UCX's tool that concern UCT are ignored, with one warning each.
for words in '-x tcp' '-d lo' '-W 5' '-A signal'; do
    # shellcheck disable=SC2086 # the words are meant to be split
    expect_status 0 "$perftest" -l -n 5 -w 0 -t tag_lat $words
    [ "$(grep -c "warning: $words is ignored" "$work/err")" = 1 ] || fail "no warning: $words: $(cat "$work/err")"
done

# -X prints the library, -I asks for the wakeup feature, -P 0 is no part of a job; -n 0 goes on until it is ended.
expect_status 0 "$perftest" -l -n 5 -w 0 -t tag_lat -X -I -P 0 -f
grep -q '^# library [0-9.]*; endpoint over ' "$work/out" || fail "-X prints nothing"
timeout 1.5 "$perftest" -l -t tag_lat -n 0 >"$work/out" 2>"$work/err"
[ $? = 124 ] || fail "-n 0 ends by itself: $(cat "$work/err")"
grep -q '^\[thread 0\]' "$work/out" || fail "-n 0 prints no rows"

# Results that cannot be written are a failure.
if [ -w /dev/full ]; then
    for words in -h --library '-l -n 5 -w 0 -t tag_lat' '-l -n 5 -w 0 -t tag_lat --json'; do
        # shellcheck disable=SC2086
        "$perftest" $words >/dev/full 2>"$work/err"
        [ $? = 255 ] || fail "$words > /dev/full is a success"
        grep -q 'cannot be written' "$work/err" || fail "no sentence: $words > /dev/full"
    done
fi

# N23-80: a mode follows its letter at once; checks of bytes have a letter, too.
for mode in -e -enone -epeer -efailover -V; do
    expect_status 0 "$perftest" -l -n 5 -w 0 -t tag_lat $mode
done

# Neither test nor batch file: set-up fails (PRF-10).
expect_status 255 "$perftest" -l
grep -q 'missing test name' "$work/err" || fail "no sentence on the missing test name"
expect_status 255 "$perftest" -t tag_lat -l -c 0-
expect_status 255 "$perftest" -t tag_lat -l -c 1023
expect_status 255 "$perftest" -l -b "$work/none"
grep -q "batch file" "$work/err" || fail "no sentence on the missing batch file"
printf '# nothing\n\n' >"$work/empty"
expect_status 255 "$perftest" -l -b "$work/empty"
# A wrong line is one line that names it.
for line in 'one -t tag_lat -p 3' 'one -Q' 'one -n' 'one -t none' 'one -n x' 'one word' \
    'one -t ucp_get --user-memory x'; do
    printf '# first\n\n%s\ntwo -t tag_lat\n' "$line" >"$work/wrong"
    expect_status 255 "$perftest" -l -b "$work/wrong"
    if [ "$(wc -l <"$work/err")" != 1 ] || ! grep -q "^ucx_perftest: ERROR $work/wrong:3: ." "$work/err"; then
        fail "'$line' in a batch file: $(cat "$work/err")"
    fi
done

# -q keeps errors quiet, the status stays.
expect_status 255 "$perftest" -q -l
[ -s "$work/err" ] && fail "-q printed an error"

# Nobody listens: refused at once, status 255.
port=$(free_port)
expect_status 255 "$perftest" -t tag_lat -p "$port" 127.0.0.1
grep -q 'client failed' "$work/err" || fail "no sentence on the refused connection"
expect_status 255 "$perftest" -t tag_lat no-such-host.invalid
finish
