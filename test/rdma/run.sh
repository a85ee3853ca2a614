#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs tests in the virtual machine (vm.sh) one after the other. A program of cmocka prints its cases itself; any other
# is printed as a group of one case, so that all are counted.
#
# Usage: run.sh LIST [NAME-PATTERN]
# LIST has a line for each test: its name, its limit in seconds, its command. Status 77 of a command means skipped.

set -u
list=$1
pattern=${2:-*}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
export CW_WIRE="$here/wire.sh"
result=0

# chosen: the lines of the list whose names fit.
chosen()
{
    while read -r name limit command; do
        # shellcheck disable=SC2254 # it is a pattern
        case $name in
        $pattern) printf '%s %s %s\n' "$name" "$limit" "$command" ;;
        esac
    done <"$list"
}

chosen >/tmp/chosen
while read -r name limit command; do
    # shellcheck disable=SC2086 # the words are meant to be split
    timeout -k 5 "$limit" $command >/tmp/output 2>&1 </dev/null
    status=$?
    case $status in
    0) end="[       OK ] $name" ;;
    77) end="[  SKIPPED ] $name" ;;
    *)
        end="[  FAILED  ] $name"
        result=1
        echo "$name: status $status, of at most $limit s" >>/tmp/output
        ;;
    esac
    if grep -q '^\[==========\]' /tmp/output; then
        cat /tmp/output
    else
        echo "[==========] $name: Running 1 test(s)."
        echo "[ RUN      ] $name"
        cat /tmp/output
        echo "$end"
    fi
    sh "$CW_WIRE" good
done <<END
$(chosen)
END
exit $result
