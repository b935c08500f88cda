/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling in the oracle. Padding never takes part: neither its value in a sum nor in a maximum. */
#include <float.h>
#include <math.h>

#include "reference_parts.h"

/* What the taps of one window have given so far. */
typedef struct gathered {
  uc_approx most; /* of max pooling: of the negated elements when searching the least */
  uc_approx sum;  /* no rounding in it yet */
  double size;    /* sum of |elements| */
  double magnitude, products;
  int64_t count;       /* elements inside the input */
  int64_t padded;      /* taps inside the input or its padding */
  bool nan, undecided; /* one element is certainly NaN; is undecided */
} gathered;

static void gather(gathered *g, const uc_reference_values *from, int64_t index, bool least) {
  uc_approx a = from->at[index];
  uc_approx candidate = least ? uc_approx_neg(a) : a;
  g->most = g->count == 0 ? candidate : uc_approx_max(g->most, candidate);
  g->sum.value += a.value;
  g->count++;
  if (uc_approx_is_undecided(a)) {
    g->undecided = true;
  } else {
    g->nan = g->nan || isnan(a.value);
    g->sum.low += a.low;
    g->sum.high += a.high;
    double size = from->average_size ? from->average_size[index] : uc_approx_largest(a);
    g->size += size <= DBL_MAX ? size : 0;
  }
  if (from->magnitude) {
    g->magnitude += from->magnitude[index];
    g->products += from->products[index];
  }
}

/* The taps of the window of output element o along each axis, nested. */
static gathered gather_window(const upconv_window *w, const uc_reference_values *from,
                              int64_t channel, const int64_t o[UC_AXES], bool least) {
  gathered g = {.most = uc_approx_exact(-INFINITY)};
  const int64_t *size = from->shape + 2;
  int64_t k[UC_AXES], i[UC_AXES];
  for (k[0] = 0; k[0] < w->kernel[0]; k[0]++)
    for (k[1] = 0; k[1] < w->kernel[1]; k[1]++)
      for (k[2] = 0; k[2] < w->kernel[2]; k[2]++) {
        bool inside = true, in_padding = true;
        for (int a = 0; a < UC_AXES; a++) {
          i[a] = o[a] * w->stride[a] - w->pad_begin[a] + k[a] * w->dilation[a];
          inside = inside && i[a] >= 0 && i[a] < size[a];
          in_padding = in_padding && i[a] < size[a] + w->pad_end[a];
        }
        g.padded += in_padding;
        if (!inside) continue;
        int64_t index = ((channel * size[0] + i[0]) * size[1] + i[1]) * size[2] + i[2];
        gather(&g, from, index, least);
      }
  return g;
}

static double divisor(const upconv_window *w, const gathered *g) {
  if (w->divisor != 0) return (double)w->divisor;
  return (double)(w->count_include_pad ? g->padded : g->count);
}

/* additions of float32 in sequence, each at most of the sum of |elements|, then a product with the
   rounded reciprocal of the divisor. */
static uc_approx average(const gathered *g, double by, double additions) {
  double value = g->sum.value / by;
  if (g->nan) return uc_approx_exact(NAN);
  if (g->undecided) return uc_approx_undecided(value);
  if (by == 0) return uc_approx_exact(value);
  if (g->size > (double)FLT_MAX) return uc_approx_undecided(value);
  if (!isfinite(value)) return uc_approx_exact(value);
  double low = fmin(g->sum.low / by, g->sum.high / by);
  double high = fmax(g->sum.low / by, g->sum.high / by);
  double error = (additions + 2) * UC_ROUNDING * g->size / fabs(by) + UC_SMALLEST;
  return uc_approx_round(value, low, high, 0, error);
}

static bool searches_least(const uc_reference_state *run, const upconv_op *op, int64_t channel) {
  if (op->kind != UPCONV_OP_EXTREME_POOL) return false;
  return uc_reference_parameter(run, &op->operand[1], channel).value < 0;
}

static void pool_element(const uc_reference_state *run, const upconv_op *op,
                         uc_reference_values *result, int64_t at, int64_t channel,
                         const int64_t o[UC_AXES]) {
  bool least = searches_least(run, op, channel);
  gathered g = gather_window(&op->window, &run->values[op->operand[0].index], channel, o, least);
  if (op->kind != UPCONV_OP_AVG_POOL) {
    result->at[at] = least ? uc_approx_neg(g.most) : g.most;
    return;
  }
  /* A pool of a pool may be one pool over all elements. */
  const uc_reference_values *from = &run->values[op->operand[0].index];
  double by = divisor(&op->window, &g);
  result->at[at] = average(&g, by, (double)(g.count * from->averaged - 1));
  result->average_size[at] = g.size / fabs(by);
  if (!result->magnitude) return;
  /* rules may fold the average into the weights */
  result->magnitude[at] = g.magnitude / fabs(by);
  result->products[at] = g.products;
  result->at[at] =
      uc_reference_fold_error(run->model, result->at[at], result->magnitude[at], g.products);
}

upconv_status uc_reference_window(const uc_reference_state *run, const upconv_op *op,
                                  uc_reference_values *result) {
  int64_t o[UC_AXES], at = 0;
  const int64_t *kernel = op->window.kernel;
  if (op->kind == UPCONV_OP_AVG_POOL)
    result->averaged =
        run->values[op->operand[0].index].averaged * kernel[0] * kernel[1] * kernel[2];
  for (int64_t c = 0; c < result->shape[1]; c++)
    for (o[0] = 0; o[0] < result->shape[2]; o[0]++)
      for (o[1] = 0; o[1] < result->shape[3]; o[1]++)
        for (o[2] = 0; o[2] < result->shape[4]; o[2]++, at++)
          pool_element(run, op, result, at, c, o);
  return UPCONV_OK;
}
