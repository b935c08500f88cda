/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold-avg-pool: average pooling right after the convolution is a convolution with summed weights.
 *
 * Per axis, with pool window r, stride R, divisor D, s = R s', and
 *
 *   y[o] = b + sum of x[i] w[k] over all i, k with i s - p + d k = o
 *
 * the pool makes
 *
 *   y'[j] = 1/D (sum over t < r of y[R j + t])
 *         = r/D b + 1/D (sum of x[i] w[k] over all i, k, t < r with i s - p + d k = R j + t)
 *
 * Let m = d k - t. The condition is R j = i s - p + m, so m = p + R u for some integer u, and then
 * j = i s' + u. That is a transposed convolution of stride s' whose tap u has the weight
 *
 *   U[u] = 1/D (sum of w[k] over k < K with 0 <= d k - p - R u < r)
 *
 * since t is that difference. The window contains outputs of the convolution only (no padding of
 * the pool), and each is the whole sum above, in which inputs outside [0, I) contribute nothing; so
 * both sides have the same terms at the border too. A window without taps keeps the bias. Only u
 * between the first and the last that have taps matter, and their common step can be a dilation:
 * u = d* k* - p*.
 *
 * Size: O = (I - 1) s + c with c = 1 - p - p' + d (K - 1) + op, so the pool makes
 *
 *   floor((O - r) / R) + 1 = (I - 1) s' + floor((c - r) / R) + 1
 *
 * elements, and the new padding at the end that gives this size for every I is
 *
 *   d* (K* - 1) - p* - floor((c - r) / R)        with op* = 0.
 *
 * (Where O < r the source has an empty output or is refused: sizes are asked of the source.)
 */
#include "checked.h"
#include "rewrite.h"

uc_range uc_avg_pool_taps(const uc_axis *axis, int64_t r, int64_t R, int64_t u) {
  int64_t first = axis->pad_begin + R * u; /* d k for t = 0 */
  uc_range taps = {uc_max(0, uc_ceil_div(first, axis->dilation)),
                   uc_min(axis->kernel, uc_floor_div(first + r - 1, axis->dilation) + 1)};
  return taps;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* The folded axis; false where the rule does not apply. */
static bool fold_axis(const uc_axis *axis, int64_t r, int64_t R, uc_axis *folded) {
  /* More taps than this are no convolution that anyone runs; they would make the search long. */
  enum { MOST_TAPS = 1 << 20 };
  if (axis->stride % R) return false;
  int64_t p = axis->pad_begin, reach = axis->dilation * (axis->kernel - 1);
  int64_t low = uc_ceil_div(-(r - 1) - p, R), high = uc_floor_div(reach - p, R);
  if (high - low >= MOST_TAPS) return false;
  int64_t first = 0, last = 0, step = 0;
  bool any = false;
  for (int64_t u = low; u <= high; u++) {
    uc_range taps = uc_avg_pool_taps(axis, r, R, u);
    if (taps.begin >= taps.end) continue;
    if (!any) first = u;
    any = true;
    last = u;
    step = common_divisor(u - first, step);
  }
  if (step == 0) step = 1;
  int64_t c = 1 - p - axis->pad_end + reach + axis->output_padding;
  *folded = (uc_axis){.in_size = axis->in_size,
                      .kernel = (last - first) / step + 1,
                      .stride = axis->stride / R,
                      .dilation = step,
                      .pad_begin = -first,
                      .pad_end = last - uc_floor_div(c - r, R)};
  return folded->pad_begin >= -INT32_MAX && folded->pad_begin <= INT32_MAX &&
         folded->pad_end >= -INT32_MAX && folded->pad_end <= INT32_MAX;
}

/* Multiply-adds at the nominal input, with a size of its own for what is empty there. */
static double cost(const upconv_problem *problem) {
  enum { SOME_SIZE = 16 };
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++)
    in_size[a] = problem->axis[a].in_size ? problem->axis[a].in_size : SOME_SIZE;
  return uc_problem_macs(problem, 1, in_size);
}

static bool window_fits_rule(const upconv_window *window) {
  for (int a = 0; a < UC_AXES; a++)
    if (window->pad_begin[a] || window->pad_end[a] || window->dilation[a] != 1) return false;
  return !window->ceil_mode;
}

/* Precondition: the only reader of value 0 is an avg_pool without padding, dilation and ceil mode,
   whose stride divides the convolution's along every axis; and the multiply-adds do not grow. */
bool uc_rule_fold_avg_pool(uc_rewrite *rewrite) {
  uc_lowered *lowered = rewrite->lowered;
  int op = uc_rewrite_only_reader(rewrite, 0);
  if (op < 0 || lowered->tail->op[op].kind != UPCONV_OP_AVG_POOL) return false;
  const upconv_window window = lowered->tail->op[op].window;
  if (!window_fits_rule(&window)) return false;
  upconv_problem folded = lowered->conv;
  for (int a = 0; a < UC_AXES; a++)
    if (!fold_axis(&lowered->conv.axis[a], window.kernel[a], window.stride[a], &folded.axis[a]))
      return false;
  if (cost(&folded) > cost(&lowered->conv)) return false;
  uc_rewrite_note(rewrite, op);
  uc_fold *fold = uc_rewrite_fold(rewrite, UC_FOLD_AVG_POOL, uc_ref_constant(1));
  if (!fold) return false;
  for (int a = 0; a < UC_AXES; a++) {
    fold->before[a] = lowered->conv.axis[a];
    fold->after[a] = folded.axis[a];
  }
  fold->window = window;
  lowered->conv = folded;
  uc_rewrite_remove(rewrite, op, 0);
  return true;
}
