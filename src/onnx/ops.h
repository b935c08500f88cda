/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the operator table in ops.c, one file a family. See uc_onnx_op for what they do. */
#ifndef UPCONV_ONNX_OPS_H
#define UPCONV_ONNX_OPS_H

#include "program.h"

/* op_view.c */
upconv_status uc_plan_identity(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_dropout(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_reshape(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_flatten(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_squeeze(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_unsqueeze(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_transpose(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_expand(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_slice(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_split(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_align(uc_onnx_program *program, uc_onnx_task *task);

/* op_shape.c */
upconv_status uc_plan_shape(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_size(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_constant(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_constant_of_shape(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_range(uc_onnx_program *program, uc_onnx_task *task);

/* op_elementwise.c; variant: the uc_fn */
upconv_status uc_plan_unary(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_binary(uc_onnx_program *program,
                             uc_onnx_task *task); /* also Sum, Max, Min of any number */
upconv_status uc_plan_compare(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_prelu(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_where(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_clip(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_cast(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_gelu(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_swish(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_elementwise(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
/* The same with vector kernels, on 16 and 32 bit floating point; false when there is none for
   it. vector.c */
bool uc_run_vector(const uc_onnx_task *task, int operands, const uc_view *const *operand,
                   const uc_view *out);

/* op_move.c; variant: 1 for SpaceToDepth, 0 for DepthToSpace */
upconv_status uc_plan_concat(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_concat(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
upconv_status uc_plan_pad(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_gather(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_tile(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_gather(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
void uc_run_map(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
upconv_status uc_plan_depth_to_space(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_space_to_depth(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_blocks(const uc_onnx_task *task, const uc_view *in, const uc_view *out);

/* op_resize.c */
upconv_status uc_plan_resize(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_upsample(uc_onnx_program *program, uc_onnx_task *task);

/* op_pool.c; variant: uc_pool_kind */
typedef enum uc_pool_kind { UC_POOL_MAX, UC_POOL_AVERAGE } uc_pool_kind;
upconv_status uc_plan_pool(uc_onnx_program *program, uc_onnx_task *task);
upconv_status uc_plan_global_pool(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_pool(const uc_onnx_task *task, const uc_view *in, const uc_view *out);

/* op_reduce.c; variant: uc_reduce_kind, or for softmax whether it is the logarithm */
typedef enum uc_reduce_kind {
  UC_REDUCE_SUM,
  UC_REDUCE_MEAN,
  UC_REDUCE_MAX,
  UC_REDUCE_MIN,
  UC_REDUCE_LOG_SUM_EXP,
  UC_REDUCE_SUM_SQUARE,
  UC_REDUCE_L1,
  UC_REDUCE_L2,
  UC_REDUCE_PROD,
  UC_REDUCE_LOG_SUM,
} uc_reduce_kind;
upconv_status uc_plan_reduce(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_reduce(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
upconv_status uc_plan_softmax(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_softmax(const uc_onnx_task *task, const uc_view *in, const uc_view *out);

/* op_matrix.c */
upconv_status uc_plan_matmul(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_matmul(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
upconv_status uc_plan_gemm(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_gemm(const uc_onnx_task *task, const uc_view *in, const uc_view *out);

/* op_norm.c */
upconv_status uc_plan_batch_norm(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_batch_norm(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
upconv_status uc_plan_instance_norm(uc_onnx_program *program, uc_onnx_task *task);
void uc_run_instance_norm(const uc_onnx_task *task, const uc_view *in, const uc_view *out);

/* op_conv.c; variant: 1 for Conv, 0 for ConvTranspose */
upconv_status uc_plan_conv(uc_onnx_program *program, uc_onnx_task *task);

/* ---- what these operators make of their views, for other ways to run them ---- */

/* Where the result of a Concat takes one of its inputs, which begins at `at` of the axis. */
uc_view uc_concat_part(const uc_onnx_task *task, const uc_view *in, const uc_view *out, int64_t at);
/* The result with the axis that a scalar index drops. */
uc_view uc_gather_result(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
/* The input with rank 6, in the order of the result's elements. */
uc_view uc_blocks_source(const uc_onnx_task *task, const uc_view *in);
/* The result with the axes that were dropped. */
uc_view uc_reduce_result(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
/* Bits of the axes that are summed over. */
uint32_t uc_softmax_axes(const uc_onnx_task *task);

/* ---- shared by windows and convolutions: op_window.c ---- */

/* kernel_shape, strides, dilations, pads and auto_pad of nd spatial axes. */
typedef struct uc_window_attrs {
  int nd;
  bool has_kernel;
  int64_t kernel[UPCONV_MAX_SPATIAL], stride[UPCONV_MAX_SPATIAL], dilation[UPCONV_MAX_SPATIAL];
  int64_t pad_begin[UPCONV_MAX_SPATIAL], pad_end[UPCONV_MAX_SPATIAL];
  upconv_auto_pad auto_pad;
} uc_window_attrs;
upconv_status uc_read_window(const uc_onnx_task *task, int rank, uc_window_attrs *window);
/* auto_pad of pools and of Conv: the output has ceil(size / stride) elements; VALID: no padding. */
upconv_status uc_resolve_auto_pad(uc_window_attrs *window, const int64_t *size);

#endif
