/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interleaving of rows (phases into a row of the output, channels into channels-last memory) and transposes between
 * channel rows and channels-last memory.
 */
#include "gather.h"
#include "half.h"
#include "table.h"

/* ---- interleave: full vectors from every row, then what is left, lane by lane ---- */

UC_INLINE void interleave_left(float *dst, const float *const *src, int64_t rows, int64_t total,
                               int64_t j) {
  for (int64_t at = j * rows; at < total; j++)
    for (int64_t r = 0; r < rows && at < total; r++, at++) dst[at] = src[r][j];
}

static void interleave_2(float *dst, const float *const *src, int64_t total) {
  int64_t j = 0;
  for (; (j + VL) * 2 <= total; j += VL) {
    vf a = vf_load(src[0] + j), b = vf_load(src[1] + j);
    vf_store(dst + 2 * j, vf_zip_first(a, b));
    vf_store(dst + 2 * j + VL, vf_zip_second(a, b));
  }
  interleave_left(dst, src, 2, total, j);
}

/* zip of zips: a0 c0 a1 c1 ... with b0 d0 b1 d1 ... */
UC_INLINE void zip_4(float *dst, const vf v[4]) {
  vf ac[2] = {vf_zip_first(v[0], v[2]), vf_zip_second(v[0], v[2])};
  vf bd[2] = {vf_zip_first(v[1], v[3]), vf_zip_second(v[1], v[3])};
  for (int i = 0; i < 2; i++) {
    vf_store(dst + 2 * i * VL, vf_zip_first(ac[i], bd[i]));
    vf_store(dst + (2 * i + 1) * VL, vf_zip_second(ac[i], bd[i]));
  }
}

static void interleave_4(float *dst, const float *const *src, int64_t total) {
  int64_t j = 0;
  for (; (j + VL) * 4 <= total; j += VL) {
    vf v[4];
    for (int r = 0; r < 4; r++) v[r] = vf_load(src[r] + j);
    zip_4(dst + 4 * j, v);
  }
  interleave_left(dst, src, 4, total, j);
}

void uc_name(interleave)(float *dst, const float *const *src, int64_t rows, int64_t total) {
  switch (rows) {
  case 2:
    interleave_2(dst, src, total);
    break;
  case 4:
    interleave_4(dst, src, total);
    break;
  default:
    interleave_left(dst, src, rows, total, 0);
    break;
  }
}

/* ---- transposes, in blocks of VL channels and VL positions ---- */

UC_INLINE int64_t at_most_vl(int64_t n) { return n < VL ? n : VL; }

UC_INLINE void store_lanes(void *dst, int64_t at, upconv_dtype dtype, vf v, int64_t count) {
  if (dtype == UPCONV_F32) {
    if (count == VL)
      vf_store((float *)dst + at, v);
    else
      vf_store_n((float *)dst + at, v, count);
    return;
  }
  vh h = dtype == UPCONV_F16 ? vh_f16(v) : vh_bf16(v);
  if (count == VL)
    vh_store((uint16_t *)dst + at, h);
  else
    vh_store_n((uint16_t *)dst + at, h, count);
}

UC_INLINE vf load_lanes(const void *src, int64_t at, upconv_dtype dtype, int64_t count) {
  if (dtype == UPCONV_F32) {
    const float *p = (const float *)src + at;
    return count == VL ? vf_load(p) : vf_load_n(p, count);
  }
  const uint16_t *p = (const uint16_t *)src + at;
  vh h = count == VL ? vh_load(p) : vh_load_n(p, count);
  return dtype == UPCONV_F16 ? vf_from_f16(h) : vf_from_bf16(h);
}

UC_INLINE void store_typed(void *dst, upconv_dtype dtype, int64_t dst_stride, const float *src,
                           int64_t src_stride, int64_t channels, int64_t n) {
  for (int64_t c = 0; c < channels; c += VL) {
    int64_t width = at_most_vl(channels - c);
    for (int64_t i = 0; i < n; i += VL) {
      int64_t height = at_most_vl(n - i);
      vf v[VL];
      for (int r = 0; r < VL; r++)
        v[r] = r < width ? load_lanes(src, (c + r) * src_stride + i, UPCONV_F32, height) : (vf){0};
      vf_transpose(v);
      for (int r = 0; r < VL; r++)
        if (r < height) store_lanes(dst, (i + r) * dst_stride + c, dtype, v[r], width);
    }
  }
}

UC_INLINE void load_typed(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                          int64_t src_stride, int64_t channels, int64_t n) {
  for (int64_t c = 0; c < channels; c += VL) {
    int64_t width = at_most_vl(channels - c);
    for (int64_t i = 0; i < n; i += VL) {
      int64_t height = at_most_vl(n - i);
      vf v[VL];
      for (int r = 0; r < VL; r++)
        v[r] = r < height ? load_lanes(src, (i + r) * src_stride + c, dtype, width) : (vf){0};
      vf_transpose(v);
      for (int r = 0; r < VL; r++)
        if (r < width) vf_store(dst + (c + r) * dst_stride + i, v[r]);
    }
  }
}

void uc_name(store_transposed)(void *dst, upconv_dtype dtype, int64_t dst_stride, const float *src,
                               int64_t src_stride, int64_t channels, int64_t n) {
  switch (dtype) {
  case UPCONV_F32:
    store_typed(dst, UPCONV_F32, dst_stride, src, src_stride, channels, n);
    break;
  case UPCONV_F16:
    store_typed(dst, UPCONV_F16, dst_stride, src, src_stride, channels, n);
    break;
  case UPCONV_BF16:
    store_typed(dst, UPCONV_BF16, dst_stride, src, src_stride, channels, n);
    break;
  }
}

void uc_name(load_transposed)(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                              int64_t src_stride, int64_t channels, int64_t n) {
  switch (dtype) {
  case UPCONV_F32:
    load_typed(dst, dst_stride, src, UPCONV_F32, src_stride, channels, n);
    break;
  case UPCONV_F16:
    load_typed(dst, dst_stride, src, UPCONV_F16, src_stride, channels, n);
    break;
  case UPCONV_BF16:
    load_typed(dst, dst_stride, src, UPCONV_BF16, src_stride, channels, n);
    break;
  }
}
