/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "../checked.h"
#include "../status.h"

enum { ROW_BYTES = 128, UNIT_BYTES = 16, BLOCK = 256 };

/* Units of all groups' channels of one position. */
static int64_t units_of(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return k->panels.quads * k->chunks * e->lowered->conv.groups;
}

upconv_status uc_cuda_rows_size(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                const int64_t x_shape[UC_RANK], size_t *bytes) {
  int64_t bytes_each =
      k->panel ? units_of(e, k) * UNIT_BYTES : k->chunks * e->lowered->conv.groups * ROW_BYTES;
  int64_t count, factors[] = {x_shape[0], x_shape[2], x_shape[3], x_shape[4], bytes_each};
  if (!uc_product(factors, 5, &count) || count > INT64_MAX / 64)
    return uc_fail(UPCONV_OVERFLOW, "x has more elements than memory can hold");
  *bytes = (size_t)count;
  return UPCONV_OK;
}

/* Strides that the copy engine takes: in bytes multiples of 16, under 2^40, each a multiple of the one before, from W to the
   samples. */
static bool takes_strides(const upconv_tensor *x) {
  const int order[] = {4, 3, 2, 0};
  int64_t before = 16 / 2;
  for (int i = 0; i < 4; i++) {
    int64_t stride = x->stride[order[i]];
    if (x->shape[order[i]] <= 1) continue;
    if (stride <= 0 || stride % before != 0 || stride >= (int64_t)1 << 39) return false;
    before = stride;
  }
  return true;
}

/* Channels-last, in the words' own type, whole steps, every row aligned to 16 bytes. What the copy engine reads beyond a
   group must be beyond x too. */
bool uc_cuda_is_rows(const uc_cuda_engine *e, const upconv_tensor *x) {
  int64_t unit = e->lowered->conv.groups > 1 ? ROW_BYTES / 2 : 16;
  if (e->word == UPCONV_F32 || e->group_in % unit != 0) return false;
  if (x->stride[1] != 1 && x->shape[1] > 1) return false;
  return (int64_t)(intptr_t)x->data % 16 == 0 && takes_strides(x);
}

uc_cuda_row_view uc_cuda_own_rows(const uc_cuda_engine *e, const upconv_tensor *x) {
  uc_cuda_row_view v = {.origin = (int64_t)(intptr_t)x->data,
                        .words = e->lowered->conv.in_channels / 2};
  const int64_t elements[6] = {x->stride[0], e->group_in,  ROW_BYTES / 2,
                               x->stride[2], x->stride[3], x->stride[4]};
  for (int i = 0; i < 6; i++) v.stride[i] = elements[i] * 2;
  for (int i = 0; i < UC_AXES; i++) /* the stride of a single element means nothing */
    if (x->shape[i + 2] == 1) v.stride[i + 3] = 0;
  return v;
}

uc_cuda_row_view uc_cuda_made_rows(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                   const upconv_tensor *x, void *memory) {
  uc_cuda_row_view v = {.origin = (int64_t)(intptr_t)memory};
  v.stride[2] = ROW_BYTES;
  v.stride[1] = v.stride[2] * k->chunks;
  v.stride[5] = v.stride[1] * e->lowered->conv.groups;
  v.stride[4] = v.stride[5] * x->shape[4];
  v.stride[3] = v.stride[4] * x->shape[3];
  v.stride[0] = v.stride[3] * x->shape[2];
  v.words = v.stride[5] / 4;
  return v;
}

upconv_status uc_cuda_put_rows_kernel(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                      const upconv_tensor *x, const uc_cuda_row_view *v,
                                      int64_t *blocks, uc_cuda_arguments *a) {
  enum { POSITIONS = 32 }; /* that a block turns around together */
  int64_t positions = x->shape[2] * x->shape[3] * x->shape[4];
  if (positions > INT32_MAX - POSITIONS)
    return uc_fail(UPCONV_UNSUPPORTED, "x: more than 2^31 positions in a sample");
  int64_t items = k->panel ? positions * units_of(e, k) * x->shape[0]
                           : uc_ceil_div(positions, POSITIONS) * k->chunks *
                                 e->lowered->conv.groups * x->shape[0];
  *blocks = k->panel ? uc_ceil_div(items, BLOCK) : items;
  uc_cuda_put_view(a, x, false);
  uc_cuda_put_i64(a, v->origin);
  uc_cuda_put_i64(a, items);
  uc_cuda_put_int(a, x->offset[0]);
  for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(a, x->offset[i + 2]);
  for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(a, x->shape[i + 2]);
  return UPCONV_OK;
}

upconv_status uc_cuda_put_rows(const uc_cuda_kernel *k, const upconv_tensor *x,
                               const uc_cuda_row_view *v, uc_cuda_arguments *a) {
  uc_cuda_put_i64(a, v->origin - x->offset[0] * v->stride[0]);
  for (int i = 0; i < 6; i++) uc_cuda_put_i64(a, v->stride[i]);
  int64_t reach = k->samples * v->stride[0]; /* of a tile: kernels count 16 bytes in 31 bits */
  for (int i = 0; i < UC_AXES; i++) reach += k->x_size[i] * v->stride[i + 3];
  if (reach / 16 <= INT32_MAX) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED, "x: its strides are more than one tile spans");
}

/* ---- the copy engine's map ---- */

static bool is_empty(const upconv_tensor *x) {
  for (int i = 0; i < UC_RANK; i++)
    if (x->shape[i] == 0) return true;
  return false;
}

/* Of an empty x the copy engine is to see zeros alone: a map of anything, and samples far beyond it. */
int64_t uc_cuda_first_sample(const upconv_tensor *x) {
  return is_empty(x) ? -(1 << 20) : x->offset[0];
}

/* Dense elements of a type, units of 16 bytes permuted or not; zeros outside. Of an empty x, it is of something else. */
static upconv_status put_map(const uc_cuda_engine *e, const uc_call *call,
                             const uc_cuda_row_view *v, int type, int swizzle,
                             const uint64_t dims[5], const uint64_t strides[4],
                             const unsigned box[5], uc_cuda_arguments *a) {
  const uc_cuda_driver *d = e->context->device->driver;
  const void *origin = is_empty(&call->x) ? call->packed : (const void *)(intptr_t)v->origin;
  const unsigned steps[5] = {1, 1, 1, 1, 1};
  uc_cuda_tensor_map map;
  upconv_status status = uc_cuda_check(
      d,
      d->cuTensorMapEncodeTiled(&map, type, 5, origin, dims, strides, box, steps, UC_MAP_DENSE,
                                swizzle, UC_MAP_FETCH_128, UC_MAP_ZEROS),
      "a map of x");
  uc_cuda_put(a, &map, sizeof map);
  return status;
}

/* Axes of the units from the innermost: halves of units along W, H, D, N, units of all channels. */
static upconv_status put_unit_map(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                  const uc_call *call, const uc_cuda_row_view *v,
                                  uc_cuda_arguments *a) {
  const upconv_tensor *x = &call->x;
  uint64_t dims[5] = {2, 1, 1, 1, 1}, strides[4], stride = 8;
  for (int i = 0; i < 4 && !is_empty(x); i++)
    dims[i] = (uint64_t)(i == 0 ? 2 * x->shape[4] : x->shape[i < 3 ? 4 - i : 0]);
  if (!is_empty(x)) dims[4] = (uint64_t)units_of(e, k);
  for (int i = 0; i < 4; i++) strides[i] = stride *= dims[i];
  const unsigned box[5] = {2 * (unsigned)k->x_size[2], (unsigned)k->x_size[1],
                           (unsigned)k->x_size[0], (unsigned)k->samples, (unsigned)k->panels.quads};
  return put_map(e, call, v, UC_MAP_U64, UC_MAP_PLAIN, dims, strides, box, a);
}

/* Axes of the rows from the innermost: words, W, H, D, N. */
static upconv_status put_row_map(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                 const uc_call *call, const uc_cuda_row_view *v,
                                 uc_cuda_arguments *a) {
  const upconv_tensor *x = &call->x;
  uint64_t dims[5] = {(uint64_t)v->words, 1, 1, 1, 1};
  for (int i = 0; i < 4 && !is_empty(x); i++) dims[i + 1] = (uint64_t)x->shape[i < 3 ? 4 - i : 0];
  const int order[4] = {5, 4, 3, 0};
  uint64_t strides[4];
  for (int i = 0; i < 4; i++) /* of a single element: any that is allowed */
    strides[i] = dims[i + 1] > 1 ? (uint64_t)v->stride[order[i]] : i > 0 ? strides[i - 1] : 16;
  const unsigned box[5] = {ROW_BYTES / 4, (unsigned)k->x_size[2], (unsigned)k->x_size[1],
                           (unsigned)k->x_size[0], (unsigned)k->samples};
  return put_map(e, call, v, UC_MAP_U32, UC_MAP_SWIZZLE_128, dims, strides, box, a);
}

upconv_status uc_cuda_put_map(const uc_cuda_engine *e, const uc_cuda_kernel *k, const uc_call *call,
                              const uc_cuda_row_view *v, uc_cuda_arguments *a) {
  return k->panel ? put_unit_map(e, k, call, v, a) : put_row_map(e, k, call, v, a);
}
