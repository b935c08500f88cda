/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax, log_softmax and logsumexp over channels.
 *
 * With m = max x, t_j = exp(x_j - m), S = sum t_j and y_j = t_j / S: float32 computes x_j - m
 * within u |x_j - m|, so t_j within (4 + |x_j - m|) u of itself, and S, of C terms in sequence,
 * within (sum y_j (4 + |x_j - m|) + C) u. What an error in the operands does is exact: each result
 * rises in its own x and falls, or rises, in the others.
 */
#include <math.h>
#include <stdlib.h>

#include "reference_parts.h"
#include "status.h"

static const double EXP_FLOOR = 0x1p-126; /* exp may flush its subnormal results */

typedef struct line {
  uc_approx *x;
  int64_t n;
  double most;                   /* of the values */
  double sum, sum_low, sum_high; /* of exp(x - most), with all elements at value, low, high */
  double sum_roundings;          /* of S, relative, in u */
  bool nan, undecided;           /* of some element */
} line;

static void summarise(line *l) {
  l->most = -INFINITY;
  l->nan = l->undecided = false;
  for (int64_t c = 0; c < l->n; c++) {
    if (uc_approx_is_undecided(l->x[c]))
      l->undecided = true;
    else if (isnan(l->x[c].value))
      l->nan = true;
    l->most = fmax(l->most, l->x[c].value);
  }
  l->sum = l->sum_low = l->sum_high = l->sum_roundings = 0;
  for (int64_t c = 0; c < l->n; c++) {
    double t = exp(l->x[c].value - l->most);
    l->sum += t;
    l->sum_low += exp(l->x[c].low - l->most);
    l->sum_high += exp(l->x[c].high - l->most);
    if (t > 0) l->sum_roundings += t * (4 + l->most - l->x[c].value);
  }
  l->sum_roundings = l->sum_roundings / l->sum + (double)l->n;
  /* Intervals hundreds wide say nothing, and their exponentials overflow. */
  if (isinf(l->sum_high)) l->undecided = true;
}

/* The sum of the others at one end, and this element at the other end. */
static double mixed(double sum, double out, double in) { return fmax(sum - out, 0) + in; }

static uc_approx softmax(const line *l, int64_t c) {
  uc_approx x = l->x[c];
  double value = exp(x.value - l->most) / l->sum;
  double low = exp(x.low - l->most), high = exp(x.high - l->most);
  double at_low = low / mixed(l->sum_high, high, low);
  double at_high = high / mixed(l->sum_low, low, high);
  double distance = isinf(x.value) ? 0 : l->most - x.value;
  /* 4 + distance for t, the sum's, and 2 for the quotient */
  return uc_approx_round(value, at_low, at_high, 6 + distance + l->sum_roundings, EXP_FLOOR);
}

static uc_approx log_softmax(const line *l, int64_t c) {
  uc_approx x = l->x[c];
  double log_sum = log(l->sum);
  if (isinf(x.value)) return x;
  double value = x.value - l->most - log_sum;
  double low = exp(x.low - l->most), high = exp(x.high - l->most);
  double at_low = x.low - l->most - log(mixed(l->sum_high, high, low));
  double at_high = x.high - l->most - log(mixed(l->sum_low, low, high));
  /* x - m, log S (within 2 ulp, of a rounded S), their difference */
  double roundings = l->most - x.value + l->sum_roundings + 4 * log_sum + fabs(value);
  return uc_approx_settle(value, at_low - roundings * UC_ROUNDING,
                          fmin(at_high + roundings * UC_ROUNDING, fmax(at_high, 0)));
}

static uc_approx logsumexp(const line *l) {
  double log_sum = log(l->sum), value = l->most + log_sum;
  double roundings = l->sum_roundings + 4 * log_sum + fabs(value);
  return uc_approx_settle(value, l->most + log(l->sum_low) - roundings * UC_ROUNDING,
                          l->most + log(l->sum_high) + roundings * UC_ROUNDING);
}

/* NaN anywhere gives NaN. An infinity makes Inf - Inf: NaN, except that logsumexp is documented to
 * give it back. */
static bool decided_by_infinities(const line *l, upconv_op_kind kind, uc_approx *result) {
  if (l->nan)
    *result = uc_approx_exact(NAN);
  else if (l->undecided)
    *result = uc_approx_undecided(l->most);
  else if (isinf(l->most))
    *result = uc_approx_exact(kind == UPCONV_OP_LOGSUMEXP ? l->most : (double)NAN);
  else
    return false;
  return true;
}

static void position(upconv_op_kind kind, line *l, uc_approx *out, int64_t plane) {
  uc_approx all;
  summarise(l);
  bool same = decided_by_infinities(l, kind, &all);
  int64_t results = kind == UPCONV_OP_LOGSUMEXP ? 1 : l->n;
  for (int64_t c = 0; c < results; c++) {
    if (same)
      out[c * plane] = all;
    else if (kind == UPCONV_OP_SOFTMAX)
      out[c * plane] = softmax(l, c);
    else if (kind == UPCONV_OP_LOG_SOFTMAX)
      out[c * plane] = log_softmax(l, c);
    else
      out[c * plane] = logsumexp(l);
  }
}

upconv_status uc_reference_channels(const uc_reference_state *run, const upconv_op *op,
                                    uc_reference_values *result) {
  const uc_reference_values *from = &run->values[op->operand[0].index];
  int64_t channels = from->shape[1], plane = from->shape[2] * from->shape[3] * from->shape[4];
  line l = {.n = channels};
  l.x = malloc(((size_t)channels + 1) * sizeof *l.x);
  if (!l.x) return uc_fail(UPCONV_OUT_OF_MEMORY, "the oracle's channels do not fit in memory");
  for (int64_t p = 0; p < plane; p++) {
    for (int64_t c = 0; c < channels; c++) l.x[c] = from->at[c * plane + p];
    position(op->kind, &l, result->at + p, plane);
  }
  free(l.x);
  return UPCONV_OK;
}
