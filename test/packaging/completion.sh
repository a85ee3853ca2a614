#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Shell completion of the tools: what is offered is what --help prints, all of it and nothing else. Usage: completion.sh
# COMPLETIONS PROGRAMS, the directories of both in a build.
set -euo pipefail

completions=$1
programs=$2
PATH=$programs:$PATH
failures=0

fail()
{
    printf 'FAILED: %s\n' "$*" >&2
    failures=$((failures + 1))
}

# offered WORD...: what is offered for the last of the words.
offered()
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _causeway_tool
    printf '%s\n' "${COMPREPLY[@]}"
}

# same WHAT EXPECTED ACTUAL: lists of words, in any order.
same()
{
    local difference
    difference=$(diff <(tr ' ' '\n' <<<"$2" | sort) <(tr ' ' '\n' <<<"$3" | sort)) ||
        fail "$1 (< expected, > offered): $difference"
}

# The options of a tool, found in another way than the completion does: whatever looks like one at the head of a line.
options_of()
{
    { "$1" --help || "$1" -h; } 2>/dev/null | sed -n 's/^ \{1,10\}\(-[^ ].*\)$/\1/p' | sed 's/  .*//; s/[,|]/ /g' |
        grep -oE '(^| )--?[[:alnum:]][[:alnum:]-]*' | tr -d ' ' | sort -u
}

tools=0
for program in "$programs"/ucx_*; do
    tool=$(basename "$program")
    [[ -x $program && $tool =~ ^ucx_[a-z]+$ ]] || continue
    tools=$((tools + 1))
    [ -f "$completions/$tool" ] || { fail "there is no completion of $tool"; continue; }
    # shellcheck disable=SC1090 # made by the build
    . "$completions/$tool"
    complete -p "$tool" | grep -q _causeway_tool || fail "$tool is not registered"
    options=$(options_of "$tool")
    [ "$(wc -w <<<"$options")" -ge 3 ] || fail "$tool --help names no options: $options"
    same "options of $tool" "$(tr '\n' ' ' <<<"$options" | sed 's/ $//')" "$(offered "$tool" - | tr '\n' ' ' |
        sed 's/ $//')"
done
[ $tools -gt 0 ] || fail "there are no tools in $programs"

known=$(ucx_perftest --help | sed -n '/-t <test>/,/-s </s/^ \{5,\}\([a-z_]*\)  .*/\1/p')
[ "$(wc -w <<<"$known")" -ge 8 ] || fail "ucx_perftest --help names no tests: $known"
for test in $(offered ucx_perftest -t ''); do
    grep -qx "$test" <<<"$known" || fail "-t offers '$test', which --help does not name"
    ! ucx_perftest -l -f -n 1 -w 0 -t "$test" 2>&1 | grep -q 'not known\|not in this version' ||
        fail "-t offers '$test', which the tool refuses"
done
same "-t tag_" "tag_bw tag_lat tag_sync_bw tag_sync_lat" "$(offered ucx_perftest -t tag_ | tr '\n' ' ' | sed 's/ $//')"
same "-M" "single serialized multi" "$(offered ucx_perftest -M '' | tr '\n' ' ' | sed 's/ $//')"
same "-E s" "sleep" "$(offered ucx_perftest -E s)"
[ -z "$(offered ucx_perftest -n '')" ] || fail "a number is completed by words"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
touch "$directory/batch"
same "-b" "$directory/batch" "$(offered ucx_perftest -b "$directory/ba")"

same "-u" "a e m r s t w x" "$(offered ucx_info -u '' | tr '\n' ' ' | sed 's/ $//')"
same "-D" "all net self shm" "$(offered ucx_info -D '' | tr '\n' ' ' | sed 's/ $//')"
same "-P" "inter intra self" "$(offered ucx_info -P '' | tr '\n' ' ' | sed 's/ $//')"
same "--op" "am amo get put stream tag" "$(offered ucx_info --op '' | tr '\n' ' ' | sed 's/ $//')"
for op in $(offered ucx_info --op ''); do
    ucx_info --why --op "$op" >/dev/null 2>&1 || fail "--op offers '$op', which the tool refuses"
done
same "--to" "$directory/batch" "$(offered ucx_info --to "$directory/ba")"
[ -z "$(offered ucx_info --size '')" ] || fail "a size is completed by words"
# A program that fails must not make the shell talk.
printf '#!/bin/sh\necho broken >&2\nexit 1\n' >"$directory/ucx_perftest"
chmod +x "$directory/ucx_perftest"
[ -z "$(offered "$directory/ucx_perftest" - 2>&1)" ] || fail "a broken program is heard"

# zsh and fish offer the same options, where they are here.
for tool in ucx_info ucx_perftest ucx_top ucx_trace; do
    expected=$(options_of $tool | tr '\n' ' ' | sed 's/ $//')
    if command -v zsh >/dev/null; then
        # shellcheck disable=SC2016 # for zsh
        same "zsh: options of $tool" "$expected" "$(zsh -fc '
            words=("$1") PREFIX=-
            _describe() { print -l -- ${options%%:*} }
            complete_it() { source "$2" }
            complete_it "$@"' zsh $tool "$completions/_causeway" | tr '\n' ' ' | sed 's/ $//')"
        grep -q "^#compdef .*$tool" "$completions/_causeway" || fail "zsh does not know $tool"
    fi
    if command -v fish >/dev/null; then
        same "fish: options of $tool" "$expected" "$(HOME=$directory fish --no-config -c "source $completions/$tool.fish
            complete -C '$tool -'; complete -C '$tool --'" | cut -f1 | sort -u | tr '\n' ' ' | sed 's/ $//')"
    fi
done
exit $((failures > 0))
