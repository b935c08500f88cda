// SPDX-License-Identifier: Apache-2.0
// Finishing straight into y.

// RUNS: outputs are stored by WIDTH. ONCE: the code exists once.
template <bool RUNS, bool ONCE>
__device__ __forceinline__ void finish_groups(const Args &a, const Tile &tile, int rg, const Team &team, int position, Sums &sums) {
  enum { AT_ONCE = ONCE ? 1 : ALL_AT_ONCE, AHEAD = ONCE ? 0 : MOST_AHEAD > 1 ? 1 : 0 }; // groups: two pairs each
  const int row = first_row(tile, team);
  const Finish f[2] = {finish_of(a, tile, row), finish_of(a, tile, row + 8)};
  char *const y[2] = {channel_of_y(a, tile, f[0].channel), channel_of_y(a, tile, f[1].channel)};
  Extra extra[AHEAD + 1][2];
  const auto cell_of = [&](int group) { return cell_at(a, tile, position + group * GROUP_STEP + threadIdx.x % 4 * 2); };
  const auto live_of = [&](const Cell &cell) { return RUNS && BORDERS ? held_cells(a, tile, cell.d, cell.h, cell.w) : BOTH; };
  const auto load = [&](int group) {
    const Cell cell = cell_of(group);
    Tile of_cell = tile;
    of_cell.n += cell.sample;
#pragma unroll
    for (int half = 0; half < 2; half++)
      load_extra<RUNS>(a, of_cell, rg, f[half].live & cell.live ? live_of(cell) : 0, f[half].channel, cell.d, cell.h, cell.w,
                       extra[group % (AHEAD + 1)][half]);
  };
#pragma unroll
  for (int group = 0; group < AHEAD && group < GROUPS; group++) load(group);
#pragma unroll AT_ONCE
  for (int group = 0; group < GROUPS; group++) {
    if (group + AHEAD < GROUPS) load(group + AHEAD);
    const Cell cell = cell_of(group);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      Tile of_cell = tile;
      of_cell.y = y[half];
      if (SAMPLES > 1) of_cell.n += cell.sample, of_cell.y += cell.sample * a.y.stride[0] * size_of(Y_TYPE);
      finish_pair<RUNS, RUNS>(a, of_cell, f[half], cell, rg, sums, (ONCE ? 0 : group) * 4 + half * 2, live_of(cell),
                              extra[group % (AHEAD + 1)][half]);
    }
    if (ONCE) roll(sums, 0, HELD);
  }
}

__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Team &team, Sums &sums, float *) {
  int position = team.position;
  asm volatile("" : "+r"(position)); // what follows from it is not to be kept in registers meanwhile
  if (stores_runs(tile)) finish_groups<true, ROLLED>(a, tile, rg, team, position, sums);
  else finish_groups<false, ROLLED || WIDTH != APART>(a, tile, rg, team, position, sums);
}
