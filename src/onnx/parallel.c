/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain task on all threads: its result is cut along an axis whose positions do not depend on
 * each other, and the operator runs on each part. What a position computes does not change, so
 * results are the same for any number of threads.
 */
#include "parallel.h"

#include <stdlib.h>
#include <string.h>

#include "../cpu/threads.h"
#include "ops.h"

enum { PARTS_PER_THREAD = 4 };
static const int64_t WORTH_IT = 1 << 15; /* elements */

/* Where the axis of the result lies in input k: its dimension, or -1: the whole input is used. */
static int elementwise_dim(const uc_view *in, const uc_view *out, int axis) {
  int dim = axis - (out->rank - in->rank);
  return dim < 0 || in->shape[dim] == 1 ? -1 : dim;
}

/* The dimension of the input that a reduction keeps as the result's axis. */
static int kept_dim(const uc_onnx_task *t, const uc_view *in, int axis) {
  for (int i = 0, k = 0; i < in->rank; i++) {
    bool reduced = t->axes >> i & 1;
    if (!reduced && k == axis) return i;
    k += !reduced || t->keepdims;
  }
  return -1;
}

static int input_dim(const uc_onnx_task *t, const uc_view *in, int k, const uc_view *out,
                     int axis) {
  switch (t->op->family) {
  case UC_FAMILY_ELEMENTWISE:
    return elementwise_dim(&in[k], out, axis);
  case UC_FAMILY_REDUCE:
    return k == 0 ? kept_dim(t, in, axis) : -1;
  case UC_FAMILY_NORM: /* parameters are vectors of channels */
    return k == 0 ? axis : axis == 1 ? 0 : -1;
  case UC_FAMILY_MATRIX: /* the last axis: columns of the second operand, and of Gemm's third */
    if (k == 0) return -1;
    return k == 1 ? (t->transpose[1] ? 0 : in[1].rank - 1) : elementwise_dim(&in[k], out, axis);
  default:
    return k == 0 ? axis : -1;
  }
}

/* Positions along this axis can be computed by themselves. */
static bool is_free(const uc_onnx_task *t, const uc_view *in, const uc_view *out, int axis) {
  if (out->shape[axis] < 2) return false;
  switch (t->op->family) {
  case UC_FAMILY_ELEMENTWISE:
    return true;
  case UC_FAMILY_POOL:
  case UC_FAMILY_NORM:
    return axis < 2;
  case UC_FAMILY_SOFTMAX:
    return axis < t->axis || axis >= t->axis_end;
  case UC_FAMILY_REDUCE:
    return kept_dim(t, in, axis) >= 0;
  case UC_FAMILY_MATRIX:
    return axis == out->rank - 1 && in[1].rank > 1;
  case UC_FAMILY_MOVE:
    return t->op->run == uc_run_map && !t->map[axis];
  default:
    return false;
  }
}

typedef struct job {
  const uc_onnx_task *task;
  const uc_view *in;
  const uc_view *out;
  int axis;
  int64_t parts;
  uc_view *room; /* for the inputs of each worker */
} job;

static uc_view cut_view(const uc_view *view, int dim, int64_t begin, int64_t end) {
  uc_view part = *view;
  part.shape[dim] = end - begin;
  part.data =
      (char *)view->data + begin * view->stride[dim] * (int64_t)uc_onnx_dtype_size(view->dtype);
  return part;
}

static void run_part(void *context, int64_t part, int worker) {
  const job *j = context;
  const uc_onnx_task *t = j->task;
  int64_t size = j->out->shape[j->axis];
  int64_t begin = size * part / j->parts, end = size * (part + 1) / j->parts;
  uc_view *in = j->room + (int64_t)worker * t->input_count;
  uc_view out = cut_view(j->out, j->axis, begin, end);
  for (int k = 0; k < t->input_count; k++) {
    in[k] = j->in[k];
    int dim = in[k].dtype ? input_dim(t, j->in, k, j->out, j->axis) : -1;
    if (dim >= 0) in[k] = cut_view(&in[k], dim, begin, end);
  }
  t->op->run(t, in, &out);
}

/* The free axis with the most positions, of two the outer one. */
static int best_axis(const uc_onnx_task *t, const uc_view *in, const uc_view *out, int threads) {
  int best = -1;
  for (int axis = 0; axis < out->rank; axis++) {
    if (!is_free(t, in, out, axis)) continue;
    if (best < 0 || (out->shape[best] < threads && out->shape[axis] > out->shape[best]))
      best = axis;
  }
  return best;
}

void uc_run_parallel(uc_threads *threads, const uc_onnx_task *t, const uc_view *in,
                     const uc_view *out) {
  int count = uc_threads_count(threads);
  int64_t work = uc_shape_count(out->rank, out->shape);
  if (t->input_count > 0 && in[0].dtype) {
    int64_t read = uc_shape_count(in[0].rank, in[0].shape);
    if (read > work) work = read;
  }
  int axis = count > 1 && work >= WORTH_IT ? best_axis(t, in, out, count) : -1;
  uc_view *room = axis < 0 ? NULL : malloc((size_t)count * (size_t)t->input_count * sizeof *room);
  if (!room) { /* by itself, also without memory for more */
    t->op->run(t, in, out);
    return;
  }
  int64_t parts = (int64_t)count * PARTS_PER_THREAD;
  if (parts > out->shape[axis]) parts = out->shape[axis];
  job j = {.task = t, .in = in, .out = out, .axis = axis, .parts = parts, .room = room};
  uc_threads_run(threads, parts, run_part, &j);
  free(room);
}
