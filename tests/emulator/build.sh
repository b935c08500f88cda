#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh OUT [BUILD]: builds the emulator into the folder OUT, and `random` and `random_rows` (README.md) from the library in BUILD.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$1 build=${2:-build}
source=$PWD/tests/emulator
mkdir -p "$out"

# change FILE EXPRESSION...: the file's text with every sed expression applied, none of which may find nothing to change.
change() {
  local text changed expression
  text=$(cat "$1")
  shift
  for expression; do
    changed=$(sed "$expression" <<<"$text")
    [ "$changed" != "$text" ] || { echo "build.sh: found nothing to change: $expression" >&2 && return 1; }
    text=$changed
  done
  printf '%s\n' "$text"
}

# link NAME OBJECT...: random.c with these instead of the library's own.
link() {
  local name=$1
  shift
  gcc -std=gnu11 -O1 -w -include tests/emulator/wanted.h -Itests -Iinclude "$out/random.c" -o "$out/$name" "$@" \
    "$build/tests/libupconv_test_support.a" "$build/lib/libupconv.a" -lpthread -ldl -lm
}

g++ -std=c++17 -O2 -march=native -shared -fPIC -w tests/emulator/driver.cpp -o "$out/libcuda.so" -ldl -lm
g++ -std=c++17 -O1 -shared -fPIC -w -DEMULATOR_SOURCE="\"$source\"" tests/emulator/nvrtc.cpp -o "$out/libnvrtc.so" -ldl

# One context instead of four that do the same; of the candidates those that EMULATOR_CANDIDATES names.
change tests/test_random.c 's/COUNTS = 4/COUNTS = 1/' 's/{1, 2, 3, 7}/{1}/' '/CHECK(chosen_is_listed)/d' \
  's/upconv_plan_candidate_name(/wanted_candidate(/' 's/!one_in(c, 7)/!one_in(c, getenv("EMULATOR_SPOIL") ? 1 : 7)/' \
  's/if (one_in(c, 2)) run_options(c, &(upconv_plan_options){.no_fuse/if (!getenv("EMULATOR_CANDIDATES")) run_options(c, \&(upconv_plan_options){.no_fuse/' \
  >"$out/random.c"
link random

# Rows are put together wherever they may be, not only where that is estimated to be faster.
change src/cuda/shape_panel.c \
  's/for (int rows = 0; rows <= can_stage_rows(s, t)/for (int rows = can_stage_rows(s, t); rows <= can_stage_rows(s, t)/' \
  >"$out/shape_panel.c"
change src/cuda/shape_phase.c '/t->row_pitch = 0;/{n;s/.*/if (!meets_in_rows(s, t)) try_parts(s, t, best);/}' >"$out/shape_phase.c"
for shape in panel phase; do
  gcc -std=gnu11 -O1 -w -Isrc -Isrc/cuda -Iinclude -c "$out/shape_$shape.c" -o "$out/shape_$shape.o"
done
link random_rows "$out/shape_panel.o" "$out/shape_phase.o"
