// SPDX-License-Identifier: Apache-2.0
// Inner product on the FP32 units. A thread holds CELLS cells, all residues of each, for MC output channels:
// sums[cell][residue][channel]. An input value loaded serves every residue whose tap reads it, every channel, and its other
// cells if these are neighbours; a weight vector serves every cell. The lanes of a warp take neighbouring cells along W.

typedef float WeightWord;

// X_CHANNEL: positions of the input tile; X_WORDS: words of a channel in shared memory, where rows and planes lie further
// apart so that lanes in different rows load from different banks.
enum { THREADS_OF_CELLS = LD * LH * LW, X_CHANNEL = XD * XH * XW, X_WORDS = XD * X_PLANE };
enum { NEXT_X = (NEXT0 * I0 * X_PLANE) + (NEXT1 * I1 * X_ROW) + NEXT2 * I2 }; // from the input of a thread's cell to its next

// The input tile: channel after channel.
__device__ __forceinline__ int slot_of(int first, int e, int position) {
  const u32 at = position;
  return (first + e) * X_WORDS + at + at / XW * (X_ROW - XW) + at / (XW * XH) * (X_PLANE - XH * X_ROW);
}

// Channel e of the position at origin + offset; 0 outside the input.
__device__ __forceinline__ float word_at(const Args &a, bool in, const char *origin, int offset, int e) {
  return load_if<X_TYPE>(in && e < CI, origin, offset + e * a.x.stride[1]);
}

struct Place {
  int x;               // offset of the thread's first cell in the input tile
  int m;               // first channel within the block
  int jd, jh, jw;      // first cell, local; cell i is i NEXT0, i NEXT1 and i NEXT2 further
};

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  const int at = thread % THREADS_OF_CELLS;
  p.m = thread / THREADS_OF_CELLS * MC;
  p.jw = at % LW;
  p.jh = at / LW % LH * (TH / LH);
  p.jd = at / (LW * LH) * (TD / LD);
  p.x = p.jd * I0 * X_PLANE + p.jh * I1 * X_ROW + p.jw * I2;
  return p;
}

// packed: [group][CI][KERNEL][CO_PAD]
__device__ __forceinline__ const float *packed_weights(const Args &a, const Tile &tile) {
  return a.packed + WEIGHTS_AT + (i64)tile.group * CI * KERNEL * CO_PAD + tile.c0;
}

__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int e0, float *ws) {
  const float *packed = packed_weights(a, tile) + (i64)e0 * KERNEL * CO_PAD;
  for (int i = threadIdx.x; i < EC * KERNEL * BM; i += THREADS) {
    const int m = i % BM, row = i / BM;
    ws[i] = e0 + row / KERNEL < CI && tile.c0 + m < CO_PAD ? packed[(i64)row * CO_PAD + m] : 0.0f;
  }
}

// A thread's weights of one tap. In shared memory they are aligned to their size.
__device__ __forceinline__ void read_weights(const float *ws, float (&w)[MC]) {
#if SHARED_WEIGHTS && MC % 4 == 0
#pragma unroll
  for (int m = 0; m < MC; m += 4) {
    const float4 v = *(const float4 *)(ws + m);
    w[m] = v.x, w[m + 1] = v.y, w[m + 2] = v.z, w[m + 3] = v.w;
  }
#elif SHARED_WEIGHTS && MC == 2
  const float2 v = *(const float2 *)ws;
  w[0] = v.x, w[1] = v.y;
#else
#pragma unroll
  for (int m = 0; m < MC; m++) w[m] = ws[m];
#endif
}

#if SHARED_WEIGHTS
enum { WEIGHT_ROW = BM };
#else
enum { WEIGHT_ROW = CO_PAD };
#endif

// The taps of residue group rg; its residues are RT neighbours from rg * RT on.
__device__ __forceinline__ void multiply(const Place &p, int rg, int channels, const float *xs, const float *ws,
                                         float (&sums)[CELLS][RT][MC]) {
  xs += p.x;
#pragma unroll 1
  for (int e = 0; e < channels; e++) {
#if STATIC_TAPS
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      float w[MC];
      read_weights(ws + tap_kernel[t] * WEIGHT_ROW, w);
#pragma unroll
      for (int i = 0; i < CELLS; i++) {
        const float x = xs[tap_offset[t] + i * NEXT_X];
#pragma unroll
        for (int m = 0; m < MC; m++) sums[i][tap_residue[t]][m] = fmaf(w[m], x, sums[i][tap_residue[t]][m]);
      }
    }
#else
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll 1
      for (int t = tap_begin[rg * RT + r]; t < tap_begin[rg * RT + r + 1]; t++) {
        const float *x = xs + tap_offset[t];
        float w[MC];
        read_weights(ws + tap_kernel[t] * WEIGHT_ROW, w);
#pragma unroll
        for (int i = 0; i < CELLS; i++)
#pragma unroll
          for (int m = 0; m < MC; m++) sums[i][r][m] = fmaf(w[m], x[i * NEXT_X], sums[i][r][m]);
      }
#endif
    xs += X_WORDS;
    ws += KERNEL * WEIGHT_ROW;
  }
}
