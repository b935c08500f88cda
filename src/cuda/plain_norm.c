/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and norms: statistics of outputs or channels into the workspace, then every element with its own. */
#include "../checked.h"
#include "../status.h"
#include "../text.h"
#include "plain_parts.h"

enum { GROUP = 4, VECTORS = 4 };

typedef struct spread_args {
  void *y;
  const void *x;
  const void *statistics;
  int64_t step;
  uc_plain_walk walk;
} spread_args;

typedef struct channel_args {
  void *statistics;
  int64_t channels;
  double epsilon;
  const void *vector[VECTORS]; /* scale, bias, mean, variance */
  int64_t stride[VECTORS];
} channel_args;

typedef struct state {
  uc_plain_reducer first, second; /* softmax: the first; instance norm: centre, deviation */
  uc_cuda_function channels;      /* batch norm */
  channel_args channel_args;
  uc_cuda_function spread, spread_group;
  spread_args spread_args, group_args;
  bool groups;
  size_t partial_at;
} state;

/* ---- the second half ---- */

/* Statistics lie densely over the axes that have some, in the order of the axes. */
static void make_spread(const uc_plain_op *op, uint32_t axes, state *s) {
  int64_t stride[3][UC_PLAIN_RANK] = {{0}}, step = UC_PLAIN_STATISTICS;
  int rank = op->out.rank;
  uc_plain_align(&op->out, rank, stride[0]);
  uc_plain_align(&op->in[0], rank, stride[1]);
  for (int i = rank - 1; i >= 0; i--) {
    if (!(axes >> i & 1)) continue;
    stride[2][i] = step;
    step *= uc_max(op->out.shape[i], 1);
  }
  uc_plain_walk_make(&s->spread_args.walk, rank, op->out.shape, ~UINT32_C(0), 3,
                     (const int64_t(*)[UC_PLAIN_RANK])stride, true);
  s->group_args = s->spread_args;
  uc_plain_walk *walk = &s->group_args.walk;
  int64_t last = walk->rank - 1;
  s->groups = uc_plain_walk_groups(walk, 2, GROUP, 0);
  if (!s->groups) return;
  walk->count /= GROUP;
  walk->shape[last] /= GROUP;
  s->group_args.step = walk->stride[2][last];
  for (int k = 0; k < 3; k++) walk->stride[k][last] *= GROUP;
}

static upconv_status load_spread(uc_plain *p, const char *kind, state *s) {
  static const char *const names[] = {"spread_1", "spread_4", "channels"};
  static const char *const vectors[] = {"SCALE", "BIAS", "MEAN", "VARIANCE"};
  const uc_plain_op *op = &p->op;
  bool batch = op->kind == UC_PLAIN_BATCH_NORM;
  uc_cuda_function function[3] = {NULL, NULL, NULL};
  char defines[256];
  uc_text text;
  uc_text_init(&text, defines, sizeof defines);
  uc_text_add(&text, "#define TYPE %s\n#define SPREAD %s\n", uc_plain_dtype_define(op->out.dtype),
              kind);
  for (int k = 0; k < VECTORS; k++)
    uc_text_add(&text, "#define %s_TYPE %s\n", vectors[k],
                uc_plain_dtype_define(batch ? op->in[1 + k].dtype : UC_PLAIN_NONE));
  upconv_status status =
      uc_plain_functions(p->set, "plain_spread", defines, false, 3, names, function);
  s->spread = function[0];
  s->spread_group = function[1];
  s->channels = function[2];
  return status;
}

static upconv_status run_spread(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  size_t bytes = (size_t)uc_min(16, GROUP * (int64_t)uc_plain_dtype_size(p->op.out.dtype));
  bool groups =
      s->groups && uc_plain_is_aligned(call->out, bytes) && uc_plain_is_aligned(call->in[0], bytes);
  spread_args args = groups ? s->group_args : s->spread_args;
  args.y = call->out;
  args.x = call->in[0];
  args.statistics = call->workspace;
  return uc_plain_launch(p, groups ? s->spread_group : s->spread, uc_plain_blocks(args.walk.count),
                         &args, call->stream);
}

/* Statistics, and behind them what reductions keep. */
static void lay_out(uc_plain *p, state *s, int64_t outputs, size_t partial) {
  size_t bytes = (size_t)outputs * UC_PLAIN_STATISTICS * sizeof(double);
  s->partial_at = (bytes + UC_PLAIN_ALIGNMENT - 1) / UC_PLAIN_ALIGNMENT * UC_PLAIN_ALIGNMENT;
  p->workspace = s->partial_at + partial;
}

static upconv_status check_same(const uc_plain_op *op) {
  if (op->in[0].dtype != op->out.dtype || !uc_plain_same_shape(&op->in[0], &op->out))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] and out must be of one type and shape");
  if (uc_plain_is_int(op->out.dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "in[0] is %s; it must be floating point",
                   uc_plain_dtype_name(op->out.dtype));
  return UPCONV_OK;
}

/* ---- softmax ---- */

static upconv_status prepare_softmax(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  upconv_status status = check_same(op);
  if (status != UPCONV_OK) return status;
  if (op->axes >> op->out.rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "axes = 0x%x: in[0] has rank %d", (unsigned)op->axes,
                   op->out.rank);
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  status = uc_plain_reducer_make(p->set, UC_PLAIN_STATE_SOFTMAX, op->axes, &op->in[0], NULL,
                                 UC_PLAIN_NONE, UC_PLAIN_NONE, &s->first);
  s->first.args.log = op->log;
  make_spread(op, ~op->axes, s);
  lay_out(p, s, s->first.args.outputs, uc_plain_reducer_partial(&s->first));
  if (status != UPCONV_OK) return status;
  return load_spread(p, op->log ? "SPREAD_LOG_SOFTMAX" : "SPREAD_SOFTMAX", s);
}

static upconv_status run_softmax(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  uc_plain_reduction_args args = s->first.args;
  args.x = call->in[0];
  args.statistics = call->workspace;
  args.partial = call->workspace + s->partial_at;
  upconv_status status = uc_plain_reducer_run(p, &s->first, &args, call->stream);
  return status == UPCONV_OK ? run_spread(p, call) : status;
}

const uc_plain_family uc_plain_softmax = {1, 1, prepare_softmax, run_softmax};

/* ---- norms ---- */

static upconv_status check_norm(const uc_plain_op *op, int vectors) {
  upconv_status status = check_same(op);
  if (status != UPCONV_OK) return status;
  if (op->out.rank < 2)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] has rank %d; it must be at least 2",
                   op->out.rank);
  for (int k = 1; k <= vectors; k++) {
    const uc_plain_view *v = &op->in[k];
    if (uc_plain_is_int(v->dtype) || v->rank != 1 || v->shape[0] != op->out.shape[1])
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "in[%d] does not hold one number in floating point for each of the %lld "
                     "channels",
                     k, (long long)op->out.shape[1]);
  }
  return UPCONV_OK;
}

static int64_t vector_stride(const uc_plain_view *v) { return v->shape[0] == 1 ? 0 : v->stride[0]; }

static upconv_status prepare_batch_norm(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  upconv_status status = check_norm(op, VECTORS);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  s->channel_args.channels = op->out.shape[1];
  s->channel_args.epsilon = op->attr[0];
  for (int k = 0; k < VECTORS; k++) s->channel_args.stride[k] = vector_stride(&op->in[1 + k]);
  make_spread(op, 2, s);
  lay_out(p, s, op->out.shape[1], 0);
  return load_spread(p, "SPREAD_AFFINE", s);
}

static upconv_status run_batch_norm(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  channel_args args = s->channel_args;
  args.statistics = call->workspace;
  for (int k = 0; k < VECTORS; k++) args.vector[k] = call->in[1 + k];
  upconv_status status =
      uc_plain_launch(p, s->channels, uc_plain_blocks(args.channels), &args, call->stream);
  return status == UPCONV_OK ? run_spread(p, call) : status;
}

const uc_plain_family uc_plain_batch_norm = {5, 5, prepare_batch_norm, run_batch_norm};

static upconv_status prepare_instance_norm(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  upconv_status status = check_norm(op, 2);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  uint32_t spatial = ((UINT32_C(1) << op->out.rank) - 1) & ~UINT32_C(3);
  status = uc_plain_reducer_make(p->set, UC_PLAIN_STATE_CENTRE, spatial, &op->in[0], NULL,
                                 UC_PLAIN_NONE, UC_PLAIN_NONE, &s->first);
  if (status == UPCONV_OK)
    status = uc_plain_reducer_make(p->set, UC_PLAIN_STATE_DEVIATION, spatial, &op->in[0], NULL,
                                   op->in[1].dtype, op->in[2].dtype, &s->second);
  s->second.args.channels = op->out.shape[1];
  s->second.args.scale_stride = vector_stride(&op->in[1]);
  s->second.args.bias_stride = vector_stride(&op->in[2]);
  s->second.args.epsilon = op->attr[0];
  make_spread(op, 3, s);
  lay_out(p, s, s->first.args.outputs, uc_plain_reducer_partial(&s->first));
  return status == UPCONV_OK ? load_spread(p, "SPREAD_AFFINE", s) : status;
}

static upconv_status run_instance_norm(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  const uc_plain_reducer *const passes[] = {&s->first, &s->second};
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < 2 && status == UPCONV_OK; i++) {
    uc_plain_reduction_args args = passes[i]->args;
    args.x = call->in[0];
    args.scale = call->in[1];
    args.bias = call->in[2];
    args.statistics = call->workspace;
    args.partial = call->workspace + s->partial_at;
    status = uc_plain_reducer_run(p, passes[i], &args, call->stream);
  }
  return status == UPCONV_OK ? run_spread(p, call) : status;
}

const uc_plain_family uc_plain_instance_norm = {3, 3, prepare_instance_norm, run_instance_norm};
