/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-ffma where a group has few input channels: a thread loads what its cells read of a channel, its window, by itself.
 * Which cells and channels a thread has is chosen by clocks, counted in machine code and fitted to an H200.
 */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "shape.h"
#include "work.h"

enum {
  FEW_CHANNELS = 4,    /* of a group: their windows are loaded one after the other */
  MAX_SUMS = 64,       /* of a thread */
  MAX_CELLS = 8,       /* of a thread */
  MAX_WINDOW = 32,     /* inputs: bits of a word */
  MAX_UNROLLED = 2048, /* multiply-adds in a loop's body */
  THREADS = 128,
  WARP = 32,
  INVERSE_FLOATS = 4
};

/* Cells of a thread do not follow each other along W, so that a row of its window is one address. */
static bool may_load_directly(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return e->group_in <= FEW_CHANNELS && e->lowered->conv.x_layout == UPCONV_CHANNELS_FIRST &&
         uc_cuda_held_residues(k->residues) == uc_volume(k->residues);
}

/* Registers of a thread, in units of eight: sums, a window and where its planes and rows lie, weights of a tap, where further
   residues go, and the rest. */
static int64_t registers(const uc_cuda_kernel *k) {
  enum { REST = 28, UNIT = 8 };
  int64_t held = k->rt * k->thread_cells * k->mc + uc_volume(k->x_size) + uc_min(8, k->mc);
  held += k->x_size[0] + k->x_size[1] + (k->pool >= 0 ? 0 : k->rt - 1);
  return uc_ceil_div(held + REST, UNIT) * UNIT;
}

/* Blocks that a multiprocessor holds. It has room for 16 (sm_75, 86), 24 (sm_89, 120) or 32: the
   least of those that are no 32. */
static int64_t blocks_held(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  enum { REGISTERS = 65536, FEW = 16, MOST = 32 };
  const uc_cuda_target *t = &e->target;
  int64_t most = t->major == 9 || t->major == 10 || (t->major == 8 && t->minor == 0) ? MOST : FEW;
  most = uc_min(most, uc_cuda_most_threads(t) / k->threads);
  return uc_max(1, uc_min(most, REGISTERS / (k->threads * registers(k))));
}

/* Cells of a thread, and channels at a time; it goes through all of the group, or blocks share them. */
static bool set_thread(const uc_cuda_engine *e, uc_cuda_kernel *k, int axis, int64_t cells,
                       int64_t channels, bool shared_out) {
  k->thread_axis = axis;
  k->thread_cells = cells;
  k->mc = channels;
  k->bm = shared_out ? channels : uc_ceil_div(e->group_out, channels) * channels;
  for (int a = 0; a < UC_AXES; a++) {
    k->lanes[a] = 1;
    k->cells[a] = a == axis ? cells : 1;
    k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
  }
  return k->rt * cells * channels <= MAX_SUMS && uc_volume(k->x_size) <= MAX_WINDOW &&
         k->tap_count * cells * channels <= MAX_UNROLLED &&
         e->kernel_size * e->group_in * k->bm <= UC_CUDA_STAGING_FLOATS / 2;
}

/* What a warp does at one go. */
typedef struct direct_turn {
  double instructions, near_bytes;
  double memory; /* clocks of shared memory and the first-level cache */
  double waits;  /* one after the other */
} direct_turn;

/* Instructions of all outputs of a thread's cells for mc channels. Two neighbours along W are stored at once. */
static double finishing(const uc_cuda_engine *e, const uc_cuda_kernel *k, double outputs) {
  static const double OUTPUT = 1, STORE = 5; /* slots lost at stores too */
  bool pairs = k->pool < 0 && k->residues[2] % 2 == 0;
  return outputs * (OUTPUT + uc_cuda_tail_instructions(e, k) + STORE / (pairs ? 2 : 1));
}

/* Places where lanes that follow each other have no neighbours in y, and in x. */
static double gaps(const uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  double run = (double)extent[2] * (double)(k->thread_axis == 0 ? extent[1] : 1);
  return (WARP - 1) / fmax(1, run);
}

/* Share of threads that read beyond x. */
static double border_share(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                           const int64_t extent[UC_AXES]) {
  double inside = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t all = uc_ceil_div(extent[a], k->cells[a]);
    int64_t last = k->x_base[a] + k->span[a] + (extent[a] - 1) * k->step[a];
    int64_t borders = (k->x_base[a] < 0) + (last >= e->lowered->conv.axis[a].in_size);
    inside *= (double)uc_max(0, all - borders) / (double)all;
  }
  return 1 - inside;
}

/* Instructions for a tap's weights. */
static double weight_loads(const uc_cuda_kernel *k) {
  return (double)(k->mc % 4 == 0 ? k->mc / 4 : k->mc == 2 ? 1 : k->mc);
}

/* Four floats that lanes read of shared memory, all the same ones, take two clocks; each gap between lanes another one. */
static direct_turn turn_of(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                           const int64_t extent[UC_AXES]) {
  enum { SET_UP = 400, ROUND = 20, CHANNEL = 8, BORDER_BITS = 5, SECTOR = 32, LINE = 128 };
  static const double LOAD = 1.6, LOAD_CLOCKS = 1.5, WEIGHT_CLOCKS = 0.5, ZEROS = 0.5, GAP = 4;
  double rounds = (double)(k->bm / k->mc), depth = (double)e->group_in, taps = (double)k->tap_count;
  double cells = (double)k->thread_cells, mc = (double)k->mc, window = (double)uc_volume(k->x_size);
  double sums = (double)k->rt * cells * mc, outputs = k->pool >= 0 ? cells * mc : sums;
  double border = border_share(e, k, extent), apart = GAP * gaps(k, extent);
  bool half_rate = e->target.major == 7 || (e->target.major == 8 && e->target.minor == 0);
  double products = taps * (cells * mc * (half_rate ? 2 : 1) + weight_loads(k));
  double channel = products + window * (LOAD + border) + CHANNEL;
  double x_size = (double)upconv_dtype_size(e->lowered->conv.x_dtype) / 4;
  double y_size = (double)upconv_dtype_size(e->lowered->source.y_dtype) / 4;
  double sectors = LINE + SECTOR * (1 + apart);
  direct_turn t;
  t.instructions = SET_UP + BORDER_BITS * window * border;
  t.instructions +=
      rounds * (ROUND + depth * channel + ZEROS * sums + finishing(e, k, outputs) + mc);
  t.memory = rounds * depth * (WEIGHT_CLOCKS * taps * mc + (LOAD_CLOCKS + apart) * window);
  t.memory += rounds * (1 + apart) * outputs;
  t.near_bytes =
      sectors * (y_size * rounds * outputs + x_size * depth * window / (double)k->x_size[2]);
  t.waits = 1 + rounds * depth;
  return t;
}

/* Clocks of all that a multiprocessor does. */
static double clocks_of(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                        const int64_t extent[UC_AXES]) {
  enum { SCHEDULERS = 4, BEGIN = 1500 };
  static const double ISSUE = 1.14, ALONE = 3.9, WAIT = 300, NEAR_BYTES = 26, OVERLAP = 6;
  const upconv_problem *p = &e->lowered->conv;
  double tiles = (double)uc_max(1, p->batch);
  double kinds = (double)(p->groups * uc_ceil_div(e->group_out, k->bm));
  for (int a = 0; a < UC_AXES; a++) tiles *= (double)uc_ceil_div(extent[a], k->cells[a]);
  double blocks = ceil(ceil(tiles / (double)k->threads) * kinds / fmax(1, e->target.sm_count));
  direct_turn t = turn_of(e, k, extent);
  const double unit[] = {t.instructions / SCHEDULERS * ISSUE, t.memory, t.near_bytes / NEAR_BYTES};
  double busy = blocks * (double)(k->threads / WARP) * uc_cuda_together(unit, 3, OVERLAP);
  double turns = ceil(blocks / (double)blocks_held(e, k));
  const double part[] = {busy, turns * (t.instructions * ALONE + t.waits * WAIT)};
  return BEGIN + uc_cuda_together(part, 2, OVERLAP);
}

/* Threads of a block: few where there are not enough cells for all multiprocessors. */
static int64_t threads_for(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                           const int64_t extent[UC_AXES]) {
  int64_t tiles = uc_max(1, e->lowered->conv.batch) * e->lowered->conv.groups, threads = THREADS;
  tiles *= uc_ceil_div(e->group_out, k->bm);
  for (int a = 0; a < UC_AXES; a++) tiles *= uc_ceil_div(extent[a], k->cells[a]);
  while (threads > WARP && tiles / threads < e->target.sm_count) threads /= 2;
  return threads;
}

/* Only weights lie in shared memory. */
static void place_weights(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  k->x_row = k->x_size[2];
  k->x_plane = k->x_size[1] * k->x_row;
  k->shared_weights = k->resident = k->static_taps = true;
  k->chunk = e->group_in;
  k->x_floats = k->team_floats = 0;
  k->inverse_at = uc_ceil_div(e->group_in * e->kernel_size * k->bm, 4) * 4;
  k->staging_floats = k->inverse_at + INVERSE_FLOATS;
}

bool uc_cuda_shape_direct(const uc_cuda_engine *e, uc_cuda_kernel *k,
                          const int64_t extent[UC_AXES]) {
  if (!may_load_directly(e, k)) return false;
  static const int64_t channels[] = {16, 12, 8, 6, 5, 4, 3, 2, 1};
  uc_cuda_kernel chosen = *k, tried = *k;
  tried.direct = true;
  tried.strip = tried.residue_groups = 1;
  tried.rt = uc_volume(k->residues);
  for (int axis = 0; axis < 2; axis++)
    for (int64_t cells = 1; cells <= uc_min(MAX_CELLS, extent[axis]); cells++)
      for (size_t i = 0; i < 2 * sizeof channels / sizeof *channels; i++) {
        if (!set_thread(e, &tried, axis, cells, channels[i / 2], i % 2)) continue;
        tried.threads = threads_for(e, &tried, extent);
        tried.direct_clocks = clocks_of(e, &tried, extent);
        if (!chosen.direct || tried.direct_clocks < chosen.direct_clocks) chosen = tried;
      }
  if (!chosen.direct) return false;
  *k = chosen;
  k->min_blocks = blocks_held(e, k);
  place_weights(e, k);
  return true;
}
