/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain tasks of the oracle. Operators that only move elements, and those that rise with every
 * element, are run on values and on both ends of the intervals; the others have bounds of their
 * own.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "exact.h"
#include "fn.h"
#include "ops.h"
#include "rows.h"

uc_view uc_exact_view(const uc_exact *exact, uc_part part) {
  enum { PARTS = sizeof(uc_approx) / sizeof(double) };
  uc_view view = {.dtype = exact->dtype ? UC_ONNX_DOUBLE : UC_ONNX_UNDEFINED, .rank = exact->rank};
  if (exact->at)
    view.data = part == UC_PART_VALUE ? &exact->at->value
                : part == UC_PART_LOW ? &exact->at->low
                                      : &exact->at->high;
  memcpy(view.shape, exact->shape, sizeof view.shape);
  for (int i = 0; i < exact->rank; i++) view.stride[i] = exact->stride[i] * PARTS;
  return view;
}

static int64_t count_of(const uc_exact *exact) { return uc_shape_count(exact->rank, exact->shape); }

/* Runs the operator on one part of all inputs. */
static upconv_status run_part(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out,
                              uc_part part) {
  uc_view *views = uc_onnx_new(t->input_count, sizeof *views);
  if (!views) return UPCONV_OUT_OF_MEMORY;
  for (int k = 0; k < t->input_count; k++)
    if (in[k].dtype) views[k] = uc_exact_view(&in[k], part);
  uc_view result = uc_exact_view(out, part);
  if (t->op->family == UC_FAMILY_VIEW)
    uc_view_copy(&views[0], &result);
  else
    t->op->run(t, views, &result);
  free(views);
  return UPCONV_OK;
}

/* Values and both ends, then that many roundings of float32 and the storage's. */
static upconv_status run_rising(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out,
                                double roundings) {
  upconv_status status = UPCONV_OK;
  for (int part = UC_PART_VALUE; part <= UC_PART_HIGH && !status; part++)
    status = run_part(t, in, out, (uc_part)part);
  for (int64_t i = 0, n = count_of(out); i < n && !status; i++) {
    uc_approx a = out->at[i];
    if (isnan(a.low) && !isnan(a.value)) a = uc_approx_undecided(a.value);
    if (roundings > 0) a = uc_approx_round(a.value, a.low, a.high, roundings, UC_SMALLEST);
    out->at[i] = uc_approx_to_dtype(a, out->dtype);
  }
  return status;
}

/* ---- elementwise ---- */

/* fn over operands that are aligned with the result. */
static void apply_fn(const uc_onnx_task *t, int operands, const uc_exact *const *in,
                     const uc_exact *out) {
  uc_view views[UC_WALK_MAX] = {uc_exact_view(out, UC_PART_VALUE)};
  const uc_view *walked[UC_WALK_MAX] = {&views[0]};
  uc_onnx_dtype dtype[3] = {UC_ONNX_UNDEFINED};
  int slot[3] = {0}, count = 1;
  for (int k = 0; k < operands; k++) {
    dtype[k] = in[k]->dtype;
    if (!dtype[k]) continue;
    views[count] = uc_exact_view(in[k], UC_PART_VALUE);
    walked[count] = &views[count];
    slot[k] = count++;
  }
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, count, walked); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      uc_approx operand[3];
      for (int k = 0; k < operands; k++)
        if (dtype[k])
          operand[k] = *(const uc_approx *)((const double *)views[slot[k]].data + walk.at[slot[k]] +
                                            i * walk.step[slot[k]]);
      uc_approx y = uc_exact_fn(t, operand, dtype);
      *(uc_approx *)((double *)views[0].data + walk.at[0] + i * walk.step[0]) =
          uc_approx_to_dtype(y, out->dtype);
    }
}

static bool all_int(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  bool ints = uc_dtype_is_int(out->dtype);
  for (int k = 0; k < t->input_count; k++)
    ints = ints && (!in[k].dtype || uc_dtype_is_int(in[k].dtype));
  return ints;
}

/* A dense copy in the graph's own type, of values that are exact. */
static void *typed_copy(const uc_exact *exact, uc_view *view) {
  *view = (uc_view){.dtype = exact->dtype, .rank = exact->rank};
  memcpy(view->shape, exact->shape, sizeof view->shape);
  uc_dense_strides(view->rank, view->shape, view->stride);
  view->data = uc_onnx_new(count_of(exact), uc_onnx_dtype_size(exact->dtype));
  uc_view from = uc_exact_view(exact, UC_PART_VALUE);
  if (view->data && exact->at) uc_view_copy(&from, view);
  return view->data;
}

/* Integers are computed as such. */
static upconv_status run_int(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  upconv_status status = UPCONV_OK;
  uc_view result, *views = uc_onnx_new(t->input_count, sizeof *views);
  if (!views) return UPCONV_OUT_OF_MEMORY;
  for (int k = 0; k < t->input_count && !status; k++)
    if (in[k].dtype && !typed_copy(&in[k], &views[k])) status = UPCONV_OUT_OF_MEMORY;
  const uc_exact blank = {.dtype = out->dtype, .rank = out->rank};
  uc_exact shaped = blank;
  memcpy(shaped.shape, out->shape, sizeof shaped.shape);
  void *data = status ? NULL : typed_copy(&shaped, &result);
  if (data) {
    t->op->run(t, views, &result);
    for (int64_t i = 0, n = count_of(out); i < n; i++)
      out->at[i] = uc_approx_exact(uc_onnx_get(data, out->dtype, i));
  } else {
    status = UPCONV_OUT_OF_MEMORY;
  }
  for (int k = 0; k < t->input_count; k++) free(views[k].data);
  free(views);
  free(data);
  return status;
}

static upconv_status run_elementwise(const uc_onnx_task *t, const uc_exact *in,
                                     const uc_exact *out) {
  static const uc_exact missing = {.at = NULL};
  const uc_exact *operand[3] = {&missing, &missing, &missing};
  int operands = uc_fn_operands(t->fn);
  assert(operands >= 1 && operands <= 3);
  if (all_int(t, in, out)) return run_int(t, in, out);
  if (operands == 2) {
    operand[0] = &in[0];
    if (t->input_count == 1) return run_rising(t, in, out, 0);
    for (int k = 1; k < t->input_count; k++) {
      operand[1] = &in[k];
      apply_fn(t, 2, operand, out);
      operand[0] = out;
    }
    return UPCONV_OK;
  }
  for (int k = 0; k < operands && k < t->input_count; k++) operand[k] = &in[k];
  apply_fn(t, operands, operand, out);
  return UPCONV_OK;
}

/* ---- errors as numbers ---- */

/* A dense array of elements made from another value's, one by one. */
static upconv_status derive(const uc_exact *from, uc_approx (*make)(uc_approx), uc_exact *to) {
  *to = *from;
  uc_dense_strides(to->rank, to->shape, to->stride);
  to->at = uc_onnx_new(count_of(from), sizeof *to->at);
  if (!to->at) return UPCONV_OUT_OF_MEMORY;
  const uc_view views[] = {uc_exact_view(to, UC_PART_VALUE), uc_exact_view(from, UC_PART_VALUE)};
  const uc_view *walked[] = {&views[0], &views[1]};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, walked); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      const double *source = (const double *)views[1].data + walk.at[1] + i * walk.step[1];
      double *target = (double *)views[0].data + walk.at[0] + i * walk.step[0];
      *(uc_approx *)target = make(*(const uc_approx *)source);
    }
  return UPCONV_OK;
}

static double error_of(uc_approx a) {
  if (uc_approx_is_undecided(a)) return INFINITY;
  return uc_approx_is_special(a) ? 0 : fmax(a.high - a.value, a.value - a.low);
}

static uc_approx to_error(uc_approx a) { return uc_approx_exact(error_of(a)); }

static uc_approx to_magnitude(uc_approx a) { return uc_approx_exact(fabs(a.value)); }

static uc_approx to_largest(uc_approx a) { return uc_approx_exact(fabs(a.value) + error_of(a)); }

/* The smallest and largest |x|: what even functions rise with. */
static uc_approx to_absolute(uc_approx a) {
  if (uc_approx_is_undecided(a)) return a;
  if (isnan(a.value) || a.low >= 0) return a;
  if (a.high <= 0) return uc_approx_neg(a);
  return (uc_approx){fabs(a.value), 0, fmax(-a.low, a.high)};
}

static uc_approx with_error(double value, double error, uc_onnx_dtype dtype) {
  if (isnan(value)) return uc_approx_exact(value);
  if (!(error < INFINITY)) return uc_approx_undecided(value);
  uc_approx a = uc_approx_round(value, value - error, value + error, 2, UC_SMALLEST);
  return uc_approx_to_dtype(a, dtype);
}

/* ---- reductions and softmax ---- */

static upconv_status run_reduce(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  uc_exact absolute;
  upconv_status status;
  bool inexact = false;
  uc_onnx_task one = *t; /* axes were read while planning */
  one.input_count = 1;
  switch ((uc_reduce_kind)t->op->variant) {
  case UC_REDUCE_SUM_SQUARE:
  case UC_REDUCE_L1:
  case UC_REDUCE_L2:
    status = derive(&in[0], to_absolute, &absolute);
    if (!status) status = run_rising(&one, &absolute, out, 4);
    free(absolute.at);
    return status;
  case UC_REDUCE_PROD: /* not rising; what is not exact is left open */
    status = derive(&in[0], to_error, &absolute);
    if (!status) status = run_rising(&one, in, out, 4);
    for (int64_t i = 0, n = count_of(&in[0]); i < n && !status; i++)
      inexact = inexact || absolute.at[i].value > 0;
    for (int64_t i = 0, n = count_of(out); i < n && inexact; i++)
      out->at[i] = uc_approx_undecided(out->at[i].value);
    free(absolute.at);
    return status;
  default:
    return run_rising(&one, in, out, 4);
  }
}

/* Every exponential is off by a factor exp(e) at most, and so is their sum. */
static uc_approx softmax_bound(bool logarithm, double value, double own, double largest,
                               uc_onnx_dtype dtype) {
  if (isnan(value)) return uc_approx_exact(value);
  if (!(own + largest < 700)) return uc_approx_undecided(value);
  double factor = exp(own + largest);
  double low = logarithm ? value - own - largest : value / factor;
  double high = logarithm ? value + own + largest : value * factor;
  return uc_approx_to_dtype(uc_approx_round(value, low, high, 8, UC_SMALLEST), dtype);
}

static upconv_status bound_softmax(const uc_onnx_task *t, const uc_exact *errors,
                                   const uc_exact *out) {
  const uc_onnx_op maximum = {.name = "Max", .variant = UC_REDUCE_MAX};
  uc_onnx_task reduce = {.op = &maximum, .input_count = 1, .keepdims = true};
  reduce.axes = (1u << t->axis_end) - (1u << t->axis);
  uc_exact largest = *errors;
  for (int i = t->axis; i < t->axis_end; i++) largest.shape[i] = 1;
  uc_dense_strides(largest.rank, largest.shape, largest.stride);
  largest.at = uc_onnx_new(count_of(&largest), sizeof *largest.at);
  if (!largest.at) return UPCONV_OUT_OF_MEMORY;
  const uc_view from = uc_exact_view(errors, UC_PART_VALUE);
  const uc_view to = uc_exact_view(&largest, UC_PART_VALUE);
  uc_run_reduce(&reduce, &from, &to);
  const uc_view result = uc_exact_view(out, UC_PART_VALUE);
  const uc_view *walked[] = {&result, &from, &to};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 3, walked); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      double *y = (double *)result.data + walk.at[0] + i * walk.step[0];
      double own = ((const double *)from.data)[walk.at[1] + i * walk.step[1]];
      double most = ((const double *)to.data)[walk.at[2] + i * walk.step[2]];
      *(uc_approx *)y = softmax_bound(t->op->variant != 0, *y, own, most, out->dtype);
    }
  free(largest.at);
  return UPCONV_OK;
}

static upconv_status run_softmax(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  uc_exact errors;
  upconv_status status = derive(&in[0], to_error, &errors);
  if (!status) status = run_part(t, in, out, UC_PART_VALUE);
  if (!status) status = bound_softmax(t, &errors, out);
  free(errors.at);
  return status;
}

/* ---- matrix products ---- */

/* sum |a| eb + ea (|b| + eb), and beta ec: two products of arrays without signs. */
static upconv_status matrix_errors(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out,
                                   double *errors) {
  uc_onnx_task plain = *t;
  uc_exact part[3] = {{.at = NULL}}, sum = *out;
  bool has_c = t->input_count > 2 && in[2].dtype;
  plain.attr[0] = fabs(t->attr[0]);
  plain.attr[1] = fabs(t->attr[1]);
  sum.at = uc_onnx_new(count_of(out), sizeof *sum.at);
  upconv_status status = sum.at ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  for (int round = 0; round < 2 && !status; round++) {
    status = derive(&in[0], round ? to_error : to_magnitude, &part[0]);
    if (!status) status = derive(&in[1], round ? to_largest : to_error, &part[1]);
    if (!status && has_c && !round) status = derive(&in[2], to_error, &part[2]);
    plain.input_count = has_c && !round ? 3 : 2;
    if (!status) status = run_part(&plain, part, &sum, UC_PART_VALUE);
    for (int64_t i = 0, n = count_of(out); i < n && !status; i++) errors[i] += sum.at[i].value;
    for (int k = 0; k < 3; k++) {
      free(part[k].at);
      part[k].at = NULL;
    }
  }
  free(sum.at);
  return status;
}

static upconv_status run_matrix(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  double *errors = uc_onnx_new(count_of(out), sizeof *errors);
  if (!errors) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = run_part(t, in, out, UC_PART_VALUE);
  if (!status) status = matrix_errors(t, in, out, errors);
  for (int64_t i = 0, n = count_of(out); i < n && !status; i++)
    out->at[i] = with_error(out->at[i].value, isnan(errors[i]) ? INFINITY : errors[i], out->dtype);
  free(errors);
  return status;
}

/* ---- norms ---- */

/* Batch norm rises or falls with x, as its scale says. */
static upconv_status run_batch_norm(const uc_onnx_task *t, const uc_exact *in,
                                    const uc_exact *out) {
  upconv_status status = run_rising(t, in, out, 0);
  for (int64_t i = 0, n = count_of(out); i < n && !status; i++) {
    uc_approx a = out->at[i];
    double low = fmin(a.low, a.high), high = fmax(a.low, a.high);
    if (isfinite(low) && isfinite(high))
      a = uc_approx_round(a.value, fmin(low, a.value), fmax(high, a.value), 8, UC_SMALLEST);
    out->at[i] = uc_approx_to_dtype(a, out->dtype);
  }
  return status;
}

/* Moving every x by e at most moves x - mean by 2 e, and the standard deviation by 2 e. */
static double instance_error(double value, double bias, double scale, double deviation, double e) {
  if (e == 0) return 0;
  if (!(deviation > 4 * e)) return INFINITY;
  return 2 * e * (fabs(scale) + fabs(value - bias)) / (deviation - 2 * e);
}

static upconv_status run_instance_norm(const uc_onnx_task *t, const uc_exact *in,
                                       const uc_exact *out) {
  int64_t items = out->shape[0] * out->shape[1];
  int64_t plane = items ? count_of(out) / items : 0;
  uc_exact x;
  upconv_status status = run_part(t, in, out, UC_PART_VALUE);
  if (!status) status = derive(&in[0], to_error, &x);
  if (status) return status;
  uc_exact values = in[0];
  for (int64_t item = 0; item < items; item++) {
    int64_t n = item / out->shape[1], c = item % out->shape[1];
    double e = 0, mean = 0, square = 0;
    uc_exact channel = values;
    channel.shape[0] = channel.shape[1] = 1;
    channel.at += n * values.stride[0] + c * values.stride[1];
    const uc_view view = uc_exact_view(&channel, UC_PART_VALUE);
    const uc_view *walked[] = {&view};
    uc_walk walk;
    for (bool more = uc_walk_start(&walk, 1, walked); more; more = uc_walk_next(&walk))
      for (int64_t i = 0; i < walk.length; i++) {
        double v = ((const double *)view.data)[walk.at[0] + i * walk.step[0]];
        mean += v / (double)plane;
        square += v * v / (double)plane;
      }
    for (int64_t i = 0; i < plane; i++) e = fmax(e, x.at[item * plane + i].value);
    double deviation = sqrt(fmax(square - mean * mean, 0) + t->attr[0]);
    double scale = in[1].at[c * in[1].stride[0]].value, bias = in[2].at[c * in[2].stride[0]].value;
    for (int64_t i = 0; i < plane; i++) {
      uc_approx *y = &out->at[item * plane + i];
      double error = instance_error(y->value, bias, scale, deviation, e);
      double terms = 4 * UC_ROUNDING * (fabs(y->value) + 2 * fabs(bias));
      *y = with_error(y->value, error + terms, out->dtype);
    }
  }
  free(x.at);
  return UPCONV_OK;
}

/* ---- all ---- */

upconv_status uc_exact_task(const uc_onnx_task *t, const uc_exact *in, const uc_exact *out) {
  switch (t->op->family) {
  case UC_FAMILY_VIEW:
  case UC_FAMILY_MOVE:
    return run_rising(t, in, out, 0);
  case UC_FAMILY_ELEMENTWISE:
    return run_elementwise(t, in, out);
  case UC_FAMILY_POOL:
    return run_rising(t, in, out, 4);
  case UC_FAMILY_REDUCE:
    return run_reduce(t, in, out);
  case UC_FAMILY_SOFTMAX:
    return run_softmax(t, in, out);
  case UC_FAMILY_MATRIX:
    return run_matrix(t, in, out);
  case UC_FAMILY_NORM:
    return t->op->variant ? run_instance_norm(t, in, out) : run_batch_norm(t, in, out);
  case UC_FAMILY_SHAPE:
  case UC_FAMILY_CONV:
    break;
  }
  return uc_fail(UPCONV_UNSUPPORTED, "operator %s has no oracle", t->op->name);
}
