#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# completion_test.sh via: what bash and zsh offer after some words, by the scripts that `via` writes.
set -uo pipefail
via=$1
scripts=$(mktemp -d)
trap 'rm -r "$scripts"' EXIT
failed=0

in_order() { tr ' ' '\n' | grep . | sort | tr '\n' ' '; }

# expect shell 'words offered' word...: the last word is the one to be completed.
expect() {
    local shell=$1 wanted offered
    wanted=$(in_order <<<"$2")
    shift 2
    case $shell in
    bash) offered=$(offer_bash "$@" | in_order) ;;
    zsh) offered=$(offer_zsh "$@" | in_order) ;;
    esac
    if [[ $offered != "$wanted" ]]; then
        printf '%s: after "%s" there should be: %s\nbut there is: %s\n' "$shell" "$*" "$wanted" \
            "$offered" >&2
        failed=1
    fi
}

offer_bash() {
    bash --norc -c 'source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _via
        printf "%s\n" "${COMPREPLY[@]}"' "$scripts/via.bash" "$@"
}

# zsh itself keeps those that begin as the last word does; here that is done by grep.
offer_zsh() {
    zsh -f -c '_describe() { local one; for one in "${(@P)2}"; do print -r -- "${one%%:*}"; done }
        _files() { }
        words=("${@[2,-1]}") CURRENT=$(($# - 1))
        source "$1"' zsh "$scripts/_via" "$@" | grep -e "^${*: -1}"
}

"$via" completion bash >"$scripts/via.bash" || exit 1
"$via" completion zsh >"$scripts/_via" || exit 1
commands=$("$via" --help | sed -n '/^Subcommands:/,$p' | awk 'NR > 1 && /^  [a-z]/ { print $1 }')
[[ -n $commands ]] || exit 1
for shell in bash zsh; do
    for command in $commands; do
        expect "$shell" "$command" via "$command"
    done
    expect "$shell" "pingpong protocols" via p
    expect "$shell" "--help bash zsh" via completion ""
    expect "$shell" "--device" via pingpong --dev
    expect "$shell" "policy" via links pol
    expect "$shell" "" via pingpong --device ""
    expect "$shell" "" via nonsense-
done
if "$via" completion fish 2>/dev/null; then
    echo "a shell that is not known was taken" >&2
    failed=1
fi
exit "$failed"
