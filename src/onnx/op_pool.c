/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling windows outside of segments. */
#include <math.h>
#include <string.h>

#include "../epilogue.h"
#include "../status.h"
#include "ops.h"

/* ---- planning ---- */

static upconv_status read_pool(uc_task *t, int rank, uc_window_attrs *w) {
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

upconv_status uc_plan_pool(uc_onnx_program *p, uc_task *t) {
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
  const upconv_window *window;
  int nd;
  int64_t in_size[3], in_stride[3], out_size[3], out_stride[3];
  bool average;
} pool;

static int64_t field(const pool *p, const int64_t *values, int axis, int64_t absent) {
  int i = axis - (3 - p->nd);
  return i < 0 ? absent : values[i];
}

/* Taps [first, end) of output o that lie inside [low, high). */
static void taps_inside(const pool *p, int axis, int64_t o, int64_t low, int64_t high,
                        int64_t *first, int64_t *end) {
  int64_t dilation = field(p, p->window->dilation, axis, 1);
  int64_t start =
      o * field(p, p->window->stride, axis, 1) - field(p, p->window->pad_begin, axis, 0);
  int64_t kernel = field(p, p->window->kernel, axis, 1);
  *first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
  *end = start >= high ? 0 : (high - start + dilation - 1) / dilation;
  if (*end > kernel) *end = kernel;
  if (*first > *end) *first = *end;
}

/* Positions that an average counts: the padding belongs to it with count_include_pad, what ceil_mode adds never does. */
static double divisor(const pool *p, const int64_t *o) {
  double count = 1;
  for (int a = 0; a < 3; a++) {
    int64_t first, end, low = 0, high = p->in_size[a];
    if (p->window->count_include_pad) {
      low -= field(p, p->window->pad_begin, a, 0);
      high += field(p, p->window->pad_end, a, 0);
    }
    taps_inside(p, a, o[a], low, high, &first, &end);
    count *= (double)(end - first);
  }
  return count;
}

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }

static double pool_one(const pool *p, const uc_view *in, int64_t base, const int64_t *o) {
  int64_t first[3], end[3], at[3], step[3], k[3];
  double result = p->average ? 0 : -INFINITY;
  for (int a = 0; a < 3; a++) {
    taps_inside(p, a, o[a], 0, p->in_size[a], &first[a], &end[a]);
    step[a] = field(p, p->window->dilation, a, 1) * p->in_stride[a];
    at[a] = (o[a] * field(p, p->window->stride, a, 1) - field(p, p->window->pad_begin, a, 0)) *
            p->in_stride[a];
  }
  for (k[0] = first[0]; k[0] < end[0]; k[0]++)
    for (k[1] = first[1]; k[1] < end[1]; k[1]++)
      for (k[2] = first[2]; k[2] < end[2]; k[2]++) {
        int64_t from = base;
        for (int a = 0; a < 3; a++) from += at[a] + k[a] * step[a];
        double x = uc_onnx_get(in->data, in->dtype, from);
        result = p->average ? result + x : larger(result, x);
      }
  return p->average ? result / divisor(p, o) : result;
}

void uc_run_pool(const uc_task *t, const uc_view *in, const uc_view *out) {
  pool p = {.window = &t->window, .nd = in->rank - 2, .average = t->op->variant == UC_POOL_AVERAGE};
  for (int a = 0; a < 3; a++) {
    p.in_size[a] = field(&p, in->shape + 2, a, 1);
    p.in_stride[a] = field(&p, in->stride + 2, a, 0);
    p.out_size[a] = field(&p, out->shape + 2, a, 1);
    p.out_stride[a] = field(&p, out->stride + 2, a, 0);
  }
  int64_t o[3];
  for (int64_t n = 0; n < out->shape[0]; n++)
    for (int64_t c = 0; c < out->shape[1]; c++)
      for (o[0] = 0; o[0] < p.out_size[0]; o[0]++)
        for (o[1] = 0; o[1] < p.out_size[1]; o[1]++)
          for (o[2] = 0; o[2] < p.out_size[2]; o[2]++) {
            int64_t to = n * out->stride[0] + c * out->stride[1];
            for (int a = 0; a < 3; a++) to += o[a] * p.out_stride[a];
            double y = pool_one(&p, in, n * in->stride[0] + c * in->stride[1], o);
            uc_onnx_set(out->data, out->dtype, to, y);
          }
}
