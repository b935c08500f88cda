/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's run: convolution, operators, storage, one batch item after the other. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "checked.h"
#include "reference_parts.h"
#include "status.h"

/* ---- values ---- */

static upconv_status no_memory(void) {
  return uc_fail(UPCONV_OUT_OF_MEMORY, "the oracle's values do not fit in memory");
}

upconv_status uc_reference_values_create(const int64_t shape[UC_RANK], bool affine, bool average,
                                         uc_reference_values *values) {
  uc_reference_values v = {.averaged = 1};
  int64_t bytes;
  for (int i = 0; i < UC_RANK; i++) v.shape[i] = shape[i];
  if (!uc_product(shape, UC_RANK, &v.count) ||
      !uc_mul(v.count + 1, (int64_t)sizeof(uc_approx), &bytes))
    return no_memory();
  size_t count = (size_t)v.count + 1; /* calloc(0) may return NULL */
  v.at = calloc(count, sizeof *v.at);
  if (affine) {
    v.magnitude = calloc(count, sizeof *v.magnitude);
    v.products = calloc(count, sizeof *v.products);
  }
  if (average) v.average_size = calloc(count, sizeof *v.average_size);
  *values = v;
  bool complete = v.at && (!affine || (v.magnitude && v.products)) && (!average || v.average_size);
  if (complete) return UPCONV_OK;
  uc_reference_values_free(values);
  return no_memory();
}

void uc_reference_values_free(uc_reference_values *values) {
  free(values->at);
  free(values->magnitude);
  free(values->products);
  free(values->average_size);
  *values = (uc_reference_values){.at = NULL};
}

/* ---- operators ---- */

static upconv_status run_op(const uc_reference_state *run, const upconv_op *op,
                            uc_reference_values *result) {
  int64_t shape[UC_RANK];
  uc_reference_op_shape(run, op, shape);
  upconv_status status = uc_reference_values_create(shape, uc_reference_keeps_affine(run, op),
                                                    op->kind == UPCONV_OP_AVG_POOL, result);
  if (status) return status;
  switch (uc_op_classify(op->kind)) {
  case UC_CLASS_ELEMENTWISE:
    return uc_reference_elementwise(run, op, result);
  case UC_CLASS_POOL:
    return uc_reference_window(run, op, result);
  case UC_CLASS_CHANNELS:
    return uc_reference_channels(run, op, result);
  case UC_CLASS_REDUCE:
    break;
  }
  if (op->kind == UPCONV_OP_LOGSUMEXP) return uc_reference_channels(run, op, result);
  return uc_reference_reduce(run, op, result);
}

/* ---- storage ---- */

/* Rounds to nearest even with `bits` bits of significand and exponents from `least` (of the
   smallest normal number); what rounds to 2^(most + 1) or beyond is an infinity. */
static double round_to(double x, int bits, int least, int most) {
  if (!isfinite(x) || x == 0) return x;
  int exponent;
  (void)frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
  int unit = (exponent - 1 < least ? least : exponent - 1) - (bits - 1);
  double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
  return fabs(rounded) >= ldexp(1, most + 1) ? copysign(INFINITY, x) : rounded;
}

static double round_to_dtype(double x, upconv_dtype dtype) {
  switch (dtype) {
  case UPCONV_F16:
    return round_to(x, 11, -14, 15);
  case UPCONV_BF16:
    return round_to(x, 8, -126, 127);
  case UPCONV_F32:
    break;
  }
  return round_to(x, 24, -126, 127);
}

/* Rounding is monotone: what is stored lies between the rounded ends. */
static void store(uc_approx a, upconv_dtype dtype, double *value, double *bound) {
  *value = a.value;
  *bound = INFINITY;
  if (uc_approx_is_undecided(a)) return;
  double low = round_to_dtype(a.low, dtype), high = round_to_dtype(a.high, dtype);
  if (uc_approx_is_special(a) || (isinf(low) && low == high)) {
    *value = uc_approx_is_special(a) ? a.value : low;
    *bound = 0;
  } else if (isfinite(low) && isfinite(high)) {
    *bound = fmax(high - a.value, a.value - low);
  }
}

/* ---- the run ---- */

static upconv_status run_item(uc_reference_state *run, double *value, double *bound) {
  const upconv_epilogue *epilogue = run->epilogue;
  int64_t conv_shape[UC_RANK];
  uc_reference_conv_shape(run->problem, run->inputs, conv_shape);
  conv_shape[0] = 1;
  upconv_status status = uc_reference_values_create(conv_shape, true, false, &run->values[0]);
  if (!status) status = uc_reference_conv(run, &run->values[0]);
  for (int i = 0; i < epilogue->op_count && !status; i++)
    status = run_op(run, &epilogue->op[i], &run->values[i + 1]);
  const uc_reference_values *result = &run->values[epilogue->op_count];
  for (int64_t i = 0; i < result->count && !status; i++) {
    int64_t at = run->item * result->count + i;
    store(result->at[i], run->problem->y_dtype, &value[at], &bound[at]);
  }
  for (int i = 0; i <= epilogue->op_count; i++) uc_reference_values_free(&run->values[i]);
  return status;
}

/* Sizes, operators and operands fit. */
static upconv_status check_shapes(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                  const uc_reference_inputs *inputs) {
  int64_t conv_shape[UC_RANK];
  upconv_status status = uc_problem_conv_shape(problem, inputs->batch, inputs->in_size, conv_shape);
  if (status) return status;
  int64_t(*shape)[UC_RANK] = malloc(((size_t)epilogue->op_count + 1) * sizeof *shape);
  if (!shape) return no_memory();
  status = uc_epilogue_shapes(epilogue, conv_shape, shape);
  free(shape);
  return status;
}

upconv_status uc_reference_run(const upconv_problem *problem, const upconv_epilogue *epilogue,
                               const uc_reference_inputs *inputs, const upconv_error_model *model,
                               double *value, double *bound) {
  static const upconv_error_model ieee = {0, false};
  upconv_status status = check_shapes(problem, epilogue, inputs);
  if (status) return status;
  uc_reference_state run = {problem, epilogue, inputs, model ? model : &ieee, 0, NULL};
  run.values = calloc((size_t)epilogue->op_count + 1, sizeof *run.values);
  if (!run.values) return no_memory();
  for (; run.item < inputs->batch && !status; run.item++) status = run_item(&run, value, bound);
  free(run.values);
  return status;
}
