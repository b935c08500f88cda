/* SPDX-License-Identifier: Apache-2.0 */
/* From the caller's tensors, of any strides and data types, to the oracle's dense float64 inputs.
 */
#include <stdlib.h>

#include "checked.h"
#include "reference.h"
#include "status.h"
#include "tensor.h"

/* What uc_reference_inputs points to. */
typedef struct owned {
  double *x, *weight, *bias;
  double **param;
  int param_count;
  upconv_tensor *tensor;
  int64_t (*shape)[UC_RANK]; /* of all values */
} owned;

static void free_owned(owned *own) {
  free(own->x);
  free(own->weight);
  free(own->bias);
  for (int i = 0; own->param && i < own->param_count; i++) free(own->param[i]);
  free(own->param);
  free(own->tensor);
  free(own->shape);
}

static upconv_status no_memory(const char *name) {
  return uc_fail(UPCONV_OUT_OF_MEMORY, "%s does not fit in memory as float64", name);
}

/* ---- one tensor ---- */

static upconv_status check_shape(const upconv_tensor *tensor, const char *name,
                                 const int64_t *shape) {
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] != shape[i])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: axis %d has %lld elements; it must have %lld",
                     name, i, (long long)tensor->shape[i], (long long)shape[i]);
    if (tensor->offset[i] != 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "%s: offset %d is %lld; the oracle takes whole tensors", name, i,
                     (long long)tensor->offset[i]);
  }
  return UPCONV_OK;
}

/* Elements of a canonical view, densely. */
static upconv_status load(const upconv_tensor *t, const char *name, double **dense) {
  int64_t count, bytes;
  if (!uc_product(t->shape, UC_RANK, &count) || !uc_mul(count + 1, (int64_t)sizeof(double), &bytes))
    return no_memory(name);
  double *to = *dense = malloc((size_t)bytes);
  if (!to) return no_memory(name);
  int64_t i[UC_RANK];
  for (i[0] = 0; i[0] < t->shape[0]; i[0]++)
    for (i[1] = 0; i[1] < t->shape[1]; i[1]++)
      for (i[2] = 0; i[2] < t->shape[2]; i[2]++)
        for (i[3] = 0; i[3] < t->shape[3]; i[3]++) {
          int64_t row = 0;
          for (int a = 0; a < UC_RANK - 1; a++) row += i[a] * t->stride[a];
          for (i[4] = 0; i[4] < t->shape[4]; i[4]++)
            *to++ = uc_load(t->data, t->dtype, row + i[4] * t->stride[4]);
        }
  return UPCONV_OK;
}

/* A vector of n numbers, or a single number of rank 0, as a canonical view. */
static upconv_status load_vector(const upconv_tensor *tensor, const char *name, int64_t n,
                                 double **dense) {
  upconv_tensor t = {.data = tensor->data, .dtype = tensor->dtype, .rank = UC_RANK};
  if (!tensor->data) return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: data is NULL", name);
  if (!upconv_dtype_size(tensor->dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "%s: dtype is %d; allowed: f32, f16, bf16", name,
                   (int)tensor->dtype);
  if (tensor->rank != 1 && (tensor->rank != 0 || n != 1))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: rank is %d; it must be 1%s", name, tensor->rank,
                   n == 1 ? " or 0" : "");
  upconv_status status = check_shape(tensor, name, &n);
  if (status) return status;
  for (int a = 0; a < UC_RANK; a++) t.shape[a] = 1;
  t.shape[UC_RANK - 1] = n;
  t.stride[UC_RANK - 1] = tensor->rank ? tensor->stride[0] : 0;
  return load(&t, name, dense);
}

/* ---- activations ---- */

static upconv_status load_x(const upconv_problem *problem, const upconv_arguments *arguments,
                            owned *own, uc_reference_inputs *inputs) {
  upconv_tensor x;
  upconv_status status = uc_tensor_canonical(&arguments->x, "x", problem->nd, &x);
  if (status) return status;
  int64_t shape[UC_RANK];
  for (int a = 0; a < UC_RANK; a++) shape[a] = x.shape[a];
  shape[1] = problem->in_channels;
  status = check_shape(&x, "x", shape);
  if (!status) status = load(&x, "x", &own->x);
  inputs->x = own->x;
  inputs->batch = x.shape[0];
  for (int a = 0; a < UC_AXES; a++) inputs->in_size[a] = x.shape[2 + a];
  return status;
}

/* Shapes of all values for the x of this run. */
static upconv_status find_shapes(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                 const uc_reference_inputs *inputs, owned *own) {
  own->shape = malloc(((size_t)epilogue->op_count + 1) * sizeof *own->shape);
  if (!own->shape) return no_memory("the epilogue");
  upconv_status status =
      uc_problem_conv_shape(problem, inputs->batch, inputs->in_size, own->shape[0]);
  return status ? status : uc_epilogue_shapes(epilogue, own->shape[0], own->shape);
}

/* The operator that uses parameter or tensor number index, or -1. */
static int find_user(const upconv_epilogue *epilogue, upconv_operand_kind kind, int index) {
  for (int i = 0; i < epilogue->op_count; i++)
    for (int k = 0; k < uc_op_operand_count(epilogue->op[i].kind); k++) {
      const upconv_operand *operand = &epilogue->op[i].operand[k];
      if (operand->kind == kind && operand->index == index) return i;
    }
  return -1;
}

static upconv_status view_tensors(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                  const upconv_arguments *arguments, owned *own,
                                  uc_reference_inputs *inputs) {
  if (arguments->tensor_count != epilogue->tensor_count ||
      (epilogue->tensor_count && !arguments->tensors))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "tensor_count is %d; the epilogue has %d tensors",
                   arguments->tensors ? arguments->tensor_count : 0, epilogue->tensor_count);
  own->tensor = calloc((size_t)epilogue->tensor_count + 1, sizeof *own->tensor);
  if (!own->tensor) return no_memory("the tensors");
  inputs->tensor = own->tensor;
  for (int i = 0; i < epilogue->tensor_count; i++) {
    const uc_tensor_decl *decl = &epilogue->tensor[i];
    int user = find_user(epilogue, UPCONV_OPERAND_TENSOR, i);
    if (user < 0) continue;
    upconv_status status =
        uc_tensor_canonical(&arguments->tensors[i], decl->name, problem->nd, &own->tensor[i]);
    if (status) return status;
    int64_t shape[UC_RANK];
    for (int a = 0; a < UC_RANK; a++) shape[a] = decl->axes >> a & 1 ? own->shape[user + 1][a] : 1;
    status = check_shape(&own->tensor[i], decl->name, shape);
    if (status) return status;
    if (own->tensor[i].dtype != decl->dtype)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: dtype is %s; the epilogue declares %s",
                     decl->name, upconv_dtype_name(own->tensor[i].dtype),
                     upconv_dtype_name(decl->dtype));
  }
  return UPCONV_OK;
}

/* ---- parameters ---- */

static upconv_status load_weights(const upconv_problem *problem,
                                  const upconv_parameters *parameters, owned *own,
                                  uc_reference_inputs *inputs) {
  upconv_tensor weight;
  upconv_status status = uc_tensor_canonical(&parameters->weight, "weight", problem->nd, &weight);
  if (status) return status;
  int64_t shape[UC_RANK] = {problem->in_channels, problem->out_channels / problem->groups};
  for (int a = 0; a < UC_AXES; a++) shape[2 + a] = problem->axis[a].kernel;
  status = check_shape(&weight, "weight", shape);
  if (!status) status = load(&weight, "weight", &own->weight);
  inputs->weight = own->weight;
  if (!status && problem->bias)
    status = load_vector(&parameters->bias, "bias", problem->out_channels, &own->bias);
  inputs->bias = own->bias;
  return status;
}

static upconv_status load_params(const upconv_epilogue *epilogue,
                                 const upconv_parameters *parameters, owned *own,
                                 uc_reference_inputs *inputs) {
  if (parameters->param_count != epilogue->param_count ||
      (epilogue->param_count && !parameters->params))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "param_count is %d; the epilogue has %d parameters",
                   parameters->params ? parameters->param_count : 0, epilogue->param_count);
  own->param_count = epilogue->param_count;
  own->param = calloc((size_t)epilogue->param_count + 1, sizeof *own->param);
  if (!own->param) return no_memory("the parameters");
  inputs->param = own->param;
  for (int i = 0; i < epilogue->param_count; i++) {
    const uc_param_decl *decl = &epilogue->param[i];
    int user = find_user(epilogue, UPCONV_OPERAND_PARAM, i);
    if (user < 0) continue;
    int64_t n = decl->per_channel ? own->shape[user + 1][1] : 1;
    upconv_status status = load_vector(&parameters->params[i], decl->name, n, &own->param[i]);
    if (status) return status;
  }
  return UPCONV_OK;
}

/* ---- entry points ---- */

static upconv_status check_pointers(const void *parameters, const void *arguments,
                                    const double *value, const double *bound) {
  const char *missing = !parameters  ? "parameters"
                        : !arguments ? "arguments"
                        : !value     ? "value"
                        : !bound     ? "bound"
                                     : NULL;
  return missing ? uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", missing) : UPCONV_OK;
}

static upconv_status run_reference(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                   const upconv_parameters *parameters,
                                   const upconv_arguments *arguments, uc_reference_inputs inputs,
                                   const upconv_error_model *model, double *value, double *bound) {
  owned own = {.x = NULL};
  upconv_problem stored = *problem;
  stored.y_dtype = arguments->y.dtype;
  upconv_status status = load_x(problem, arguments, &own, &inputs);
  if (!status) status = find_shapes(problem, epilogue, &inputs, &own);
  if (!status) status = load_weights(problem, parameters, &own, &inputs);
  if (!status) status = load_params(epilogue, parameters, &own, &inputs);
  if (!status) status = view_tensors(problem, epilogue, arguments, &own, &inputs);
  if (!status) status = uc_reference_run(&stored, epilogue, &inputs, model, value, bound);
  free_owned(&own);
  return status;
}

upconv_status
uc_reference_with_errors(const upconv_problem *problem, const upconv_epilogue *epilogue,
                         const upconv_parameters *parameters, const upconv_arguments *arguments,
                         const double *x_error, const double *const *tensor_error,
                         const upconv_error_model *model, double *value, double *bound) {
  const uc_reference_inputs inputs = {.x_error = x_error, .tensor_error = tensor_error};
  if (!problem) return uc_fail(UPCONV_INVALID_ARGUMENT, "problem is NULL");
  upconv_status status = check_pointers(parameters, arguments, value, bound);
  if (!status && !upconv_dtype_size(arguments->y.dtype))
    status = uc_fail(UPCONV_UNSUPPORTED, "y: dtype is %d; allowed: f32, f16, bf16",
                     (int)arguments->y.dtype);
  if (!status && epilogue && epilogue->nd != problem->nd)
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "the epilogue is %d-D and the problem %d-D",
                     epilogue->nd, problem->nd);
  if (status) return status;
  if (epilogue)
    return run_reference(problem, epilogue, parameters, arguments, inputs, model, value, bound);
  upconv_epilogue *none;
  status = upconv_epilogue_create(problem->nd, &none);
  if (status) return status;
  status = run_reference(problem, none, parameters, arguments, inputs, model, value, bound);
  upconv_epilogue_destroy(none);
  return status;
}

upconv_status upconv_reference(const upconv_problem *problem, const upconv_epilogue *epilogue,
                               const upconv_parameters *parameters,
                               const upconv_arguments *arguments, const upconv_error_model *model,
                               double *value, double *bound) {
  return uc_reference_with_errors(problem, epilogue, parameters, arguments, NULL, NULL, model,
                                  value, bound);
}

upconv_status uc_reference_lowered(const uc_lowered *lowered, const upconv_parameters *parameters,
                                   const upconv_arguments *arguments,
                                   const upconv_error_model *model, double *value, double *bound) {
  owned own = {.x = NULL};
  uc_folded folded;
  uc_reference_inputs inputs = {.x = NULL};
  upconv_problem stored = lowered->conv;
  stored.y_dtype = arguments->y.dtype;
  upconv_status status = uc_fold_parameters(lowered, parameters, &folded);
  if (status) return status;
  inputs.weight = folded.weight;
  inputs.bias = folded.bias;
  inputs.param = folded.param;
  status = load_x(&lowered->conv, arguments, &own, &inputs);
  if (!status) status = find_shapes(&lowered->conv, lowered->tail, &inputs, &own);
  if (!status) status = view_tensors(&lowered->conv, lowered->tail, arguments, &own, &inputs);
  if (!status) status = uc_reference_run(&stored, lowered->tail, &inputs, model, value, bound);
  free_owned(&own);
  uc_folded_free(&folded);
  return status;
}
