/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of the oracle, with NumPy's broadcasting. */
#include <math.h>

#include "reference_parts.h"
#include "tensor.h"

uc_approx uc_reference_parameter(const uc_reference_state *run, const upconv_operand *operand,
                                 int64_t channel) {
  if (operand->kind == UPCONV_OPERAND_CONSTANT) return uc_approx_stored(operand->constant);
  const double *param = run->inputs->param[operand->index];
  return uc_approx_stored(param[run->epilogue->param[operand->index].per_channel ? channel : 0]);
}

/* Index of element i (N, C, D, H, W) in a channels-first value whose axes of extent 1 are
 * broadcast. */
static int64_t broadcast_index(const int64_t shape[UC_RANK], const int64_t i[UC_RANK]) {
  int64_t index = 0;
  for (int a = 0; a < UC_RANK; a++) index = index * shape[a] + (shape[a] == 1 ? 0 : i[a]);
  return index;
}

static uc_approx read_tensor(const uc_reference_state *run, int number, const int64_t i[UC_RANK]) {
  const upconv_tensor *t = &run->inputs->tensor[number];
  int64_t index = t->shape[0] == 1 ? 0 : run->item * t->stride[0];
  for (int a = 1; a < UC_RANK; a++) index += t->shape[a] == 1 ? 0 : i[a] * t->stride[a];
  uc_approx read = uc_approx_exact(uc_load(t->data, t->dtype, index));
  const double *error = run->inputs->tensor_error ? run->inputs->tensor_error[number] : NULL;
  if (!error) return read;
  return isinf(error[index]) ? uc_approx_undecided(read.value)
                             : uc_approx_widen(read, error[index]);
}

static uc_approx read_operand(const uc_reference_state *run, const upconv_operand *operand,
                              const int64_t i[UC_RANK]) {
  switch (operand->kind) {
  case UPCONV_OPERAND_VALUE: {
    const uc_reference_values *v = &run->values[operand->index];
    return v->at[broadcast_index(v->shape, i)];
  }
  case UPCONV_OPERAND_TENSOR:
    return read_tensor(run, operand->index, i);
  case UPCONV_OPERAND_NONE:
    return uc_approx_exact(0);
  case UPCONV_OPERAND_CONSTANT:
  case UPCONV_OPERAND_PARAM:
    break;
  }
  return uc_reference_parameter(run, operand, i[1]);
}

/* ---- batch normalisation ---- */

/* weight (x - mean) / sqrt(variance + epsilon) + bias, in whatever order: each term may be rounded
 * on its own. */
typedef struct norm {
  double scale, mean, bias;
} norm;

static norm read_norm(const uc_reference_state *run, const upconv_op *op, int64_t channel) {
  double p[UPCONV_MAX_OPERANDS];
  for (int k = 1; k < UPCONV_MAX_OPERANDS; k++)
    p[k] = op->operand[k].kind == UPCONV_OPERAND_NONE
               ? (k == 1 ? 1 : 0)
               : uc_reference_parameter(run, &op->operand[k], channel).value;
  return (norm){p[1] / sqrt(p[4] + op->attr[0]), p[3], p[2]};
}

static uc_approx batch_norm(norm n, uc_approx x) {
  double value = n.scale * (x.value - n.mean) + n.bias;
  if (uc_approx_is_undecided(x)) return uc_approx_undecided(value);
  if (isnan(n.scale) || isnan(x.value)) return uc_approx_exact(NAN);
  if (!isfinite(n.scale) || !isfinite(n.mean) || !isfinite(n.bias))
    return uc_approx_undecided(value);
  if (isinf(x.value)) return uc_approx_exact(value);
  double at_low = n.scale * (x.low - n.mean) + n.bias;
  double at_high = n.scale * (x.high - n.mean) + n.bias;
  double terms = fabs(n.scale) * (uc_approx_largest(x) + fabs(n.mean)) + fabs(n.bias);
  double error = 4 * UC_ROUNDING * terms + UC_SMALLEST;
  return uc_approx_settle(value, fmin(at_low, at_high) - error, fmax(at_low, at_high) + error);
}

/* ---- affine images of the convolution ---- */

static bool is_parameter(const upconv_operand *operand) {
  return operand->kind == UPCONV_OPERAND_PARAM || operand->kind == UPCONV_OPERAND_CONSTANT;
}

/* The operand that keeps the result an affine image of the convolution, or -1. */
static int affine_operand(const uc_reference_state *run, const upconv_op *op) {
  int from = -1;
  switch ((int)op->kind) {
  case UPCONV_OP_NEG:
  case UPCONV_OP_BATCH_NORM:
    from = 0;
    break;
  case UPCONV_OP_DIV:
    if (is_parameter(&op->operand[1])) from = 0;
    break;
  case UPCONV_OP_ADD:
  case UPCONV_OP_SUB:
  case UPCONV_OP_MUL:
    if (is_parameter(&op->operand[1]))
      from = 0;
    else if (is_parameter(&op->operand[0]))
      from = 1;
    break;
  case UPCONV_OP_AVG_POOL:
    from = 0;
    break;
  default:
    return -1;
  }
  if (from < 0 || op->operand[from].kind != UPCONV_OPERAND_VALUE) return -1;
  return run->values[op->operand[from].index].magnitude ? from : -1;
}

bool uc_reference_keeps_affine(const uc_reference_state *run, const upconv_op *op) {
  return affine_operand(run, op) >= 0;
}

/* The magnitude of the result: what it would be if the operator were folded into weights and bias.
 */
static double affine_magnitude(const uc_reference_state *run, const upconv_op *op, int from,
                               double magnitude, int64_t channel) {
  if (op->kind == UPCONV_OP_NEG) return magnitude;
  if (op->kind == UPCONV_OP_BATCH_NORM) {
    norm n = read_norm(run, op, channel);
    return fabs(n.scale) * (magnitude + fabs(n.mean)) + fabs(n.bias);
  }
  double p = fabs(uc_reference_parameter(run, &op->operand[1 - from], channel).value);
  switch ((int)op->kind) {
  case UPCONV_OP_MUL:
    return magnitude * p;
  case UPCONV_OP_DIV:
    return magnitude / p;
  default:
    return magnitude + p;
  }
}

/* ---- the operator ---- */

static uc_approx element(const uc_reference_state *run, const upconv_op *op,
                         const int64_t i[UC_RANK]) {
  uc_approx a = read_operand(run, &op->operand[0], i);
  uc_approx b = read_operand(run, &op->operand[1], i);
  switch ((int)op->kind) {
  case UPCONV_OP_ADD:
    return uc_approx_add(a, b);
  case UPCONV_OP_SUB:
    return uc_approx_sub(a, b);
  case UPCONV_OP_MUL:
    return uc_approx_mul(a, b);
  case UPCONV_OP_DIV:
    return uc_approx_div(a, b);
  case UPCONV_OP_PRELU:
    return uc_approx_two_slope(a, uc_approx_exact(1), b);
  case UPCONV_OP_TWO_SLOPE:
    return uc_approx_two_slope(a, b, read_operand(run, &op->operand[2], i));
  case UPCONV_OP_BATCH_NORM:
    return batch_norm(read_norm(run, op, i[1]), a);
  default:
    return uc_approx_function(op->kind, op->attr, a);
  }
}

upconv_status uc_reference_elementwise(const uc_reference_state *run, const upconv_op *op,
                                       uc_reference_values *result) {
  const int64_t *shape = result->shape;
  int from = affine_operand(run, op);
  const uc_reference_values *source = from < 0 ? NULL : &run->values[op->operand[from].index];
  int64_t i[UC_RANK] = {0}, at = 0;
  for (i[1] = 0; i[1] < shape[1]; i[1]++)
    for (i[2] = 0; i[2] < shape[2]; i[2]++)
      for (i[3] = 0; i[3] < shape[3]; i[3]++)
        for (i[4] = 0; i[4] < shape[4]; i[4]++, at++) {
          result->at[at] = element(run, op, i);
          if (!source) continue;
          double products = source->products[at];
          double magnitude = affine_magnitude(run, op, from, source->magnitude[at], i[1]);
          result->magnitude[at] = magnitude;
          result->products[at] = products;
          result->at[at] = uc_reference_fold_error(run->model, result->at[at], magnitude, products);
        }
  return UPCONV_OK;
}
