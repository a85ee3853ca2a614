# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of @CW_DOCS_TOOL@ in bash. Nothing is known here about its options: they are read from --help of the very
# program that is being typed, so each version completes its own. Installed once for each tool.

# _causeway_help PROGRAM: "OPTION TAB ARGUMENT TAB TEXT" for each option, "OPTION TAB = TAB VALUE" for each value that
# has a line of its own below it. What this version does not have is left out.
_causeway_help()
{
    { "$1" --help || "$1" -h; } 2>/dev/null </dev/null | awk '
        function option(text) { return text ~ /^(-[[:alnum:]]|--[[:alnum:]][[:alnum:]-]*)[,|]?$/ }
        !NF { name = "" }
        /^ +-/ && option($1) {
            line = $0
            count = 0
            while (match(line, /^[ ,|]*--?[[:alnum:]][[:alnum:]-]*/)) {
                word = substr(line, 1, RLENGTH)
                gsub(/[ ,|]/, "", word)
                names[++count] = word
                line = substr(line, RLENGTH + 1)
                if (line !~ /^(, *| *\| *)-/) break
            }
            argument = ""
            if (match(line, /^ [<[][^ ]*/) || match(line, /^ [^ ]+  /)) {
                argument = substr(line, 2, RLENGTH - 1)
                line = substr(line, RLENGTH + 1)
            }
            gsub(/^ +| +$/, "", argument)
            gsub(/^ +/, "", line)
            for (i = 1; i <= count; i++) print names[i] "\t" argument "\t" line
            name = names[1]
            next
        }
        name != "" && /^  +[[:alnum:]_]+  +/ && !/not in this version/ { print name "\t=\t" $1 }
        name != "" && !/^  / { name = "" }
    '
}

# _causeway_values OPTION ARGUMENT TEXT VALUE...: words that may follow the option, or @file, @host.
_causeway_values()
{
    local argument=$2 text=$3
    shift 3
    if [ $# -gt 0 ]; then
        printf '%s\n' "$@"
    elif [[ $argument == *file* || $argument == *path* ]]; then
        echo @file
    elif [[ $argument == *host* && $argument == '<'* ]]; then
        echo @host
    elif [[ $argument != '<'* && $argument != '['* ]]; then
        echo "$argument"
    else
        # What the text lists: "one: ...; two: ...", "...: one, two, three (one)", "one or two ...", or words that begin
        # with the default in brackets.
        printf '%s\n' "$text" | awk '{
            standard = ""
            if (match($0, /\([a-z_]+\)$/)) standard = substr($0, RSTART + 1, RLENGTH - 2)
            sub(/ *\([^()]*\)$/, "")
            if ($0 ~ /^[a-z_]+: .*; [a-z_]+: /) {
                count = split($0, parts, /; /)
                for (i = 1; i <= count; i++) { split(parts[i], word, ":"); print word[1] }
            } else if (match($0, /: [a-z_]+(, [a-z_]+)+$/)) {
                count = split(substr($0, RSTART + 2), parts, /, /)
                for (i = 1; i <= count; i++) print parts[i]
            } else if ($0 ~ /^[a-z_]+ or [a-z_]+( |$)/) {
                print $1
                print $3
            } else if (standard != "") {
                for (i = 1; i <= NF; i++) if (index($i, standard) == 1 && $i ~ /^[a-z_]+$/) print $i
            }
        }'
    fi
}

_causeway_tool()
{
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local name argument text words='' found_argument='' found_text=''
    local -a values=()
    COMPREPLY=()
    program=${program/#\~/$HOME}
    while IFS=$'\t' read -r name argument text; do
        if [ "$argument" = = ]; then
            [ "$name" != "$previous" ] || values+=("$text")
            continue
        fi
        words+="$name "
        if [ "$name" = "$previous" ]; then
            found_argument=$argument
            found_text=$text
        fi
    done < <(_causeway_help "$program" | sed 's/\t\t/\t \t/')
    if [ -n "${found_argument// /}" ]; then
        words=$(_causeway_values "$previous" "$found_argument" "$found_text" "${values[@]}")
        case $words in
        @file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        @host) mapfile -t COMPREPLY < <(compgen -A hostname -- "$current") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
        esac
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$current")
    fi
}

complete -F _causeway_tool @CW_DOCS_TOOL@
