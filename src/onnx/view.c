/* SPDX-License-Identifier: Apache-2.0 */
/* Strides, and copies between views. */
#include <string.h>

#include "program.h"
#include "rows.h"

void uc_dense_strides(int rank, const int64_t *shape, int64_t *stride) {
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; i--) {
    stride[i] = step;
    if (shape[i] > 1) step *= shape[i];
  }
}

/* The stride of an axis of extent 1 does not matter, nor any where nothing is there. */
bool uc_is_dense(int rank, const int64_t *shape, const int64_t *stride) {
  int64_t step = 1;
  bool dense = true;
  for (int i = rank - 1; i >= 0; i--) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    if (stride[i] != step) dense = false;
    step *= shape[i];
  }
  return dense;
}

int64_t uc_shape_count(int rank, const int64_t *shape) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  return count;
}

/* Leaves out axes of extent 1 and joins axes that are one run in memory. */
static int squash(int rank, const int64_t *shape, const int64_t *stride, int64_t *s, int64_t *t) {
  int n = 0;
  for (int i = 0; i < rank; i++) {
    if (shape[i] == 1) continue;
    if (n > 0 && t[n - 1] == stride[i] * shape[i]) {
      s[n - 1] *= shape[i];
      t[n - 1] = stride[i];
    } else {
      s[n] = shape[i];
      t[n++] = stride[i];
    }
  }
  return n;
}

bool uc_reshape_strides(int rank, const int64_t *shape, const int64_t *stride, int new_rank,
                        const int64_t *new_shape, int64_t *new_stride) {
  int64_t s[UC_ONNX_MAX_RANK], t[UC_ONNX_MAX_RANK];
  uc_dense_strides(new_rank, new_shape, new_stride);
  if (uc_shape_count(rank, shape) == 0) return true;
  int n = squash(rank, shape, stride, s, t);
  /* Each run of memory must be cut exactly by new axes, from the innermost on. */
  int run = n - 1;
  int64_t left = run >= 0 ? s[run] : 1, step = run >= 0 ? t[run] : 1;
  for (int i = new_rank - 1; i >= 0; i--) {
    if (new_shape[i] == 1) continue;
    if (left == 1) {
      run--;
      left = s[run];
      step = t[run];
    }
    if (left % new_shape[i] != 0) return false;
    new_stride[i] = step;
    step *= new_shape[i];
    left /= new_shape[i];
  }
  return true;
}

static void copy_same_shape(const uc_view *from, const uc_view *to) {
  const uc_view *views[] = {to, from};
  uc_walk walk;
  size_t size = uc_onnx_dtype_size(from->dtype);
  for (bool more = uc_walk_start(&walk, 2, views); more; more = uc_walk_next(&walk)) {
    int64_t n = walk.length;
    if (from->dtype == to->dtype && walk.step[0] == 1 && walk.step[1] == 1)
      memcpy((char *)to->data + walk.at[0] * (int64_t)size,
             (const char *)from->data + walk.at[1] * (int64_t)size, (size_t)n * size);
    else
      uc_row_convert(from, walk.at[1], walk.step[1], to, walk.at[0], walk.step[0], n);
  }
}

bool uc_view_match(uc_view *from, uc_view *to) {
  bool same = from->rank == to->rank;
  for (int i = 0; same && i < to->rank; i++) same = from->shape[i] == to->shape[i];
  if (same) return true;
  uc_view seen = *to;
  seen.data = from->data;
  seen.dtype = from->dtype;
  if (uc_reshape_strides(from->rank, from->shape, from->stride, to->rank, to->shape, seen.stride)) {
    *from = seen;
    return true;
  }
  seen = *from;
  seen.data = to->data;
  seen.dtype = to->dtype;
  if (uc_reshape_strides(to->rank, to->shape, to->stride, from->rank, from->shape, seen.stride)) {
    *to = seen;
    return true;
  }
  return false;
}

void uc_view_copy(const uc_view *from, const uc_view *to) {
  uc_view a = *from, b = *to;
  /* Planning made sure that shapes match somehow. */
  if (uc_view_match(&a, &b)) copy_same_shape(&a, &b);
}
