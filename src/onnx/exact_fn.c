/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise functions of intervals. Those that an epilogue has are the library's oracle's; the
   rest is here. */
#include <math.h>

#include "exact.h"
#include "fn.h"

uc_approx uc_approx_to_dtype(uc_approx a, uc_onnx_dtype dtype) {
  double room[1];
  if (uc_approx_is_undecided(a) || isnan(a.value)) return a;
  uc_onnx_set(room, dtype, 0, a.low);
  double low = uc_onnx_get(room, dtype, 0);
  uc_onnx_set(room, dtype, 0, a.high);
  double high = uc_onnx_get(room, dtype, 0);
  if (isinf(low) && low == high) return uc_approx_exact(low);
  if (isinf(low) || isinf(high)) return uc_approx_undecided(a.value);
  /* Integers are what they are; a number that floating point rounds stays itself inside its
     interval. */
  if (uc_dtype_is_int(dtype)) {
    uc_onnx_set(room, dtype, 0, a.value);
    a.value = uc_onnx_get(room, dtype, 0);
  }
  return (uc_approx){a.value, fmin(low, a.value), fmax(high, a.value)};
}

static double apply(const uc_onnx_task *t, double x) {
  double y;
  const double *const operand[] = {&x};
  uc_fn_row(t->fn, t->attr, operand, &y, 1);
  return y;
}

/* A rising function, right to its last bit but one. */
static uc_approx rising(const uc_onnx_task *t, uc_approx x) {
  double value = apply(t, x.value);
  if (uc_approx_is_undecided(x)) return uc_approx_undecided(value);
  if (uc_approx_is_special(x)) return uc_approx_exact(value);
  return uc_approx_round(value, apply(t, x.low), apply(t, x.high), 2, UC_SMALLEST);
}

/* A function whose slope is at most 1. */
static uc_approx gentle(const uc_onnx_task *t, uc_approx x) {
  double value = apply(t, x.value);
  if (uc_approx_is_undecided(x)) return uc_approx_undecided(value);
  if (uc_approx_is_special(x)) return uc_approx_exact(value);
  double width = x.high - x.low;
  return uc_approx_round(value, value - width, value + width, 2, UC_SMALLEST);
}

static bool is_exact(uc_approx a) { return isnan(a.value) || a.low == a.high; }

/* Comparisons and logic: certain when both operands are, or when the intervals do not meet. */
static uc_approx truth(const uc_onnx_task *t, uc_approx a, uc_approx b) {
  double y;
  const double *const operand[] = {&a.value, &b.value};
  uc_fn_row(t->fn, t->attr, operand, &y, 1);
  bool apart = a.high < b.low || b.high < a.low;
  if ((is_exact(a) && is_exact(b)) || apart) return uc_approx_exact(y);
  return (uc_approx){y, 0, 1};
}

/* x^n for whole n > 0 is a product; else the base has to be positive, and x^y rises or falls in
   each. */
static uc_approx power(uc_approx x, uc_approx y) {
  double value = pow(x.value, y.value), result[4];
  if (is_exact(x) && is_exact(y)) return uc_approx_round(value, value, value, 2, UC_SMALLEST);
  if (is_exact(y) && y.value == 2) return uc_approx_mul(x, x);
  if (is_exact(y) && y.value == 3) return uc_approx_mul(uc_approx_mul(x, x), x);
  if (uc_approx_is_undecided(x) || uc_approx_is_undecided(y) || !(x.low > 0))
    return uc_approx_undecided(value);
  result[0] = pow(x.low, y.low);
  result[1] = pow(x.low, y.high);
  result[2] = pow(x.high, y.low);
  result[3] = pow(x.high, y.high);
  double low = fmin(fmin(result[0], result[1]), fmin(result[2], result[3]));
  double high = fmax(fmax(result[0], result[1]), fmax(result[2], result[3]));
  return uc_approx_round(value, low, high, 2, UC_SMALLEST);
}

static uc_approx smaller(uc_approx a, uc_approx b) {
  return uc_approx_neg(uc_approx_max(uc_approx_neg(a), uc_approx_neg(b)));
}

/* x * sigmoid(alpha x) for an alpha that no epilogue has. */
static uc_approx swish(const uc_onnx_task *t, uc_approx x) {
  uc_approx scaled = uc_approx_mul(x, uc_approx_stored(t->attr[0]));
  return uc_approx_mul(x, uc_approx_function(UPCONV_OP_SIGMOID, t->attr, scaled));
}

static uc_approx of_one(const uc_onnx_task *t, uc_approx x) {
  upconv_op_kind kind;
  if (t->fn == UC_FN_SILU && t->attr[0] != 1) return swish(t, x);
  if (uc_fn_operands(t->fn) == 1 && uc_tail_kind(t->fn, &kind))
    return uc_approx_function(kind, t->attr, x);
  switch (t->fn) {
  case UC_FN_RECIPROCAL:
    return uc_approx_div(uc_approx_exact(1), x);
  case UC_FN_SIN:
  case UC_FN_COS:
    return gentle(t, x);
  case UC_FN_NOT:
    return is_exact(x) ? uc_approx_exact(x.value == 0) : (uc_approx){x.value == 0, 0, 1};
  case UC_FN_CAST:
    return x;
  default: /* LOG, ERF, FLOOR, CEIL, ROUND, SIGN */
    return rising(t, x);
  }
}

static uc_approx of_two(const uc_onnx_task *t, uc_approx a, uc_approx b) {
  switch (t->fn) {
  case UC_FN_ADD:
    return uc_approx_add(a, b);
  case UC_FN_SUB:
    return uc_approx_sub(a, b);
  case UC_FN_MUL:
    return uc_approx_mul(a, b);
  case UC_FN_DIV:
    return uc_approx_div(a, b);
  case UC_FN_MAX:
    return uc_approx_max(a, b);
  case UC_FN_MIN:
    return smaller(a, b);
  case UC_FN_PRELU:
    return uc_approx_two_slope(a, uc_approx_exact(1), b);
  case UC_FN_POW:
    return power(a, b);
  default:
    return truth(t, a, b);
  }
}

uc_approx uc_exact_fn(const uc_onnx_task *t, const uc_approx *operand, const uc_onnx_dtype *dtype) {
  if (uc_fn_operands(t->fn) == 1) return of_one(t, operand[0]);
  if (uc_fn_operands(t->fn) == 2) return of_two(t, operand[0], operand[1]);
  if (t->fn == UC_FN_WHERE) {
    if (is_exact(operand[0])) return operand[operand[0].value != 0 ? 1 : 2];
    return operand[0].value != 0 ? uc_approx_hull(operand[1], operand[2])
                                 : uc_approx_hull(operand[2], operand[1]);
  }
  uc_approx low = dtype[1] ? operand[1] : uc_approx_exact(t->attr[0]);
  uc_approx high = dtype[2] ? operand[2] : uc_approx_exact(t->attr[1]);
  return uc_approx_clamp(operand[0], low, high);
}
