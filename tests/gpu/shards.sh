#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The random suite in parallel: shards.sh PROGRAM SHARDS CASES FIRST_SEED [LOG_DIR]. Compiling kernels takes most of the
# time, so every shard is a process of its own. Ends with one closing line for all.
set -u
program=$1 shards=$2 cases=$3 first=$4 logs=${5:-$(mktemp -d)}
mkdir -p "$logs"
for ((i = 0; i < shards; i++)); do
  "$program" --device cuda --seed $((first + i)) --count "$cases" >"$logs/shard$i.log" 2>&1 &
done
wait
grep -h -A6 FAIL "$logs"/shard*.log | head -${SHOW:-60}
passed=0 failed=0
for ((i = 0; i < shards; i++)); do
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$logs/shard$i.log" | tail -1)
  if [ -z "$line" ]; then
    echo "shard $i ended without a closing line:"
    tail -3 "$logs/shard$i.log"
    failed=$((failed + 1))
    continue
  fi
  set -- $line
  passed=$((passed + $1)) failed=$((failed + $3))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
