/* SPDX-License-Identifier: Apache-2.0 */
#include "../status.h"
#include "../text.h"
#include "plain_parts.h"

enum { OPERANDS = 3, GROUP = 4 };

typedef struct elementwise_args {
  void *y;
  const void *x[OPERANDS];
  double attr[2];
  int64_t fill[2];
  int64_t step[OPERANDS];
  uc_plain_walk walk;
} elementwise_args;

typedef struct state {
  uc_cuda_function one, group;
  elementwise_args args, group_args;
  bool groups; /* along the last axis, if addresses allow */
} state;

static upconv_status check(const uc_plain_op *op, int operands) {
  if (operands == 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "fn = %d: there is no such function", (int)op->fn);
  for (int k = 0; k < operands; k++) {
    const uc_plain_view *in = &op->in[k];
    if (in->dtype == UC_PLAIN_NONE && (op->fn != UC_PLAIN_CLIP || k == 0))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "in[%d] is left out", k);
    bool fits = in->dtype == UC_PLAIN_NONE || in->rank <= op->out.rank;
    for (int i = 0; i < in->rank && in->dtype != UC_PLAIN_NONE && fits; i++)
      fits = in->shape[i] == 1 || in->shape[i] == op->out.shape[op->out.rank - in->rank + i];
    if (!fits) return uc_fail(UPCONV_INVALID_ARGUMENT, "in[%d] cannot be broadcast to out", k);
  }
  return UPCONV_OK;
}

/* As the CPU: integers where all are, else float where it holds all types, else float64. */
static const char *compute_type(const uc_plain_op *op, int operands) {
  bool ints = uc_plain_is_int(op->out.dtype) && uc_plain_fn_has_int(op->fn);
  bool narrow = uc_plain_is_narrow(op->out.dtype);
  for (int k = 0; k < operands; k++) {
    if (op->in[k].dtype == UC_PLAIN_NONE) continue;
    ints = ints && uc_plain_is_int(op->in[k].dtype);
    narrow = narrow && uc_plain_is_narrow(op->in[k].dtype);
  }
  return ints ? "i64" : narrow ? "float" : "double";
}

static upconv_status load(uc_plain *p, int operands, state *s) {
  static const char *const names[] = {"elementwise", "elementwise_4"};
  const uc_plain_op *op = &p->op;
  char defines[256];
  uc_cuda_function function[2] = {NULL, NULL};
  uc_text text;
  uc_text_init(&text, defines, sizeof defines);
  uc_text_add(&text, "#define FN %s\n#define COMPUTE %s\n#define Y_TYPE %s\n",
              uc_plain_fn_define(op->fn), compute_type(op, operands),
              uc_plain_dtype_define(op->out.dtype));
  for (int k = 0; k < OPERANDS; k++)
    uc_text_add(&text, "#define X%d_TYPE %s\n", k,
                uc_plain_dtype_define(k < operands ? op->in[k].dtype : UC_PLAIN_NONE));
  upconv_status status =
      uc_plain_functions(p->set, "plain_elementwise", defines, true, 2, names, function);
  s->one = function[0];
  s->group = function[1];
  return status;
}

/* The same walk in groups of neighbours. */
static void make_groups(state *s, int views) {
  uc_plain_walk *walk = &s->group_args.walk;
  int64_t last = walk->rank - 1;
  s->groups = uc_plain_walk_groups(walk, views, GROUP, ~UINT32_C(1));
  if (!s->groups) return;
  walk->count /= GROUP;
  walk->shape[last] /= GROUP;
  for (int k = 0; k < views; k++) {
    if (k > 0) s->group_args.step[k - 1] = walk->stride[k][last];
    walk->stride[k][last] *= GROUP;
  }
}

static upconv_status prepare(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  int operands = uc_plain_fn_operands(op->fn), rank = op->out.rank;
  upconv_status status = check(op, operands);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  int64_t stride[1 + OPERANDS][UC_PLAIN_RANK];
  uc_plain_align(&op->out, rank, stride[0]);
  for (int k = 0; k < operands; k++) uc_plain_align(&op->in[k], rank, stride[1 + k]);
  for (int k = 0; k < 2; k++) {
    s->args.attr[k] = op->attr[k];
    s->args.fill[k] = op->attr[k] < 0 ? INT64_MIN : INT64_MAX;
  }
  uc_plain_walk_make(&s->args.walk, rank, op->out.shape, ~UINT32_C(0), 1 + operands,
                     (const int64_t(*)[UC_PLAIN_RANK])stride, true);
  s->group_args = s->args;
  make_groups(s, 1 + operands);
  return p->empty ? UPCONV_OK : load(p, operands, s);
}

/* Whether groups of a view that are loaded or stored at once lie where that is possible. */
static bool group_is_aligned(const void *address, uc_plain_dtype dtype) {
  size_t bytes = GROUP * uc_plain_dtype_size(dtype);
  return uc_plain_is_aligned(address, bytes < 16 ? bytes : 16);
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  const uc_plain_op *op = &p->op;
  bool groups = s->groups && group_is_aligned(call->out, op->out.dtype);
  int operands = uc_plain_fn_operands(op->fn);
  for (int k = 0; k < operands && groups; k++)
    if (op->in[k].dtype != UC_PLAIN_NONE && s->group_args.step[k] == 1)
      groups = group_is_aligned(call->in[k], op->in[k].dtype);
  elementwise_args args = groups ? s->group_args : s->args;
  args.y = call->out;
  for (int k = 0; k < operands; k++)
    args.x[k] = op->in[k].dtype == UC_PLAIN_NONE ? NULL : call->in[k];
  return uc_plain_launch(p, groups ? s->group : s->one, uc_plain_blocks(args.walk.count), &args,
                         call->stream);
}

const uc_plain_family uc_plain_elementwise = {1, OPERANDS, prepare, run};
