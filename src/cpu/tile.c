/* SPDX-License-Identifier: Apache-2.0 */
/* One tile: what each step must hold, how it is laid out, and the walk over channels and steps. */
#include "engine.h"

#include <math.h>
#include <string.h>

#include "../checked.h"

int uc_conv_step(const uc_pass *pass) {
  for (int k = 0; k < pass->step_count; k++)
    if (pass->step[k].kind == UC_STEP_CONV) return k;
  return -1;
}

/* ---- boxes ---- */

static void need(uc_box *box, const uc_box *more) {
  if (box->size[0] < 0)
    *box = *more;
  else
    uc_box_unite(box, more);
}

/* Borders are not clipped: a tile has the same shape wherever it lies. */
static uc_box window_input(const upconv_window *window, const uc_box *out) {
  uc_box in;
  for (int a = 0; a < UC_AXES; a++) {
    in.begin[a] = out->begin[a] * window->stride[a] - window->pad_begin[a];
    in.size[a] =
        (out->size[a] - 1) * window->stride[a] + (window->kernel[a] - 1) * window->dilation[a] + 1;
  }
  return in;
}

void uc_tile_boxes(const uc_pass *pass, const upconv_epilogue *tail, const uc_box *target,
                   uc_box *box) {
  for (int k = 0; k < pass->step_count; k++) box[k].size[0] = -1;
  box[pass->target] = *target;
  for (int k = pass->step_count - 1; k >= 0; k--) {
    const uc_step *step = &pass->step[k];
    if (step->kind != UC_STEP_OP) continue;
    const upconv_op *op = &tail->op[step->op];
    bool pool = uc_op_classify(op->kind) == UC_CLASS_POOL;
    uc_box in = pool ? window_input(&op->window, &box[k]) : box[k];
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
      if (step->source[i] >= 0) need(&box[step->source[i]], &in);
  }
}

/* ---- layouts ---- */

static bool same_grid(const uc_layout *l, const uc_box *box, const int64_t *split) {
  return uc_box_equal(&l->box, box) && memcmp(l->split, split, sizeof l->split) == 0;
}

static const uc_layout *inherited(const uc_pass *pass, const uc_step *step, const uc_box *box,
                                  const uc_layout *layout) {
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int s = step->source[i];
    if (s >= 0 && pass->step[s].kind != UC_STEP_LOAD && same_grid(&layout[s], box, step->split))
      return &layout[s];
  }
  return NULL;
}

/* The convolution and pooling add to what is there: with dense rows, what a row's last vector adds beyond the row would
   add to the next row. */
static int64_t padded_row(const uc_box *box, const int64_t *split) {
  return uc_ceil_div(uc_ceil_div(box->size[2], split[2]), UC_PAD) * UC_PAD;
}

static void op_layout(const uc_pass *pass, const uc_step *step, bool pool, const uc_box *box,
                      uc_layout *own, uc_layout *layout) {
  const uc_layout *from = pool ? NULL : inherited(pass, step, box, layout);
  if (from)
    *own = *from;
  else
    uc_layout_init(own, box, step->split, pool ? padded_row(box, step->split) : 0);
  if (pool) return;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int s = step->source[i];
    if (s >= 0 && pass->step[s].kind == UC_STEP_LOAD) layout[s] = *own;
  }
}

/* Step 0 never is a pool of the convolution. */
static bool takes_residues(const uc_tiling *tiling, int step) {
  return step > 0 && step == tiling->pooled;
}

void uc_tile_layouts(const uc_pass *pass, const upconv_epilogue *tail, const uc_box *box,
                     const uc_tiling *tiling, uc_layout *layout) {
  for (int k = 0; k < pass->step_count; k++) {
    const uc_step *step = &pass->step[k];
    if (step->kind == UC_STEP_CONV || takes_residues(tiling, k)) {
      uc_layout_init(&layout[k], &box[k], step->split,
                     tiling->flat ? tiling->x_size[2] : padded_row(&box[k], step->split));
      continue;
    }
    if (step->kind == UC_STEP_LOAD) {
      uc_layout_init(&layout[k], &box[k], step->split, 0);
      continue;
    }
    bool pool = uc_op_classify(tail->op[step->op].kind) == UC_CLASS_POOL;
    op_layout(pass, step, pool, &box[k], &layout[k], layout);
  }
}

/* ---- the walk ---- */

static int target_slot(const uc_pass *pass) { return pass->step[pass->target].slot; }

float *uc_tile_slot(const uc_tile *tile, int slot) {
  const uc_run *run = tile->run;
  bool second = tile->pending && tile->pending->turn && slot == target_slot(run->pass);
  return tile->scratch + run->slot_at[slot] + (second ? run->tiling.spare : 0);
}

int64_t uc_tile_channels(const uc_tile *tile, const uc_step *step) {
  return tile->run->pass->all_channels || step->channels == 1 ? step->channels
                                                              : tile->c1 - tile->c0;
}

static void load_operand(uc_tile *tile, const uc_step *step, const uc_layout *layout) {
  const uc_run *run = tile->run;
  const upconv_operand *o = &run->engine->lowered->tail->op[step->op].operand[step->operand];
  upconv_tensor view =
      o->kind == UPCONV_OPERAND_TENSOR ? run->tensor[o->index] : run->kept[o->index];
  for (int i = 1; i < UC_RANK && o->kind == UPCONV_OPERAND_VALUE; i++)
    if (view.shape[i] == 1) uc_layout_broadcast(&view, i);
  int64_t first = tile->run->pass->all_channels || step->channels == 1 ? 0 : tile->c0;
  uc_layout_load(run->engine->isa, layout, uc_tile_slot(tile, step->slot), &view, tile->n, first,
                 uc_tile_channels(tile, step));
}

static void run_steps(uc_tile *tile) {
  const uc_pass *pass = tile->run->pass;
  for (int k = 0; k < pass->step_count; k++) {
    const uc_step *step = &pass->step[k];
    if (step->kind == UC_STEP_LOAD) load_operand(tile, step, &tile->layout[k]);
    if (step->kind == UC_STEP_OP && !takes_residues(&tile->run->tiling, k)) uc_op_tile(tile, k);
  }
}

/* ---- sinks: what becomes of the target ---- */

/* Sums of panels that nothing follows are stored from where they are. */
static bool sums_are_target(const uc_run *run) {
  return run->tiling.panels && run->pass->step[run->pass->target].kind == UC_STEP_CONV;
}

static void store_target(uc_tile *tile, int64_t first) {
  const uc_run *run = tile->run;
  const uc_step *target = &run->pass->step[run->pass->target];
  const upconv_tensor *to = &run->kept[run->pass->result];
  int64_t channels = uc_tile_channels(tile, target);
  /* y may be a box of the channels */
  int64_t c0 = uc_max(first, to->offset[1]),
          c1 = uc_min(first + channels, to->offset[1] + to->shape[1]);
  if (c0 >= c1) return;
  uc_layout layout = tile->layout[run->pass->target];
  const float *src = uc_tile_slot(tile, target->slot) + (c0 - first) * layout.channel;
  if (sums_are_target(run)) {
    src = uc_panel_at(tile, &layout, tile->n, c0);
    layout = uc_panel_layout(tile, &layout);
  }
  const uc_isa *isa = run->engine->isa;
  if (tile->pending && uc_layout_drains(isa, &layout, to, tile->n, c0)) {
    uc_line_run *runs = (uc_line_run *)(void *)(tile->scratch + run->tiling.runs_at);
    uc_drain *drain = &tile->pending->beside.drain;
    isa->drain(drain, INT64_MAX);
    uc_layout_list(isa, &layout, src, to, tile->n, c0, c1 - c0, runs, drain);
    tile->pending->turn = !tile->pending->turn;
    return;
  }
  uc_layout_store(isa, &layout, src, to, tile->n, c0, c1 - c0, run->stream,
                  tile->scratch + run->tiling.rows_at);
}

/* Row (d, h) of the target, local, into the sums of its segment. */
static void reduce_row(const uc_run *run, const upconv_op *op, const float *row, double *sum,
                       int64_t n) {
  const uc_isa *isa = run->engine->isa;
  bool along = op->axes >> 3 & 1; /* W is reduced */
  bool add = op->kind == UPCONV_OP_SUM || op->kind == UPCONV_OP_MEAN;
  if (along && add) {
    *sum += isa->row_sum(row, n);
    return;
  }
  double extreme =
      along ? (double)(op->kind == UPCONV_OP_MAX ? isa->row_max(row, n) : isa->row_min(row, n)) : 0;
  for (int64_t i = 0; i < (along ? 1 : n); i++) {
    double value = along ? extreme : (double)row[i];
    if (add)
      sum[i] += value;
    else if (isnan(value))
      sum[i] = value;
    else if (op->kind == UPCONV_OP_MAX ? value > sum[i] : value < sum[i])
      sum[i] = value;
  }
}

static void reduce_target(uc_tile *tile, int64_t first, int64_t segment) {
  const uc_run *run = tile->run;
  const upconv_op *op = &run->engine->lowered->tail->op[run->pass->reduce_op];
  const uc_step *target = &run->pass->step[run->pass->target];
  const uc_layout *l = &tile->layout[run->pass->target];
  const int64_t *shape = run->shape[run->pass->result];
  int64_t channels = uc_tile_channels(tile, target);
  for (int64_t c = 0; c < channels; c++)
    for (int64_t d = 0; d < l->box.size[0]; d++)
      for (int64_t h = 0; h < l->box.size[1]; h++) {
        const float *row = uc_layout_natural_row(run->engine->isa, l,
                                                 uc_tile_slot(tile, target->slot) + c * l->channel,
                                                 d, h, tile->scratch + run->tiling.rows_at);
        int64_t at = (segment * run->batch + tile->n - run->n0) * shape[1] + first + c;
        at = at * shape[2] + (op->axes & 2u ? 0 : l->box.begin[0] + d);
        at = at * shape[3] + (op->axes & 4u ? 0 : l->box.begin[1] + h);
        at = at * shape[4] + (op->axes & 8u ? 0 : l->box.begin[2]);
        reduce_row(run, op, row, run->partial + at, l->box.size[2]);
      }
}

static void finish_channels(uc_tile *tile, int64_t first, int64_t segment) {
  if (tile->run->pass->reduce_op >= 0)
    reduce_target(tile, first, segment);
  else
    store_target(tile, first);
}

/* ---- channels in rounds ---- */

/* The end of a round that begins at channel c: whole blocks, about block_channels of them, and never part of the groups
   that share an input tile. */
static int64_t round_end(const uc_run *run, int64_t c, int64_t channels) {
  const uc_engine *e = run->engine;
  if (!run->pass->conv) return uc_min(channels, c + run->tiling.block_channels);
  int64_t end = c, wanted = run->tiling.block_channels;
  for (int64_t i = c / e->group_out * (e->block_count / e->lowered->conv.groups);
       i < e->block_count; i++) {
    if (e->block[i].channel < c) continue;
    int64_t next = e->block[i].channel + e->block[i].mc;
    if (end > c && (next - c > wanted || (run->tiling.panels && next > channels))) break;
    end = e->block[i].channel + e->block[i].mc;
  }
  return end;
}

/* First channel of the block that holds channel c: rounds begin there. */
static int64_t round_begin(const uc_run *run, int64_t c) {
  const uc_engine *e = run->engine;
  if (!run->pass->conv) return c;
  int64_t begin = 0;
  for (int64_t i = c / e->group_out * (e->block_count / e->lowered->conv.groups);
       i < e->block_count; i++) {
    if (e->block[i].channel > c) break;
    begin = e->block[i].channel;
  }
  return begin;
}

static void fill_conv(uc_tile *tile, const uc_layout *layout, float *dst) {
  if (tile->run->tiling.panels)
    uc_panel_take(tile, layout, dst);
  else
    uc_conv_tile(tile, layout, dst, tile->c0, tile->c1);
}

static void run_rounds(uc_tile *tile, int64_t c0, int64_t c1, int64_t channels, int64_t segment) {
  const uc_run *run = tile->run;
  int conv = uc_conv_step(run->pass);
  bool all = run->pass->all_channels;
  if (tile->pending)
    uc_layout_touch(&tile->layout[run->pass->target], &run->kept[run->pass->result], tile->n);
  for (int64_t c = all ? 0 : round_begin(run, c0); c < c1; c = tile->c1) {
    tile->c0 = c;
    tile->c1 = round_end(run, c, channels);
    if (conv >= 0 && !sums_are_target(run)) {
      int to = run->tiling.pooled ? run->tiling.pooled : conv;
      float *dst = uc_tile_slot(tile, run->pass->step[to].slot);
      if (all) dst += c * tile->layout[to].channel;
      fill_conv(tile, &tile->layout[conv], dst);
    }
    if (all) continue;
    run_steps(tile);
    finish_channels(tile, c, segment);
  }
  if (!all) return;
  run_steps(tile);
  finish_channels(tile, 0, segment);
}

/* The blocks of the tile's part that y's channels [c0, c1) need, and then each sample's rounds. */
static void run_part(uc_tile *tile, int64_t c0, int64_t c1, int64_t segment) {
  const uc_run *run = tile->run;
  const uc_engine *e = run->engine;
  int64_t b0 = tile->part * run->tiling.part_blocks;
  int64_t b1 = uc_min(e->block_count, b0 + run->tiling.part_blocks);
  while (b0 < b1 && e->block[b0].channel + e->block[b0].mc <= c0) b0++;
  while (b0 < b1 && e->block[b1 - 1].channel >= c1) b1--;
  if (b0 == b1) return;
  tile->first_channel = e->block[b0].channel;
  tile->first_n = tile->n;
  const uc_layout *conv = &tile->layout[uc_conv_step(run->pass)];
  if (e->products) {
    uc_layout layout = uc_panel_layout(tile, conv);
    uc_sums sums = {tile->scratch + run->tiling.sums_at,
                    &layout,
                    tile->first_channel,
                    tile->first_n,
                    tile->samples,
                    conv->count[2]};
    uc_product_sums(tile, &sums, b0, b1);
  } else {
    uc_panel_sums(tile, conv, b0, b1);
  }
  int64_t end = e->block[b1 - 1].channel + e->block[b1 - 1].mc;
  for (int64_t s = 0; s < tile->samples; s++) {
    tile->n = tile->first_n + s;
    run_rounds(tile, tile->first_channel, end, end, segment);
  }
}

void uc_tile_run(uc_tile *tile, const uc_box *target, int64_t segment) {
  const uc_run *run = tile->run;
  const upconv_epilogue *tail = run->engine->lowered->tail;
  uc_tile_boxes(run->pass, tail, target, tile->box);
  uc_tile_layouts(run->pass, tail, tile->box, &run->tiling, tile->layout);
  tile->x_count = 0;
  /* with all channels at once the rounds are the convolution's; else every step has the target's channels */
  int64_t channels = run->pass->step[run->pass->target].channels;
  if (run->pass->all_channels) {
    int64_t conv = run->pass->conv ? run->shape[0][1] : 1;
    if (run->tiling.panels)
      run_part(tile, 0, conv, segment);
    else
      run_rounds(tile, 0, conv, conv, segment);
    return;
  }
  const upconv_tensor *to = &run->kept[run->pass->result];
  int64_t c0 = run->pass->reduce_op >= 0 ? 0 : to->offset[1];
  int64_t c1 = run->pass->reduce_op >= 0 ? channels : to->offset[1] + to->shape[1];
  if (run->tiling.panels)
    run_part(tile, c0, c1, segment);
  else
    run_rounds(tile, c0, c1, channels, segment);
}
