/* SPDX-License-Identifier: Apache-2.0 */
/* In float64, so that a result is right to its last bit in float32 in all but a few cases in
   2^29. */
#include "fn.h"

#include <math.h>

int uc_fn_operands(uc_fn fn) {
  if (fn == UC_FN_NONE) return 0;
  if (fn <= UC_FN_XOR) return 2;
  return fn <= UC_FN_CLIP ? 3 : 1;
}

static double smooth(uc_fn fn, const double *attr, double x) {
  static const double root_half = 0.70710678118654752440;
  static const double root_2_over_pi = 0.79788456080286535588;
  switch (fn) {
  case UC_FN_ELU:
    return x > 0 ? x : attr[0] * expm1(x);
  case UC_FN_SELU:
    return attr[1] * (x > 0 ? x : attr[0] * expm1(x));
  case UC_FN_CELU:
    return x > 0 ? x : attr[0] * expm1(x / attr[0]);
  case UC_FN_SOFTPLUS:
    if (attr[0] * x > attr[1]) return x;
    return (fmax(attr[0] * x, 0) + log1p(exp(-fabs(attr[0] * x)))) / attr[0];
  case UC_FN_SOFTSIGN:
    return x / (1 + fabs(x));
  case UC_FN_GELU:
    return 0.5 * x * erfc(-x * root_half);
  case UC_FN_GELU_TANH:
    return x / (1 + exp(-2 * root_2_over_pi * (x + 0.044715 * x * x * x)));
  case UC_FN_SILU:
    return x / (1 + exp(-attr[0] * x));
  case UC_FN_MISH:
    return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
  case UC_FN_SIGMOID:
    return 1 / (1 + exp(-x));
  case UC_FN_TANH:
    return tanh(x);
  case UC_FN_SQRT:
    return sqrt(x);
  case UC_FN_EXP:
    return exp(x);
  case UC_FN_LOG:
    return log(x);
  case UC_FN_ERF:
    return erf(x);
  case UC_FN_SIN:
    return sin(x);
  case UC_FN_COS:
    return cos(x);
  default:
    return NAN;
  }
}

/* Comparisons are written so that NaN stays NaN. */
static double clip(double x, double low, double high) {
  if (x < low) x = low;
  return x > high ? high : x;
}

static double piecewise(uc_fn fn, const double *attr, double x) {
  switch (fn) {
  case UC_FN_CAST:
    return x;
  case UC_FN_NOT:
    return x == 0;
  case UC_FN_RELU:
    return x < 0 ? 0 : x;
  case UC_FN_LEAKY_RELU:
    return x < 0 ? attr[0] * x : x;
  case UC_FN_HARDSWISH:
    return x * clip(x + 3, 0, 6) / 6;
  case UC_FN_HARDSIGMOID:
    return clip(attr[0] * x + attr[1], 0, 1);
  case UC_FN_ABS:
    return fabs(x);
  case UC_FN_NEG:
    return -x;
  case UC_FN_RECIPROCAL:
    return 1 / x;
  case UC_FN_FLOOR:
    return floor(x);
  case UC_FN_CEIL:
    return ceil(x);
  case UC_FN_ROUND:
    return nearbyint(x);
  case UC_FN_SIGN:
    return x > 0 ? 1 : x < 0 ? -1 : x;
  default:
    return smooth(fn, attr, x);
  }
}

static double binary(uc_fn fn, double a, double b) {
  switch (fn) {
  case UC_FN_ADD:
    return a + b;
  case UC_FN_SUB:
    return a - b;
  case UC_FN_MUL:
    return a * b;
  case UC_FN_DIV:
    return a / b;
  case UC_FN_POW:
    return pow(a, b);
  case UC_FN_MAX:
    return isnan(a) || a > b ? a : b;
  case UC_FN_MIN:
    return isnan(a) || a < b ? a : b;
  case UC_FN_PRELU:
    return a < 0 ? a * b : a;
  case UC_FN_EQUAL:
    return a == b;
  case UC_FN_GREATER:
    return a > b;
  case UC_FN_LESS:
    return a < b;
  case UC_FN_GREATER_EQUAL:
    return a >= b;
  case UC_FN_LESS_EQUAL:
    return a <= b;
  case UC_FN_AND:
    return a != 0 && b != 0;
  case UC_FN_OR:
    return a != 0 || b != 0;
  case UC_FN_XOR:
    return (a != 0) != (b != 0);
  default:
    return NAN;
  }
}

void uc_fn_row(uc_fn fn, const double *attr, const double *const *x, double *y, int64_t n) {
  switch (uc_fn_operands(fn)) {
  case 1:
    for (int64_t i = 0; i < n; i++) y[i] = piecewise(fn, attr, x[0][i]);
    break;
  case 2:
    for (int64_t i = 0; i < n; i++) y[i] = binary(fn, x[0][i], x[1][i]);
    break;
  case 3:
    for (int64_t i = 0; i < n; i++)
      y[i] =
          fn == UC_FN_WHERE ? (x[0][i] != 0 ? x[1][i] : x[2][i]) : clip(x[0][i], x[1][i], x[2][i]);
    break;
  default:
    break;
  }
}

/* ---- integers ---- */

/* Unsigned arithmetic wraps around where signed would be undefined. */
static int64_t wrap(uint64_t value) { return (int64_t)value; }

/* Integer division by zero has no right result; it must not trap. */
static int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrap(0 - (uint64_t)a) : a / b;
}

static int64_t power(int64_t a, int64_t b) {
  uint64_t result = 1, base = (uint64_t)a;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (; b > 0; b /= 2, base *= base)
    if (b % 2) result *= base;
  return wrap(result);
}

static bool binary_int(uc_fn fn, int64_t a, int64_t b, int64_t *y) {
  switch (fn) {
  case UC_FN_ADD:
    *y = wrap((uint64_t)a + (uint64_t)b);
    return true;
  case UC_FN_SUB:
    *y = wrap((uint64_t)a - (uint64_t)b);
    return true;
  case UC_FN_MUL:
    *y = wrap((uint64_t)a * (uint64_t)b);
    return true;
  case UC_FN_DIV:
    *y = divide(a, b);
    return true;
  case UC_FN_POW:
    *y = power(a, b);
    return true;
  case UC_FN_MAX:
    *y = a > b ? a : b;
    return true;
  case UC_FN_MIN:
    *y = a < b ? a : b;
    return true;
  case UC_FN_EQUAL:
    *y = a == b;
    return true;
  case UC_FN_GREATER:
    *y = a > b;
    return true;
  case UC_FN_LESS:
    *y = a < b;
    return true;
  case UC_FN_GREATER_EQUAL:
    *y = a >= b;
    return true;
  case UC_FN_LESS_EQUAL:
    *y = a <= b;
    return true;
  case UC_FN_AND:
    *y = a && b;
    return true;
  case UC_FN_OR:
    *y = a || b;
    return true;
  case UC_FN_XOR:
    *y = !a != !b;
    return true;
  default:
    return false;
  }
}

static bool unary_int(uc_fn fn, int64_t a, int64_t *y) {
  switch (fn) {
  case UC_FN_CAST:
    *y = a;
    return true;
  case UC_FN_NOT:
    *y = !a;
    return true;
  case UC_FN_RELU:
    *y = a < 0 ? 0 : a;
    return true;
  case UC_FN_ABS:
    *y = a < 0 ? wrap(0 - (uint64_t)a) : a;
    return true;
  case UC_FN_NEG:
    *y = wrap(0 - (uint64_t)a);
    return true;
  case UC_FN_SIGN:
    *y = (a > 0) - (a < 0);
    return true;
  default:
    return false;
  }
}

static int64_t ternary_int(uc_fn fn, int64_t a, int64_t b, int64_t c) {
  if (fn == UC_FN_WHERE) return a ? b : c;
  if (a < b) a = b;
  return a > c ? c : a;
}

bool uc_fn_row_int(uc_fn fn, const int64_t *const *x, int64_t *y, int64_t n) {
  bool known = true;
  for (int64_t i = 0; i < n && known; i++) {
    if (uc_fn_operands(fn) == 1)
      known = unary_int(fn, x[0][i], &y[i]);
    else if (uc_fn_operands(fn) == 2)
      known = binary_int(fn, x[0][i], x[1][i], &y[i]);
    else
      y[i] = ternary_int(fn, x[0][i], x[1][i], x[2][i]);
  }
  return known;
}
