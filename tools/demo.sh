#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the demonstration on a real file: an archive of the project's own sources and of the libraries just built.
# Usage: demo.sh BINDIR [options of causeway-demo] [FILE]
set -eu

if [ $# -lt 1 ]; then
    echo "Usage: $0 BINDIR [options] [FILE]" >&2
    exit 2
fi
bindir=$1
shift
case " $* " in
*" -h "*) exec "$bindir/causeway-demo" "$@" ;;
esac

# Any word that is no option and no value of one is a file to send.
file=
previous=
for word in "$@"; do
    case $previous:$word in
    -t:* | -d:*) ;;
    *:-*) ;;
    *) file=$word ;;
    esac
    previous=$word
done
if [ -n "$file" ]; then
    exec "$bindir/causeway-demo" "$@"
fi

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$work/causeway.tar
tar -cf "$archive" -C "$root" include src tools docs 2>/dev/null || [ -s "$archive" ]
for library in "$bindir"/../lib*.so "$bindir"/../lib/lib*.so "$bindir"/../src/lib*.so; do
    if [ -f "$library" ]; then
        tar -rf "$archive" -h -C "$(dirname "$library")" "$(basename "$library")"
    fi
done
"$bindir/causeway-demo" "$@" "$archive"
