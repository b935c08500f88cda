/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The convolution of deep channels. A panel is the inputs of up to UC_PANEL positions of one residue, gathered: for each
 * tap, for each channel of the chunk, a row of them. Rows of the residue follow each other in it, those of all samples
 * of the tile too, so that vectors are full however short the rows are; and what the inner loop reads is one stream.
 * Each number gathered serves all output channels of the round. The sums stay in memory of their own, dense, until all
 * chunks are added; then the rounds of tile.c take them sample by sample.
 */
#include <string.h>

#include "../checked.h"
#include "engine.h"
#include "residue.h"

/* Blocks [b0, b1) of one group, its chunk of channels [e0, e1), and the residue under way. */
typedef struct work {
  const uc_tile *tile;
  int64_t b0, b1, e0, e1;
  uc_residue r[UC_AXES];
  float *sums; /* of the first block */
  bool
      keep; /* the residue's panels lie apart, all its taps in them, so that another may read them */
  bool kept; /* they do already: a residue before gathered them */
} work;

/* A part of a row: positions [w, w + count) of row (d, h) of a sample. */
typedef struct piece {
  int64_t n, d, h, w, count;
} piece;

/* Rows with the same d and h lie together, so that panels lack the same taps at borders. */
static piece find_piece(const work *k, int64_t position, int64_t end) {
  int64_t width = k->r[2].positions, row = position / width, samples = k->tile->samples;
  piece p = {.n = k->tile->n + row % samples, .w = position % width};
  p.h = row / samples % k->r[1].positions;
  p.d = row / samples / k->r[1].positions;
  p.count = uc_min(width - p.w, end - position);
  return p;
}

/* ---- gathering ---- */

/* What a panel is made of, until it is copied at once. */
typedef struct pieces {
  uc_piece *piece;
  int64_t count;
} pieces;

static void add_piece(pieces *all, float *dst, const float *src, int64_t n) {
  if (n > 0) all->piece[all->count++] = (uc_piece){dst, src, n};
}

static int64_t first_channel(const work *k) {
  const uc_engine *e = k->tile->run->engine;
  return e->block[k->b0].group * e->group_in + k->e0;
}

/* From memory of any type and order, at once: by way of a tile of one row. */
static void gather_converted(const work *k, const piece *p, const int64_t in[UC_AXES], float *dst) {
  const uc_run *run = k->tile->run;
  float *row = k->tile->scratch + run->tiling.row_at;
  uc_layout layout;
  uc_box box = {.begin = {in[0], in[1], in[2]}, .size = {1, 1, p->count}};
  uc_layout_init(&layout, &box, (const int64_t[]){1, 1, 1}, UC_PANEL);
  int64_t channels = k->e1 - k->e0;
  uc_layout_load(run->engine->isa, &layout, row, &run->call->x, p->n, first_channel(k), channels);
  run->engine->isa->copy_pieces(&(uc_piece){dst, row, p->count}, 1, channels, UC_PANEL,
                                layout.channel);
}

static bool inside(const upconv_tensor *x, int a, int64_t i) {
  return i >= x->offset[a + 2] && i < x->offset[a + 2] + x->shape[a + 2];
}

static void gather_piece(const work *k, const piece *p, const int64_t in[UC_AXES], float *dst,
                         pieces *all) {
  const upconv_tensor *x = &k->tile->run->call->x;
  int64_t begin = x->offset[4], end = begin + x->shape[4];
  int64_t j0 = uc_min(p->count, uc_max(0, begin - in[2]));
  int64_t j1 = uc_max(j0, uc_min(p->count, end - in[2]));
  if (!inside(x, 0, in[0]) || !inside(x, 1, in[1])) j1 = j0 = 0;
  if (j1 > j0 && (x->dtype != UPCONV_F32 || x->stride[4] != 1)) {
    gather_converted(k, p, in, dst);
    return;
  }
  add_piece(all, dst, NULL, j0);
  if (j1 > j0) {
    int64_t at = (p->n - x->offset[0]) * x->stride[0] +
                 (first_channel(k) - x->offset[1]) * x->stride[1] +
                 (in[0] - x->offset[2]) * x->stride[2] + (in[1] - x->offset[3]) * x->stride[3] +
                 in[2] + j0 - begin;
    add_piece(all, dst + j0, (const float *)x->data + at, j1 - j0);
  }
  add_piece(all, dst + j1, NULL, p->count - j1);
}

/* The rows of one tap for positions [begin, end). */
static void gather_tap(const work *k, const int64_t tap[UC_AXES], int64_t begin, int64_t end,
                       float *dst, pieces *all) {
  for (int64_t i = begin; i < end;) {
    piece p = find_piece(k, i, end);
    int64_t j[UC_AXES] = {p.d, p.h, p.w}, in[UC_AXES];
    for (int a = 0; a < UC_AXES; a++)
      in[a] = k->r[a].input + j[a] - tap[a] * k->r[a].phase->shift_step;
    gather_piece(k, &p, in, dst + (i - begin), all);
    i += p.count;
  }
  int64_t n = end - begin;
  add_piece(all, dst + n, NULL, uc_ceil_div(n, UC_PAD) * UC_PAD - n);
}

/* ---- one panel ---- */

/* Taps that reach the input from some row of positions [begin, end). */
static void find_live(const work *k, int64_t begin, int64_t end, uc_range live[UC_AXES]) {
  const int64_t *size = k->tile->run->in_size;
  piece first = find_piece(k, begin, end), last = find_piece(k, end - 1, end);
  bool plane = first.d == last.d;
  live[0] = uc_residue_live_taps(&k->r[0], size[0], first.d, last.d + 1);
  live[1] = uc_residue_live_taps(&k->r[1], size[1], plane ? first.h : 0,
                                 plane ? last.h + 1 : k->r[1].positions);
  live[2] = uc_residue_live_taps(&k->r[2], size[2], 0, k->r[2].positions);
}

static int64_t length(uc_range range) { return uc_max(0, range.end - range.begin); }

/* The sums over taps [t0, t1) of `live`, which are gathered, for all blocks. */
static void run_blocks(const work *k, int64_t begin, int64_t end, int64_t taps, bool first,
                       bool last) {
  const uc_run *run = k->tile->run;
  const uc_engine *e = run->engine;
  const uc_tiling *t = &run->tiling;
  int64_t *offset = (int64_t *)(void *)(k->tile->scratch + t->taps_at);
  uc_conv_block block = {.taps = taps, .channels = k->e1 - k->e0, .x_stride = UC_PANEL};
  block.offset = offset;
  block.weight_row = offset + e->max_taps;
  block.x = k->tile->scratch + t->panel_at;
  block.first = first;
  block.dst_stride = t->sums_channel;
  block.n = end - begin;
  for (int64_t i = k->b0; i < k->b1; i++) {
    const uc_block *b = &e->block[i];
    block.mc = b->mc;
    block.weight = uc_phase_weights(e, run->packed, b, k->r, k->e0, k->e1);
    block.bias = last ? run->packed + e->bias_at + b->channel : NULL;
    block.dst = k->sums + (b->channel - e->block[k->b0].channel) * t->sums_channel + begin;
    e->isa->conv(&block);
  }
}

static int64_t phase_taps(const work *k) {
  return k->r[0].phase->count * k->r[1].phase->count * k->r[2].phase->count;
}

static void run_panel(const work *k, int64_t panel, int64_t begin, int64_t end) {
  const uc_run *run = k->tile->run;
  const uc_engine *e = run->engine;
  int64_t *offset = (int64_t *)(void *)(k->tile->scratch + run->tiling.taps_at);
  int64_t channels = k->e1 - k->e0, size = channels * UC_PANEL;
  bool last_chunk = k->e1 >= e->group_in;
  uc_range live[UC_AXES];
  find_live(k, begin, end, live);
  int64_t count = length(live[0]) * length(live[1]) * length(live[2]), held = 0;
  int64_t slot = k->keep ? panel * phase_taps(k) : 0;
  pieces all = {(uc_piece *)(void *)(k->tile->scratch + run->tiling.pieces_at), 0};
  if (count == 0) run_blocks(k, begin, end, 0, k->e0 == 0, last_chunk);
  for (int64_t i = 0; i < count; i++) {
    int64_t tap[UC_AXES] = {
        live[0].begin + i / length(live[2]) / length(live[1]),
        live[1].begin + i / length(live[2]) % length(live[1]),
        live[2].begin + i % length(live[2]),
    };
    float *dst = k->tile->scratch + run->tiling.panel_at + (slot + held) * size;
    if (!k->kept) gather_tap(k, tap, begin, end, dst, &all);
    int64_t t = (tap[0] * k->r[1].phase->count + tap[1]) * k->r[2].phase->count + tap[2];
    offset[held] = (slot + held) * size;
    offset[e->max_taps + held++] = t * channels;
    if (held < run->tiling.panel_taps && i + 1 < count) continue;
    e->isa->copy_pieces(all.piece, all.count, channels, UC_PANEL, run->call->x.stride[1]);
    all.count = 0;
    run_blocks(k, begin, end, held, k->e0 == 0 && i + 1 == held, last_chunk && i + 1 == count);
    held = 0;
  }
}

/* Whether every position has the same inputs, tap by tap: as in all phases of a kernel that is no larger than the stride. */
static bool same_inputs(const uc_residue a[UC_AXES], const uc_residue b[UC_AXES]) {
  for (int i = 0; i < UC_AXES; i++)
    if (a[i].input != b[i].input || a[i].phase->count != b[i].phase->count) return false;
  return true;
}

/* Panels of nearly equal numbers of vectors. */
static void run_residue(work *k, const uc_residue before[UC_AXES]) {
  int64_t count = k->tile->samples;
  for (int a = 0; a < UC_AXES; a++) count *= k->r[a].positions;
  int64_t vectors = uc_ceil_div(count, UC_PAD), panels = uc_ceil_div(count, UC_PANEL);
  k->kept = k->keep && same_inputs(before, k->r);
  k->keep = panels * phase_taps(k) <= k->tile->run->tiling.panel_taps;
  for (int64_t i = 0; i < panels; i++)
    run_panel(k, i, i * vectors / panels * UC_PAD,
              uc_min(count, (i + 1) * vectors / panels * UC_PAD));
}

/* ---- all of it ---- */

/* All residues have as many positions as the longest: what is beyond the box is junk. */
static uc_residue whole_residue(const work *k, const uc_layout *conv, int a, int64_t r) {
  uc_residue found = uc_residue_find(k->tile->run->engine, conv, a, r);
  found.positions = conv->count[a];
  return found;
}

static void run_chunk(work *k, const uc_layout *conv) {
  uc_residue before[UC_AXES];
  float *sums = k->sums;
  k->keep = false;
  for (int64_t d = 0; d < conv->split[0] && d < conv->box.size[0]; d++) {
    k->r[0] = whole_residue(k, conv, 0, d);
    for (int64_t h = 0; h < conv->split[1] && h < conv->box.size[1]; h++) {
      k->r[1] = whole_residue(k, conv, 1, h);
      for (int64_t w = 0; w < conv->split[2] && w < conv->box.size[2]; w++) {
        k->r[2] = whole_residue(k, conv, 2, w);
        int64_t residue = (d * conv->split[1] + h) * conv->split[2] + w;
        k->sums = sums + residue * k->tile->run->tiling.sums_residue;
        run_residue(k, before);
        memcpy(before, k->r, sizeof before);
      }
    }
  }
  k->sums = sums;
}

void uc_panel_sums(const uc_tile *tile, const uc_layout *conv, int64_t b0, int64_t b1) {
  const uc_engine *e = tile->run->engine;
  const uc_tiling *t = &tile->run->tiling;
  for (int64_t b = b0; b < b1;) {
    work k = {.tile = tile, .b0 = b};
    while (b < b1 && e->block[b].group == e->block[k.b0].group) b++;
    k.b1 = b;
    k.sums = tile->scratch + t->sums_at +
             (e->block[k.b0].channel - e->block[b0].channel) * t->sums_channel;
    for (k.e0 = 0; k.e0 < e->group_in; k.e0 += e->chunk) {
      k.e1 = uc_min(k.e0 + e->chunk, e->group_in);
      run_chunk(&k, conv);
    }
  }
}

uc_layout uc_panel_layout(const uc_tile *tile, const uc_layout *conv) {
  const uc_tiling *t = &tile->run->tiling;
  uc_layout sums = *conv;
  sums.row = tile->samples * conv->count[2];
  sums.plane = conv->count[1] * sums.row;
  sums.volume = t->sums_residue;
  sums.channel = t->sums_channel;
  return sums;
}

const float *uc_panel_at(const uc_tile *tile, const uc_layout *conv, int64_t n, int64_t channel) {
  const uc_tiling *t = &tile->run->tiling;
  return tile->scratch + t->sums_at + (channel - tile->first_channel) * t->sums_channel +
         (n - tile->first_n) * conv->count[2];
}

void uc_panel_take(const uc_tile *tile, const uc_layout *conv, float *dst) {
  const uc_isa *isa = tile->run->engine->isa;
  uc_layout sums = uc_panel_layout(tile, conv);
  const float *src = uc_panel_at(tile, conv, tile->n, tile->c0);
  for (int64_t d = 0; d < conv->box.size[0]; d++)
    for (int64_t h = 0; h < conv->box.size[1]; h++)
      for (int64_t w = 0; w < conv->split[2] && w < conv->box.size[2]; w++) {
        uc_piece row = {dst + uc_layout_row(conv, d, h, w), src + uc_layout_row(&sums, d, h, w),
                        uc_layout_positions(conv, 2, w)};
        isa->copy_pieces(&row, 1, tile->c1 - tile->c0, conv->channel, sums.channel);
      }
}
