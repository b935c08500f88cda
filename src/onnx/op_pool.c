/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling windows outside of segments. */
#include <math.h>
#include <string.h>

#include "../epilogue.h"
#include "../status.h"
#include "ops.h"

/* ---- planning ---- */

static upconv_status read_pool(uc_onnx_task *t, int rank, uc_window_attrs *w) {
  int64_t ceil_mode, include, order;
  upconv_status status = uc_read_window(t, rank, w);
  if (!status) status = uc_task_int(t, "ceil_mode", 0, &ceil_mode);
  if (!status) status = uc_task_int(t, "count_include_pad", 0, &include);
  if (!status) status = uc_task_int(t, "storage_order", 0, &order);
  if (status) return status;
  if (!w->has_kernel) return uc_fail(UPCONV_INVALID_ARGUMENT, "there is no kernel_shape");
  if (order) return uc_fail(UPCONV_UNSUPPORTED, "attribute 'storage_order' is not 0");
  t->window.ceil_mode = ceil_mode != 0;
  t->window.count_include_pad = include != 0;
  return UPCONV_OK;
}

upconv_status uc_plan_pool(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  uc_window_attrs w;
  int64_t shape[UC_ONNX_MAX_RANK] = {in->rank > 0 ? in->shape[0] : 0,
                                     in->rank > 1 ? in->shape[1] : 0};
  upconv_status status = read_pool(t, in->rank, &w);
  if (!status) status = uc_resolve_auto_pad(&w, in->shape + 2);
  for (int i = 0; i < w.nd && !status; i++) {
    t->window.kernel[i] = w.kernel[i];
    t->window.stride[i] = w.stride[i];
    t->window.dilation[i] = w.dilation[i];
    t->window.pad_begin[i] = w.pad_begin[i];
    t->window.pad_end[i] = w.pad_end[i];
    shape[2 + i] = uc_window_output(&t->window, i, in->shape[2 + i]);
    if (shape[2 + i] < 1)
      status =
          uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d of size %lld is too small for a window of %lld",
                  2 + i, (long long)in->shape[2 + i], (long long)w.kernel[i]);
  }
  return status ? status : uc_set_result(p, t, 0, in->dtype, in->rank, shape);
}

/* ---- running ---- */

/* Right-aligned to three spatial axes. */
typedef struct pool {
  bool average, include_pad;
  int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
  int64_t in_size[3], in_stride[3], out_size[3], out_stride[3];
} pool;

/* The taps of one output along one axis that lie inside the input, and how many an average
   counts there. */
typedef struct taps {
  int64_t first, count; /* elements from the first one on, `step` apart */
  int64_t step;
  double counted;
} taps;

/* How many of `kernel` positions start, start + dilation, ... lie before `limit`. */
static int64_t count_before(const pool *p, int axis, int64_t start, int64_t limit) {
  if (start >= limit) return 0;
  int64_t dilation = p->dilation[axis];
  int64_t count = dilation == 1 ? limit - start : (limit - start + dilation - 1) / dilation;
  return count < p->kernel[axis] ? count : p->kernel[axis];
}

/* The padding belongs to an average with count_include_pad; what ceil_mode adds behind it never
   does. */
static taps find_taps(const pool *p, int axis, int64_t o) {
  int64_t start = o * p->stride[axis] - p->begin[axis];
  int64_t before = count_before(p, axis, start, 0);
  int64_t end = count_before(p, axis, start, p->in_size[axis]);
  taps t = {.count = end - before, .step = p->dilation[axis] * p->in_stride[axis]};
  t.first = start * p->in_stride[axis] + before * t.step;
  t.counted = (double)t.count;
  if (p->include_pad)
    t.counted = (double)count_before(p, axis, start, p->in_size[axis] + p->end[axis]);
  return t;
}

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }

static double pool_row(const pool *p, const uc_view *in, int64_t at, const taps *t, double result) {
  if (in->dtype == UC_ONNX_FLOAT) {
    const float *x = (const float *)in->data + at;
    for (int64_t k = 0; k < t->count; k++, x += t->step)
      result = p->average ? result + (double)*x : larger(result, (double)*x);
    return result;
  }
  for (int64_t k = 0; k < t->count; k++) {
    double x = uc_onnx_get(in->data, in->dtype, at + k * t->step);
    result = p->average ? result + x : larger(result, x);
  }
  return result;
}

static double pool_one(const pool *p, const uc_view *in, int64_t base, const taps t[3]) {
  double result = p->average ? 0 : -INFINITY;
  for (int64_t i = 0; i < t[0].count; i++)
    for (int64_t j = 0; j < t[1].count; j++) {
      int64_t at = base + t[0].first + i * t[0].step + t[1].first + j * t[1].step + t[2].first;
      result = pool_row(p, in, at, &t[2], result);
    }
  return p->average ? result / (t[0].counted * t[1].counted * t[2].counted) : result;
}

/* One channel of one item: from and to are its first elements. */
static void pool_channel(const pool *p, const uc_view *in, int64_t from, const uc_view *out,
                         int64_t to) {
  taps t[3];
  int64_t o[3];
  for (o[0] = 0; o[0] < p->out_size[0]; o[0]++) {
    t[0] = find_taps(p, 0, o[0]);
    for (o[1] = 0; o[1] < p->out_size[1]; o[1]++) {
      t[1] = find_taps(p, 1, o[1]);
      int64_t row = to + o[0] * p->out_stride[0] + o[1] * p->out_stride[1];
      for (o[2] = 0; o[2] < p->out_size[2]; o[2]++) {
        t[2] = find_taps(p, 2, o[2]);
        uc_onnx_set(out->data, out->dtype, row + o[2] * p->out_stride[2], pool_one(p, in, from, t));
      }
    }
  }
}

static pool make_pool(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  pool p = {.average = t->op->variant == UC_POOL_AVERAGE,
            .include_pad = t->window.count_include_pad};
  for (int a = 0; a < 3; a++) {
    int i = a - (5 - in->rank);
    bool real = i >= 0;
    p.kernel[a] = real ? t->window.kernel[i] : 1;
    p.stride[a] = real ? t->window.stride[i] : 1;
    p.dilation[a] = real ? t->window.dilation[i] : 1;
    p.begin[a] = real ? t->window.pad_begin[i] : 0;
    p.end[a] = real ? t->window.pad_end[i] : 0;
    p.in_size[a] = real ? in->shape[2 + i] : 1;
    p.in_stride[a] = real ? in->stride[2 + i] : 0;
    p.out_size[a] = real ? out->shape[2 + i] : 1;
    p.out_stride[a] = real ? out->stride[2 + i] : 0;
  }
  return p;
}

void uc_run_pool(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  const pool p = make_pool(t, in, out);
  for (int64_t n = 0; n < out->shape[0]; n++)
    for (int64_t c = 0; c < out->shape[1]; c++)
      pool_channel(&p, in, n * in->stride[0] + c * in->stride[1], out,
                   n * out->stride[0] + c * out->stride[1]);
}
