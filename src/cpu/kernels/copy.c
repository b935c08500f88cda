/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of rows from here and there into rows, or onto them. Many are short, and AMD's masked stores are slow, with AVX-512
 * too: what is left after whole vectors goes by pieces of 8, 4, 2 and 1.
 */
#include "table.h"

typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));
typedef float v2 __attribute__((vector_size(8)));

UC_INLINE void copy(float *dst, const float *src, int64_t n) {
  for (; n >= VL; n -= VL, src += VL, dst += VL) vf_store(dst, vf_load(src));
  UC_UNROLL
  for (int piece = VL / 2; piece; piece /= 2)
    if (n & piece) {
      memcpy(dst, src, (size_t)piece * sizeof *dst);
      dst += piece;
      src += piece;
    }
}

UC_INLINE void clear(float *dst, int64_t n) {
  for (; n >= VL; n -= VL, dst += VL) vf_store(dst, vf_set(0.0F));
  UC_UNROLL
  for (int piece = VL / 2; piece; piece /= 2)
    if (n & piece) {
      memset(dst, 0, (size_t)piece * sizeof *dst);
      dst += piece;
    }
}

void uc_name(copy_pieces)(const uc_piece *piece, int64_t count, int64_t rows, int64_t dst_stride,
                          int64_t src_stride) {
  for (int64_t r = 0; r < rows; r++)
    for (const uc_piece *p = piece; p < piece + count; p++)
      if (p->src)
        copy(p->dst + r * dst_stride, p->src + r * src_stride, p->n);
      else
        clear(p->dst + r * dst_stride, p->n);
}

/* dst += src for so many floats. */
UC_INLINE void add_8(float *dst, const float *src) {
  v8 a, b;
  memcpy(&a, dst, sizeof a);
  memcpy(&b, src, sizeof b);
  a += b;
  memcpy(dst, &a, sizeof a);
}

UC_INLINE void add_4(float *dst, const float *src) {
  v4 a, b;
  memcpy(&a, dst, sizeof a);
  memcpy(&b, src, sizeof b);
  a += b;
  memcpy(dst, &a, sizeof a);
}

UC_INLINE void add_2(float *dst, const float *src) {
  v2 a, b;
  memcpy(&a, dst, sizeof a);
  memcpy(&b, src, sizeof b);
  a += b;
  memcpy(dst, &a, sizeof a);
}

UC_INLINE void add(float *dst, const float *src, int64_t n) {
  for (; n >= VL; n -= VL, src += VL, dst += VL) vf_store(dst, vf_load(dst) + vf_load(src));
  if (VL > 8 && n & 8) {
    add_8(dst, src);
    dst += 8;
    src += 8;
  }
  if (VL > 4 && n & 4) {
    add_4(dst, src);
    dst += 4;
    src += 4;
  }
  if (n & 2) {
    add_2(dst, src);
    dst += 2;
    src += 2;
  }
  if (n & 1) *dst += *src;
}

void uc_name(add_spans)(float *dst, const float *src, const uc_span *span, int64_t count,
                        int64_t rows, int64_t dst_stride, int64_t src_stride) {
  for (int64_t r = 0; r < rows; r++)
    for (const uc_span *s = span; s < span + count; s++)
      add(dst + r * dst_stride + s->dst, src + r * src_stride + s->src, s->n);
}
