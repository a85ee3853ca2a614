#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command while the wire is in a state (wire.sh): with_wire.sh loss:1 COMMAND [ARGUMENT...], colons for blanks.
# run.sh brings the wire back to order.

state=$1
shift
# shellcheck disable=SC2046 # the words are meant to be split
sh "$(dirname "$0")/wire.sh" $(echo "$state" | tr : ' ') && exec "$@"
