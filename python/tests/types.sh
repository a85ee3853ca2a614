#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The types of the package hold, in mypy's strict mode. Usage: types.sh PYTHON-DIRECTORY CACHE. Status 77: no mypy.
set -eu

command -v mypy >/dev/null || { echo "SKIPPED: there is no mypy on this machine (package mypy)."; exit 77; }
cd "$1"
mypy --strict --cache-dir "$2" causeway
