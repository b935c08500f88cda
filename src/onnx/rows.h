/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: how plain operators reach elements of any type and any strides. */
#ifndef UPCONV_ONNX_ROWS_H
#define UPCONV_ONNX_ROWS_H

#include "program.h"

enum { UC_WALK_MAX = 6, UC_ROW = 256 };

/*
 * Walks views of one broadcast shape (the first view's) row by row. Axes that every view holds in
 * one run are joined, so that rows are long; element i of the row is `at[k] + i * step[k]` of view
 * k, i < length.
 */
typedef struct uc_walk {
  int count, rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  int64_t stride[UC_WALK_MAX][UC_ONNX_MAX_RANK];
  int64_t index[UC_ONNX_MAX_RANK];
  int64_t at[UC_WALK_MAX], step[UC_WALK_MAX];
  int64_t length;
} uc_walk;

/* False when there is nothing to walk. Views other than the first are broadcast to its shape. */
bool uc_walk_start(uc_walk *walk, int count, const uc_view *const *views);
bool uc_walk_next(uc_walk *walk);

/* n elements from `at` on, `step` apart, as float64 or int64, and back. */
void uc_row_load(double *to, const uc_view *view, int64_t at, int64_t step, int64_t n);
void uc_row_store(const uc_view *view, int64_t at, int64_t step, const double *from, int64_t n);
void uc_row_load_int(int64_t *to, const uc_view *view, int64_t at, int64_t step, int64_t n);
void uc_row_store_int(const uc_view *view, int64_t at, int64_t step, const int64_t *from,
                      int64_t n);
void uc_row_convert(const uc_view *from, int64_t from_at, int64_t from_step, const uc_view *to,
                    int64_t to_at, int64_t to_step, int64_t n);

#endif
