// SPDX-License-Identifier: Apache-2.0
// A tile on the FP32 units: chunks of channels, then every cell is finished.

#if FUSED
// Cells of one output are stored or not, so that coordinates are compared once for all channels.
enum { ONE_OUTPUT = Y_CELL0 * Y_CELL1 * Y_CELL2 == 1 };

__device__ __forceinline__ bool cell_stored(const Args &a, const Tile &tile, const Place &p, int i) {
  return tile.inside || (stored(a, 2, tile.qd + p.jd + i * NEXT0 + Y_BASE0, 1) &
                         stored(a, 3, tile.qh + p.jh + i * NEXT1 + Y_BASE1, 1) &
                         stored(a, 4, tile.qw + p.jw + i * NEXT2 + Y_BASE2, 1));
}
#else
enum { ONE_OUTPUT = 0 };
__device__ __forceinline__ bool cell_stored(const Args &, const Tile &, const Place &, int) { return true; }
#endif

// Channel m of a thread's cells; those that are not live are not stored.
template <bool INSIDE>
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, const Place &p, int m,
                                               const bool (&live)[CELLS], const float (&sums)[CELLS][RT][MC]) {
  enum { WHOLE_BLOCKS = CO % BM == 0 };
  const int c = tile.c0 + p.m + m, channel = tile.group * CO + (WHOLE_BLOCKS || c < CO ? c : CO - 1);
  const float bias = __ldg(a.packed + BIAS_AT + channel); // last: it may be far larger than the products
#pragma unroll
  for (int i = 0; i < CELLS; i++) {
    float cell[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = sums[i][r][m] + bias;
    finish<INSIDE>(a, tile, rg, live[i] & (WHOLE_BLOCKS | (c < CO)), channel, p.jd + i * NEXT0, p.jh + i * NEXT1,
                   p.jw + i * NEXT2, cell);
  }
}

// resident: the weights are in shared memory already.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  float *xs = smem, *ws = smem + X_FLOATS;
  const Place p = place_of(threadIdx.x);
  float sums[CELLS][RT][MC];
#pragma unroll
  for (int m = 0; m < MC; m++)
#pragma unroll
    for (int i = 0; i < CELLS; i++)
#pragma unroll
      for (int r = 0; r < RT; r++) sums[i][r][m] = 0.0f;
#pragma unroll 1
  for (int e0 = 0; e0 < CI; e0 += EC) {
    __syncthreads();
    stage_input(a, tile, e0, xs);
    if (SHARED_WEIGHTS && !resident) stage_weights(a, tile, e0, ws);
    __syncthreads();
    const int channels = CI - e0 < EC ? CI - e0 : EC;
    const float *w = ws + p.m;
    // without shared weights a thread beyond the last channel reads those of channel 0: its sums are dropped
    if (!SHARED_WEIGHTS) w = packed_weights(a, tile) + (i64)e0 * KERNEL * CO_PAD + (tile.c0 + p.m < CO_PAD ? p.m : -tile.c0);
    multiply(p, rg, channels, xs, w, sums);
  }
  bool live[CELLS];
#pragma unroll
  for (int i = 0; i < CELLS; i++) live[i] = !ONE_OUTPUT || cell_stored(a, tile, p, i);
  // a branch a channel: with one for all of them the compiler holds more at once than there are registers
#pragma unroll
  for (int m = 0; m < MC; m++)
    if (ONE_OUTPUT || tile.inside) finish_channel<true>(a, tile, rg, p, m, live, sums);
    else finish_channel<false>(a, tile, rg, p, m, live, sums);
}
