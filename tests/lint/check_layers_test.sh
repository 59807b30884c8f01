#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_layers_test.sh <check-layers.sh> <folder to work in>: small trees, right and wrong ones.
set -euo pipefail
checker=$1 work=$2
cases=0 failures=0

# A right tree, to which each case adds one thing.
fresh_tree() {
    rm -rf "$work"
    mkdir -p "$work"/{cmake,src/base,src/na/shm,src/ua,include,tools/via}
    cat >"$work/cmake/layers.txt" <<'TABLE'
# lowest first
api.h:
base:
na: base      # with a comment
na/shm: base na
ua: base na api.h
ua/devices.cpp: na na/shm ua
tools: *
TABLE
    echo '#pragma once' >"$work/src/base/log.hpp"
    printf '#include <vector>\n#include "base/log.hpp"\n' >"$work/src/na/agent.hpp"
    printf '#include "na/agent.hpp"\n#include "na/shm/ring.hpp"\n' >"$work/src/na/shm/ring.hpp"
    printf '#include <api.h>\n#include "na/agent.hpp"\n' >"$work/src/ua/vi.hpp"
    printf '#include "na/shm/ring.hpp"\n#include "ua/vi.hpp"\n' >"$work/src/ua/devices.cpp"
    printf '#include "na/shm/ring.hpp"\n#include "plot.hpp"\n' >"$work/tools/via/main.cpp"
    echo '#pragma once' >"$work/tools/via/plot.hpp"
    echo '/* public */' >"$work/include/api.h"
}

# expect <status> <text that must be printed> <name>
expect() {
    local status=0 output
    cases=$((cases + 1))
    output=$("$checker" "$work" 2>&1) || status=$?
    if [[ $status != "$1" || $output != *"$2"* ]]; then
        failures=$((failures + 1))
        printf 'FAILED %s: wanted status %s and "%s", got status %s and:\n%s\n' \
            "$3" "$1" "$2" "$status" "$output"
    fi
}

fresh_tree
expect 0 "8 files obey" "a right tree"

fresh_tree
mkdir "$work/tools/via/parts"
printf '#include "parts/part.hpp"\n#include "plot.hpp"\n' >"$work/tools/via/parts/part.cpp"
echo '#pragma once' >"$work/tools/via/parts/part.hpp"
expect 0 "10 files obey" "a tool's own folder"

fresh_tree
mkdir "$work/tools/via/parts"
echo '#include "parts/other.hpp"' >"$work/tools/via/parts/part.cpp"
expect 1 "parts/other.hpp, which is in no layer" "what is not in a tool's own folder"

fresh_tree
echo '#include "na/agent.hpp"' >>"$work/src/base/log.hpp"
expect 1 "src/base/log.hpp:2: base may not include na" "upwards"

fresh_tree
echo '  #  include "na/shm/ring.hpp"' >>"$work/src/ua/vi.hpp"
expect 1 "src/ua/vi.hpp:3: ua may not include na/shm" "a device outside the registration file"

fresh_tree
echo '#include "na/shm/ring.hpp"' >>"$work/src/na/agent.hpp"
expect 1 "src/na/agent.hpp:3: na may not include na/shm" "a folder and the folder inside it"

fresh_tree
echo '#include <api.h>' >>"$work/src/na/agent.hpp"
expect 1 "src/na/agent.hpp:3: na may not include api.h" "a public header below its layer"

fresh_tree
echo '#include "../base/log.hpp"' >>"$work/src/ua/vi.hpp"
expect 1 "src/ua/vi.hpp:3: includes ../base/log.hpp" "a path with .."

fresh_tree
echo '#include "nowhere/thing.hpp"' >>"$work/src/ua/vi.hpp"
expect 1 "nowhere/thing.hpp, which is in no layer" "an unknown folder is included"

fresh_tree
mkdir "$work/src/extra"
echo '#pragma once' >"$work/src/extra/thing.hpp"
expect 1 "src/extra/thing.hpp:1: its folder is not in cmake/layers.txt" "a folder without a line"

fresh_tree
sed -i 's/^base:$/base: ua/' "$work/cmake/layers.txt"
expect 1 "base may not name ua, which does not stand above it" "a circle in the law"

fresh_tree
echo 'base: na' >>"$work/cmake/layers.txt"
expect 1 "base stands here twice" "two lines for one folder"

fresh_tree
rm -r "$work"/{src,include,tools}
expect 1 "there is no src/" "an empty tree"

printf '%d cases, %d failed\n' "$cases" "$failures"
((failures == 0))
