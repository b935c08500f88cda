/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transposed convolution of one batch item by its definition: every input element is multiplied
 * by every kernel element and added where it belongs, o = i s - p + d k.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "reference_parts.h"
#include "status.h"

double uc_reference_conv_error(const upconv_error_model *model, double magnitude, double products) {
  double c = model->tensor_core ? 4 + products / 16 : 4 + 2 * sqrt(products);
  return (2 * model->operand_rounding + c * UC_ROUNDING) * magnitude + products * UC_SMALLEST;
}

uc_approx uc_reference_fold_error(const upconv_error_model *model, uc_approx a, double magnitude,
                                  double products) {
  if (uc_approx_is_undecided(a) || uc_approx_is_special(a)) return a;
  double error = uc_reference_conv_error(model, magnitude, products);
  if (!(magnitude + error <= (double)FLT_MAX)) return uc_approx_undecided(a.value);
  return uc_approx_settle(a.value, fmin(a.low, a.value - error), fmax(a.high, a.value + error));
}

typedef struct scatter {
  const uc_axis *axis;
  const int64_t *in_size, *out_size;
} scatter;

/* Output index of input i and kernel element k along an axis; false outside the output. */
static bool lands(const scatter *s, int axis, int64_t i, int64_t k, int64_t *o) {
  const uc_axis *a = &s->axis[axis];
  *o = i * a->stride - a->pad_begin + a->dilation * k;
  return *o >= 0 && *o < s->out_size[axis];
}

/* sum and magnitude of one pair of channels (x and out are one channel each). Products that are not
   finite show in the sum; the magnitude leaves them out, and so still tells whether the others
   could overflow. */
static void scatter_row(const scatter *s, const double *x, double w, int64_t k, double *sum,
                        double *magnitude) {
  for (int64_t i = 0; i < s->in_size[2]; i++) {
    int64_t o;
    if (!lands(s, 2, i, k, &o)) continue;
    double product = x[i] * w, size = fabs(product);
    sum[o] += product;
    magnitude[o] += size <= DBL_MAX ? size : 0;
  }
}

static void scatter_channel(const scatter *s, const double *x, const double *w, double *sum,
                            double *magnitude) {
  int64_t k[UC_AXES], i[2], o[2];
  for (k[0] = 0; k[0] < s->axis[0].kernel; k[0]++)
    for (k[1] = 0; k[1] < s->axis[1].kernel; k[1]++)
      for (k[2] = 0; k[2] < s->axis[2].kernel; k[2]++, w++)
        for (i[0] = 0; i[0] < s->in_size[0]; i[0]++) {
          if (!lands(s, 0, i[0], k[0], &o[0])) continue;
          for (i[1] = 0; i[1] < s->in_size[1]; i[1]++) {
            if (!lands(s, 1, i[1], k[1], &o[1])) continue;
            int64_t from = (i[0] * s->in_size[1] + i[1]) * s->in_size[2];
            int64_t to = (o[0] * s->out_size[1] + o[1]) * s->out_size[2];
            scatter_row(s, x + from, *w, k[2], sum + to, magnitude + to);
          }
        }
}

/* How many products each position of a channel receives per input channel. */
static void count_products(const scatter *s, double *products) {
  int64_t k[UC_AXES], i[UC_AXES], o[UC_AXES];
  for (k[0] = 0; k[0] < s->axis[0].kernel; k[0]++)
    for (i[0] = 0; i[0] < s->in_size[0]; i[0]++)
      if (lands(s, 0, i[0], k[0], &o[0]))
        for (k[1] = 0; k[1] < s->axis[1].kernel; k[1]++)
          for (i[1] = 0; i[1] < s->in_size[1]; i[1]++)
            if (lands(s, 1, i[1], k[1], &o[1]))
              for (k[2] = 0; k[2] < s->axis[2].kernel; k[2]++)
                for (i[2] = 0; i[2] < s->in_size[2]; i[2]++)
                  if (lands(s, 2, i[2], k[2], &o[2]))
                    products[(o[0] * s->out_size[1] + o[1]) * s->out_size[2] + o[2]] += 1;
}

/* Partial sums may overflow, in some order, where the finite products together do. */
static uc_approx settle(const upconv_error_model *model, double sum, double magnitude,
                        double products) {
  if (isinf(magnitude)) return uc_approx_undecided(sum); /* by an undecided x */
  if (isnan(sum)) return uc_approx_exact(sum);
  double error = uc_reference_conv_error(model, magnitude, products);
  if (magnitude + error > (double)FLT_MAX) {
    bool one_sign = fabs(sum) >= magnitude * (1 - 0x1p-40);
    return one_sign ? uc_approx_settle(sum, sum - error, sum + error) : uc_approx_undecided(sum);
  }
  return isinf(sum) ? uc_approx_exact(sum) : uc_approx_settle(sum, sum - error, sum + error);
}

/* All sums of one output channel; magnitude and sum hold a plane each. */
static void sum_channel(const uc_reference_state *run, const scatter *s, int64_t c, double *sum,
                        double *magnitude) {
  const upconv_problem *p = run->problem;
  const uc_reference_inputs *in = run->inputs;
  int64_t in_plane = s->in_size[0] * s->in_size[1] * s->in_size[2];
  int64_t plane = s->out_size[0] * s->out_size[1] * s->out_size[2];
  int64_t kernel = p->axis[0].kernel * p->axis[1].kernel * p->axis[2].kernel;
  int64_t group_in = p->in_channels / p->groups, group_out = p->out_channels / p->groups;
  double bias = in->bias ? in->bias[c] : 0;
  for (int64_t o = 0; o < plane; o++) {
    sum[o] = bias;
    magnitude[o] = isfinite(bias) ? fabs(bias) : 0;
  }
  for (int64_t e = 0; e < group_in; e++) {
    int64_t ci = c / group_out * group_in + e;
    const double *x = in->x + (run->item * p->in_channels + ci) * in_plane;
    const double *w = in->weight + (ci * group_out + c % group_out) * kernel;
    scatter_channel(s, x, w, sum, magnitude);
  }
}

/* Adds to the magnitude of a channel what an error of x makes of the sum, as the magnitude that
   would have that error: so it grows with the sum through whatever affine operators follow. lost is
   a plane of scratch. */
static void add_x_error(const uc_reference_state *run, const scatter *s, int64_t c,
                        const double *count, double *lost, double *magnitude) {
  const upconv_problem *p = run->problem;
  int64_t in_plane = s->in_size[0] * s->in_size[1] * s->in_size[2];
  int64_t plane = s->out_size[0] * s->out_size[1] * s->out_size[2];
  int64_t kernel = p->axis[0].kernel * p->axis[1].kernel * p->axis[2].kernel;
  int64_t group_in = p->in_channels / p->groups, group_out = p->out_channels / p->groups;
  double *error = lost + plane;
  for (int64_t o = 0; o < 2 * plane; o++) lost[o] = 0;
  for (int64_t e = 0; e < group_in; e++) {
    int64_t ci = c / group_out * group_in + e;
    const double *x = run->inputs->x_error + (run->item * p->in_channels + ci) * in_plane;
    const double *w = run->inputs->weight + (ci * group_out + c % group_out) * kernel;
    scatter_channel(s, x, w, lost, error);
  }
  for (int64_t o = 0; o < plane; o++) {
    /* Infinite errors are left out of the magnitude, but show in the sum. */
    double off = isfinite(lost[o]) ? error[o] : INFINITY;
    double products = count[o] * (double)group_in;
    if (off > 0) magnitude[o] += off + off / uc_reference_conv_error(run->model, 1, products);
  }
}

upconv_status uc_reference_conv(const uc_reference_state *run, uc_reference_values *result) {
  const upconv_problem *p = run->problem;
  const scatter s = {p->axis, run->inputs->in_size, result->shape + 2};
  int64_t plane = s.out_size[0] * s.out_size[1] * s.out_size[2];
  double *count = calloc(3 * (size_t)plane + 1, sizeof *count); /* and two planes of scratch */
  if (!count) return uc_fail(UPCONV_OUT_OF_MEMORY, "the oracle's counts do not fit in memory");
  count_products(&s, count);
  for (int64_t c = 0; c < p->out_channels; c++) {
    double *sum = result->products + c * plane; /* becomes the count */
    double *magnitude = result->magnitude + c * plane;
    sum_channel(run, &s, c, sum, magnitude);
    if (run->inputs->x_error) add_x_error(run, &s, c, count, count + plane, magnitude);
    for (int64_t o = 0; o < plane; o++) {
      double products = count[o] * (double)(p->in_channels / p->groups);
      result->at[c * plane + o] = settle(run->model, sum[o], magnitude[o], products);
      sum[o] = products;
    }
  }
  free(count);
  return UPCONV_OK;
}
