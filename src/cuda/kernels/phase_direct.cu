// SPDX-License-Identifier: Apache-2.0
// Finishing straight into y.

template <bool INSIDE>
__device__ __forceinline__ void finish_groups(const Args &a, const Tile &tile, const Place &p, const Part &part, int round,
                                              Sums &sums) {
#if ROLLED
#pragma unroll 1
#else
#pragma unroll
#endif
  for (int held = 0; held < HELD; held++) {
    const Finish f = finish_of(a, tile, tile.c0 + (round * HELD + held) * FRAGMENTS * 8 + p.channel);
#if ROLLED
#pragma unroll 1
#else
#pragma unroll
#endif
    for (int first = 0; first < PLACES; first += SLOTS) {
      const int place = first + (PLACES > 1 ? p.slot : 0), panel = place_of_row(held * PANELS + first / SLOTS * PAIRS_W);
      if (PLACES % SLOTS != 0 && place >= PLACES) {
        roll_rows(sums, RT / R2 * PAIRS_W);
        continue;
      }
#if ROLLED
#pragma unroll 1
#else
#pragma unroll
#endif
      for (int group = 0; group < GROUPS; group++) {
        const int d = part.d + (GROUP_AXIS == 0 ? group : 0), h = part.h + (GROUP_AXIS == 1 ? group : 0);
        const int w = part.w + (GROUP_AXIS == 2 ? group * 8 : 0) + p.cell;
        finish_pair<INSIDE>(a, tile, f, sums, panel, place_of_group(group), place, d, h, w);
        roll(sums, panel, RT / R2 * PAIRS_W);
      }
      roll_rows(sums, RT / R2 * PAIRS_W);
    }
  }
}

__device__ __forceinline__ void finish_part(const Args &a, Tile tile, const Place &p, Part part, int round, Sums &sums, float *) {
  hold_back(part);
  if (tile.inside & (tile.width == WHOLE)) {
    tile.width = WHOLE; // which the compiler then knows
    finish_groups<true>(a, tile, p, part, round, sums);
#if LANES_MEET
  } else if (tile.inside & (tile.width == HALVES)) {
    tile.width = MEETING;
    finish_groups<true>(a, tile, p, part, round, sums);
#endif
  } else {
    __builtin_assume(tile.width < 3);
    finish_groups<false>(a, tile, p, part, round, sums);
  }
}
