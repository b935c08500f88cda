/* SPDX-License-Identifier: Apache-2.0 */
/* Rows between memory of any data type and stride, and padded rows of floats. */
#include "gather.h"
#include "half.h"
#include "table.h"

UC_INLINE vh gather_half(const uint16_t *p, int64_t stride, int64_t n) {
  uint16_t lane[VL] = {0};
  for (int64_t i = 0; i < n; i++) lane[i] = p[i * stride];
  return vh_load(lane);
}

static void load_floats(float *dst, const float *src, int64_t stride, int64_t n) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + VL <= n; i += VL) vf_store(dst + i, vf_load(src + i));
    if (i < n) vf_store(dst + i, vf_load_n(src + i, n - i));
    return;
  }
  if (stride == 2)
    for (; i + VL <= n; i += VL) vf_store(dst + i, vf_gather_2(src + 2 * i));
  for (; i < n; i++) dst[i] = src[i * stride];
}

UC_INLINE void load_halves(float *dst, const uint16_t *src, int64_t stride, int64_t n,
                           vf (*convert)(vh)) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + VL <= n; i += VL) vf_store(dst + i, convert(vh_load(src + i)));
    if (i < n) vf_store(dst + i, convert(vh_load_n(src + i, n - i)));
    return;
  }
  for (; i + VL <= n; i += VL)
    vf_store(dst + i, convert(gather_half(src + i * stride, stride, VL)));
  if (i < n) vf_store(dst + i, convert(gather_half(src + i * stride, stride, n - i)));
}

void uc_name(load_row)(float *dst, const void *src, upconv_dtype dtype, int64_t stride, int64_t n) {
  switch (dtype) {
  case UPCONV_F32:
    load_floats(dst, src, stride, n);
    break;
  case UPCONV_F16:
    load_halves(dst, src, stride, n, vf_from_f16);
    break;
  case UPCONV_BF16:
    load_halves(dst, src, stride, n, vf_from_bf16);
    break;
  }
}

static void store_floats(float *dst, int64_t stride, const float *src, int64_t n) {
  if (stride == 1)
    memcpy(dst, src, (size_t)n * sizeof *dst);
  else
    for (int64_t i = 0; i < n; i++) dst[i * stride] = src[i];
}

UC_INLINE void scatter(uint16_t *dst, int64_t stride, vh v, int64_t n) {
  uint16_t lane[VL];
  vh_store(lane, v);
  for (int64_t i = 0; i < n; i++) dst[i * stride] = lane[i];
}

UC_INLINE void store_halves(uint16_t *dst, int64_t stride, const float *src, int64_t n,
                            vh (*convert)(vf)) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + VL <= n; i += VL) vh_store(dst + i, convert(vf_load(src + i)));
    if (i < n) vh_store_n(dst + i, convert(vf_load_n(src + i, n - i)), n - i);
    return;
  }
  for (; i + VL <= n; i += VL) scatter(dst + i * stride, stride, convert(vf_load(src + i)), VL);
  if (i < n) scatter(dst + i * stride, stride, convert(vf_load_n(src + i, n - i)), n - i);
}

void uc_name(store_row)(void *dst, upconv_dtype dtype, int64_t stride, const float *src,
                        int64_t n) {
  switch (dtype) {
  case UPCONV_F32:
    store_floats(dst, stride, src, n);
    break;
  case UPCONV_F16:
    store_halves(dst, stride, src, n, vh_f16);
    break;
  case UPCONV_BF16:
    store_halves(dst, stride, src, n, vh_bf16);
    break;
  }
}

/* ---- past the caches ---- */

void uc_name(stream_row)(float *dst, const float *src, int64_t n) {
  int64_t head = to_line(dst), i = head < n ? head : n;
  if ((uintptr_t)dst % sizeof *dst != 0) i = n; /* no line begins at an element */
  store_floats(dst, 1, src, i);
  for (; i + LINE <= n; i += LINE) stream_line(dst + i, src + i);
  store_floats(dst + i, 1, src + i, n - i);
}

void uc_name(stream_end)(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
