/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner product of the CPU backend: a dense stride-1 correlation for up to 8 output channels, vectorised along
 * positions. Accumulators stay in registers over all taps and input channels; every input vector loaded serves all
 * output channels, every weight broadcast serves all vectors of the block.
 */
#include "../isa.h"
#include "simd.h"

#if defined(UPCONV_ISA_AVX512) || defined(__aarch64__)
enum { REGISTERS = 32, MAX_M = 8, MAX_V = 8 };
#else
enum { REGISTERS = 16, MAX_M = 4, MAX_V = 8 };
#endif

/* Channels [m0, m0 + M) and vectors of positions [at, at + V * VL); M and V are constants at every call. */
UC_INLINE void block(const uc_conv_block *b, int64_t at, int m0, const int M, const int V) {
  const int64_t stride = b->x_stride, channels = b->channels, mc = b->mc;
  vf acc[MAX_M][MAX_V];
  UC_UNROLL
  for (int m = 0; m < M; m++) {
    UC_UNROLL
    for (int v = 0; v < V; v++)
      acc[m][v] =
          b->first ? vf_set(0.0F) : vf_load(b->dst + (m0 + m) * b->dst_stride + at + v * VL);
  }
  for (int64_t t = 0; t < b->taps; t++) {
    const float *x = b->x + b->offset[t] + at;
    const float *w = b->weight + b->weight_row[t] * mc + m0;
    for (int64_t e = 0; e < channels; e++) {
      vf xv[MAX_V];
      UC_UNROLL
      for (int v = 0; v < V; v++) {
        xv[v] = vf_load(x + v * VL);
        if (M > 1) vf_keep(&xv[v]);
      }
      UC_UNROLL
      for (int m = 0; m < M; m++) {
        vf wm = vf_set(w[m]);
        UC_UNROLL
        for (int v = 0; v < V; v++) acc[m][v] += wm * xv[v];
      }
      x += stride;
      w += mc;
    }
  }
  UC_UNROLL
  for (int m = 0; m < M; m++) {
    vf bias = vf_set(b->bias ? b->bias[m0 + m] : 0.0F);
    UC_UNROLL
    for (int v = 0; v < V; v++)
      vf_store(b->dst + (m0 + m) * b->dst_stride + at + v * VL, acc[m][v] + bias);
  }
}

/* Vectors per block for M channels: as many as the registers hold, with the inputs and a weight. One channel reads its
   inputs from memory. */
UC_INLINE int max_vectors(const int M) {
  int most = (REGISTERS - 1) / (M + 1);
  return M == 1 || most > MAX_V ? MAX_V : most;
}

UC_INLINE void block_v(const uc_conv_block *b, int64_t at, int m0, const int M, int v) {
  switch (v) {
  case 8:
    if (max_vectors(M) >= 8) block(b, at, m0, M, 8);
    break;
  case 7:
    if (max_vectors(M) >= 7) block(b, at, m0, M, 7);
    break;
  case 6:
    if (max_vectors(M) >= 6) block(b, at, m0, M, 6);
    break;
  case 5:
    if (max_vectors(M) >= 5) block(b, at, m0, M, 5);
    break;
  case 4:
    if (max_vectors(M) >= 4) block(b, at, m0, M, 4);
    break;
  case 3:
    block(b, at, m0, M, 3);
    break;
  case 2:
    block(b, at, m0, M, 2);
    break;
  default:
    block(b, at, m0, M, 1);
    break;
  }
}

/* All positions for M channels: vectors are dealt evenly, so that no block is left with a short one. */
UC_INLINE void run(const uc_conv_block *b, int m0, const int M) {
  int64_t left = (b->n + VL - 1) / VL, at = 0;
  while (left > 0) {
    int64_t blocks = (left + max_vectors(M) - 1) / max_vectors(M);
    int v = (int)((left + blocks - 1) / blocks);
    block_v(b, at, m0, M, v);
    at += (int64_t)v * VL;
    left -= v;
  }
}

void uc_name(conv)(const uc_conv_block *b);

void uc_name(conv)(const uc_conv_block *b) {
  int passes = (b->mc + MAX_M - 1) / MAX_M;
  for (int m0 = 0; m0 < b->mc;) {
    int m = (b->mc - m0 + passes - 1) / passes;
    switch (m) {
#if defined(UPCONV_ISA_AVX512) || defined(__aarch64__)
    case 8:
      run(b, m0, 8);
      break;
    case 7:
      run(b, m0, 7);
      break;
    case 6:
      run(b, m0, 6);
      break;
    case 5:
      run(b, m0, 5);
      break;
#endif
    case 4:
      run(b, m0, 4);
      break;
    case 3:
      run(b, m0, 3);
      break;
    case 2:
      run(b, m0, 2);
      break;
    default:
      run(b, m0, 1);
      break;
    }
    m0 += m;
    passes--;
  }
}
