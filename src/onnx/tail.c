/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the graph as operators of an epilogue. Values inside a segment keep N, C and the
 * spatial axes whatever the graph does with dimensions: reshapes that only add or drop axes of
 * extent 1, and transposes, just change which dimension of the graph's value is which axis.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../status.h"
#include "fn.h"
#include "ops.h"
#include "segment.h"

const uc_inner *uc_tail_find(const uc_tail *tail, int value) {
  for (int i = 0; i < tail->inner_count; i++)
    if (tail->inner[i].value == value) return &tail->inner[i];
  return NULL;
}

static const uc_value *graph_value(const uc_tail *tail, int value) {
  return &tail->program->value[value];
}

/* The inner value that input k of the task is; NULL when it comes from outside, or nothing may
   read it any more. */
const uc_inner *uc_tail_input(const uc_tail *tail, const uc_onnx_task *t, int k) {
  const uc_inner *in =
      k < t->input_count && t->input[k] >= 0 ? uc_tail_find(tail, t->input[k]) : NULL;
  return in && !in->rounded ? in : NULL;
}

bool uc_tail_put(uc_tail *tail, const uc_inner *inner) {
  if (tail->inner_count > UC_MAX_TAIL) return false;
  tail->inner[tail->inner_count++] = *inner;
  return true;
}

/* ---- operands from outside ---- */

/* Names keep what an epilogue's names may hold, and are made unique by a number. */
static void make_name(const uc_tail *tail, int value, char *name, size_t size) {
  const char *from = tail->program->model->value[value].name;
  enum { LONGEST = 40 };
  size_t n = 0, length = strlen(from);
  for (const char *c = length > LONGEST ? from + length - LONGEST : from; *c; c++) {
    bool good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                *c == '_' || *c == '.';
    if (good || n > 0) name[n++] = good ? *c : '_';
  }
  name[n] = '\0';
  bool taken = n == 0;
  for (int i = 0; i < upconv_epilogue_param_count(tail->epilogue); i++)
    taken = taken || strcmp(upconv_epilogue_param_name(tail->epilogue, i), name) == 0;
  for (int i = 0; i < upconv_epilogue_tensor_count(tail->epilogue); i++)
    taken = taken || strcmp(upconv_epilogue_tensor_name(tail->epilogue, i), name) == 0;
  if (taken) snprintf(name + n, size - n, "_v%d", value);
}

bool uc_tail_param(uc_tail *tail, const uc_onnx_source *source, upconv_operand *operand) {
  char name[64];
  for (int i = 0; i < tail->param_count; i++)
    if (tail->param[i].value == source->value &&
        tail->param[i].per_channel == source->per_channel) {
      *operand = (upconv_operand){.kind = UPCONV_OPERAND_PARAM, .index = i};
      return true;
    }
  make_name(tail, source->value, name, sizeof name);
  if (tail->param_count == 2 * UC_MAX_TAIL ||
      upconv_epilogue_param(tail->epilogue, name, source->per_channel, operand))
    return false;
  tail->param[tail->param_count++] = *source;
  return true;
}

static bool add_tensor(uc_tail *tail, const uc_onnx_source *source, uint32_t axes,
                       upconv_dtype dtype, upconv_operand *operand) {
  char name[64];
  make_name(tail, source->value, name, sizeof name);
  if (tail->tensor_count == 2 * UC_MAX_TAIL ||
      upconv_epilogue_tensor(tail->epilogue, name, axes, dtype, operand))
    return false;
  tail->tensor[tail->tensor_count++] = *source;
  return true;
}

/* Which axes the outside value spans when it is broadcast to an inner one; false when it would
   make that larger. Axes of extent 1 on both sides count where another axis than the channels is
   spanned, so that a plan serves other sizes. */
static bool span_axes(const uc_tail *tail, const uc_inner *a, const uc_value *w,
                      uc_onnx_source *source, uint32_t *axes) {
  const uc_value *seen = graph_value(tail, a->value);
  uint32_t ones = 0;
  *axes = 0;
  for (int i = 0; i < UPCONV_MAX_RANK; i++) source->dim[i] = -1;
  for (int i = 0; i < w->rank; i++) {
    int j = i + a->rank - w->rank;
    if (w->shape[i] == 1 && (j < 0 || seen->shape[j] != 1)) continue;
    if (j < 0 || w->shape[i] != seen->shape[j]) return false;
    int axis = a->axis[j];
    if (axis < 0) continue; /* of extent 1 */
    *(w->shape[i] == 1 ? &ones : axes) |= 1u << axis;
    source->dim[axis] = i;
  }
  if (*axes & ~2u) *axes |= ones;
  for (int axis = 0; axis < UPCONV_MAX_RANK; axis++)
    if (!(*axes >> axis & 1)) source->dim[axis] = -1;
  return true;
}

/* A constant, a parameter (one number, or one per channel) or a tensor. */
bool uc_tail_outside(uc_tail *tail, const uc_inner *a, int value, upconv_operand *operand) {
  const uc_value *w = graph_value(tail, value);
  uc_onnx_source source = {.value = value};
  uint32_t axes;
  upconv_dtype dtype;
  if (uc_tail_find(tail, value) || !uc_onnx_engine_dtype(w->dtype, &dtype) ||
      !span_axes(tail, a, w, &source, &axes))
    return false;
  if (axes == 0 && w->data) {
    double number = uc_onnx_get(w->data, w->dtype, 0);
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_CONSTANT, .constant = number};
    return uc_shape_count(w->rank, w->shape) == 1;
  }
  source.per_channel = axes == 2;
  if (axes == 0 || axes == 2) return uc_tail_param(tail, &source, operand);
  return add_tensor(tail, &source, axes, dtype, operand);
}

/* ---- elementwise ---- */

upconv_op uc_tail_op(upconv_op_kind kind, upconv_operand first) {
  upconv_op op;
  /* The kind is one of the list: it cannot fail. */
  (void)upconv_op_init(&op, kind);
  op.operand[0] = first;
  return op;
}

/* Appends the operator; its value is the task's result, with dimensions as given. */
bool uc_tail_finish(uc_tail *tail, const uc_onnx_task *t, const upconv_op *op,
                    const uc_inner *like) {
  uc_inner made = *like;
  made.value = t->output[0];
  if (upconv_epilogue_append(tail->epilogue, op, &made.operand)) return false;
  return uc_tail_put(tail, &made);
}

/* Result of two inner values: dimensions are aligned on the right, and must mean the same axes. */
static bool align_inner(const uc_tail *tail, const uc_inner *a, const uc_inner *b,
                        uc_inner *result) {
  const uc_value *va = graph_value(tail, a->value), *vb = graph_value(tail, b->value);
  uint32_t seen = 0;
  *result = *a;
  result->rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 0; i < result->rank; i++) {
    int ia = i - (result->rank - a->rank), ib = i - (result->rank - b->rank);
    bool wide_a = ia >= 0 && va->shape[ia] != 1, wide_b = ib >= 0 && vb->shape[ib] != 1;
    int axis_a = ia >= 0 ? a->axis[ia] : -1, axis_b = ib >= 0 ? b->axis[ib] : -1;
    if (wide_a && wide_b && axis_a != axis_b) return false;
    int axis = wide_a ? axis_a : wide_b ? axis_b : axis_a >= 0 ? axis_a : axis_b;
    if (axis >= 0 && (seen >> axis & 1)) {
      if (wide_a || wide_b) return false;
      axis = -1;
    }
    if (axis >= 0) seen |= 1u << axis;
    result->axis[i] = axis;
  }
  return true;
}

/* The same for an outside value, which is never larger but may have more axes of extent 1 in
   front. */
static void align_outside(const uc_inner *a, const uc_value *w, uc_inner *result) {
  int more = w->rank > a->rank ? w->rank - a->rank : 0;
  *result = *a;
  result->rank = a->rank + more;
  for (int i = 0; i < result->rank; i++) result->axis[i] = i < more ? -1 : a->axis[i - more];
}

static bool operands_of_two(uc_tail *tail, const uc_onnx_task *t, upconv_operand operand[2],
                            uc_inner *result) {
  const uc_inner *a = uc_tail_input(tail, t, 0), *b = uc_tail_input(tail, t, 1);
  if (t->input_count != 2 || (!a && !b)) return false;
  if (a) operand[0] = a->operand;
  if (b) operand[1] = b->operand;
  if (a && b) return align_inner(tail, a, b, result);
  if (!uc_tail_outside(tail, a ? a : b, t->input[a ? 1 : 0], &operand[a ? 1 : 0])) return false;
  align_outside(a ? a : b, graph_value(tail, t->input[a ? 1 : 0]), result);
  return true;
}

static bool add_binary(uc_tail *tail, const uc_onnx_task *t, upconv_op_kind kind) {
  upconv_operand operand[2];
  uc_inner result;
  if (!operands_of_two(tail, t, operand, &result)) return false;
  upconv_op op = uc_tail_op(kind, operand[0]);
  op.operand[1] = operand[1];
  return uc_tail_finish(tail, t, &op, &result);
}

/* The constant number that input k is. */
static bool constant_input(const uc_tail *tail, const uc_onnx_task *t, int k, double *number) {
  if (k >= t->input_count || t->input[k] < 0) return false;
  const uc_value *v = graph_value(tail, t->input[k]);
  if (!v->data || uc_shape_count(v->rank, v->shape) != 1) return false;
  *number = uc_onnx_get(v->data, v->dtype, 0);
  return !isnan(*number);
}

static bool add_clamp(uc_tail *tail, const uc_onnx_task *t, const uc_inner *in, double low,
                      double high) {
  if (!in || isnan(low) || isnan(high)) return false;
  upconv_op op = uc_tail_op(UPCONV_OP_CLAMP, in->operand);
  op.attr[0] = low;
  op.attr[1] = high;
  return uc_tail_finish(tail, t, &op, in);
}

static bool add_clip(uc_tail *tail, const uc_onnx_task *t) {
  double bound[2] = {t->attr[0], t->attr[1]};
  for (int k = 0; k < 2; k++)
    if (t->input_count > 1 + k && t->input[1 + k] >= 0 &&
        !constant_input(tail, t, 1 + k, &bound[k]))
      return false;
  return add_clamp(tail, t, uc_tail_input(tail, t, 0), bound[0], bound[1]);
}

/* Max and Min with a number. */
static bool add_extreme(uc_tail *tail, const uc_onnx_task *t) {
  double number;
  bool max = t->fn == UC_FN_MAX;
  for (int k = 0; k < 2 && t->input_count == 2; k++) {
    const uc_inner *in = uc_tail_input(tail, t, k);
    if (!in || !constant_input(tail, t, 1 - k, &number)) continue;
    if (graph_value(tail, t->input[1 - k])->rank > in->rank) return false;
    return add_clamp(tail, t, in, max ? number : -INFINITY, max ? INFINITY : number);
  }
  return false;
}

static bool add_power(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  double exponent;
  if (!in || !constant_input(tail, t, 1, &exponent)) return false;
  if (graph_value(tail, t->input[1])->rank > in->rank || (exponent != 2 && exponent != 0.5))
    return false;
  upconv_op op = uc_tail_op(exponent == 2 ? UPCONV_OP_MUL : UPCONV_OP_SQRT, in->operand);
  if (exponent == 2) op.operand[1] = in->operand;
  return uc_tail_finish(tail, t, &op, in);
}

static bool add_reciprocal(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!in) return false;
  const upconv_operand one = {.kind = UPCONV_OPERAND_CONSTANT, .constant = 1};
  upconv_op op = uc_tail_op(UPCONV_OP_DIV, one);
  op.operand[1] = in->operand;
  return uc_tail_finish(tail, t, &op, in);
}

/* Values inside are float32 anyway: widening is nothing, and narrowing is what storing the
   result does. */
static bool add_cast(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  upconv_dtype unused;
  uc_onnx_dtype to = graph_value(tail, t->output[0])->dtype;
  if (!in || !uc_onnx_engine_dtype(to, &unused)) return false;
  uc_inner made = *in;
  made.value = t->output[0];
  made.dtype = to;
  made.rounded = to != UC_ONNX_FLOAT;
  return uc_tail_put(tail, &made);
}

static bool add_unary(uc_tail *tail, const uc_onnx_task *t, upconv_op_kind kind) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!in) return false;
  upconv_op op = uc_tail_op(kind, in->operand);
  op.attr[0] = t->attr[0];
  op.attr[1] = t->attr[1];
  return uc_tail_finish(tail, t, &op, in);
}

bool uc_tail_kind(uc_fn fn, upconv_op_kind *kind) {
  static const struct {
    uc_fn fn;
    upconv_op_kind kind;
  } table[] = {
      {UC_FN_ADD, UPCONV_OP_ADD},
      {UC_FN_SUB, UPCONV_OP_SUB},
      {UC_FN_MUL, UPCONV_OP_MUL},
      {UC_FN_DIV, UPCONV_OP_DIV},
      {UC_FN_PRELU, UPCONV_OP_PRELU},
      {UC_FN_RELU, UPCONV_OP_RELU},
      {UC_FN_LEAKY_RELU, UPCONV_OP_LEAKY_RELU},
      {UC_FN_ELU, UPCONV_OP_ELU},
      {UC_FN_SELU, UPCONV_OP_SELU},
      {UC_FN_CELU, UPCONV_OP_CELU},
      {UC_FN_SOFTPLUS, UPCONV_OP_SOFTPLUS},
      {UC_FN_SOFTSIGN, UPCONV_OP_SOFTSIGN},
      {UC_FN_GELU, UPCONV_OP_GELU},
      {UC_FN_GELU_TANH, UPCONV_OP_GELU_TANH},
      {UC_FN_SILU, UPCONV_OP_SILU},
      {UC_FN_MISH, UPCONV_OP_MISH},
      {UC_FN_HARDSWISH, UPCONV_OP_HARDSWISH},
      {UC_FN_HARDSIGMOID, UPCONV_OP_HARDSIGMOID},
      {UC_FN_SIGMOID, UPCONV_OP_SIGMOID},
      {UC_FN_TANH, UPCONV_OP_TANH},
      {UC_FN_ABS, UPCONV_OP_ABS},
      {UC_FN_NEG, UPCONV_OP_NEG},
      {UC_FN_SQRT, UPCONV_OP_SQRT},
      {UC_FN_EXP, UPCONV_OP_EXP},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (table[i].fn == fn) {
      *kind = table[i].kind;
      return true;
    }
  return false;
}

bool uc_tail_elementwise(uc_tail *tail, const uc_onnx_task *t) {
  switch (t->fn) {
  case UC_FN_CAST:
    return add_cast(tail, t);
  case UC_FN_CLIP:
    return add_clip(tail, t);
  case UC_FN_MAX:
  case UC_FN_MIN:
    return add_extreme(tail, t);
  case UC_FN_POW:
    return add_power(tail, t);
  case UC_FN_RECIPROCAL:
    return add_reciprocal(tail, t);
  default:
    break;
  }
  if (t->fn == UC_FN_SILU && t->attr[0] != 1) return false;
  /* The slope of PRelu belongs to the second operand. */
  if (t->fn == UC_FN_PRELU && !uc_tail_input(tail, t, 0)) return false;
  upconv_op_kind kind;
  if (!uc_tail_kind(t->fn, &kind)) return false;
  return uc_fn_operands(t->fn) == 2 ? add_binary(tail, t, kind) : add_unary(tail, t, kind);
}
