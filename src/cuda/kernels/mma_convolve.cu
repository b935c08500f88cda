// SPDX-License-Identifier: Apache-2.0
// A tile on the tensor cores: chunks of channels, then every cell is finished. Where the input of all channels is staged at
// once, output channels are taken in rounds: each reads it again, none stages it again.

// Strips of a lane, one bit each: those all of whose outputs are stored, and those of whose outputs some are.
struct Stored {
  u32 whole, part;
};

// In a tile that is not inside; at: the lane's first cell. Few strips are cut by a border, and only those compare coordinates of
// every output.
__device__ __forceinline__ Stored stored_strips(const Args &a, const Tile &tile, int at) {
  Stored strips = {0, 0};
  if (tile.inside) return strips;
#pragma unroll
  for (int s = 0; s < STRIPS; s++) {
    const int first = at + s * STRIP_GAP;
    const int d = (tile.qd + first / TW / TH) * Y_CELL0 + Y_BASE0, h = (tile.qh + first / TW % TH) * Y_CELL1 + Y_BASE1;
    const int w = (tile.qw + first % TW) * Y_CELL2 + Y_BASE2;
    const int in_d = stored_of(a, 2, d, Y_CELL0), in_h = stored_of(a, 3, h, Y_CELL1), in_w = stored_of(a, 4, w, STRIP * Y_CELL2);
    const bool some = (in_d > 0) & (in_h > 0) & (in_w > 0), all = (in_d == 2) & (in_h == 2) & (in_w == 2);
    strips.whole |= (u32)all << s;
    strips.part |= (u32)(some & !all) << s;
  }
  return strips;
}

// One channel of a lane's cells; k: which of the two columns of block j that the lane has. INSIDE: all strips are stored whole.
template <bool INSIDE>
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, int at, Stored strips, int c,
                                               const Sums &sums, int j, int k) {
  const int channel = tile.group * CO + (c < CO ? c : CO - 1);
  const float bias = __ldg(a.packed + BIAS_AT + channel), factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + channel) : 1.0f;
#pragma unroll
  for (int q0 = 0; q0 < LANE_CELLS; q0 += STRIP) {
    const int first = at + q0 / STRIP * STRIP_GAP;
    float strip[STRIP * RT];
#pragma unroll
    for (int i = 0; i < STRIP; i++)
#pragma unroll
      for (int r = 0; r < RT; r++) {
        const float sum = sums[r][(q0 + i) / 2][j][(q0 + i) % 2 * 2 + k];
        strip[i * RT + r] = SUMS_POOLED ? sum : with_bias(sum, factor, bias);
      }
    const int d = first / TW / TH, h = first / TW % TH, w = first % TW;
    if (INSIDE || strips.whole >> q0 / STRIP & 1) finish<true>(a, tile, rg, c < CO, channel, d, h, w, strip);
    else if (strips.part >> q0 / STRIP & 1) finish<false>(a, tile, rg, c < CO, channel, d, h, w, strip);
  }
}

// m: the warp's first channel of this round. A branch a channel: with one for all of them the compiler holds more at once
// than there are registers.
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Place &p, int m, const Sums &sums) {
  const Stored strips = stored_strips(a, tile, p.cell);
#pragma unroll
  for (int j = 0; j < NT; j++)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int c = tile.c0 + m + 8 * j + threadIdx.x % 4 * 2 + k;
      if (tile.inside) finish_channel<true>(a, tile, rg, p.cell, strips, c, sums, j, k);
      else finish_channel<false>(a, tile, rg, p.cell, strips, c, sums, j, k);
    }
}

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
