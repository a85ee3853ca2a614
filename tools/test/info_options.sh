#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command line of ucx_info: which options there are, how they combine, and how it ends (INF-1, INF-2, INF-10).
. "$(dirname "$0")/lib.sh"
need_info

# A sentence on stderr, the usage text on stdout, status 255.
refused() {
    expect_status 255 "$info" "$@" || return
    grep -q 'ERROR ' "$work/err" || fail "no sentence: $*"
    grep -q '^Usage: ucx_info' "$work/out" || fail "no usage text: $*"
}

# ---- INF-2: nothing to show, help, and what cannot be understood ----
expect_status 254 "$info"
grep -q '^Usage: ucx_info' "$work/out" || fail "INF-2: no usage text without options"
expect_status 254 "$info" -u t
expect_status 0 "$info" -h
grep -q '^Usage: ucx_info' "$work/out" || fail "INF-2: no usage text with -h"
expect_status 0 "$info" --help
expect_status 0 "$info" -du t -h
for letter in v d b y s c C F a f p w e m u t n N D P A 6 T M h; do
    grep -q "^  -${letter}[ ,]" "$work/out" || fail "the usage text does not name -$letter"
done
refused -Z
refused --no-such-option
refused --wh=1
refused -v word
refused -u
refused -pu t -n
refused -pu t -n ten
refused -pu t -n -5
refused -pu t -n 99999999999999999999999
refused -pu t -N 1x
refused -pu t -D gpu
refused -eu t -P moon
refused -eu t -A nowhere
refused -eu t -A ::1
refused -eu t -A 127.0.0.1 -6
refused -m big -u r
refused -m 1m,marble -u r
refused -m '' -u r
refused -t tcp
refused --why --size 8x
refused --why --size inf
refused --why --size -1
refused --why --op post
refused --why --op amo --size 16
refused --to "$work/none"
refused --why --to "$work/none" -P self

# ---- INF-10: what needs -u ----
for option in -p -w -e '-m 1m'; do
    # shellcheck disable=SC2086 # two words
    refused $option
    grep -q -- '-u' "$work/err" || fail "INF-10: no word about -u: $option"
    # shellcheck disable=SC2086
    refused $option -u we
done
refused -pu tz
refused -pu d
for letter in a r t s m x tw te artsmxwe; do
    expect_status 0 "$info" -pu $letter
done

# ---- INF-1: options in one word, in any order; the order of what is shown does not follow them ----
expect_status 0 "$info" -du t
expect_status 0 "$info" -u t -F TLS -p -c -s -T -d -t self -y -b -v
shown='Library version|define CW_VERSION|sizeof.ucp_params_t|Memory domain|System topology|Timer freq'
shown="$shown|UCX_TLS|UCP context"
grep -En "$shown" "$work/out" | sed 's/^\([0-9]*\):.*/\1/' >"$work/order"
[ "$(wc -l <"$work/order")" -eq 8 ] || fail "INF-1: not everything is shown: $(cat "$work/order")"
sort -n -c "$work/order" || fail "INF-1: the order"
"$info" -vbyd -Ts -cF TLS -t self -pu t >"$work/again" 2>"$work/err" || fail "INF-1: options in one word"
grep -c . "$work/again" >"$work/lines"
[ "$(cat "$work/lines")" -eq "$(grep -c . "$work/out")" ] || fail "INF-1: another order of options shows something else"
[ -s "$work/err" ] && fail "INF-1: something on stderr: $(cat "$work/err")"

# ---- files that cannot be: a sentence and status 1 ----
expect_status 1 "$info" --address "$work/no/such/directory"
grep -q 'cannot be written' "$work/err" || fail "no sentence on the file that cannot be written"
if mkfifo "$work/fifo"; then
    expect_status 1 timeout -s KILL 20 "$info" --address "$work/fifo"
fi
if [ -w /dev/full ]; then
    expect_status 1 "$info" --address /dev/full
fi
UCX_TLS=no_such_transport expect_status 1 "$info" -pu t
grep -q 'no_such_transport' "$work/out" || fail "INF-14: the library's own words are missing"
UCX_RNDV_THRESH=often expect_status 1 "$info" -c
UCX_RNDV_THRESH=often expect_status 1 "$info" -d
if [ -w /dev/full ]; then
    "$info" -c >/dev/full 2>"$work/err"
    [ $? -eq 1 ] || fail "a full disk is not noticed"
    grep -q 'cannot be written' "$work/err" || fail "no sentence on the full disk"
fi
finish
