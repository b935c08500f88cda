// SPDX-License-Identifier: Apache-2.0
// Finishing straight into y.

// RUNS: outputs are stored by WIDTH. ONCE: the code exists once.
template <bool RUNS, bool ONCE>
__device__ __forceinline__ void finish_groups(const Args &a, const Tile &tile, const Place &p, const Part &part, int round,
                                              Sums &sums) {
  enum { AT_ONCE = ONCE ? 1 : ALL_AT_ONCE, AHEAD = ONCE ? 0 : MOST_AHEAD };
#pragma unroll AT_ONCE
  for (int held = 0; held < HELD; held++) {
    const Finish f = finish_of(a, tile, tile.c0 + (round * HELD + held) * FRAGMENTS * 8 + p.channel);
    Tile here = tile;
    here.y = tile.y + f.channel * a.y.stride[1] * size_of(Y_TYPE);
    asm volatile("" : "+l"(here.y)); // not to be added up anew for every store
    __builtin_assume(__isGlobal(here.y));
#pragma unroll AT_ONCE
    for (int first = 0; first < PLACES; first += SLOTS) {
      const int place = first + (PLACES > 1 ? p.slot : 0), panel = ONCE ? 0 : held * PANELS + first / SLOTS * PAIRS_W;
      if (PLACES % SLOTS != 0 && place >= PLACES) {
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

__device__ __forceinline__ void finish_part(const Args &a, const Tile &tile, const Place &p, Part part, int round, Sums &sums, float *) {
  hold_back(part);
  if (stores_runs(tile)) finish_groups<true, ROLLED>(a, tile, p, part, round, sums);
  else finish_groups<false, ROLLED || WIDTH != APART>(a, tile, p, part, round, sums);
}
