/* SPDX-License-Identifier: Apache-2.0 */
/* Overflow-checked int64 arithmetic: each returns false on overflow and leaves *result alone. */
#ifndef UPCONV_CHECKED_H
#define UPCONV_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool uc_add(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

static inline bool uc_mul(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

/* Product of n factors; false also when a factor is negative. An empty product is 1; a factor 0 gives 0 even where the
   rest would overflow. */
static inline bool uc_product(const int64_t *factor, int n, int64_t *result) {
  int64_t r = 1;
  bool zero = false, fits = true;
  for (int i = 0; i < n; i++) {
    if (factor[i] < 0) return false;
    if (factor[i] == 0)
      zero = true;
    else if (!uc_mul(r, factor[i], &r))
      fits = false;
  }
  if (!zero && !fits) return false;
  *result = zero ? 0 : r;
  return true;
}

/* Floor division and the matching remainder in [0, b), b > 0. */
static inline int64_t uc_floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static inline int64_t uc_ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t uc_mod(int64_t a, int64_t b) { return a - uc_floor_div(a, b) * b; }
static inline int64_t uc_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t uc_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
