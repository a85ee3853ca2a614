#compdef @CW_DOCS_TOOLS@
# SPDX-License-Identifier: BSD-3-Clause
# Completion of the tools in zsh: options with their texts, read from --help of the very program that is being typed.

local -a options
options=(${(f)"$({ $words[1] --help || $words[1] -h } 2>/dev/null </dev/null | awk '
    /^ +-/ {
        sub(/^ +/, "")
        text = match($0, /  +/) ? substr($0, RSTART + RLENGTH) : ""
        count = split(text == "" ? $0 : substr($0, 1, RSTART - 1), names, /[ ,|]+/)
        for (i = 1; i <= count; i++) if (names[i] ~ /^--?[[:alnum:]][[:alnum:]-]*$/) print names[i] ":" text
    }')"})
if [[ $PREFIX == -* ]]; then
    _describe -o option options
else
    _alternative 'files:file:_files' 'hosts:host:_hosts'
fi
