/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose result is known while planning: constants, and shapes of other values. */
#include <math.h>
#include <string.h>

#include "../status.h"
#include "ops.h"

static upconv_status int_vector(uc_onnx_program *p, const uc_onnx_task *t, int rank, int64_t count,
                                int64_t **data) {
  upconv_status status = uc_set_result(p, t, 0, UC_ONNX_INT64, rank, &count);
  if (status) return status;
  *data = uc_set_constant(p, t, 0);
  return *data ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
}

static int64_t clip_axis(int64_t axis, int64_t rank) {
  if (axis < 0) axis = axis < -rank ? 0 : axis + rank;
  return axis > rank ? rank : axis;
}

upconv_status uc_plan_shape(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t start, end, *data;
  upconv_status status = uc_task_int(t, "start", 0, &start);
  if (!status) status = uc_task_int(t, "end", in->rank, &end);
  if (status) return status;
  start = clip_axis(start, in->rank);
  end = clip_axis(end, in->rank);
  int64_t count = end > start ? end - start : 0;
  status = int_vector(p, t, 1, count, &data);
  for (int64_t i = 0; i < count && !status; i++) data[i] = in->shape[start + i];
  return status;
}

upconv_status uc_plan_size(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t *data;
  upconv_status status = int_vector(p, t, 0, 1, &data);
  if (!status) data[0] = uc_shape_count(in->rank, in->shape);
  return status;
}

/* ---- Constant ---- */

/* The attribute's tensor, or its numbers as one. */
static upconv_status constant_tensor(const uc_onnx_task *t, uc_onnx_tensor *tensor) {
  for (int i = 0; i < t->node->attr_count; i++) {
    const uc_onnx_attr *attr = &t->node->attr[i];
    bool list = attr->kind == UC_ATTR_FLOATS || attr->kind == UC_ATTR_INTS;
    *tensor = (uc_onnx_tensor){.rank = list, .shape = {attr->count}};
    if (attr->kind == UC_ATTR_TENSOR)
      *tensor = attr->t;
    else if (attr->kind == UC_ATTR_FLOATS || attr->kind == UC_ATTR_FLOAT)
      tensor->dtype = UC_ONNX_FLOAT;
    else if (list || attr->kind == UC_ATTR_INT)
      tensor->dtype = UC_ONNX_INT64;
    else
      return uc_fail(UPCONV_UNSUPPORTED, "attribute '%.80s' is not numbers", attr->name);
    return UPCONV_OK;
  }
  return uc_fail(UPCONV_INVALID_ARGUMENT, "there is no value");
}

upconv_status uc_plan_constant(uc_onnx_program *p, uc_onnx_task *t) {
  uc_onnx_tensor tensor;
  upconv_status status = constant_tensor(t, &tensor);
  if (!status) status = uc_set_result(p, t, 0, tensor.dtype, tensor.rank, tensor.shape);
  uc_value *out = uc_task_out(p, t, 0);
  if (status || !out) return status;
  if (tensor.data) {
    out->data = tensor.data; /* the model outlives the program */
    return UPCONV_OK;
  }
  void *data = uc_set_constant(p, t, 0);
  if (!data) return UPCONV_OUT_OF_MEMORY;
  const uc_onnx_attr *attr = &t->node->attr[0];
  if (attr->kind == UC_ATTR_FLOAT) *(float *)data = (float)attr->f;
  if (attr->kind == UC_ATTR_INT) *(int64_t *)data = attr->i;
  if (attr->kind == UC_ATTR_FLOATS && attr->count)
    memcpy(data, attr->floats, (size_t)attr->count * sizeof(float));
  if (attr->kind == UC_ATTR_INTS && attr->count)
    memcpy(data, attr->ints, (size_t)attr->count * sizeof(int64_t));
  return UPCONV_OK;
}

upconv_status uc_plan_constant_of_shape(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(t->node, "value");
  int64_t shape[UC_ONNX_MAX_RANK], count = 1;
  int rank;
  upconv_status status = uc_task_constant_ints(p, t, 0, "input", UC_ONNX_MAX_RANK, shape, &rank);
  if (!status && attr &&
      (attr->kind != UC_ATTR_TENSOR || !uc_onnx_tensor_elements(&attr->t, &count) || count != 1))
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "attribute 'value' is not a tensor of one element");
  uc_onnx_dtype dtype = attr ? attr->t.dtype : UC_ONNX_FLOAT;
  if (!status) status = uc_set_result(p, t, 0, dtype, rank, shape);
  uc_value *out = uc_task_out(p, t, 0);
  if (status || !out) return status;
  char *data = uc_set_constant(p, t, 0);
  if (!data) return UPCONV_OUT_OF_MEMORY;
  size_t size = uc_onnx_dtype_size(dtype);
  count = uc_shape_count(rank, out->shape);
  for (int64_t i = 0; i < count && attr; i++) memcpy(data + (size_t)i * size, attr->t.data, size);
  return UPCONV_OK;
}

/* ---- Range ---- */

upconv_status uc_plan_range(uc_onnx_program *p, uc_onnx_task *t) {
  double ends[3];
  uc_onnx_dtype dtype = uc_task_in(p, t, 0)->dtype;
  for (int i = 0; i < 3; i++) {
    const uc_value *in = uc_task_in(p, t, i);
    if (!in || !in->data || uc_shape_count(in->rank, in->shape) != 1)
      return uc_fail(UPCONV_UNSUPPORTED, "input %d is not a constant number", i);
    ends[i] = uc_onnx_get(in->data, in->dtype, 0);
  }
  double steps = ceil((ends[1] - ends[0]) / ends[2]);
  if (!(fabs(steps) < 0x1p52))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "from %g to %g by %g", ends[0], ends[1], ends[2]);
  int64_t count = steps > 0 ? (int64_t)steps : 0;
  upconv_status status = uc_set_result(p, t, 0, dtype, 1, &count);
  if (status || !uc_task_out(p, t, 0)) return status;
  void *data = uc_set_constant(p, t, 0);
  if (!data) return UPCONV_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; i++) uc_onnx_set(data, dtype, i, ends[0] + (double)i * ends[2]);
  return UPCONV_OK;
}
