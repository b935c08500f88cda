/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of the oracle: sum, mean, max and min over channels or over spatial axes. */
#include <float.h>
#include <math.h>

#include "reference_parts.h"

typedef struct reduced {
  uc_approx sum, most, least; /* without rounding */
  double size;                /* sum of |elements| */
  int64_t count;
  bool nan, undecided;
} reduced;

static void take(reduced *r, uc_approx a) {
  r->most = r->count == 0 ? a : uc_approx_max(r->most, a);
  r->least = r->count == 0 ? uc_approx_neg(a) : uc_approx_max(r->least, uc_approx_neg(a));
  r->count++;
  r->sum.value += a.value;
  if (uc_approx_is_undecided(a)) {
    r->undecided = true;
    return;
  }
  r->nan = r->nan || isnan(a.value);
  r->sum.low += a.low;
  r->sum.high += a.high;
  double size = uc_approx_largest(a);
  r->size += size <= DBL_MAX ? size : 0;
}

/* Channels are added in float32, one after the other; spatial axes in float64, with one rounding at
   the end. A mean multiplies with the rounded reciprocal of the count. */
static uc_approx finish_sum(const reduced *r, double by, bool in_float32) {
  double value = r->sum.value / by;
  if (r->nan) return uc_approx_exact(NAN);
  if (r->undecided) return uc_approx_undecided(value);
  if (!isfinite(value)) return uc_approx_exact(value);
  if (r->size > (double)FLT_MAX) return uc_approx_undecided(value);
  double additions = in_float32 ? (double)(r->count - 1) * UC_ROUNDING * r->size / by : 0;
  return uc_approx_round(value, r->sum.low / by, r->sum.high / by, by == 1 ? 1 : 3,
                         fmax(additions, 0) + UC_SMALLEST);
}

static uc_approx finish(const reduced *r, const upconv_op *op) {
  bool channels = op->axes & UC_AXES_CHANNEL;
  switch ((int)op->kind) {
  case UPCONV_OP_SUM:
    return finish_sum(r, 1, channels);
  case UPCONV_OP_MEAN:
    return finish_sum(r, (double)r->count, channels);
  case UPCONV_OP_MAX:
    return r->most;
  default:
    return uc_approx_neg(r->least);
  }
}

/* The elements that result element o covers: along reduced axes all, along others its own. */
static reduced reduce_element(const uc_reference_values *from, const bool along[UC_RANK],
                              const int64_t o[UC_RANK]) {
  reduced r = {.most = uc_approx_exact(-INFINITY), .least = uc_approx_exact(-INFINITY)};
  int64_t begin[UC_RANK], end[UC_RANK], i[UC_RANK];
  for (int a = 0; a < UC_RANK; a++) {
    begin[a] = along[a] ? 0 : o[a];
    end[a] = along[a] ? from->shape[a] : o[a] + 1;
  }
  for (i[1] = begin[1]; i[1] < end[1]; i[1]++)
    for (i[2] = begin[2]; i[2] < end[2]; i[2]++)
      for (i[3] = begin[3]; i[3] < end[3]; i[3]++)
        for (i[4] = begin[4]; i[4] < end[4]; i[4]++) {
          int64_t row = (i[1] * from->shape[2] + i[2]) * from->shape[3] + i[3];
          take(&r, from->at[row * from->shape[4] + i[4]]);
        }
  return r;
}

upconv_status uc_reference_reduce(const uc_reference_state *run, const upconv_op *op,
                                  uc_reference_values *result) {
  const uc_reference_values *from = &run->values[op->operand[0].index];
  bool along[UC_RANK] = {false};
  for (int a = 1; a < UC_RANK; a++) along[a] = op->axes >> (a - 1) & 1;
  int64_t o[UC_RANK] = {0}, at = 0;
  for (o[1] = 0; o[1] < result->shape[1]; o[1]++)
    for (o[2] = 0; o[2] < result->shape[2]; o[2]++)
      for (o[3] = 0; o[3] < result->shape[3]; o[3]++)
        for (o[4] = 0; o[4] < result->shape[4]; o[4]++, at++) {
          reduced r = reduce_element(from, along, o);
          result->at[at] = finish(&r, op);
        }
  return UPCONV_OK;
}
