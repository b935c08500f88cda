/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements: Concat, and everything that picks an index of the input for each
   index of the output. */
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "ops.h"
#include "rows.h"

/* ---- Concat ---- */

upconv_status uc_plan_concat(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *first = uc_task_in(p, t, 0);
  int64_t given, shape[UC_ONNX_MAX_RANK];
  /* Before operator set 4 the axis had a default. */
  upconv_status status = uc_task_int(t, "axis", 1, &given);
  if (!status) status = uc_task_axis("axis", given, first->rank, &t->axis);
  if (status) return status;
  memcpy(shape, first->shape, sizeof shape);
  for (int k = 1; k < t->input_count; k++) {
    const uc_value *in = uc_task_in(p, t, k);
    if (!in || in->rank != first->rank || in->dtype != first->dtype)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "input %d differs from input 0 in type or rank", k);
    for (int i = 0; i < in->rank; i++)
      if (i != t->axis && in->shape[i] != first->shape[i])
        return uc_fail(UPCONV_INVALID_ARGUMENT,
                       "axis %d of input %d has size %lld; of input 0 %lld", i, k,
                       (long long)in->shape[i], (long long)first->shape[i]);
    if (!uc_add(shape[t->axis], in->shape[t->axis], &shape[t->axis]))
      return uc_fail(UPCONV_OVERFLOW, "the sizes do not fit 64 bits");
  }
  return uc_set_result(p, t, 0, first->dtype, first->rank, shape);
}

uc_view uc_concat_part(const uc_onnx_task *t, const uc_view *in, const uc_view *out, int64_t at) {
  uc_view part = *out;
  part.shape[t->axis] = in->shape[t->axis];
  if (part.data)
    part.data =
        (char *)out->data + at * out->stride[t->axis] * (int64_t)uc_onnx_dtype_size(out->dtype);
  return part;
}

/* A part that was made in its place already (see place.c) is not copied onto itself. */
void uc_run_concat(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  int64_t at = 0;
  for (int k = 0; k < t->input_count; k++) {
    uc_view part = uc_concat_part(t, &in[k], out, at);
    if (part.data != in[k].data) uc_view_copy(&in[k], &part);
    at += in[k].shape[t->axis];
  }
}

/* ---- maps ---- */

/* A row: to[j] = from[map[j]], or fill where that is -1. Elements of one size move as integers,
   whatever they mean. */
typedef struct pick {
  const int64_t *map; /* NULL: j itself */
  const char *from, *fill;
  char *to;
  int64_t from_step, to_step; /* in bytes */
  int64_t n;
  bool outside; /* all fill */
} pick;

static void pick_row(const pick *k, size_t size) {
  for (int64_t j = 0; j < k->n; j++) {
    int64_t index = k->outside ? -1 : k->map ? k->map[j] : j;
    const char *from = index < 0 ? k->fill : k->from + index * k->from_step;
    char *to = k->to + j * k->to_step;
    switch (size) { /* a constant size becomes one move */
    case 1:
      *to = *from;
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    case 4:
      memcpy(to, from, 4);
      break;
    default:
      memcpy(to, from, 8);
    }
  }
}

/* out[i, j, ...] = in[map[0][i], map[1][j], ...]; attr[0] where a map says -1. Axes without a
   map keep their index. */
void uc_run_map(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  int64_t index[UC_ONNX_MAX_RANK] = {0};
  int64_t size = (int64_t)uc_onnx_dtype_size(out->dtype);
  int last = out->rank - 1, i;
  char fill[8];
  uc_onnx_set(fill, out->dtype, 0, t->attr[0]);
  pick row = {.fill = fill, .n = 1};
  if (last >= 0) {
    row.map = t->map[last];
    row.n = out->shape[last];
    row.from_step = in->stride[last] * size;
    row.to_step = out->stride[last] * size;
  }
  if (uc_shape_count(out->rank, out->shape) == 0) return;
  do {
    int64_t from = 0, to = 0;
    row.outside = false;
    for (i = 0; i < last; i++) {
      int64_t k = t->map[i] ? t->map[i][index[i]] : index[i];
      row.outside = row.outside || k < 0;
      from += k * in->stride[i];
      to += index[i] * out->stride[i];
    }
    row.from = (const char *)in->data + (row.outside ? 0 : from * size);
    row.to = (char *)out->data + to * size;
    pick_row(&row, (size_t)size);
    for (i = last - 1; i >= 0 && ++index[i] == out->shape[i]; i--) index[i] = 0;
  } while (i >= 0);
}

/* ---- Pad ---- */

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

static upconv_status read_pad_mode(const uc_onnx_task *t, pad_mode *mode) {
  static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
  const char *text;
  upconv_status status = uc_task_string(t, "mode", "constant", &text);
  for (int i = 0; i < 4 && !status; i++)
    if (strcmp(text, names[i]) == 0) {
      *mode = (pad_mode)i;
      return UPCONV_OK;
    }
  return status
             ? status
             : uc_fail(UPCONV_UNSUPPORTED,
                       "attribute 'mode' is '%.40s'; allowed: constant, reflect, edge, wrap", text);
}

/* Index in [0, size) that position i of a padded axis shows; -1: the constant. */
static int64_t pad_source(pad_mode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == PAD_CONSTANT || size == 0) return -1;
  if (mode == PAD_EDGE) return i < 0 ? 0 : size - 1;
  if (mode == PAD_WRAP) return uc_mod(i, size);
  if (size == 1) return 0;
  int64_t period = 2 * (size - 1), k = uc_mod(i, period);
  return k < size ? k : period - k;
}

static upconv_status read_pads(uc_onnx_program *p, uc_onnx_task *t, int rank, int64_t *begin,
                               int64_t *end) {
  int64_t pads[2 * UC_ONNX_MAX_RANK], axes[UC_ONNX_MAX_RANK];
  int count, axis_count;
  upconv_status status;
  const char *old = uc_onnx_attr_find(t->node, "paddings") ? "paddings" : "pads";
  if (uc_task_in(p, t, 1))
    status = uc_task_constant_ints(p, t, 1, "pads", 2 * UC_ONNX_MAX_RANK, pads, &count);
  else
    status = uc_task_ints(t, old, 2 * UC_ONNX_MAX_RANK, pads, &count);
  if (!status) status = uc_task_axes(p, t, 3, axes, &axis_count);
  if (status) return status;
  int n = axis_count < 0 ? rank : axis_count;
  if (count != 2 * n)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "there are %d pads for %d axes", count, n);
  for (int i = 0; i < n; i++) {
    int axis = i;
    if (axis_count >= 0) status = uc_task_axis("axis", axes[i], rank, &axis);
    if (status) return status;
    begin[axis] = pads[i];
    end[axis] = pads[n + i];
  }
  return UPCONV_OK;
}

upconv_status uc_plan_pad(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0), *value = uc_task_in(p, t, 2);
  int64_t begin[UC_ONNX_MAX_RANK] = {0}, end[UC_ONNX_MAX_RANK] = {0}, shape[UC_ONNX_MAX_RANK];
  pad_mode mode = PAD_CONSTANT;
  upconv_status status = read_pad_mode(t, &mode);
  if (!status) status = read_pads(p, t, in->rank, begin, end);
  if (!status) status = uc_task_float(t, "value", 0, &t->attr[0]);
  if (status) return status;
  if (value && !value->data)
    return uc_fail(UPCONV_UNSUPPORTED, "input 'constant_value' is not constant");
  if (value && uc_shape_count(value->rank, value->shape) != 1)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input 'constant_value' is not one number");
  if (value) t->attr[0] = uc_onnx_get(value->data, value->dtype, 0);
  for (int i = 0; i < in->rank; i++) {
    const int64_t most = INT64_C(1) << 40;
    if (begin[i] < -most || begin[i] > most || end[i] < -most || end[i] > most)
      return uc_fail(UPCONV_OVERFLOW, "pads of axis %d are %lld and %lld", i, (long long)begin[i],
                     (long long)end[i]);
    shape[i] = in->shape[i] + begin[i] + end[i];
  }
  status = uc_set_result(p, t, 0, in->dtype, in->rank, shape);
  for (int i = 0; i < in->rank && !status; i++) {
    if (begin[i] == 0 && end[i] == 0) continue;
    t->map[i] = uc_onnx_new(shape[i], sizeof *t->map[i]);
    if (!t->map[i]) return UPCONV_OUT_OF_MEMORY;
    for (int64_t k = 0; k < shape[i]; k++)
      t->map[i][k] = pad_source(mode, k - begin[i], in->shape[i]);
    if (mode != PAD_CONSTANT && in->shape[i] == 0 && shape[i] > 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "axis %d is empty; it has nothing to repeat", i);
  }
  return status;
}

/* ---- Gather, Tile ---- */

/* Constant indices of rank 0 or 1; a scalar drops the axis, which is a reshape of the map's
   result of extent 1. */
upconv_status uc_plan_gather(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0), *indices = uc_task_in(p, t, 1);
  int64_t given, shape[UC_ONNX_MAX_RANK];
  int axis, rank = 0;
  upconv_status status = uc_task_int(t, "axis", 0, &given);
  if (!status) status = uc_task_axis("axis", given, in->rank, &axis);
  if (status) return status;
  if (!indices->data || indices->rank > 1 || !uc_dtype_is_int(indices->dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "input 'indices' is not a constant list of integers");
  int64_t count = uc_shape_count(indices->rank, indices->shape);
  t->map[axis] = uc_onnx_new(count, sizeof *t->map[axis]);
  if (!t->map[axis]) return UPCONV_OUT_OF_MEMORY;
  uc_view view = uc_constant_view(indices);
  uc_row_load_int(t->map[axis], &view, 0, 1, count);
  for (int64_t i = 0; i < count; i++) {
    int64_t *k = &t->map[axis][i];
    if (*k < -in->shape[axis] || *k >= in->shape[axis])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "indices[%lld] is %lld; axis %d has size %lld",
                     (long long)i, (long long)*k, axis, (long long)in->shape[axis]);
    if (*k < 0) *k += in->shape[axis];
  }
  t->axis = indices->rank == 0 ? axis : -1;
  for (int i = 0; i < in->rank; i++)
    if (i != axis)
      shape[rank++] = in->shape[i];
    else if (indices->rank == 1)
      shape[rank++] = count;
  return uc_set_result(p, t, 0, in->dtype, rank, shape);
}

uc_view uc_gather_result(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view whole = *out;
  if (t->axis < 0) return whole;
  whole.rank = in->rank;
  for (int i = 0, k = 0; i < in->rank; i++) {
    whole.shape[i] = i == t->axis ? 1 : out->shape[k];
    whole.stride[i] = i == t->axis ? 0 : out->stride[k];
    k += i != t->axis;
  }
  return whole;
}

void uc_run_gather(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view whole = uc_gather_result(t, in, out);
  uc_run_map(t, in, &whole);
}

upconv_status uc_plan_tile(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  int64_t repeats[UC_ONNX_MAX_RANK], shape[UC_ONNX_MAX_RANK];
  int count;
  upconv_status status =
      uc_task_constant_ints(p, t, 1, "repeats", UC_ONNX_MAX_RANK, repeats, &count);
  if (status) return status;
  if (count != in->rank || p->model->opset < 6)
    return uc_fail(UPCONV_UNSUPPORTED, "%d repeats for rank %d in operator set %lld", count,
                   in->rank, (long long)p->model->opset);
  for (int i = 0; i < count; i++)
    if (repeats[i] < 0 || !uc_mul(in->shape[i], repeats[i], &shape[i]))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "repeats[%d] is %lld", i, (long long)repeats[i]);
  status = uc_set_result(p, t, 0, in->dtype, in->rank, shape);
  for (int i = 0; i < count && !status; i++) {
    if (repeats[i] == 1) continue;
    t->map[i] = uc_onnx_new(shape[i], sizeof *t->map[i]);
    if (!t->map[i]) return UPCONV_OUT_OF_MEMORY;
    for (int64_t k = 0; k < shape[i]; k++) t->map[i][k] = k % in->shape[i];
  }
  return status;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

/* Both read the input as a tensor of rank 6 in the order of the output's elements. */

static void set_axis(uc_view *view, int axis, int64_t extent, int64_t stride) {
  view->shape[axis] = extent;
  view->stride[axis] = stride;
}

/* [N, block, block, C, H, W] */
static void view_to_depth(const uc_view *in, int64_t b, uc_view *view) {
  set_axis(view, 0, in->shape[0], in->stride[0]);
  set_axis(view, 1, b, in->stride[2]);
  set_axis(view, 2, b, in->stride[3]);
  set_axis(view, 3, in->shape[1], in->stride[1]);
  set_axis(view, 4, in->shape[2] / b, in->stride[2] * b);
  set_axis(view, 5, in->shape[3] / b, in->stride[3] * b);
}

/* [N, C, H, block, W, block]; the channels of the input are [block, block, C], or with crd [C,
   block, block]. */
static void view_to_space(const uc_view *in, int64_t b, bool crd, uc_view *view) {
  int64_t channels = in->shape[1] / (b * b), s = in->stride[1];
  set_axis(view, 0, in->shape[0], in->stride[0]);
  set_axis(view, 1, channels, crd ? s * b * b : s);
  set_axis(view, 2, in->shape[2], in->stride[2]);
  set_axis(view, 3, b, crd ? s * b : s * channels * b);
  set_axis(view, 4, in->shape[3], in->stride[3]);
  set_axis(view, 5, b, crd ? s : s * channels);
}

uc_view uc_blocks_source(const uc_onnx_task *t, const uc_view *in) {
  uc_view view = {.data = in->data, .dtype = in->dtype, .rank = 6};
  if (t->op->variant)
    view_to_depth(in, t->block, &view);
  else
    view_to_space(in, t->block, t->crd, &view);
  return view;
}

void uc_run_blocks(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view view = uc_blocks_source(t, in);
  uc_view_copy(&view, out);
}

static upconv_status read_block(const uc_value *in, uc_onnx_task *t) {
  upconv_status status = uc_task_int(t, "blocksize", 0, &t->block);
  if (status) return status;
  if (in->rank != 4) return uc_fail(UPCONV_UNSUPPORTED, "rank %d; 4 is supported", in->rank);
  if (t->block < 1 || t->block > INT16_MAX)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "blocksize is %lld; allowed: 1 to %d",
                   (long long)t->block, INT16_MAX);
  return UPCONV_OK;
}

upconv_status uc_plan_depth_to_space(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  const char *mode;
  upconv_status status = read_block(in, t);
  if (!status) status = uc_task_string(t, "mode", "DCR", &mode);
  if (status) return status;
  t->crd = strcmp(mode, "CRD") == 0;
  if (!t->crd && strcmp(mode, "DCR") != 0)
    return uc_fail(UPCONV_UNSUPPORTED, "attribute 'mode' is '%.40s'; allowed: DCR, CRD", mode);
  int64_t b = t->block, shape[4] = {in->shape[0], in->shape[1] / (b * b), 0, 0};
  if (in->shape[1] % (b * b))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%lld channels are no multiple of %lld",
                   (long long)in->shape[1], (long long)(b * b));
  if (!uc_mul(in->shape[2], b, &shape[2]) || !uc_mul(in->shape[3], b, &shape[3]))
    return uc_fail(UPCONV_OVERFLOW, "the result does not fit 64 bits");
  return uc_set_result(p, t, 0, in->dtype, 4, shape);
}

upconv_status uc_plan_space_to_depth(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  upconv_status status = read_block(in, t);
  if (status) return status;
  int64_t b = t->block, shape[4] = {in->shape[0], 0, in->shape[2] / b, in->shape[3] / b};
  if (in->shape[2] % b || in->shape[3] % b)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%lld x %lld is no multiple of %lld",
                   (long long)in->shape[2], (long long)in->shape[3], (long long)b);
  if (!uc_mul(in->shape[1], b * b, &shape[1]))
    return uc_fail(UPCONV_OVERFLOW, "the result does not fit 64 bits");
  return uc_set_result(p, t, 0, in->dtype, 4, shape);
}
