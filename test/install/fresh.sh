#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command where nothing was installed before. Usage: fresh.sh SOURCE COMMAND [RELEASE]. The command runs as root
# in a copy of the tree, without its build directories, in a Debian system made for it (of this machine's release, or
# the one that is named): the smallest one that has apt, from the archive of this machine's packages. Nothing of the
# system is left afterwards. Without root: in a user namespace. Status 77: it cannot be made here.
set -eu

source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work" # in a user namespace mmdebstrap is another user
command -v mmdebstrap >/dev/null || { echo "SKIPPED: there is no mmdebstrap on this machine." >&2; exit 77; }

# shellcheck disable=SC1091 # any system that has apt-get has it
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
key=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck disable=SC2016 # apt-get puts the values in
apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" -v key=$key '$2 == "main" && $1 ~ "^" release "(-updates|-security)?$" {
        print "deb [signed-by=" key "]", $3, $1, $2 }' | sort -u >"$work/sources"
if [ -n "${3:-}" ] && [ "$3" != "$release" ]; then
    # Another release: its main archive alone, from where this one's comes.
    sed -n "s/ $release main$/ $3 main/p" "$work/sources" >"$work/other"
    mv "$work/other" "$work/sources"
    release=$3
fi
[ -s "$work/sources" ] || { echo "SKIPPED: apt-get names no archive of packages for $release." >&2; exit 77; }
# How this machine reaches the archive, and how old the archive may be.
apt-config dump Acquire | grep -E '^Acquire::(https?|Retries|Check-)' >"$work/apt.conf" || :

# What mmdebstrap runs at last; it gives the root of the new system. Variables of this machine, of compilers above all,
# stay outside.
printf '%s\n' "cd /causeway && $2" >"$work/command"
cat >"$work/hook" <<END
set -e
mkdir "\$1/causeway"
tar -C '$source' --exclude=./.git --exclude=./build --exclude='./build-*' --exclude=__pycache__ -cf - . |
    tar -C "\$1/causeway" --no-same-owner -xf -
cp '$work/command' "\$1/causeway.sh"
[ -e "\$1/etc/hosts" ] || echo 127.0.0.1 localhost >"\$1/etc/hosts" # as Debian's installer writes it
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "\$1" sh /causeway.sh
END
# As root in namespaces of its own, so that neither a process nor something mounted outlives an end before the time.
apart=
[ "$(id -u)" -ne 0 ] || apart="unshare --mount --pid --fork --kill-child --mount-proc"
# shellcheck disable=SC2086 # the words are meant to be split
TMPDIR=$work $apart mmdebstrap --quiet --variant=minbase --format=null --aptopt="$work/apt.conf" \
    --customize-hook="sh $work/hook \"\$1\"" "$release" /dev/null "$work/sources"
