#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh go|java HEADERS LIBRARIES WORK: builds the program of that language in WORK and runs it. Status 77: the
# language is not installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
language=$1 headers=$2 libraries=$3 work=$4
mkdir -p "$work"
export LD_LIBRARY_PATH="$libraries"

skip() {
    echo "SKIPPED: $1"
    exit 77
}

case $language in
go)
    command -v go >/dev/null || skip "no go (Debian: golang-go)"
    cd "$here/go"
    GOCACHE=$work/cache GOPATH=$work/path GOFLAGS=-mod=mod GO111MODULE=on CGO_ENABLED=1 CGO_CFLAGS="-I$headers" \
        CGO_LDFLAGS="-L$libraries" go build -o "$work/bindings" .
    "$work/bindings" | tee "$work/out"
    grep -q "^bindings from Go: passed" "$work/out"
    ;;
java)
    home=${JAVA_HOME:-/usr/lib/jvm/default-java}
    [ -x "$home/bin/javac" ] || skip "no javac (Debian: default-jdk-headless)"
    ${CC:-gcc} -std=gnu17 -Wall -Wextra -Werror -shared -fPIC -I"$home/include" -I"$home/include/linux" -I"$headers" \
        -o "$work/libbindings.so" "$here/java/bindings.c" -L"$libraries" -lucp -lucs
    "$home/bin/javac" -Xlint:all -Werror -d "$work" "$here/java/Bindings.java"
    "$home/bin/java" -Xcheck:jni -cp "$work" Bindings "$work/libbindings.so" | tee "$work/out"
    grep -q "^bindings from Java: passed" "$work/out"
    # The machine's own checker of native code has nothing to say.
    ! grep -q "WARNING\|FATAL" "$work/out"
    ;;
*)
    echo "usage: $0 go|java HEADERS LIBRARIES WORK" >&2
    exit 2
    ;;
esac
