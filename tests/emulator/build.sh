#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the emulator, and a test_random that runs only what EMULATOR_CANDIDATES names, into the folder given; $2: where upconv was built.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=$1 build=${2:-$here/../../build}
mkdir -p "$out"
g++ -std=c++17 -O2 -march=native -shared -fPIC -w "$here/driver.cpp" -o "$out/libcuda.so" -ldl -lm
g++ -std=c++17 -O1 -shared -fPIC -w -DEMULATOR_SOURCE="\"$here\"" "$here/nvrtc.cpp" -o "$out/libnvrtc.so" -ldl
# One context instead of four that do the same, and of the candidates those that EMULATOR_CANDIDATES names, separated by commas.
sed -e 's/COUNTS = 4/COUNTS = 1/' -e 's/{1, 2, 3, 7}/{1}/' -e '/CHECK(chosen_is_listed)/d' -e 's/upconv_plan_candidate_name(/wanted_candidate(/' \
  -e 's/!one_in(c, 7)/!one_in(c, getenv("EMULATOR_SPOIL") ? 1 : 7)/' \
  -e 's/if (one_in(c, 2)) run_options(c, &(upconv_plan_options){.no_fuse/if (!getenv("EMULATOR_CANDIDATES")) run_options(c, \&(upconv_plan_options){.no_fuse/' \
  "$here/../test_random.c" > "$out/random.c"
gcc -std=gnu11 -O1 -w -include "$here/wanted.h" -I"$here/.." -I"$here/../../include" "$out/random.c" -o "$out/random" \
  "$build/tests/libupconv_test_support.a" $(find "$build" -maxdepth 2 -name 'libupconv*.a' ! -name '*support*' ! -name '*cli*') -lpthread -ldl -lm
# The same with rows put together wherever they may be, not only where that is estimated to be faster.
sed 's/for (int rows = 0; rows <= can_stage_rows(s, t)/for (int rows = can_stage_rows(s, t); rows <= can_stage_rows(s, t)/' "$here/../../src/cuda/shape_panel.c" > "$out/shape_panel.c"
sed '/t.row_pitch = 0;/{n;s/.*/if (!meets_in_rows(s, \&t)) try_parts(s, \&t, best);/}' "$here/../../src/cuda/shape_phase.c" > "$out/shape_phase.c"
for shape in panel phase; do
  gcc -std=gnu11 -O1 -w -I"$here/../../src" -I"$here/../../src/cuda" -I"$here/../../include" -c "$out/shape_$shape.c" -o "$out/shape_$shape.o"
done
gcc -std=gnu11 -O1 -w -include "$here/wanted.h" -I"$here/.." -I"$here/../../include" "$out/random.c" -o "$out/random_rows" "$out/shape_panel.o" "$out/shape_phase.o" \
  "$build/tests/libupconv_test_support.a" $(find "$build" -maxdepth 2 -name 'libupconv*.a' ! -name '*support*' ! -name '*cli*') -lpthread -ldl -lm
