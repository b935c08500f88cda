// SPDX-License-Identifier: Apache-2.0
// A tile of many channels: stages of (chunk, tap) in turn, then every cell is finished.

// What is copied next.
struct Feed {
  int chunk, tap, stage;
};

__device__ __forceinline__ void feed(const Args &a, const Tile &tile, int rg, const char *rows, const int *located, u32 xs, u32 ws,
                                     Feed &next) {
  const int first = tap_begin[rg * RT], end = tap_begin[(rg + 1) * RT];
  if (next.chunk < CHUNKS) {
    if (next.tap == first) stage_rows(a, rows, next.chunk, located, xs + next.chunk % X_BUFFERS * X_BYTES);
    stage_weights(a, tile, next.chunk, tap_kernel[next.tap], ws + next.stage * W_BYTES);
    next.stage = next.stage + 1 == STAGES ? 0 : next.stage + 1;
    if (++next.tap == end) next.tap = first, next.chunk++;
  }
  commit_copies(); // also an empty one: what is waited for is counted
}

// Sums go through shared memory, 8 channels of every warp at a time: so neighbouring lanes finish neighbours in memory, and
// the code that finishes exists once. A channel's cells are PITCH words apart from the next one's: lanes of a store, 8
// cells of 4 pairs of channels, meet few banks twice.
enum {
  ROWS = WARPS_M * MT * 16 * TEAM,
  WARPS_N = THREADS / 32 / TEAM / WARPS_M,
  ROUND_CHANNELS = WARPS_N * 8,
  PITCH = ROWS * RT + 4
};

__device__ __forceinline__ void put_sums(float *out, const Sums &sums, int j) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int c = warp / TEAM / WARPS_M * 8 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int r = 0; r < RT; r++) out[(c + k % 2) * PITCH + (fragment_cell(warp, i) + lane / 4 + k / 2 * 8) * RT + r] = sums[r][i][j][k];
}

// All residues of one cell and channel, which is row `row` of the round.
__device__ __forceinline__ void finish_cell(const Args &a, const Tile &tile, int rg, const float *out, int cell, int row, int c) {
  if (cell >= VOLUME * SAMPLES || c >= CO) return;
  Tile at = tile;
  const int sample = cell / VOLUME, in_sample = cell % VOLUME;
  if (SAMPLES > 1) {
    if (tile.n + sample >= a.n0 + a.batch) return;
    at.n += sample;
    at.y += sample * a.y.stride[0] * size_of(Y_TYPE);
  }
  const int channel = tile.group * CO + c, jd = in_sample / (TW * TH), jh = in_sample / TW % TH, jw = in_sample % TW;
  const float bias = __ldg(a.packed + BIAS_AT + channel), factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + channel) : 1.0f;
  float strip[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) strip[r] = with_bias(out[row * PITCH + cell * RT + r], factor, bias);
  if (tile.inside) finish<true>(a, at, rg, true, channel, jd, jh, jw, strip);
  else finish<false>(a, at, rg, true, channel, jd, jh, jw, strip);
}

__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, float *out, const Sums &sums) {
#pragma unroll 1
  for (int round = 0; round < NT; round++) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < NT; j++)
      if (j == round) put_sums(out, sums, j);
    __syncthreads();
#pragma unroll 1
    for (int item = threadIdx.x; item < ROWS * ROUND_CHANNELS; item += THREADS) {
      const int cell = Y_LAST ? item / ROUND_CHANNELS : item % ROWS, row = Y_LAST ? item % ROUND_CHANNELS : item / ROWS;
      finish_cell(a, tile, rg, out, cell, row, tile.c0 + row / 8 * 8 * NT + round * 8 + row % 8);
    }
  }
}

__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  (void)resident;
  const u32 xs = (u32)__cvta_generic_to_shared(smem), ws = xs + X_BUFFERS * X_BYTES;
  int *located = (int *)smem + LOCATED_AT;
  const Place p = place_of(threadIdx.x);
  Sums sums;
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[r][i][j][k] = 0.0f;
  if (tap_begin[rg * RT] < tap_begin[(rg + 1) * RT]) {
    __syncthreads(); // the last tile's stages have been read
    locate_rows(a, tile, rg, located);
    const char *rows = rows_of(a, tile, rg);
    __syncthreads();
    Feed next = {0, tap_begin[rg * RT], 0};
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) feed(a, tile, rg, rows, located, xs, ws, next);
    int stage = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
      const u32 x = xs + chunk % X_BUFFERS * X_BYTES;
#pragma unroll
      for (int r = 0; r < RT; r++) {
        const int end = tap_begin[rg * RT + r + 1];
#pragma unroll 1
        for (int tap = tap_begin[rg * RT + r]; tap < end; tap++) {
          wait_copies<STAGES - 2>();
          show_copies();
          finish_products();
          __syncthreads(); // this stage is there for all; the one before has been read by all
          multiply(p, tap, x, ws + stage * W_BYTES, sums[r]);
          feed(a, tile, rg, rows, located, xs, ws, next);
          stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
      }
    }
    wait_copies<0>();
    finish_products();
  }
  finish_sums(a, tile, rg, smem, sums);
}
