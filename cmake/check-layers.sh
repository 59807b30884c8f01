#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check-layers.sh [tree]: does every #include under src/, include/ and tools/ obey cmake/layers.txt
# of that tree? Prints each offence as file:line and ends with 1 if there was one.
set -euo pipefail
cd "${1:-.}"

folders=()
for folder in src include tools; do
    if [[ -d $folder ]]; then folders+=("$folder"); fi
done
((${#folders[@]} > 0)) || {
    echo "check-layers: there is no src/, include/ or tools/ in $PWD" >&2
    exit 1
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find "${folders[@]}" -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' \) |
    sort >"$list"

awk -v list="$list" '
function offence(where, what) { printf "%s: %s\n", where, what; offences++ }

# The entry of the table that a path below src/ or include/ belongs to; "" if none.
function layer_of(path,    best, name) {
    best = ""
    for (name in allowed)
        if ((path == name || index(path, name "/") == 1) && length(name) > length(best))
            best = name
    return best
}

# The table.
{
    sub(/#.*/, "")
    if ($0 ~ /^[ \t]*$/) next
    if ($1 !~ /:$/) { offence(FILENAME ":" FNR, "expected \"folder: folders\""); next }
    name = substr($1, 1, length($1) - 1)
    if (name in allowed) { offence(FILENAME ":" FNR, name " stands here twice"); next }
    for (i = 2; i <= NF; i++)
        if ($i != "*" && !($i in allowed))
            offence(FILENAME ":" FNR, name " may not name " $i ", which does not stand above it")
    allowed[name] = " "
    for (i = 2; i <= NF; i++) allowed[name] = allowed[name] $i " "
}

END {
    while ((getline file < list) > 0) {
        path = file
        sub(/^(src|include)\//, "", path)
        from = layer_of(path)
        if (path == "CMakeLists.txt") continue
        if (from == "") { offence(file ":1", "its folder is not in cmake/layers.txt"); continue }
        number = 0
        while ((getline line < file) > 0) {
            number++
            if (line !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
            quoted = line ~ /include[ \t]*"/
            target = line
            sub(/^[^"<]*["<]/, "", target)
            sub(/[">].*/, "", target)
            if (index("/" target, "/../")) {
                offence(file ":" number, "includes " target "; write the path from src/")
                continue
            }
            to = layer_of(target)
            if (to == "") {
                # <system headers>, or a neighbour: in the same folder or below that of its tool.
                neighbour = file
                sub(/[^\/]*$/, target, neighbour)
                if (!quoted || (getline line < neighbour) >= 0) { close(neighbour); continue }
                if (match(file, /^tools\/[^\/]*\//)) {
                    neighbour = substr(file, 1, RLENGTH) target
                    if ((getline line < neighbour) >= 0) { close(neighbour); continue }
                }
                offence(file ":" number, "includes " target ", which is in no layer")
                continue
            }
            if (to == from || index(allowed[from], " " to " ") || index(allowed[from], " * "))
                continue
            offence(file ":" number, from " may not include " to " (" target ")")
        }
        close(file)
        files++
    }
    if (offences) {
        printf "check-layers: %d offences against cmake/layers.txt\n", offences
        exit 1
    }
    printf "check-layers: %d files obey cmake/layers.txt\n", files
}' cmake/layers.txt
