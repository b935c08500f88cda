/* SPDX-License-Identifier: Apache-2.0 */
/* Run time: the arguments of every kernel, written as the generated struct Args lays them out, and the launches. */
#include "launch.h"

#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "../tensor.h"
#include "arguments.h"
#include "rows.h"

enum { MAX_GRID = 0x7fffffff, PACK_BLOCKS = 1024, ALIGNMENT = 256 };

/* ---- the workspace: kept values, then partial sums, then x as rows ---- */

typedef struct run {
  const uc_cuda_engine *e;
  const uc_call *call;
  int64_t shape[UC_CUDA_MAX_VALUES][UC_RANK];
  size_t kept_at[UC_CUDA_MAX_VALUES], partial_at, rows_at, bytes;
} run;

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int reduce_source(const uc_cuda_engine *e, const uc_pass *pass) {
  return e->lowered->tail->op[pass->reduce_op].operand[0].index;
}

/* Tiles of a pass along an axis for the whole target. */
static int64_t whole_grid(const run *r, const uc_cuda_kernel *k, int a) {
  int target = k->pass->reduce_op >= 0 ? reduce_source(r->e, k->pass) : k->pass->result;
  return uc_ceil_div(r->shape[target][a + 2], k->tile[a]);
}

static const uc_cuda_kernel *rows_kernel(const uc_cuda_engine *e) {
  for (int i = 0; i < e->kernel_count; i++)
    if (uc_cuda_many_channels(&e->kernel[i])) return &e->kernel[i];
  return NULL;
}

static upconv_status lay_out(run *r, const int64_t x_shape[UC_RANK]) {
  const uc_cuda_engine *e = r->e;
  upconv_status status =
      uc_problem_conv_shape(&e->lowered->conv, x_shape[0], x_shape + 2, r->shape[0]);
  if (status == UPCONV_OK) status = uc_epilogue_shapes(e->lowered->tail, r->shape[0], r->shape);
  if (status != UPCONV_OK) return status;
  size_t at = 0, partial = 0;
  for (int v = 0; v + 1 < e->program.value_count; v++) {
    int64_t count = 0;
    if (!e->program.kept[v]) continue;
    if (!uc_product(r->shape[v], UC_RANK, &count) || count > INT64_MAX / 64)
      return uc_fail(UPCONV_OVERFLOW, "value %d has more elements than memory can hold", v);
    r->kept_at[v] = at;
    at += aligned((size_t)count * sizeof(float));
  }
  r->partial_at = at;
  for (int i = 0; i < e->kernel_count; i++) {
    const uc_cuda_kernel *k = &e->kernel[i];
    if (k->pass->reduce_op < 0) continue;
    int64_t count = 0;
    uc_product(r->shape[k->pass->result], UC_RANK, &count);
    for (int a = 0; a < UC_AXES; a++)
      if (e->lowered->tail->op[k->pass->reduce_op].axes >> (1 + a) & 1)
        count *= uc_max(1, whole_grid(r, k, a));
    if ((size_t)count * sizeof(double) > partial) partial = (size_t)count * sizeof(double);
  }
  r->rows_at = at + aligned(partial);
  size_t rows = 0;
  if (rows_kernel(e)) status = uc_cuda_rows_size(e, rows_kernel(e), x_shape, &rows);
  r->bytes = r->rows_at + aligned(rows);
  return status;
}

upconv_status uc_cuda_workspace(const uc_cuda_engine *e, const int64_t x_shape[UC_RANK],
                                size_t *bytes) {
  run r = {.e = e};
  upconv_status status = lay_out(&r, x_shape);
  *bytes = r.bytes + ALIGNMENT;
  return status;
}

/* ---- launches ---- */

static upconv_status launch(const uc_cuda_engine *e, uc_cuda_function f, int64_t blocks,
                            int64_t threads, int64_t shared, void *stream, uc_cuda_arguments *a,
                            const char *what) {
  const uc_cuda_driver *d = e->context->device->driver;
  void *parameters[] = {a->bytes};
  unsigned grid = (unsigned)uc_min(blocks, MAX_GRID);
  return uc_cuda_check(d,
                       d->cuLaunchKernel(f, grid, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared,
                                         stream, parameters, NULL),
                       what);
}

/* A kernel that waits by itself for what the one before it in the stream writes, and so may begin before that has ended. What was
   before both of them has ended. */
static upconv_status launch_early(const uc_cuda_engine *e, uc_cuda_function f, int64_t blocks,
                                  int64_t threads, int64_t shared, void *stream,
                                  uc_cuda_arguments *a, const char *what) {
  const uc_cuda_driver *d = e->context->device->driver;
  if (d->version < UC_CUDA_EARLY_IN_GRAPHS)
    return launch(e, f, blocks, threads, shared, stream, a, what);
  uc_cuda_launch_attribute early = {.id = UC_LAUNCH_EARLY, .value.allowed = 1};
  uc_cuda_launch config = {.grid = {(unsigned)uc_min(blocks, MAX_GRID), 1, 1},
                           .block = {(unsigned)threads, 1, 1},
                           .shared_bytes = (unsigned)shared,
                           .stream = stream,
                           .attributes = &early,
                           .attribute_count = 1};
  void *parameters[] = {a->bytes};
  return uc_cuda_check(d, d->cuLaunchKernelEx(&config, f, parameters, NULL), what);
}

static upconv_tensor kept_view(const run *r, int value) {
  const uc_cuda_engine *e = r->e;
  if (value == e->program.value_count - 1) return r->call->y;
  int64_t shape[UC_RANK];
  memcpy(shape, r->shape[value], sizeof shape);
  shape[0] = r->call->y.shape[0];
  upconv_tensor view = upconv_tensor_dense((char *)r->call->workspace + r->kept_at[value],
                                           UPCONV_F32, UC_RANK, shape, UPCONV_CHANNELS_FIRST);
  view.offset[0] = r->call->y.offset[0];
  for (int i = 1; i < UC_RANK; i++)
    if (shape[i] == 1) view.stride[i] = 0;
  return view;
}

static upconv_status put_views(const run *r, const uc_cuda_kernel *k, uc_cuda_arguments *a) {
  const upconv_epilogue *tail = r->e->lowered->tail;
  for (int i = 0; i < k->view_count; i++) {
    upconv_tensor view;
    if (k->view[i].tensor) {
      const uc_tensor_decl *decl = &tail->tensor[k->view[i].index];
      upconv_status status =
          uc_tensor_canonical(&r->call->tensors[k->view[i].index], decl->name, tail->nd, &view);
      if (status != UPCONV_OK) return status;
      for (int x = 0; x < UC_RANK; x++)
        if (!(decl->axes >> x & 1)) view.stride[x] = 0;
    } else {
      view = kept_view(r, k->view[i].index);
    }
    uc_cuda_put_view(a, &view, true);
  }
  for (int i = k->view_count; i < 1; i++) uc_cuda_put_view(a, &r->call->y, false);
  return UPCONV_OK;
}

/* Spatial strides; within a tile of `size` elements offsets must fit 32 bits. */
static upconv_status put_steps(const uc_cuda_kernel *k, const upconv_tensor *t,
                               const int64_t size[UC_AXES], const char *name,
                               uc_cuda_arguments *a) {
  int64_t reach = 0;
  for (int i = 0; i < UC_AXES; i++) {
    int64_t stride = t->stride[i + 2] < 0 ? -t->stride[i + 2] : t->stride[i + 2], far = 0;
    if (!uc_mul(stride, k->fused || k->pass->conv ? size[i] : 1, &far) ||
        !uc_add(reach, far, &reach) || reach > INT32_MAX)
      return uc_fail(UPCONV_UNSUPPORTED,
                     "%s: stride %lld of a spatial axis is more than one tile spans", name,
                     (long long)t->stride[i + 2]);
  }
  for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(a, t->stride[i + 2]);
  return UPCONV_OK;
}

/* Channel blocks that a tile is split into. */
static int64_t channel_blocks(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  if (k->pass->all_channels) return 1;
  if (!k->pass->conv || k->depthwise)
    return uc_ceil_div(k->pass->step[k->pass->target].channels, k->bm);
  return uc_ceil_div(e->group_out, k->bm) * e->lowered->conv.groups;
}

/* Blocks that a tile is split into. */
static int64_t kinds(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return channel_blocks(e, k) * (uc_cuda_many_channels(k) ? k->residue_groups : 1);
}

/* Blocks of a fused pass go over many tiles; there is a multiple of those of one tile. */
static int64_t grid_blocks(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t tiles) {
  if (!k->fused) return tiles;
  int64_t blocks = kinds(e, k);
  int64_t resident = (int64_t)e->target.sm_count * uc_max(1, k->blocks_per_sm);
  if (k->panel) return uc_min(tiles, resident); /* blocks go over tiles of all kinds */
  int64_t most = k->resident ? uc_max(1, resident / blocks) : MAX_GRID / blocks;
  int64_t jobs = k->direct ? uc_ceil_div(tiles / blocks, k->threads) : tiles / blocks;
  return blocks * uc_min(jobs, uc_max(1, most));
}

/* Rows of x for a pass of many channels; made, by a kernel before, where x is none. */
static upconv_status find_rows(const run *r, const uc_cuda_kernel *k, uc_cuda_row_view *rows,
                               bool *made) {
  const upconv_tensor *x = &r->call->x;
  if (k->gemm && uc_cuda_is_rows(r->e, x)) {
    *rows = uc_cuda_own_rows(r->e, x);
    return UPCONV_OK;
  }
  *rows = uc_cuda_made_rows(r->e, k, x, (char *)r->call->workspace + r->rows_at);
  uc_cuda_arguments a = {.length = 0};
  int64_t items = 0;
  upconv_status status = uc_cuda_put_rows_kernel(r->e, k, x, rows, &items, &a);
  *made = items > 0;
  if (status != UPCONV_OK || !*made) return status;
  return launch(r->e, k->rows, items, 256, 0, r->call->stream, &a, "rows of x");
}

static upconv_status launch_pass(const run *r, const uc_cuda_kernel *k) {
  const uc_call *call = r->call;
  uc_cuda_arguments a = {.length = 0};
  upconv_tensor y = kept_view(r, k->pass->result);
  uc_cuda_row_view rows = {0};
  bool made = false;
  upconv_status status = uc_cuda_many_channels(k) ? find_rows(r, k, &rows, &made) : UPCONV_OK;
  if (status == UPCONV_OK && uc_cuda_maps_x(k)) status = uc_cuda_put_map(r->e, k, call, &rows, &a);
  uc_cuda_put_view(&a, &call->x, false);
  uc_cuda_put_view(&a, &y, false);
  if (status == UPCONV_OK) status = put_steps(k, &call->x, k->x_size, "x", &a);
  if (status == UPCONV_OK) status = put_steps(k, &y, k->tile, "y", &a);
  if (status == UPCONV_OK && uc_cuda_maps_x(k)) uc_cuda_put_i64(&a, uc_cuda_first_sample(&call->x));
  if (status == UPCONV_OK && k->gemm && !uc_cuda_maps_x(k))
    status = uc_cuda_put_rows(k, &call->x, &rows, &a);
  if (status == UPCONV_OK) status = put_views(r, k, &a);
  if (status != UPCONV_OK) return status;
  uc_cuda_put_i64(&a, (int64_t)(intptr_t)call->packed);
  uc_cuda_put_i64(&a, (int64_t)(intptr_t)call->workspace + (int64_t)r->partial_at);
  int64_t grid[UC_AXES], begin[UC_AXES],
      tiles = uc_ceil_div(call->y.shape[0], k->samples) * kinds(r->e, k);
  for (int i = 0; i < UC_AXES; i++) {
    bool whole = k->pass->reduce_op >= 0;
    int64_t first = y.offset[i + 2] + uc_cuda_before_first(k, i);
    begin[i] = whole ? 0 : first / k->tile[i];
    grid[i] =
        whole ? whole_grid(r, k, i) : uc_ceil_div(first + y.shape[i + 2], k->tile[i]) - begin[i];
    tiles *= grid[i];
  }
  uc_cuda_put_i64(&a, tiles);
  uc_cuda_put_int(&a, call->y.offset[0]);
  uc_cuda_put_int(&a, call->y.shape[0]);
  for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(&a, grid[i]);
  for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(&a, begin[i]);
  for (int i = 0; i < UC_RANK; i++) uc_cuda_put_int(&a, y.offset[i]);
  for (int i = 0; i < UC_RANK; i++) uc_cuda_put_int(&a, y.offset[i] + y.shape[i]);
  for (int v = 0; v < r->e->program.value_count; v++)
    for (int i = 0; i < UC_AXES; i++) uc_cuda_put_int(&a, r->shape[v][i + 2]);
  if (tiles > 0)
    status = (k->panel && made ? launch_early : launch)(
        r->e, k->function, grid_blocks(r->e, k, tiles), k->threads * k->teams, k->shared_floats * 4,
        call->stream, &a, k->name);
  if (status != UPCONV_OK || k->pass->reduce_op < 0) return status;
  int64_t elements = 1;
  for (int i = 0; i < UC_RANK; i++) elements *= y.shape[i];
  return launch(r->e, k->combine, uc_ceil_div(elements, 4), 128, 0, call->stream, &a, "combine");
}

/* Coordinates in kernels are 32 bit; strides and offsets are 64. */
static bool coordinates_fit(const run *r) {
  for (int v = 0; v < r->e->program.value_count; v++)
    for (int i = 0; i < UC_RANK; i++)
      if (r->shape[v][i] > INT32_MAX / 4) return false;
  return true;
}

upconv_status uc_cuda_execute(const uc_cuda_engine *e, const uc_call *call) {
  if (!e->context->device)
    return uc_fail(UPCONV_DEVICE_ERROR,
                   "device: %s was named to plan for; there is nothing to run on", e->target.arch);
  run r = {.e = e, .call = call};
  upconv_status status = lay_out(&r, call->x_shape);
  if (status != UPCONV_OK) return status;
  if (r.bytes > call->workspace_size)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "workspace_size = %zu: this x needs %zu bytes",
                   call->workspace_size, r.bytes);
  if (!coordinates_fit(&r))
    return uc_fail(UPCONV_UNSUPPORTED, "x: more than 2^29 elements along one axis");
  status = uc_cuda_enter(e->context->device);
  if (status != UPCONV_OK) return status;
  for (int i = 0; i < e->kernel_count && status == UPCONV_OK; i++)
    status = launch_pass(&r, &e->kernel[i]);
  uc_cuda_leave(e->context->device);
  return status;
}

/* ---- packing ---- */

static void put_vector(uc_cuda_arguments *a, const upconv_tensor *t) {
  uc_cuda_put_i64(a, (int64_t)(intptr_t)t->data);
  uc_cuda_put_i64(a, t->rank > 0 ? t->stride[0] : 0);
  uc_cuda_put_int(a, t->dtype);
  uc_cuda_put_int(a, 0);
}

upconv_status uc_cuda_pack(const uc_cuda_engine *e, const upconv_parameters *p, void *packed,
                           void *stream) {
  if (!e->context->device)
    return uc_fail(UPCONV_DEVICE_ERROR,
                   "device: %s was named to plan for; there is nothing to run on", e->target.arch);
  upconv_tensor weight;
  upconv_status status = uc_lowered_check_parameters(e->lowered, p, &weight);
  if (status != UPCONV_OK) return status;
  uc_cuda_arguments a = {.length = 0};
  uc_cuda_put_i64(&a, (int64_t)(intptr_t)packed);
  uc_cuda_put_i64(&a, (int64_t)(intptr_t)weight.data);
  for (int i = 0; i < UC_RANK; i++) uc_cuda_put_i64(&a, weight.stride[i]);
  put_vector(&a, &p->bias);
  for (int i = 0; i < p->param_count; i++) put_vector(&a, &p->params[i]);
  for (int i = p->param_count; i < 1; i++) put_vector(&a, &p->bias);
  uc_cuda_put_int(&a, weight.dtype);
  uc_cuda_put_int(&a, 0);
  status = uc_cuda_enter(e->context->device);
  if (status != UPCONV_OK) return status;
  status = launch(e, e->pack_params, 1, 256, 0, stream, &a, "pack_params");
  int64_t blocks = uc_min(PACK_BLOCKS, uc_ceil_div(e->weight_floats, 256));
  if (status == UPCONV_OK)
    status = launch(e, e->pack_weights, blocks, 256, 0, stream, &a, "pack_weights");
  uc_cuda_leave(e->context->device);
  return status;
}
