/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of all values of an epilogue, and every check that needs sizes. */
#include <stdlib.h>

#include "checked.h"
#include "op.h"
#include "status.h"

/* What the operators seen so far say about the sizes of parameters and tensors. */
typedef struct usage {
  int64_t *param_channels;          /* 0: not used yet */
  int64_t (*tensor_shape)[UC_RANK]; /* -1: not used yet */
} usage;

static void copy_shape(int64_t *to, const int64_t *from) {
  for (int i = 0; i < UC_RANK; i++) to[i] = from[i];
}

static upconv_status check_elements(const int64_t *shape) {
  enum { WIDEST_ELEMENT = 8 }; /* bytes: results fit also as float64 */
  int64_t count;
  if (uc_product(shape, UC_RANK, &count) && uc_mul(count, WIDEST_ELEMENT, &count)) return UPCONV_OK;
  return uc_fail(UPCONV_OVERFLOW, "the number of elements of the result does not fit 64 bits");
}

/* ---- elementwise ---- */

static upconv_status broadcast(const upconv_op *op, const int64_t (*shape)[UC_RANK],
                               int64_t *result) {
  for (int i = 0; i < UC_RANK; i++) result[i] = 1;
  for (int j = 0; j < uc_op_operand_count(op->kind); j++) {
    if (op->operand[j].kind != UPCONV_OPERAND_VALUE) continue;
    const int64_t *operand = shape[op->operand[j].index];
    for (int i = 0; i < UC_RANK; i++) {
      if (operand[i] == result[i] || operand[i] == 1) continue;
      if (result[i] != 1)
        return uc_fail(UPCONV_INVALID_ARGUMENT,
                       "operand %d has %lld %s, another %lld; they must be equal or 1", j,
                       (long long)operand[i], uc_axis_label(i), (long long)result[i]);
      result[i] = operand[i];
    }
  }
  return UPCONV_OK;
}

/* ---- pooling ---- */

/*
 * Whether a window lies wholly in the padding: a maximum over nothing. Windows start inside the
 * input or in the padding at its beginning, because padding is less than the window. Those that
 * start inside touch it. One that starts before it, at -b, has its first element at or after 0 at
 * (-b mod dilation), which a window that is wider than its padding always reaches; but with an
 * input shorter than the dilation that element may lie behind the input.
 */
static bool has_empty_window(const upconv_window *window, int a, int64_t in_size,
                             int64_t out_size) {
  if (in_size >= window->dilation[a]) return false;
  for (int64_t o = 0; o < out_size; o++) {
    int64_t start = o * window->stride[a] - window->pad_begin[a];
    if (start >= 0) return start >= in_size;
    if (uc_mod(start, window->dilation[a]) >= in_size) return true;
  }
  return false;
}

static upconv_status pool_shape(const upconv_window *window, const int64_t *input,
                                int64_t *result) {
  copy_shape(result, input);
  for (int a = 0; a < UC_AXES; a++) {
    int64_t in_size = input[2 + a], out_size = uc_window_output(window, a, in_size);
    /* Nothing in, nothing out. */
    if (in_size == 0 && out_size < 0) out_size = 0;
    if (out_size <= 0 && in_size > 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "the window (kernel %lld, dilation %lld) does not fit %lld elements along %s",
                     (long long)window->kernel[a], (long long)window->dilation[a],
                     (long long)in_size, uc_axis_label(2 + a));
    if (has_empty_window(window, a, in_size, out_size))
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "a window along %s would lie wholly in the padding (%lld elements, kernel "
                     "%lld, dilation %lld, padding %lld)",
                     uc_axis_label(2 + a), (long long)in_size, (long long)window->kernel[a],
                     (long long)window->dilation[a], (long long)window->pad_begin[a]);
    result[2 + a] = out_size;
  }
  return UPCONV_OK;
}

/* ---- reductions ---- */

static upconv_status reduce_shape(const upconv_op *op, const int64_t *input, int64_t *result) {
  bool nothing = false, empty = false;
  for (int i = 0; i < UC_RANK; i++) {
    bool reduced = i > 0 && (op->axes & 1u << (i - 1));
    result[i] = reduced ? 1 : input[i];
    nothing = nothing || (reduced && input[i] == 0);
    empty = empty || result[i] == 0;
  }
  if (nothing && !empty)
    return uc_fail(UPCONV_UNSUPPORTED, "it would reduce an axis of extent 0 to one element");
  return UPCONV_OK;
}

/* ---- parameters and tensors ---- */

static upconv_status use_param(const upconv_epilogue *epilogue, usage *seen, int index,
                               int64_t channels) {
  const uc_param_decl *param = &epilogue->param[index];
  int64_t *known = &seen->param_channels[index];
  if (!param->per_channel) return UPCONV_OK;
  if (*known && *known != channels)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "parameter '%s' is used with %lld channels here and with %lld before",
                   param->name, (long long)channels, (long long)*known);
  *known = channels;
  return UPCONV_OK;
}

static upconv_status use_tensor(const upconv_epilogue *epilogue, usage *seen, int index,
                                const int64_t *result) {
  const uc_tensor_decl *tensor = &epilogue->tensor[index];
  int64_t *known = seen->tensor_shape[index];
  for (int i = 0; i < UC_RANK; i++) {
    int64_t extent = tensor->axes & 1u << i ? result[i] : 1;
    if (known[i] >= 0 && known[i] != extent)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "tensor '%s' is used with %lld %s here and with %lld before", tensor->name,
                     (long long)extent, uc_axis_label(i), (long long)known[i]);
    known[i] = extent;
  }
  return UPCONV_OK;
}

static upconv_status use_operands(const upconv_epilogue *epilogue, usage *seen, const upconv_op *op,
                                  const int64_t *result) {
  upconv_status status = UPCONV_OK;
  for (int j = 0; j < uc_op_operand_count(op->kind) && !status; j++) {
    if (op->operand[j].kind == UPCONV_OPERAND_PARAM)
      status = use_param(epilogue, seen, op->operand[j].index, result[1]);
    else if (op->operand[j].kind == UPCONV_OPERAND_TENSOR)
      status = use_tensor(epilogue, seen, op->operand[j].index, result);
  }
  return status;
}

/* ---- the whole ---- */

static upconv_status op_shape(const upconv_op *op, const int64_t (*shape)[UC_RANK],
                              int64_t *result) {
  const int64_t *input = shape[op->operand[0].index]; /* of classes whose operand 0 is a value */
  switch (uc_op_classify(op->kind)) {
  case UC_CLASS_ELEMENTWISE:
    return broadcast(op, shape, result);
  case UC_CLASS_POOL:
    return pool_shape(&op->window, input, result);
  case UC_CLASS_CHANNELS:
    copy_shape(result, input);
    return UPCONV_OK;
  case UC_CLASS_REDUCE:
    return reduce_shape(op, input, result);
  }
  return uc_fail(UPCONV_UNSUPPORTED, "an operator of no known class");
}

static bool usage_create(const upconv_epilogue *epilogue, usage *seen) {
  size_t params = (size_t)epilogue->param_count, tensors = (size_t)epilogue->tensor_count;
  /* One more than needed: calloc(0) may return NULL. */
  seen->param_channels = calloc(params + 1, sizeof *seen->param_channels);
  seen->tensor_shape = calloc(tensors + 1, sizeof *seen->tensor_shape);
  if (!seen->param_channels || !seen->tensor_shape) return false;
  for (size_t t = 0; t < tensors; t++)
    for (int i = 0; i < UC_RANK; i++) seen->tensor_shape[t][i] = -1;
  return true;
}

upconv_status uc_epilogue_shapes(const upconv_epilogue *epilogue, const int64_t conv_shape[UC_RANK],
                                 int64_t (*shape)[UC_RANK]) {
  usage seen = {NULL, NULL};
  upconv_status status = UPCONV_OK;
  if (!usage_create(epilogue, &seen))
    status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the shapes of an epilogue");
  if (!status) copy_shape(shape[0], conv_shape);
  for (int i = 0; i < epilogue->op_count && !status; i++) {
    const upconv_op *op = &epilogue->op[i];
    status = op_shape(op, (const int64_t(*)[UC_RANK])shape, shape[i + 1]);
    if (!status) status = check_elements(shape[i + 1]);
    if (!status) status = use_operands(epilogue, &seen, op, shape[i + 1]);
    if (status) uc_fail_in(status, "operator %d (%s)", i, upconv_op_name(op->kind));
  }
  free(seen.param_channels);
  free(seen.tensor_shape);
  return status;
}

static upconv_status result_shape(const upconv_epilogue *epilogue, const int64_t *conv_shape,
                                  int64_t *result) {
  int64_t(*all)[UC_RANK] = calloc((size_t)epilogue->op_count + 1, sizeof *all);
  if (!all) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the shapes of an epilogue");
  upconv_status status = uc_epilogue_shapes(epilogue, conv_shape, all);
  if (!status) copy_shape(result, all[epilogue->op_count]);
  free(all);
  return status;
}

upconv_status upconv_output_shape(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                  int64_t *shape) {
  if (!problem || !shape)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", problem ? "shape" : "problem");
  if (epilogue && epilogue->nd != problem->nd)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the epilogue is %d-D and the problem %d-D",
                   epilogue->nd, problem->nd);
  int64_t in_size[UC_AXES], full[UC_RANK];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = problem->axis[a].in_size;
  upconv_status status = uc_problem_conv_shape(problem, problem->batch, in_size, full);
  if (!status && epilogue) status = result_shape(epilogue, full, full);
  if (status) return status;
  shape[0] = full[0];
  shape[1] = full[1];
  for (int i = 0; i < problem->nd; i++) shape[2 + i] = full[UC_RANK - problem->nd + i];
  return UPCONV_OK;
}
