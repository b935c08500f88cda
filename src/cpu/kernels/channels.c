/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and reductions over channels. Rows are walked one channel after the other, with the
 * running result of every position in a scratch row: memory is read in order, and the sum of a
 * position runs over its channels in order.
 */
#include "table.h"
#include "vecmath.h"

typedef struct rows {
  const float *src;
  int64_t stride, channels, n;
} rows;

/* accumulator[i] = op(accumulator[i], channel c of i), from channel 0 on. */
UC_INLINE void reduce(float *accumulator, const rows *r, vf (*op)(vf a, vf b)) {
  for (int64_t i = 0; i < r->n; i += VL) vf_store(accumulator + i, vf_load(r->src + i));
  for (int64_t c = 1; c < r->channels; c++) {
    const float *src = r->src + c * r->stride;
    for (int64_t i = 0; i < r->n; i += VL)
      vf_store(accumulator + i, op(vf_load(accumulator + i), vf_load(src + i)));
  }
}

UC_INLINE vf add(vf a, vf b) { return a + b; }

static void reduce_max(float *accumulator, const rows *r) { reduce(accumulator, r, vf_max); }
static void reduce_min(float *accumulator, const rows *r) { reduce(accumulator, r, vf_min); }
static void reduce_sum(float *accumulator, const rows *r) { reduce(accumulator, r, add); }

/* sum[i] = sum over channels of exp(x - max[i]); the terms are kept in dst unless it is NULL. */
static void sum_exp(float *sum, const float *max, const rows *r, float *dst, int64_t dst_stride) {
  for (int64_t c = 0; c < r->channels; c++) {
    const float *src = r->src + c * r->stride;
    for (int64_t i = 0; i < r->n; i += VL) {
      vf e = vf_exp(vf_load(src + i) - vf_load(max + i));
      vf_store(sum + i, c ? vf_load(sum + i) + e : e);
      if (dst) vf_store(dst + c * dst_stride + i, e);
    }
  }
}

static void softmax(float *dst, int64_t dst_stride, const rows *r, float *scratch, float *sum) {
  reduce_max(scratch, r);
  sum_exp(sum, scratch, r, dst, dst_stride);
  for (int64_t i = 0; i < r->n; i += VL) vf_store(sum + i, 1.0f / vf_load(sum + i));
  for (int64_t c = 0; c < r->channels; c++) {
    float *row = dst + c * dst_stride;
    for (int64_t i = 0; i < r->n; i += VL) vf_store(row + i, vf_load(row + i) * vf_load(sum + i));
  }
}

static void log_softmax(float *dst, int64_t dst_stride, const rows *r, float *scratch, float *sum) {
  reduce_max(scratch, r);
  sum_exp(sum, scratch, r, NULL, 0);
  for (int64_t i = 0; i < r->n; i += VL) vf_store(sum + i, vf_log(vf_load(sum + i)));
  for (int64_t c = 0; c < r->channels; c++) {
    const float *src = r->src + c * r->stride;
    float *row = dst + c * dst_stride;
    for (int64_t i = 0; i < r->n; i += VL)
      vf_store(row + i, (vf_load(src + i) - vf_load(scratch + i)) - vf_load(sum + i));
  }
}

/* An infinite maximum is replaced by 0: all -infinity gives -infinity, and infinity stays, instead
   of NaN. */
static void log_sum_exp(float *dst, const rows *r, float *scratch, float *sum) {
  reduce_max(scratch, r);
  for (int64_t i = 0; i < r->n; i += VL) {
    vf max = vf_load(scratch + i);
    vm infinite = vm_equal(vf_abs(max), vf_set(INFINITY));
    vf_store(scratch + i, vf_select(infinite, vf_set(0.0f), max));
  }
  sum_exp(sum, scratch, r, NULL, 0);
  for (int64_t i = 0; i < r->n; i += VL)
    vf_store(dst + i, vf_load(scratch + i) + vf_log(vf_load(sum + i)));
}

static void mean(float *dst, const rows *r) {
  reduce_sum(dst, r);
  vf count = vf_set((float)r->channels);
  for (int64_t i = 0; i < r->n; i += VL) vf_store(dst + i, vf_load(dst + i) / count);
}

void uc_name(channels)(upconv_op_kind kind, float *dst, int64_t dst_stride, const float *src,
                       int64_t src_stride, int64_t channels, int64_t n, float *scratch) {
  const rows r = {src, src_stride, channels, n};
  float *second = scratch + (n + UC_PAD - 1) / UC_PAD * UC_PAD;
  switch (kind) {
  case UPCONV_OP_SOFTMAX:
    softmax(dst, dst_stride, &r, scratch, second);
    break;
  case UPCONV_OP_LOG_SOFTMAX:
    log_softmax(dst, dst_stride, &r, scratch, second);
    break;
  case UPCONV_OP_LOGSUMEXP:
    log_sum_exp(dst, &r, scratch, second);
    break;
  case UPCONV_OP_SUM:
    reduce_sum(dst, &r);
    break;
  case UPCONV_OP_MEAN:
    mean(dst, &r);
    break;
  case UPCONV_OP_MAX:
    reduce_max(dst, &r);
    break;
  case UPCONV_OP_MIN:
    reduce_min(dst, &r);
    break;
  default:
    break;
  }
}
