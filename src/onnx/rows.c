/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <string.h>

#include "../tensor.h"

/* ---- walking ---- */

/* Strides of a view along the axes of a shape that it is broadcast to. */
static void align(const uc_view *view, int rank, int64_t *stride) {
  for (int i = 0; i < rank; i++) {
    int own = i - (rank - view->rank);
    stride[i] = own < 0 || view->shape[own] == 1 ? 0 : view->stride[own];
  }
}

static bool joins(const uc_walk *walk, int axis, int64_t extent,
                  int64_t (*stride)[UC_ONNX_MAX_RANK], int from) {
  for (int k = 0; k < walk->count; k++)
    if (walk->stride[k][axis] != stride[k][from] * extent) return false;
  return true;
}

bool uc_walk_start(uc_walk *walk, int count, const uc_view *const *views) {
  int64_t stride[UC_WALK_MAX][UC_ONNX_MAX_RANK];
  int rank = views[0]->rank;
  *walk = (uc_walk){.count = count};
  for (int k = 0; k < count; k++) align(views[k], rank, stride[k]);
  for (int i = 0; i < rank; i++) {
    int64_t extent = views[0]->shape[i];
    if (extent == 0) return false;
    if (extent == 1) continue;
    if (walk->rank > 0 && joins(walk, walk->rank - 1, extent, stride, i)) {
      walk->shape[walk->rank - 1] *= extent;
    } else {
      walk->shape[walk->rank++] = extent;
    }
    for (int k = 0; k < count; k++) walk->stride[k][walk->rank - 1] = stride[k][i];
  }
  walk->length = walk->rank ? walk->shape[walk->rank - 1] : 1;
  for (int k = 0; k < count; k++) walk->step[k] = walk->rank ? walk->stride[k][walk->rank - 1] : 1;
  return true;
}

bool uc_walk_next(uc_walk *walk) {
  for (int i = walk->rank - 2; i >= 0; i--) {
    for (int k = 0; k < walk->count; k++) walk->at[k] += walk->stride[k][i];
    if (++walk->index[i] < walk->shape[i]) return true;
    walk->index[i] = 0;
    for (int k = 0; k < walk->count; k++) walk->at[k] -= walk->stride[k][i] * walk->shape[i];
  }
  return false;
}

/* ---- conversion ---- */

void uc_row_load(double *to, const uc_view *view, int64_t at, int64_t step, int64_t n) {
  if (view->dtype == UC_ONNX_FLOAT) {
    const float *from = (const float *)view->data + at;
    for (int64_t i = 0; i < n; i++) to[i] = (double)from[i * step];
  } else if (view->dtype == UC_ONNX_DOUBLE) {
    const double *from = (const double *)view->data + at;
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = uc_onnx_get(view->data, view->dtype, at + i * step);
  }
}

void uc_row_store(const uc_view *view, int64_t at, int64_t step, const double *from, int64_t n) {
  if (view->dtype == UC_ONNX_FLOAT) {
    float *to = (float *)view->data + at;
    for (int64_t i = 0; i < n; i++) to[i * step] = (float)from[i];
  } else if (view->dtype == UC_ONNX_DOUBLE) {
    double *to = (double *)view->data + at;
    for (int64_t i = 0; i < n; i++) to[i * step] = from[i];
  } else {
    for (int64_t i = 0; i < n; i++) uc_onnx_set(view->data, view->dtype, at + i * step, from[i]);
  }
}

static int64_t get_int(const void *data, uc_onnx_dtype dtype, int64_t index) {
  switch (dtype) {
  case UC_ONNX_INT64:
    return ((const int64_t *)data)[index];
  case UC_ONNX_UINT64:
    return (int64_t)((const uint64_t *)data)[index];
  default:
    return (int64_t)uc_onnx_get(data, dtype, index);
  }
}

/* Integers wrap around, as in NumPy. */
static void set_int(void *data, uc_onnx_dtype dtype, int64_t index, int64_t value) {
  switch (dtype) {
  case UC_ONNX_INT64:
  case UC_ONNX_UINT64:
    ((int64_t *)data)[index] = value;
    break;
  case UC_ONNX_INT32:
  case UC_ONNX_UINT32:
    ((uint32_t *)data)[index] = (uint32_t)value;
    break;
  case UC_ONNX_INT16:
  case UC_ONNX_UINT16:
    ((uint16_t *)data)[index] = (uint16_t)value;
    break;
  case UC_ONNX_INT8:
  case UC_ONNX_UINT8:
    ((uint8_t *)data)[index] = (uint8_t)value;
    break;
  default:
    uc_onnx_set(data, dtype, index, (double)value);
  }
}

void uc_row_load_int(int64_t *to, const uc_view *view, int64_t at, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = get_int(view->data, view->dtype, at + i * step);
}

void uc_row_store_int(const uc_view *view, int64_t at, int64_t step, const int64_t *from,
                      int64_t n) {
  for (int64_t i = 0; i < n; i++) set_int(view->data, view->dtype, at + i * step, from[i]);
}

/* Same types keep their bits, whatever they mean. */
static void copy_bits(const uc_view *from, int64_t from_at, int64_t from_step, const uc_view *to,
                      int64_t to_at, int64_t to_step, int64_t n) {
  size_t size = uc_onnx_dtype_size(from->dtype);
  const char *a = (const char *)from->data + from_at * (int64_t)size;
  char *b = (char *)to->data + to_at * (int64_t)size;
  for (int64_t i = 0; i < n; i++)
    memcpy(b + i * to_step * (int64_t)size, a + i * from_step * (int64_t)size, size);
}

void uc_row_convert(const uc_view *from, int64_t from_at, int64_t from_step, const uc_view *to,
                    int64_t to_at, int64_t to_step, int64_t n) {
  if (from->dtype == to->dtype) {
    copy_bits(from, from_at, from_step, to, to_at, to_step, n);
    return;
  }
  bool whole = uc_dtype_is_int(from->dtype) && uc_dtype_is_int(to->dtype);
  for (int64_t done = 0; done < n; done += UC_ROW) {
    double row[UC_ROW];
    int64_t ints[UC_ROW], count = n - done < UC_ROW ? n - done : UC_ROW;
    int64_t a = from_at + done * from_step, b = to_at + done * to_step;
    if (whole) {
      uc_row_load_int(ints, from, a, from_step, count);
      uc_row_store_int(to, b, to_step, ints, count);
    } else {
      uc_row_load(row, from, a, from_step, count);
      uc_row_store(to, b, to_step, row, count);
    }
  }
}
