/* SPDX-License-Identifier: Apache-2.0 */
/* Pack time: the caller's parameters, checked; formulas and folds evaluated in float64. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "rewrite.h"
#include "status.h"
#include "tensor.h"

static upconv_status no_memory(void) {
  return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for packing weights and parameters");
}

/* At least one number, so that NULL means failure. */
static double *allocate(int64_t count) {
  if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(double) - 1) return NULL;
  return malloc(((size_t)count + 1) * sizeof(double));
}

/* ---- reading the caller's tensors ---- */

/* n elements at a distance of stride, from element index on. */
static void read_row(const upconv_tensor *tensor, int64_t index, int64_t stride, int64_t n,
                     double *to) {
  const char *base = tensor->data;
  if (tensor->dtype != UPCONV_F32) {
    for (int64_t i = 0; i < n; i++) to[i] = uc_load(base, tensor->dtype, index + i * stride);
    return;
  }
  base += index * (int64_t)sizeof(float);
  for (int64_t i = 0; i < n; i++) {
    float value;
    memcpy(&value, base + i * stride * (int64_t)sizeof value, sizeof value);
    to[i] = (double)value;
  }
}

/* A canonical view as dense rows. Trailing axes that lie one after the other in memory are read as
   one row. */
static void read_tensor(const upconv_tensor *tensor, double *to) {
  int outer = UC_RANK;
  int64_t row = 1, stride = 0, rows = 1;
  while (outer > 0 &&
         (row == 1 || tensor->shape[outer - 1] == 1 || tensor->stride[outer - 1] == row * stride)) {
    outer--;
    if (row == 1) stride = tensor->stride[outer];
    row *= tensor->shape[outer];
  }
  int64_t at[UC_RANK] = {0};
  for (int i = 0; i < outer; i++) rows *= tensor->shape[i];
  for (int64_t r = 0; r < rows; r++, to += row) {
    int64_t index = 0;
    for (int i = 0; i < outer; i++) index += at[i] * tensor->stride[i];
    read_row(tensor, index, stride, row, to);
    for (int i = outer - 1; i >= 0 && ++at[i] == tensor->shape[i]; i--) at[i] = 0;
  }
}

static upconv_status check_vector(const upconv_tensor *tensor, const char *kind, const char *name,
                                  int64_t size) {
  if (tensor->rank != 1 && !(tensor->rank == 0 && size == 1))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s%s: rank is %d; allowed: 1%s", kind, name,
                   tensor->rank, size == 1 ? ", and 0" : "");
  int64_t count = tensor->rank ? tensor->shape[0] : 1;
  if (count != size)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s%s: shape[0] is %lld; it must be %lld", kind, name,
                   (long long)count, (long long)size);
  if (!upconv_dtype_size(tensor->dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "%s%s: dtype is %d; allowed: f32, f16, bf16", kind, name,
                   (int)tensor->dtype);
  if (!tensor->data) return uc_fail(UPCONV_INVALID_ARGUMENT, "%s%s: data is NULL", kind, name);
  return UPCONV_OK;
}

static void read_vector(const upconv_tensor *tensor, int64_t size, double *to) {
  read_row(tensor, 0, tensor->rank ? tensor->stride[0] : 1, size, to);
}

/* ---- parameters and formulas ---- */

double uc_param_number(uc_param_kind kind, double a, double b, double c) {
  switch (kind) {
  case UC_PARAM_ADD:
    return a + b;
  case UC_PARAM_SUB:
    return a - b;
  case UC_PARAM_MUL:
    return a * b;
  case UC_PARAM_DIV:
    return a / b;
  case UC_PARAM_SQRT:
    return sqrt(a);
  case UC_PARAM_SELECT:
    return a > 0 ? b : c;
  case UC_PARAM_INPUT:
    break;
  }
  return a;
}

upconv_status uc_param_check_count(const uc_lowered *lowered, const upconv_parameters *parameters) {
  int count = lowered->source_tail->param_count;
  if (parameters->param_count != count)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "param_count is %d; the epilogue has %d parameters",
                   parameters->param_count, count);
  if (count && !parameters->params)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "params is NULL; the epilogue has %d parameters",
                   count);
  return UPCONV_OK;
}

static double number_of(uc_ref ref, const uc_values *value, int64_t i) {
  if (ref.param < 0) return ref.constant;
  const uc_values *v = &value[ref.param];
  assert(v->number); /* formulas read only what was evaluated before them */
  return v->number[v->size == 1 ? 0 : i];
}

upconv_status uc_param_evaluate(const uc_lowered *lowered, int index,
                                const upconv_parameters *parameters, uc_values *value) {
  const uc_param *param = &lowered->param[index];
  value[index] = (uc_values){param->size, NULL};
  if (param->size == 0) return UPCONV_OK;
  const upconv_tensor *tensor = NULL;
  if (param->kind == UC_PARAM_INPUT) {
    tensor = &parameters->params[param->input];
    upconv_status status = check_vector(
        tensor, "parameter @", lowered->source_tail->param[param->input].name, param->size);
    if (status) return status;
  }
  double *number = allocate(param->size);
  if (!number) return no_memory();
  value[index].number = number;
  if (tensor) {
    read_vector(tensor, param->size, number);
    return UPCONV_OK;
  }
  for (int64_t i = 0; i < param->size; i++)
    number[i] = uc_param_number(param->kind, number_of(param->a, value, i),
                                number_of(param->b, value, i), number_of(param->c, value, i));
  return UPCONV_OK;
}

/* ---- weights and bias ---- */

static upconv_status check_weight(const upconv_problem *problem, const upconv_tensor *weight,
                                  upconv_tensor *canonical) {
  upconv_status status = uc_tensor_canonical(weight, "weight", problem->nd, canonical);
  if (status) return status;
  const int64_t wanted[UC_RANK] = {problem->in_channels, problem->out_channels / problem->groups,
                                   problem->axis[0].kernel, problem->axis[1].kernel,
                                   problem->axis[2].kernel};
  static const char *const meaning[UC_RANK] = {"in_channels", "out_channels / groups", "kernel",
                                               "kernel", "kernel"};
  for (int i = 0; i < UC_RANK; i++)
    if (canonical->shape[i] != wanted[i])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "weight: shape[%d] is %lld; it must be %lld (%s)",
                     i < 2 ? i : i - (UC_AXES - problem->nd), (long long)canonical->shape[i],
                     (long long)wanted[i], meaning[i]);
  return UPCONV_OK;
}

static upconv_status read_bias(const upconv_problem *problem, const upconv_tensor *bias,
                               double *to) {
  for (int64_t c = 0; c < problem->out_channels; c++) to[c] = 0;
  if (!problem->bias)
    return bias->data
               ? uc_fail(UPCONV_INVALID_ARGUMENT, "bias: data is not NULL; the problem has no bias")
               : UPCONV_OK;
  if (!bias->data)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "bias: data is NULL; the problem has a bias");
  upconv_status status = check_vector(bias, "bias", "", problem->out_channels);
  if (!status) read_vector(bias, problem->out_channels, to);
  return status;
}

/* Weights under way: [blocks][K0][K1][K2] with blocks = in_channels * out_channels / groups. */
typedef struct weights {
  double *number;
  int64_t blocks, kernel[UC_AXES];
} weights;

/* One block of [K][inner] to [K*][inner]: tap k* sums the taps of its range. */
static void sum_taps(const double *from, double *to, int64_t inner, const uc_range *taps,
                     int64_t count) {
  for (int64_t k = 0; k < count; k++, to += inner) {
    for (int64_t i = 0; i < inner; i++) to[i] = 0;
    for (int64_t t = taps[k].begin; t < taps[k].end; t++)
      for (int64_t i = 0; i < inner; i++) to[i] += from[t * inner + i];
  }
}

/* The taps of one axis become those of the folded one: [outer][K][inner] to [outer][K*][inner]. */
static upconv_status fold_taps(weights *w, const uc_fold *fold, int a) {
  const uc_axis *before = &fold->before[a], *after = &fold->after[a];
  int64_t outer = w->blocks, inner = 1, count;
  for (int i = 0; i < a; i++) outer *= w->kernel[i];
  for (int i = a + 1; i < UC_AXES; i++) inner *= w->kernel[i];
  if (!uc_mul(outer, inner, &count) || !uc_mul(count, after->kernel, &count)) return no_memory();
  double *summed = allocate(count);
  uc_range *taps = malloc((size_t)after->kernel * sizeof *taps);
  if (!summed || !taps) {
    free(summed);
    free(taps);
    return no_memory();
  }
  for (int64_t k = 0; k < after->kernel; k++)
    taps[k] = uc_avg_pool_taps(before, fold->window.kernel[a], fold->window.stride[a],
                               k * after->dilation - after->pad_begin);
  for (int64_t o = 0; o < outer; o++)
    sum_taps(w->number + o * before->kernel * inner, summed + o * after->kernel * inner, inner,
             taps, after->kernel);
  free(taps);
  free(w->number);
  w->number = summed;
  w->kernel[a] = after->kernel;
  return UPCONV_OK;
}

/* The taps of all folds. */
static upconv_status fold_all_taps(const uc_lowered *lowered, weights *w) {
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < lowered->fold_count; i++) {
    const uc_fold *fold = &lowered->fold[i];
    for (int a = 0; fold->kind == UC_FOLD_AVG_POOL && a < UC_AXES && !status; a++)
      if (fold->window.kernel[a] > 1 || fold->window.stride[a] > 1) status = fold_taps(w, fold, a);
  }
  return status;
}

/* Bias, and the division by D, which is left to the scale of the weights. */
static void average(const uc_fold *fold, double *scale, double *bias, int64_t channels) {
  double elements = 1;
  for (int a = 0; a < UC_AXES; a++) elements *= (double)fold->window.kernel[a];
  double divisor = fold->window.divisor ? (double)fold->window.divisor : elements;
  for (int64_t c = 0; c < channels; c++) {
    scale[c] /= divisor;
    bias[c] *= elements / divisor;
  }
}

/* Folds in order. A scale of the weights commutes with sums of taps, so all scales are applied at
   once, at the end. */
static void apply_folds(const uc_lowered *lowered, const uc_values *value, double *scale,
                        double *bias) {
  int64_t channels = lowered->conv.out_channels;
  for (int i = 0; i < lowered->fold_count; i++) {
    const uc_fold *fold = &lowered->fold[i];
    if (fold->kind == UC_FOLD_AVG_POOL) {
      average(fold, scale, bias, channels);
      continue;
    }
    for (int64_t c = 0; c < channels; c++) {
      double by = number_of(fold->by, value, c);
      bias[c] = fold->kind == UC_FOLD_SCALE ? bias[c] * by : bias[c] + by;
      if (fold->kind == UC_FOLD_SCALE) scale[c] *= by;
    }
  }
}

/* Of input channels from `first` on. */
static void apply_scale(const upconv_problem *conv, const weights *w, int64_t first,
                        const double *scale) {
  int64_t inputs = conv->in_channels / conv->groups, outputs = conv->out_channels / conv->groups;
  int64_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  double *to = w->number;
  for (int64_t b = 0; b < w->blocks; b++, to += taps) {
    double by = scale[(first + b / outputs) / inputs * outputs + b % outputs];
    for (int64_t k = 0; k < taps; k++) to[k] *= by;
  }
}

upconv_status uc_fold_weights(const uc_lowered *lowered, const uc_folded *folded, int64_t first,
                              int64_t count, double **number) {
  upconv_tensor view = folded->source_weight;
  view.shape[0] = count;
  view.data = (char *)view.data + first * view.stride[0] * (int64_t)upconv_dtype_size(view.dtype);
  weights w = {.blocks = count * view.shape[1]};
  for (int a = 0; a < UC_AXES; a++) w.kernel[a] = view.shape[2 + a];
  w.number = allocate(w.blocks * uc_problem_kernel_size(&lowered->source));
  if (!w.number) return no_memory();
  read_tensor(&view, w.number);
  upconv_status status = fold_all_taps(lowered, &w);
  if (status) {
    free(w.number);
    return status;
  }
  if (lowered->fold_count) apply_scale(&lowered->conv, &w, first, folded->scale);
  *number = w.number;
  return UPCONV_OK;
}

/* Bias and scale. */
static upconv_status fold_bias(const uc_lowered *lowered, const upconv_parameters *parameters,
                               const uc_values *value, uc_folded *folded) {
  const upconv_problem *source = &lowered->source;
  upconv_status status = check_weight(source, &parameters->weight, &folded->source_weight);
  if (status) return status;
  folded->scale = allocate(source->out_channels);
  folded->bias = allocate(source->out_channels);
  if (!folded->scale || !folded->bias) return no_memory();
  status = read_bias(source, &parameters->bias, folded->bias);
  if (status) return status;
  for (int64_t c = 0; c < source->out_channels; c++) folded->scale[c] = 1;
  apply_folds(lowered, value, folded->scale, folded->bias);
  return UPCONV_OK;
}

/* ---- everything ---- */

upconv_status uc_lowered_check_parameters(const uc_lowered *lowered,
                                          const upconv_parameters *parameters,
                                          upconv_tensor *weight) {
  const upconv_problem *source = &lowered->source;
  upconv_status status = uc_param_check_count(lowered, parameters);
  for (int i = 0; i < lowered->param_count && !status; i++) {
    const uc_param *param = &lowered->param[i];
    if (param->kind == UC_PARAM_INPUT && param->size > 0)
      status = check_vector(&parameters->params[param->input], "parameter @",
                            lowered->source_tail->param[param->input].name, param->size);
  }
  if (!status) status = check_weight(source, &parameters->weight, weight);
  if (!status && source->bias != (parameters->bias.data != NULL))
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "bias: data is %s; the problem has %s",
                     source->bias ? "NULL" : "not NULL", source->bias ? "a bias" : "no bias");
  if (!status && source->bias)
    status = check_vector(&parameters->bias, "bias", "", source->out_channels);
  return status;
}

/* The values that the tail's declarations need; each gets its own copy. */
static upconv_status bind(const uc_lowered *lowered, const uc_values *value, uc_folded *folded) {
  int count = lowered->tail->param_count;
  folded->param = calloc((size_t)count + 1, sizeof *folded->param);
  if (!folded->param) return no_memory();
  folded->param_count = count;
  for (int i = 0; i < count; i++) {
    const uc_values *v = &value[lowered->param_of_decl[i]];
    folded->param[i] = allocate(v->size);
    if (!folded->param[i]) return no_memory();
    assert(v->number);
    memcpy(folded->param[i], v->number, (size_t)v->size * sizeof *v->number);
  }
  return UPCONV_OK;
}

upconv_status uc_fold_all_but_weights(const uc_lowered *lowered,
                                      const upconv_parameters *parameters, uc_folded *folded) {
  if (!parameters) return uc_fail(UPCONV_INVALID_ARGUMENT, "parameters is NULL");
  uc_folded result = {.weight = NULL};
  upconv_status status = uc_param_check_count(lowered, parameters);
  uc_values *value = calloc((size_t)lowered->param_count + 1, sizeof *value);
  if (!status && !value) status = no_memory();
  for (int i = 0; i < lowered->param_count && !status; i++)
    status = uc_param_evaluate(lowered, i, parameters, value);
  if (!status) status = fold_bias(lowered, parameters, value, &result);
  if (!status) status = bind(lowered, value, &result);
  for (int i = 0; value && i < lowered->param_count; i++) free(value[i].number);
  free(value);
  if (status)
    uc_folded_free(&result);
  else
    *folded = result;
  return status;
}

upconv_status uc_fold_parameters(const uc_lowered *lowered, const upconv_parameters *parameters,
                                 uc_folded *folded) {
  uc_folded result;
  upconv_status status = uc_fold_all_but_weights(lowered, parameters, &result);
  if (status) return status;
  status = uc_fold_weights(lowered, &result, 0, lowered->conv.in_channels, &result.weight);
  if (status)
    uc_folded_free(&result);
  else
    *folded = result;
  return status;
}

void uc_folded_free(uc_folded *folded) {
  if (!folded) return;
  for (int i = 0; i < folded->param_count; i++) free(folded->param[i]);
  free(folded->param);
  free(folded->weight);
  free(folded->bias);
  free(folded->scale);
  *folded = (uc_folded){.weight = NULL};
}
