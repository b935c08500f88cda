/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample by the nearest element: each axis has a map from output to input indices. */
#include <math.h>
#include <string.h>

#include "../status.h"
#include "ops.h"

typedef struct resize {
  const char *mode, *coordinates, *nearest;
  int64_t size[UC_ONNX_MAX_RANK]; /* of the output */
  double scale[UC_ONNX_MAX_RANK];
} resize;

/* ---- sizes ---- */

/* floor(size * scale); a scale stored as float32 may be a hair below the whole number that was
   meant. */
static upconv_status scaled_size(int64_t size, double scale, int axis, int64_t *result) {
  double scaled = floor((double)size * scale * (1 + 0x1p-30));
  if (!(scale > 0) || !(scaled < 0x1p52))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the scale of axis %d is %g", axis, scale);
  *result = (int64_t)scaled;
  return UPCONV_OK;
}

static upconv_status read_scales(uc_onnx_program *p, const uc_onnx_task *t, int input, int n,
                                 double *scales) {
  const uc_onnx_attr *attr = uc_onnx_attr_find(t->node, "scales");
  const uc_value *value = uc_task_in(p, t, input);
  if (attr && attr->kind == UC_ATTR_FLOATS && attr->count == n) {
    for (int i = 0; i < n; i++) scales[i] = (double)attr->floats[i];
    return UPCONV_OK;
  }
  if (!value || !value->data)
    return uc_fail(UPCONV_UNSUPPORTED, "scales and sizes are not constant, or not there");
  if (value->rank != 1 || value->shape[0] != n || !uc_dtype_is_float(value->dtype))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input 'scales' does not hold %d numbers", n);
  for (int i = 0; i < n; i++) scales[i] = uc_onnx_get(value->data, value->dtype, i);
  return UPCONV_OK;
}

/* The axes that scales and sizes speak of. */
static upconv_status read_axes(const uc_onnx_task *t, int rank, int *axes, int *count) {
  int64_t given[UC_ONNX_MAX_RANK];
  upconv_status status = uc_task_ints(t, "axes", UC_ONNX_MAX_RANK, given, count);
  if (!uc_onnx_attr_find(t->node, "axes")) *count = rank;
  for (int i = 0; i < *count && !status; i++) {
    axes[i] = i;
    if (uc_onnx_attr_find(t->node, "axes")) status = uc_task_axis("axis", given[i], rank, &axes[i]);
  }
  return status;
}

static bool is_empty(const uc_value *value) {
  return !value || uc_shape_count(value->rank, value->shape) == 0;
}

static upconv_status find_sizes(uc_onnx_program *p, const uc_onnx_task *t, int scales, int sizes,
                                resize *r) {
  const uc_value *in = uc_task_in(p, t, 0);
  int axes[UC_ONNX_MAX_RANK], count, given;
  double scale[UC_ONNX_MAX_RANK];
  int64_t size[UC_ONNX_MAX_RANK];
  for (int i = 0; i < in->rank; i++) {
    r->size[i] = in->shape[i];
    r->scale[i] = 1;
  }
  upconv_status status = read_axes(t, in->rank, axes, &count);
  if (status) return status;
  if (sizes > 0 && !is_empty(uc_task_in(p, t, sizes))) {
    status = uc_task_constant_ints(p, t, sizes, "sizes", UC_ONNX_MAX_RANK, size, &given);
    if (!status && given != count)
      status = uc_fail(UPCONV_INVALID_ARGUMENT, "input 'sizes' does not hold %d numbers", count);
    for (int i = 0; i < count && !status; i++) {
      r->size[axes[i]] = size[i];
      r->scale[axes[i]] = (double)size[i] / (double)in->shape[axes[i]];
    }
    return status;
  }
  status = read_scales(p, t, scales, count, scale);
  for (int i = 0; i < count && !status; i++) {
    r->scale[axes[i]] = scale[i];
    status = scaled_size(in->shape[axes[i]], scale[i], axes[i], &r->size[axes[i]]);
  }
  return status;
}

/* ---- maps ---- */

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static double original(const resize *r, int axis, int64_t in_size, int64_t i) {
  double x = (double)i, scale = r->scale[axis], n = (double)r->size[axis];
  double half = (x + 0.5) / scale - 0.5;
  if (is(r->coordinates, "asymmetric")) return x / scale;
  if (is(r->coordinates, "align_corners"))
    return r->size[axis] == 1 ? 0 : x * (double)(in_size - 1) / (n - 1);
  if (is(r->coordinates, "pytorch_half_pixel")) return r->size[axis] == 1 ? 0 : half;
  if (is(r->coordinates, "tf_half_pixel_for_nn")) return (x + 0.5) / scale;
  if (is(r->coordinates, "half_pixel_symmetric"))
    return (double)in_size / 2 * (1 - n / ((double)in_size * scale)) + half;
  return half;
}

static double nearest(const char *mode, double x) {
  if (is(mode, "floor")) return floor(x);
  if (is(mode, "ceil")) return ceil(x);
  return is(mode, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5);
}

static upconv_status check_choice(const char *attribute, const char *value,
                                  const char *const *allowed) {
  for (int i = 0; allowed[i]; i++)
    if (is(value, allowed[i])) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED, "attribute '%s' is '%.40s', which is not supported", attribute,
                 value);
}

static upconv_status check_choices(const resize *r) {
  static const char *const modes[] = {"nearest", NULL};
  static const char *const coordinates[] = {
      "half_pixel",           "pytorch_half_pixel",   "asymmetric", "align_corners",
      "tf_half_pixel_for_nn", "half_pixel_symmetric", NULL};
  static const char *const nearests[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                         NULL};
  upconv_status status = check_choice("mode", r->mode, modes);
  if (!status) status = check_choice("coordinate_transformation_mode", r->coordinates, coordinates);
  return status ? status : check_choice("nearest_mode", r->nearest, nearests);
}

static upconv_status make_maps(uc_onnx_program *p, uc_onnx_task *t, const resize *r) {
  const uc_value *in = uc_task_in(p, t, 0);
  upconv_status status = check_choices(r);
  if (!status) status = uc_set_result(p, t, 0, in->dtype, in->rank, r->size);
  for (int axis = 0; axis < in->rank && !status; axis++) {
    int64_t n = in->shape[axis];
    if (r->size[axis] == n && r->scale[axis] == 1) continue;
    if (n == 0 && r->size[axis] > 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d is empty and cannot grow", axis);
    t->map[axis] = uc_onnx_new(r->size[axis], sizeof *t->map[axis]);
    if (!t->map[axis]) return UPCONV_OUT_OF_MEMORY;
    for (int64_t i = 0; i < r->size[axis]; i++) {
      double k = nearest(r->nearest, original(r, axis, n, i));
      t->map[axis][i] = k <= 0 ? 0 : k >= (double)(n - 1) ? n - 1 : (int64_t)k;
    }
  }
  return status;
}

/* ---- operators ---- */

upconv_status uc_plan_resize(uc_onnx_program *p, uc_onnx_task *t) {
  bool old = p->model->opset < 11; /* inputs: data, scales */
  const char *policy;
  int64_t antialias;
  resize r;
  upconv_status status = uc_task_string(t, "mode", "nearest", &r.mode);
  if (!status)
    status = uc_task_string(t, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
                            &r.coordinates);
  if (!status)
    status = uc_task_string(t, "nearest_mode", old ? "floor" : "round_prefer_floor", &r.nearest);
  if (!status) status = uc_task_string(t, "keep_aspect_ratio_policy", "stretch", &policy);
  if (!status) status = uc_task_int(t, "antialias", 0, &antialias);
  if (status) return status;
  if (!is(policy, "stretch"))
    return uc_fail(UPCONV_UNSUPPORTED, "attribute 'keep_aspect_ratio_policy' is '%.40s'", policy);
  status = find_sizes(p, t, old ? 1 : 2, old ? -1 : 3, &r);
  return status ? status : make_maps(p, t, &r);
}

upconv_status uc_plan_upsample(uc_onnx_program *p, uc_onnx_task *t) {
  resize r = {.coordinates = "asymmetric", .nearest = "floor"};
  upconv_status status = uc_task_string(t, "mode", "nearest", &r.mode);
  if (!status) status = find_sizes(p, t, 1, -1, &r);
  return status ? status : make_maps(p, t, &r);
}
