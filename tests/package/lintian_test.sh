#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# lintian_test.sh <source> <folder of packages>: no errors, no warnings.
set -euo pipefail
root=()
if [[ $(id -u) == 0 ]]; then root=(--allow-root); fi
lintian "${root[@]}" --fail-on error,warning --tag-display-limit 0 "$2"/*.changes
