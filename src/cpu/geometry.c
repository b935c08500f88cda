/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents -> tiles and memory. A tile is as large as a share of the second-level cache allows: large enough that halos
 * are cheap, small enough that what one step writes is still there when the next one reads it. Everything here depends
 * on the plan and the extents alone (reductions: not even on the batch), so that the same bits come out every time.
 */
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "engine.h"

enum {
  BUDGET = 64 * 1024,        /* floats of scratch that a tile should stay within */
  CHANNEL_PIECE = 512,       /* positions that a channel operator takes at once */
  TASKS_PER_THREAD = 4,      /* so that threads finish together */
  REDUCTION_TASKS = 16,      /* per sample */
  START_COST = 60,           /* of a run of positions, in multiply-adds of vectors */
  FIRST_WIDTH = 512,         /* positions along W that are never worth splitting further */
  SUMS = 128 * 1024,         /* floats of sums that a tile of panels should stay within */
  PRODUCT_SUMS = 256 * 1024, /* the same of cpu-products, which adds to them less often */
  PANEL = 48 * 1024,         /* floats of a panel, about */
  PANEL_TAPS = 32,           /* and at most so many taps */
  PART = 128,                /* output channels that make gathering cheap */
  LEAST_PART = 64,           /* and those for which it is cheap enough, where tasks are few */
  PRODUCT_PART = 32,         /* the same of cpu-products, which gathers once for all taps */
  LEAST_PRODUCT_PART = 8,
  DRAINING = 16, /* products of an output from which on y is stored while others are computed */
  DEEP = 64      /* products of an output from which on its sums may leave the registers */
};

static int64_t padded(int64_t n) { return (n + UC_PAD - 1) / UC_PAD * UC_PAD; }

upconv_status uc_engine_shapes(const uc_engine *e, const int64_t x_shape[UC_RANK],
                               int64_t (*shape)[UC_RANK]) {
  upconv_status status =
      uc_problem_conv_shape(&e->lowered->conv, x_shape[0], x_shape + 2, shape[0]);
  return status == UPCONV_OK ? uc_epilogue_shapes(e->lowered->tail, shape[0], shape) : status;
}

/* ---- how much scratch a tile takes ---- */

/* Channels of the largest block: the least that a round can be. Where groups are smaller, as in depthwise convolutions,
   channels have nothing in common, and a larger tile is worth more. */
static int64_t least_round(const uc_engine *e, const uc_pass *pass) {
  return pass->conv ? uc_max(1, uc_min(UC_MAX_MC, e->group_out)) : UC_MAX_MC;
}

/* Channels that a step's buffer must hold. A round takes whole blocks, so it may exceed block_channels once. */
static int64_t step_channels(const uc_engine *e, const uc_pass *pass, const uc_step *step,
                             const uc_tiling *t) {
  if (pass->all_channels || step->channels == 1) return step->channels;
  return uc_min(step->channels, uc_max(t->block_channels, least_round(e, pass)));
}

static void grow(int64_t *size, int64_t wanted) { *size = uc_max(*size, wanted); }

static void measure_copies(const uc_engine *e, const uc_pass *pass, const upconv_epilogue *tail,
                           const uc_step *step, const uc_layout *own, const uc_box *box,
                           const uc_tiling *t, int64_t *slot_size) {
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    if (step->copy[i] < 0) continue;
    const uc_step *source = &pass->step[step->source[i]];
    uc_layout copy = *own;
    if (uc_op_classify(tail->op[step->op].kind) == UC_CLASS_POOL)
      uc_layout_init(&copy, &box[step->source[i]], (const int64_t[]){1, 1, 1}, 0);
    grow(&slot_size[step->copy[i]], copy.channel * step_channels(e, pass, source, t));
  }
}

/* Positions of the convolution's longest residue. */
static int64_t conv_positions(const uc_pass *pass, const uc_layout *layout) {
  for (int k = 0; k < pass->step_count; k++)
    if (pass->step[k].kind == UC_STEP_CONV)
      return layout[k].count[0] * layout[k].count[1] * layout[k].count[2];
  return 0;
}

/* Boxes and layouts of one tile of the candidate size, which begins at `begin`; sizes are raised to what it needs. */
static void measure_at(const uc_engine *e, const uc_pass *pass, uc_tiling *t,
                       const int64_t begin[UC_AXES], uc_box *box, uc_layout *layout,
                       int64_t *slot_size, int64_t *widest) {
  const upconv_epilogue *tail = e->lowered->tail;
  uc_box target;
  memcpy(target.begin, begin, sizeof target.begin);
  memcpy(target.size, t->tile, sizeof target.size);
  uc_tile_boxes(pass, tail, &target, box);
  for (int k = 0; k < pass->step_count; k++)
    if (pass->step[k].kind == UC_STEP_CONV)
      for (int a = 0; a < UC_AXES; a++)
        grow(&t->x_size[a], uc_input_count(&e->lowered->conv.axis[a], box[k].size[a]));
  uc_tile_layouts(pass, tail, box, t, layout);
  t->positions = uc_max(t->positions, conv_positions(pass, layout));
  for (int k = 0; k < pass->step_count; k++) {
    const uc_step *step = &pass->step[k];
    grow(widest, box[k].size[2]);
    if (step->kind != UC_STEP_CONV || !t->pooled)
      grow(&slot_size[step->slot], layout[k].channel * step_channels(e, pass, step, t));
    if (step->kind == UC_STEP_OP)
      measure_copies(e, pass, tail, step, &layout[k], box, t, slot_size);
  }
}

static void measure_input(const uc_engine *e, const uc_pass *pass, uc_tiling *t) {
  t->x_channels = t->x_channel = 0;
  if (!pass->conv || t->panels || e->products) return;
  int64_t round = uc_max(t->block_channels, least_round(e, pass));
  int64_t groups = uc_min(e->lowered->conv.groups, uc_max(1, round / e->group_out));
  t->x_channels = e->chunk < e->group_in ? e->chunk : e->group_in * groups;
  uc_box box = {.begin = {0, 0, 0}};
  memcpy(box.size, t->x_size, sizeof box.size);
  uc_layout x;
  uc_layout_init(&x, &box, (const int64_t[]){1, 1, 1}, box.size[2]);
  t->x_channel = x.channel;
}

/* A run's inputs and products, what they are made of and where they go, and a row to convert; returns the end. */
static int64_t measure_products(const uc_engine *e, uc_tiling *t, int64_t at) {
  const int64_t pitch = UC_RUN + UC_PAD, per_piece = sizeof(uc_span) / sizeof(float);
  t->panel_at = at;
  t->pieces_at = t->panel_at + (e->chunk + UC_MAX_MC) * pitch + 2 * UC_PAD;
  t->fetch_at = t->pieces_at + padded((UC_MAX_MC * UC_RUN + 1) * per_piece);
  t->row_at = t->fetch_at + padded(e->chunk * (int64_t)(sizeof(uc_fetch_run) / sizeof(float)));
  return t->row_at + e->chunk * pitch + UC_PAD;
}

/* The sums of a part's channels, a panel, and a row to convert; returns the floats. */
static int64_t measure_panels(const uc_engine *e, uc_tiling *t, int64_t at) {
  if (!t->panels) return e->products ? measure_products(e, t, at) - at : 0;
  int64_t residues = e->table[0].stride * e->table[1].stride * e->table[2].stride;
  t->sums_residue = padded(t->samples * t->positions);
  /* not a power of two, which would drive the channels of a block out of the first-level cache */
  t->sums_channel = residues * t->sums_residue + UC_PAD;
  int64_t panels = uc_ceil_div(t->samples * t->positions, UC_PANEL);
  t->panel_taps =
      uc_min(uc_min(e->max_taps * panels, PANEL_TAPS), uc_max(1, PANEL / (e->chunk * UC_PANEL)));
  t->sums_at = at;
  if (e->products)
    return measure_products(e, t, at + t->part_blocks * UC_MAX_MC * t->sums_channel) - at;
  t->panel_at = t->sums_at + t->part_blocks * UC_MAX_MC * t->sums_channel;
  t->pieces_at = t->panel_at + t->panel_taps * e->chunk * UC_PANEL + UC_PAD;
  /* a row of a tap is one piece, with zeros at both ends, and zeros end the panel */
  int64_t most = t->panel_taps * (3 * UC_PANEL + 1);
  t->row_at = t->pieces_at + padded(most * (int64_t)(sizeof(uc_piece) / sizeof(float)));
  return t->row_at + e->chunk * (UC_PANEL + UC_PAD) + UC_PAD - at;
}

/* product.c keeps three 64-bit numbers for each. */
static int64_t kernel_extents(const uc_engine *e) {
  const uc_axis *axis = e->lowered->conv.axis;
  return axis[0].kernel + axis[1].kernel + axis[2].kernel;
}

/* A second buffer of the target, and what of the first is to be stored; returns the end. */
static int64_t measure_drain(const uc_engine *e, const uc_pass *pass, uc_tiling *t,
                             const uc_layout *layout, int64_t buffer_at, int64_t buffer,
                             int64_t at) {
  if (!t->drains) return at;
  const uc_step *target = &pass->step[pass->target];
  int64_t runs = uc_layout_runs(&layout[pass->target], step_channels(e, pass, target, t));
  t->drain_at = at;
  t->runs_at = t->drain_at + padded(sizeof(uc_pending) / sizeof(float));
  t->fetch_at = t->runs_at + padded(runs * (int64_t)(sizeof(uc_line_run) / sizeof(float)));
  int64_t planes = t->x_channels * t->x_size[0];
  at = t->fetch_at + padded(planes * (int64_t)(sizeof(uc_fetch_run) / sizeof(float)));
  t->spare = at - buffer_at;
  return at + buffer;
}

/* Fills the tiling's sizes and the slots' offsets for t->tile. box, layout: room for the steps. */
static void measure(const uc_engine *e, const uc_pass *pass, uc_tiling *t, int64_t *slot_at,
                    uc_box *box, uc_layout *layout) {
  int64_t last[UC_AXES], widest = 0;
  for (int a = 0; a < UC_AXES; a++) {
    last[a] = uc_max(0, t->extent[a] - t->tile[a]);
    t->x_size[a] = 0;
  }
  for (int i = 0; i < pass->slot_count; i++) slot_at[i] = 0;
  t->positions = 0;
  /* box sizes are convex in the tile's position, so the first and the last tile bound the ones between */
  measure_at(e, pass, t, (const int64_t[]){0, 0, 0}, box, layout, slot_at, &widest);
  measure_at(e, pass, t, last, box, layout, slot_at, &widest);
  measure_input(e, pass, t);
  /* The input tile first: its channels are read at large steps, and processors fetch ahead at such steps, tens of kilobytes
     beyond its end. That must not be where another thread writes. */
  t->x_at = 0;
  int target = pass->step[pass->target].slot;
  int64_t buffer = padded(slot_at[target]);
  int64_t at = padded(t->x_channels * t->x_channel) + 2 * UC_PAD;
  for (int i = 0; i < pass->slot_count; i++) {
    int64_t size = padded(slot_at[i]);
    slot_at[i] = at;
    at += size;
  }
  t->taps_at = at;
  at += e->products ? padded(kernel_extents(e) * 6) : padded(4 * e->max_taps);
  t->least_at = at;
  if (t->pooled) at += padded(step_channels(e, pass, &pass->step[t->pooled], t));
  at = measure_drain(e, pass, t, layout, slot_at[target], buffer, at);
  at += measure_panels(e, t, at);
  t->rows_at = at;
  at += padded(widest) * (step_channels(e, pass, &pass->step[pass->target], t) + 1);
  t->channels_at = at;
  at += 2 * CHANNEL_PIECE;
  t->steps_at = at;
  at += padded(pass->step_count * (int64_t)((sizeof(uc_box) + sizeof(uc_layout)) / sizeof(float)));
  t->scratch = at;
}

/* ---- the choice ---- */

/* Whether to run over whole planes, with the input's row pitch, rather than row by row: counts vectors of positions, and
   the cost of starting a run in multiply-adds of vectors. */
static bool flat_pays(const uc_engine *e, const uc_pass *pass, const uc_layout *layout,
                      const uc_tiling *t) {
  if (!pass->conv || t->panels || e->products) return false;
  int k = 0;
  while (pass->step[k].kind != UC_STEP_CONV) k++;
  const uc_axis_table *table = e->table;
  int64_t phases = table[0].stride * table[1].stride * table[2].stride;
  int64_t work = uc_max(1, e->kernel_size * e->chunk * uc_min(e->group_out, UC_MAX_MC) / phases);
  int64_t v = e->isa->width, rows = layout[k].count[1], row = layout[k].count[2];
  int64_t by_rows = rows * (START_COST + uc_ceil_div(row, v) * work);
  int64_t flat = START_COST + uc_ceil_div((rows - 1) * t->x_size[2] + row, v) * work;
  return flat < by_rows;
}

typedef struct chooser {
  const uc_engine *e;
  const uc_pass *pass;
  uc_tiling *t;
  int64_t *slot_at;
  uc_box *box;
  uc_layout *layout;
  int64_t unit[UC_AXES]; /* tiles are multiples of this where the extent allows */
  int64_t least_tiles;
  int64_t batch, tasks; /* panels: least tasks over the whole batch */
} chooser;

static bool fits(chooser *c) {
  c->t->flat = false;
  measure(c->e, c->pass, c->t, c->slot_at, c->box, c->layout);
  c->t->flat = flat_pays(c->e, c->pass, c->layout, c->t);
  if (c->t->flat) measure(c->e, c->pass, c->t, c->slot_at, c->box, c->layout);
  return c->t->scratch - (c->t->rows_at - c->t->taps_at) <= BUDGET;
}

static int64_t tile_count(const uc_tiling *t) {
  int64_t count = 1;
  for (int a = 0; a < UC_AXES; a++) count *= uc_ceil_div(t->extent[a], t->tile[a]);
  return count;
}

/* Equal tiles: 33 rows as 17 + 16, not as 32 + 1. */
static int64_t even(int64_t extent, int64_t tile, int64_t unit) {
  int64_t size = uc_ceil_div(extent, uc_ceil_div(extent, tile));
  return uc_min(extent, uc_ceil_div(size, unit) * unit);
}

static int64_t most_sums(const uc_engine *e) { return e->products ? PRODUCT_SUMS : SUMS; }

static int64_t least_part(const uc_engine *e) {
  return e->products ? LEAST_PRODUCT_PART : LEAST_PART;
}

/* Whether sums and slots fit, and enough tasks remain: parts of the channels may still get smaller. */
static bool panels_fit(chooser *c, int64_t part) {
  uc_tiling *t = c->t;
  int64_t parts = uc_ceil_div(c->e->block_count * UC_MAX_MC, part);
  if (c->pass->all_channels) parts = 1;
  return fits(c) && t->part_blocks * UC_MAX_MC * (t->sums_channel - UC_PAD) <= most_sums(c->e) &&
         tile_count(t) * uc_ceil_div(c->batch, t->samples) * parts >= c->tasks;
}

static bool suits(chooser *c) {
  if (c->t->panels) return panels_fit(c, least_part(c->e));
  return fits(c) && tile_count(c->t) >= c->least_tiles;
}

/* Doubles the tile along an axis while it fits and enough tiles remain. */
static void enlarge(chooser *c, int axis) {
  uc_tiling *t = c->t;
  while (t->tile[axis] < t->extent[axis]) {
    int64_t before = t->tile[axis];
    t->tile[axis] = uc_min(t->extent[axis], before * 2);
    if (suits(c)) continue;
    t->tile[axis] = before;
    break;
  }
  t->tile[axis] = even(t->extent[axis], t->tile[axis], c->unit[axis]);
}

static void choose_tile(chooser *c) {
  uc_tiling *t = c->t;
  for (int a = 0; a < UC_AXES; a++) t->tile[a] = uc_min(c->unit[a], t->extent[a]);
  t->tile[2] = t->extent[2];
  while (!fits(c) && t->tile[2] > c->unit[2] * UC_PAD)
    t->tile[2] = even(t->extent[2], t->tile[2] / 2, c->unit[2]);
  while (tile_count(t) < c->least_tiles && t->tile[2] > FIRST_WIDTH)
    t->tile[2] = even(t->extent[2], t->tile[2] / 2, c->unit[2]);
  enlarge(c, 1);
  enlarge(c, 0);
}

/* More channels a round while they fit: rounds of small tiles would be mostly overhead, and with chunks of input
   channels every round loads its input again. */
static void choose_round(chooser *c, int64_t channels) {
  uc_tiling *t = c->t;
  while (t->block_channels < channels) {
    t->block_channels *= 2;
    if (fits(c)) continue;
    t->block_channels /= 2;
    break;
  }
}

/* In steps of the convolution's stride a tile holds equally many elements of every phase. */
static void choose_unit(chooser *c) {
  const upconv_epilogue *tail = c->e->lowered->tail;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t stride = c->pass->conv ? c->e->lowered->conv.axis[a].stride : 1;
    for (int k = 0; k < c->pass->step_count; k++) {
      const uc_step *step = &c->pass->step[k];
      if (step->kind != UC_STEP_OP || uc_op_classify(tail->op[step->op].kind) != UC_CLASS_POOL)
        continue;
      stride = uc_max(1, stride / tail->op[step->op].window.stride[a]);
    }
    c->unit[a] = stride;
  }
}

/* The whole extent and all channels at once, which is what the search would end with: found at once, since for a small
   problem the search would take longer than the work. */
static bool takes_whole(chooser *c, int64_t channels) {
  uc_tiling *t = c->t;
  if (c->least_tiles > 1) return false;
  memcpy(t->tile, t->extent, sizeof t->tile);
  while (t->block_channels < channels) t->block_channels *= 2;
  if (fits(c)) return true;
  t->block_channels = least_round(c->e, c->pass);
  return false;
}

/* cpu-products: runs are full, and rows that lack the same taps (there are none where outputs have one tap) are whole
   vectors. */
static bool many_samples(const chooser *c) {
  const uc_tiling *t = c->t;
  return c->e->products && t->samples * t->positions >= UC_RUN &&
         (t->samples * t->x_size[2] >= UC_PAD || c->e->max_taps == 1);
}

/* Tiles of panels: first as many positions, then as many samples, and at last as many channels as the sums' memory
   allows. False: not even the smallest tile fits. */
static bool choose_panels(chooser *c) {
  uc_tiling *t = c->t;
  int64_t blocks = c->e->block_count, tasks = c->tasks;
  t->panels = true;
  int64_t part = c->e->products ? PRODUCT_PART : PART;
  t->part_blocks = c->pass->all_channels ? blocks : uc_min(blocks, part / UC_MAX_MC);
  c->tasks = 1;
  for (int a = 0; a < UC_AXES; a++) t->tile[a] = uc_min(c->unit[a], t->extent[a]);
  t->tile[2] = t->extent[2];
  while (!suits(c) && t->tile[2] > c->unit[2] * UC_PAD)
    t->tile[2] = even(t->extent[2], t->tile[2] / 2, c->unit[2]);
  if (!suits(c)) {
    *t = (uc_tiling){.block_channels = least_round(c->e, c->pass),
                     .segments = 1,
                     .samples = 1,
                     .extent = {t->extent[0], t->extent[1], t->extent[2]}};
    c->tasks = tasks;
    return false;
  }
  c->tasks = tasks;
  enlarge(c, 1);
  enlarge(c, 0);
  while ((c->e->products || tile_count(t) == 1) && t->samples < c->batch && !many_samples(c)) {
    t->samples *= 2;
    if (suits(c)) continue;
    t->samples /= 2;
    break;
  }
  if (c->pass->all_channels) return fits(c);
  int64_t least = least_part(c->e) / UC_MAX_MC;
  while (t->part_blocks > least && !panels_fit(c, t->part_blocks * UC_MAX_MC))
    t->part_blocks = uc_max(least, t->part_blocks / 2);
  while (t->part_blocks < blocks) {
    int64_t before = t->part_blocks;
    t->part_blocks = uc_min(blocks, before * 2);
    if (panels_fit(c, t->part_blocks * UC_MAX_MC)) continue;
    t->part_blocks = before;
    break;
  }
  return fits(c);
}

/* The step of the pool that alone reads the convolution and takes of each residue one element or none, in order; 0: there is
   no such pool. Its windows lie within the convolution's value. */
static int pooled_step(const uc_engine *e, const uc_pass *pass, const int64_t (*shape)[UC_RANK]) {
  const upconv_epilogue *tail = e->lowered->tail;
  int conv = uc_conv_step(pass), pool = 0;
  for (int k = 0; k < pass->step_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      if (pass->step[k].source[i] != conv) continue;
      if (pool || i > 0) return 0;
      pool = k;
    }
  if (!pool || e->chunk < e->group_in) return 0;
  const upconv_op *op = &tail->op[pass->step[pool].op];
  if (op->kind != UPCONV_OP_MAX_POOL && op->kind != UPCONV_OP_EXTREME_POOL) return 0;
  for (int a = 0; a < UC_AXES; a++) {
    const upconv_window *w = &op->window;
    int64_t stride = pass->step[conv].split[a], extent = shape[pass->step[pool].op + 1][a + 2];
    if (w->stride[a] != stride || w->kernel[a] > stride || w->pad_begin[a] != 0) return 0;
    if (w->kernel[a] > 1 && w->dilation[a] != 1) return 0;
    if ((extent - 1) * stride + w->kernel[a] > shape[0][a + 2]) return 0;
  }
  return pool;
}

/* Whether y is worth storing past the caches while the next round is computed, if its strides allow it; see run.c. With few
   products an output they take less time than storing it, however it is done; with one channel a group the little that is
   stored at once goes well with them. */
static bool may_drain(const uc_engine *e, const uc_pass *pass, const int64_t (*shape)[UC_RANK]) {
  const upconv_problem *conv = &e->lowered->conv;
  double y = sizeof(float), x = (double)upconv_dtype_size(conv->x_dtype) *
                                (double)conv->in_channels / (double)conv->out_channels;
  for (int a = 0; a < UC_RANK; a++) {
    y *= (double)shape[pass->result][a];
    x *= (double)shape[0][a] / (a < 2 ? 1 : (double)conv->axis[a - 2].stride);
  }
  return (e->group_out == 1 || uc_average_products(e) >= DRAINING) && pass->reduce_op < 0 &&
         pass->result == e->program.value_count - 1 && conv->y_dtype == UPCONV_F32 &&
         x + y >= e->stream_bytes;
}

void uc_tiling_choose(const uc_engine *e, const uc_pass *pass, const int64_t (*shape)[UC_RANK],
                      bool panels, int64_t *slot_at, uc_tiling *t) {
  *t = (uc_tiling){.block_channels = least_round(e, pass), .segments = 1, .samples = 1};
  /* the target's extents: those of the result, or of what the reduction reads */
  int target =
      pass->reduce_op >= 0 ? e->lowered->tail->op[pass->reduce_op].operand[0].index : pass->result;
  for (int a = 0; a < UC_AXES; a++) t->extent[a] = uc_max(1, shape[target][a + 2]);
  bool reduce = pass->reduce_op >= 0;
  int64_t batch = uc_max(1, shape[target][0]);
  int64_t tasks = (int64_t)TASKS_PER_THREAD * uc_threads_count(e->threads);
  if (uc_threads_count(e->threads) == 1) tasks = 1;
  chooser c = {.e = e, .pass = pass, .t = t, .slot_at = slot_at, .batch = batch, .tasks = tasks};
  c.least_tiles = reduce ? REDUCTION_TASKS : uc_ceil_div(tasks, batch);
  /* boxes and layouts of the steps lie behind the slots' offsets */
  c.box = (uc_box *)(void *)(slot_at + pass->slot_count);
  c.layout = (uc_layout *)(void *)(c.box + pass->step_count);
  choose_unit(&c);
  int64_t channels = pass->conv ? shape[0][1] : shape[target][1];
  panels = panels && e->panels && pass->conv && !reduce;
  bool paneled = panels && choose_panels(&c);
  if (!paneled && pass->conv && !e->products) {
    t->pooled = pooled_step(e, pass, shape);
    t->drains = may_drain(e, pass, shape);
  }
  if (!paneled && !takes_whole(&c, channels)) {
    choose_tile(&c);
    choose_round(&c, channels);
    fits(&c);
  }
  for (int a = 0; a < UC_AXES; a++) t->tiles[a] = uc_ceil_div(t->extent[a], t->tile[a]);
  if (!reduce) return;
  int64_t kept = 1, reduced = 1;
  for (int a = 0; a < UC_AXES; a++)
    if (e->lowered->tail->op[pass->reduce_op].axes >> (1 + a) & 1)
      reduced *= t->tiles[a];
    else
      kept *= t->tiles[a];
  t->segments = uc_min(reduced, uc_ceil_div(REDUCTION_TASKS, kept));
}

/* ---- the workspace ---- */

static size_t aligned(size_t bytes) { return (bytes + UC_ALIGN - 1) / UC_ALIGN * UC_ALIGN; }

size_t uc_engine_slots_bytes(const uc_engine *e) {
  size_t most = 0;
  for (int i = 0; i < e->program.pass_count; i++) {
    const uc_pass *pass = &e->program.pass[i];
    size_t bytes = (size_t)pass->slot_count * sizeof(int64_t) +
                   (size_t)pass->step_count * (sizeof(uc_box) + sizeof(uc_layout));
    if (bytes > most) most = bytes;
  }
  return most;
}

void uc_engine_bookkeeping(const uc_engine *e, uc_workspace *w) {
  size_t values = (size_t)e->program.value_count, at = 0;
  w->shape_at = at;
  at += aligned(values * sizeof(int64_t[UC_RANK]));
  w->kept_at = at;
  at += aligned(values * sizeof(upconv_tensor));
  w->tensor_at = at;
  at += aligned((size_t)e->lowered->tail->tensor_count * sizeof(upconv_tensor));
  w->slots_at = at;
  at += aligned(uc_engine_slots_bytes(e));
  w->values_at = at;
}

/* Sums of the widest reduction, and scratch of the largest tile. */
static void pass_bytes(const uc_engine *e, const int64_t (*shape)[UC_RANK], int64_t *slot_at,
                       size_t *partial, size_t *scratch) {
  for (int i = 0; i < e->program.pass_count; i++) {
    uc_tiling t;
    /* panels are not used while a weight is not finite, which packing decides */
    for (int panels = 0; panels <= e->panels; panels++) {
      uc_tiling_choose(e, &e->program.pass[i], shape, panels, slot_at, &t);
      size_t bytes = (size_t)t.scratch * sizeof(float);
      if (bytes > *scratch) *scratch = bytes;
    }
    if (e->program.pass[i].reduce_op < 0) continue;
    int64_t count = 0;
    uc_product(shape[e->program.pass[i].result], UC_RANK, &count);
    size_t bytes = (size_t)(count * t.segments) * sizeof(double);
    if (bytes > *partial) *partial = bytes;
  }
}

upconv_status uc_engine_workspace(const uc_engine *e, const int64_t (*shape)[UC_RANK],
                                  int64_t *slot_at, uc_workspace *w) {
  uc_engine_bookkeeping(e, w);
  size_t values = (size_t)e->program.value_count, at = w->values_at;
  for (size_t v = 0; v + 1 < values; v++) {
    int64_t count = 0;
    if (!e->program.kept[v]) continue;
    if (!uc_product(shape[v], UC_RANK, &count) || count > INT64_MAX / 64)
      return uc_fail(UPCONV_OVERFLOW, "value %zu has more elements than memory can hold", v);
    at += aligned((size_t)count * sizeof(float));
  }
  w->partial_at = at;
  size_t partial = 0, scratch = 0;
  pass_bytes(e, shape, slot_at, &partial, &scratch);
  w->scratch_at = w->partial_at + aligned(partial);
  w->scratch = aligned(scratch);
  w->bytes = w->scratch_at + w->scratch * (size_t)uc_threads_count(e->threads);
  return UPCONV_OK;
}
