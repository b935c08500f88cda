/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of one operand: their formulas, where they turn, and how far a good float32
 * implementation may be off. The table in the middle is the one place with these constants;
 * docs/MATH.md repeats and explains it.
 */
#include <assert.h>
#include <math.h>

#include "reference_parts.h"

/* ---- formulas, as PyTorch documents them, arranged so that float64 does not cancel ---- */

static double elu(double x, const double *attr) { return x > 0 ? x : attr[0] * expm1(x); }

static double selu(double x, const double *attr) { return attr[1] * elu(x, attr); }

static double celu(double x, const double *attr) {
  return x > 0 ? x : attr[0] * expm1(x / attr[0]);
}

static double softsign(double x, const double *attr) {
  (void)attr;
  return x / (1 + fabs(x));
}

static double gelu(double x, const double *attr) {
  (void)attr;
  return 0.5 * x * erfc(-x * sqrt(0.5));
}

/* 0.5 (1 + tanh z) = 1 / (1 + exp(-2z)) */
static double gelu_tanh(double x, const double *attr) {
  (void)attr;
  static const double root_2_over_pi = 0.7978845608028654;
  double z = root_2_over_pi * (x + 0.044715 * x * x * x);
  return x / (1 + exp(-2 * z));
}

static double sigmoid(double x, const double *attr) {
  (void)attr;
  return 1 / (1 + exp(-x));
}

static double silu(double x, const double *attr) {
  (void)attr;
  return x / (1 + exp(-x));
}

/* tanh(log(1 + t)) = t (t + 2) / (t (t + 2) + 2) with t = exp(x) */
static double mish(double x, const double *attr) {
  (void)attr;
  if (x > 40) return x;
  double t = exp(x), p = t * (t + 2);
  return x * (p / (p + 2));
}

static double hardswish(double x, const double *attr) {
  (void)attr;
  return isnan(x) ? x : x * fmin(fmax(x + 3, 0), 6) / 6;
}

static double softplus_curve(double x, const double *attr) {
  double z = attr[0] * x;
  return (fmax(z, 0) + log1p(exp(-fabs(z)))) / attr[0];
}

static double hyperbolic_tangent(double x, const double *attr) {
  (void)attr;
  return tanh(x);
}

static double exponential(double x, const double *attr) {
  (void)attr;
  return exp(x);
}

static double square_root(double x, const double *attr) {
  (void)attr;
  return sqrt(x);
}

/* ---- magnitudes, where a formula cancels and rounding applies to more than the result ---- */

/* 0.5 x (1 + erf(..)): at x << 0 the sum cancels, and what is left is a rounding of 1, times x. */
static double cancels_to_x(uc_approx x) { return uc_approx_largest(x); }

/* x (x / 6 + 0.5): the sum cancels at -3. Below, the clamp makes an exact 0. */
static double cancels_at_minus_3(uc_approx x) {
  if (x.high < -3.0001) return 0;
  double largest = fmax(fabs(fmax(x.low, -3.0001)), fabs(x.high));
  return largest * fmin(1, largest / 6 + 0.5);
}

/* ---- the table ---- */

/*
 * roundings  of the result, in units of u = 2^-24 relative: half ulps of a good implementation.
 *            exp within 2 ulp makes 4; expm1, tanh, log1p within 4 ulp make 8; what is built from
 *            them adds 1 per product, sum or quotient and 1 per attribute held in float32.
 * magnitude  what the roundings apply to when not the result.
 * floor      absolute: an implementation may flush to 0 where its exp(x) is subnormal, or where its
 *            exp(-x) overflows (x < -88.7), and x times what is then missing is below 2^-120.
 * turn       where the function turns from falling to rising; elsewhere it is monotone. Where it
 *            rises throughout a value in the middle does no harm; NAN stands for none.
 */
typedef struct function {
  double (*formula)(double x, const double *attr);
  double roundings;
  double (*magnitude)(uc_approx x);
  double floor;
  double turn;
} function;

static const function *find(upconv_op_kind kind) {
  static const function table[UPCONV_OP_COUNT] = {
      [UPCONV_OP_ELU] = {elu, 10, NULL, 0x1p-126, 0},
      [UPCONV_OP_SELU] = {selu, 11, NULL, 0x1p-126, 0},
      [UPCONV_OP_CELU] = {celu, 10, NULL, 0x1p-126, 0},
      [UPCONV_OP_SOFTPLUS] = {softplus_curve, 8, NULL, 0x1p-126, NAN},
      [UPCONV_OP_SOFTSIGN] = {softsign, 3, NULL, 0x1p-149, NAN},
      [UPCONV_OP_GELU] = {gelu, 6, cancels_to_x, 0x1p-126, -0.7517915241},
      [UPCONV_OP_GELU_TANH] = {gelu_tanh, 8, cancels_to_x, 0x1p-126, -0.7524614220},
      [UPCONV_OP_SILU] = {silu, 10, NULL, 0x1p-120, -1.2784645428},
      [UPCONV_OP_MISH] = {mish, 16, NULL, 0x1p-120, -1.1924327},
      [UPCONV_OP_HARDSWISH] = {hardswish, 4, cancels_at_minus_3, 0x1p-149, -1.5},
      [UPCONV_OP_SIGMOID] = {sigmoid, 8, NULL, 0x1p-126, NAN},
      [UPCONV_OP_TANH] = {hyperbolic_tangent, 8, NULL, 0x1p-126, NAN},
      [UPCONV_OP_SQRT] = {square_root, 1, NULL, 0, NAN},
      [UPCONV_OP_EXP] = {exponential, 4, NULL, 0x1p-126, NAN},
  };
  return &table[kind];
}

/* Roundings of the result that come from the rounded argument z of an exponential: exp(z (1 + 2u))
 * is off by 2 |z| u. */
static double argument_roundings(upconv_op_kind kind, const double *attr, uc_approx x) {
  double scale = kind == UPCONV_OP_SOFTPLUS ? attr[0] : kind == UPCONV_OP_CELU ? 1 / attr[0] : 1;
  if (scale == 1) return 0;
  double z = uc_approx_largest(x) * fabs(scale);
  return 2 * fmax(z, 1);
}

/* The image of an interval under a function that is monotone on both sides of its turn. */
static uc_approx apply(upconv_op_kind kind, const double *attr, uc_approx x) {
  const function *f = find(kind);
  assert(f->formula); /* the table has every function of one operand */
  double value = f->formula(x.value, attr);
  if (uc_approx_is_special(x)) {
    if (!isfinite(value)) return uc_approx_exact(value);
    return uc_approx_round(value, value, value, f->roundings, f->floor);
  }
  double at_low = f->formula(x.low, attr), at_high = f->formula(x.high, attr);
  double low = fmin(at_low, at_high), high = fmax(at_low, at_high);
  if (x.low < f->turn && f->turn < x.high) {
    double at_turn = f->formula(f->turn, attr);
    low = fmin(low, at_turn);
    high = fmax(high, at_turn);
  }
  double roundings = f->roundings + argument_roundings(kind, attr, x);
  if (!f->magnitude) return uc_approx_round(value, low, high, roundings, f->floor);
  double error = roundings * UC_ROUNDING * f->magnitude(x) + f->floor;
  return uc_approx_round(value, low, high, 0, error);
}

/* ---- functions with a case of their own ---- */

/* Linear where beta x > threshold: a jump, since the curve is not yet the line there. Near it
 * either side may be taken. */
static uc_approx softplus(const double *attr, uc_approx x) {
  uc_approx z = uc_approx_mul(uc_approx_stored(attr[0]), x);
  uc_approx threshold = uc_approx_stored(attr[1]);
  if (isnan(x.value) || z.low > threshold.high) return x;
  uc_approx curve = apply(UPCONV_OP_SOFTPLUS, attr, x);
  if (z.high <= threshold.low) return curve;
  return z.value > threshold.value ? uc_approx_hull(x, curve) : uc_approx_hull(curve, x);
}

/* A number and a NaN are both possible where the error reaches below 0. */
static uc_approx guarded_sqrt(const double *attr, uc_approx x) {
  if (isnan(x.value) || x.high < 0) return uc_approx_exact(NAN);
  if (x.low < 0) return uc_approx_undecided(sqrt(x.value));
  return apply(UPCONV_OP_SQRT, attr, x);
}

static uc_approx hardsigmoid(const double *attr, uc_approx x) {
  uc_approx line =
      uc_approx_add(uc_approx_mul(uc_approx_stored(attr[0]), x), uc_approx_stored(attr[1]));
  return uc_approx_clamp(line, uc_approx_exact(0), uc_approx_exact(1));
}

static uc_approx absolute(uc_approx x) {
  if (x.high <= 0) return uc_approx_neg(x);
  if (isnan(x.value) || x.low >= 0) return x;
  return (uc_approx){fabs(x.value), 0, uc_approx_largest(x)};
}

uc_approx uc_approx_function(upconv_op_kind kind, const double *attr, uc_approx x) {
  if (uc_approx_is_undecided(x)) return x;
  switch ((int)kind) {
  case UPCONV_OP_RELU:
    return uc_approx_clamp(x, uc_approx_exact(0), uc_approx_exact(INFINITY));
  case UPCONV_OP_CLAMP:
    return uc_approx_clamp(x, uc_approx_stored(attr[0]), uc_approx_stored(attr[1]));
  case UPCONV_OP_LEAKY_RELU:
    return uc_approx_two_slope(x, uc_approx_exact(1), uc_approx_stored(attr[0]));
  case UPCONV_OP_ABS:
    return absolute(x);
  case UPCONV_OP_NEG:
    return uc_approx_neg(x);
  case UPCONV_OP_SQRT:
    return guarded_sqrt(attr, x);
  case UPCONV_OP_SOFTPLUS:
    return softplus(attr, x);
  case UPCONV_OP_HARDSIGMOID:
    return hardsigmoid(attr, x);
  default:
    return apply(kind, attr, x);
  }
}
