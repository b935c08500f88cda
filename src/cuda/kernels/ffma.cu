// SPDX-License-Identifier: Apache-2.0
// Inner product on the FP32 units. A thread holds CELLS cells along W, all residues of each, for MC output channels:
// sums[cell][residue][channel]. An input value loaded serves every residue whose tap reads it and every channel; a
// weight vector serves every cell.

enum { GROUPS_OF_CELLS = TD * TH * TW / CELLS, X_CHANNEL = XD * XH * XW };

struct Place {
  int x;               // offset of the thread's first cell in the input tile
  int m;               // first channel within the block
  int jd, jh, jw;      // first cell, local; cell i is TW / CELLS * i further along W
};

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  int cell = thread % GROUPS_OF_CELLS;
  p.m = thread / GROUPS_OF_CELLS * MC;
  p.jw = cell % (TW / CELLS);
  p.jh = cell / (TW / CELLS) % TH;
  p.jd = cell / (TW / CELLS) / TH;
  p.x = (p.jd * I0 * XH + p.jh * I1) * XW + p.jw * I2;
  return p;
}

__device__ __forceinline__ void stage(const Args &a, const Tile &tile, int e0, float *xs, float *ws) {
  for (int i = threadIdx.x; i < EC * X_CHANNEL; i += THREADS) {
    int e, d, h, w;
    stage_index(i, EC, e, d, h, w);
    xs[e * X_CHANNEL + (d * XH + h) * XW + w] =
        input_at(a, tile, e0 + e, tile.qd * I0 + X_BASE0 + d, tile.qh * I1 + X_BASE1 + h, tile.qw * I2 + X_BASE2 + w);
  }
  // packed: [group][CI][KERNEL][CO_PAD]
  const float *packed = a.packed + WEIGHTS_AT + (i64)tile.group * CI * KERNEL * CO_PAD + tile.c0;
  for (int i = threadIdx.x; i < EC * KERNEL * BM; i += THREADS) {
    int m = i % BM, row = i / BM;
    ws[i] = e0 + row / KERNEL < CI ? packed[(i64)(e0 * KERNEL + row) * CO_PAD + m] : 0.0f;
  }
}

// The taps of residue group rg; its residues are RT neighbours from rg * RT on.
__device__ __forceinline__ void multiply(const Place &p, int rg, const float *xs, const float *ws,
                                         float (&sums)[CELLS][RT][MC]) {
  xs += p.x;
  ws += p.m;
#pragma unroll 1
  for (int e = 0; e < EC; e++) {
#if STATIC_TAPS
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      float w[MC];
#pragma unroll
      for (int m = 0; m < MC; m++) w[m] = ws[tap_kernel[t] * BM + m];
#pragma unroll
      for (int i = 0; i < CELLS; i++) {
        float x = xs[tap_offset[t] + i * (TW / CELLS) * I2];
#pragma unroll
        for (int m = 0; m < MC; m++) sums[i][tap_residue[t]][m] = fmaf(w[m], x, sums[i][tap_residue[t]][m]);
      }
    }
#else
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll 1
      for (int t = tap_begin[rg * RT + r]; t < tap_begin[rg * RT + r + 1]; t++) {
        const float *x = xs + tap_offset[t], *w = ws + tap_kernel[t] * BM;
#pragma unroll
        for (int i = 0; i < CELLS; i++)
#pragma unroll
          for (int m = 0; m < MC; m++) sums[i][r][m] = fmaf(w[m], x[i * (TW / CELLS) * I2], sums[i][r][m]);
      }
#endif
    xs += X_CHANNEL;
    ws += KERNEL * BM;
  }
}

__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, float *smem) {
  float *xs = smem, *ws = smem + X_FLOATS;
  Place p = place_of(threadIdx.x);
  float sums[CELLS][RT][MC];
#pragma unroll
  for (int m = 0; m < MC; m++) {
    int c = tile.c0 + p.m + m;
    float bias = c < CO ? a.packed[BIAS_AT + tile.group * CO + c] : 0.0f;
#pragma unroll
    for (int i = 0; i < CELLS; i++)
#pragma unroll
      for (int r = 0; r < RT; r++) sums[i][r][m] = bias;
  }
#pragma unroll 1
  for (int e0 = 0; e0 < CI; e0 += EC) {
    __syncthreads();
    stage(a, tile, e0, xs, ws);
    __syncthreads();
    multiply(p, rg, xs, ws, sums);
  }
#pragma unroll
  for (int m = 0; m < MC; m++)
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
      float cell[RT];
#pragma unroll
      for (int r = 0; r < RT; r++) cell[r] = sums[i][r][m];
      if (tile.c0 + p.m + m < CO)
        finish(a, tile, rg, tile.group * CO + tile.c0 + p.m + m, p.jd, p.jh, p.jw + i * (TW / CELLS), cell);
    }
}
