/* SPDX-License-Identifier: Apache-2.0 */
/* Plain tasks as operations of the GPU (cuda/plain.h): often one, for Concat one an input. */
#include <stdlib.h>
#include <string.h>

#include "../cuda/plain.h"
#include "../status.h"
#include "device.h"
#include "ops.h"

/* ---- names ---- */

static uc_plain_dtype dtype_of(uc_onnx_dtype dtype) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    return UC_PLAIN_F32;
  case UC_ONNX_FLOAT16:
    return UC_PLAIN_F16;
  case UC_ONNX_BFLOAT16:
    return UC_PLAIN_BF16;
  case UC_ONNX_DOUBLE:
    return UC_PLAIN_F64;
  case UC_ONNX_INT8:
    return UC_PLAIN_I8;
  case UC_ONNX_UINT8:
    return UC_PLAIN_U8;
  case UC_ONNX_INT16:
    return UC_PLAIN_I16;
  case UC_ONNX_UINT16:
    return UC_PLAIN_U16;
  case UC_ONNX_INT32:
    return UC_PLAIN_I32;
  case UC_ONNX_UINT32:
    return UC_PLAIN_U32;
  case UC_ONNX_INT64:
    return UC_PLAIN_I64;
  case UC_ONNX_UINT64:
    return UC_PLAIN_U64;
  case UC_ONNX_BOOL:
    return UC_PLAIN_BOOL;
  case UC_ONNX_UNDEFINED:
  case UC_ONNX_STRING:
    break;
  }
  return UC_PLAIN_NONE;
}

/* The functions have the same names and stand in the same order. */
#define SAME(name) _Static_assert((int)UC_FN_##name == (int)UC_PLAIN_##name, #name)
SAME(ADD);
SAME(PRELU);
SAME(XOR);
SAME(WHERE);
SAME(CLIP);
SAME(CAST);
SAME(SELU);
SAME(SILU);
SAME(HARDSIGMOID);
SAME(ERF);
SAME(ROUND);
SAME(COS);
#undef SAME

static uc_plain_reduce reduce_of(uc_reduce_kind kind) {
  static const uc_plain_reduce reduce[] = {
      [UC_REDUCE_SUM] = UC_PLAIN_REDUCE_SUM,
      [UC_REDUCE_MEAN] = UC_PLAIN_REDUCE_MEAN,
      [UC_REDUCE_MAX] = UC_PLAIN_REDUCE_MAX,
      [UC_REDUCE_MIN] = UC_PLAIN_REDUCE_MIN,
      [UC_REDUCE_LOG_SUM_EXP] = UC_PLAIN_REDUCE_LOG_SUM_EXP,
      [UC_REDUCE_SUM_SQUARE] = UC_PLAIN_REDUCE_SUM_SQUARE,
      [UC_REDUCE_L1] = UC_PLAIN_REDUCE_L1,
      [UC_REDUCE_L2] = UC_PLAIN_REDUCE_L2,
      [UC_REDUCE_PROD] = UC_PLAIN_REDUCE_PROD,
      [UC_REDUCE_LOG_SUM] = UC_PLAIN_REDUCE_LOG_SUM,
  };
  return reduce[kind];
}

static uc_plain_view view_of(const uc_view *view) {
  _Static_assert((int)UC_PLAIN_RANK == (int)UC_ONNX_MAX_RANK, "views have the same room");
  uc_plain_view plain = {.dtype = dtype_of(view->dtype), .rank = view->rank};
  memcpy(plain.shape, view->shape, sizeof plain.shape);
  memcpy(plain.stride, view->stride, sizeof plain.stride);
  return plain;
}

/* ---- operations ---- */

/* One operation; where its addresses come from. */
typedef struct part {
  uc_plain *plain;
  int in[UC_PLAIN_INPUTS]; /* inputs of the task; RESULT: its result; NONE: left out */
  int64_t out_at;          /* bytes behind the result's first element */
  bool in_place;           /* nothing to do where source and result are one */
} part;

enum { NONE = -1, RESULT = -2 };

typedef struct work {
  int count, room;
  part *part;
} work;

typedef struct builder {
  const uc_device *device;
  work *work;
  size_t workspace;
} builder;

static upconv_status add(builder *b, const uc_plain_op *op, const part *addresses) {
  work *w = b->work;
  if (w->count == w->room) {
    int room = w->room ? 2 * w->room : 1;
    part *grown = realloc(w->part, (size_t)room * sizeof *grown);
    if (!grown) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %d operations", room);
    w->part = grown;
    w->room = room;
  }
  part *p = &w->part[w->count];
  *p = *addresses;
  upconv_status status = uc_cuda_plain_prepare(b->device->plain, op, &p->plain);
  if (status) return status;
  w->count++;
  size_t bytes = uc_cuda_plain_workspace(p->plain);
  if (bytes > b->workspace) b->workspace = bytes;
  return UPCONV_OK;
}

static part straight(int inputs) {
  part p = {.plain = NULL};
  for (int k = 0; k < UC_PLAIN_INPUTS; k++) p.in[k] = k < inputs ? k : NONE;
  return p;
}

/* An operation whose inputs are the task's. */
static uc_plain_op operation(uc_plain_kind kind, const uc_onnx_task *t, const uc_view *in,
                             const uc_view *out) {
  uc_plain_op op = {.kind = kind, .out = view_of(out), .fn = (uc_plain_fn)t->fn};
  for (int k = 0; k < t->input_count && k < UC_PLAIN_INPUTS; k++) op.in[k] = view_of(&in[k]);
  memcpy(op.attr, t->attr, sizeof op.attr);
  return op;
}

static uc_plain_op copying(const uc_view *from, const uc_view *to) {
  return (uc_plain_op){.kind = UC_PLAIN_COPY, .in = {view_of(from)}, .out = view_of(to)};
}

/* ---- families ---- */

/* A chain such as Sum(a, b, c): f(a, b), then f(result, c). */
static upconv_status add_chain(builder *b, const uc_onnx_task *t, const uc_view *in,
                               const uc_view *out) {
  part addresses = straight(2);
  if (t->input_count == 1) {
    uc_plain_op op = copying(&in[0], out);
    addresses = straight(1);
    return add(b, &op, &addresses);
  }
  upconv_status status = UPCONV_OK;
  for (int k = 1; k < t->input_count && !status; k++) {
    uc_plain_op op = {.kind = UC_PLAIN_ELEMENTWISE, .fn = (uc_plain_fn)t->fn, .out = view_of(out)};
    op.in[0] = view_of(k == 1 ? &in[0] : out);
    op.in[1] = view_of(&in[k]);
    addresses.in[0] = k == 1 ? 0 : RESULT;
    addresses.in[1] = k;
    status = add(b, &op, &addresses);
  }
  return status;
}

static upconv_status add_elementwise(builder *b, const uc_onnx_task *t, const uc_view *in,
                                     const uc_view *out) {
  int operands = uc_plain_fn_operands((uc_plain_fn)t->fn);
  if (operands == 2) return add_chain(b, t, in, out);
  int given = t->input_count < operands ? t->input_count : operands;
  uc_plain_op op = operation(UC_PLAIN_ELEMENTWISE, t, in, out);
  part addresses = straight(given);
  /* A bound is one number of any rank. */
  for (int k = 1; k < given && t->fn == UC_FN_CLIP; k++) op.in[k].rank = 0;
  return add(b, &op, &addresses);
}

static upconv_status add_concat(builder *b, const uc_onnx_task *t, const uc_view *in,
                                const uc_view *out) {
  int64_t at = 0;
  upconv_status status = UPCONV_OK;
  for (int k = 0; k < t->input_count && !status; k++) {
    uc_view to = uc_concat_part(t, &in[k], out, at);
    uc_plain_op op = copying(&in[k], &to);
    part addresses = straight(1);
    addresses.in[0] = k;
    addresses.out_at = at * out->stride[t->axis] * (int64_t)uc_onnx_dtype_size(out->dtype);
    addresses.in_place = true;
    if (uc_shape_count(to.rank, to.shape) > 0) status = add(b, &op, &addresses);
    at += in[k].shape[t->axis];
  }
  return status;
}

static upconv_status add_move(builder *b, const uc_onnx_task *t, const uc_view *in,
                              const uc_view *out) {
  part addresses = straight(1);
  if (t->op->run == uc_run_concat) return add_concat(b, t, in, out);
  if (t->op->run == uc_run_blocks) {
    uc_view from = uc_blocks_source(t, &in[0]);
    uc_plain_op op = copying(&from, out);
    return add(b, &op, &addresses);
  }
  uc_view to = t->op->run == uc_run_gather ? uc_gather_result(t, &in[0], out) : *out;
  uc_plain_op op = {.kind = UC_PLAIN_MAP, .in = {view_of(&in[0])}, .out = view_of(&to)};
  op.attr[0] = t->attr[0];
  for (int i = 0; i < to.rank; i++) op.map[i] = t->map[i];
  return add(b, &op, &addresses);
}

static upconv_status add_one(builder *b, const uc_plain_op *op, int inputs) {
  part addresses = straight(inputs);
  return add(b, op, &addresses);
}

static upconv_status add_reduce(builder *b, const uc_onnx_task *t, const uc_view *in,
                                const uc_view *out) {
  uc_view result = uc_reduce_result(t, &in[0], out);
  uc_plain_op op = operation(UC_PLAIN_REDUCE, t, in, &result);
  op.in[1] = (uc_plain_view){.dtype = UC_PLAIN_NONE}; /* axes */
  op.axes = t->axes;
  op.reduce = reduce_of((uc_reduce_kind)t->op->variant);
  return add_one(b, &op, 1);
}

static upconv_status add_matrix(builder *b, const uc_onnx_task *t, const uc_view *in,
                                const uc_view *out) {
  uc_plain_op op = operation(t->op->variant ? UC_PLAIN_GEMM : UC_PLAIN_MATMUL, t, in, out);
  memcpy(op.transpose, t->transpose, sizeof op.transpose);
  return add_one(b, &op, t->input_count);
}

static upconv_status add_task(builder *b, const uc_onnx_task *t, const uc_view *in,
                              const uc_view *out) {
  uc_plain_op op;
  switch (t->op->family) {
  case UC_FAMILY_VIEW:
    op = copying(&in[0], out);
    return add_one(b, &op, 1);
  case UC_FAMILY_MOVE:
    return add_move(b, t, in, out);
  case UC_FAMILY_ELEMENTWISE:
    return add_elementwise(b, t, in, out);
  case UC_FAMILY_POOL:
    op = operation(UC_PLAIN_POOL, t, in, out);
    op.average = t->op->variant == UC_POOL_AVERAGE;
    op.window = t->window;
    return add_one(b, &op, 1);
  case UC_FAMILY_REDUCE:
    return add_reduce(b, t, in, out);
  case UC_FAMILY_SOFTMAX:
    op = operation(UC_PLAIN_SOFTMAX, t, in, out);
    op.axes = uc_softmax_axes(t);
    op.log = t->op->variant != 0;
    return add_one(b, &op, 1);
  case UC_FAMILY_MATRIX:
    return add_matrix(b, t, in, out);
  case UC_FAMILY_NORM:
    op = operation(t->op->variant ? UC_PLAIN_INSTANCE_NORM : UC_PLAIN_BATCH_NORM, t, in, out);
    return add_one(b, &op, t->input_count);
  case UC_FAMILY_SHAPE:
  case UC_FAMILY_CONV:
    break;
  }
  return uc_fail(UPCONV_UNSUPPORTED, "the device does not run this operator");
}

/* ---- the interface ---- */

void uc_device_plain_discard(void *made) {
  work *w = made;
  if (!w) return;
  for (int i = 0; i < w->count; i++) uc_cuda_plain_destroy(w->part[i].plain);
  free(w->part);
  free(w);
}

upconv_status uc_device_plain_prepare(const uc_device *device, const uc_onnx_task *t,
                                      const uc_view *in, const uc_view *out, void **made,
                                      size_t *workspace) {
  *made = NULL;
  *workspace = 0;
  if (uc_shape_count(out->rank, out->shape) == 0) return UPCONV_OK;
  builder b = {.device = device, .work = uc_onnx_new(1, sizeof *b.work)};
  if (!b.work) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = add_task(&b, t, in, out);
  if (status) {
    uc_device_plain_discard(b.work);
    return status;
  }
  *made = b.work;
  *workspace = b.workspace;
  return UPCONV_OK;
}

upconv_status uc_device_plain_run(const uc_device *device, const uc_onnx_task *t, const void *made,
                                  const uc_view *in, const uc_view *out, void *workspace) {
  (void)t;
  const work *w = made;
  upconv_status status = UPCONV_OK;
  for (int i = 0; w && i < w->count && !status; i++) {
    const part *p = &w->part[i];
    const void *from[UC_PLAIN_INPUTS];
    void *to = (char *)out->data + p->out_at;
    for (int k = 0; k < UC_PLAIN_INPUTS; k++)
      from[k] = p->in[k] == NONE ? NULL : p->in[k] == RESULT ? out->data : in[p->in[k]].data;
    if (p->in_place && from[0] == to) continue;
    status = uc_cuda_plain_run(p->plain, from, to, workspace, device->stream);
  }
  return status;
}

/* A copy holds no memory of the device, so that it may go as soon as it is launched. */
upconv_status uc_device_plain_copy(const uc_device *device, const uc_view *from,
                                   const uc_view *to) {
  const uc_plain_op op = copying(from, to);
  const void *in[UC_PLAIN_INPUTS] = {from->data};
  uc_plain *plain;
  if (uc_shape_count(to->rank, to->shape) == 0) return UPCONV_OK;
  upconv_status status = uc_cuda_plain_prepare(device->plain, &op, &plain);
  if (status) return status;
  status = uc_cuda_plain_run(plain, in, to->data, NULL, device->stream);
  uc_cuda_plain_destroy(plain);
  return status;
}
