#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The mistakes of a newcomer: each is answered by one line that says what failed, why, and what to do. What a mistake
# needs and this system has not (root, namespaces, a second library) is left out with a note.
# shellcheck disable=SC2086 # as_nobody is a list of words
. "$(dirname "$0")/lib.sh"
need_perftest
newcomer=$bindir/newcomer
unset UCX_TLS UCX_NET_DEVICES UCX_LOG_LEVEL
export UCX_WARN_UNUSED_ENV_VARS=y
count=0

# says WHAT PATTERN COMMAND...: one line of what the command prints fits the pattern, in which ' & ' stands for "and
# later in the line".
says() {
    what=$1 pattern=$(printf '%s' "$2" | sed 's/ & /.*/g')
    shift 2
    count=$((count + 1))
    timeout 60 "$@" >"$work/out" 2>&1 </dev/null
    [ $? != 124 ] || fail "$what: no end"
    grep -q -e "$pattern" "$work/out" || { fail "$what: no line like '$pattern':"; cat "$work/out"; }
}

# Runs a command as another user than this one's, which takes root.
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
others=0
[ "$(id -u)" -ne 0 ] || ! $as_nobody test -x "$newcomer" || others=1
chmod 755 "$work"

# left_out WHAT WHY
left_out() {
    echo "note: left out: $1: $2"
}

# background NAME COMMAND...: until it has printed a line, which is $line then.
background() {
    name=$1
    shift
    "$@" >"$work/$name" 2>&1 &
    other=$!
    pids="$pids $other"
    tries=0
    until line=$(grep -m 1 -e '^[0-9][0-9]*$' -e '^serving$' "$work/$name"); do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { fail "$name does not begin"; cat "$work/$name"; return 1; }
        sleep 0.05
    done
}

# --- settings ---
says "a misspelt transport" "transport 'tpc' is not available & tcp & (maybe: tcp?)" env UCX_TLS=self,tpc "$newcomer"
says "nothing but a misspelt transport" "no usable transport & UCX_TLS=tpc & allow at least one of" \
    env UCX_TLS=tpc "$newcomer"
[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
    says "a transport without hardware" "verbs: " env UCX_TLS=self,ib "$newcomer"
says "a device that is not there" "device 'eth99' is not available & one or more of: & tcp" \
    env UCX_TLS=self,tcp UCX_NET_DEVICES=eth99 "$newcomer"
says "a misspelt setting" "unused environment variable: UCX_TSL (maybe: UCX_TLS?)" env UCX_TSL=tcp "$newcomer"
says "a misspelt value" "UCX_RNDV_THRESH & 'lots' & expected: " env UCX_RNDV_THRESH=lots "$newcomer"
says "a value without its unit" "UCX_KEEPALIVE_INTERVAL & '5x' & expected: " env UCX_KEEPALIVE_INTERVAL=5x "$newcomer"
says "a misspelt level" "UCX_LOG_LEVEL & 'loud' & expected: & INFO" env UCX_LOG_LEVEL=loud "$newcomer"
says "a log where there is no directory" "$work/none/log & No such file or directory" \
    env UCX_LOG_FILE="$work/none/log" UCX_TLS=self,tpc "$newcomer"

# --- files ---
mkdir -p "$work/bad" "$work/open" "$work/folder/ucx.conf"
printf 'UCX_RNDV_THRESH=lots\n' >"$work/bad/ucx.conf"
says "a configuration file with a bad value" "$work/bad/ucx.conf & expected: \|expected: & $work/bad/ucx.conf" \
    env UCX_CONFIG_DIR="$work/bad" "$newcomer"
printf 'UCX_TLS=self\n' >"$work/open/ucx.conf"
chmod 666 "$work/open/ucx.conf"
says "a configuration file that anybody can write" "$work/open/ucx.conf & writ" \
    env UCX_CONFIG_DIR="$work/open" "$newcomer"
says "a configuration file that cannot be read" "$work/folder/ucx.conf" env UCX_CONFIG_DIR="$work/folder" "$newcomer"
says "no secret in its place" "UCX_AUTH_KEY_FILE=$work/none & No such file" \
    env UCX_AUTH_KEY_FILE="$work/none" "$newcomer"
echo short >"$work/short" && chmod 600 "$work/short"
says "a short secret" "UCX_AUTH_KEY_FILE=$work/short & must hold & head -c 32 /dev/urandom" \
    env UCX_AUTH_KEY_FILE="$work/short" "$newcomer"
head -c 32 /dev/urandom >"$work/key" && chmod 644 "$work/key"
says "a secret that others can read" "UCX_AUTH_KEY_FILE=$work/key & chmod 600" \
    env UCX_AUTH_KEY_FILE="$work/key" "$newcomer"
chmod 600 "$work/key"
says "encryption without a secret" "UCX_AUTH_TLS=psk & set UCX_AUTH_KEY_FILE" env UCX_AUTH_TLS=psk "$newcomer"

printf 'this is no setting\n' >"$work/bad/ucx.conf"
says "a configuration file of another kind" "$work/bad/ucx.conf & line 1 & expected NAME = value" \
    env UCX_CONFIG_DIR="$work/bad" "$newcomer"
printf 'UCX_TSL=self\n' >"$work/bad/ucx.conf"
says "a misspelt setting in a file" "UCX_TSL & $work/bad/ucx.conf & line 1 (maybe: UCX_TLS?)" \
    env UCX_CONFIG_DIR="$work/bad" "$newcomer"
says "no directory of configuration" "UCX_CONFIG_DIR & $work/none & No such file" \
    env UCX_CONFIG_DIR="$work/none" "$newcomer"
if [ $others = 1 ]; then
    mkdir -p "$work/closed" "$work/private"
    echo UCX_TLS=self >"$work/closed/ucx.conf"
    chmod 600 "$work/closed/ucx.conf" && chmod 700 "$work/private"
    says "a configuration file of another user" "$work/closed/ucx.conf & Permission denied" \
        $as_nobody env UCX_CONFIG_DIR="$work/closed" "$newcomer"
    says "a log in a directory of another user" "$work/private/log & Permission denied & UCX_LOG_FILE" \
        $as_nobody env UCX_LOG_FILE="$work/private/log" UCX_TLS=self,tpc "$newcomer"
    says "a secret of another user" "UCX_AUTH_KEY_FILE=$work/key & Permission denied" \
        $as_nobody env UCX_AUTH_KEY_FILE="$work/key" "$newcomer"
    says "a port of root" "cannot listen on 127.0.0.1:80: Permission denied; & use a port from 1024 on" \
        $as_nobody "$newcomer" listen 127.0.0.1 80 0
    background neighbour env UCX_TLS=shm "$newcomer" serve "$work/shared" && {
        says "a peer of another user" "over shared memory & different user; enable tcp by UCX_TLS on both sides" \
            $as_nobody env UCX_TLS=shm "$newcomer" join "$work/shared"
        kill "$other"
    }
else
    left_out "what belongs to another user" "not root, or no setpriv"
fi

# --- addresses ---
says "an address of another machine" "cannot listen on 192.0.2.1:0 & one of this machine" \
    "$newcomer" listen 192.0.2.1 0 0
background listener "$newcomer" listen 127.0.0.1 0 0 && {
    taken=$line
    says "a port that is taken" "cannot listen on 127.0.0.1:$taken & in use" "$newcomer" listen 127.0.0.1 "$taken" 0
    says "a secret at one side only" "127.0.0.1:$taken & UCX_AUTH_KEY_FILE" \
        env UCX_TLS=tcp,self UCX_AUTH_KEY_FILE="$work/key" "$newcomer" connect 127.0.0.1 "$taken"
    kill "$other"
}
background strict "$newcomer" listen 127.0.0.1 0 1 && {
    "$newcomer" connect 127.0.0.1 "$line" >"$work/client" 2>&1
    says "another mode than the client's" "cannot accept a client & mode & use the same mode on both sides" \
        cat "$work/strict"
}
says "nobody listens" "127.0.0.1 & refused" "$newcomer" connect 127.0.0.1 1
if unshare -rn true 2>/dev/null; then
    says "no route" "192.0.2.1 & unreachable" unshare -rn "$newcomer" connect 192.0.2.1 1
else
    left_out "no route" "no network namespaces"
fi
if unshare -rn true 2>/dev/null; then
    says "an interface that is down" "tcp: lo: the interface is down" \
        unshare -rn env UCX_TLS=tcp,self UCX_NET_DEVICES=lo "$newcomer"
    says "no interface that is up" "no usable transport & UCX_TLS=tcp & allow at least one of" \
        unshare -rn env UCX_TLS=tcp "$newcomer"
else
    left_out "an interface that is down" "no network namespaces"
fi
says "ports that are none" "UCX_TCP_PORT_RANGE & 'abc' & expected: " env UCX_TCP_PORT_RANGE=abc "$newcomer"
head -c 32 /dev/urandom >"$work/other" && chmod 600 "$work/other"
background secret env UCX_TLS=tcp,self UCX_AUTH_KEY_FILE="$work/other" "$newcomer" listen 127.0.0.1 0 0 && {
    says "two secrets" "127.0.0.1:$line & its cluster secret differs: UCX_AUTH_KEY_FILE must hold the same bytes" \
        env UCX_TLS=tcp,self UCX_AUTH_KEY_FILE="$work/key" "$newcomer" connect 127.0.0.1 "$line"
    kill "$other"
}
background server env UCX_TLS=tcp "$newcomer" serve "$work/address" && {
    says "transports that differ" "no transport reaches & UCX_TLS" env UCX_TLS=shm "$newcomer" join "$work/address"
    kill "$other"
    wait "$other" 2>/dev/null
    says "a peer that has gone" "failed: & " env UCX_TLS=tcp "$newcomer" join "$work/address"
}
head -c 20 "$work/address" >"$work/cut"
says "an address that was cut" "cannot create an endpoint & cut\|cannot create an endpoint & truncated" \
    "$newcomer" join "$work/cut"
echo nonsense >"$work/nonsense"
says "no address at all" "cannot create an endpoint & \(no\|not a\) worker address" \
    \
    "$newcomer" join "$work/nonsense"

# --- tools ---
says "a host that does not exist" "no address for host 'no.such.host.invalid': " \
    "$perftest" -t tag_lat no.such.host.invalid
says "a server that was not started" "cannot connect to 127.0.0.1, port 1: & refused & is the server started" \
    "$perftest" -t tag_lat -p 1 127.0.0.1
start_server --timeout 20 && {
    says "a tool's port that is taken" "cannot listen on port $port: & in use & -p" "$perftest" -p "$port"
    kill "$server"
}
printf 'first -t tag_lat\nsecond -Q\n' >"$work/batch"
says "a wrong line in a batch file" "ERROR $work/batch:2: option '-Q' is not known" "$perftest" -l -b "$work/batch"
says "an address file that is none" "$work/nonsense & holds no sound worker address" \
    "$info" --why --to "$work/nonsense"
says "a process without workers" "no workers in process 1 " "$bindir/ucx_top" --queues 1

# --- programs ---
says "a feature that was not asked for" "ucp_tag_recv_nbx needs UCP_FEATURE_TAG & ucp_init" "$newcomer" feature
says "sleeping without its feature" "ucp_worker_get_efd needs UCP_FEATURE_WAKEUP & ucp_init" "$newcomer" wakeup
says "an older library than the header" "API version & required & actual" "$newcomer" version
says "a close by force without error handling" "force & UCP_ERR_HANDLING_MODE_PEER" \
    env UCX_LOG_LEVEL=diag "$newcomer" force
says "a context that ends before its worker" "cleaned up before 1 of its workers & ucp_worker_destroy" "$newcomer" early
says "a request that was not freed" "destroyed while 1 of its requests were never freed" "$newcomer" leak

# --- limits and systems ---
says "few descriptors" "ulimit -n" sh -c "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec '$newcomer'"
says "a few descriptors more" "cannot watch descriptor & ulimit -n" \
    sh -c "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 5; exec '$newcomer' join '$work/address'"
says "little memory" "out of memory for .* bytes\|cannot allocate .* bytes" \
    sh -c "ulimit -v 400000; exec '$perftest' -l -t tag_bw -s 1G -n 1"
says "the other project's library" "version .* of another implementation\|Library path: .*libucp" "$info" -v
if unshare -rm true 2>/dev/null; then
    says "no /proc" "/proc" unshare -rm sh -c "mount -t tmpfs none /proc && UCX_LOG_LEVEL=diag exec '$newcomer'"
    # Shared memory takes no file: two processes talk, and nothing is logged.
    cat >"$work/without" <<END
mount -t tmpfs -o ro none /dev/shm && ! touch /dev/shm/file 2>/dev/null || exit 1
export UCX_TLS=shm UCX_LOG_LEVEL=warn
: >'$work/without.server'
'$newcomer' serve '$work/without.address' >'$work/without.server' 2>&1 &
until grep -q serving '$work/without.server'; do sleep 0.05; done
'$newcomer' join '$work/without.address' >'$work/without.client' 2>&1
kill \$!
cat '$work/without.server' '$work/without.client'
END
    says "no /dev/shm" "^ok: " unshare -rm sh "$work/without"
    [ "$(wc -l <"$work/out")" = 2 ] || { fail "no /dev/shm: more is said than needed"; cat "$work/out"; }
else
    left_out "no /proc" "no mount namespaces"
    left_out "no /dev/shm" "no mount namespaces"
fi
echo "$count mistakes"
[ $count -ge 46 ] || fail "fewer than 46 mistakes were tried"
finish
