/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any axes, and softmax. */
#include <math.h>
#include <string.h>

#include "../status.h"
#include "ops.h"
#include "rows.h"

/* ---- planning ---- */

static upconv_status set_reduced(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t shape[UC_ONNX_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < in->rank; i++) {
    bool reduced = t->axes >> i & 1;
    if (!reduced)
      shape[rank++] = in->shape[i];
    else if (t->keepdims)
      shape[rank++] = 1;
  }
  return uc_set_result(p, t, 0, in->dtype, rank, shape);
}

upconv_status uc_plan_reduce(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t axes[UC_ONNX_MAX_RANK], keepdims, noop;
  int count;
  upconv_status status = uc_task_axes(p, t, 1, axes, &count);
  if (!status) status = uc_task_int(t, "keepdims", 1, &keepdims);
  if (!status) status = uc_task_int(t, "noop_with_empty_axes", 0, &noop);
  if (status) return status;
  t->keepdims = keepdims != 0;
  if (count <= 0 && !noop) t->axes = (1u << in->rank) - 1;
  for (int i = 0; i < count; i++) {
    int axis;
    status = uc_task_axis("axis", axes[i], in->rank, &axis);
    if (status) return status;
    t->axes |= 1u << axis;
  }
  return set_reduced(p, t);
}

upconv_status uc_plan_global_pool(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  if (in->rank < 3)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the input has rank %d; it must be at least 3",
                   in->rank);
  t->keepdims = true;
  t->axes = ((1u << in->rank) - 1) & ~3u;
  return set_reduced(p, t);
}

/* Before operator set 13 all axes from `axis` on are one; since then one axis alone. */
upconv_status uc_plan_softmax(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  bool old = p->model->opset < 13;
  int64_t axis;
  upconv_status status = uc_task_is_float(p, t, 0);
  if (!status) status = uc_task_int(t, "axis", old ? 1 : -1, &axis);
  if (status) return status;
  if (old && axis == in->rank)
    t->axis = in->rank;
  else
    status = uc_task_axis("axis", axis, in->rank, &t->axis);
  if (status) return status;
  t->axis_end = old ? in->rank : t->axis + 1;
  return uc_set_result(p, t, 0, in->dtype, in->rank, in->shape);
}

/* ---- running ---- */

/* Cuts a view in two: the positions that are kept, and what is reduced at one of them. */
static void split_view(const uc_view *view, uint32_t axes, uc_view *kept, uc_view *reduced) {
  *kept = *reduced = *view;
  for (int i = 0; i < view->rank; i++)
    if (axes >> i & 1)
      kept->shape[i] = 1;
    else
      reduced->shape[i] = 1;
}

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a < b ? a : b; }

static double start_of(uc_reduce_kind kind) {
  switch (kind) {
  case UC_REDUCE_MAX:
  case UC_REDUCE_LOG_SUM_EXP:
    return -INFINITY;
  case UC_REDUCE_MIN:
    return INFINITY;
  case UC_REDUCE_PROD:
    return 1;
  default:
    return 0;
  }
}

static double combine(uc_reduce_kind kind, double sum, double x) {
  switch (kind) {
  case UC_REDUCE_MAX:
  case UC_REDUCE_LOG_SUM_EXP: /* its first pass */
    return larger(sum, x);
  case UC_REDUCE_MIN:
    return smaller(sum, x);
  case UC_REDUCE_PROD:
    return sum * x;
  case UC_REDUCE_L1:
    return sum + fabs(x);
  case UC_REDUCE_L2:
  case UC_REDUCE_SUM_SQUARE:
    return sum + x * x;
  case UC_REDUCE_SUM:
  case UC_REDUCE_MEAN:
  case UC_REDUCE_LOG_SUM:
    break;
  }
  return sum + x;
}

/* The start value combined with every element of a view. */
static double gather(uc_reduce_kind kind, const uc_view *view) {
  double sum = start_of(kind), row[UC_ROW];
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 1, &view); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      uc_row_load(row, view, walk.at[0] + done * walk.step[0], walk.step[0], n);
      for (int64_t i = 0; i < n; i++) sum = combine(kind, sum, row[i]);
    }
  return sum;
}

/* Sum of exp(x - shift). */
static double sum_exp(const uc_view *view, double shift) {
  double sum = 0, row[UC_ROW];
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 1, &view); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      uc_row_load(row, view, walk.at[0] + done * walk.step[0], walk.step[0], n);
      for (int64_t i = 0; i < n; i++) sum += exp(row[i] - shift);
    }
  return sum;
}

static double reduce_one(uc_reduce_kind kind, const uc_view *view) {
  double x = gather(kind, view);
  switch (kind) {
  case UC_REDUCE_MEAN:
    return x / (double)uc_shape_count(view->rank, view->shape);
  case UC_REDUCE_L2:
    return sqrt(x);
  case UC_REDUCE_LOG_SUM:
    return log(x);
  case UC_REDUCE_LOG_SUM_EXP:
    return isfinite(x) ? x + log(sum_exp(view, x)) : x;
  default:
    return x;
  }
}

static uc_view advance(const uc_view *view, int64_t elements) {
  uc_view result = *view;
  result.data = (char *)view->data + elements * (int64_t)uc_onnx_dtype_size(view->dtype);
  return result;
}

uc_view uc_reduce_result(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view result = *out;
  result.rank = in->rank;
  for (int i = 0, k = 0; i < in->rank; i++) {
    bool dropped = (t->axes >> i & 1) && !t->keepdims;
    result.shape[i] = dropped ? 1 : out->shape[k];
    result.stride[i] = dropped ? 0 : out->stride[k];
    k += !dropped;
  }
  return result;
}

void uc_run_reduce(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view kept, reduced, result = uc_reduce_result(t, in, out);
  split_view(in, t->axes, &kept, &reduced);
  const uc_view *views[] = {&result, &kept};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, views); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      uc_view part = advance(&reduced, walk.at[1] + i * walk.step[1]);
      double y = reduce_one((uc_reduce_kind)t->op->variant, &part);
      if (out->dtype == UC_ONNX_BOOL && isinf(y))
        y = y > 0; /* of nothing: the smallest, the largest */
      uc_onnx_set(out->data, out->dtype, walk.at[0] + i * walk.step[0], y);
    }
}

/* ---- softmax ---- */

static void softmax_one(bool logarithm, const uc_view *in, const uc_view *out) {
  double shift = gather(UC_REDUCE_MAX, in), sum = sum_exp(in, shift), row[UC_ROW];
  const uc_view *views[] = {out, in};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, views); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      uc_row_load(row, in, walk.at[1] + done * walk.step[1], walk.step[1], n);
      for (int64_t i = 0; i < n; i++)
        row[i] = logarithm ? row[i] - shift - log(sum) : exp(row[i] - shift) / sum;
      uc_row_store(out, walk.at[0] + done * walk.step[0], walk.step[0], row, n);
    }
}

uint32_t uc_softmax_axes(const uc_onnx_task *t) { return (1u << t->axis_end) - (1u << t->axis); }

void uc_run_softmax(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uint32_t axes = uc_softmax_axes(t);
  uc_view in_kept, in_part, out_kept, out_part;
  split_view(in, axes, &in_kept, &in_part);
  split_view(out, axes, &out_kept, &out_part);
  const uc_view *views[] = {&out_kept, &in_kept};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, views); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      uc_view from = advance(&in_part, walk.at[1] + i * walk.step[1]);
      uc_view to = advance(&out_part, walk.at[0] + i * walk.step[0]);
      softmax_one(t->op->variant != 0, &from, &to);
    }
}
