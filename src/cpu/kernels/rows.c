/* SPDX-License-Identifier: Apache-2.0 */
/* Rows into rows (pooling windows), and one row into one number (reductions over space). */
#include "gather.h"
#include "table.h"

/* One vector of n lanes of all taps. */
UC_INLINE void accumulate_vector(float *dst, const float *src, const int64_t *tap, int64_t taps,
                                 bool first, vf (*op)(vf a, vf b),
                                 vf (*load)(const float *p, int64_t stride, int64_t n),
                                 int64_t stride, int64_t n) {
  vf sum = load(src + tap[0], stride, n);
  if (!first) sum = op(vf_load(dst), sum);
  for (int64_t t = 1; t < taps; t++) sum = op(sum, load(src + tap[t], stride, n));
  vf_store(dst, sum);
}

UC_INLINE vf load_dense(const float *p, int64_t stride, int64_t n) {
  (void)stride;
  (void)n;
  return vf_load(p);
}

UC_INLINE vf load_pairs(const float *p, int64_t stride, int64_t n) {
  (void)stride;
  (void)n;
  return vf_gather_2(p);
}

UC_INLINE void accumulate(float *dst, const float *src, const int64_t *tap, int64_t taps,
                          int64_t stride, int64_t n, bool first, vf (*op)(vf a, vf b)) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i < n; i += VL)
      accumulate_vector(dst + i, src + i, tap, taps, first, op, load_dense, 1, VL);
    return;
  }
  if (stride == 2)
    for (; i + VL <= n; i += VL)
      accumulate_vector(dst + i, src + 2 * i, tap, taps, first, op, load_pairs, 2, VL);
  for (; i < n; i += VL)
    accumulate_vector(dst + i, src + i * stride, tap, taps, first, op, vf_gather_n, stride,
                      n - i < VL ? n - i : VL);
}

UC_INLINE vf add(vf a, vf b) { return a + b; }

void uc_name(accumulate_max)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first) {
  accumulate(dst, src, tap, taps, stride, n, first, vf_max);
}

void uc_name(accumulate_min)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first) {
  accumulate(dst, src, tap, taps, stride, n, first, vf_min);
}

void uc_name(accumulate_add)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first) {
  accumulate(dst, src, tap, taps, stride, n, first, add);
}

/* Lanes of a sum: as many for every instruction set, so that all add in the same order. */
enum { LANES = 16, HALF = VL / 2, PARTS = LANES / HALF };

typedef float vf_half __attribute__((vector_size(2 * VL)));
typedef double vd __attribute__((vector_size(4 * VL)));

UC_INLINE void add_lanes(vd sum[PARTS], const float *src) {
  UC_UNROLL
  for (int i = 0; i < PARTS; i++) {
    vf_half x;
    memcpy(&x, src + i * HALF, sizeof x);
    sum[i] += __builtin_convertvector(x, vd);
  }
}

double uc_name(row_sum)(const float *src, int64_t n) {
  vd sum[PARTS] = {{0}};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) add_lanes(sum, src + i);
  float tail[LANES] = {0};
  for (int64_t j = i; j < n; j++) tail[j - i] = src[j];
  add_lanes(sum, tail);
  double lane[LANES];
  memcpy(lane, sum, sizeof lane);
  for (int step = LANES / 2; step; step /= 2)
    for (int j = 0; j < step; j++) lane[j] += lane[j + step];
  return lane[0];
}

/* identity: what leaves every number alone. */
UC_INLINE float reduce(const float *src, int64_t n, float identity, vf (*op)(vf a, vf b)) {
  vf result[2] = {vf_set(identity), vf_set(identity)};
  int64_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL) {
    result[0] = op(result[0], vf_load(src + i));
    result[1] = op(result[1], vf_load(src + i + VL));
  }
  float lane[2 * VL];
  for (int j = 0; j < 2 * VL; j++) lane[j] = i + j < n ? src[i + j] : identity;
  vf both = op(op(result[0], vf_load(lane)), op(result[1], vf_load(lane + VL)));
  for (int step = VL / 2; step; step /= 2) {
    vf_store(lane, both);
    both = op(both, vf_load(lane + step));
  }
  return both[0];
}

float uc_name(row_max)(const float *src, int64_t n) { return reduce(src, n, -INFINITY, vf_max); }
float uc_name(row_min)(const float *src, int64_t n) { return reduce(src, n, INFINITY, vf_min); }
