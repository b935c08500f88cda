/* SPDX-License-Identifier: Apache-2.0 */
/* One execution: passes in order, each a set of independent tasks over the threads. */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "engine.h"

/* ---- views ---- */

static upconv_tensor dense_value(float *data, const int64_t shape[UC_RANK], int64_t n0) {
  upconv_tensor view = upconv_tensor_dense(data, UPCONV_F32, UC_RANK, shape, UPCONV_CHANNELS_FIRST);
  view.offset[0] = n0;
  /* numbers per sample and channel are read at any channel of a value that is broadcast */
  for (int i = 1; i < UC_RANK; i++)
    if (shape[i] == 1) view.stride[i] = 0;
  return view;
}

static upconv_status set_views(uc_run *run, const uc_workspace *w, char *workspace) {
  const uc_engine *e = run->engine;
  int last = e->program.value_count - 1;
  float *values = (float *)(void *)(workspace + w->values_at);
  for (int v = 0; v < last; v++) {
    if (!e->program.kept[v]) continue;
    int64_t shape[UC_RANK], count = 0;
    memcpy(shape, run->shape[v], sizeof shape);
    shape[0] = run->batch;
    uc_product(shape, UC_RANK, &count);
    run->kept[v] = dense_value(values, shape, run->n0);
    values += (count + UC_PAD - 1) / UC_PAD * UC_PAD;
  }
  run->kept[last] = run->call->y;
  for (int i = 0; i < e->lowered->tail->tensor_count; i++) {
    const uc_tensor_decl *decl = &e->lowered->tail->tensor[i];
    upconv_status status = uc_tensor_canonical(&run->call->tensors[i], decl->name,
                                               e->lowered->tail->nd, &run->tensor[i]);
    if (status != UPCONV_OK) return status;
    for (int a = 0; a < UC_RANK; a++)
      if (!(decl->axes >> a & 1)) uc_layout_broadcast(&run->tensor[i], a);
  }
  return UPCONV_OK;
}

/* ---- tiles ---- */

static uc_pending *pending(const uc_run *run, int worker) {
  return (uc_pending *)(void *)(run->scratch + run->scratch_floats * worker + run->tiling.drain_at);
}

static void start_tile(const uc_run *run, int worker, int64_t n, uc_tile *tile) {
  int64_t floats = run->scratch_floats * worker;
  *tile = (uc_tile){.run = run, .scratch = run->scratch + floats, .n = n, .samples = 1};
  if (run->drains) tile->pending = pending(run, worker);
  tile->box = (uc_box *)(void *)(tile->scratch + run->tiling.steps_at);
  tile->layout = (uc_layout *)(void *)(tile->box + run->pass->step_count);
}

/* Tile number `index` of the grid over [begin, begin + size) per axis. */
static uc_box grid_box(const uc_tiling *t, const uc_box *whole, const int64_t index[UC_AXES]) {
  uc_box box;
  for (int a = 0; a < UC_AXES; a++) {
    box.begin[a] = whole->begin[a] + index[a] * t->tile[a];
    box.size[a] = uc_min(t->tile[a], whole->begin[a] + whole->size[a] - box.begin[a]);
  }
  return box;
}

typedef struct store_job {
  const uc_run *run;
  uc_box whole;
  int64_t tiles[UC_AXES];
  int64_t groups; /* of samples */
  int64_t count;  /* of tasks */
} store_job;

/* Its tile; *n: the first of its samples, *part: which channels. */
static uc_box find_task(const store_job *job, int64_t task, int64_t *n, int64_t *part) {
  const uc_tiling *tiling = &job->run->tiling;
  int64_t index[UC_AXES];
  for (int a = UC_AXES - 1; a >= 0; a--) {
    index[a] = task % job->tiles[a];
    task /= job->tiles[a];
  }
  /* parts of the output channels outermost: tasks that run at the same time share weights */
  *n = task % job->groups * tiling->samples;
  *part = task / job->groups;
  return grid_box(tiling, &job->whole, index);
}

/* Most tasks are followed by the next one on the same thread. */
static void find_next(const store_job *job, int64_t task, uc_tile *tile) {
  const uc_run *run = job->run;
  int64_t n, part;
  if (!tile->pending || task + 1 >= job->count) return;
  uc_box target = find_task(job, task + 1, &n, &part);
  uc_tile_boxes(run->pass, run->engine->lowered->tail, &target, tile->box);
  tile->next = tile->box[uc_conv_step(run->pass)];
  tile->next_n = run->n0 + n;
}

static void store_task(void *argument, int64_t task, int worker) {
  const store_job *job = argument;
  const uc_run *run = job->run;
  int64_t n, part;
  uc_box box = find_task(job, task, &n, &part);
  uc_tile tile;
  start_tile(run, worker, run->n0 + n, &tile);
  tile.samples = uc_min(run->tiling.samples, run->batch - n);
  tile.part = part;
  find_next(job, task, &tile);
  uc_tile_run(&tile, &box, 0);
  if (run->stream) run->engine->isa->stream_end();
}

/* Floats that are stored one after the other without a gap: a row of a tile, or a plane of whole rows in natural order. */
static int64_t stored_run(const uc_run *run, const upconv_tensor *to) {
  int64_t row = uc_min(run->tiling.tile[2], to->shape[4]);
  const int64_t *split = run->pass->step[run->pass->target].split;
  bool dense = row == to->shape[4] && to->stride[3] == row && split[1] == 1 && split[2] == 1;
  return dense ? row * uc_min(run->tiling.tile[1], to->shape[3]) : row;
}

static double tensor_bytes(const upconv_tensor *t) {
  double bytes = (double)upconv_dtype_size(t->dtype);
  for (int a = 0; a < UC_RANK; a++) bytes *= (double)t->shape[a];
  return bytes;
}

/* Whether storing past the caches pays: they could not hold x and y, and what is stored is whole lines for the most part. */
static bool streams(const uc_run *run, const upconv_tensor *to) {
  enum { LEAST_RUN = 32 };
  double bytes = tensor_bytes(&run->call->x) + tensor_bytes(to);
  bool last = run->pass->result == run->engine->program.value_count - 1;
  return last && to->dtype == UPCONV_F32 && to->stride[4] == 1 &&
         stored_run(run, to) >= LEAST_RUN && bytes >= run->engine->stream_bytes;
}

static void run_store(uc_run *run) {
  store_job job = {.run = run};
  const upconv_tensor *to = &run->kept[run->pass->result];
  job.groups = uc_ceil_div(run->batch, run->tiling.samples);
  job.count = job.groups;
  if (run->tiling.panels)
    job.count *= uc_ceil_div(run->engine->block_count, run->tiling.part_blocks);
  for (int a = 0; a < UC_AXES; a++) {
    job.whole.begin[a] = to->offset[a + 2];
    job.whole.size[a] = to->shape[a + 2];
    job.tiles[a] = uc_ceil_div(job.whole.size[a], run->tiling.tile[a]);
    job.count *= job.tiles[a];
  }
  run->stream = streams(run, to);
  run->drains = run->stream && run->tiling.drains;
  int threads = uc_threads_count(run->engine->threads);
  for (int i = 0; i < threads && run->drains; i++) *pending(run, i) = (uc_pending){.turn = 0};
  uc_threads_run(run->engine->threads, job.count, store_task, &job);
  for (int i = 0; i < threads && run->drains; i++)
    run->engine->isa->drain(&pending(run, i)->beside.drain, INT64_MAX);
  if (run->drains) run->engine->isa->stream_end();
}

/* ---- spatial reductions ---- */

/* One task sums one segment of the reduced tiles, in order, for one tile of the axes that stay. */
typedef struct reduce_job {
  const uc_run *run;
  uint32_t axes; /* reduced, as bits of UC_AXES */
  int64_t kept_tiles, reduced_tiles;
} reduce_job;

static void tile_index(const reduce_job *job, int64_t kept, int64_t reduced,
                       int64_t index[UC_AXES]) {
  const int64_t *tiles = job->run->tiling.tiles;
  for (int a = UC_AXES - 1; a >= 0; a--) {
    int64_t *number = job->axes >> a & 1 ? &reduced : &kept;
    index[a] = *number % tiles[a];
    *number /= tiles[a];
  }
}

static void reduce_task(void *argument, int64_t task, int worker) {
  const reduce_job *job = argument;
  const uc_run *run = job->run;
  int64_t segments = run->tiling.segments, segment = task % segments;
  int64_t kept = task / segments % job->kept_tiles;
  uc_tile tile;
  start_tile(run, worker, run->n0 + task / segments / job->kept_tiles, &tile);
  uc_box whole = {.begin = {0, 0, 0}};
  memcpy(whole.size, run->target_size, sizeof whole.size);
  int64_t end = (segment + 1) * job->reduced_tiles / segments;
  for (int64_t r = segment * job->reduced_tiles / segments; r < end; r++) {
    int64_t index[UC_AXES];
    tile_index(job, kept, r, index);
    uc_box box = grid_box(&run->tiling, &whole, index);
    if (box.size[0] > 0 && box.size[1] > 0 && box.size[2] > 0) uc_tile_run(&tile, &box, segment);
  }
}

/* The sums of all segments, in order. One task per sample and channel of the result's box. */
static void combine_task(void *argument, int64_t task, int worker) {
  const reduce_job *job = argument;
  const uc_run *run = job->run;
  const upconv_op *op = &run->engine->lowered->tail->op[run->pass->reduce_op];
  const upconv_tensor *to = &run->kept[run->pass->result];
  const int64_t *shape = run->shape[run->pass->result];
  int64_t n = task / to->shape[1], c = to->offset[1] + task % to->shape[1];
  double count = 1;
  for (int a = 0; a < UC_AXES; a++)
    if (job->axes >> a & 1) count *= (double)run->target_size[a];
  (void)worker;
  for (int64_t d = 0; d < to->shape[2]; d++)
    for (int64_t h = 0; h < to->shape[3]; h++)
      for (int64_t w = 0; w < to->shape[4]; w++) {
        int64_t at =
            ((n * shape[1] + c) * shape[2] + to->offset[2] + d) * shape[3] + to->offset[3] + h;
        at = at * shape[4] + to->offset[4] + w;
        double value = run->partial[at];
        for (int64_t s = 1; s < run->tiling.segments; s++) {
          double more =
              run->partial[at + s * run->batch * shape[1] * shape[2] * shape[3] * shape[4]];
          if (op->kind == UPCONV_OP_SUM || op->kind == UPCONV_OP_MEAN)
            value += more;
          else if (isnan(more) || (op->kind == UPCONV_OP_MAX ? more > value : more < value))
            value = more;
        }
        if (op->kind == UPCONV_OP_MEAN) value /= count;
        uc_store(to->data, to->dtype,
                 n * to->stride[0] + (c - to->offset[1]) * to->stride[1] + d * to->stride[2] +
                     h * to->stride[3] + w * to->stride[4],
                 value);
      }
}

static void run_reduce(uc_run *run) {
  const upconv_op *op = &run->engine->lowered->tail->op[run->pass->reduce_op];
  reduce_job job = {.run = run, .axes = op->axes >> 1, .kept_tiles = 1, .reduced_tiles = 1};
  memcpy(run->target_size, &run->shape[op->operand[0].index][2], sizeof run->target_size);
  for (int a = 0; a < UC_AXES; a++)
    if (job.axes >> a & 1)
      job.reduced_tiles *= run->tiling.tiles[a];
    else
      job.kept_tiles *= run->tiling.tiles[a];
  const int64_t *shape = run->shape[run->pass->result];
  int64_t count = run->tiling.segments * run->batch * shape[1] * shape[2] * shape[3] * shape[4];
  double start = op->kind == UPCONV_OP_MAX ? -INFINITY : op->kind == UPCONV_OP_MIN ? INFINITY : 0;
  for (int64_t i = 0; i < count; i++) run->partial[i] = start;
  uc_threads_run(run->engine->threads, run->batch * job.kept_tiles * run->tiling.segments,
                 reduce_task, &job);
  const upconv_tensor *to = &run->kept[run->pass->result];
  uc_threads_run(run->engine->threads, run->batch * to->shape[1], combine_task, &job);
}

/* ---- all passes ---- */

static void run_passes(uc_run *run) {
  const uc_program *program = &run->engine->program;
  for (int i = 0; i < program->pass_count; i++) {
    run->pass = &program->pass[i];
    uc_tiling_choose(run->engine, run->pass, (const int64_t(*)[UC_RANK])run->shape,
                     !run->skip_borders || run->engine->products, run->slot_at, &run->tiling);
    if (run->pass->reduce_op >= 0)
      run_reduce(run);
    else
      run_store(run);
  }
}

upconv_status uc_engine_execute(const uc_engine *e, const uc_call *call) {
  char *workspace = call->workspace;
  bool finite = false;
  /* the offsets of the bookkeeping depend on the plan alone */
  uc_workspace w;
  uc_engine_bookkeeping(e, &w);
  if (w.values_at > call->workspace_size)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "workspace_size = %zu: this plan needs more",
                   call->workspace_size);
  upconv_status status = uc_engine_check_packed(e, call->packed, &finite);
  if (status != UPCONV_OK) return status;
  uc_run run = {.engine = e,
                .call = call,
                .batch = call->y.shape[0],
                .n0 = call->y.offset[0],
                .packed = call->packed};
  run.skip_borders = e->scalar || !finite;
  run.shape = (int64_t(*)[UC_RANK])(void *)workspace;
  status = uc_engine_shapes(e, call->x_shape, run.shape);
  if (status != UPCONV_OK) return status;
  memcpy(run.in_size, call->x_shape + 2, sizeof run.in_size);
  run.slot_at = (int64_t *)(void *)(workspace + w.slots_at);
  status = uc_engine_workspace(e, (const int64_t(*)[UC_RANK])run.shape, run.slot_at, &w);
  if (status != UPCONV_OK) return status;
  if (w.bytes > call->workspace_size)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "workspace_size = %zu: this x needs %zu bytes",
                   call->workspace_size, w.bytes);
  run.kept = (upconv_tensor *)(void *)(workspace + w.kept_at);
  run.tensor = (upconv_tensor *)(void *)(workspace + w.tensor_at);
  run.partial = (double *)(void *)(workspace + w.partial_at);
  run.scratch = (float *)(void *)(workspace + w.scratch_at);
  run.scratch_floats = (int64_t)(w.scratch / sizeof(float));
  status = set_views(&run, &w, workspace);
  if (status == UPCONV_OK) run_passes(&run);
  return status;
}
