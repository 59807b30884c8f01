#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# abi_test.sh <source> <folder of packages> [--record]
# Compares the packaged library with the record of the last release: every function is there, and the
# types that it takes are laid out as they were. More may be there. With --record it is written anew.
set -euo pipefail
source=$1 packages=$2 mode=${3:-}
machine=$(uname -m)
record=$source/abi/libvipl.so.1-$machine.abi.xml
functions=$(grep -cE '^ Vip' "$source/debian/libvipl1.symbols")

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

if [[ $mode != --record && ! -f $record ]]; then
    echo "skipped: there is no record for $machine; on such a machine: ./run package --record-abi"
    exit 77
fi

# The types are in the package of debug symbols.
work=$packages/abi
rm -rf "$work"
mkdir -p "$work"
dpkg-deb -x "$packages"/libvipl1_*.deb "$work"
dpkg-deb -x "$packages"/libvipl1-dbgsym_*.deb "$work"
dpkg-deb -x "$packages"/libvipl-dev_*.deb "$work"
library=$(find "$work/usr/lib" -name 'libvipl.so.1.*')
# No paths, which would be the machine's.
(cd "$work" && abidw --exported-interfaces-only --drop-private-types --no-elf-needed --no-corpus-path \
    --no-comp-dir-path --no-show-locs --headers-dir usr/include --debug-info-dir usr/lib/debug \
    "${library#"$work/"}") >"$work/now.xml"
# Without debug symbols abidw is content with names.
described=$(grep -cE '<function-decl .*elf-symbol-id=' "$work/now.xml" || true)
[[ $described == "$functions" ]] ||
    fail "types of $described functions were found, not of $functions: are the debug symbols there?"

if [[ $mode == --record ]]; then
    mkdir -p "$source/abi"
    cp "$work/now.xml" "$record"
    echo "recorded: ${record#"$source/"}"
    exit 0
fi
abidiff --no-added-syms "$record" "$work/now.xml" || fail "this breaks programs that are compiled already"
echo "as in the last release"
