#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# install_test.sh <source> <build> <folder to work in>
# Installs, compares what is exported with what is promised, then builds and runs outside projects.
set -euo pipefail
source=$1 build=$2 work=$3
prefix=$work/prefix
libraries=$prefix/$INSTALL_LIBDIR

step() { printf -- '-- %s\n' "$*"; }

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

same() { # same <what> <expected file> <found file>
    diff -u --label "$1: promised" --label "$1: found" "$2" "$3" || fail "$1 differ"
}

rm -rf "$work"
mkdir -p "$work"

step "install"
cmake --install "$build" --prefix "$prefix" >"$work/install.log"
for file in bin/via bin/viad include/vipl.h include/vipx.h include/via/via.hpp \
    lib/systemd/system/viad.service "$INSTALL_LIBDIR/libvipl.so" "$INSTALL_LIBDIR/libvipl.so.1" \
    "$INSTALL_LIBDIR/pkgconfig/viaduct.pc" "$INSTALL_LIBDIR/cmake/viaduct/viaductConfig.cmake" \
    share/man/man1/via.1 share/man/man5/viaduct.conf.5 share/man/man7/vipl.7 \
    share/man/man8/viad.8 share/bash-completion/completions/via share/zsh/site-functions/_via; do
    [[ -e $prefix/$file ]] || fail "$file is not installed"
done
if grep -rlF "$build" "$prefix" >"$work/leaks"; then
    fail "installed files name the build tree: $(tr '\n' ' ' <"$work/leaks")"
fi

step "every header in the source tree is installed, and nothing else"
(cd "$source/include" && find . -type f | sort) >"$work/headers.promised"
(cd "$prefix/include" && find . -type f | sort) >"$work/headers.found"
same headers "$work/headers.promised" "$work/headers.found"

step "the library exports exactly the symbol map"
awk '$2 == "{" { version = $1 }
     $1 ~ /^Vip[A-Za-z]+;$/ { print substr($1, 1, length($1) - 1) "@@" version }' \
    "$source/src/vipl/vipl.map" | sort >"$work/symbols.promised"
nm -D --defined-only --with-symbol-versions "$libraries/libvipl.so.1" |
    awk '$2 != "A" { print $3 }' | sort >"$work/symbols.found"
same symbols "$work/symbols.promised" "$work/symbols.found"

step "the symbol map has exactly the functions of the headers, and each has a manual page"
grep -ohE '\bVip[A-Za-z]+\(' "$source/include/vipl.h" "$source/include/vipx.h" | tr -d '(' |
    sort -u >"$work/functions.promised"
sed 's/@@.*//' "$work/symbols.found" >"$work/functions.found"
same functions "$work/functions.promised" "$work/functions.found"
while read -r function; do
    [[ -e $prefix/share/man/man3/$function.3 ]] || fail "$function has no manual page"
done <"$work/functions.promised"
[[ $(grep -c '@@VIPL_1.0$' "$work/symbols.found") == 41 ]] || fail "VIPL has 41 functions"

step "the library needs the C and C++ runtime and libsodium only"
readelf -d "$libraries/libvipl.so.1" >"$work/dynamic"
grep -q 'SONAME.*\[libvipl.so.1\]' "$work/dynamic" || fail "the soname is not libvipl.so.1"
if sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' "$work/dynamic" |
    grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|libsodium|ld-linux[a-z0-9-]*)\.so\.[0-9]+$'; then
    fail "the library needs more than that"
fi

# From here on as a stranger: an agent of their own, found in PATH as after a normal installation.
unset VIA_AGENT_PROGRAM
export PATH=$prefix/bin:$PATH
export VIA_AGENT_SOCKET=@viaduct/install-test/$$ VIA_AGENT_IDLE_SECONDS=1

step "the tool runs"
via --version >"$work/version"

step "an outside CMake project"
cmake -G Ninja -S "$source/tests/install/project" -B "$work/cmake" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log"
cmake --build "$work/cmake" >>"$work/cmake.log"
"$work/cmake/outside_c"
"$work/cmake/outside_cpp"

step "a plain compiler with pkg-config"
export PKG_CONFIG_PATH=$libraries/pkgconfig
[[ $(pkg-config --modversion viaduct) == "$INSTALL_VERSION" ]] ||
    fail "viaduct.pc has another version"
read -ra flags < <(pkg-config --cflags --libs viaduct)
warnings=(-Wall -Wextra -Wpedantic -Werror)
"$CC" -std=c89 "${warnings[@]}" "$source/tests/install/project/outside.c" -o "$work/plain_c" "${flags[@]}"
"$CXX" -std=c++20 "${warnings[@]}" "$source/tests/install/project/outside.cpp" -o "$work/plain_cpp" \
    "${flags[@]}"
LD_LIBRARY_PATH=$libraries "$work/plain_c"
LD_LIBRARY_PATH=$libraries "$work/plain_cpp"

step "the examples, alone"
cmake -G Ninja -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" \
    >"$work/examples.log"
cmake --build "$work/examples" >>"$work/examples.log"
ctest --test-dir "$work/examples" --output-on-failure >>"$work/examples.log" || {
    cat "$work/examples.log"
    fail "an example does not run"
}

step "all good"
