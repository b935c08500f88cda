/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass for few output channels: taps times channels are the rows of the product, positions of the input its columns. A tile is
 * one layer of cells along D. What is added along D is added in registers, which hold the sums of all layers that read the
 * same plane of the input; the rest lies in shared memory.
 */
#include <math.h>

#include "../checked.h"
#include "shape.h"

enum {
  MOST_ROWS = 256,     /* of a block of channels */
  MOST_FRAGMENTS = 4,  /* of 16 rows, whose sums a warp holds, */
  MOST_OPEN = 6,       /* or else of so many layers */
  MOST_TAPS = 1024,    /* of a cell: they are unrolled */
  QUAD = 4,            /* positions that a lane loads together */
  ITEM = 32,           /* positions of a warp */
  STEP_FRAGMENT = 128, /* words of the weights of a fragment and a step */
  MOST_HEIGHT = 64,
  NOTE = 4, /* words of a layer: which it is */
  SCHEDULERS = 4,
  OTHER_REGISTERS = 104,
  NEAR_BYTES = 24, /* of the second-level cache a clock */
  MOST_WARPS = 16
};

/* ---- weights ---- */

static int64_t words_of_pair(const uc_cuda_engine *e) { return e->word == UPCONV_F32 ? 1 : 2; }

static bool x_last(const uc_cuda_engine *e) {
  return e->lowered->conv.x_layout == UPCONV_CHANNELS_LAST;
}

void uc_cuda_plan_scatter(uc_cuda_engine *e) {
  int64_t most = uc_max(1, MOST_ROWS / e->kernel_size);
  e->scatter_channels = uc_ceil_div(e->group_out, uc_ceil_div(e->group_out, most));
  e->scatter_fragments = uc_ceil_div(uc_cuda_plane_taps(e) * e->scatter_channels, 16);
  if (x_last(e)) e->ci_steps = uc_ceil_div(e->ci_steps, 2) * 2; /* channels in another order */
}

static int64_t weight_words(const uc_cuda_engine *e) {
  return e->ci_steps * e->lowered->conv.axis[0].kernel * e->scatter_fragments * STEP_FRAGMENT;
}

/* ---- cells ---- */

/* How far apart the inputs lie that a cell along one axis reads, if cells begin at `base`: without a pool each element of the
   kernel serves one output of a cell. */
static int64_t span_of(const uc_axis *x, int64_t base) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t k = 0; k < x->kernel; k++) {
    int64_t delta = -uc_floor_div(x->dilation * k - x->pad_begin - base, x->stride);
    low = uc_min(low, delta);
    high = uc_max(high, delta);
  }
  return high - low;
}

int64_t uc_cuda_scatter_base(const uc_axis *x) {
  int64_t best = 0;
  for (int64_t base = -1; base > -x->stride; base--)
    if (span_of(x, base) < span_of(x, best)) best = base;
  return best;
}

/* ---- the tile ---- */

/* Whether x, as planned for, lets a lane load several elements at once. */
static bool wide_input(const uc_cuda_engine *e) {
  const upconv_problem *p = &e->lowered->conv;
  int64_t vector = QUAD * words_of_pair(e);
  if (x_last(e)) return e->group_in % vector == 0;
  return p->axis[2].in_size % QUAD == 0;
}

/* Rows of the input tile and of sums, for k->cells. */
static void place_sums(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_cuda_scatter *s = &k->scattered;
  for (int a = 0; a < UC_AXES; a++) k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
  s->lead = uc_mod(k->x_base[2], QUAD);
  s->row = uc_ceil_div(k->x_size[2] + s->lead, QUAD) * QUAD;
  /* stores of four words by lanes in eight rows meet no bank twice */
  s->pitch = uc_ceil_div(k->x_size[1] * s->row, 8) * 8 + QUAD;
  k->staging_floats = k->shared_weights ? weight_words(e) : 0;
  k->shared_floats = k->staging_floats + 2 * (s->rows * s->pitch + NOTE);
}

/* Items of a plane. */
static int64_t items_of(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t width = uc_min(k->scattered.row, e->lowered->conv.axis[2].in_size);
  int64_t positions = k->x_size[1] * uc_ceil_div(width, QUAD) * QUAD;
  return uc_ceil_div(positions, ITEM) * k->scattered.parts;
}

/* Instructions of a warp for an item, and of a thread for a cell of a channel: counted in machine code, about. */
static double item_instructions(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  double steps = (double)e->ci_steps, products = (double)(k->mt * k->scattered.open);
  double loads = wide_input(e) ? 20 : 50;
  return steps * (5 * products + loads) + 12 * (double)k->mt + 200;
}

static double cell_instructions(const uc_cuda_kernel *k) {
  double outputs = k->pool >= 0 ? 1 : (double)uc_volume(k->residues);
  return 2.1 * (double)k->scattered.terms + 4 * outputs + 40;
}

/* Of x, that an item reads; parts of the rows read it together. */
static double item_bytes(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  double size = (double)upconv_dtype_size(e->lowered->conv.x_dtype);
  return ITEM * size * (double)e->group_in / (double)k->scattered.parts;
}

/* Planes that are multiplied for a tile: all that it reads, or one if the others were for the tile before. */
static double planes_of(const uc_cuda_kernel *k, double tiles, double starts) {
  double more = (double)(k->x_size[0] - 1);
  return 1 + (k->scattered.open > 1 ? more * starts / tiles : more);
}

static void count_tiles(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                        const int64_t extent[UC_AXES], double *tiles, double *columns) {
  *columns = (double)uc_max(1, e->lowered->conv.batch) * (double)e->lowered->conv.groups *
             (double)uc_ceil_div(e->group_out, k->bm);
  for (int a = 1; a < UC_AXES; a++) *columns *= (double)uc_ceil_div(extent[a], k->cells[a]);
  *tiles = *columns * (double)extent[0];
}

/* Clocks, about. */
static double tiling_cost(const uc_cuda_engine *e, uc_cuda_kernel *k,
                          const int64_t extent[UC_AXES]) {
  double tiles, columns, warps = (double)(k->threads / 32), blocks = (double)k->min_blocks;
  count_tiles(e, k, extent, &tiles, &columns);
  double resident = (double)e->target.sm_count * blocks;
  double each = (double)uc_ceil_div((int64_t)tiles, (int64_t)resident);
  double starts = columns + (tiles > resident ? resident : tiles);
  double planes = planes_of(k, tiles, starts < tiles ? starts : tiles);
  k->scattered.planes = planes;
  k->scattered.items = items_of(e, k);
  double items = (double)(uc_ceil_div(k->scattered.items, SCHEDULERS) * SCHEDULERS),
         item = item_instructions(e, k);
  double cells = (double)(uc_volume(k->cells) * k->bm);
  double rounds = (double)uc_ceil_div((int64_t)cells, k->threads);
  /* what a multiprocessor issues or reads, whichever takes longer, and what a warp waits for itself */
  double issued = (planes * items * item + rounds * warps * cell_instructions(k)) / SCHEDULERS;
  double read = planes * (double)k->scattered.items * item_bytes(e, k) / NEAR_BYTES;
  double busy = blocks * fmax(issued, read);
  double jobs = (double)uc_ceil_div((int64_t)items, (int64_t)warps);
  double alone = 2 * (planes * jobs * item + rounds * cell_instructions(k)) + 800;
  return each * (busy + alone);
}

/* Blocks that a multiprocessor holds; 0: a thread would have too few registers. */
static int64_t blocks_that_fit(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t bytes = 4 * k->shared_floats;
  int64_t by_memory =
      (e->target.shared_bytes + UC_CUDA_SHARED_OF_BLOCK) / (bytes + UC_CUDA_SHARED_OF_BLOCK);
  /* besides sums; a warp's share is that of four */
  int64_t registers = 16 * k->mt * k->scattered.open + OTHER_REGISTERS;
  int64_t threads = 65536 / registers / 128 * 128;
  return uc_min(8, uc_min(by_memory, threads / k->threads));
}

/* Whether k->cells can be a tile: sums of several layers stay in registers only if each warp has but one item. */
static bool fits(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  place_sums(e, k);
  return 4 * k->shared_floats <= e->target.shared_bytes &&
         (k->scattered.open == 1 || items_of(e, k) <= MOST_WARPS);
}

/* Threads for k->cells; *best: the cost of the best so far, if not negative, which *found is. */
static void try_threads(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES],
                        double *best, uc_cuda_kernel *found) {
  int64_t items = items_of(e, k), parts = k->scattered.parts;
  int64_t least = k->scattered.open > 1 ? uc_max(4, items) : 4,
          most = uc_max(least, uc_min(MOST_WARPS, items));
  for (int64_t warps = uc_ceil_div(least, parts) * parts; warps <= uc_max(most, parts);
       warps += parts) {
    k->threads = 32 * warps;
    for (k->min_blocks = blocks_that_fit(e, k); k->min_blocks > 0; k->min_blocks /= 2) {
      double cost = tiling_cost(e, k, extent);
      if (*best >= 0 && cost >= *best) continue;
      *best = cost;
      *found = *k;
    }
  }
}

/* Along W all cells or a part of them; tiles begin with a quad. */
static bool choose_tile(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  double best = -1;
  uc_cuda_kernel found = *k;
  for (int64_t n = 1; n <= extent[2]; n = uc_max(n + 1, n * 5 / 4)) {
    k->cells[0] = 1;
    k->cells[2] = uc_ceil_div(uc_ceil_div(extent[2], n), QUAD) * QUAD;
    for (k->cells[1] = 1; k->cells[1] <= uc_min(extent[1], MOST_HEIGHT) && fits(e, k);
         k->cells[1]++)
      try_threads(e, k, extent, &best, &found);
  }
  *k = found;
  return best >= 0;
}

/* Sums that a cell adds: taps that differ along D alone are one. */
static int64_t count_terms(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t terms = k->residues[0];
  for (int a = 1; a < UC_AXES; a++) {
    const uc_axis *x = &e->lowered->conv.axis[a];
    terms *= x->kernel * k->residues[a] / x->stride;
  }
  return terms;
}

/* Layers whose sums a warp holds, and fragments of each. */
static void choose_fragments(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_cuda_scatter *s = &k->scattered;
  int64_t planes = k->span[0] + 1, fragments = k->residues[0] * e->scatter_fragments;
  s->open = k->step[0] == 1 && planes <= MOST_OPEN ? planes : 1;
  s->parts = uc_ceil_div(fragments, uc_max(1, MOST_FRAGMENTS / s->open));
  k->mt = uc_ceil_div(fragments, s->parts);
  s->rows = k->residues[0] * uc_cuda_plane_taps(e) * k->bm;
  s->terms = count_terms(e, k);
}

const char *uc_cuda_shape_scatter(const uc_cuda_engine *e, uc_cuda_kernel *k,
                                  const int64_t extent[UC_AXES]) {
  uc_cuda_scatter *s = &k->scattered;
  if (e->kernel_size > MOST_ROWS || k->tap_count > MOST_TAPS)
    return "more taps than the scattering kernel unrolls";
  k->rt = uc_cuda_held_residues(k->residues);
  k->residue_groups = uc_volume(k->residues) / k->rt;
  if (uc_volume(k->residues) > MOST_TAPS) return "more phases than the scattering kernel unrolls";
  k->bm = e->scatter_channels;
  choose_fragments(e, k);
  if (s->parts > MOST_WARPS) return "more rows of taps than the warps of a block hold";
  s->wide = wide_input(e);
  k->strip = k->mc = k->thread_cells = 1;
  k->chunk = e->group_in;
  k->resident = true;
  k->static_taps = false; /* their order is that of residues */
  k->shared_weights = weight_words(e) * 4 <= e->target.shared_bytes / 3;
  if (!choose_tile(e, k, extent)) return "one tile does not fit shared memory";
  for (int a = 0; a < UC_AXES; a++) {
    k->cell_step[a] = k->cells[a];
    k->tile[a] = k->cells[a] * (k->pool >= 0 ? 1 : k->residues[a]);
  }
  k->channels = k->bm;
  uc_cuda_sort_held_taps(k);
  return NULL;
}
