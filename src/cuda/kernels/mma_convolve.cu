// SPDX-License-Identifier: Apache-2.0
// A tile on the tensor cores: chunks of channels, then every cell is finished.

// resident: the weights are in shared memory already.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  u32 *xs = (u32 *)smem, *ws = xs + X_FLOATS;
  Place p = place_of(threadIdx.x);
  int lane = threadIdx.x % 32;
  float sums[RT][MT][NT][4];
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[r][i][j][k] = 0.0f;
#pragma unroll 1
  for (int e0 = 0; e0 < CI_STEPS * 8; e0 += EC) {
    __syncthreads();
    stage_input(a, tile, e0, xs);
    if (!resident) stage_weights(a, tile, e0, ws);
    __syncthreads();
    multiply(p, xs, ws, sums);
  }
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const int c = tile.c0 + p.m + 8 * j + lane % 4 * 2 + k % 2;
        const int at = p.cell + 16 * i + lane / 4 + k / 2 * 8;
        const int channel = tile.group * CO + (c < CO ? c : CO - 1);
        const float bias = __ldg(a.packed + BIAS_AT + channel);
        float cell[RT];
#pragma unroll
        for (int r = 0; r < RT; r++) cell[r] = sums[r][i][j][k] + bias;
        finish(a, tile, rg, c < CO, channel, at / TW / TH, at / TW % TH, at % TW, cell);
      }
}
