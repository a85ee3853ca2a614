# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Shared by the tests of the tools. $1 of each test is the folder with the programs.

bindir=$1
perftest=$bindir/ucx_perftest
info=$bindir/ucx_info
work=$(mktemp -d) || exit 77
pids=
# shellcheck disable=SC2154 # pid is assigned by the loop
trap 'for pid in $pids; do kill "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# A program that cannot load its libraries cannot be tested: skipped, not passed.
need_perftest() {
    if ! "$perftest" --library >"$work/library" 2>&1; then
        echo "skipped: $perftest does not run here"
        cat "$work/library"
        exit 77
    fi
    echo "library: $(cat "$work/library")"
}

need_info() {
    if ! "$info" -h >"$work/usage" 2>&1; then
        echo "skipped: $info does not run here"
        cat "$work/usage"
        exit 77
    fi
}

# One message through the given transport in one process; otherwise the test is skipped.
need_transport() {
    if ! UCX_TLS=$1 "$perftest" -l -t tag_lat -n 10 -w 0 --timeout 5 >"$work/need" 2>&1; then
        echo "skipped: the library at hand does not carry messages over UCX_TLS=$1 yet"
        cat "$work/need"
        exit 77
    fi
}

# One message of the given test; skipped only where the library says that it has nothing of the kind.
need_test() {
    if ! UCX_TLS=self "$perftest" -l -t "$1" -n 1 -w 0 --timeout 5 >"$work/need" 2>&1; then
        if grep -qi 'not implemented\|unsupported' "$work/need"; then
            echo "skipped: the library at hand cannot run $1 yet"
            exit 77
        fi
        fail "$1 does not run: $(grep ERROR "$work/need")"
        finish
    fi
}

# Server and client of one test, every byte checked. They do not hold up each other and what else the machine does.
pair() {
    start_server --timeout 20 --yield || return
    expect_status 0 "$perftest" -p "$port" 127.0.0.1 --timeout 20 --yield -f --verify "$@" || cat "$work/server.err"
    wait "$server" || {
        fail "server status $?: $*"
        cat "$work/server.out" "$work/server.err"
    }
}

# A TCP port that was free a moment ago. The server reports one that is taken meanwhile.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])' 2>/dev/null ||
        echo $((20000 + $$ % 20000))
}

# Runs a command, compares its exit status.
expect_status() {
    wanted=$1
    shift
    "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" != "$wanted" ]; then
        fail "status $got instead of $wanted: $*"
        cat "$work/out" "$work/err"
        return 1
    fi
}

# The next port on which nobody listens; quicker than to ask the system for one, below those that it gives to others.
port=$((10000 + $$ * 41 % 19000))
next_port() {
    while port=$((port + 1)) && grep -qs "$(printf ':%04X 0*:0000 0A ' "$port")" /proc/net/tcp /proc/net/tcp6; do
        :
    done
}

# Starts a server in the background with the given options; $server is its id.
start_server() {
    next_port
    : >"$work/server.out"
    "$perftest" -p "$port" "$@" >"$work/server.out" 2>"$work/server.err" &
    server=$!
    pids="$pids $server"
    tries=0
    while ! grep -q 'Waiting for connection' "$work/server.out"; do
        tries=$((tries + 1))
        if [ $tries -gt 500 ]; then
            fail "the server does not wait"
            cat "$work/server.err"
            return 1
        fi
        sleep 0.02
    done
}

finish() {
    if [ $failures -ne 0 ]; then
        echo "$failures failures"
        exit 1
    fi
    echo "passed"
    exit 0
}

# watched COUNT SIZE [progress]: starts a program that has sent as much; $watched is its id. It ends with its standard
# input, which is descriptor 3.
watched() {
    [ -p "$work/input" ] || mkfifo "$work/input"
    : >"$work/watched"
    "$bindir/watched" "$@" <"$work/input" >"$work/watched" 2>&1 &
    watched=$!
    pids="$pids $watched"
    exec 3>"$work/input"
    tries=0
    while ! grep -q ready "$work/watched"; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { fail "the watched program is not ready"; return 1; }
        sleep 0.05
    done
}
