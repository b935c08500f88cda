/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "memory.h"
#include "plain_parts.h"

typedef struct map_args {
  void *to;
  const void *from;
  uint64_t fill;
  int64_t rank, count;
  int64_t shape[UC_PLAIN_RANK], to_stride[UC_PLAIN_RANK], from_stride[UC_PLAIN_RANK];
  const int64_t *map[UC_PLAIN_RANK];
} map_args;

typedef struct state {
  uc_cuda_function function;
  map_args args;
} state;

static upconv_status check_axis(const uc_plain_op *op, int i) {
  int64_t from = op->in[0].shape[i], to = op->out.shape[i];
  if (!op->map[i] && from != to)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "axis %d has size %lld in in[0], %lld in out, and no map", i, (long long)from,
                   (long long)to);
  for (int64_t k = 0; op->map[i] && k < to; k++)
    if (op->map[i][k] < -1 || op->map[i][k] >= from)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "map[%d][%lld] = %lld: allowed are -1 to %lld", i,
                     (long long)k, (long long)op->map[i][k], (long long)from - 1);
  return UPCONV_OK;
}

/* Axes of the kernel; neighbours without maps are joined. Maps are numbered by their place in one buffer, and found by
   locate_maps. */
static void make_axes(const uc_plain_op *op, map_args *a, int *axis_of) {
  const uc_plain_view *from = &op->in[0], *to = &op->out;
  for (int i = 0; i < to->rank; i++) {
    int64_t last = a->rank - 1, extent = to->shape[i];
    if (extent == 1 && !op->map[i]) continue;
    bool joined = last >= 0 && axis_of[last] < 0 && !op->map[i] &&
                  a->to_stride[last] == to->stride[i] * extent &&
                  a->from_stride[last] == from->stride[i] * extent;
    if (joined) {
      a->shape[last] *= extent;
    } else {
      last = a->rank++;
      a->shape[last] = extent;
    }
    a->to_stride[last] = extent == 1 ? 0 : to->stride[i];
    a->from_stride[last] = from->stride[i];
    axis_of[last] = op->map[i] ? i : -1;
  }
  if (a->rank == 0) {
    a->shape[0] = 1;
    axis_of[a->rank++] = -1;
  }
}

/* All maps, one behind the other, in device memory. */
static upconv_status send_maps(uc_plain *p, map_args *a, const int *axis_of) {
  const upconv_context *context = p->set->context;
  int64_t total = 0, at = 0;
  for (int64_t i = 0; i < a->rank; i++)
    if (axis_of[i] >= 0) total += a->shape[i];
  if (total == 0 || !uc_cuda_has_device(context)) return UPCONV_OK;
  int64_t *all = calloc((size_t)total, sizeof *all);
  if (!all) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for maps of %lld", (long long)total);
  size_t bytes = (size_t)total * sizeof *all;
  upconv_status status = uc_cuda_memory_alloc(context, bytes, &p->device_data);
  for (int64_t i = 0; i < a->rank && status == UPCONV_OK; i++) {
    if (axis_of[i] < 0) continue;
    memcpy(all + at, p->op.map[axis_of[i]], (size_t)a->shape[i] * sizeof *all);
    a->map[i] = (const int64_t *)p->device_data + at;
    at += a->shape[i];
  }
  if (status == UPCONV_OK)
    status = uc_cuda_memory_upload(context, p->device_data, all, bytes, NULL);
  if (status == UPCONV_OK) status = uc_cuda_stream_wait(context, NULL);
  free(all);
  return status;
}

static upconv_status prepare(uc_plain *p) {
  const uc_plain_op *op = &p->op;
  int axis_of[UC_PLAIN_RANK];
  upconv_status status = UPCONV_OK;
  if (op->in[0].dtype != op->out.dtype || op->in[0].rank != op->out.rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "in[0] and out must be of one type and rank");
  for (int i = 0; i < op->out.rank && status == UPCONV_OK; i++) status = check_axis(op, i);
  if (status != UPCONV_OK) return status;
  state *s = uc_plain_new_state(p, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  if (p->empty) return UPCONV_OK;
  s->args.count = uc_plain_count(&op->out);
  s->args.fill = uc_plain_encode(op->out.dtype, op->attr[0]);
  make_axes(op, &s->args, axis_of);
  status = send_maps(p, &s->args, axis_of);
  if (status != UPCONV_OK) return status;
  static const char *const names[] = {"map_1", "map_2", "map_4", "map_8"};
  size_t size = uc_plain_dtype_size(op->out.dtype);
  int unit = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
  return uc_plain_functions(p->set, "plain_move", "", false, 1, &names[unit], &s->function);
}

static upconv_status run(const uc_plain *p, const uc_plain_call *call) {
  const state *s = p->state;
  map_args args = s->args;
  args.to = call->out;
  args.from = call->in[0];
  return uc_plain_launch(p, s->function, uc_plain_blocks(args.count), &args, call->stream);
}

const uc_plain_family uc_plain_map = {1, 1, prepare, run};
