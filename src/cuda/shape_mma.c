/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of the tensor-core kernel: fragments of a warp, warps of a block, and how its input lies in shared memory. */
#include <string.h>

#include "../checked.h"
#include "shape.h"

enum {
  MAX_SUMS = 64, /* registers of sums of a thread: four blocks of 4 warps fit a multiprocessor */
  MAX_UNROLLED = 1024,
  WARPS = 4, /* of a team: small teams, so that some finish while others multiply */
  BLOCK_THREADS = 512,
  MAX_TEAMS = 8,   /* each has a barrier, of which a block has 16 */
  MAX_WINDOW = 16, /* positions of all strips of a lane */
  /* of a product of four warps: an H200 takes as long for fewer, where each warp for itself was faster */
  LEAST_COLUMNS = 32,
  WARP = 32,
  LANE_GROUPS = 8 /* lanes of a warp that have different cells */
};

/* What a tiling of the extent into tiles of so many cells costs: outputs, beyond the borders too, and inputs, a halo
   included; lines of the result that are written in short pieces count more, and also rows of fewer outputs than a warp has lanes
   where most of a tile's time is for them. */
static double tiling_cost(const uc_cuda_kernel *k, const int64_t extent[UC_AXES],
                          const int64_t cells[UC_AXES], int64_t result_bytes) {
  double tiles = 1, outputs = 1, inputs = 1;
  for (int a = 0; a < UC_AXES; a++) {
    tiles *= (double)uc_ceil_div(extent[a], cells[a]);
    outputs *= (double)cells[a];
    inputs *= (double)uc_cuda_input_size(k, a, cells[a]);
  }
  int64_t line = uc_min(cells[2], extent[2]) * result_bytes;
  double pieces = line >= 64 ? 1 : line >= 32 ? 1.25 : 1.5;
  int64_t outputs_of_row = uc_min(cells[2], extent[2]) * k->residues[2];
  if (k->pool < 0 && outputs_of_row < WARP)
    pieces += (double)(result_bytes * k->residues[0] * k->residues[1]) / 256;
  return tiles * (outputs * pieces + inputs / 4);
}

/* `count` cells, a power of two, as powers of two along the axes, whole strips along W: the cheapest tiling. */
static void tile_cells(uc_cuda_kernel *k, int64_t count, const int64_t extent[UC_AXES],
                       int64_t result_bytes) {
  double best = -1;
  for (int64_t w = count; w >= (k->strip == 1 ? LANE_GROUPS : k->strip); w /= 2)
    for (int64_t h = 1; h <= count / w; h *= 2) {
      int64_t cells[UC_AXES] = {count / w / h, h, w};
      double cost = tiling_cost(k, extent, cells, result_bytes);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      memcpy(k->cells, cells, sizeof cells);
    }
}

/* Bytes of one cell's outputs along W. */
static int64_t result_bytes(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t size = (int64_t)upconv_dtype_size(e->lowered->source.y_dtype);
  return size * (k->pool >= 0 ? 1 : k->residues[2]);
}

/* Positions that the taps of one row read for `strip` cells, if the window begins `lead` before the first. */
static int64_t window_size(const uc_cuda_kernel *k, int64_t strip, int64_t lead, int64_t vector) {
  int64_t positions = (strip - 1) * k->step[2] + k->span[2] + 1 + lead % vector;
  return uc_ceil_div(positions, vector) * vector;
}

/* Neighbouring cells of a lane: those whose results along W are one store of 16 bytes, so that the stores of a warp leave no
   gaps; all, where shorter strips would read too much. One, where dense rows are not aligned to it. */
static int64_t choose_strip(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t width) {
  int64_t cells = 2 * k->mt, results = k->pool >= 0 ? 1 : k->residues[2];
  int64_t most = 16 / (int64_t)upconv_dtype_size(e->lowered->source.y_dtype), run = 1;
  while (run < most && cells * results % (2 * run) == 0) run *= 2;
  if (width >= LANE_GROUPS && width % run != 0) return 1;
  if (e->word != UPCONV_F32 || results != uc_power_of_two(results)) return cells;
  int64_t strip = uc_min(cells, uc_max(2, most / results));
  return cells / strip * window_size(k, strip, 1, 2) > MAX_WINDOW ? cells : strip;
}

static void choose_warps(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t warps_n,
                         int64_t rounds, const int64_t extent[UC_AXES]) {
  int64_t cells = uc_cuda_cell_count(extent);
  k->warps_m = uc_max(1, uc_min(WARPS / warps_n, cells / (16 * k->mt)));
  k->rounds = rounds;
  k->bm = warps_n * 8 * k->nt * rounds;
  k->threads = 32 * k->warps_m * warps_n;
  tile_cells(k, k->warps_m * 16 * k->mt, extent, result_bytes(e, k));
}

/* Weights that lie in shared memory for a step of the depth: of every element of the kernel or, in the order of the products
   of four warps, of every tap. */
static int64_t weight_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  return (k->wgmma ? k->tap_count : e->kernel_size) * k->bm * e->step_words;
}

static int64_t staging_limit(const uc_cuda_engine *e) {
  return uc_min(UC_CUDA_RESIDENT_FLOATS, e->target.shared_bytes / 8);
}

/* At most so much shared memory for input and weights of all channels, paddings included. */
static int64_t most_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t inputs = uc_cuda_input_size(k, 2, k->cells[2]) + 3;
  for (int a = 0; a < 2; a++) inputs *= uc_cuda_input_size(k, a, k->cells[a]);
  int64_t planes = 4 * ((inputs + 1) * e->step_words / 4 + 32) + 32;
  return e->ci_steps * (planes + weight_floats(e, k));
}

/* Taps of one offset that serve neighbouring residues are one product, as many as divide all such runs: products of different
   sizes would have to wait for each other. Taps go offset by offset. */
static int64_t product_taps(const uc_cuda_kernel *k) {
  int64_t common = 0, run = 0;
  for (int64_t t = 0; t < k->tap_count; t++) {
    run = uc_cuda_tap_goes_on(k, t) ? run + 1 : 1;
    if (t + 1 == k->tap_count || !uc_cuda_tap_goes_on(k, t + 1))
      common = uc_cuda_common_divisor(run, common);
  }
  return uc_max(1, common);
}

/* Four warps multiply 64 cells together, if the device has that, there are as many cells, the weights of all channels stay in
   shared memory, and products have enough columns. Not TF32 words, whose weights take twice the room: cuda-phase, which reads both
   operands from shared memory, took 0.221 ms on an H200 where this took 0.259 (64→32 k2 s2 at 64³), and 0.017 where 0.025. */
static bool choose_fours(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t columns,
                         const int64_t extent[UC_AXES], int64_t width) {
  int64_t most = MAX_SUMS / 4 / k->rt, cells = uc_cuda_cell_count(extent);
  if (strcmp(e->target.arch, "sm_90a") != 0 || e->step_words != 8 || most == 0 ||
      cells < 16 * WARPS || e->word == UPCONV_F32)
    return false;
  k->product_taps = product_taps(k);
  k->nt = columns; /* and so the rounds, powers of two */
  while (k->nt > most) k->nt /= 2;
  if (k->product_taps * k->nt * 8 < LEAST_COLUMNS) return false;
  k->mt = 1;
  while (k->mt * 2 * k->nt <= most && cells >= 16 * WARPS * k->mt * 2) k->mt *= 2;
  k->strip = choose_strip(e, k, width);
  choose_warps(e, k, 1, columns / k->nt, extent);
  return k->warps_m == WARPS && most_floats(e, k) <= staging_limit(e);
}

/* Whether teams share weights and copy their input ahead. Pairs of 16-bit channels must be put together first, which takes
   longer than it saves: an H200 was up to three times slower with them. */
static bool works_in_teams(const uc_cuda_engine *e) { return e->word == UPCONV_F32; }

/* All warps over positions, if the tile's whole input and all weights fit: halos are smaller then. Where the weights of all
   channels do not, blocks share them out, evenly, at least so many rounds each: the fewest blocks, since each stages the
   input again, which teams do while they multiply. */
static bool choose_rounds(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t all, int64_t least,
                          const int64_t extent[UC_AXES]) {
  for (int64_t blocks = 1;; blocks++) {
    int64_t rounds = uc_ceil_div(all, blocks);
    if (blocks > 1 && (rounds < least || !works_in_teams(e))) return false;
    choose_warps(e, k, 1, rounds, extent);
    if (rounds == 1 || most_floats(e, k) <= staging_limit(e)) return true;
  }
}

const char *uc_cuda_choose_mma(const uc_cuda_engine *e, uc_cuda_kernel *k,
                               const int64_t extent[UC_AXES], int64_t width) {
  k->rt = uc_volume(k->residues);
  k->residue_groups = 1;
  if (k->rt * 4 > 2 * MAX_SUMS) return "more phases than the tensor-core kernel holds in registers";
  int64_t columns = uc_ceil_div(e->group_out, 8);
  uc_cuda_sort_taps(k);
  k->wgmma = true;
  if (choose_fours(e, k, uc_power_of_two(columns), extent, width)) return NULL;
  k->wgmma = false;
  k->product_taps = 1;
  int64_t most = uc_max(1, MAX_SUMS / 4 / k->rt); /* of MT * NT */
  k->nt = most >= 16 ? 4 : most >= 4 ? 2 : 1;
  k->nt =
      uc_ceil_div(columns, uc_ceil_div(columns, k->nt)); /* as little padding in as few rounds */
  k->mt = 1;
  while (k->mt < 4 && k->mt * 2 * k->nt <= most) k->mt *= 2;
  int64_t cells = uc_cuda_cell_count(extent);
  while (k->mt > 1 && cells < 16 * k->mt) k->mt /= 2;
  k->strip = choose_strip(e, k, width);
  int64_t rounds = uc_ceil_div(columns, k->nt), warps_n = uc_min(uc_power_of_two(rounds), WARPS);
  if (!choose_rounds(e, k, rounds, warps_n / 2 + 1, extent)) choose_warps(e, k, warps_n, 1, extent);
  return NULL;
}

/* Each strip of a row of taps reads one window of the input, loaded by wide instructions; where taps lie far apart, each tap
   reads its own. */
static void choose_window(uc_cuda_kernel *k, int64_t lane_words) {
  k->window = k->strip;
  k->vector = 1;
  k->pairs = false;
  if (k->strip == 1) return;
  int64_t window = window_size(k, k->strip, k->lead, 2), vector = 2;
  int64_t most = MAX_WINDOW / (2 * k->mt / k->strip);
  if (lane_words == 1 && k->strip * k->step[2] % 4 == 0) {
    int64_t wider = window_size(k, k->strip, k->lead, 4);
    if (wider <= uc_min(most, uc_ceil_div(window, 4) * 4)) window = wider, vector = 4;
  }
  if (window > most) return;
  k->window = window;
  k->vector = vector;
  k->pairs = lane_words == 2 && !k->wgmma;
  k->x_size[2] = uc_ceil_div(k->x_size[2], k->vector) * k->vector;
}

/* Planes t = 0 .. 3 of the input tile begin `odd` (t % 2) and `high` (t / 2) words beyond a multiple of all banks, so that
   neighbouring lanes, which are lane_step words apart within a plane, meet no bank twice. */
static void choose_planes(uc_cuda_kernel *k, int64_t lane_words) {
  int64_t lane_step = k->strip * k->step[2] * (k->pairs ? lane_words : 1);
  if (k->vector > 1) {
    k->skew_odd = lane_step == 8 || lane_step == 16 ? 4 : 8;
    k->skew_high = lane_step == 16 ? 8 : 16;
  } else {
    k->skew_odd = lane_step == 1 ? 8 : 1;
    k->skew_high = lane_step <= 2 ? 16 : 2;
  }
  int64_t positions = uc_ceil_div(uc_volume(k->x_size), 2) * 2;
  k->x_plane = uc_ceil_div(positions * lane_words, 32) * 32;
}

/* ---- prefetching ---- */

/* Inputs along W that are copied together, by what the copies of a row cost: it begins and ends at multiples of them. 0: this
   input is not copied as it is. */
static int64_t choose_copy(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const upconv_problem *p = &e->lowered->conv;
  if (!works_in_teams(e) || p->x_layout == UPCONV_CHANNELS_LAST || p->x_dtype != UPCONV_F32)
    return 0;
  int64_t best = 0;
  double least = 0;
  for (int64_t v = 1; v <= 4; v *= 2) {
    if (p->axis[2].in_size % v != 0 || k->cells[2] * k->step[2] % v != 0) continue;
    int64_t row = uc_ceil_div(uc_mod(k->x_base[2], v) + k->x_size[2], v) * v;
    double cost = (double)row * (1 + 4.0 / (double)v);
    if (best > 0 && cost >= least) continue;
    best = v;
    least = cost;
  }
  return best;
}

/* The input's layout in shared memory; copy: inputs along W that are copied together, or 0. */
static void lay_out_input(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t copy) {
  int64_t lane_words = e->step_words / 4;
  k->x_vector = copy;
  k->lead = copy > 0 ? uc_mod(k->x_base[2], copy) : 0;
  k->x_base[2] -= k->lead;
  k->x_size[2] += k->lead;
  choose_window(k, lane_words);
  if (copy > 0) k->x_size[2] = uc_ceil_div(k->x_size[2], copy) * copy;
  choose_planes(k, lane_words);
  k->x_step_words = 4 * k->x_plane + k->skew_odd + k->skew_high;
}

/* As many teams as a block should have threads, if they fit shared memory. */
static int64_t teams_that_fit(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t weights) {
  int64_t room = (e->target.shared_bytes / 4 - weights) / k->team_floats;
  return uc_min(room, uc_max(1, uc_min(MAX_TEAMS, BLOCK_THREADS / k->threads)));
}

/* Whether the weights stay, so that the tiles' input can be copied ahead. */
static bool stage_ahead(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  int64_t copy = choose_copy(e, k);
  if (copy == 0) return false;
  lay_out_input(e, k, copy);
  int64_t weights = e->ci_steps * weight_floats(e, k);
  k->chunk = e->ci_steps * e->step_words;
  k->x_floats = uc_ceil_div(e->ci_steps * k->x_step_words, 4) * 4;
  k->team_floats = k->x_floats + k->chunk * uc_volume(k->x_size) + 4; /* and where the tile is */
  if (k->x_floats + weights > staging_limit(e)) return false;
  k->teams = teams_that_fit(e, k, weights);
  k->staging_floats = k->teams * k->team_floats + weights;
  k->prefetch = k->resident = true;
  return k->teams > 0;
}

static void stage_in_turn(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  lay_out_input(e, k, 0);
  int64_t weights = weight_floats(e, k), step = k->x_step_words + weights;
  k->resident = e->ci_steps * step <= staging_limit(e);
  int64_t most = uc_max(1, UC_CUDA_STAGING_FLOATS / step);
  int64_t steps =
      k->resident ? e->ci_steps : uc_ceil_div(e->ci_steps, uc_ceil_div(e->ci_steps, most));
  k->chunk = e->step_words * steps;
  k->x_floats = k->team_floats = uc_ceil_div(steps * k->x_step_words, 4) * 4;
  if (k->resident && works_in_teams(e)) k->teams = uc_max(1, teams_that_fit(e, k, steps * weights));
  k->staging_floats = k->teams * k->team_floats + steps * weights;
}

const char *uc_cuda_stage_mma(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  if (k->tap_count * k->mt * k->nt > MAX_UNROLLED)
    return "more taps than the tensor-core kernel unrolls";
  k->static_taps = k->shared_weights = true;
  uc_cuda_kernel before = *k;
  if (!stage_ahead(e, k)) {
    *k = before;
    stage_in_turn(e, k);
  }
  return k->staging_floats * 4 > e->target.shared_bytes
             ? "tile and weights of one chunk do not fit shared memory"
             : NULL;
}
