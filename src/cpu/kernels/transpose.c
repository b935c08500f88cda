/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes between channel rows and channels-last memory. Blocks of VL channels and VL positions
 * are transposed in registers; the last block of an axis starts early, over elements done already,
 * so that it is a full one. Dense memory of few channels is a row that the channels share: it is
 * interleaved, or picked apart, in chunks.
 */
#include "gather.h"
#include "half.h"
#include "table.h"

enum { CHUNK = 64 }; /* positions: a chunk of VL channels stays in the first-level cache */

UC_INLINE int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

UC_INLINE const void *element(const void *data, upconv_dtype dtype, int64_t index) {
  return (const char *)data + index * (dtype == UPCONV_F32 ? 4 : 2);
}

UC_INLINE void store_lanes(void *dst, upconv_dtype dtype, vf v, int64_t count) {
  if (dtype == UPCONV_F32)
    vf_store_n(dst, v, count);
  else
    vh_store_n(dst, dtype == UPCONV_F16 ? vh_f16(v) : vh_bf16(v), count);
}

UC_INLINE vf load_lanes(const void *src, upconv_dtype dtype, int64_t count) {
  if (dtype == UPCONV_F32) return vf_load_n(src, count);
  vh h = vh_load_n(src, count);
  return dtype == UPCONV_F16 ? vf_from_f16(h) : vf_from_bf16(h);
}

/* ---- blocks ---- */

/* From `height` rows of `width` lanes to `width` rows of `height` lanes, both at most VL. */
UC_INLINE void block(void *dst, upconv_dtype dst_type, int64_t dst_stride, const void *src,
                     upconv_dtype src_type, int64_t src_stride, int64_t height, int64_t width) {
  vf v[VL];
  UC_UNROLL
  for (int r = 0; r < VL; r++)
    v[r] =
        r < height ? load_lanes(element(src, src_type, r * src_stride), src_type, width) : (vf){0};
  vf_transpose(v);
  UC_UNROLL
  for (int r = 0; r < VL; r++)
    if (r < width)
      store_lanes((void *)element(dst, dst_type, r * dst_stride), dst_type, v[r], height);
}

/* Where the block at i starts, in an axis of n. */
UC_INLINE int64_t block_start(int64_t i, int64_t n) { return i + VL <= n || n < VL ? i : n - VL; }

/* dst[x * dst_stride + y] = src[y * src_stride + x] for y < height, x < width. */
UC_INLINE void blocks(void *dst, upconv_dtype dst_type, int64_t dst_stride, const void *src,
                      upconv_dtype src_type, int64_t src_stride, int64_t height, int64_t width) {
  for (int64_t i = 0; i < height; i += VL)
    for (int64_t j = 0; j < width; j += VL) {
      int64_t y = block_start(i, height), x = block_start(j, width);
      void *to = (void *)element(dst, dst_type, x * dst_stride + y);
      const void *from = element(src, src_type, y * src_stride + x);
      if (height >= VL && width >= VL)
        block(to, dst_type, dst_stride, from, src_type, src_stride, VL, VL);
      else
        block(to, dst_type, dst_stride, from, src_type, src_stride, at_most(height, VL),
              at_most(width, VL));
    }
}

/* ---- few channels, dense ---- */

static void store_dense(void *dst, upconv_dtype dtype, const float *src, int64_t src_stride,
                        int64_t channels, int64_t n) {
  float chunk[CHUNK * VL];
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t count = at_most(n - i, CHUNK);
    const float *row[VL];
    for (int64_t c = 0; c < channels; c++) row[c] = src + c * src_stride + i;
    void *to = (void *)element(dst, dtype, i * channels);
    if (dtype == UPCONV_F32 && count == CHUNK) { /* whole vectors: nothing is written beyond */
      uc_name(interleave)(to, row, channels, count * channels);
      continue;
    }
    uc_name(interleave)(chunk, row, channels, count * channels);
    uc_name(store_row)(to, dtype, 1, chunk, count * channels);
  }
}

/* Rows of channels from positions side by side; up to 3 floats beyond may be read. */
UC_INLINE void pick_apart(float *dst, int64_t dst_stride, const float *src, int64_t channels,
                          int64_t n) {
  for (int64_t i = 0; i < n; i += VL)
    for (int64_t group = 0; group < channels; group += 4) {
      vf v[4];
      UC_UNROLL
      for (int r = 0; r < 4; r++)
        v[r] = vf_load_parts(src + (i + r) * channels + group, 4 * channels);
      vf_transpose_parts(v);
      UC_UNROLL
      for (int r = 0; r < 4; r++)
        if (group + r < channels) vf_store(dst + (group + r) * dst_stride + i, v[r]);
    }
}

UC_INLINE void pick_apart_2(float *dst, int64_t dst_stride, const float *src, int64_t n) {
  for (int64_t i = 0; i < n; i += VL) {
    vf_store(dst + i, vf_gather_2(src + 2 * i));
    vf_store(dst + dst_stride + i, vf_gather_2(src + 2 * i + 1));
  }
}

static void load_dense(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                       int64_t channels, int64_t n) {
  float chunk[(CHUNK + 1) * VL] = {0};
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t count = at_most(n - i, CHUNK);
    const float *from = element(src, dtype, i * channels);
    if (dtype != UPCONV_F32 || i + CHUNK >= n) {
      uc_name(load_row)(chunk, from, dtype, 1, count * channels);
      from = chunk;
    }
    if (channels == 2)
      pick_apart_2(dst + i, dst_stride, from, count);
    else
      pick_apart(dst + i, dst_stride, from, channels, count);
  }
}

/* ---- the table's entries ---- */

void uc_name(store_transposed)(void *dst, upconv_dtype dtype, int64_t dst_stride, const float *src,
                               int64_t src_stride, int64_t channels, int64_t n) {
  if (channels == 1) {
    uc_name(store_row)(dst, dtype, dst_stride, src, n);
    return;
  }
  if (channels == dst_stride && channels < VL) {
    store_dense(dst, dtype, src, src_stride, channels, n);
    return;
  }
  const upconv_dtype f32 = UPCONV_F32;
  switch (dtype) {
  case UPCONV_F32:
    blocks(dst, UPCONV_F32, dst_stride, src, f32, src_stride, channels, n);
    break;
  case UPCONV_F16:
    blocks(dst, UPCONV_F16, dst_stride, src, f32, src_stride, channels, n);
    break;
  case UPCONV_BF16:
    blocks(dst, UPCONV_BF16, dst_stride, src, f32, src_stride, channels, n);
    break;
  }
}

void uc_name(load_transposed)(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                              int64_t src_stride, int64_t channels, int64_t n) {
  if (channels == 1) {
    uc_name(load_row)(dst, src, dtype, src_stride, n);
    return;
  }
  if (channels == src_stride && channels < VL) {
    load_dense(dst, dst_stride, src, dtype, channels, n);
    return;
  }
  const upconv_dtype f32 = UPCONV_F32;
  switch (dtype) {
  case UPCONV_F32:
    blocks(dst, f32, dst_stride, src, UPCONV_F32, src_stride, n, channels);
    break;
  case UPCONV_F16:
    blocks(dst, f32, dst_stride, src, UPCONV_F16, src_stride, n, channels);
    break;
  case UPCONV_BF16:
    blocks(dst, f32, dst_stride, src, UPCONV_BF16, src_stride, n, channels);
    break;
  }
}
