/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../checked.h"
#include "../status.h"
#include "../text.h"
#include "plain_parts.h"

/* Blocks that keep a device busy; whatever the device, so that results are the same everywhere. */
enum { ENOUGH_BLOCKS = 512, MOST_SPLITS = 4096, ELEMENTS_A_THREAD = 4, STATE_BYTES = 16 };

/* ---- the shape of the work ---- */

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Threads that share an output, a power of two. Threads beside each other read elements beside each other: of one output,
   or of neighbouring outputs. */
static void choose_group(uc_plain_reduction_args *a) {
  int64_t wanted = uc_max(1, a->reduced / ELEMENTS_A_THREAD);
  const uc_plain_walk *kept = &a->kept, *inner = &a->inner;
  a->along_kept = kept->count > 1 && magnitude(kept->stride[1][kept->rank - 1]) <
                                         magnitude(inner->stride[0][inner->rank - 1]);
  int64_t most = a->along_kept ? 8 : UC_PLAIN_THREADS;
  a->group = 1;
  while (a->group < UC_PLAIN_THREADS && a->group * 2 <= wanted &&
         (a->group < most || UC_PLAIN_THREADS / a->group > a->outputs))
    a->group *= 2;
}

/* Blocks that share an output, where outputs alone would leave the device idle. */
static void choose_splits(uc_plain_reduction_args *a) {
  int64_t sets = uc_ceil_div(a->outputs, UC_PLAIN_THREADS / a->group);
  int64_t worth = a->reduced / (a->group * 4 * ELEMENTS_A_THREAD);
  a->splits = 1;
  if (sets > 0 && sets < ENOUGH_BLOCKS)
    a->splits = uc_max(1, uc_min(uc_min(ENOUGH_BLOCKS / sets, worth), MOST_SPLITS));
}

static void make_args(uint32_t axes, const uc_plain_view *in, const uc_plain_view *out,
                      uc_plain_reduction_args *a) {
  int64_t stride[2][UC_PLAIN_RANK] = {{0}};
  uint32_t all = (UINT32_C(1) << in->rank) - 1;
  if (out) uc_plain_align(out, out->rank, stride[0]);
  uc_plain_align(in, in->rank, stride[1]);
  uc_plain_walk_make(&a->kept, in->rank, in->shape, all & ~axes, 2,
                     (const int64_t(*)[UC_PLAIN_RANK])stride, false);
  uc_plain_walk_make(&a->inner, in->rank, in->shape, axes, 1,
                     (const int64_t(*)[UC_PLAIN_RANK])stride[1], true);
  a->outputs = a->kept.count;
  a->reduced = a->inner.count;
  choose_group(a);
  choose_splits(a);
}

/* ---- reducers ---- */

static const char *const states[] = {
    "REDUCE_SUM",        "REDUCE_MEAN",   "REDUCE_MAX",       "REDUCE_MIN",  "REDUCE_LOG_SUM_EXP",
    "REDUCE_SUM_SQUARE", "REDUCE_L1",     "REDUCE_L2",        "REDUCE_PROD", "REDUCE_LOG_SUM",
    "REDUCE_SOFTMAX",    "REDUCE_CENTRE", "REDUCE_DEVIATION",
};

upconv_status uc_plain_reducer_make(uc_plain_set *set, int kind, uint32_t axes,
                                    const uc_plain_view *in, const uc_plain_view *out,
                                    uc_plain_dtype scale, uc_plain_dtype bias,
                                    uc_plain_reducer *reducer) {
  static const char *const names[] = {"reduce", "reduce_combine"};
  uc_cuda_function function[2] = {NULL, NULL};
  char defines[192];
  uc_text text;
  make_args(axes, in, out, &reducer->args);
  uc_text_init(&text, defines, sizeof defines);
  uc_text_add(&text,
              "#define TYPE %s\n#define KIND %s\n#define SCALE_TYPE %s\n#define BIAS_TYPE %s\n",
              uc_plain_dtype_define(in->dtype), states[kind], uc_plain_dtype_define(scale),
              uc_plain_dtype_define(bias));
  upconv_status status =
      uc_plain_functions(set, "plain_reduce", defines, false, 2, names, function);
  reducer->reduce = function[0];
  reducer->combine = function[1];
  return status;
}

size_t uc_plain_reducer_partial(const uc_plain_reducer *reducer) {
  const uc_plain_reduction_args *a = &reducer->args;
  return a->splits > 1 ? (size_t)(a->splits * a->outputs) * STATE_BYTES : 0;
}

upconv_status uc_plain_reducer_run(const uc_plain *plain, const uc_plain_reducer *reducer,
                                   const uc_plain_reduction_args *args, uc_cuda_stream stream) {
  int64_t sets = uc_ceil_div(args->outputs, UC_PLAIN_THREADS / args->group);
  upconv_status status = uc_plain_launch(plain, reducer->reduce, sets * args->splits, args, stream);
  if (status != UPCONV_OK || args->splits == 1) return status;
  return uc_plain_launch(plain, reducer->combine, uc_plain_blocks(args->outputs), args, stream);
}

/* ---- the kind ---- */

static upconv_status check(const uc_plain_op *op) {
  const uc_plain_view *in = &op->in[0], *out = &op->out;
  if ((unsigned)op->reduce >= UC_PLAIN_REDUCES)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "reduce = %d: there is no such reduction",
                   (int)op->reduce);
  if (in->dtype != out->dtype || in->rank != out->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] and out must be of one type and rank");
  if (op->axes >> in->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "axes = 0x%x: in[0] has rank %d", (unsigned)op->axes,
                   in->rank);
  for (int i = 0; i < in->rank; i++) {
    int64_t wanted = op->axes >> i & 1 ? 1 : in->shape[i];
    if (out->shape[i] != wanted)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "out.shape[%d] = %lld: it must be %lld", i,
                     (long long)out->shape[i], (long long)wanted);
  }
  return UPCONV_OK;
}

static upconv_status prepare(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  upconv_status status = check(op);
  if (status != UPCONV_OK) return status;
  uc_plain_reducer *reducer = uc_plain_new_state(p, sizeof *reducer);
  if (!reducer) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  status = uc_plain_reducer_make(p->set, (int)op->reduce, op->axes, &op->in[0], &op->out,
                                 UC_PLAIN_NONE, UC_PLAIN_NONE, reducer);
  p->workspace = uc_plain_reducer_partial(reducer);
  return status;
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const uc_plain_reducer *reducer = p->state;
  uc_plain_reduction_args args = reducer->args;
  args.y = call->out;
  args.x = call->in[0];
  args.partial = call->workspace;
  return uc_plain_reducer_run(p, reducer, &args, call->stream);
}

const uc_plain_family uc_plain_reduction = {1, 1, prepare, run};
