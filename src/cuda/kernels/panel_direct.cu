// SPDX-License-Identifier: Apache-2.0
// Finishing straight into y.

template <bool INSIDE>
__device__ __forceinline__ void finish_groups(const Args &a, const Tile &tile, int rg, const Team &team, int position, Sums &sums) {
  const int row = first_row(tile, team);
  const Finish f[2] = {finish_of(a, tile, row), finish_of(a, tile, row + 8)};
  char *const y[2] = {channel_of_y(a, tile, f[0].channel), channel_of_y(a, tile, f[1].channel)};
#if ROLLED
#pragma unroll 1
#else
#pragma unroll
#endif
  for (int group = 0; group < GROUPS; group++) {
    const Cell cell = cell_at(a, tile, position + group * GROUP_STEP + threadIdx.x % 4 * 2);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      Tile of_cell = tile;
      of_cell.y = y[half];
      if (SAMPLES > 1) of_cell.n += cell.sample, of_cell.y += cell.sample * a.y.stride[0] * size_of(Y_TYPE);
      finish_pair<INSIDE>(a, of_cell, f[half], cell, rg, sums, place_of_group(group) * 4 + half * 2);
    }
    roll(sums, 0, HELD);
  }
}

__device__ __forceinline__ void finish_sums(const Args &a, Tile tile, int rg, const Team &team, Sums &sums, float *) {
  int position = team.position;
  asm volatile("" : "+r"(position)); // what follows from it is not to be kept in registers meanwhile
  if (tile.inside & (tile.width == WHOLE)) {
    tile.width = WHOLE; // which the compiler then knows
    finish_groups<true>(a, tile, rg, team, position, sums);
#if LANES_MEET
  } else if (tile.inside & (tile.width == HALVES)) {
    tile.width = MEETING;
    finish_groups<true>(a, tile, rg, team, position, sums);
#endif
  } else {
    __builtin_assume(tile.width < 3);
    finish_groups<false>(a, tile, rg, team, position, sums);
  }
}
