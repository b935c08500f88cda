/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on intervals: the exact result's value, and where correctly rounded float32 arithmetic
 * may land. */
#include <float.h>
#include <math.h>

#include "reference_parts.h"

uc_approx uc_approx_exact(double value) { return (uc_approx){value, value, value}; }

uc_approx uc_approx_undecided(double value) { return (uc_approx){value, -INFINITY, INFINITY}; }

bool uc_approx_is_undecided(uc_approx a) {
  return a.low < 0 && isinf(a.low) && a.high > 0 && isinf(a.high);
}

bool uc_approx_is_special(uc_approx a) { return !isfinite(a.value) && !uc_approx_is_undecided(a); }

uc_approx uc_approx_settle(double value, double low, double high) {
  if (isnan(value)) return uc_approx_exact(NAN);
  if (isnan(low) || isnan(high)) return uc_approx_undecided(value);
  if (low > (double)FLT_MAX) return uc_approx_exact(INFINITY);
  if (high < -(double)FLT_MAX) return uc_approx_exact(-INFINITY);
  if (high > (double)FLT_MAX || low < -(double)FLT_MAX) return uc_approx_undecided(value);
  return (uc_approx){value, fmin(low, value), fmax(high, value)};
}

uc_approx uc_approx_stored(double value) {
  if (!isfinite(value)) return uc_approx_exact(value);
  if (fabs(value) <= (double)FLT_MAX && (double)(float)value == value)
    return uc_approx_exact(value);
  return uc_approx_round(value, value, value, 1, UC_SMALLEST);
}

uc_approx uc_approx_round(double value, double low, double high, double roundings, double floor) {
  double down = low - (roundings * UC_ROUNDING * fabs(low) + floor);
  double up = high + (roundings * UC_ROUNDING * fabs(high) + floor);
  if (low >= 0) down = fmax(down, 0);
  if (high <= 0) up = fmin(up, 0);
  return uc_approx_settle(value, down, up);
}

uc_approx uc_approx_widen(uc_approx a, double error) {
  if (uc_approx_is_undecided(a) || uc_approx_is_special(a)) return a;
  return uc_approx_settle(a.value, a.low - error, a.high + error);
}

uc_approx uc_approx_hull(uc_approx a, uc_approx b) {
  if (uc_approx_is_undecided(a) || uc_approx_is_undecided(b)) return uc_approx_undecided(a.value);
  if (uc_approx_is_special(a) || uc_approx_is_special(b)) {
    bool same = isnan(a.value) ? isnan(b.value) : a.value == b.value;
    return same ? a : uc_approx_undecided(a.value);
  }
  return (uc_approx){a.value, fmin(a.low, b.low), fmax(a.high, b.high)};
}

double uc_approx_largest(uc_approx a) { return fmax(fabs(a.low), fabs(a.high)); }

uc_approx uc_approx_add(uc_approx a, uc_approx b) {
  double value = a.value + b.value;
  if (uc_approx_is_undecided(a) || uc_approx_is_undecided(b)) return uc_approx_undecided(value);
  if (uc_approx_is_special(a) || uc_approx_is_special(b)) return uc_approx_exact(value);
  return uc_approx_round(value, a.low + b.low, a.high + b.high, 1, 0);
}

uc_approx uc_approx_neg(uc_approx a) {
  if (uc_approx_is_undecided(a)) return uc_approx_undecided(-a.value);
  return (uc_approx){-a.value, -a.high, -a.low};
}

uc_approx uc_approx_sub(uc_approx a, uc_approx b) { return uc_approx_add(a, uc_approx_neg(b)); }

/* The sign of a times an infinity is not known: a may be on either side of 0, or be 0. */
static bool sign_is_open(uc_approx a) { return a.low <= 0 && a.high >= 0 && a.low != a.high; }

static double least(double a, double b, double c, double d) { return fmin(fmin(a, b), fmin(c, d)); }

static double most(double a, double b, double c, double d) { return fmax(fmax(a, b), fmax(c, d)); }

uc_approx uc_approx_mul(uc_approx a, uc_approx b) {
  double value = a.value * b.value;
  if (uc_approx_is_undecided(a) || uc_approx_is_undecided(b)) return uc_approx_undecided(value);
  if (isnan(a.value) || isnan(b.value)) return uc_approx_exact(NAN);
  if (uc_approx_is_special(a) || uc_approx_is_special(b)) {
    if (sign_is_open(a) || sign_is_open(b)) return uc_approx_undecided(value);
    return uc_approx_exact(value);
  }
  double ll = a.low * b.low, lh = a.low * b.high, hl = a.high * b.low, hh = a.high * b.high;
  return uc_approx_round(value, least(ll, lh, hl, hh), most(ll, lh, hl, hh), 1, UC_SMALLEST);
}

/* Two roundings: a division by a parameter may be a product with its rounded reciprocal. */
uc_approx uc_approx_div(uc_approx a, uc_approx b) {
  double value = a.value / b.value;
  if (uc_approx_is_undecided(a) || uc_approx_is_undecided(b)) return uc_approx_undecided(value);
  if (isnan(a.value) || isnan(b.value)) return uc_approx_exact(NAN);
  if (isinf(b.value)) return uc_approx_exact(value);
  if (b.low <= 0 && b.high >= 0) return uc_approx_undecided(value);
  if (isinf(a.value)) return uc_approx_exact(value);
  double ll = a.low / b.low, lh = a.low / b.high, hl = a.high / b.low, hh = a.high / b.high;
  return uc_approx_round(value, least(ll, lh, hl, hh), most(ll, lh, hl, hh), 2, UC_SMALLEST);
}

uc_approx uc_approx_clamp(uc_approx x, uc_approx lowest, uc_approx highest) {
  if (uc_approx_is_undecided(x) || isnan(x.value)) return x;
  return (uc_approx){fmin(fmax(x.value, lowest.value), highest.value),
                     fmin(fmax(x.low, lowest.low), highest.low),
                     fmin(fmax(x.high, lowest.high), highest.high)};
}

uc_approx uc_approx_max(uc_approx a, uc_approx b) {
  if (uc_approx_is_special(a) && isnan(a.value)) return a;
  if (uc_approx_is_special(b) && isnan(b.value)) return b;
  double value = a.value > b.value || isnan(a.value) ? a.value : b.value;
  if (uc_approx_is_undecided(a) || uc_approx_is_undecided(b)) return uc_approx_undecided(value);
  return (uc_approx){value, fmax(a.low, b.low), fmax(a.high, b.high)};
}

/* A slope of exactly 1 is no product. */
static uc_approx slope_times(uc_approx slope, uc_approx x) {
  return slope.low == 1 && slope.high == 1 ? x : uc_approx_mul(slope, x);
}

uc_approx uc_approx_two_slope(uc_approx x, uc_approx a, uc_approx b) {
  if (uc_approx_is_undecided(x)) return x;
  if (isnan(x.value) || x.low > 0) return slope_times(a, x);
  if (x.high <= 0) return slope_times(b, x);
  uc_approx above = slope_times(a, (uc_approx){fmax(x.value, 0), 0, x.high});
  uc_approx below = slope_times(b, (uc_approx){fmin(x.value, 0), x.low, 0});
  return x.value > 0 ? uc_approx_hull(above, below) : uc_approx_hull(below, above);
}
