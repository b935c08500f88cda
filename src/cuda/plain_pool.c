/* SPDX-License-Identifier: Apache-2.0 */
#include "../epilogue.h"
#include "../status.h"
#include "../text.h"
#include "plain_parts.h"

enum { AXES = 3, SIZES = 2 + AXES };
static const int64_t LARGEST = INT64_C(1) << 40;

/* Spatial axes are right-aligned. */
typedef struct pool_args {
  void *y;
  const void *x;
  int64_t count;
  int64_t shape[SIZES], y_stride[SIZES], x_stride[SIZES];
  int64_t size[AXES], kernel[AXES], stride[AXES], dilation[AXES], begin[AXES], end[AXES];
  int64_t include_pad, divisor;
} pool_args;

typedef struct state {
  uc_cuda_function function;
  pool_args args;
} state;

static bool within(int64_t value, int64_t least) { return value >= least && value <= LARGEST; }

static upconv_status check_axis(const uc_plain_op *op, int i) {
  const upconv_window *w = &op->window;
  if (!within(w->kernel[i], 1) || !within(w->stride[i], 1) || !within(w->dilation[i], 1) ||
      !within(w->pad_begin[i], -LARGEST) || !within(w->pad_end[i], -LARGEST) ||
      w->kernel[i] > LARGEST / w->dilation[i] || op->in[0].shape[2 + i] > LARGEST)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "window, axis %d: kernel %lld, stride %lld, dilation %lld, padding %lld, %lld",
                   i, (long long)w->kernel[i], (long long)w->stride[i], (long long)w->dilation[i],
                   (long long)w->pad_begin[i], (long long)w->pad_end[i]);
  int64_t size = uc_window_output(w, i, op->in[0].shape[2 + i]);
  if (size < 0) size = 0;
  if (size != op->out.shape[2 + i])
    return uc_fail(UPCONV_INVALID_ARGUMENT, "out.shape[%d] = %lld: the window leads to %lld", 2 + i,
                   (long long)op->out.shape[2 + i], (long long)size);
  return UPCONV_OK;
}

static upconv_status check(const uc_plain_op *op) {
  const uc_plain_view *x = &op->in[0], *y = &op->out;
  if (x->dtype != y->dtype || x->rank != y->rank || x->rank < 3 || x->rank > SIZES)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "in[0] has rank %d and out %d; both must be of one type and of rank 3 to %d",
                   x->rank, y->rank, (int)SIZES);
  if (x->shape[0] != y->shape[0] || x->shape[1] != y->shape[1])
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] and out differ along axis 0 or 1");
  if (op->window.divisor < 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "window.divisor = %lld", (long long)op->window.divisor);
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < x->rank - 2 && status == UPCONV_OK; i++) status = check_axis(op, i);
  return status;
}

static void make_args(const uc_plain_op *op, pool_args *a) {
  const uc_plain_view *x = &op->in[0], *y = &op->out;
  const upconv_window *w = &op->window;
  a->count = uc_plain_count(y);
  a->include_pad = w->count_include_pad;
  a->divisor = w->divisor;
  for (int i = 0; i < SIZES; i++) {
    int own = i < 2 ? i : i - (SIZES - x->rank);
    bool real = i < 2 || own >= 2;
    a->shape[i] = real ? y->shape[own] : 1;
    a->y_stride[i] = real ? y->stride[own] : 0;
    a->x_stride[i] = real ? x->stride[own] : 0;
    if (i < 2) continue;
    a->size[i - 2] = real ? x->shape[own] : 1;
    a->kernel[i - 2] = real ? w->kernel[own - 2] : 1;
    a->stride[i - 2] = real ? w->stride[own - 2] : 1;
    a->dilation[i - 2] = real ? w->dilation[own - 2] : 1;
    a->begin[i - 2] = real ? w->pad_begin[own - 2] : 0;
    a->end[i - 2] = real ? w->pad_end[own - 2] : 0;
  }
}

static upconv_status prepare(uc_plain *p) {
  static const char *const names[] = {"pool_max", "pool_average"};
  upconv_status status = check(&p->op);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  make_args(&p->op, &s->args);
  char defines[96];
  uc_text text;
  uc_text_init(&text, defines, sizeof defines);
  uc_text_add(&text, "#define TYPE %s\n#define COMPUTE %s\n",
              uc_plain_dtype_define(p->op.out.dtype),
              uc_plain_is_narrow(p->op.out.dtype) ? "float" : "double");
  return uc_plain_functions(p->set, "plain_pool", defines, false, 1, &names[p->op.average],
                            &s->function);
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  pool_args args = s->args;
  args.y = call->out;
  args.x = call->in[0];
  return uc_plain_launch(p, s->function, uc_plain_blocks(args.count), &args, call->stream);
}

const uc_plain_family uc_plain_pool = {1, 1, prepare, run};
