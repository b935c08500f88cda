// SPDX-License-Identifier: Apache-2.0
// A tile of a depthwise convolution: staged once, then every thread makes and finishes cell after cell.

__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  float *xs = smem, *ws = smem + X_FLOATS;
  __syncthreads();
  stage_weights(a, tile, ws);
  stage_input(a, tile, xs);
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < ITEMS; item += THREADS) {
    const Place p = place_of(item);
    const int c = tile.c0 + p.m < CO ? tile.c0 + p.m : CO - 1;
    const int at = (p.jd * I0 * XH + p.jh * I1) * XW + p.jw * I2;
    float cell[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = 0.0f;
    multiply(staged(xs, input_channel(tile, c), at), ws + (CHANNELS_FAST ? p.m : p.m * WEIGHT_ROW), cell);
#if HAS_BIAS
    const float bias = __ldg(a.packed + BIAS_AT + c); // last: it may be far larger than the products
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] += bias;
#endif
    if (tile.inside) finish<true>(a, tile, rg, tile.c0 + p.m < CO, c, p.jd, p.jh, p.jw, cell);
    else finish<false>(a, tile, rg, tile.c0 + p.m < CO, c, p.jd, p.jh, p.jw, cell);
  }
}
