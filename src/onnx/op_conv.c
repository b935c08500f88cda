/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConvTranspose and Conv as problems of the library. A convolution of stride 1 with padding p is a
 * transposed one with flipped, exchanged weights and padding d (K - 1) - p. A convolution of a
 * larger stride is that, of which a pool of windows of one element keeps every stride-th position.
 */
#include <string.h>

#include "../status.h"
#include "ops.h"
#include "segment.h"

bool uc_onnx_engine_dtype(uc_onnx_dtype dtype, upconv_dtype *result) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    *result = UPCONV_F32;
    return true;
  case UC_ONNX_FLOAT16:
    *result = UPCONV_F16;
    return true;
  case UC_ONNX_BFLOAT16:
    *result = UPCONV_BF16;
    return true;
  default:
    return false;
  }
}

static upconv_status read_types(uc_onnx_program *p, const uc_onnx_task *t,
                                upconv_problem_desc *desc) {
  const uc_value *x = uc_task_in(p, t, 0), *w = uc_task_in(p, t, 1), *b = uc_task_in(p, t, 2);
  upconv_dtype bias;
  const uc_value *bad = !uc_onnx_engine_dtype(x->dtype, &desc->x_dtype)   ? x
                        : !uc_onnx_engine_dtype(w->dtype, &desc->w_dtype) ? w
                        : b && !uc_onnx_engine_dtype(b->dtype, &bias)     ? b
                                                                          : NULL;
  if (bad)
    return uc_fail(UPCONV_UNSUPPORTED, "type %s is not supported: float, float16 and bfloat16 are",
                   uc_onnx_dtype_name(bad->dtype));
  desc->y_dtype = desc->x_dtype;
  desc->bias = b != NULL;
  return UPCONV_OK;
}

/* Weights are [in, out / groups, kernel...], a Conv's [out, in / groups, kernel...]. */
static upconv_status read_channels(uc_onnx_program *p, const uc_onnx_task *t, bool conv,
                                   upconv_problem_desc *desc) {
  const uc_value *x = uc_task_in(p, t, 0), *w = uc_task_in(p, t, 1), *b = uc_task_in(p, t, 2);
  int64_t group;
  upconv_status status = uc_task_int(t, "group", 1, &group);
  if (status) return status;
  if (w->rank != x->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the weights have rank %d; the input has %d", w->rank,
                   x->rank);
  if (group < 1 || group > INT32_MAX)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "group is %lld", (long long)group);
  desc->batch = x->shape[0];
  desc->groups = group;
  desc->in_channels = conv ? w->shape[1] * group : w->shape[0];
  desc->out_channels = conv ? w->shape[0] : w->shape[1] * group;
  if (desc->in_channels != x->shape[1])
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the weights are for %lld channels; the input has %lld",
                   (long long)desc->in_channels, (long long)x->shape[1]);
  if (b && (b->rank != 1 || b->shape[0] != desc->out_channels))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "the bias does not hold one number for each of the "
                   "%lld channels",
                   (long long)desc->out_channels);
  return UPCONV_OK;
}

static upconv_status read_axes(uc_onnx_program *p, const uc_onnx_task *t, uc_window_attrs *a,
                               upconv_problem_desc *desc) {
  const uc_value *x = uc_task_in(p, t, 0), *w = uc_task_in(p, t, 1);
  for (int i = 0; i < a->nd; i++) {
    if (a->has_kernel && a->kernel[i] != w->shape[2 + i])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "kernel_shape[%d] is %lld; the weights have %lld", i,
                     (long long)a->kernel[i], (long long)w->shape[2 + i]);
    desc->in_size[i] = x->shape[2 + i];
    desc->kernel[i] = a->kernel[i] = w->shape[2 + i];
    desc->dilation[i] = a->dilation[i];
  }
  return UPCONV_OK;
}

/* output_shape may hold the batch and channels as well. */
static upconv_status read_output_shape(const uc_onnx_task *t, int nd, int64_t *shape, bool *given) {
  int64_t all[UPCONV_MAX_RANK];
  int count;
  upconv_status status = uc_task_ints(t, "output_shape", UPCONV_MAX_RANK, all, &count);
  if (status) return status;
  *given = count > 0;
  if (count != 0 && count != nd && count != nd + 2)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "attribute 'output_shape' has %d entries; there are %d "
                   "axes",
                   count, nd);
  for (int i = 0; i < nd && count; i++) shape[i] = all[count - nd + i];
  return UPCONV_OK;
}

static upconv_status finish_transposed(const uc_onnx_task *t, const uc_window_attrs *a,
                                       upconv_problem_desc *desc) {
  int64_t shape[UPCONV_MAX_SPATIAL];
  bool has_shape;
  int count;
  upconv_status status =
      uc_task_ints(t, "output_padding", UPCONV_MAX_SPATIAL, desc->output_padding, &count);
  if (!status) status = read_output_shape(t, a->nd, shape, &has_shape);
  if (status) return status;
  if (count != 0 && count != a->nd)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "attribute 'output_padding' has %d entries; there are "
                   "%d axes",
                   count, a->nd);
  for (int i = 0; i < a->nd; i++) {
    desc->stride[i] = a->stride[i];
    desc->pad_begin[i] = a->pad_begin[i];
    desc->pad_end[i] = a->pad_end[i];
  }
  if (a->auto_pad == UPCONV_PAD_NOTSET && !has_shape) return UPCONV_OK;
  return upconv_problem_desc_auto_pad(desc, a->auto_pad, has_shape ? shape : NULL);
}

static upconv_status finish_conv(uc_onnx_task *t, uc_window_attrs *a, upconv_problem_desc *desc) {
  upconv_status status = uc_resolve_auto_pad(a, desc->in_size);
  for (int i = 0; i < a->nd && !status; i++) {
    int64_t reach = a->dilation[i] * (a->kernel[i] - 1);
    t->conv_stride[i] = a->stride[i];
    desc->pad_begin[i] = reach - a->pad_begin[i];
    desc->pad_end[i] = reach - a->pad_end[i];
  }
  return status;
}

upconv_status uc_plan_conv(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *x = uc_task_in(p, t, 0);
  bool conv = t->op->variant != 0;
  uc_window_attrs a;
  upconv_problem *problem;
  int64_t shape[UPCONV_MAX_RANK];
  upconv_status status = uc_read_window(t, x->rank, &a);
  if (!status) status = upconv_problem_desc_init(&t->desc, a.nd);
  if (!status) status = read_types(p, t, &t->desc);
  if (!status) status = read_channels(p, t, conv, &t->desc);
  if (!status) status = read_axes(p, t, &a, &t->desc);
  if (!status) status = conv ? finish_conv(t, &a, &t->desc) : finish_transposed(t, &a, &t->desc);
  if (!status) status = upconv_problem_create(&t->desc, &problem);
  if (status) return status;
  status = upconv_problem_conv_shape(problem, shape);
  upconv_problem_destroy(problem);
  for (int i = 0; i < a.nd && conv && !status; i++)
    if (shape[2 + i] > 0) shape[2 + i] = (shape[2 + i] - 1) / t->conv_stride[i] + 1;
  return status ? status : uc_set_result(p, t, 0, x->dtype, x->rank, shape);
}
