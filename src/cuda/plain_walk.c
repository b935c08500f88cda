/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plain_parts.h"

int64_t uc_plain_count(const uc_plain_view *view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; i++) count *= view->shape[i];
  return count;
}

bool uc_plain_same_shape(const uc_plain_view *a, const uc_plain_view *b) {
  return a->rank == b->rank &&
         memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

void uc_plain_align(const uc_plain_view *view, int rank, int64_t *stride) {
  for (int i = 0; i < rank; i++) {
    int own = i - (rank - view->rank);
    bool repeated = view->dtype == UC_PLAIN_NONE || own < 0 || view->shape[own] == 1;
    stride[i] = repeated ? 0 : view->stride[own];
  }
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* The axes to walk, of extents other than 1, sorted by these strides unless they are NULL. */
static int choose_axes(int rank, const int64_t *shape, uint32_t axes, const int64_t *by,
                       int *chosen) {
  int count = 0;
  for (int i = 0; i < rank; i++) {
    if (!(axes >> i & 1) || shape[i] == 1) continue;
    int at = count++;
    for (; by && at > 0 && magnitude(by[chosen[at - 1]]) < magnitude(by[i]); at--)
      chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
  return count;
}

/* Whether every view goes on from axis `last` of the walk to this one without a jump. */
static bool joins(const uc_plain_walk *walk, int64_t last, int64_t extent, int views,
                  const int64_t (*stride)[UC_PLAIN_RANK], int axis) {
  for (int k = 0; k < views; k++)
    if (walk->stride[k][last] != stride[k][axis] * extent) return false;
  return true;
}

void uc_plain_walk_make(uc_plain_walk *walk, int rank, const int64_t *shape, uint32_t axes,
                        int views, const int64_t (*stride)[UC_PLAIN_RANK], bool sorted) {
  int chosen[UC_PLAIN_RANK];
  int count = choose_axes(rank, shape, axes, sorted ? stride[0] : NULL, chosen);
  *walk = (uc_plain_walk){.count = 1};
  for (int c = 0; c < count; c++) {
    int axis = chosen[c];
    int64_t extent = shape[axis];
    walk->count *= extent;
    if (walk->rank > 0 && joins(walk, walk->rank - 1, extent, views, stride, axis))
      walk->shape[walk->rank - 1] *= extent;
    else
      walk->shape[walk->rank++] = extent;
    for (int k = 0; k < views; k++) walk->stride[k][walk->rank - 1] = stride[k][axis];
  }
  if (walk->rank == 0) walk->shape[walk->rank++] = 1;
}

bool uc_plain_walk_groups(const uc_plain_walk *walk, int views, int64_t n, uint32_t may_repeat) {
  int64_t last = walk->rank - 1;
  if (walk->shape[last] % n != 0) return false;
  for (int k = 0; k < views; k++) {
    if (walk->stride[k][last] == 0 && (may_repeat >> k & 1)) continue;
    if (walk->stride[k][last] != 1) return false;
    for (int64_t i = 0; i < last; i++)
      if (walk->stride[k][i] % n != 0) return false;
  }
  return true;
}
