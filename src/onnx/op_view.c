/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose result is their input seen differently: no element is computed, most are not
   even moved. */
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "ops.h"

static upconv_status same_view(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  return uc_set_view(p, t, 0, in->rank, in->shape, in->stride, 0);
}

upconv_status uc_plan_identity(uc_onnx_program *p, uc_onnx_task *t) { return same_view(p, t); }

/* ---- Dropout ---- */

/* Inference: nothing is dropped. */
upconv_status uc_plan_dropout(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0), *training = uc_task_in(p, t, 2);
  int64_t is_test;
  /* Before operator set 7 training was the default. */
  upconv_status status = uc_task_int(t, "is_test", p->model->opset >= 7, &is_test);
  if (status) return status;
  if (!is_test) return uc_fail(UPCONV_UNSUPPORTED, "attribute 'is_test' is 0: training");
  if (training && (!training->data || uc_onnx_get(training->data, training->dtype, 0) != 0))
    return uc_fail(UPCONV_UNSUPPORTED, "input 'training_mode' is not constantly false");
  status = same_view(p, t);
  if (status || !uc_task_out(p, t, 1)) return status;
  if (uc_task_out(p, t, 1)->data) return UPCONV_OK; /* planned again: see segment.c */
  /* The mask is all true; before operator set 10 it had the input's type. */
  uc_onnx_dtype dtype = p->model->opset < 10 ? in->dtype : UC_ONNX_BOOL;
  status = uc_set_result(p, t, 1, dtype, in->rank, in->shape);
  if (status) return status;
  void *mask = uc_set_constant(p, t, 1);
  if (!mask) return UPCONV_OUT_OF_MEMORY;
  int64_t count = uc_shape_count(in->rank, in->shape);
  for (int64_t i = 0; i < count; i++) uc_onnx_set(mask, dtype, i, 1);
  return UPCONV_OK;
}

/* ---- shapes ---- */

/* A view where strides allow, else a copy: then the task has a result of its own. */
static upconv_status set_reshaped(uc_onnx_program *p, uc_onnx_task *t, int rank,
                                  const int64_t *shape) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t stride[UC_ONNX_MAX_RANK];
  upconv_status status = uc_set_result(p, t, 0, in->dtype, rank, shape);
  if (status) return status;
  if (!uc_reshape_strides(in->rank, in->shape, in->stride, rank, shape, stride)) return UPCONV_OK;
  return uc_set_view(p, t, 0, rank, shape, stride, 0);
}

upconv_status uc_plan_reshape(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t shape[UC_ONNX_MAX_RANK], allow_zero, known = 1;
  int rank, free_axis = -1;
  upconv_status status = uc_task_int(t, "allowzero", 0, &allow_zero);
  if (!status && uc_task_in(p, t, 1))
    status = uc_task_constant_ints(p, t, 1, "shape", UC_ONNX_MAX_RANK, shape, &rank);
  else if (!status)
    status = uc_task_ints(t, "shape", UC_ONNX_MAX_RANK, shape, &rank);
  if (status) return status;
  int64_t count = uc_shape_count(in->rank, in->shape);
  for (int i = 0; i < rank; i++) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= in->rank)
        return uc_fail(UPCONV_INVALID_ARGUMENT, "shape[%d] is 0, but the input has rank %d", i,
                       in->rank);
      shape[i] = in->shape[i];
    }
    if (shape[i] < -1 || (shape[i] == -1 && free_axis >= 0))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "shape[%d] is %lld; one -1 at most is allowed", i,
                     (long long)shape[i]);
    if (shape[i] == -1)
      free_axis = i;
    else if (!uc_mul(known, shape[i], &known))
      return uc_fail(UPCONV_OVERFLOW, "the product of shape does not fit 64 bits");
  }
  if (free_axis >= 0) shape[free_axis] = known ? count / known : 0;
  if (free_axis >= 0 ? known == 0 || count % known : known != count)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "%lld elements cannot be reshaped to a multiple of %lld", (long long)count,
                   (long long)known);
  return set_reshaped(p, t, rank, shape);
}

upconv_status uc_plan_flatten(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t axis, shape[2] = {1, 1};
  upconv_status status = uc_task_int(t, "axis", 1, &axis);
  if (status) return status;
  if (axis < -in->rank || axis > in->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "axis is %lld; allowed: %d to %d", (long long)axis,
                   -in->rank, in->rank);
  if (axis < 0) axis += in->rank;
  for (int i = 0; i < in->rank; i++) shape[i >= axis] *= in->shape[i];
  return set_reshaped(p, t, 2, shape);
}

upconv_status uc_plan_squeeze(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t axes[UC_ONNX_MAX_RANK], shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK];
  bool drop[UC_ONNX_MAX_RANK] = {false};
  int count, rank = 0;
  upconv_status status = uc_task_axes(p, t, 1, axes, &count);
  for (int i = 0; i < in->rank && count < 0; i++) drop[i] = in->shape[i] == 1;
  for (int i = 0; i < count && !status; i++) {
    int axis;
    status = uc_task_axis("axis", axes[i], in->rank, &axis);
    if (status) return status;
    if (in->shape[axis] != 1)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d has size %lld; only 1 can be squeezed", axis,
                     (long long)in->shape[axis]);
    drop[axis] = true;
  }
  if (status) return status;
  for (int i = 0; i < in->rank; i++) {
    if (drop[i]) continue;
    shape[rank] = in->shape[i];
    stride[rank++] = in->stride[i];
  }
  return uc_set_view(p, t, 0, rank, shape, stride, 0);
}

upconv_status uc_plan_unsqueeze(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t axes[UC_ONNX_MAX_RANK], shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK];
  bool fresh[UC_ONNX_MAX_RANK] = {false};
  int count, from = 0;
  upconv_status status = uc_task_axes(p, t, 1, axes, &count);
  if (status) return status;
  if (count < 0) return uc_fail(UPCONV_INVALID_ARGUMENT, "there are no axes");
  int rank = in->rank + count;
  if (rank > UC_ONNX_MAX_RANK)
    return uc_fail(UPCONV_UNSUPPORTED, "the result has rank %d; at most %d is supported", rank,
                   UC_ONNX_MAX_RANK);
  for (int i = 0; i < count; i++) {
    int axis;
    status = uc_task_axis("axis", axes[i], rank, &axis);
    if (status) return status;
    if (fresh[axis]) return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d is named twice", axis);
    fresh[axis] = true;
  }
  for (int i = 0; i < rank; i++) {
    shape[i] = fresh[i] ? 1 : in->shape[from];
    stride[i] = fresh[i] ? 0 : in->stride[from];
    from += !fresh[i];
  }
  return uc_set_view(p, t, 0, rank, shape, stride, 0);
}

/* The second operand of an operator older than operator set 7, so that its axes begin at `axis`
   of the first one's: see legacy.c. Input 0 is the operand, input 1 the one that it is broadcast
   to. */
upconv_status uc_plan_align(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0), *other = uc_task_in(p, t, 1);
  int64_t given, shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK];
  int axis;
  if (in->rank == 0) return same_view(p, t);
  upconv_status status = uc_task_int(t, "axis", 0, &given);
  if (!status) status = uc_task_axis("axis", given, other->rank, &axis);
  if (status) return status;
  int rank = other->rank - axis;
  if (in->rank > rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d and an operand of rank %d exceed rank %d",
                   axis, in->rank, other->rank);
  for (int i = 0; i < rank; i++) {
    shape[i] = i < in->rank ? in->shape[i] : 1;
    stride[i] = i < in->rank ? in->stride[i] : 0;
  }
  return uc_set_view(p, t, 0, rank, shape, stride, 0);
}

/* ---- strides ---- */

upconv_status uc_plan_transpose(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t perm[UC_ONNX_MAX_RANK], shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK];
  bool seen[UC_ONNX_MAX_RANK] = {false};
  int count;
  upconv_status status = uc_task_ints(t, "perm", UC_ONNX_MAX_RANK, perm, &count);
  if (status) return status;
  bool given = uc_onnx_attr_find(t->node, "perm") != NULL;
  if (given && count != in->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "perm has %d entries; the input has rank %d", count,
                   in->rank);
  for (int i = 0; i < in->rank; i++) {
    int64_t axis = given ? perm[i] : in->rank - 1 - i;
    if (axis < 0 || axis >= in->rank || seen[axis])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "perm[%d] is %lld; perm must hold each axis once", i,
                     (long long)axis);
    seen[axis] = true;
    t->perm[i] = (int)axis;
    shape[i] = in->shape[axis];
    stride[i] = in->stride[axis];
  }
  return uc_set_view(p, t, 0, in->rank, shape, stride, 0);
}

upconv_status uc_plan_expand(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  uc_value wanted = {.rank = 0};
  int64_t shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK];
  int rank = in->rank;
  upconv_status status =
      uc_task_constant_ints(p, t, 1, "shape", UC_ONNX_MAX_RANK, wanted.shape, &wanted.rank);
  if (status) return status;
  for (int i = 0; i < wanted.rank; i++)
    if (wanted.shape[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "shape[%d] is %lld; it must not be negative", i,
                     (long long)wanted.shape[i]);
  memcpy(shape, in->shape, sizeof shape);
  status = uc_broadcast(&rank, shape, &wanted);
  if (status) return status;
  for (int i = 0; i < rank; i++) {
    int own = i - (rank - in->rank);
    stride[i] = own < 0 || in->shape[own] != shape[i] ? 0 : in->stride[own];
  }
  return uc_set_view(p, t, 0, rank, shape, stride, 0);
}

/* ---- Slice and Split ---- */

/* ONNX's and NumPy's rule: ends are clipped, negative ones count from the end. */
static int64_t clip_end(int64_t value, int64_t size, int64_t low, int64_t high) {
  if (value < 0) value = value < -size ? low : value + size;
  return uc_max(low, uc_min(high, value));
}

static void slice_axis(int64_t start, int64_t end, int64_t step, int64_t *size, int64_t *stride,
                       int64_t *offset) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? *size : *size - 1;
  /* Going backwards, -1 stands before the first element. */
  start = step > 0 ? clip_end(start, *size, 0, *size) : clip_end(start, *size, -1, high);
  end = clip_end(end, *size, low, *size);
  int64_t span = step > 0 ? end - start : start - end;
  int64_t width = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  int64_t count = span <= 0 ? 0 : (span - 1) / width + 1;
  if (count > 0) *offset += start * *stride;
  *size = count;
  *stride = count > 1 ? *stride * step : 0;
}

typedef struct slice_ends {
  int64_t start[UC_ONNX_MAX_RANK], end[UC_ONNX_MAX_RANK];
  int64_t axis[UC_ONNX_MAX_RANK], step[UC_ONNX_MAX_RANK];
  int count;
} slice_ends;

static upconv_status read_slice(uc_onnx_program *p, uc_onnx_task *t, slice_ends *ends) {
  int starts, stops, axes, steps = 0;
  bool inputs = p->model->opset >= 10;
  const int most = UC_ONNX_MAX_RANK;
  upconv_status status = inputs
                             ? uc_task_constant_ints(p, t, 1, "starts", most, ends->start, &starts)
                             : uc_task_ints(t, "starts", most, ends->start, &starts);
  if (!status)
    status = inputs ? uc_task_constant_ints(p, t, 2, "ends", most, ends->end, &stops)
                    : uc_task_ints(t, "ends", most, ends->end, &stops);
  if (!status) status = uc_task_axes(p, t, inputs ? 3 : -1, ends->axis, &axes);
  if (!status && inputs) status = uc_task_constant_ints(p, t, 4, "steps", most, ends->step, &steps);
  if (status) return status;
  ends->count = starts;
  if (stops != starts || (axes >= 0 && axes != starts) || (steps > 0 && steps != starts))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "starts, ends, axes and steps have %d, %d, %d and %d "
                   "entries",
                   starts, stops, axes, steps);
  for (int i = 0; i < starts; i++) {
    if (axes < 0) ends->axis[i] = i;
    if (steps == 0) ends->step[i] = 1;
    if (ends->step[i] == 0) return uc_fail(UPCONV_INVALID_ARGUMENT, "steps[%d] is 0", i);
  }
  return UPCONV_OK;
}

upconv_status uc_plan_slice(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  slice_ends ends = {.count = 0};
  int64_t shape[UC_ONNX_MAX_RANK], stride[UC_ONNX_MAX_RANK], offset = 0;
  bool seen[UC_ONNX_MAX_RANK] = {false};
  upconv_status status = read_slice(p, t, &ends);
  memcpy(shape, in->shape, sizeof shape);
  memcpy(stride, in->stride, sizeof stride);
  for (int i = 0; i < ends.count && !status; i++) {
    int axis;
    status = uc_task_axis("axis", ends.axis[i], in->rank, &axis);
    if (status) return status;
    if (seen[axis]) return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d is named twice", axis);
    seen[axis] = true;
    slice_axis(ends.start[i], ends.end[i], ends.step[i], &shape[axis], &stride[axis], &offset);
  }
  return status ? status : uc_set_view(p, t, 0, in->rank, shape, stride, offset);
}

static upconv_status split_sizes(uc_onnx_program *p, uc_onnx_task *t, int64_t whole,
                                 int64_t *sizes) {
  int parts = t->output_count, count = 0;
  int64_t given;
  upconv_status status = uc_task_int(t, "num_outputs", parts, &given);
  if (!status && uc_task_in(p, t, 1))
    status = uc_task_constant_ints(p, t, 1, "split", parts, sizes, &count);
  else if (!status)
    status = uc_task_ints(t, "split", parts, sizes, &count);
  if (status) return status;
  if (given != parts || (count && count != parts))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "there are %d outputs, but sizes for %lld", parts,
                   (long long)(count ? count : given));
  int64_t left = whole, each = uc_ceil_div(whole, parts);
  for (int i = 0; i < parts; i++) {
    if (!count) sizes[i] = uc_min(each, left);
    if (sizes[i] < 0 || sizes[i] > left)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "split[%d] is %lld; %lld of %lld are left", i,
                     (long long)sizes[i], (long long)left, (long long)whole);
    left -= sizes[i];
  }
  if (left)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the parts of split leave %lld of %lld over",
                   (long long)left, (long long)whole);
  return UPCONV_OK;
}

upconv_status uc_plan_split(uc_onnx_program *p, uc_onnx_task *t) {
  enum { MOST = 64 };
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t sizes[MOST], shape[UC_ONNX_MAX_RANK], given, at = 0;
  int axis;
  if (t->output_count < 1 || t->output_count > MOST)
    return uc_fail(UPCONV_UNSUPPORTED, "%d outputs; 1 to %d are supported", t->output_count, MOST);
  upconv_status status = uc_task_int(t, "axis", 0, &given);
  if (!status) status = uc_task_axis("axis", given, in->rank, &axis);
  if (!status) status = split_sizes(p, t, in->shape[axis], sizes);
  if (status) return status;
  memcpy(shape, in->shape, sizeof shape);
  for (int i = 0; i < t->output_count && !status; i++) {
    shape[axis] = sizes[i];
    status = uc_set_view(p, t, i, in->rank, shape, in->stride, at * in->stride[axis]);
    at += sizes[i];
  }
  return status;
}
