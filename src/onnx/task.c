/* SPDX-License-Identifier: Apache-2.0 */
/* What operators' plan functions share: attributes, inputs, results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "program.h"
#include "rows.h"

uc_value *uc_task_in(uc_onnx_program *program, const uc_onnx_task *task, int index) {
  if (index >= task->input_count || task->input[index] < 0) return NULL;
  return &program->value[task->input[index]];
}

uc_value *uc_task_out(uc_onnx_program *program, const uc_onnx_task *task, int index) {
  if (index >= task->output_count || task->output[index] < 0) return NULL;
  return &program->value[task->output[index]];
}

/* ---- attributes ---- */

static upconv_status wrong_kind(const char *name, const char *wanted) {
  return uc_fail(UPCONV_INVALID_ARGUMENT, "attribute '%s' is not %s", name, wanted);
}

upconv_status uc_task_int(const uc_onnx_task *task, const char *name, int64_t fallback,
                          int64_t *value) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(task->node, name);
  *value = attr ? attr->i : fallback;
  return !attr || attr->kind == UC_ATTR_INT ? UPCONV_OK : wrong_kind(name, "an integer");
}

upconv_status uc_task_float(const uc_onnx_task *task, const char *name, double fallback,
                            double *value) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(task->node, name);
  *value = attr ? attr->f : fallback;
  return !attr || attr->kind == UC_ATTR_FLOAT ? UPCONV_OK : wrong_kind(name, "a number");
}

upconv_status uc_task_string(const uc_onnx_task *task, const char *name, const char *fallback,
                             const char **value) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(task->node, name);
  *value = attr && attr->s ? attr->s : fallback;
  return !attr || attr->kind == UC_ATTR_STRING ? UPCONV_OK : wrong_kind(name, "a string");
}

upconv_status uc_task_ints(const uc_onnx_task *task, const char *name, int capacity,
                           int64_t *values, int *count) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(task->node, name);
  *count = 0;
  if (!attr) return UPCONV_OK;
  if (attr->kind != UC_ATTR_INTS) return wrong_kind(name, "a list of integers");
  if (attr->count > capacity)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "attribute '%s' has %d entries; at most %d make sense",
                   name, attr->count, capacity);
  *count = attr->count;
  for (int i = 0; i < attr->count; i++) values[i] = attr->ints[i];
  return UPCONV_OK;
}

upconv_status uc_task_axis(const char *name, int64_t axis, int rank, int *result) {
  if (axis < -rank || axis >= rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is %lld; allowed: %d to %d", name, (long long)axis,
                   -rank, rank - 1);
  *result = (int)(axis < 0 ? axis + rank : axis);
  return UPCONV_OK;
}

/* ---- inputs ---- */

uc_view uc_constant_view(const uc_value *value) {
  uc_view view = {.dtype = value->dtype, .rank = value->rank};
  /* Views of constants are only read. */
  view.data = (void *)(uintptr_t)value->data;
  memcpy(view.shape, value->shape, sizeof view.shape);
  uc_dense_strides(view.rank, view.shape, view.stride);
  return view;
}

upconv_status uc_task_constant_ints(uc_onnx_program *program, const uc_onnx_task *task, int index,
                                    const char *name, int capacity, int64_t *values, int *count) {
  const uc_value *in = uc_task_in(program, task, index);
  *count = 0;
  if (!in) return UPCONV_OK;
  if (!in->data)
    return uc_fail(UPCONV_UNSUPPORTED,
                   "input '%s' is computed from the graph's inputs; it must follow from constants "
                   "and shapes",
                   name);
  if (!uc_dtype_is_int(in->dtype) || in->rank > 1)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%s' is not a list of integers", name);
  int64_t n = uc_shape_count(in->rank, in->shape);
  if (n > capacity)
    return uc_fail(UPCONV_UNSUPPORTED, "input '%s' has %lld entries; at most %d are supported",
                   name, (long long)n, capacity);
  uc_view view = uc_constant_view(in);
  uc_row_load_int(values, &view, 0, 1, n);
  *count = (int)n;
  return UPCONV_OK;
}

upconv_status uc_task_axes(uc_onnx_program *program, const uc_onnx_task *task, int input,
                           int64_t *axes, int *count) {
  if (uc_onnx_attr_find(task->node, "axes"))
    return uc_task_ints(task, "axes", UC_ONNX_MAX_RANK, axes, count);
  if (input >= 0 && uc_task_in(program, task, input))
    return uc_task_constant_ints(program, task, input, "axes", UC_ONNX_MAX_RANK, axes, count);
  *count = -1;
  return UPCONV_OK;
}

bool uc_dtype_is_float(uc_onnx_dtype dtype) {
  return dtype == UC_ONNX_FLOAT || dtype == UC_ONNX_FLOAT16 || dtype == UC_ONNX_BFLOAT16 ||
         dtype == UC_ONNX_DOUBLE;
}

bool uc_dtype_is_int(uc_onnx_dtype dtype) {
  return uc_onnx_dtype_size(dtype) > 0 && !uc_dtype_is_float(dtype);
}

upconv_status uc_task_is_float(uc_onnx_program *program, const uc_onnx_task *task, int index) {
  const uc_value *in = uc_task_in(program, task, index);
  if (!in || uc_dtype_is_float(in->dtype)) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED,
                 "input %d has type %s; supported: float, float16, bfloat16, "
                 "double",
                 index, uc_onnx_dtype_name(in->dtype));
}

/* ---- results ---- */

static upconv_status check_size(const uc_onnx_program *program, uc_onnx_dtype dtype, int rank,
                                const int64_t *shape) {
  int64_t count, extent[UC_ONNX_MAX_RANK];
  if (rank < 0 || rank > UC_ONNX_MAX_RANK)
    return uc_fail(UPCONV_UNSUPPORTED, "the result has rank %d; at most %d is supported", rank,
                   UC_ONNX_MAX_RANK);
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d of the result would have size %lld", i,
                     (long long)shape[i]);
  /* As the oracle's elements, the largest there are. Empty axes count as 1: then also products
     of a part of the axes fit. */
  enum { WIDEST = 32 };
  for (int i = 0; i < rank; i++) extent[i] = uc_max(shape[i], 1);
  if (!uc_product(extent, rank, &count) || !uc_mul(count, WIDEST, &count))
    return uc_fail(UPCONV_OVERFLOW, "the size of the result does not fit 64 bits");
  size_t bytes = (size_t)count / WIDEST * uc_onnx_dtype_size(dtype);
  if (bytes > program->memory_limit)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "the result would take %zu bytes; the limit is %zu", bytes,
                   program->memory_limit);
  return UPCONV_OK;
}

upconv_status uc_set_result(uc_onnx_program *program, const uc_onnx_task *task, int output,
                            uc_onnx_dtype dtype, int rank, const int64_t *shape) {
  uc_value *out = uc_task_out(program, task, output);
  upconv_status status = check_size(program, dtype, rank, shape);
  if (status || !out) return status;
  out->dtype = dtype;
  out->rank = rank;
  for (int i = 0; i < rank; i++) out->shape[i] = shape[i];
  uc_dense_strides(rank, out->shape, out->stride);
  out->root = task->output[output];
  out->offset = 0;
  return UPCONV_OK;
}

upconv_status uc_set_view(uc_onnx_program *program, uc_onnx_task *task, int output, int rank,
                          const int64_t *shape, const int64_t *stride, int64_t offset) {
  const uc_value *in = uc_task_in(program, task, 0);
  upconv_status status = uc_set_result(program, task, output, in->dtype, rank, shape);
  uc_value *out = uc_task_out(program, task, output);
  if (status || !out) return status;
  task->view = true;
  out->root = in->root;
  out->offset = in->offset + offset;
  for (int i = 0; i < rank; i++) out->stride[i] = stride[i];
  return UPCONV_OK;
}

void *uc_set_constant(uc_onnx_program *program, const uc_onnx_task *task, int output) {
  uc_value *out = uc_task_out(program, task, output);
  int64_t count = uc_shape_count(out->rank, out->shape);
  out->owned = uc_onnx_new(count, uc_onnx_dtype_size(out->dtype));
  out->data = out->owned;
  return out->owned;
}

/* ---- broadcasting ---- */

static void print_shape(int rank, const int64_t *shape, char *text, size_t size) {
  size_t length = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < rank && length < size; i++)
    length +=
        (size_t)snprintf(text + length, size - length, "%s%lld", i ? "," : "", (long long)shape[i]);
  if (length < size) snprintf(text + length, size - length, "]");
}

upconv_status uc_broadcast(int *rank, int64_t *shape, const uc_value *value) {
  int64_t result[UC_ONNX_MAX_RANK];
  int n = *rank > value->rank ? *rank : value->rank;
  for (int i = 0; i < n; i++) {
    int a = i - (n - *rank), b = i - (n - value->rank);
    int64_t x = a < 0 ? 1 : shape[a], y = b < 0 ? 1 : value->shape[b];
    if (x != y && x != 1 && y != 1) {
      char first[128], second[128];
      print_shape(*rank, shape, first, sizeof first);
      print_shape(value->rank, value->shape, second, sizeof second);
      return uc_fail(UPCONV_INVALID_ARGUMENT, "shapes %s and %s do not fit together", first,
                     second);
    }
    result[i] = x == 1 ? y : x;
  }
  *rank = n;
  memcpy(shape, result, (size_t)n * sizeof *shape);
  return UPCONV_OK;
}
