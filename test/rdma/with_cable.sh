#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command while there is a second cable between the hosts (wire.sh). It is taken away when no process uses its
# devices any more.

export CW_CABLE=2
sh "$(dirname "$0")/wire.sh" lay || exit
env -u CW_CABLE CW_CABLES=2 "$@"
status=$?
sh "$(dirname "$0")/wire.sh" take
exit $status
