/* SPDX-License-Identifier: Apache-2.0 */
#include "../checked.h"
#include "../status.h"
#include "../text.h"
#include "plain_parts.h"

enum { TILE = 64, FEW_ROWS = 4 };

typedef struct matrix_args {
  void *y;
  const void *a, *b, *c;
  int64_t rows, columns, depth;
  int64_t y_row, y_column, a_row, a_column, b_row, b_column, c_row, c_column;
  int64_t row_tiles, column_tiles;
  double alpha, beta;
  uc_plain_walk batch;
} matrix_args;

typedef struct state {
  uc_cuda_function function;
  matrix_args args;
} state;

static upconv_status load(uc_plain *p, state *s) {
  char defines[64];
  uc_text text;
  bool few = s->args.rows <= 2 * FEW_ROWS;
  const char *const name[] = {few ? "product_4" : "product_64"};
  s->args.row_tiles = uc_ceil_div(s->args.rows, few ? FEW_ROWS : TILE);
  s->args.column_tiles = uc_ceil_div(s->args.columns, TILE);
  uc_text_init(&text, defines, sizeof defines);
  uc_text_add(&text, "#define TYPE %s\n", uc_plain_dtype_define(p->op.out.dtype));
  return uc_plain_functions(p->set, "plain_matrix", defines, false, 1, name, &s->function);
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  matrix_args args = s->args;
  args.y = call->out;
  args.a = call->in[0];
  args.b = call->in[1];
  args.c = p->op.kind == UC_PLAIN_GEMM && p->op.in[2].dtype ? call->in[2] : NULL;
  return uc_plain_launch(p, s->function, args.batch.count * args.row_tiles * args.column_tiles,
                         &args, call->stream);
}

static upconv_status mismatch(const char *what, int64_t a, int64_t b) {
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: %lld and %lld", what, (long long)a, (long long)b);
}

/* ---- MatMul ---- */

/* The axes before the matrix's. */
static uc_plain_view outer_axes(const uc_plain_view *view, int drop) {
  uc_plain_view outer = *view;
  outer.rank = view->rank > drop ? view->rank - drop : 0;
  return outer;
}

static upconv_status check_outer(const uc_plain_view *in, const uc_plain_view *out, int k) {
  for (int i = 0; i < in->rank; i++) {
    int own = out->rank - in->rank + i;
    if (own < 0 || (in->shape[i] != 1 && in->shape[i] != out->shape[own]))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "in[%d] cannot be broadcast to out", k);
  }
  return UPCONV_OK;
}

static void set_matrices(const uc_plain_op *op, matrix_args *m) {
  const uc_plain_view *a = &op->in[0], *b = &op->in[1], *y = &op->out;
  int axis = y->rank - (a->rank > 1) - (b->rank > 1);
  m->alpha = 1;
  m->depth = a->shape[a->rank - 1];
  m->rows = a->rank > 1 ? a->shape[a->rank - 2] : 1;
  m->columns = b->rank > 1 ? b->shape[b->rank - 1] : 1;
  m->a_row = a->rank > 1 ? a->stride[a->rank - 2] : 0;
  m->a_column = a->stride[a->rank - 1];
  m->b_row = b->stride[b->rank > 1 ? b->rank - 2 : 0];
  m->b_column = b->rank > 1 ? b->stride[b->rank - 1] : 0;
  m->y_row = a->rank > 1 ? y->stride[axis] : 0;
  m->y_column = b->rank > 1 ? y->stride[y->rank - 1] : 0;
}

static upconv_status check_matmul(const uc_plain_op *op) {
  const uc_plain_view *a = &op->in[0], *b = &op->in[1], *y = &op->out;
  if (a->dtype != b->dtype || a->dtype != y->dtype)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0], in[1] and out must be of one type");
  if (a->rank < 1 || b->rank < 1) return mismatch("ranks", a->rank, b->rank);
  int most = a->rank > b->rank ? a->rank : b->rank;
  int matrix = (a->rank > 1) + (b->rank > 1), wanted = (most > 2 ? most - 2 : 0) + matrix;
  if (y->rank != wanted) return mismatch("rank of out, and what it must be", y->rank, wanted);
  int64_t depth = a->shape[a->rank - 1], other = b->shape[b->rank > 1 ? b->rank - 2 : 0];
  if (depth != other) return mismatch("columns of in[0], rows of in[1]", depth, other);
  int axis = y->rank - matrix;
  if (a->rank > 1 && y->shape[axis] != a->shape[a->rank - 2])
    return mismatch("rows of out and in[0]", y->shape[axis], a->shape[a->rank - 2]);
  if (b->rank > 1 && y->shape[y->rank - 1] != b->shape[b->rank - 1])
    return mismatch("columns of out and in[1]", y->shape[y->rank - 1], b->shape[b->rank - 1]);
  uc_plain_view outer = outer_axes(y, matrix), part = outer_axes(a, 2);
  upconv_status status = check_outer(&part, &outer, 0);
  part = outer_axes(b, 2);
  return status == UPCONV_OK ? check_outer(&part, &outer, 1) : status;
}

static upconv_status prepare_matmul(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  upconv_status status = check_matmul(op);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  uc_plain_view outer = outer_axes(&op->out, (op->in[0].rank > 1) + (op->in[1].rank > 1));
  uc_plain_view left = outer_axes(&op->in[0], 2), right = outer_axes(&op->in[1], 2);
  int64_t stride[3][UC_PLAIN_RANK];
  uc_plain_align(&outer, outer.rank, stride[0]);
  uc_plain_align(&left, outer.rank, stride[1]);
  uc_plain_align(&right, outer.rank, stride[2]);
  uc_plain_walk_make(&s->args.batch, outer.rank, outer.shape, ~UINT32_C(0), 3,
                     (const int64_t(*)[UC_PLAIN_RANK])stride, false);
  set_matrices(op, &s->args);
  return load(p, s);
}

const uc_plain_family uc_plain_matmul = {2, 2, prepare_matmul, run};

/* ---- Gemm ---- */

static upconv_status check_gemm(const uc_plain_op *op) {
  const uc_plain_view *a = &op->in[0], *b = &op->in[1], *c = &op->in[2], *y = &op->out;
  bool ta = op->transpose[0], tb = op->transpose[1];
  if (a->dtype != y->dtype || b->dtype != y->dtype || (c->dtype && c->dtype != y->dtype))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "inputs and out must be of one type");
  if (a->rank != 2 || b->rank != 2 || y->rank != 2 || c->rank > 2)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0], in[1] and out must have rank 2, in[2] at most");
  if (a->shape[!ta] != b->shape[tb])
    return mismatch("columns of in[0], rows of in[1]", a->shape[!ta], b->shape[tb]);
  if (y->shape[0] != a->shape[ta]) return mismatch("rows", y->shape[0], a->shape[ta]);
  if (y->shape[1] != b->shape[!tb]) return mismatch("columns", y->shape[1], b->shape[!tb]);
  return c->dtype ? check_outer(c, y, 2) : UPCONV_OK;
}

static upconv_status prepare_gemm(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  const uc_plain_view *a = &op->in[0], *b = &op->in[1];
  upconv_status status = check_gemm(op);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  matrix_args *m = &s->args;
  int64_t c_stride[UC_PLAIN_RANK];
  bool ta = op->transpose[0], tb = op->transpose[1];
  uc_plain_align(&op->in[2], 2, c_stride);
  uc_plain_walk_make(&m->batch, 0, op->out.shape, 0, 0, NULL, false);
  m->alpha = op->attr[0];
  m->beta = op->attr[1];
  m->rows = op->out.shape[0];
  m->columns = op->out.shape[1];
  m->depth = a->shape[!ta];
  m->y_row = op->out.stride[0];
  m->y_column = op->out.stride[1];
  m->a_row = a->stride[ta];
  m->a_column = a->stride[!ta];
  m->b_row = b->stride[tb];
  m->b_column = b->stride[!tb];
  m->c_row = c_stride[0];
  m->c_column = c_stride[1];
  return load(p, s);
}

const uc_plain_family uc_plain_gemm = {2, 3, prepare_gemm, run};
