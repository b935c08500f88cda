/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of rows from one pitch to another. */
#include "table.h"

void uc_name(copy_rows)(float *dst, int64_t dst_stride, const float *src, int64_t src_stride,
                        int64_t rows, int64_t n) {
  int64_t whole = n / VL * VL, rest = n - whole;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < whole; i += VL) vf_store(dst + i, vf_load(src + i));
    if (rest) vf_store_n(dst + whole, vf_load_n(src + whole, rest), rest);
    dst += dst_stride;
    src += src_stride;
  }
}
