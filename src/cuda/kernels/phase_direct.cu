// SPDX-License-Identifier: Apache-2.0
// Finishing straight into y.

// y from the channel on.
__device__ __forceinline__ Tile tile_of_channel(const Args &a, const Tile &tile, const Finish &f) {
  Tile here = tile;
  here.y = tile.y + f.channel * a.y.stride[1] * size_of(Y_TYPE);
  asm volatile("" : "+l"(here.y)); // not to be added up anew for every store
  __builtin_assume(__isGlobal(here.y));
  return here;
}

// Four warps, who are at the same place of the code.
__device__ __forceinline__ void sync_four_warps() {
  asm volatile("bar.sync %0, %1;" ::"r"((int)threadIdx.x / 128 + 1), "n"(128) : "memory");
}

// Where a panel's sums go, of all places' in the order of residues.
template <typename L>
__device__ __forceinline__ int row_of_place(int panel, int slot) {
  return (panel / PAIRS_W * L::SLOTS + slot) * PAIRS_W + panel % PAIRS_W;
}

// RUNS: outputs are stored by WIDTH. ONCE: the code exists once.
template <typename L, bool RUNS, bool ONCE>
__device__ __forceinline__ void finish_groups(const Args &a, const Tile &tile, const Place &p, const Part &part, int round,
                                              Sums<L> &sums) {
  enum { AT_ONCE = ONCE ? 1 : ALL_AT_ONCE, AHEAD = ONCE ? 0 : MOST_AHEAD };
#pragma unroll AT_ONCE
  for (int held = 0; held < L::HELD; held++) {
    const Finish f = finish_of(a, tile, channel_of<L>(tile, p, round, held));
    const Tile here = tile_of_channel(a, tile, f);
#pragma unroll AT_ONCE
    for (int first = 0; first < PLACES; first += L::SLOTS) {
      const int place = first + (PLACES > 1 ? p.slot : 0), panel = ONCE ? 0 : held * L::PANELS + first / L::SLOTS * PAIRS_W;
      if (PLACES % L::SLOTS != 0 && place >= PLACES) {
        if (ONCE) roll_rows(sums, RT / R2 * PAIRS_W);
        continue;
      }
      Extra extra[AHEAD + 1];
      const auto load = [&](int group) {
        const Pair at = pair_at(p, part, group);
        const Live live = RUNS && BORDERS ? held_cells(a, tile, at.d, at.h, at.w) : BOTH;
        load_extra<RUNS>(a, tile, place, f.live ? live : 0, f.channel, at.d, at.h, at.w, extra[group % (AHEAD + 1)]);
      };
#pragma unroll
      for (int group = 0; group < AHEAD && group < GROUPS; group++) load(group);
#pragma unroll AT_ONCE
      for (int group = 0; group < GROUPS; group++) {
        if (group + AHEAD < GROUPS) load(group + AHEAD);
        const Pair at = pair_at(p, part, group);
        const Live live = RUNS && BORDERS ? held_cells(a, tile, at.d, at.h, at.w) : BOTH;
        finish_pair<RUNS, RUNS>(a, here, f, sums, panel, ONCE ? 0 : group, place, at, live, extra[group % (AHEAD + 1)]);
        if (ONCE) roll(sums, panel, RT / R2 * PAIRS_W);
      }
      if (ONCE) roll_rows(sums, RT / R2 * PAIRS_W);
    }
  }
}

// Where warps have different places of the same cells and channels, and a cell needs all places: sums meet in shared memory, as many
// groups of cells at once as there are such warps, each of which finishes one.
template <typename L, bool RUNS, bool ONCE>
__device__ __forceinline__ void finish_gathered(const Args &a, const Tile &tile, const Place &p, const Part &part, int round,
                                                Sums<L> &sums, float4 *stage) {
  enum { AT_ONCE = ONCE ? 1 : ALL_AT_ONCE, LANES = 32, ROWS = L::SLOTS * L::PANELS };
  float4 *const own = stage + p.channel / 8 * (L::SLOTS * ROWS * LANES) + threadIdx.x % LANES;
#pragma unroll AT_ONCE
  for (int held = 0; held < L::HELD; held++) {
    const Finish f = finish_of(a, tile, channel_of<L>(tile, p, round, held));
    const Tile here = tile_of_channel(a, tile, f);
#pragma unroll AT_ONCE
    for (int first = 0; first < GROUPS; first += L::SLOTS) {
      const Pair at = pair_at(p, part, first + p.slot);
      const bool mine = GROUPS % L::SLOTS == 0 || first + p.slot < GROUPS;
      const Live live = !mine ? 0 : RUNS && BORDERS ? held_cells(a, tile, at.d, at.h, at.w) : BOTH;
      Extra extra;
      load_extra<RUNS>(a, tile, 0, f.live ? live : 0, f.channel, at.d, at.h, at.w, extra);
#pragma unroll
      for (int group = 0; group < L::SLOTS; group++)
#pragma unroll
        for (int i = 0; i < L::PANELS; i++) {
          const int k = ((ONCE ? 0 : first) + group) % GROUPS * 4;
          const float *const sum = sums[(ONCE ? 0 : held * L::PANELS) + i] + k;
          own[(group * ROWS + row_of_place<L>(i, p.slot)) * LANES] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
      sync_four_warps();
      float gathered[ROWS][4];
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        const float4 sum = own[(p.slot * ROWS + i) * LANES];
        gathered[i][0] = sum.x, gathered[i][1] = sum.y, gathered[i][2] = sum.z, gathered[i][3] = sum.w;
      }
      sync_four_warps();
      if (mine) finish_pair<RUNS, RUNS>(a, here, f, gathered, 0, 0, 0, at, live, extra);
      if (ONCE)
#pragma unroll
        for (int group = 0; group < L::SLOTS && first + group < GROUPS; group++) roll(sums, 0, L::PANELS);
    }
    if (ONCE) roll_rows(sums, L::PANELS);
  }
}

template <typename L, bool RUNS, bool ONCE>
__device__ __forceinline__ void finish_by(const Args &a, const Tile &tile, const Place &p, const Part &part, int round, Sums<L> &sums,
                                          float *smem) {
  if constexpr (L::SLOTS > 1 && PLACES == 1)
    finish_gathered<L, RUNS, ONCE>(a, tile, p, part, round, sums,
                                   (float4 *)((char *)smem + STAGE_AT + threadIdx.x / 128 * (STAGE_BYTES / TEAMS_OF_FOUR)));
  else finish_groups<L, RUNS, ONCE>(a, tile, p, part, round, sums);
}

template <typename L>
__device__ __forceinline__ void finish_part(const Args &a, const Tile &tile, const Place &p, Part part, int round, Sums<L> &sums,
                                            float *smem) {
  hold_back(part);
  if (stores_runs(tile)) finish_by<L, true, ROLLED>(a, tile, p, part, round, sums, smem);
  else finish_by<L, false, ROLLED || WIDTH != APART>(a, tile, p, part, round, sums, smem);
}
