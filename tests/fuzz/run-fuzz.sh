#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run-fuzz.sh <program> <folder of seeds> <folder to work in>
# Fuzzes for FUZZ_SECONDS (10). The seeds are only read; what the fuzzer learns and finds goes to
# the working folder, and what it learnt is used again next time.
set -eu
program=$1 seeds=$2 work=$3
mkdir -p "$work/learnt" "$work/found"
exec "$program" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=0 -verbosity=1 -artifact_prefix="$work/found/" "$work/learnt" "$seeds"
