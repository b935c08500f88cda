/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of vectors. Every lane takes the same path, special values included, so a result
 * depends on its argument alone. Polynomials are minimax fits of our own; multiplications and
 * additions may be fused.
 *
 * Largest errors found, in units of the last place, over one float in 31 of all there are,
 * subnormal results included (tests/test_kernels.c repeats this for one in 257); with fused
 * multiply-add, and without:
 *
 *   exp 0.98 0.94       expm1 1.43 1.48   log 0.83 0.83   log1p_unit 1.41 1.43
 *   sigmoid 1.79 1.79   tanh 1.84 1.99
 *   silu 1.93 2.24      softplus 1.65 1.69
 *   gelu 5.11 5.33      gelu_tanh 2.12 2.41   mish 4.14 3.63
 */
#ifndef UPCONV_CPU_VECMATH_H
#define UPCONV_CPU_VECMATH_H

#include "simd.h"

#define LOG2_E 0x1.715476p+0f
/* ln 2 in two parts: the first has so few bits that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

/* ---- exponentials ---- */

/* exp = (1 + rest) * 2^exponent, the exponent an integer. Kept apart where the result is a product:
   m * (1 + rest) is rounded once, and scaling comes last, so that a result below the smallest
   normal number is rounded just once more. */
typedef struct uc_split {
  vf rest, exponent;
} uc_split;

/* The integer nearest to x / ln 2: adding 1.5 * 2^23 leaves no room for a fraction. */
UC_INLINE vf nearest_power(vf x) { return (x * LOG2_E + 0x1.8p23f) - 0x1.8p23f; }

/* exp(r) - 1 for |r| <= ln 2 / 2. */
UC_INLINE vf expm1_reduced(vf r) {
  vf q = r * 0x1.a03552p-13f + 0x1.6d7572p-10f;
  q = q * r + 0x1.11118ap-7f;
  q = q * r + 0x1.5554aep-5f;
  q = q * r + 0x1.555554p-3f;
  q = q * r + 0.5f;
  return r * r * q + r;
}

/* exp(x + low) for -115 <= x <= 89 and |low| far below 1. */
UC_INLINE uc_split exp_split_2(vf x, vf low) {
  vf n = nearest_power(x + low);
  vf r = (x - n * LN2_HIGH) - (n * LN2_LOW - low);
  return (uc_split){expm1_reduced(r), n};
}

UC_INLINE uc_split exp_split(vf x) {
  vf n = nearest_power(x);
  vf r = (x - n * LN2_HIGH) - n * LN2_LOW;
  return (uc_split){expm1_reduced(r), n};
}

UC_INLINE vf exp_of(uc_split e) { return vf_ldexp(e.rest + 1.0f, e.exponent); }

/* m exp */
UC_INLINE vf times_exp(vf m, uc_split e) { return vf_ldexp(m * e.rest + m, e.exponent); }

/* NaN stays: the bound is the first operand. */
UC_INLINE vf vf_at_least(vf x, float bound) { return vf_greater(vf_set(bound), x); }
UC_INLINE vf vf_at_most(vf x, float bound) { return vf_smaller(vf_set(bound), x); }

UC_INLINE vf vf_exp(vf x) { return exp_of(exp_split(vf_at_most(vf_at_least(x, -105.0f), 89.0f))); }

/* exp(x) - 1. Half of it is computed, so that 2^n does not overflow before the result does. */
UC_INLINE vf vf_expm1(vf x) {
  uc_split e = exp_split(vf_at_most(vf_at_least(x, -20.0f), 89.0f));
  vf half = vf_pow2(e.exponent - 1.0f);
  vf y = half * e.rest + (half - 0.5f);
  return vf_with_sign(y + y, x);
}

/* e / (e + 2) for e = exp(2 |x|) - 1; where e is small, as e/2 - e/2 (e / (e + 2)), whose first
   term is exact. */
UC_INLINE vf vf_tanh(vf x) {
  vf e = vf_expm1(2.0f * vf_at_most(vf_abs(x), 10.0f));
  vf quotient = e / (e + 2.0f);
  vf half = 0.5f * e;
  vf y = vf_select(vm_greater(vf_set(1.0f), e), half - half * quotient, quotient);
  return vf_with_sign(y, x);
}

/*
 * 1 + e for e <= 1. What rounding it drops is taken off e.rest: for three additions that nearly
 * corrects the quotient e / (1 + e).
 */
UC_INLINE vf one_plus(uc_split *e) {
  vf whole = exp_of(*e);
  vf sum = whole + 1.0f;
  e->rest -= whole - (sum - 1.0f);
  return sum;
}

/* exp(-|x|) is at most 1, so nothing overflows, and for x < 0 the quotient keeps its relative
   accuracy. */
UC_INLINE vf vf_sigmoid(vf x) {
  uc_split e = exp_split(-vf_at_most(vf_abs(x), 105.0f));
  vf sum = one_plus(&e);
  return vf_select(vm_greater(vf_set(0.0f), x), exp_of(e), vf_set(1.0f)) / sum;
}

/* ---- logarithms ---- */

/* log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)]. */
UC_INLINE vf log1p_reduced(vf f) {
  vf p = f * 0x1.1457a4p-4f - 0x1.de3c12p-4f;
  p = p * f + 0x1.e6f06ap-4f;
  p = p * f - 0x1.fc2208p-4f;
  p = p * f + 0x1.233768p-3f;
  p = p * f - 0x1.555c4ep-3f;
  p = p * f + 0x1.99a4b6p-3f;
  p = p * f - 0x1.000006p-2f;
  p = p * f + 0x1.555548p-2f;
  vf square = f * f;
  return (square * f * p - 0.5f * square) + f;
}

/* log(x) for x that is 0, normal and positive, infinite, or NaN. */
UC_INLINE vf vf_log(vf x) {
  vu above = (vu)x - 0x3f3504f3u; /* sqrt(1/2): the fraction then lies in [sqrt(1/2), sqrt(2)) */
  vi exponent = (vi)above >> 23;
  vf f = (vf)((vu)x - ((vu)exponent << 23)) - 1.0f;
  vf n = __builtin_convertvector(exponent, vf);
  vf y = n * LN2_HIGH + (n * LN2_LOW + log1p_reduced(f));
  y = vf_select(vm_equal(x, vf_set(0.0f)), vf_set(-INFINITY), y);
  return vf_select(vm_greater(vf_set(INFINITY), x), y, x);
}

/* log(1 + x) for x in [0, 1]: halved above sqrt(2) - 1, which is exact. */
UC_INLINE vf log1p_unit(vf x) {
  vm large = vm_greater(x, vf_set(0x1.a8279ap-2f));
  vf f = vf_select(large, 0.5f * x - 0.5f, x);
  vf ln2 = vf_select(large, vf_set(LN2_HIGH), vf_set(0.0f));
  vf ln2_low = vf_select(large, vf_set(LN2_LOW), vf_set(0.0f));
  return ln2 + (ln2_low + log1p_reduced(f));
}

/* log(1 + exp(x)) */
UC_INLINE vf vf_softplus(vf x) { return vf_at_least(x, 0.0f) + log1p_unit(vf_exp(-vf_abs(x))); }

/* ---- activations whose negative tail is x times something tiny ----
 * At -infinity all of them are -infinity * 0, NaN, as in PyTorch. Below the bounds they are 0. */

UC_INLINE vf nan_at_minus_infinity(vf x, vf y) {
  return vf_select(vm_equal(x, vf_set(-INFINITY)), vf_set(NAN), y);
}

/* x / (1 + exp(-u)) where u has the sign of x, e = exp(-|u|), and magnitude is |x|, bounded so that
   it leaves e alone. */
UC_INLINE vf times_sigmoid(vf x, vf magnitude, uc_split e) {
  vm negative = vm_greater(vf_set(0.0f), x);
  vf sum = one_plus(&e);
  vf y = vf_select(negative, times_exp(-magnitude, e), x) / sum;
  return nan_at_minus_infinity(x, y);
}

UC_INLINE vf vf_silu(vf x) {
  vf magnitude = vf_at_most(vf_abs(x), 115.0f);
  return times_sigmoid(x, magnitude, exp_split(-magnitude));
}

/* The leading 12 bits: products of two such numbers are exact. */
UC_INLINE vf leading_bits(vf x) { return (vf)((vi)x & -0x1000); }

/*
 * x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(u), u = x (A + B x^2). In the tail an
 * error of u is an error of the result times |u|, so u comes in two parts. Every product of the
 * first parts is exact (A, B, t, the square and their sum are cut to 12 bits), and what was cut off
 * is added to the second part.
 */
UC_INLINE vf vf_gelu_tanh(vf x) {
  const float A_HIGH = 0x1.988p+0f, A_LOW = 0x1.14cf5p-14f;
  const float B_HIGH = 0x1.244p-4f, B_LOW = 0x1.3ca936p-18f;
  vf t = vf_at_most(vf_abs(x), 11.0f);
  vf t_high = leading_bits(t), t_low = t - t_high;
  vf square = t_high * t_high;
  vf s_high = leading_bits(square);
  vf s_low = (square - s_high) + (t + t_high) * t_low;
  vf product = B_HIGH * s_high;
  vf v_high = leading_bits(product + A_HIGH);
  vf v_low = ((A_HIGH - v_high) + product) + (A_LOW + (B_LOW * s_high + (B_HIGH + B_LOW) * s_low));
  return times_sigmoid(x, t, exp_split_2(-(t_high * v_high), -(t_low * v_high + t * v_low)));
}

/*
 * x Phi(x), Phi(-t) = exp(-t^2 / 2) R(t) for t >= 0, R a quotient of polynomials with positive
 * coefficients. The square comes in two parts for the same reason as above. x >= 0: x - x Phi(-x),
 * which loses no digit as Phi(-x) <= 1/2. Even and odd powers apart keep the chains of roundings
 * short.
 */
UC_INLINE vf vf_gelu(vf x) {
  vf t = vf_at_most(vf_abs(x), 14.5f);
  vf t_high = leading_bits(t);
  uc_split e = exp_split_2(-0.5f * (t_high * t_high), -0.5f * ((t + t_high) * (t - t_high)));
  vf square = t * t;
  vf p_even = (square * 0x1.0dc41ap-8f + 0x1.7743eap-3f) * square + 0.5f;
  vf p_odd = square * 0x1.4cddf6p-5f + 0x1.c0d058p-2f;
  vf q_even = (square * 0x1.a1369ep-4f + 0x1.33d736p+0f) * square + 1.0f;
  vf q_odd = (square * 0x1.5219p-7f + 0x1.e0bcd2p-2f) * square + 0x1.acaa5cp+0f;
  vf p = (p_odd * t + p_even) * t;
  vf q = q_odd * t + q_even;
  vf tail = times_exp(p / q, e);
  return nan_at_minus_infinity(x, vf_at_least(x, 0.0f) - tail);
}

/* x tanh(softplus(x)) = x w / (w + 2), w = e^x (e^x + 2); as x - 2x / (w + 2) where w is not
   small. */
UC_INLINE vf vf_mish(vf x) {
  vf bounded = vf_at_most(vf_at_least(x, -115.0f), 30.0f);
  uc_split e = exp_split(bounded);
  vf whole = exp_of(e);
  vf w = whole * whole + 2.0f * whole;
  vf tail = times_exp(-bounded * (whole + 2.0f), e);
  vm large = vm_greater(x, vf_set(-0.375f));
  vf from = vf_select(large, x, vf_set(0.0f));
  vf numerator = vf_select(large, 2.0f * bounded, tail);
  return nan_at_minus_infinity(x, from - numerator / (w + 2.0f));
}

#endif
