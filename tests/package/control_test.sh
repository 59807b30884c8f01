#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# control_test.sh <source> <folder of packages>
# What debian/ repeats of the tree is the same there, and the programs are compiled as ./run's are.
set -euo pipefail
source=$1 packages=$2

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Needed by tests and benchmarks only, by ./run itself, or there in every build of a package.
not_for_packages=" g++ ccache libgtest-dev libbenchmark-dev "
read -ra needed < <(sed -n 's/^build: //p' "$source/cmake/debian-packages.txt")
for name in "${needed[@]}"; do
    if [[ $not_for_packages == *" $name "* ]]; then continue; fi
    sed -n '/^Build-Depends:/,/^$/p' "$source/debian/control" | grep -qE "^ $name( |,)" ||
        fail "cmake/debian-packages.txt has $name to build with, Build-Depends of debian/control not"
done

version=$(sed -n 's/^project(viaduct VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
[[ $(dpkg-parsechangelog -l "$source/debian/changelog" -S Version) == "$version" ]] ||
    fail "debian/changelog has another version than CMakeLists.txt ($version)"

# Debian's flags hold -O2; behind them must come what the release build has, and nothing else.
commands=("$packages"/source/obj-*/compile_commands.json)
grep '"command"' "${commands[0]}" | grep -E -- '-o src/' >"$packages/commands"
[[ -s $packages/commands ]] || fail "no commands in ${commands[0]}"
while read -r line; do
    levels=$(grep -oE -- ' -O[0-9a-z]*' <<<"$line" | tail -n 1)
    [[ $levels == " -O3" && $line == *" -DNDEBUG "* && $line == *" -fno-plt "* ]] ||
        fail "not compiled as the release build is: $line"
    [[ $line == *" -g "* && $line == *" -fstack-protector-strong "* && $line == *"_FORTIFY_SOURCE="* ]] ||
        fail "compiled without Debian's flags: $line"
done <"$packages/commands"

files=0
while read -r file; do
    if readelf -d "$file" 2>/dev/null | grep -E 'R(UN)?PATH'; then fail "$file has an RPATH"; fi
    files=$((files + 1))
done < <(find "$packages"/source/debian/*/usr/{bin,lib} -type f \( -perm -u+x -o -name '*.so*' \) 2>/dev/null)
((files >= 4)) || fail "only $files programs and libraries were looked at"
echo "debian/ and the tree agree"
