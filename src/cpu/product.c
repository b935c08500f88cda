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
#include <assert.h>
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
  uc_beside beside;
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
  int64_t width = length(k->in[2]), rows = length(k->in[1]), samples = k->to->samples;
  assert(width > 0 && rows > 0); /* there are positions */
  int64_t row = position / width;
  part p = {.n = k->to->n + row % samples, .w = k->in[2].begin + position % width};
  p.h = k->in[1].begin + row / samples % rows;
  p.d = k->in[0].begin + row / samples / rows;
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

static bool is_direct(const upconv_tensor *x) {
  return x->dtype == UPCONV_F32 && x->stride[4] == 1;
}

static const float *part_at(const work *k, const part *p) {
  const upconv_tensor *x = &k->tile->run->call->x;
  return (const float *)x->data + (p->n - x->offset[0]) * x->stride[0] +
         (first_channel(k) - x->offset[1]) * x->stride[1] + (p->d - x->offset[2]) * x->stride[2] +
         (p->h - x->offset[3]) * x->stride[3] + (p->w - x->offset[4]);
}

/* The chunk's inputs of the run, and zeros up to a whole vector. Rows that follow each other in memory are one piece. */
static void gather(const work *k) {
  const upconv_tensor *x = &k->tile->run->call->x;
  uc_piece *piece = (uc_piece *)(void *)(k->tile->scratch + k->tile->run->tiling.pieces_at);
  int64_t count = 0;
  for (int64_t i = k->begin; i < k->end;) {
    part p = find_part(k, i);
    float *dst = k->x + (i - k->begin);
    i += p.count;
    if (!is_direct(x)) {
      gather_converted(k, &p, dst);
      continue;
    }
    const float *src = part_at(k, &p);
    if (count > 0 && piece[count - 1].src + piece[count - 1].n == src)
      piece[count - 1].n += p.count;
    else
      piece[count++] = (uc_piece){dst, src, p.count};
  }
  int64_t n = k->end - k->begin;
  if (n % UC_PAD != 0) piece[count++] = (uc_piece){k->x + n, NULL, UC_PAD - n % UC_PAD};
  k->tile->run->engine->isa->copy_pieces(piece, count, k->e1 - k->e0, PITCH, x->stride[1]);
}

/* The inputs of the next run are fetched while this one's are multiplied, where they follow them in memory. */
static void fetch_next(work *k, int64_t count) {
  const upconv_tensor *x = &k->tile->run->call->x;
  uc_fetch_run *run = (uc_fetch_run *)(void *)(k->tile->scratch + k->tile->run->tiling.fetch_at);
  int64_t n = uc_min(k->end - k->begin, count - k->end);
  k->beside.fetch = (uc_fetch){.next = run, .end = run};
  if (n <= 0 || !is_direct(x)) return;
  work last = *k;
  last.end = count;
  part from = find_part(&last, k->end), to = find_part(&last, k->end + n - 1);
  const float *at = part_at(k, &from);
  if (part_at(k, &to) - at != n - 1) return;
  for (int64_t c = 0; c < k->e1 - k->e0; c++, at += x->stride[1])
    run[c] = (uc_fetch_run){(const char *)at, n * (int64_t)sizeof *at / UC_ALIGN + 1};
  k->beside.fetch.end = run + (k->e1 - k->e0);
}

/* ---- taps ---- */

/* Where a kernel element takes inputs along an axis: those of `in` to the box, input i to the float at + i * pitch. */
typedef struct landing {
  uc_range in;
  int64_t at;
} landing;

static landing *landings(const work *k, int a) {
  const uc_axis *axis = k->tile->run->engine->lowered->conv.axis;
  landing *all = (landing *)(void *)(k->tile->scratch + k->tile->run->tiling.taps_at);
  return all + (a > 0 ? axis[0].kernel : 0) + (a > 1 ? axis[1].kernel : 0);
}

static void find_landings(const work *k) {
  const uc_layout *l = k->to->layout;
  const int64_t pitch[UC_AXES] = {l->plane, l->row, 1};
  int64_t residues = l->volume; /* from a residue to the next */
  for (int a = UC_AXES - 1; a >= 0; a--) {
    const uc_axis *axis = &k->tile->run->engine->lowered->conv.axis[a];
    for (int64_t t = 0; t < axis->kernel; t++) {
      int64_t first =
          t * axis->dilation - axis->pad_begin - l->box.begin[a]; /* output of input 0 */
      int64_t residue = uc_mod(first, l->split[a]), shift = uc_floor_div(first, l->split[a]);
      int64_t positions = uc_max(0, uc_layout_positions(l, a, residue));
      uc_range in = {uc_max(k->in[a].begin, -shift), uc_min(k->in[a].end, positions - shift)};
      landings(k, a)[t] = (landing){in, residue * residues + shift * pitch[a]};
    }
    residues *= l->split[a];
  }
}

/* What one kernel element does, axis by axis. */
typedef struct tap {
  const landing *axis[UC_AXES];
} tap;

static tap find_tap(const work *k, int64_t flat) {
  const uc_axis *axis = k->tile->run->engine->lowered->conv.axis;
  int64_t row = flat / axis[2].kernel;
  return (tap){{landings(k, 0) + row / axis[1].kernel, landings(k, 1) + row % axis[1].kernel,
                landings(k, 2) + flat % axis[2].kernel}};
}

static bool holds(uc_range range, int64_t i) { return i >= range.begin && i < range.end; }

/* One pair of d and h: its positions begin at `at`. */
typedef struct pair {
  int64_t d, h, at;
} pair;

static pair find_pair(const work *k, int64_t position) {
  int64_t per_pair = row_positions(k), row = position / per_pair, rows = length(k->in[1]);
  return (pair){k->in[0].begin + row / rows, k->in[1].begin + row % rows, row * per_pair};
}

static void next_pair(const work *k, pair *p) {
  p->at += row_positions(k);
  if (++p->h < k->in[1].end) return;
  p->h = k->in[1].begin;
  p->d++;
}

static bool lands(const tap *t, const pair *p) {
  return holds(t->axis[0]->in, p->d) && holds(t->axis[1]->in, p->h);
}

/* Where the list of spans is under way. */
typedef struct spans {
  uc_span *span;
  int64_t count;
} spans;

static void add_span(spans *all, int64_t dst, int64_t src, int64_t n) {
  uc_span *last = all->span + all->count - 1;
  if (all->count > 0 && last->dst + last->n == dst && last->src + last->n == src)
    last->n += n;
  else if (n > 0)
    all->span[all->count++] = (uc_span){dst, src, n};
}

/* Spans of the run's products that the tap takes to outputs. */
static int64_t find_spans(const work *k, const tap *t, uc_span *span) {
  const uc_layout *l = k->to->layout;
  spans all = {span, 0};
  uc_range w = t->axis[2]->in;
  int64_t width = length(k->in[2]), at = t->axis[0]->at + t->axis[1]->at + t->axis[2]->at;
  if (w.begin >= w.end) return 0;
  for (pair p = find_pair(k, k->begin); p.at < k->end; next_pair(k, &p)) {
    if (!lands(t, &p)) continue;
    int64_t to = at + p.d * l->plane + p.h * l->row;
    for (int64_t n = 0; n < k->to->samples; n++) {
      int64_t from = p.at + n * width - k->in[2].begin; /* the position of w = 0 */
      int64_t first = uc_max(w.begin, k->begin - from), end = uc_min(w.end, k->end - from);
      add_span(&all, to + n * k->to->sample_pitch + first, from + first - k->begin,
               uc_max(0, end - first));
    }
  }
  return all.count;
}

/* The part of the run from `from` on whose products with some of the taps are needed: pairs that follow each other; empty:
   none is left. */
static uc_range needed(const work *k, const tap *taps, int64_t count, int64_t from) {
  uc_range found = {k->end, k->end};
  if (from >= k->end) return found;
  for (pair p = find_pair(k, from); p.at < k->end; next_pair(k, &p)) {
    bool any = false;
    for (int64_t i = 0; i < count && !any; i++) any = lands(&taps[i], &p);
    if (any && found.begin == k->end) found.begin = uc_max(from, p.at);
    if (!any && found.begin < k->end) return (uc_range){found.begin, p.at};
  }
  return found;
}

/* ---- products and sums ---- */

/* Products of one block with `taps` kernel elements, for the parts of the run. */
static void multiply(work *k, const uc_range *parts, int64_t count, int mc, const float *weight) {
  int64_t zero = 0;
  uc_conv_block block = {.mc = mc, .taps = 1, .channels = k->e1 - k->e0, .offset = &zero};
  block.weight_row = &zero;
  block.weight = weight;
  block.x_stride = block.dst_stride = PITCH;
  block.first = true;
  if (k->beside.fetch.next < k->beside.fetch.end || k->beside.fetch.now.lines > 0)
    block.beside = &k->beside;
  block.products = block.channels;
  for (int64_t i = 0; i < count; i++) {
    block.x = k->x + (parts[i].begin - k->begin);
    block.dst = k->products + (parts[i].begin - k->begin);
    block.n = parts[i].end - parts[i].begin;
    k->tile->run->engine->isa->conv(&block);
  }
}

/* Kernel elements first, first - 1, ... for all blocks. */
static void run_taps(work *k, int64_t first, int64_t count, const float *weight) {
  const uc_run *run = k->tile->run;
  const uc_engine *e = run->engine;
  uc_range parts[UC_RUN];
  tap taps[UC_MAX_MC];
  int64_t part_count = 0, span_count[UC_MAX_MC];
  uc_span *span = (uc_span *)(void *)(k->tile->scratch + run->tiling.pieces_at);
  for (int64_t i = 0; i < count; i++) {
    taps[i] = find_tap(k, first - i);
    span_count[i] = find_spans(k, &taps[i], span + i * UC_RUN);
  }
  for (uc_range p = needed(k, taps, count, k->begin); p.begin < p.end;
       p = needed(k, taps, count, p.end))
    parts[part_count++] = p;
  if (part_count == 0) return;
  for (int64_t b = k->b0; b < k->b1; b++) {
    const uc_block *block = &e->block[b];
    int64_t local = block->channel - block->group * e->group_out;
    multiply(k, parts, part_count, (int)count * block->mc,
             weight + local * count * (k->e1 - k->e0));
    float *dst = k->to->data + (block->channel - k->to->channel) * k->to->layout->channel;
    for (int64_t i = 0; i < count; i++)
      e->isa->add_spans(dst, k->products + i * block->mc * PITCH, span + i * UC_RUN, span_count[i],
                        block->mc, k->to->layout->channel, PITCH);
  }
}

static void run_positions(work *k) {
  const uc_engine *e = k->tile->run->engine;
  gather(k);
  const float *weight =
      k->tile->run->packed + e->weight_at +
      e->group_out * e->kernel_size * (e->block[k->b0].group * e->group_in + k->e0);
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
      fetch_next(k, count);
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
  work k = {.tile = tile, .to = to, .beside = {.drain = {.n = 0}}};
  k.x = tile->scratch + run->tiling.panel_at;
  k.products = k.x + e->chunk * PITCH + UC_PAD;
  find_inputs(&k);
  find_landings(&k);
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
