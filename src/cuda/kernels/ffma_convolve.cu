// SPDX-License-Identifier: Apache-2.0
// A tile on the FP32 units: chunks of channels, then every cell is finished.

// Channel m of a thread's cells.
template <bool INSIDE>
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, const Place &p, int m,
                                               const float (&sums)[CELLS][RT][MC]) {
  const int c = tile.c0 + p.m + m, channel = tile.group * CO + (c < CO ? c : CO - 1);
  const float bias = __ldg(a.packed + BIAS_AT + channel); // last: it may be far larger than the products
#pragma unroll
  for (int i = 0; i < CELLS; i++) {
    float cell[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = sums[i][r][m] + bias;
    finish<INSIDE>(a, tile, rg, c < CO, channel, p.jd, p.jh, p.jw + i * (TW / CELLS), cell);
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
  // a branch a channel: with one for all of them the compiler holds more at once than there are registers
#pragma unroll
  for (int m = 0; m < MC; m++)
    if (tile.inside) finish_channel<true>(a, tile, rg, p, m, sums);
    else finish_channel<false>(a, tile, rg, p, m, sums);
}
