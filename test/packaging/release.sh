#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The commands of docs/operate/release.md make a tag and a list of checksums that somebody else can verify, and what was
# changed behind the signature is refused. Usage: release.sh SOURCE WORK. It works on a copy of the repository, with a
# key and a key ring that are made for it. Status 77: no git, no gpg, or SOURCE is no repository.
set -eu
source=$1 work=$2
page=$source/docs/operate/release.md
if ! command -v git >/dev/null || ! command -v gpg >/dev/null || ! git -C "$source" rev-parse HEAD >/dev/null 2>&1; then
    echo "SKIPPED: no git, no gpg, or no repository"
    exit 77
fi
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)
keys=$(mktemp -d) # the sockets of gpg's agent have short names only
leave() {
    for ring in "$keys"/*; do
        GNUPGHOME=$ring gpgconf --kill all 2>/dev/null || true
    done
    rm -rf "$keys"
}
trap leave EXIT
mkdir -m 700 "$keys/own" "$keys/other"

fail() {
    echo "FAILED: $*"
    exit 1
}

# commands HEADING: the indented lines of that part of the page, without those that need a server.
commands() {
    awk -v heading="## $1" '/^## / { here = $0 == heading } here && sub(/^    /, "")' "$page" | grep -v '^git push'
}

refused() {
    ! "$@" >>"$work/log" 2>&1 || fail "accepted: $*"
}

export HOME="$work" GIT_CONFIG_NOSYSTEM=1 GNUPGHOME="$keys/own"
gpg --batch --quiet --passphrase '' --quick-generate-key "Release <release@example.invalid>" ed25519 sign never
git clone --quiet --no-tags "$source" "$work/made"
cd "$work/made"
git config user.name Release && git config user.email release@example.invalid
version=$(sed -n 's/^set(CW_RELEASE \(.*\))/\1/p' CMakeLists.txt)
cp "$source/packaging/notes.sh" packaging/
sed -i 's/ (not released yet)//' CHANGELOG.md
git add -A && git commit --quiet --allow-empty -m "build: release $version"

mkdir -p build/deb build/rpm/RPMS/any build/rpm/SRPMS build/wheel/dist build/crate/package
for package in deb/a.deb rpm/RPMS/any/a.rpm rpm/SRPMS/a.src.rpm wheel/dist/a.whl crate/package/a.crate; do
    echo $package >build/$package
    echo $package >build/$package.spdx.json
done
commands "Notes, tag and checksums" >"$work/make"
commands "How a user verifies a release" >"$work/verify"
for lines in 6:make 3:verify; do
    [ "$(wc -l <"$work/${lines#*:}")" = "${lines%:*}" ] || fail "the page has other commands: $lines"
done
sh -eu "$work/make" >"$work/log" 2>&1 || { cat "$work/log"; fail "the commands that make a release"; }
grep -q "^Causeway $version" build/notes.md || fail "the notes are those of another release"
git cat-file tag "v$version" | grep -qxF -e "$(sed -n 3p build/notes.md)" || fail "the tag lacks the notes"

# Somebody else, with the key alone.
gpg --armor --export >"$work/key.asc"
export GNUPGHOME="$keys/other"
mkdir "$work/user"
git clone --quiet --no-tags "$work/made" "$work/user/tree"
cd "$work/user/tree"
refused git verify-tag "v$version"
cp "$work/made/build/dist/"* . && cp "$work/key.asc" .
sh -eu "$work/verify" >>"$work/log" 2>&1 || { cat "$work/log"; fail "the commands of a user"; }
[ "$(sha256sum --check SHA256SUMS | grep -c ': OK$')" = 11 ] || fail "not all files are in the list"

# What was changed behind the signature.
git cat-file tag "v$version" | sed "s/^object .*/object $(git rev-parse HEAD^)/" >"$work/tag"
git update-ref refs/tags/other "$(git hash-object -t tag -w "$work/tag")"
refused git verify-tag other
sed 's/a\.deb/b.deb/' SHA256SUMS >"$work/sums"
refused gpg --verify SHA256SUMS.asc "$work/sums"
echo other >>a.deb
refused sha256sum --check --quiet SHA256SUMS
# No notes, no tag.
refused sh packaging/notes.sh 0.0.9
sed -i '0,/^## [^,]*/s//& (not released yet)/' CHANGELOG.md
refused sh packaging/notes.sh
