// SPDX-License-Identifier: Apache-2.0
// Inner product on the FP32 units. A thread holds CELLS cells, all residues of each, for MC output channels:
// sums[cell][residue][channel]. An input value loaded serves every residue whose tap reads it, every channel, and its other
// cells if these are neighbours; a weight vector serves every cell. The lanes of a warp take neighbouring cells along W.

typedef float WeightWord;

enum { THREADS_OF_CELLS = LD * LH * LW };
enum { NEXT_X = (NEXT0 * I0 * X_PLANE) + (NEXT1 * I1 * X_ROW) + NEXT2 * I2 }; // from the input of a thread's cell to its next

// What the compiler takes for unknown: it would rather multiply anew for every channel than keep a product.
__device__ __forceinline__ int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The same for a pointer into global memory.
__device__ __forceinline__ char *kept(char *pointer) {
  asm volatile("" : "+l"(pointer));
  __builtin_assume(__isGlobal(pointer));
  return pointer;
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
