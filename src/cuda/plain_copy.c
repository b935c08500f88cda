/* SPDX-License-Identifier: Apache-2.0 */
#include "../checked.h"
#include "../status.h"
#include "plain_parts.h"

enum { UNITS = 5, TILE = 32, WORTH_A_TILE = 8 };

typedef struct copy_args {
  void *to;
  const void *from;
  int64_t same;
  uc_plain_walk to_walk, from_walk;
} copy_args;

typedef struct transpose_args {
  void *to;
  const void *from;
  int64_t rows, columns;
  int64_t to_row, from_column;
  int64_t row_tiles, column_tiles;
  uc_plain_walk outer;
} transpose_args;

typedef struct state {
  uc_cuda_function unit[UNITS]; /* of 1, 2, 4, 8, 16 bytes */
  uc_cuda_function transpose;
  copy_args args;
  int64_t most; /* neighbours that can be moved at once, if addresses allow */
  bool transposed;
  transpose_args transpose_args;
} state;

/* 0 to 4 for 1 to 16 bytes. */
static int unit_of(size_t bytes) {
  int unit = 0;
  while (bytes >> unit > 1) unit++;
  return unit;
}

/* Each side is contiguous along an axis of its own, and both are long enough for tiles. The walk is sorted by the strides
   of the result. */
static void find_transpose(state *s) {
  const uc_plain_walk *w = &s->args.to_walk;
  transpose_args *t = &s->transpose_args;
  int64_t last = w->rank - 1, rows = -1;
  if (!s->args.same || w->stride[0][last] != 1) return;
  for (int64_t i = 0; i < last; i++)
    if (w->stride[1][i] == 1) rows = i;
  if (rows < 0 || w->shape[rows] < WORTH_A_TILE || w->shape[last] < WORTH_A_TILE) return;
  s->transposed = true;
  t->rows = w->shape[rows];
  t->columns = w->shape[last];
  t->to_row = w->stride[0][rows];
  t->from_column = w->stride[1][last];
  t->row_tiles = uc_ceil_div(t->rows, TILE);
  t->column_tiles = uc_ceil_div(t->columns, TILE);
  uint32_t outer = ~(UINT32_C(1) << rows | UINT32_C(1) << last);
  uc_plain_walk_make(&t->outer, (int)w->rank, w->shape, outer, 2, w->stride, false);
}

static bool can_group(const copy_args *a, int64_t n) {
  if (a->same) return uc_plain_walk_groups(&a->to_walk, 2, n, 0);
  return uc_plain_walk_groups(&a->to_walk, 1, n, 0) && uc_plain_walk_groups(&a->from_walk, 1, n, 0);
}

static void make_walks(const uc_plain_op *op, state *s) {
  const uc_plain_view *from = &op->in[0], *to = &op->out;
  int64_t stride[2][UC_PLAIN_RANK];
  uc_plain_align(to, to->rank, stride[0]);
  uc_plain_align(from, from->rank, stride[1]);
  s->args.same = uc_plain_same_shape(from, to);
  uc_plain_walk_make(&s->args.to_walk, to->rank, to->shape, ~UINT32_C(0), s->args.same ? 2 : 1,
                     (const int64_t(*)[UC_PLAIN_RANK])stride, s->args.same);
  uc_plain_walk_make(&s->args.from_walk, from->rank, from->shape, ~UINT32_C(0), 1,
                     (const int64_t(*)[UC_PLAIN_RANK])stride[1], false);
}

static upconv_status prepare(uc_plain *p) {
  static const char *const names[] = {"copy_1", "copy_2", "copy_4", "copy_8", "copy_16"};
  static const char *const transposes[] = {"transpose_1", "transpose_2", "transpose_4",
                                           "transpose_8"};
  const uc_plain_op *op = &p->op;
  if (op->in[0].dtype != op->out.dtype)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] is %s and out is %s; they must be the same",
                   uc_plain_dtype_name(op->in[0].dtype), uc_plain_dtype_name(op->out.dtype));
  if (uc_plain_count(&op->in[0]) != uc_plain_count(&op->out))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] has %lld elements and out %lld",
                   (long long)uc_plain_count(&op->in[0]), (long long)uc_plain_count(&op->out));
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  size_t size = uc_plain_dtype_size(op->out.dtype);
  make_walks(op, s);
  find_transpose(s);
  for (s->most = 16 / (int64_t)size; s->most > 1; s->most /= 2)
    if (can_group(&s->args, s->most)) break;
  upconv_status status = uc_plain_functions(p->set, "plain_move", "", false, UNITS, names, s->unit);
  if (status == UPCONV_OK)
    status = uc_plain_functions(p->set, "plain_move", "", false, 1, &transposes[unit_of(size)],
                                &s->transpose);
  return status;
}

/* The walk with n neighbours as one element. */
static void regroup(uc_plain_walk *walk, int views, int64_t n) {
  int64_t last = walk->rank - 1;
  walk->count /= n;
  walk->shape[last] /= n;
  for (int k = 0; k < views && n > 1; k++)
    for (int64_t i = 0; i < last; i++) walk->stride[k][i] /= n;
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  size_t size = uc_plain_dtype_size(p->op.out.dtype);
  if (s->transposed) {
    transpose_args args = s->transpose_args;
    args.to = call->out;
    args.from = call->in[0];
    return uc_plain_launch(p, s->transpose, args.outer.count * args.row_tiles * args.column_tiles,
                           &args, call->stream);
  }
  int64_t n = s->most;
  while (n > 1 && !(uc_plain_is_aligned(call->out, (size_t)n * size) &&
                    uc_plain_is_aligned(call->in[0], (size_t)n * size)))
    n /= 2;
  copy_args args = s->args;
  args.to = call->out;
  args.from = call->in[0];
  regroup(&args.to_walk, args.same ? 2 : 1, n);
  regroup(&args.from_walk, 1, n);
  return uc_plain_launch(p, s->unit[unit_of((size_t)n * size)], uc_plain_blocks(args.to_walk.count),
                         &args, call->stream);
}

const uc_plain_family uc_plain_copy = {1, 1, prepare, run};
