/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise passes: one input channel a group. What counts is memory: outputs are stored 16 bytes at once, an input that is
 * loaded serves as many residues as registers allow, and a tile is large enough that its halo costs little.
 */
#include <string.h>

#include "../checked.h"
#include "shape.h"

enum {
  MAX_SUMS = 64,   /* residues that the problem may need; a thread has a register for each */
  GOOD_SUMS = 32,  /* up to where a cell is widened */
  MAX_TAPS = 1024, /* unrolled */
  THREADS = 128,
  THREAD_CELLS = 8,       /* cells that a thread makes of a tile */
  WIDE_TILE = 32,         /* cells along W */
  CHANNELS_AT_ONCE = 32,  /* of a block, where neighbouring threads take neighbouring channels */
  MIXED_CHANNELS = 8,     /* where x is channels-last and y is not */
  ROWS_FLOATS = 8 * 1024, /* of shared memory */
  CHANNELS_FLOATS = 12 * 1024
};

/* Else a value that is kept in memory: float32, channels-first. */
static bool stores_y(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return k->pass->result == e->program.value_count - 1;
}

/* ---- the cell ---- */

static void widen(uc_cuda_kernel *k, int axis, int64_t by, int64_t extent[UC_AXES]) {
  k->residues[axis] *= by;
  k->step[axis] *= by;
  extent[axis] = uc_ceil_div(extent[axis], by);
}

/* Whether a cell may be that much larger: registers, and code. */
static bool may_widen(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t by, int64_t sums) {
  return uc_volume(k->residues) * by <= sums &&
         e->kernel_size * uc_volume(k->step) * by <= MAX_TAPS;
}

/* Neighbours along W that one store may take: 16 bytes where all rows of y begin at a multiple of them. Where they do not,
   a cell should not be wider than the stride, so that neighbouring threads' stores meet in memory. */
static int64_t run_of_stores(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  if (k->channels_fast) return 2;
  upconv_dtype type = stores_y(e, k) ? e->lowered->source.y_dtype : UPCONV_F32;
  const uc_axis *axis = &e->lowered->conv.axis[2];
  int64_t run = 16 / (int64_t)upconv_dtype_size(type), width = 0;
  if (!uc_axis_output(axis, axis->in_size, &width)) return 1;
  while (width % run != 0) run /= 2;
  return run;
}

/* A cell of a pass without pool: along W as much as one store takes, then along H and D while sums fit. */
static void choose_cell(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t extent[UC_AXES]) {
  int64_t run = run_of_stores(e, k);
  int64_t by = run / uc_cuda_common_divisor(run, k->residues[2]);
  while (by > 1 && (!may_widen(e, k, by, MAX_SUMS) || by / 2 >= extent[2])) by /= 2;
  widen(k, 2, by, extent);
  for (int a = UC_AXES - 2; a >= 0; a--)
    for (int i = 0; i < 3 && extent[a] > 1 && may_widen(e, k, 2, GOOD_SUMS); i++)
      widen(k, a, 2, extent);
}

/* ---- the tile ---- */

/* Channels of x that bm output channels read. */
static int64_t input_channels(const uc_cuda_engine *e, int64_t bm) {
  if (bm % e->group_out == 0) return bm / e->group_out;
  if (e->group_out % bm == 0) return 1;
  return uc_min(e->lowered->conv.groups, (bm - 2) / e->group_out + 2);
}

/* Positions of x under so many cells. */
static int64_t positions(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  int64_t count = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t size = uc_cuda_input_size(k, a, cells[a]);
    count *= a == UC_AXES - 1 ? uc_ceil_div(size, k->x_vector) * k->x_vector : size;
  }
  return count;
}

static int64_t weight_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return k->bm * (k->channels_fast ? e->kernel_size : uc_ceil_div(e->kernel_size, 4) * 4);
}

/* Shared memory of the tile with cells[axis] doubled; axis -1: as it is. */
static int64_t tile_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k, int axis) {
  int64_t cells[UC_AXES];
  memcpy(cells, k->cells, sizeof cells);
  if (axis >= 0) cells[axis] *= 2;
  return input_channels(e, k->bm) * positions(k, cells) + weight_floats(e, k);
}

/* The axis along which doubling the tile costs the least halo, W first until rows are wide; -1: it is large enough. */
static int axis_to_grow(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                        const int64_t extent[UC_AXES], int64_t most) {
  int best = -1;
  int64_t least = 0;
  if (uc_volume(k->cells) * k->bm >= THREADS * THREAD_CELLS) return -1;
  for (int a = UC_AXES - 1; a >= 0; a--) {
    int64_t floats = tile_floats(e, k, a);
    if (k->cells[a] >= extent[a] || floats > most) continue;
    if (a == 2 && !k->channels_fast && k->cells[2] < WIDE_TILE) return a;
    if (best < 0 || floats < least) {
      best = a;
      least = floats;
    }
  }
  return best;
}

/* More channels, until there are `items` cells of all channels. */
static void add_channels(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t items, int64_t most) {
  while (uc_volume(k->cells) * k->bm < items && k->bm < e->lowered->conv.out_channels) {
    k->bm *= 2;
    if (tile_floats(e, k, -1) <= most) continue;
    k->bm /= 2;
    return;
  }
}

static void choose_tile(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  int64_t floats = k->channels_fast ? CHANNELS_FLOATS : ROWS_FLOATS;
  int64_t most =
      uc_min(floats, e->target.shared_bytes / 16); /* of a multiprocessor's four blocks */
  bool mixed = !k->channels_fast && e->lowered->conv.x_layout == UPCONV_CHANNELS_LAST;
  for (int a = 0; a < UC_AXES; a++) k->cells[a] = 1;
  k->bm = 1;
  add_channels(e, k, k->channels_fast ? CHANNELS_AT_ONCE : mixed ? MIXED_CHANNELS : 1, most);
  for (int axis; (axis = axis_to_grow(e, k, extent, most)) >= 0;) k->cells[axis] *= 2;
  /* tiles of equal size; of small tensors more channels */
  for (int a = 0; a < UC_AXES; a++)
    k->cells[a] = uc_ceil_div(extent[a], uc_ceil_div(extent[a], k->cells[a]));
  add_channels(e, k, THREADS, most);
  k->threads = uc_min(THREADS, uc_ceil_div(uc_volume(k->cells) * k->bm, 32) * 32);
}

/* ---- the pass ---- */

static int64_t vector_of(const uc_cuda_kernel *k) {
  return k->channels_fast || k->step[2] % 2 != 0 ? 1 : k->step[2] % 4 != 0 ? 2 : 4;
}

/* Blocks that a multiprocessor should hold: of what registers the sums leave, a thread needs about as many again. */
static int64_t wanted_blocks(const uc_cuda_kernel *k) {
  int64_t registers = k->rt <= 8 ? 64 : k->rt <= 32 ? 96 : 128;
  return 65536 / registers / k->threads;
}

upconv_status uc_cuda_shape_depthwise(const uc_cuda_engine *e, uc_cuda_kernel *k,
                                      int64_t extent[UC_AXES], const char **refusal) {
  if (!may_widen(e, k, 1, MAX_SUMS)) {
    *refusal = "more phases or taps than a thread unrolls";
    return UPCONV_OK;
  }
  const upconv_problem *p = &e->lowered->conv;
  k->channels_fast =
      stores_y(e, k) && e->lowered->source.y_layout == UPCONV_CHANNELS_LAST && p->out_channels > 1;
  if (k->pool < 0) choose_cell(e, k, extent);
  k->rt = uc_volume(k->residues);
  k->residue_groups = k->mc = k->thread_cells = k->strip = 1;
  k->static_taps = k->shared_weights = true;
  k->chunk = 1;
  k->x_vector = vector_of(k);
  upconv_status status = uc_cuda_find_taps(p, k);
  if (status != UPCONV_OK) return status;
  choose_tile(e, k, extent);
  for (int a = 0; a < UC_AXES; a++) {
    k->cell_step[a] = k->cells[a];
    k->tile[a] = k->cells[a] * (k->pool >= 0 ? 1 : k->residues[a]);
    k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
  }
  k->x_size[2] = uc_ceil_div(k->x_size[2], k->x_vector) * k->x_vector;
  k->x_channels = input_channels(e, k->bm);
  k->x_floats = k->team_floats = uc_ceil_div(k->x_channels * uc_volume(k->x_size), 4) * 4;
  k->staging_floats = k->shared_floats = k->x_floats + weight_floats(e, k);
  k->channels = k->bm;
  k->min_blocks = wanted_blocks(k);
  if (k->shared_floats * 4 > e->target.shared_bytes)
    *refusal = "the input of one tile does not fit shared memory";
  return UPCONV_OK;
}
