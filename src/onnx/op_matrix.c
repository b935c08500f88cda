/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: the heads of decoders, from a latent vector to the first feature map. */
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "ops.h"
#include "rows.h"

/* A matrix inside a view: where it begins, and the strides of its rows and columns. */
typedef struct matrix {
  const uc_view *view;
  int64_t at, row, column;
} matrix;

enum { ROWS = 8 };

/* Full rows have a fixed length, which the compiler turns into vectors. */
static void multiply_row(double *sum, double x, const double *row) {
  for (int j = 0; j < UC_ROW; j++) sum[j] += x * row[j];
}

static void load_full_row(double *row, const matrix *m, int64_t at, int64_t n) {
  if (n == UC_ROW && m->column == 1 && m->view->dtype == UC_ONNX_FLOAT) {
    const float *from = (const float *)m->view->data + at;
    for (int j = 0; j < UC_ROW; j++) row[j] = (double)from[j];
    return;
  }
  uc_row_load(row, m->view, at, m->column, n);
}

/* sum[r][j] = sum over k of a[i + r, k] b[k, column + j] for r < rows, j < n. */
static void product(const matrix *a, const matrix *b, int64_t i, int rows, int64_t column,
                    int64_t n, int64_t depth, double (*sum)[UC_ROW]) {
  double row[UC_ROW] = {0};
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < UC_ROW; j++) sum[r][j] = 0;
  for (int64_t k = 0; k < depth; k++) {
    load_full_row(row, b, b->at + k * b->row + column * b->column, n);
    for (int r = 0; r < rows; r++) {
      int64_t at = a->at + (i + r) * a->row + k * a->column;
      multiply_row(sum[r], uc_onnx_get(a->view->data, a->view->dtype, at), row);
    }
  }
}

/* ---- MatMul ---- */

/* As NumPy: a vector on the left is one row, on the right one column; axes before the last two
   are broadcast. */
upconv_status uc_plan_matmul(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *a = uc_task_in(p, t, 0), *b = uc_task_in(p, t, 1);
  if (a->rank < 1 || b->rank < 1 || a->dtype != b->dtype)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "inputs of ranks %d and %d, types %s and %s", a->rank,
                   b->rank, uc_onnx_dtype_name(a->dtype), uc_onnx_dtype_name(b->dtype));
  int64_t depth = a->shape[a->rank - 1], other = b->shape[b->rank > 1 ? b->rank - 2 : 0];
  if (depth != other)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%lld columns times %lld rows", (long long)depth,
                   (long long)other);
  int64_t shape[UC_ONNX_MAX_RANK];
  int rank = a->rank > 2 ? a->rank - 2 : 0;
  uc_value outer = {.rank = b->rank > 2 ? b->rank - 2 : 0};
  memcpy(shape, a->shape, sizeof shape);
  memcpy(outer.shape, b->shape, sizeof shape);
  upconv_status status = uc_broadcast(&rank, shape, &outer);
  if (status) return status;
  if (a->rank > 1) shape[rank++] = a->shape[a->rank - 2];
  if (b->rank > 1) shape[rank++] = b->shape[b->rank - 1];
  return uc_set_result(p, t, 0, a->dtype, rank, shape);
}

static matrix matrix_of(const uc_view *view, bool left) {
  matrix m = {.view = view};
  int last = view->rank - 1;
  if (view->rank == 1)
    *(left ? &m.column : &m.row) = view->stride[0];
  else {
    m.row = view->stride[last - 1];
    m.column = view->stride[last];
  }
  return m;
}

/* The axes before the matrix's, for a walk. */
static uc_view outer_axes(const uc_view *view, int drop) {
  uc_view outer = *view;
  outer.rank = view->rank > drop ? view->rank - drop : 0;
  return outer;
}

void uc_run_matmul(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  const uc_view *a = &in[0], *b = &in[1];
  (void)t;
  int matrix_axes = (a->rank > 1) + (b->rank > 1), axis = out->rank - matrix_axes;
  int64_t rows = a->rank > 1 ? out->shape[axis] : 1;
  int64_t columns = b->rank > 1 ? out->shape[out->rank - 1] : 1;
  int64_t row_stride = a->rank > 1 ? out->stride[axis] : 0;
  int64_t column_stride = b->rank > 1 ? out->stride[out->rank - 1] : 0;
  int64_t depth = a->shape[a->rank - 1];
  matrix left = matrix_of(a, true), right = matrix_of(b, false);
  uc_view outer[] = {outer_axes(out, matrix_axes), outer_axes(a, 2), outer_axes(b, 2)};
  const uc_view *views[] = {&outer[0], &outer[1], &outer[2]};
  double sum[ROWS][UC_ROW];
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 3, views); more; more = uc_walk_next(&walk))
    for (int64_t item = 0; item < walk.length; item++) {
      int64_t to = walk.at[0] + item * walk.step[0];
      left.at = walk.at[1] + item * walk.step[1];
      right.at = walk.at[2] + item * walk.step[2];
      for (int64_t j = 0; j < columns; j += UC_ROW)
        for (int64_t i = 0; i < rows; i += ROWS) {
          int64_t n = columns - j < UC_ROW ? columns - j : UC_ROW;
          int count = rows - i < ROWS ? (int)(rows - i) : ROWS;
          product(&left, &right, i, count, j, n, depth, sum);
          for (int r = 0; r < count; r++)
            uc_row_store(out, to + (i + r) * row_stride + j * column_stride, column_stride, sum[r],
                         n);
        }
    }
}

/* ---- Gemm ---- */

upconv_status uc_plan_gemm(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *a = uc_task_in(p, t, 0), *b = uc_task_in(p, t, 1), *c = uc_task_in(p, t, 2);
  int64_t left, right;
  upconv_status status = uc_task_int(t, "transA", 0, &left);
  if (!status) status = uc_task_int(t, "transB", 0, &right);
  if (!status) status = uc_task_float(t, "alpha", 1, &t->attr[0]);
  if (!status) status = uc_task_float(t, "beta", 1, &t->attr[1]);
  if (!status) status = uc_task_is_float(p, t, 0);
  if (status) return status;
  t->transpose[0] = left != 0;
  t->transpose[1] = right != 0;
  if (a->rank != 2 || b->rank != 2 || a->dtype != b->dtype || (c && c->dtype != a->dtype))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "inputs must be matrices of one type");
  int64_t shape[2] = {a->shape[left != 0], b->shape[right == 0]};
  if (a->shape[left == 0] != b->shape[right != 0])
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%lld columns times %lld rows",
                   (long long)a->shape[left == 0], (long long)b->shape[right != 0]);
  if (c) {
    int64_t result[UC_ONNX_MAX_RANK] = {shape[0], shape[1]};
    int rank = 2;
    status = uc_broadcast(&rank, result, c);
    if (!status && (rank != 2 || result[0] != shape[0] || result[1] != shape[1]))
      status = uc_fail(UPCONV_INVALID_ARGUMENT, "input C is larger than the product");
  }
  return status ? status : uc_set_result(p, t, 0, a->dtype, 2, shape);
}

static matrix gemm_matrix(const uc_view *view, bool transposed) {
  return (matrix){view, 0, view->stride[transposed], view->stride[!transposed]};
}

/* y[j] = alpha * sum[j] + beta * c[i, column + j] */
static void finish_row(const uc_onnx_task *t, const uc_view *c, const int64_t c_stride[2],
                       int64_t i, int64_t column, int64_t n, double *sum) {
  double row[UC_ROW];
  for (int64_t k = 0; k < n; k++) sum[k] *= t->attr[0];
  if (!c) return;
  uc_row_load(row, c, i * c_stride[0] + column * c_stride[1], c_stride[1], n);
  for (int64_t k = 0; k < n; k++) sum[k] += t->attr[1] * row[k];
}

void uc_run_gemm(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  matrix a = gemm_matrix(&in[0], t->transpose[0]), b = gemm_matrix(&in[1], t->transpose[1]);
  int64_t rows = out->shape[0], columns = out->shape[1], depth = in[0].shape[!t->transpose[0]];
  const uc_view *c = t->input_count > 2 && in[2].dtype ? &in[2] : NULL;
  int64_t c_stride[2] = {0, 0};
  for (int i = 0; c && i < c->rank; i++)
    if (c->shape[i] != 1) c_stride[2 - c->rank + i] = c->stride[i];
  double sum[ROWS][UC_ROW];
  for (int64_t j = 0; j < columns; j += UC_ROW)
    for (int64_t i = 0; i < rows; i += ROWS) {
      int64_t n = columns - j < UC_ROW ? columns - j : UC_ROW;
      int count = rows - i < ROWS ? (int)(rows - i) : ROWS;
      product(&a, &b, i, count, j, n, depth, sum);
      for (int r = 0; r < count; r++) {
        finish_row(t, c, c_stride, i + r, j, n, sum[r]);
        uc_row_store(out, (i + r) * out->stride[0] + j * out->stride[1], out->stride[1], sum[r], n);
      }
    }
}
