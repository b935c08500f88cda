/* SPDX-License-Identifier: Apache-2.0 */
/* One operator on the tile under way: elementwise, pooling windows, channels. */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "engine.h"

static const upconv_op *op_of(const uc_tile *tile, const uc_step *step) {
  return &tile->run->engine->lowered->tail->op[step->op];
}

/* ---- operands ---- */

/* An operand's tile in a given layout: its own buffer, or a copy where the layouts differ. */
static const float *operand_in(uc_tile *tile, const uc_step *step, int i, const uc_layout *layout,
                               uc_layout *own) {
  const uc_step *source = &tile->run->pass->step[step->source[i]];
  const uc_layout *from = &tile->layout[step->source[i]];
  float *buffer = uc_tile_slot(tile, source->slot);
  *own = *from;
  if (step->copy[i] < 0 || memcmp(from, layout, sizeof *from) == 0) return buffer;
  float *copy = uc_tile_slot(tile, step->copy[i]);
  uc_layout_copy(tile->run->engine->isa, layout, copy, from, buffer, uc_tile_channels(tile, source),
                 tile->scratch + tile->run->tiling.rows_at);
  *own = *layout;
  return copy;
}

/* Parameters, constants, and values that are one number per sample and channel. */
static float scalar_operand(const uc_tile *tile, const upconv_operand *o, int64_t c, float absent) {
  const uc_run *run = tile->run;
  if (o->kind == UPCONV_OPERAND_CONSTANT) return (float)o->constant;
  if (o->kind == UPCONV_OPERAND_PARAM)
    return run
        ->packed[run->engine->param_at[o->index] + (run->engine->param_size[o->index] > 1 ? c : 0)];
  if (o->kind == UPCONV_OPERAND_NONE) return absent;
  const upconv_tensor *t =
      o->kind == UPCONV_OPERAND_TENSOR ? &run->tensor[o->index] : &run->kept[o->index];
  return (float)uc_load(t->data, t->dtype,
                        t->stride[0] * (tile->n - t->offset[0]) +
                            t->stride[1] * (c - t->offset[1]));
}

/* ---- elementwise ---- */

static void run_elementwise(uc_tile *tile, int k) {
  const uc_step *step = &tile->run->pass->step[k];
  const upconv_op *op = op_of(tile, step);
  const uc_layout *layout = &tile->layout[k];
  const float *vector[UPCONV_MAX_OPERANDS] = {NULL};
  int64_t pitch[UPCONV_MAX_OPERANDS] = {0};
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    if (step->source[i] < 0) continue;
    uc_layout own;
    vector[i] = operand_in(tile, step, i, layout, &own);
    pitch[i] = tile->run->pass->step[step->source[i]].channels == 1 ? 0 : own.channel;
  }
  uc_elementwise e = {.kind = op->kind, .n = layout->channel - UC_PAD};
  for (int i = 0; i < UPCONV_MAX_ATTRS; i++) e.attr[i] = (float)op->attr[i];
  int64_t first = tile->run->pass->all_channels ? 0 : tile->c0;
  for (int64_t c = 0; c < uc_tile_channels(tile, step); c++) {
    e.dst = uc_tile_slot(tile, step->slot) + c * layout->channel;
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      e.operand[i].vector = vector[i] ? vector[i] + c * pitch[i] : NULL;
      if (!vector[i])
        e.operand[i].scalar =
            scalar_operand(tile, &op->operand[i], first + c, i == 1 ? 1.0F : 0.0F);
    }
    tile->run->engine->isa->elementwise(&e);
  }
}

/* ---- pooling ---- */

typedef void (*accumulate)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                           int64_t stride, int64_t n, bool first);

/* What a pooling operator reads: the operand's tile with its layout, and the extent of the whole value. */
typedef struct pool {
  uc_tile *tile;
  const upconv_op *op;
  const upconv_window *window;
  const uc_layout *in, *out;
  int64_t extent[UC_AXES];
} pool;

/* Gives elements outside the value what leaves the result alone. */
static void fill_row(const uc_layout *l, float *channel, int64_t d, int64_t h, uc_range valid,
                     float value) {
  for (int64_t w = 0; w < l->box.size[2]; w++) {
    if (w == valid.begin && valid.end > valid.begin) w = valid.end;
    if (w < l->box.size[2])
      channel[uc_layout_row(l, d, h, w % l->split[2]) + w / l->split[2]] = value;
  }
}

static bool inside_all(const pool *p) {
  for (int a = 0; a < UC_AXES; a++)
    if (p->in->box.begin[a] < 0 || p->in->box.begin[a] + p->in->box.size[a] > p->extent[a])
      return false;
  return true;
}

static void fill_outside(const pool *p, float *channel, float value) {
  const uc_box *box = &p->in->box;
  uc_range valid = {uc_max(0, -box->begin[2]), uc_min(box->size[2], p->extent[2] - box->begin[2])};
  for (int64_t d = 0; d < box->size[0]; d++)
    for (int64_t h = 0; h < box->size[1]; h++) {
      int64_t gd = box->begin[0] + d, gh = box->begin[1] + h;
      bool inside = gd >= 0 && gd < p->extent[0] && gh >= 0 && gh < p->extent[1];
      fill_row(p->in, channel, d, h, inside ? valid : (uc_range){0, 0}, value);
    }
}

enum { TAPS = 64 }; /* of a window that are pooled at once */

/* Where tap number t of the window begins in a channel of the operand. */
static int64_t tap_begin(const pool *p, int64_t t) {
  const upconv_window *w = p->window;
  int64_t tap[UC_AXES] = {t / w->kernel[2] / w->kernel[1], t / w->kernel[2] % w->kernel[1],
                          t % w->kernel[2]};
  int64_t at[UC_AXES];
  for (int a = 0; a < UC_AXES; a++)
    at[a] = p->out->box.begin[a] * w->stride[a] - w->pad_begin[a] + tap[a] * w->dilation[a] -
            p->in->box.begin[a];
  return uc_layout_row(p->in, at[0], at[1], at[2] % p->in->split[2]) + at[2] / p->in->split[2];
}

/* Some taps of the window, for all outputs of a channel. The window's stride is a multiple of the operand's split, so
   neighbouring outputs read equally spaced positions of one residue. */
static void pool_taps(const pool *p, accumulate add, const float *channel, const int64_t *tap,
                      int64_t taps, bool first, float *dst) {
  int64_t step[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) step[a] = p->window->stride[a] / p->in->split[a];
  const int64_t *n = p->out->box.size;
  bool run = step[1] == 1 && step[2] == 1 &&
             p->in->row == p->out->row; /* rows of a plane follow each other alike */
  for (int64_t d = 0; d < n[0]; d++) {
    const float *from = channel + d * step[0] * p->in->plane;
    float *to = dst + d * p->out->plane;
    if (run) {
      add(to, from, tap, taps, 1, (n[1] - 1) * p->out->row + n[2], first);
      continue;
    }
    for (int64_t h = 0; h < n[1]; h++)
      add(to + h * p->out->row, from + h * step[1] * p->in->row, tap, taps, step[2], n[2], first);
  }
}

static void average_row(const pool *p, const int64_t out[2], float *dst) {
  int64_t o[UC_AXES] = {p->out->box.begin[0] + out[0], p->out->box.begin[1] + out[1], 0};
  for (int64_t i = 0; i < p->out->box.size[2]; i++) {
    o[2] = p->out->box.begin[2] + i;
    dst[i] *= (float)(1.0 / uc_window_divisor(p->window, o, p->extent));
  }
}

static void average_channel(const pool *p, float *out) {
  int64_t at[2];
  for (at[0] = 0; at[0] < p->out->box.size[0]; at[0]++)
    for (at[1] = 0; at[1] < p->out->box.size[1]; at[1]++)
      average_row(p, at, out + at[0] * p->out->plane + at[1] * p->out->row);
}

static bool keeps_least(const uc_tile *tile, const upconv_op *op, int64_t channel) {
  return op->kind == UPCONV_OP_EXTREME_POOL &&
         scalar_operand(tile, &op->operand[1], channel, 0) < 0;
}

bool uc_pool_keeps_least(const uc_tile *tile, const uc_step *step, int64_t channel) {
  return keeps_least(tile, op_of(tile, step), channel);
}

/* How a channel is pooled, and what leaves every number alone. */
static accumulate accumulation(const pool *p, int64_t channel, float *identity) {
  const uc_isa *isa = p->tile->run->engine->isa;
  if (p->op->kind == UPCONV_OP_AVG_POOL) {
    *identity = 0;
    return isa->accumulate_add;
  }
  bool low = keeps_least(p->tile, p->op, channel);
  *identity = low ? INFINITY : -INFINITY;
  return low ? isa->accumulate_min : isa->accumulate_max;
}

static void run_pool(uc_tile *tile, int k) {
  const uc_step *step = &tile->run->pass->step[k];
  const upconv_op *op = op_of(tile, step);
  uc_layout natural, in;
  uc_layout_init(&natural, &tile->layout[step->source[0]].box, (const int64_t[]){1, 1, 1}, 0);
  float *src = (float *)(uintptr_t)operand_in(tile, step, 0, &natural, &in);
  pool p = {.tile = tile, .op = op, .window = &op->window, .in = &in, .out = &tile->layout[k]};
  memcpy(p.extent, &tile->run->shape[op->operand[0].index][2], sizeof p.extent);
  int64_t first = tile->run->pass->all_channels ? 0 : tile->c0;
  int64_t window = op->window.kernel[0] * op->window.kernel[1] * op->window.kernel[2];
  bool inside = inside_all(&p);
  for (int64_t t0 = 0; t0 < window; t0 += TAPS) {
    int64_t tap[TAPS], taps = uc_min(TAPS, window - t0);
    for (int64_t t = 0; t < taps; t++) tap[t] = tap_begin(&p, t0 + t);
    for (int64_t c = 0; c < uc_tile_channels(tile, step); c++) {
      float *out = uc_tile_slot(tile, step->slot) + c * p.out->channel, identity;
      accumulate add = accumulation(&p, first + c, &identity);
      if (t0 == 0 && !inside) fill_outside(&p, src + c * in.channel, identity);
      pool_taps(&p, add, src + c * in.channel, tap, taps, t0 == 0, out);
      if (t0 + taps == window && op->kind == UPCONV_OP_AVG_POOL) average_channel(&p, out);
    }
  }
}

/* ---- over channels ---- */

static void run_channels(uc_tile *tile, int k) {
  enum { PIECE = 512 };
  const uc_step *step = &tile->run->pass->step[k];
  const upconv_op *op = op_of(tile, step);
  const uc_layout *layout = &tile->layout[k];
  uc_layout in;
  const float *src = operand_in(tile, step, 0, layout, &in);
  float *dst = uc_tile_slot(tile, step->slot),
        *scratch = tile->scratch + tile->run->tiling.channels_at;
  for (int64_t i = 0; i < layout->channel - UC_PAD; i += PIECE)
    tile->run->engine->isa->channels(op->kind, dst + i, layout->channel, src + i, in.channel,
                                     tile->run->pass->step[step->source[0]].channels,
                                     uc_min(PIECE, layout->channel - UC_PAD - i), scratch);
}

void uc_op_tile(uc_tile *tile, int k) {
  switch (uc_op_classify(op_of(tile, &tile->run->pass->step[k])->kind)) {
  case UC_CLASS_ELEMENTWISE:
    run_elementwise(tile, k);
    break;
  case UC_CLASS_POOL:
    run_pool(tile, k);
    break;
  case UC_CLASS_CHANNELS:
  case UC_CLASS_REDUCE:
    run_channels(tile, k);
    break;
  }
}
