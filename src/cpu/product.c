/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products first, then sums. For a run of input positions and one tap, the sums over input channels of input times weight
 * are a small matrix product: no border is read, every product is one that the result needs, and the inputs are gathered
 * once for all taps. Then each row of these is added to the outputs that the tap takes it to. Where a group has few output
 * channels, several taps are computed together, so that the inner loop has columns enough.
 *
 * Input positions ascend and taps descend, so an output's contributions come in the order of the inputs, however positions
 * are dealt to tiles and runs: chunk by chunk, and within a chunk input by input.
 */
#include <string.h>

#include "../checked.h"
#include "engine.h"

/* Blocks [b0, b1) of one group, its chunk of channels [e0, e1), and a run of positions [begin, end) of `in`. Positions lie
   in the order D, H, sample, W: rows that lack the same taps at borders are together. */
typedef struct work {
  const uc_tile *tile;
  const uc_sums *to;
  int64_t b0, b1, e0, e1;
  uc_range in[UC_AXES];
  int64_t begin, end;
  float *x, *products;
} work;

enum { PITCH = UC_RUN + UC_PAD };

static int64_t length(uc_range range) { return uc_max(0, range.end - range.begin); }

/* Positions of one pair of d and h. */
static int64_t row_positions(const work *k) { return k->to->samples * length(k->in[2]); }

/* ---- inputs ---- */

/* Inputs that the tile reads and that there are. */
static void find_inputs(work *k) {
  const uc_axis *axis = k->tile->run->engine->lowered->conv.axis;
  const upconv_tensor *x = &k->tile->run->call->x;
  const uc_box *box = &k->to->layout->box;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t begin = uc_input_begin(&axis[a], box->begin[a]);
    k->in[a].begin = uc_max(begin, x->offset[a + 2]);
    k->in[a].end =
        uc_min(begin + uc_input_count(&axis[a], box->size[a]), x->offset[a + 2] + x->shape[a + 2]);
  }
}

static int64_t first_channel(const work *k) {
  const uc_engine *e = k->tile->run->engine;
  return e->block[k->b0].group * e->group_in + k->e0;
}

/* A part of a row: inputs [w, w + count) of row (d, h) of sample n. */
typedef struct part {
  int64_t n, d, h, w, count;
} part;

static part find_part(const work *k, int64_t position) {
  int64_t width = length(k->in[2]), row = position / width, samples = k->to->samples;
  part p = {.n = k->to->n + row % samples, .w = k->in[2].begin + position % width};
  p.h = k->in[1].begin + row / samples % length(k->in[1]);
  p.d = k->in[0].begin + row / samples / length(k->in[1]);
  p.count = uc_min(k->in[2].end - p.w, k->end - position);
  return p;
}

/* From memory of any type and order, at once: by way of a tile of one row. */
static void gather_converted(const work *k, const part *p, float *dst) {
  const uc_run *run = k->tile->run;
  float *row = k->tile->scratch + run->tiling.row_at;
  uc_layout layout;
  uc_box box = {.begin = {p->d, p->h, p->w}, .size = {1, 1, p->count}};
  uc_layout_init(&layout, &box, (const int64_t[]){1, 1, 1}, UC_RUN);
  int64_t channels = k->e1 - k->e0;
  uc_layout_load(run->engine->isa, &layout, row, &run->call->x, p->n, first_channel(k), channels);
  run->engine->isa->copy_pieces(&(uc_piece){dst, row, p->count}, 1, channels, PITCH,
                                layout.channel);
}

/* The chunk's inputs of the run, and zeros up to a whole vector. Rows that follow each other in memory are one piece. */
static void gather(const work *k) {
  const upconv_tensor *x = &k->tile->run->call->x;
  bool direct = x->dtype == UPCONV_F32 && x->stride[4] == 1;
  uc_piece *piece = (uc_piece *)(void *)(k->tile->scratch + k->tile->run->tiling.pieces_at);
  int64_t count = 0;
  for (int64_t i = k->begin; i < k->end;) {
    part p = find_part(k, i);
    float *dst = k->x + (i - k->begin);
    i += p.count;
    if (!direct) {
      gather_converted(k, &p, dst);
      continue;
    }
    const float *src = (const float *)x->data + (p.n - x->offset[0]) * x->stride[0] +
                       (first_channel(k) - x->offset[1]) * x->stride[1] +
                       (p.d - x->offset[2]) * x->stride[2] + (p.h - x->offset[3]) * x->stride[3] +
                       (p.w - x->offset[4]);
    if (count > 0 && piece[count - 1].src + piece[count - 1].n == src)
      piece[count - 1].n += p.count;
    else
      piece[count++] = (uc_piece){dst, src, p.count};
  }
  int64_t n = k->end - k->begin;
  if (n % UC_PAD != 0) piece[count++] = (uc_piece){k->x + n, NULL, UC_PAD - n % UC_PAD};
  k->tile->run->engine->isa->copy_pieces(piece, count, k->e1 - k->e0, PITCH, x->stride[1]);
}

/* ---- taps ---- */

/* Where input i goes along an axis with kernel element t, from the box's first output. */
static int64_t target(const work *k, int a, int64_t i, int64_t t) {
  const uc_axis *axis = &k->tile->run->engine->lowered->conv.axis[a];
  return i * axis->stride - axis->pad_begin + t * axis->dilation - k->to->layout->box.begin[a];
}

static void kernel_element(const work *k, int64_t flat, int64_t t[UC_AXES]) {
  const uc_axis *axis = k->tile->run->engine->lowered->conv.axis;
  t[2] = flat % axis[2].kernel;
  t[1] = flat / axis[2].kernel % axis[1].kernel;
  t[0] = flat / axis[2].kernel / axis[1].kernel;
}

static bool lands(const work *k, int a, int64_t i, int64_t t) {
  int64_t o = target(k, a, i, t);
  return o >= 0 && o < k->to->layout->box.size[a];
}

/* Inputs along W that the kernel element t takes into the box; *shift: from an input to its position in *residue. */
static uc_range landing(const work *k, int64_t t, int64_t *residue, int64_t *shift) {
  const uc_layout *l = k->to->layout;
  int64_t first = target(k, 2, 0, t);
  *residue = uc_mod(first, l->split[2]);
  *shift = uc_floor_div(first, l->split[2]);
  int64_t positions = uc_max(0, uc_layout_positions(l, 2, *residue));
  return (uc_range){uc_max(k->in[2].begin, -*shift), uc_min(k->in[2].end, positions - *shift)};
}

/* Spans of the run's products that the kernel element takes to outputs. */
static int64_t find_spans(const work *k, const int64_t t[UC_AXES], uc_span *span) {
  const uc_layout *l = k->to->layout;
  int64_t residue, shift, count = 0, width = length(k->in[2]), per_row = row_positions(k);
  uc_range w = landing(k, t[2], &residue, &shift);
  if (w.begin >= w.end) return 0;
  for (int64_t row = k->begin / per_row; row * per_row < k->end; row++) {
    int64_t d = k->in[0].begin + row / length(k->in[1]);
    int64_t h = k->in[1].begin + row % length(k->in[1]);
    if (!lands(k, 0, d, t[0]) || !lands(k, 1, h, t[1])) continue;
    int64_t to = uc_layout_row(l, target(k, 0, d, t[0]), target(k, 1, h, t[1]), residue) + shift;
    for (int64_t n = 0; n < k->to->samples; n++) {
      int64_t at = row * per_row + n * width - k->in[2].begin; /* the position of w = 0 */
      int64_t first = uc_max(w.begin, k->begin - at), end = uc_min(w.end, k->end - at);
      if (first < end)
        span[count++] =
            (uc_span){to + n * k->to->sample_pitch + first, at + first - k->begin, end - first};
    }
  }
  return count;
}

/* The part of the run from `from` on, of rows that follow each other, whose products with some of the kernel elements
   [first, first - taps) are needed; empty: none is left. */
static uc_range needed(const work *k, int64_t first, int64_t taps, int64_t from) {
  int64_t per_row = row_positions(k);
  uc_range found = {k->end, k->end};
  for (int64_t row = from / per_row; row * per_row < k->end; row++) {
    int64_t d = k->in[0].begin + row / length(k->in[1]);
    int64_t h = k->in[1].begin + row % length(k->in[1]);
    bool any = false;
    for (int64_t i = 0; i < taps && !any; i++) {
      int64_t t[UC_AXES];
      kernel_element(k, first - i, t);
      any = lands(k, 0, d, t[0]) && lands(k, 1, h, t[1]);
    }
    if (any && found.begin == k->end) found.begin = uc_max(from, row * per_row);
    if (!any && found.begin < k->end) return (uc_range){found.begin, row * per_row};
  }
  return found;
}

/* ---- products and sums ---- */

/* Products of one block with `taps` kernel elements, for the parts of the run. */
static void multiply(const work *k, const uc_range *parts, int64_t count, int mc,
                     const float *weight) {
  int64_t zero = 0;
  uc_conv_block block = {.mc = mc, .taps = 1, .channels = k->e1 - k->e0, .offset = &zero};
  block.weight_row = &zero;
  block.weight = weight;
  block.x_stride = block.dst_stride = PITCH;
  block.first = true;
  for (int64_t i = 0; i < count; i++) {
    block.x = k->x + (parts[i].begin - k->begin);
    block.dst = k->products + (parts[i].begin - k->begin);
    block.n = parts[i].end - parts[i].begin;
    k->tile->run->engine->isa->conv(&block);
  }
}

/* Kernel elements first, first - 1, ... for all blocks. */
static void run_taps(const work *k, int64_t first, int64_t taps, const float *weight) {
  const uc_run *run = k->tile->run;
  const uc_engine *e = run->engine;
  uc_range parts[UC_RUN];
  int64_t count = 0, spans[UC_MAX_MC];
  for (uc_range p = needed(k, first, taps, k->begin); p.begin < p.end;
       p = needed(k, first, taps, p.end))
    parts[count++] = p;
  if (count == 0) return;
  uc_span *span = (uc_span *)(void *)(k->tile->scratch + run->tiling.pieces_at);
  for (int64_t i = 0; i < taps; i++) {
    int64_t t[UC_AXES];
    kernel_element(k, first - i, t);
    spans[i] = find_spans(k, t, span + i * UC_RUN);
  }
  for (int64_t b = k->b0; b < k->b1; b++) {
    const uc_block *block = &e->block[b];
    int64_t local = block->channel - block->group * e->group_out;
    multiply(k, parts, count, (int)taps * block->mc, weight + local * taps * (k->e1 - k->e0));
    float *dst = k->to->data + (block->channel - k->to->channel) * k->to->layout->channel;
    for (int64_t i = 0; i < taps; i++)
      e->isa->add_spans(dst, k->products + i * block->mc * PITCH, span + i * UC_RUN, spans[i],
                        block->mc, k->to->layout->channel, PITCH);
  }
}

static void run_positions(const work *k) {
  const uc_engine *e = k->tile->run->engine;
  gather(k);
  const float *weight = k->tile->run->packed + e->weight_at +
                        e->group_out * e->kernel_size *
                            (e->block[k->b0].group * e->group_in + k->e0);
  for (int64_t i = 0; i < e->kernel_size; i += e->tap_group) {
    int64_t taps = uc_min(e->tap_group, e->kernel_size - i);
    run_taps(k, e->kernel_size - 1 - i, taps, weight);
    weight += taps * e->group_out * (k->e1 - k->e0);
  }
}

static void run_group(work *k) {
  const uc_engine *e = k->tile->run->engine;
  int64_t count = length(k->in[0]) * length(k->in[1]) * row_positions(k);
  int64_t vectors = uc_ceil_div(count, UC_PAD), runs = uc_ceil_div(count, UC_RUN);
  for (k->e0 = 0; k->e0 < e->group_in; k->e0 += e->chunk) {
    k->e1 = uc_min(k->e0 + e->chunk, e->group_in);
    for (int64_t i = 0; i < runs; i++) {
      k->begin = i * vectors / runs * UC_PAD;
      k->end = uc_min(count, (i + 1) * vectors / runs * UC_PAD);
      run_positions(k);
    }
  }
}

void uc_product_sums(const uc_tile *tile, const uc_sums *to, int64_t b0, int64_t b1) {
  const uc_run *run = tile->run;
  const uc_engine *e = run->engine;
  int64_t pitch = to->layout->channel, n = pitch - UC_PAD;
  int64_t c1 = e->block[b1 - 1].channel + e->block[b1 - 1].mc - to->channel;
  for (int64_t c = e->block[b0].channel - to->channel; c < c1; c++)
    memset(to->data + c * pitch, 0, (size_t)n * sizeof(float));
  work k = {.tile = tile, .to = to};
  k.x = tile->scratch + run->tiling.panel_at;
  k.products = k.x + e->chunk * PITCH + UC_PAD;
  find_inputs(&k);
  for (int64_t b = b0; b < b1;) {
    k.b0 = b;
    while (b < b1 && e->block[b].group == e->block[k.b0].group) b++;
    k.b1 = b;
    run_group(&k);
  }
  for (int64_t c = e->block[b0].channel - to->channel; c < c1; c++) {
    uc_elementwise add = {.kind = UPCONV_OP_ADD, .dst = to->data + c * pitch, .n = n};
    add.operand[0].vector = add.dst;
    add.operand[1].scalar = run->packed[e->bias_at + to->channel + c];
    e->isa->elementwise(&add);
  }
}
