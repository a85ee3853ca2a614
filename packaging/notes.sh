#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Prints the notes of a release, which are its section of CHANGELOG.md. Usage: notes.sh [VERSION]; without one: the
# newest. Status 1: there is no such section, or it says that it is not released yet.
set -eu
cd "$(dirname "$0")/.."
awk -v version="${1:-}" '
    /^## / {
        name = $2
        sub(/,$/, "", name)
        here = version == "" ? !found : name == version
    }
    /^## / && here {
        found = 1
        early = /not released yet/
        sub(/^## /, "Causeway ")
    }
    here
    END {
        if (early) print "notes.sh: CHANGELOG.md says: not released yet" >"/dev/stderr"
        if (!found) print "notes.sh: CHANGELOG.md has no release " version >"/dev/stderr"
        exit early || !found
    }' CHANGELOG.md
