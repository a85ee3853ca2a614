#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: with_libc.sh FOLDER COMMAND [ARGUMENT]...
#
# Runs a command, and all that it starts, with the C library of a newer system: the libraries of FOLDER (libc.so.6,
# ld-linux-*.so, libm.so.6, libgcc_s.so.1 ...) lie over those of this one, for this command alone. Every contestant of a
# benchmark then has the same C library, also a version of the reference that does not load with the one that is
# installed. Needs overlayfs, and root or user namespaces; nothing outside is changed.

if [ $# -lt 2 ] || [ ! -e "$1/libc.so.6" ]; then
    echo "Usage: with_libc.sh FOLDER-OF-LIBC.SO.6 COMMAND [ARGUMENT]..." >&2
    exit 2
fi
folder=$(cd "$1" && pwd) || exit 2
shift
place=$(dirname "$(realpath "$(ldconfig -p | sed -n 's/.*libc\.so\.6 .*=> //p' | head -n 1)")") || exit 2
flags=-m
[ "$(id -u)" = 0 ] || flags=-rm
# One mount changes all of them: there is never one library of the old set beside one of the new set.
# shellcheck disable=SC2016
exec unshare $flags --propagation private sh -c \
    'mount -t overlay overlay -o "lowerdir=$1:$2" "$2" || exit 77; shift 2; exec "$@"' sh "$folder" "$place" "$@"
