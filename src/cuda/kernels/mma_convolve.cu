// SPDX-License-Identifier: Apache-2.0
// A tile on the tensor cores: chunks of channels, then every cell is finished. Where the input of all channels is staged at
// once, output channels are taken in rounds: each reads it again, none stages it again.

// Where the input of all channels is staged.
__device__ __forceinline__ void convolve_rounds(const Args &a, const Tile &tile, int rg, const Place &p, const u32 *xs, const u32 *ws) {
#pragma unroll 1
  for (int round = 0; round < ROUNDS; round++) {
    Sums sums;
    clear(sums);
    multiply(p, xs, weights_of(p, ws, round), sums);
    finish_sums(a, tile, rg, p, p.m + round * (BM / ROUNDS), sums);
  }
}

__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int e0, u32 *ws) {
  fetch_weights(a, tile, e0, ws);
  wait_weights();
}

// resident: the weights are in shared memory already, after the inputs of all teams.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  u32 *xs = (u32 *)smem + team() * TEAM_FLOATS, *ws = (u32 *)smem + TEAMS * TEAM_FLOATS;
  const Place p = place_of(team_thread());
  Sums sums;
  if (ROUNDS == 1) clear(sums);
#pragma unroll 1
  for (int e0 = 0; e0 < CI_STEPS * STEP_WORDS; e0 += EC) {
    sync_team();
    if (!resident) fetch_weights(a, tile, e0, ws);
    stage_input(a, tile, e0, xs);
    if (!resident) wait_weights();
    sync_team();
    if (ROUNDS == 1) multiply(p, xs, weights_of(p, ws, 0), sums);
  }
  if (ROUNDS == 1) finish_sums(a, tile, rg, p, p.m, sums);
  else convolve_rounds(a, tile, rg, p, xs, ws);
}
