/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a tail, and the operators that work along axes: pools, reductions, softmax, norms
   and views. */
#include <string.h>

#include "../status.h"
#include "ops.h"
#include "segment.h"

/* ---- the start ---- */

/* A convolution of stride s is one of stride 1 of which every s-th position is kept. */
static upconv_status add_stride(uc_tail *tail, const uc_onnx_task *conv, upconv_operand *operand) {
  upconv_op op = uc_tail_op(UPCONV_OP_MAX_POOL, *operand);
  bool strided = false;
  for (int i = 0; i < tail->nd; i++) {
    op.window.stride[i] = conv->conv_stride[i] ? conv->conv_stride[i] : 1;
    strided = strided || op.window.stride[i] > 1;
  }
  return strided ? upconv_epilogue_append(tail->epilogue, &op, operand) : UPCONV_OK;
}

upconv_status uc_tail_start(uc_tail *tail, uc_onnx_program *program, const uc_onnx_task *conv) {
  const uc_value *y = uc_task_out(program, conv, 0);
  *tail = (uc_tail){.program = program, .nd = conv->desc.spatial_dims};
  upconv_status status = upconv_epilogue_create(tail->nd, &tail->epilogue);
  if (status) return status;
  uc_inner first = {.value = conv->output[0], .dtype = y->dtype, .rank = y->rank};
  first.operand = (upconv_operand){.kind = UPCONV_OPERAND_VALUE};
  for (int i = 0; i < y->rank; i++) first.axis[i] = i;
  status = add_stride(tail, conv, &first.operand);
  if (!status) (void)uc_tail_put(tail, &first);
  return status;
}

void uc_tail_free(uc_tail *tail) {
  upconv_epilogue_destroy(tail->epilogue);
  tail->epilogue = NULL;
}

/* ---- pools ---- */

/* Dimension i is axis i: what an operator with its own idea of N, C and space needs. */
static bool is_straight(const uc_tail *tail, const uc_inner *in) {
  if (!in || in->rank != tail->nd + 2) return false;
  for (int i = 0; i < in->rank; i++)
    if (in->axis[i] != i) return false;
  return true;
}

static bool add_pool(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!is_straight(tail, in)) return false;
  bool average = t->op->variant == UC_POOL_AVERAGE;
  upconv_op op = uc_tail_op(average ? UPCONV_OP_AVG_POOL : UPCONV_OP_MAX_POOL, in->operand);
  op.window = t->window;
  return uc_tail_finish(tail, t, &op, in);
}

/* ---- reductions ---- */

static bool reduce_kind(int variant, upconv_op_kind *kind) {
  switch ((uc_reduce_kind)variant) {
  case UC_REDUCE_SUM:
    *kind = UPCONV_OP_SUM;
    return true;
  case UC_REDUCE_MEAN:
    *kind = UPCONV_OP_MEAN;
    return true;
  case UC_REDUCE_MAX:
    *kind = UPCONV_OP_MAX;
    return true;
  case UC_REDUCE_MIN:
    *kind = UPCONV_OP_MIN;
    return true;
  case UC_REDUCE_LOG_SUM_EXP:
    *kind = UPCONV_OP_LOGSUMEXP;
    return true;
  default:
    return false;
  }
}

/* The axes that a task's dimensions are; false when one of more than one element is none, or is
   the batch. */
static bool reduced_axes(const uc_tail *tail, const uc_onnx_task *t, const uc_inner *in,
                         uint32_t *axes) {
  const uc_value *seen = &tail->program->value[in->value];
  *axes = 0;
  for (int i = 0; i < in->rank; i++) {
    if (!(t->axes >> i & 1) || seen->shape[i] == 1) continue;
    if (in->axis[i] < 1) return false;
    *axes |= 1u << in->axis[i];
  }
  return true;
}

/* Dimensions after the reduction: reduced ones are dropped, or keep an extent of 1. */
static void drop_reduced(const uc_onnx_task *t, const uc_inner *in, uc_inner *result) {
  *result = *in;
  result->rank = 0;
  for (int i = 0; i < in->rank; i++)
    if (t->keepdims || !(t->axes >> i & 1)) result->axis[result->rank++] = in->axis[i];
}

/* Channels first, then space: the library's reductions are over one or the other. */
static bool add_reduce(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  upconv_op_kind kind;
  uint32_t axes;
  if (!in || !reduce_kind(t->op->variant, &kind) || !reduced_axes(tail, t, in, &axes)) return false;
  uint32_t spatial = axes >> 2;
  if (kind == UPCONV_OP_LOGSUMEXP && spatial) return false;
  uc_inner result;
  drop_reduced(t, in, &result);
  result.value = t->output[0];
  upconv_op op = uc_tail_op(kind, in->operand);
  if (axes & 2) {
    op.axes = UPCONV_AXIS_CHANNEL;
    if (upconv_epilogue_append(tail->epilogue, &op, &op.operand[0])) return false;
  }
  if (spatial) {
    op.axes = spatial << 1;
    if (upconv_epilogue_append(tail->epilogue, &op, &op.operand[0])) return false;
  }
  result.operand = op.operand[0];
  return uc_tail_put(tail, &result);
}

static bool add_softmax(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!in) return false;
  const uc_value *seen = &tail->program->value[in->value];
  int channel = -1;
  for (int i = t->axis; i < t->axis_end; i++) {
    if (seen->shape[i] == 1) continue;
    if (channel >= 0 || in->axis[i] != 1) return false;
    channel = i;
  }
  if (channel < 0) return false;
  upconv_op op =
      uc_tail_op(t->op->variant ? UPCONV_OP_LOG_SOFTMAX : UPCONV_OP_SOFTMAX, in->operand);
  op.axes = UPCONV_AXIS_CHANNEL;
  return uc_tail_finish(tail, t, &op, in);
}

/* ---- norms ---- */

static bool add_batch_norm(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!in || in->rank < 2 || in->axis[1] != 1 || t->op->variant != 0) return false;
  upconv_op op = uc_tail_op(UPCONV_OP_BATCH_NORM, in->operand);
  op.attr[0] = t->attr[0];
  static const int order[] = {3, 4, 1, 2}; /* as the text form names them */
  for (int i = 0; i < 4; i++) {
    int k = order[i];
    /* A vector of channels is read as [C, 1, ...], aligned with the value's dimensions. */
    const uc_value *w = uc_task_in(tail->program, t, k);
    uc_onnx_source source = {.value = t->input[k], .dim = {-1, 0, -1, -1, -1}, .per_channel = true};
    upconv_dtype dtype;
    if (uc_tail_find(tail, t->input[k]) || !uc_onnx_engine_dtype(w->dtype, &dtype) ||
        !uc_tail_param(tail, &source, &op.operand[k]))
      return false;
  }
  return uc_tail_finish(tail, t, &op, in);
}

/* ---- views ---- */

/* Which new dimension is which old one when only axes of extent 1 come and go. */
static bool match_dimensions(const uc_value *from, const uc_value *to, const uc_inner *in,
                             uc_inner *result) {
  int i = 0;
  result->rank = to->rank;
  for (int k = 0; k < to->rank; k++) {
    while (i < from->rank && from->shape[i] == 1 && to->shape[k] != 1) i++;
    bool same = i < from->rank && from->shape[i] == to->shape[k];
    if (!same && to->shape[k] != 1) return false;
    result->axis[k] = same ? in->axis[i++] : -1;
  }
  for (; i < from->rank; i++)
    if (from->shape[i] != 1) return false;
  return true;
}

static bool add_view(uc_tail *tail, const uc_onnx_task *t) {
  const uc_inner *in = uc_tail_input(tail, t, 0);
  if (!in) return false;
  const uc_value *from = &tail->program->value[in->value];
  const uc_value *to = uc_task_out(tail->program, t, 0);
  uc_inner result = *in;
  result.value = t->output[0];
  if (t->op->plan == uc_plan_transpose) {
    for (int i = 0; i < in->rank; i++) result.axis[i] = in->axis[t->perm[i]];
    return uc_tail_put(tail, &result);
  }
  bool reshapes = t->op->plan == uc_plan_identity || t->op->plan == uc_plan_dropout ||
                  t->op->plan == uc_plan_reshape || t->op->plan == uc_plan_flatten ||
                  t->op->plan == uc_plan_squeeze || t->op->plan == uc_plan_unsqueeze ||
                  t->op->plan == uc_plan_cast;
  return reshapes && match_dimensions(from, to, in, &result) && uc_tail_put(tail, &result);
}

bool uc_tail_add(uc_tail *tail, const uc_onnx_task *t) {
  if (t->output_count < 1 || t->output[0] < 0) return false;
  if (t->view) return add_view(tail, t);
  switch (t->op->family) {
  case UC_FAMILY_ELEMENTWISE:
    return uc_tail_elementwise(tail, t);
  case UC_FAMILY_POOL:
    return add_pool(tail, t);
  case UC_FAMILY_REDUCE:
    return add_reduce(tail, t);
  case UC_FAMILY_SOFTMAX:
    return add_softmax(tail, t);
  case UC_FAMILY_NORM:
    return add_batch_norm(tail, t);
  case UC_FAMILY_VIEW: /* a reshape that would be a copy outside of a segment */
    return add_view(tail, t);
  default:
    return false;
  }
}
