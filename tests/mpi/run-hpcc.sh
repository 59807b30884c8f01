#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run-hpcc.sh INPUT FOLDER command...: runs hpcc in a folder of its own and looks at its verdict.
set -eu
input=$1 folder=$2
shift 2
rm -rf "$folder"
mkdir -p "$folder"
cp "$input" "$folder/hpccinf.txt"
cd "$folder"
"$@"
grep -q '^Success=1' hpccoutf.txt
if grep -E 'FAILED|[1-9][0-9]* tests? .*failed' hpccoutf.txt; then exit 1; fi
echo "hpcc: good"
