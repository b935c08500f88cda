/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of rows from here and there into rows, or onto them. */
#include "table.h"

UC_INLINE void copy(float *dst, const float *src, int64_t n) {
  for (; n >= VL; n -= VL, src += VL, dst += VL) vf_store(dst, vf_load(src));
  if (n > 0) vf_store_n(dst, vf_load_n(src, n), n);
}

UC_INLINE void clear(float *dst, int64_t n) {
  for (; n >= VL; n -= VL, dst += VL) vf_store(dst, vf_set(0.0F));
  if (n > 0) vf_store_n(dst, vf_set(0.0F), n);
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

UC_INLINE void add(float *dst, const float *src, int64_t n) {
  for (; n >= VL; n -= VL, src += VL, dst += VL) vf_store(dst, vf_load(dst) + vf_load(src));
  if (n > 0) vf_store_n(dst, vf_load_n(dst, n) + vf_load_n(src, n), n);
}

void uc_name(add_spans)(float *dst, const float *src, const uc_span *span, int64_t count,
                        int64_t rows, int64_t dst_stride, int64_t src_stride) {
  for (int64_t r = 0; r < rows; r++)
    for (const uc_span *s = span; s < span + count; s++)
      add(dst + r * dst_stride + s->dst, src + r * src_stride + s->src, s->n);
}
