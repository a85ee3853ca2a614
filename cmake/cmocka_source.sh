#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fetches the sources of cmocka into build/cmocka, for a processor or a C library that has no package of it
# (CwCmocka.cmake). By an index of packages of its own, so that the system's lists stay as they are.
set -u
cd "$(dirname "$0")/.." || exit 1
[ ! -e build/cmocka/src/cmocka.c ] || exit 0
command -v apt-get >/dev/null || exit 1
rm -rf build/cmocka build/cmocka.apt
mkdir -p build/cmocka build/cmocka.apt/lists/partial build/cmocka.apt/archives/partial
(
    cd build/cmocka.apt || exit 1
    # shellcheck disable=SC1091 # any system that has apt-get has it
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    # shellcheck disable=SC2016 # apt-get puts the values in
    from=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }')
    echo "deb-src [signed-by=$key] $from $release main" >list
    options="-q -o Dir::State::Lists=$PWD/lists -o Dir::Cache=$PWD -o Dir::Etc::SourceList=$PWD/list
        -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086 # the words are meant to be split
    apt-get $options update && apt-get $options --download-only source cmocka &&
        tar xf cmocka_*.orig.tar.?z -C ../cmocka --strip-components=1
) >build/cmocka.log 2>&1 </dev/null
rm -rf build/cmocka.apt
[ -e build/cmocka/src/cmocka.c ] || { rm -rf build/cmocka; exit 1; }
