#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ucx_info --why: which transports were considered for a peer, which one was chosen, what the others lack, and which
# path a message takes.
. "$(dirname "$0")/lib.sh"
need_info

why() {
    expect_status 0 timeout -s KILL 60 "$info" --why "$@"
    [ -s "$work/err" ] && fail "something on stderr: $*: $(cat "$work/err")"
    grep -v '^#' "$work/out" && fail "a line that is no comment: $*"
}

# has TEXT: somewhere.
has() {
    grep -qF -- "$1" "$work/out" || {
        fail "no '$1'"
        cat "$work/out"
    }
}

# verdict TRANSPORT WORD
verdict() {
    grep -Eq "^#   $1( \(.*\))?: $2\$" "$work/out" || {
        fail "$1 is not '$2'"
        cat "$work/out"
    }
}

# ---- peers of our own ----
why
verdict posix CHOSEN
verdict self cannot
has "It does not reach the peer: it is another worker."
has "made by posix"
has "tag send of 8 bytes uses posix"
why -P self
verdict self CHOSEN
verdict posix 'not chosen'
has "its latency is 80 ns, that of self 20 ns."
UCX_TLS=self why -P self
verdict posix 'left out'
has "UCX_TLS=self (environment) does not allow it."
has "nothing else does"
expect_status 1 env UCX_TLS=self "$info" --why
grep -q 'no transport reaches the peer' "$work/err" || fail "no sentence where nothing reaches the peer"
verdict self cannot
expect_status 1 "$info" --why -D self
has "UCX_SHM_DEVICES= (option -D) leaves no device of it."
UCX_TLS=rc,self UCX_SELF_DEVICES=none expect_status 1 "$info" --why
has "UCX_TLS=rc,self (environment) does not allow it."
has "UCX_SELF_DEVICES=none (environment) leaves no device of it."
mkdir "$work/conf"
echo 'UCX_TLS = posix' >"$work/conf/ucx.conf"
UCX_CONFIG_DIR=$work/conf why
has "UCX_TLS=posix (ucx.conf) does not allow it."

# ---- the path follows the plan: the settings move it ----
arrow() {
    grep '^#   -> ' "$work/out"
}
why --size 0
arrow | grep -q ' short: ' || fail "an empty message: $(arrow)"
why --size 64m
arrow | grep -q 'rendezvous.*a round trip costs less' || fail "a long message: $(arrow)"
UCX_RNDV_THRESH=inf why --size 64m
arrow | grep -q 'eager fragments' || fail "a long message without rendezvous: $(arrow)"
has "UCX_RNDV_THRESH=inf (environment)"
UCX_RNDV_THRESH=100 why --size 100 --op am
arrow | grep -q 'rendezvous.*RNDV_THRESH' || fail "a short message by rendezvous: $(arrow)"
UCX_TLS=tcp,self UCX_RNDV_THRESH=intra:inf,inter:100 why --size 100 --op am # N22-131
arrow | grep -q 'rendezvous.*RNDV_THRESH' || fail "inter is not for tcp: $(arrow)"
UCX_TLS=tcp,self UCX_RNDV_THRESH=intra:100,inter:inf why --size 100 --op am
! arrow | grep -q rendezvous || fail "intra is for tcp: $(arrow)"
UCX_RNDV_THRESH=100 why --size 99 --op am
arrow | grep -q ' short: ' || fail "one byte less: $(arrow)"
why --size 64m --op stream
arrow | grep -q 'rendezvous' && fail "streams know no rendezvous: $(arrow)"
UCX_TLS=posix why --size 1m
has "UCX_TLS=posix (environment) does not allow cma."

# ---- what --why prints is what the library does: its own table of the same connection ----
UCX_PROTO_INFO=y expect_status 0 "$info" --why --size 1m
sed -n 's/.*| *\([0-9]*\.\.[0-9inf]*\) | \(rendezvous[^|]*[^ |]\) *|.*/\1 \2/p' "$work/out" | head -n 1 >"$work/plan"
[ -s "$work/plan" ] || fail "UCX_PROTO_INFO shows no table"
arrow | grep -qF "$(sed 's/ /  /' "$work/plan")" ||
    fail "another path than the library's: $(arrow), $(cat "$work/plan")"

# ---- memory of others ----
why --op put
has "the memory is mapped here"
why --op get --size 1m
has "memory that the peer's program had already"
why --op amo --size 4
has "this CPU: the memory is mapped here"
has "packet to the target: the target's CPU executes it"
UCX_TLS=posix why --op put
has "short: copied inline into the packet"
why --op put -P self
grep -q 'not mapped here' "$work/out" && fail "our own memory is not mapped"

# ---- over the network ----
if "$info" -d -t tcp | grep -q 'Device: lo$'; then
    why -P inter
    verdict tcp CHOSEN
    verdict posix cannot
    has "the peer's address has no entry for it"
    has "There its settings leave it out"
    UCX_TLS=tcp UCX_NET_DEVICES=lo why
    verdict tcp CHOSEN
    grep -Eq '^#   from (127\.0\.0\.1|\[::1\]):[0-9]+ to ' "$work/out" ||
        fail "the ends of the connection are not printed"
    UCX_TLS=tcp why --op put --size 1m
    has "eager fragments, received in place"
    has "does not allow posix"
    if [ "$("$info" -d -t tcp | grep -c 'Device:')" -gt 1 ]; then
        UCX_TLS=tcp UCX_NET_DEVICES=lo why
        has "Left out by UCX_NET_DEVICES=lo (environment): "
    fi
fi

# ---- further lanes ----
UCX_TLS=self why -P self
has "Further lanes for long operations: none, as self"
if "$info" -d -t tcp | grep -q 'Device: lo$'; then
    UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_MAX_RNDV_RAILS=3 UCX_MAX_RMA_RAILS=1 why -P inter --size 1m
    has "lane[3]: tcp/"
    UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_MAX_RNDV_RAILS=1 UCX_MAX_RMA_RAILS=1 why -P inter --size 1m
    has "UCX_MAX_RNDV_RAILS=1 (environment), UCX_MAX_RMA_RAILS=1 (environment)): none"
fi

# ---- a peer in a file ----
expect_status 0 "$info" --address "$work/address"
why --to "$work/address" --size 300000
verdict posix CHOSEN
has "whose address is in $work/address"
has "shows when they are connected"
why --to "$work/address" --op put
has "depends on the key of the memory"
UCX_TLS=self expect_status 0 "$info" --address "$work/self"
expect_status 1 "$info" --why --to "$work/self"
has "the peer's address has no entry for it"
if unshare -rn true 2>/dev/null; then
    # Another network name space is as good as another machine.
    expect_status 0 unshare -rn "$info" --address "$work/far"
    expect_status 1 "$info" --why --to "$work/far"
    verdict posix cannot
    has "it is on another machine, or in a network name space"
fi

# ---- bytes that are no address ----
hostile() {
    expect_status 1 timeout -s KILL 60 "$info" --why --to "$1" || return
    grep -q 'ERROR --to: ' "$work/err" || fail "no sentence: $1: $(cat "$work/err")"
}
: >"$work/empty"
head -c 19 "$work/address" >"$work/header"
head -c 40 "$work/address" >"$work/half"
(cat "$work/address"; echo) >"$work/longer"
head -c 2000 /dev/zero >"$work/zeros"
head -c 500 /dev/urandom >"$work/random"
mkfifo "$work/fifo"
for file in empty header half longer zeros random fifo none conf; do
    hostile "$work/$file"
done
# Some bytes changed, which the checksum tells; the same with a good checksum, which is judged or refused and nothing
# else; and an address with a transport of some later version alone (format: src/wire/address.h).
if command -v python3 >/dev/null; then
    python3 - "$work" <<'END'
import sys

def sound(data):
    total = 2166136261
    for index, byte in enumerate(data):
        total = ((total ^ (0 if 16 <= index < 20 else byte)) * 16777619) & 0xffffffff
    return data[:16] + total.to_bytes(4, "little") + data[20:]

def write(name, data):
    with open("%s/%s" % (sys.argv[1], name), "wb") as file:
        file.write(data)

with open(sys.argv[1] + "/address", "rb") as file:
    good = file.read()
assert sound(good) == good
for index in range(0, len(good), 7):
    changed = good[:index] + bytes([good[index] ^ 0x41]) + good[index + 1:]
    write("flip%d" % index, changed)
    write("lie%d" % index, sound(changed))
write("later", sound(good[:13] + bytes([1, 25, 0]) + good[16:20] + bytes([77, 3, 1, 2, 3])))
END
    for file in "$work"/flip*; do
        hostile "$file"
    done
    for file in "$work"/lie*; do
        timeout -s KILL 60 "$info" --why --size 1m --to "$file" >"$work/out" 2>"$work/err"
        [ $? -le 1 ] || fail "an address that lies: $(cat "$work/err")"
    done
    expect_status 1 "$info" --why --to "$work/later"
    has "number 77 of the wire: cannot"
    has "No transport reaches the peer"
fi
finish
