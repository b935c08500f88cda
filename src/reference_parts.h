/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the oracle. Every element is carried as an exact value and the interval in which float32
 * arithmetic that is as good as docs/MATH.md asks may land. Intervals, and not "value plus or minus
 * bound", keep what rounding cannot change: |x| stays >= 0, so sqrt(|x|) is a number also where |x|
 * is smaller than its error.
 */
#ifndef UPCONV_REFERENCE_PARTS_H
#define UPCONV_REFERENCE_PARTS_H

#include "reference.h"

/* ---- one element: reference_approx.c ---- */

/*
 * One of three things:
 *   a number    value, low and high finite, low <= value <= high
 *   exactly NaN, Inf or -Inf    value is that, and low and high equal it
 *   undecided   low = -inf and high = +inf: rounding decides what comes out, also whether it is a
 * number
 */
typedef struct uc_approx {
  double value, low, high;
} uc_approx;

static const double UC_ROUNDING = 0x1p-24;  /* u: half an ulp of float32, relative */
static const double UC_SMALLEST = 0x1p-149; /* the smallest float32 */

uc_approx uc_approx_exact(double value);
/* A constant of the program or a derived parameter: arithmetic holds it rounded to float32. */
uc_approx uc_approx_stored(double value);
uc_approx uc_approx_undecided(double value);
bool uc_approx_is_undecided(uc_approx a);
bool uc_approx_is_special(uc_approx a); /* exactly NaN or an infinity */

/* The float32 range: what certainly overflows is an infinity, what may overflow is undecided. */
uc_approx uc_approx_settle(double value, double low, double high);
/* Widens both ends by roundings * u * |end| + floor, never across 0: rounding keeps signs. */
uc_approx uc_approx_round(double value, double low, double high, double roundings, double floor);
/* Widens both ends by an absolute error, across 0 too. A NaN or infinity stays as it is. */
uc_approx uc_approx_widen(uc_approx a, double error);
/* The smallest interval with both; value is that of the first. */
uc_approx uc_approx_hull(uc_approx a, uc_approx b);
/* The largest absolute value in the interval. */
double uc_approx_largest(uc_approx a);

uc_approx uc_approx_add(uc_approx a, uc_approx b);
uc_approx uc_approx_sub(uc_approx a, uc_approx b);
uc_approx uc_approx_mul(uc_approx a, uc_approx b);
uc_approx uc_approx_div(uc_approx a, uc_approx b);
uc_approx uc_approx_neg(uc_approx a);
uc_approx uc_approx_clamp(uc_approx x, uc_approx lowest, uc_approx highest);
/* x > 0 ? a * x : b * x */
uc_approx uc_approx_two_slope(uc_approx x, uc_approx a, uc_approx b);
/* The larger, a NaN of either kept. */
uc_approx uc_approx_max(uc_approx a, uc_approx b);

/* ---- functions of one operand: reference_functions.c ---- */

/* kind: RELU, LEAKY_RELU and ELU to EXP. */
uc_approx uc_approx_function(upconv_op_kind kind, const double *attr, uc_approx x);

/* ---- whole values: one batch item ---- */

/* magnitude and products (or NULL) follow a value as long as it is an affine image of the
   convolution, because rules may fold those operators into weights and bias: its error is then that
   of a convolution with M = magnitude and n = products. */
typedef struct uc_reference_values {
  int64_t shape[UC_RANK]; /* shape[0] is 1 */
  int64_t count;
  uc_approx *at; /* channels first */
  double *magnitude, *products;
  double *average_size; /* of an average pool: the mean of |elements| under each window ... */
  int64_t
      averaged; /* ... and how many elements a window has at most, through pools of pools; else 1 */
} uc_reference_values;

upconv_status uc_reference_values_create(const int64_t shape[UC_RANK], bool affine, bool average,
                                         uc_reference_values *values);
void uc_reference_values_free(uc_reference_values *values);

/* What the arithmetic of a convolution with n products of total magnitude M may be off by. */
double uc_reference_conv_error(const upconv_error_model *model, double magnitude, double products);
/* Widens an affine image of the convolution to at least the error that it has when folded into
 * weights and bias. */
uc_approx uc_reference_fold_error(const upconv_error_model *model, uc_approx a, double magnitude,
                                  double products);

typedef struct uc_reference_state {
  const upconv_problem *problem;
  const upconv_epilogue *epilogue;
  const uc_reference_inputs *inputs;
  const upconv_error_model *model;
  int64_t item;                /* of the batch */
  uc_reference_values *values; /* values[0 .. op_count] */
} uc_reference_state;

/* reference_shapes.c. shape[0] of an operator's result is 1. */
void uc_reference_conv_shape(const upconv_problem *problem, const uc_reference_inputs *inputs,
                             int64_t shape[UC_RANK]);
void uc_reference_op_shape(const uc_reference_state *run, const upconv_op *op,
                           int64_t shape[UC_RANK]);

/* reference_conv.c: values[0]. */
upconv_status uc_reference_conv(const uc_reference_state *run, uc_reference_values *result);
/* Whether the result of an operator is still an affine image of the convolution, so that rules may
 * fold it. */
bool uc_reference_keeps_affine(const uc_reference_state *run, const upconv_op *op);
/* One operator each: reference_elementwise.c, reference_windows.c, reference_channels.c. */
upconv_status uc_reference_elementwise(const uc_reference_state *run, const upconv_op *op,
                                       uc_reference_values *result);
upconv_status uc_reference_window(const uc_reference_state *run, const upconv_op *op,
                                  uc_reference_values *result);
upconv_status uc_reference_channels(const uc_reference_state *run, const upconv_op *op,
                                    uc_reference_values *result);
upconv_status uc_reference_reduce(const uc_reference_state *run, const upconv_op *op,
                                  uc_reference_values *result);

/* A parameter or constant at a channel. */
uc_approx uc_reference_parameter(const uc_reference_state *run, const upconv_operand *operand,
                                 int64_t channel);

#endif
