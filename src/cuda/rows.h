/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x as the kernels for many channels read it. cuda-gemm: rows of 128 bytes, a chunk of the channels of one position each.
 * cuda-panel: units of 16 bytes, [group][unit of its channels][sample][position].
 */
#ifndef UPCONV_CUDA_ROWS_H
#define UPCONV_CUDA_ROWS_H

#include "arguments.h"

/* Where a position's row lies: element (0, 0, 0) of sample 0 at origin, strides in bytes: sample, group, chunk, D, H, W. */
typedef struct uc_cuda_row_view {
  int64_t origin, stride[6], words; /* words: of all groups */
} uc_cuda_row_view;

/* What made rows of an x take of the workspace. */
upconv_status uc_cuda_rows_size(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                                const int64_t x_shape[UC_RANK], size_t *bytes);
/* Whether x itself is such rows. */
bool uc_cuda_is_rows(const uc_cuda_engine *engine, const upconv_tensor *x);
uc_cuda_row_view uc_cuda_own_rows(const uc_cuda_engine *engine, const upconv_tensor *x);
uc_cuda_row_view uc_cuda_made_rows(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                                   const upconv_tensor *x, void *memory);
/* Writes struct RowsArgs of kernels/gemm_rows.cu or panel_units.cu, for the kernel that makes them in so many blocks; 0: nothing
   to do. */
upconv_status uc_cuda_put_rows_kernel(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                                      const upconv_tensor *x, const uc_cuda_row_view *rows,
                                      int64_t *blocks, uc_cuda_arguments *arguments);

/* ---- arguments of the pass ---- */

/* Writes struct Rows. */
upconv_status uc_cuda_put_rows(const uc_cuda_kernel *kernel, const upconv_tensor *x,
                               const uc_cuda_row_view *rows, uc_cuda_arguments *arguments);
/* Writes struct Map, for the copy engine: of rows, or of units. */
upconv_status uc_cuda_put_map(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                              const uc_call *call, const uc_cuda_row_view *rows,
                              uc_cuda_arguments *arguments);
/* What the map calls sample 0. */
int64_t uc_cuda_first_sample(const upconv_tensor *x);

#endif
