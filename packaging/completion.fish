# SPDX-License-Identifier: BSD-3-Clause
# Completion of @CW_DOCS_TOOL@ in fish: options with their texts, read from --help of the very program that is typed.

function __causeway_@CW_DOCS_TOOL@
    set -l program (commandline -opc)[1]
    begin
        $program --help; or $program -h
    end 2>/dev/null </dev/null | awk '
        /^ +-/ {
            sub(/^ +/, "")
            text = match($0, /  +/) ? substr($0, RSTART + RLENGTH) : ""
            count = split(text == "" ? $0 : substr($0, 1, RSTART - 1), names, /[ ,|]+/)
            for (i = 1; i <= count; i++) if (names[i] ~ /^--?[[:alnum:]][[:alnum:]-]*$/) print names[i] "\t" text
        }'
end

complete -c @CW_DOCS_TOOL@ -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__causeway_@CW_DOCS_TOOL@)'
