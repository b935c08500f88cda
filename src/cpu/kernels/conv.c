/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner product of the CPU backend: a dense stride-1 correlation for up to 8 output channels, vectorised along
 * positions. Accumulators stay in registers over all taps and input channels; every input vector loaded serves all
 * output channels, every weight broadcast serves all vectors of the block.
 */
#include "drain.h"

#if defined(UPCONV_ISA_AVX512) || defined(__aarch64__)
enum { REGISTERS = 32, MAX_M = 8, MAX_V = 8 };
#else
enum { REGISTERS = 16, MAX_M = 4, MAX_V = 8 };
#endif

/* Where a block begins. */
typedef struct place {
  const float *x, *weight, *bias;
  const bool *least;
  float *dst;
  int64_t strip, strips,
      lines; /* so many lines are stored after so many channels of a tap, or after all */
} place;

/* An address that is computed here and not before: there are registers for those of the loop over taps alone. */
UC_INLINE float *computed_here(float *p) {
  __asm__("" : "+r"(p));
  return p;
}

/* One channel's sums to where they go. */
UC_INLINE void keep_greatest(float *dst, const vf *sum, const int V, bool least) {
  UC_UNROLL
  for (int v = 0; v < V; v++) {
    vf old = vf_load(dst + v * VL);
    vf_store(dst + v * VL, least ? vf_min(old, sum[v]) : vf_max(old, sum[v]));
  }
}

/* The products of one tap with so many input channels. */
UC_INLINE void multiply(const uc_conv_block *b, vf acc[MAX_M][MAX_V], const float *x,
                        const float *w, int64_t channels, const int M, const int V) {
  for (int64_t e = channels; e > 0; e--) {
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
    x += b->x_stride;
    w += b->mc;
  }
}

/* Lines that are fetched at once: enough for k2 s2, which reads the most for what it multiplies. */
enum { FETCHED = 2 };

/* Stores so many lines, and fetches some for each of so many strips of channels. */
UC_INLINE void go_on(const uc_conv_block *b, int64_t lines, int64_t strips) {
  drain_lines(&b->beside->drain, lines);
  for (int64_t i = 0; i < FETCHED * strips; i++) fetch_line(&b->beside->fetch);
}

/* multiply, with some lines stored and some fetched after each strip of channels. */
UC_INLINE void multiply_and_drain(const uc_conv_block *b, vf acc[MAX_M][MAX_V], const float *x,
                                  const float *w, place at, const int M, const int V) {
  for (int64_t left = b->channels; left > 0; left -= at.strip) {
    multiply(b, acc, x, w, left < at.strip ? left : at.strip, M, V);
    go_on(b, at.lines, 1);
    x += at.strip * b->x_stride;
    w += at.strip * b->mc;
  }
}

/* When lines are stored: between the products of a block, when these are done, or when the sums are stored. A block of one
   channel is done soon, and where sums take all registers they would have to leave them. */
UC_INLINE bool drains_within(const int M) { return M > 1 && REGISTERS >= 32; }
UC_INLINE bool drains_before_end(const int M) { return M == 1; }
UC_INLINE bool drains_after(const int M) { return M > 1 && REGISTERS < 32; }

/* M channels and V vectors of positions; these and whether lines are stored meanwhile are constants at every call. */
UC_INLINE void block(const uc_conv_block *b, place at, const int M, const int V,
                     const bool drains) {
  vf acc[MAX_M][MAX_V];
  const float *from = computed_here(at.dst);
  const bool zero = b->first || b->least;
  UC_UNROLL
  for (int m = 0; m < M; m++) {
    UC_UNROLL
    for (int v = 0; v < V; v++) acc[m][v] = zero ? vf_set(0.0F) : vf_load(from + v * VL);
    from += b->dst_stride;
  }
  for (int64_t t = 0; t < b->taps; t++) {
    const float *x = at.x + b->offset[t];
    const float *w = at.weight + b->weight_row[t] * b->mc;
    if (drains && drains_within(M))
      multiply_and_drain(b, acc, x, w, at, M, V);
    else
      multiply(b, acc, x, w, b->channels, M, V);
  }
  if (drains && drains_before_end(M)) go_on(b, at.lines, 1);
  const int64_t dst_stride = b->dst_stride;
  const bool pools = b->least && !b->first;
  float *to = computed_here(at.dst);
  UC_UNROLL
  for (int m = 0; m < M; m++) {
    vf bias = vf_set(at.bias[m]);
    UC_UNROLL
    for (int v = 0; v < V; v++) acc[m][v] += bias;
    if (pools) {
      keep_greatest(to, acc[m], V, at.least[m]);
    } else {
      UC_UNROLL
      for (int v = 0; v < V; v++) vf_store(to + v * VL, acc[m][v]);
    }
    to = computed_here(to + dst_stride);
  }
  if (drains && drains_after(M)) go_on(b, at.lines, at.strips);
}

/* Vectors per block for M channels: as many as the registers hold, with the inputs and a weight. One channel reads its
   inputs from memory. */
UC_INLINE int max_vectors(const int M) {
  int most = (REGISTERS - 1) / (M + 1);
  return M == 1 || most > MAX_V ? MAX_V : most;
}

/* Stores that a processor takes at once while it multiplies: between them, products of so many channels at least. */
enum { STRIP = 8 };

/* As many lines as the block's sums fill. */
UC_INLINE void share_lines(const uc_conv_block *b, const int M, const int V, place *at) {
  const int sums = M * V * VL;
  at->lines = (sums + LINE - 1) / LINE;
  at->strip = b->channels < STRIP ? b->channels : STRIP;
  at->strips = (b->channels + STRIP - 1) / STRIP;
  if (!drains_within(M)) return;
  at->lines = (sums * at->strip + b->products * LINE - 1) / (b->products * LINE);
}

/* Blocks side by side, of which the wider ones store lines meanwhile; returns where the next one begins. */
UC_INLINE place blocks(const uc_conv_block *b, place at, const int M, const int V, int64_t count) {
  if (V > max_vectors(M)) return at;
  const bool wide = 2 * V > max_vectors(M);
  if (wide && b->beside) share_lines(b, M, V, &at);
  for (; count > 0; count--) {
    if (wide && b->beside)
      block(b, at, M, V, true);
    else
      block(b, at, M, V, false);
    at.x += V * VL;
    at.dst += V * VL;
  }
  return at;
}

UC_INLINE place blocks_v(const uc_conv_block *b, place at, const int M, int64_t v, int64_t count) {
  switch (v) {
  case 8:
    return blocks(b, at, M, 8, count);
  case 7:
    return blocks(b, at, M, 7, count);
  case 6:
    return blocks(b, at, M, 6, count);
  case 5:
    return blocks(b, at, M, 5, count);
  case 4:
    return blocks(b, at, M, 4, count);
  case 3:
    return blocks(b, at, M, 3, count);
  case 2:
    return blocks(b, at, M, 2, count);
  case 1:
    return blocks(b, at, M, 1, count);
  default:
    return at;
  }
}

/* All positions for channels [m0, m0 + M): vectors are dealt evenly, so that no block is left with a short one. */
UC_INLINE void run(const uc_conv_block *b, int m0, const int M) {
  static const float none[MAX_M] = {0};
  place at = {.x = b->x,
              .weight = b->weight + m0,
              .bias = b->bias ? b->bias + m0 : none,
              .least = b->least ? b->least + m0 : NULL,
              .dst = b->dst + m0 * b->dst_stride};
  int64_t vectors = (b->n + VL - 1) / VL;
  int64_t count = (vectors + max_vectors(M) - 1) / max_vectors(M);
  if (count == 0) return;
  int64_t v = vectors / count, wider = vectors % count;
  at = blocks_v(b, at, M, v + 1, wider);
  blocks_v(b, at, M, v, count - wider);
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
