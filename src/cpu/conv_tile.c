/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The convolution on one tile: residue by residue of its layout, each a dense stride-1 correlation of the input tile.
 * Taps whose input rows lie outside the input are left out; along a row they read zeros. Where a weight is not finite
 * even those are skipped, one element at a time.
 */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "engine.h"
#include "residue.h"

int64_t uc_input_begin(const uc_axis *axis, int64_t begin) {
  return uc_ceil_div(begin + axis->pad_begin - axis->dilation * (axis->kernel - 1), axis->stride);
}

/* floor((o + T - 1 + p) / s) - ceil((o + p - d (K - 1)) / s) + 1 at its largest over o. */
int64_t uc_input_count(const uc_axis *axis, int64_t size) {
  return (size - 1 + axis->dilation * (axis->kernel - 1)) / axis->stride + 1;
}

int64_t uc_average_products(const uc_engine *e) {
  int64_t phases = e->table[0].stride * e->table[1].stride * e->table[2].stride;
  return uc_max(1, e->kernel_size * e->group_in / phases);
}

/* ---- the input tile ---- */

static uc_box input_box(const uc_run *run, const uc_box *conv) {
  const uc_axis *axis = run->engine->lowered->conv.axis;
  uc_box box;
  for (int a = 0; a < UC_AXES; a++) {
    box.begin[a] = uc_input_begin(&axis[a], conv->begin[a]);
    box.size[a] = run->tiling.x_size[a];
  }
  return box;
}

/* What will be loaded after channels [first, first + count): the next ones, or the first ones of the task that follows. */
static void fetch_next(const uc_tile *tile, const uc_layout *conv, int64_t first, int64_t count) {
  const uc_run *run = tile->run;
  int64_t channels = run->engine->lowered->conv.in_channels, c = first + count;
  bool more = c < channels;
  if (!more) c = 0;
  uc_box box = input_box(run, more ? &conv->box : &tile->next);
  uc_fetch_run *runs = (uc_fetch_run *)(void *)(tile->scratch + run->tiling.fetch_at);
  int64_t listed = 0;
  if (more || tile->next.size[0] > 0)
    listed = uc_layout_fetch(&box, &run->call->x, more ? tile->n : tile->next_n, c,
                             uc_min(count, channels - c), runs);
  tile->pending->beside.fetch = (uc_fetch){.next = runs, .end = runs + listed};
}

static void load_input(uc_tile *tile, const uc_layout *conv, int64_t first, int64_t count,
                       uc_layout *x) {
  const uc_run *run = tile->run;
  uc_box box = input_box(run, &conv->box);
  uc_layout_init(x, &box, (const int64_t[]){1, 1, 1}, box.size[2]);
  x->channel = run->tiling.x_channel;
  if (tile->x_count == count && tile->x_first == first) return;
  uc_layout_load(run->engine->isa, x, tile->scratch + run->tiling.x_at, &run->call->x, tile->n,
                 first, count);
  if (tile->pending) fetch_next(tile, conv, first, count);
  tile->x_first = first;
  tile->x_count = count;
}

/* ---- one residue ---- */

/* A run of positions with the taps that reach the input from it. */
typedef struct taps {
  int64_t *offset, *row;
  int64_t count;
} taps;

static void list_taps(const uc_layout *x, const uc_residue r[UC_AXES], const uc_range live[UC_AXES],
                      int64_t channels, taps *list) {
  list->count = 0;
  for (int64_t d = live[0].begin; d < live[0].end; d++)
    for (int64_t h = live[1].begin; h < live[1].end; h++)
      for (int64_t w = live[2].begin; w < live[2].end; w++) {
        int64_t t = (d * r[1].phase->count + h) * r[2].phase->count + w;
        list->offset[list->count] = -d * r[0].phase->shift_step * x->plane -
                                    h * r[1].phase->shift_step * x->row -
                                    w * r[2].phase->shift_step;
        list->row[list->count++] = t * channels;
      }
}

/* The blocks [b0, b1) under way, one group's chunk of channels [e0, e1), and where things lie. */
typedef struct work {
  uc_tile *tile;
  const uc_layout *conv;
  uc_layout x;          /* the input tile's */
  const uc_layout *out; /* of dst: conv, or that of the pool which takes the residues */
  const float *input;   /* channel e0 of the input tile */
  float *dst;
  int64_t c0; /* dst's first channel */
  int64_t b0, b1, e0, e1;
  int64_t products;  /* of an output, on average */
  bool first;        /* nothing is in dst yet */
  const bool *least; /* of the pool, from c0 on, or NULL */
} work;

/* Weights of the first block, for the chunk and phase under way, and how many numbers follow for each channel. */
static const float *phase_weights(const work *k, const uc_residue r[UC_AXES], int64_t *channel) {
  const uc_run *run = k->tile->run;
  *channel = r[0].phase->count * r[1].phase->count * r[2].phase->count * (k->e1 - k->e0);
  return uc_phase_weights(run->engine, run->packed, &run->engine->block[k->b0], r, k->e0, k->e1);
}

/* Where along an axis, in the input tile, position 0 reads with tap 0. */
static int64_t local_input(const work *k, const uc_residue *r, int a) {
  return r->input - k->x.box.begin[a];
}

static uc_range live_taps(const work *k, const uc_residue *r, int a, int64_t j0, int64_t j1) {
  return uc_residue_live_taps(r, k->tile->run->in_size[a], j0, j1);
}

/* The chunk of channels after which the bias is added. */
static bool last_chunk(const work *k) { return k->e1 >= k->tile->run->engine->group_in; }

/* The convolution of all blocks, but for taps, places and size. */
static uc_conv_block common_block(const work *k, const taps *list) {
  return (uc_conv_block){.channels = k->e1 - k->e0,
                         .offset = list->offset,
                         .weight_row = list->row,
                         .x_stride = k->x.channel,
                         .first = k->first,
                         .beside = k->tile->pending ? &k->tile->pending->beside : NULL,
                         .products = k->products,
                         .dst_stride = k->out->channel};
}

/* weight: of the first block, with so many numbers a channel. */
static void run_blocks(const work *k, uc_conv_block *block, const float *weight,
                       int64_t per_channel, int64_t out_at) {
  const uc_engine *e = k->tile->run->engine;
  const float *bias = last_chunk(k) ? k->tile->run->packed + e->bias_at : NULL;
  for (int64_t i = k->b0; i < k->b1; i++) {
    const uc_block *b = &e->block[i];
    block->mc = b->mc;
    block->weight = weight;
    block->bias = bias ? bias + b->channel : NULL;
    block->least = k->least ? k->least + (b->channel - k->c0) : NULL;
    block->dst = k->dst + (b->channel - k->c0) * k->out->channel + out_at;
    e->isa->conv(block);
    weight += b->mc * per_channel;
  }
}

static bool same_range(uc_range a, uc_range b) { return a.begin == b.begin && a.end == b.end; }

static void run_residue(const work *k, const uc_residue r[UC_AXES], int64_t out_at) {
  const uc_tiling *tiling = &k->tile->run->tiling;
  int64_t *lists = (int64_t *)(void *)(k->tile->scratch + tiling->taps_at);
  taps list = {lists, lists + k->tile->run->engine->max_taps, -1};
  uc_range live[UC_AXES], known[UC_AXES] = {{0, 0}, {0, 0}, {0, 0}};
  live[2] = live_taps(k, &r[2], 2, 0, r[2].positions);
  int64_t per_channel;
  const float *weight = phase_weights(k, r, &per_channel);
  uc_conv_block block = common_block(k, &list);
  int64_t step = tiling->flat ? r[1].positions : 1; /* rows per run of positions */
  for (int64_t jd = 0; jd < r[0].positions; jd++) {
    live[0] = live_taps(k, &r[0], 0, jd, jd + 1);
    for (int64_t jh = 0; jh < r[1].positions; jh += step) {
      live[1] = live_taps(k, &r[1], 1, jh, jh + step);
      if (list.count < 0 || !same_range(live[0], known[0]) || !same_range(live[1], known[1])) {
        list_taps(&k->x, r, live, k->e1 - k->e0, &list);
        memcpy(known, live, sizeof known);
      }
      int64_t in_at = (local_input(k, &r[0], 0) + jd) * k->x.plane +
                      (local_input(k, &r[1], 1) + jh) * k->x.row + local_input(k, &r[2], 2);
      block.taps = list.count;
      block.x = k->input + in_at;
      block.n = (step - 1) * k->out->row + r[2].positions;
      run_blocks(k, &block, weight, per_channel, out_at + jd * k->out->plane + jh * k->out->row);
    }
  }
}

/* ---- one element at a time: borders skipped ---- */

static float sum_element(const work *k, const uc_block *b, int m, const uc_residue r[UC_AXES],
                         const int64_t j[UC_AXES], float sum) {
  const uc_run *run = k->tile->run;
  const float *weight = uc_phase_weights(run->engine, run->packed, b, r, k->e0, k->e1);
  uc_range live[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) live[a] = live_taps(k, &r[a], a, j[a], j[a] + 1);
  int64_t channels = k->e1 - k->e0;
  for (int64_t d = live[0].begin; d < live[0].end; d++)
    for (int64_t h = live[1].begin; h < live[1].end; h++)
      for (int64_t w = live[2].begin; w < live[2].end; w++) {
        int64_t t = (d * r[1].phase->count + h) * r[2].phase->count + w;
        int64_t tap[UC_AXES] = {d, h, w}, at[UC_AXES];
        for (int a = 0; a < UC_AXES; a++)
          at[a] = local_input(k, &r[a], a) + j[a] - tap[a] * r[a].phase->shift_step;
        const float *x = k->input + at[0] * k->x.plane + at[1] * k->x.row + at[2];
        for (int64_t c = 0; c < channels; c++)
          sum += weight[(t * channels + c) * b->mc + m] * x[c * k->x.channel];
      }
  return sum;
}

/* A channel's sum to where it goes, as the inner loop does it. */
static void finish_element(const work *k, int64_t channel, float sum, float *to) {
  const uc_run *run = k->tile->run;
  if (last_chunk(k)) sum += run->packed[run->engine->bias_at + channel];
  bool pools = k->least && !k->first;
  if (!pools || (!isnan(*to) && !(k->least[channel - k->c0] ? *to < sum : *to > sum))) *to = sum;
}

static void run_elements(const work *k, const uc_residue r[UC_AXES], int64_t out_at) {
  const uc_engine *e = k->tile->run->engine;
  for (int64_t i = k->b0; i < k->b1; i++)
    for (int m = 0; m < e->block[i].mc; m++) {
      const uc_block *b = &e->block[i];
      float *dst = k->dst + (b->channel + m - k->c0) * k->out->channel + out_at;
      int64_t j[UC_AXES];
      for (j[0] = 0; j[0] < r[0].positions; j[0]++)
        for (j[1] = 0; j[1] < r[1].positions; j[1]++)
          for (j[2] = 0; j[2] < r[2].positions; j[2]++) {
            float *to = dst + j[0] * k->out->plane + j[1] * k->out->row + j[2];
            float sum = sum_element(k, b, m, r, j, k->first || k->least ? 0.0F : *to);
            finish_element(k, b->channel + m, sum, to);
          }
    }
}

/* ---- all of it ---- */

/* Residues along an axis that the box has, and that a pool reads. */
static int64_t residues(const work *k, int a) {
  const uc_run *run = k->tile->run;
  int64_t count = uc_min(k->conv->split[a], k->conv->box.size[a]);
  if (!k->least) return count;
  const uc_step *pool = &run->pass->step[run->tiling.pooled];
  return uc_min(count, run->engine->lowered->tail->op[pool->op].window.kernel[a]);
}

static void run_residues(work *k) {
  const uc_engine *e = k->tile->run->engine;
  uc_residue r[UC_AXES];
  k->first = k->e0 == 0;
  for (int64_t d = 0; d < residues(k, 0); d++) {
    r[0] = uc_residue_find(e, k->conv, 0, d);
    for (int64_t h = 0; h < residues(k, 1); h++) {
      r[1] = uc_residue_find(e, k->conv, 1, h);
      for (int64_t w = 0; w < residues(k, 2); w++) {
        r[2] = uc_residue_find(e, k->conv, 2, w);
        int64_t at = k->least ? 0 : uc_layout_row(k->conv, d, h, w);
        if (k->tile->run->skip_borders)
          run_elements(k, r, at);
        else
          run_residue(k, r, at);
        if (k->least) k->first = false;
      }
    }
  }
}

/* Blocks [b0, b1) read the input channels of their groups: several groups at once when they are small, else one group in
   chunks. */
static void run_group(work *k, int64_t b0, int64_t b1, int64_t first, int64_t loaded) {
  uc_tile *tile = k->tile;
  const uc_engine *e = tile->run->engine;
  for (int64_t e0 = 0; e0 < e->group_in || e0 == 0; e0 += e->chunk) {
    int64_t e1 = uc_min(e0 + e->chunk, e->group_in);
    bool whole = e->chunk >= e->group_in;
    load_input(tile, k->conv, whole ? first : first + e0, whole ? loaded : e1 - e0, &k->x);
    for (int64_t b = b0; b < b1;) {
      int64_t end = b;
      while (end < b1 && e->block[end].group == e->block[b].group) end++;
      const float *input = tile->scratch + tile->run->tiling.x_at;
      if (whole) input += (e->block[b].group * e->group_in - first) * k->x.channel;
      k->input = input;
      k->b0 = b;
      k->b1 = end;
      k->e0 = e0;
      k->e1 = e1;
      run_residues(k);
      b = end;
    }
  }
}

static int64_t block_of(const uc_engine *e, int64_t channel) {
  int64_t per_group = e->block_count / e->lowered->conv.groups;
  int64_t b = channel / e->group_out * per_group;
  while (b < e->block_count && e->block[b].channel + e->block[b].mc <= channel) b++;
  return b;
}

/* Which channels' least the pool keeps; NULL: no pool takes the residues. */
static const bool *find_least(const uc_tile *tile, int64_t c0, int64_t c1) {
  const uc_tiling *t = &tile->run->tiling;
  if (!t->pooled) return NULL;
  bool *least = (bool *)(void *)(tile->scratch + t->least_at);
  for (int64_t c = c0; c < c1; c++)
    least[c - c0] = uc_pool_keeps_least(tile, &tile->run->pass->step[t->pooled], c);
  return least;
}

void uc_conv_tile(uc_tile *tile, const uc_layout *conv, float *dst, int64_t c0, int64_t c1) {
  const uc_engine *e = tile->run->engine;
  int64_t b = block_of(e, c0), end = block_of(e, c1 - 1) + 1;
  if (e->products) {
    uc_product_sums(tile, &(uc_sums){dst, conv, c0, tile->n, 1, 0}, b, end);
    return;
  }
  work k = {.tile = tile, .conv = conv, .dst = dst, .c0 = c0, .products = uc_average_products(e)};
  k.least = find_least(tile, c0, c1);
  k.out = k.least ? &tile->layout[tile->run->tiling.pooled] : conv;
  int64_t groups_held = uc_max(1, tile->run->tiling.x_channels / uc_max(1, e->group_in));
  while (b < end) {
    int64_t g = e->block[b].group, stop = b;
    while (stop < end && e->block[stop].group < g + groups_held) stop++;
    int64_t groups = e->block[stop - 1].group - g + 1;
    run_group(&k, b, stop, g * e->group_in, groups * e->group_in);
    b = stop;
  }
}
