/* SPDX-License-Identifier: Apache-2.0 */
/* A pass as a kernel: what is held in registers, what in shared memory, and how large the tiles are. */
#include "shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"

enum {
  MAX_SUMS = 64,           /* of a thread, FFMA */
  THREAD_CELLS = 4,        /* of a thread at most, FFMA */
  MAX_RESIDUES = 32,       /* held at once */
  MAX_UNROLLED = 2048,     /* multiply-adds in a loop's body */
  TILE_FLOATS = 16 * 1024, /* wanted size of tile buffers */
  MAX_TILE = 64
};

double uc_cuda_together(const double *part, int count, double overlap) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += pow(part[i], overlap);
  return pow(sum, 1 / overlap);
}

/* ---- what can be finished in registers ---- */

/* A pooling window that lies within one cell: outputs R j - pad .. R j - pad + r - 1 with R its stride. */
static bool window_in_cell(const upconv_window *w, const upconv_problem *conv) {
  int64_t residues = 1;
  for (int a = 0; a < UC_AXES; a++) {
    if (w->kernel[a] > w->stride[a] || (w->kernel[a] > 1 && w->dilation[a] != 1)) return false;
    if (w->stride[a] % conv->axis[a].stride != 0) return false;
    residues *= w->stride[a];
    if (residues > MAX_RESIDUES) return false;
  }
  return true;
}

enum { BEFORE_POOL = 1, AFTER_POOL = 2 };

/* Sides of the pooling operator that a step's operands in the pass lie on. */
static int operand_sides(const uc_step *step, const int *side) {
  int sides = 0;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    if (step->source[i] >= 0 && side[step->source[i]] != 0) sides |= side[step->source[i]];
  return sides;
}

/* Elementwise operators and at most one pooling operator whose windows are cells. *pool: its step or -1. */
static bool fusible(const uc_lowered *lowered, const uc_pass *pass, int *side, int *pool) {
  *pool = -1;
  if (!pass->conv || pass->all_channels || pass->reduce_op >= 0) return false;
  for (int k = 0; k < pass->step_count; k++) {
    const uc_step *step = &pass->step[k];
    side[k] = step->kind == UC_STEP_CONV ? BEFORE_POOL : 0;
    if (step->kind != UC_STEP_OP) continue;
    const upconv_op *op = &lowered->tail->op[step->op];
    int sides = operand_sides(step, side);
    if (uc_op_classify(op->kind) == UC_CLASS_POOL) {
      if (*pool >= 0 || sides != BEFORE_POOL || !window_in_cell(&op->window, &lowered->conv))
        return false;
      *pool = k;
      side[k] = AFTER_POOL;
    } else {
      if (sides == (BEFORE_POOL | AFTER_POOL)) return false;
      side[k] = sides;
    }
  }
  return side[pass->target] == (*pool >= 0 ? AFTER_POOL : BEFORE_POOL);
}

/* ---- boxes of tiles ---- */

/* false where operands of one value are needed at different rates: *keep is then the value to keep in memory. */
static bool unite(uc_cuda_box *box, const uc_cuda_box *more) {
  if (box->size[0] == 0) {
    *box = *more;
    return true;
  }
  for (int a = 0; a < UC_AXES; a++) {
    if (box->mult[a] != more->mult[a]) return false;
    int64_t end = uc_max(box->off[a] + box->size[a], more->off[a] + more->size[a]);
    box->off[a] = uc_min(box->off[a], more->off[a]);
    box->size[a] = end - box->off[a];
  }
  return true;
}

static int step_value(const uc_step *step) { return step->kind == UC_STEP_OP ? step->op + 1 : 0; }

static bool find_boxes(const uc_lowered *lowered, const uc_pass *pass, const int64_t tile[UC_AXES],
                       uc_cuda_box *box, int *keep) {
  memset(box, 0, (size_t)pass->step_count * sizeof *box);
  for (int a = 0; a < UC_AXES; a++) {
    box[pass->target].mult[a] = 1;
    box[pass->target].size[a] = tile[a];
  }
  for (int k = pass->step_count - 1; k >= 0; k--) {
    const uc_step *step = &pass->step[k];
    if (step->kind != UC_STEP_OP) continue;
    const upconv_op *op = &lowered->tail->op[step->op];
    uc_cuda_box in = box[k];
    for (int a = 0; a < UC_AXES && uc_op_classify(op->kind) == UC_CLASS_POOL; a++) {
      in.mult[a] = box[k].mult[a] * op->window.stride[a];
      in.off[a] = box[k].off[a] * op->window.stride[a] - op->window.pad_begin[a];
      in.size[a] = (box[k].size[a] - 1) * op->window.stride[a] +
                   (op->window.kernel[a] - 1) * op->window.dilation[a] + 1;
    }
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      if (step->source[i] < 0 || unite(&box[step->source[i]], &in)) continue;
      *keep = step_value(&pass->step[step->source[i]]);
      return false;
    }
  }
  return true;
}

/* ---- cells and taps ---- */

int64_t uc_cuda_common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : uc_cuda_common_divisor(b, a % b);
}

int64_t uc_cuda_input_size(const uc_cuda_kernel *k, int axis, int64_t cells) {
  return (cells - 1) * k->step[axis] + k->span[axis] + 1;
}

static void size_input(uc_cuda_kernel *k) {
  for (int a = 0; a < UC_AXES; a++) k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
}

/* Whether element `at` of the kernel serves a residue along one axis, and which input it reads. */
static bool reads(const upconv_problem *p, const uc_cuda_kernel *k, int axis, int64_t residue,
                  int64_t at, int32_t *delta) {
  const uc_axis *x = &p->axis[axis];
  int64_t reach = k->base[axis] + residue + x->pad_begin - x->dilation * at;
  *delta = (int32_t)uc_floor_div(reach, x->stride);
  return uc_mod(reach, x->stride) == 0;
}

/* A tap serves one residue of each axis by one element of the kernel: the product of what the axes have. */
static int64_t count_taps(const upconv_problem *p, const uc_cuda_kernel *k) {
  int64_t count = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t live = 0;
    int32_t delta;
    for (int64_t rho = 0; rho < k->residues[a]; rho++)
      for (int64_t at = 0; at < p->axis[a].kernel; at++) live += reads(p, k, a, rho, at, &delta);
    count *= live;
  }
  return count;
}

static void list_taps(const upconv_problem *p, uc_cuda_kernel *k, int64_t residue) {
  const int64_t *r = k->residues,
                rho[UC_AXES] = {residue / r[2] / r[1], residue / r[2] % r[1], residue % r[2]};
  uc_cuda_tap tap = {.residue = (int32_t)residue};
  for (int64_t i = 0; i < p->axis[0].kernel; i++) {
    if (!reads(p, k, 0, rho[0], i, &tap.delta[0])) continue;
    for (int64_t j = 0; j < p->axis[1].kernel; j++) {
      if (!reads(p, k, 1, rho[1], j, &tap.delta[1])) continue;
      for (int64_t l = 0; l < p->axis[2].kernel; l++) {
        if (!reads(p, k, 2, rho[2], l, &tap.delta[2])) continue;
        tap.kernel = (int32_t)((i * p->axis[1].kernel + j) * p->axis[2].kernel + l);
        k->tap[k->tap_count++] = tap;
      }
    }
  }
}

upconv_status uc_cuda_find_taps(const upconv_problem *p, uc_cuda_kernel *k) {
  int64_t count = count_taps(p, k), low[UC_AXES], high[UC_AXES];
  k->tap = calloc((size_t)uc_max(1, count), sizeof *k->tap);
  if (!k->tap)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a table of %lld taps", (long long)count);
  k->tap_count = 0;
  for (int64_t r = 0; r < uc_volume(k->residues); r++) list_taps(p, k, r);
  for (int a = 0; a < UC_AXES; a++) {
    low[a] = INT32_MAX;
    high[a] = INT32_MIN;
    for (int64_t t = 0; t < k->tap_count; t++) {
      low[a] = uc_min(low[a], k->tap[t].delta[a]);
      high[a] = uc_max(high[a], k->tap[t].delta[a]);
    }
    k->x_base[a] = low[a];
    k->span[a] = high[a] - low[a];
  }
  size_input(k);
  return UPCONV_OK;
}

static int compare_offsets(const uc_cuda_tap *x, const uc_cuda_tap *y, const int order[UC_AXES]) {
  for (int i = 0; i < UC_AXES; i++)
    if (x->delta[order[i]] != y->delta[order[i]])
      return x->delta[order[i]] < y->delta[order[i]] ? -1 : 1;
  return x->residue != y->residue ? (x->residue < y->residue ? -1 : 1)
                                  : (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

static int by_offset(const void *a, const void *b) {
  return compare_offsets(a, b, (const int[]){0, 1, 2});
}

/* Where a thread's cells follow each other along H or D: its taps along that axis, which read the same inputs, one after the
   other. */
static int by_offset_h_last(const void *a, const void *b) {
  return compare_offsets(a, b, (const int[]){0, 2, 1});
}

static int by_offset_d_last(const void *a, const void *b) {
  return compare_offsets(a, b, (const int[]){1, 2, 0});
}

void uc_cuda_sort_held_taps(uc_cuda_kernel *k) {
  for (int64_t first = 0, end; first < k->tap_count; first = end) {
    for (end = first; end < k->tap_count; end++)
      if (k->tap[end].residue / k->rt != k->tap[first].residue / k->rt) break;
    qsort(k->tap + first, (size_t)(end - first), sizeof *k->tap, by_offset);
  }
}

void uc_cuda_sort_taps(uc_cuda_kernel *k) {
  int (*order)(const void *, const void *) = by_offset;
  if (k->x_row && k->thread_axis != 2)
    order = k->thread_axis == 1 ? by_offset_h_last : by_offset_d_last;
  qsort(k->tap, (size_t)k->tap_count, sizeof *k->tap, order);
}

bool uc_cuda_tap_goes_on(const uc_cuda_kernel *k, int64_t t) {
  if (t == 0) return false;
  const uc_cuda_tap *here = &k->tap[t], *before = here - 1;
  return memcmp(here->delta, before->delta, sizeof here->delta) == 0 &&
         here->residue == before->residue + 1;
}

/* Residues that a thread holds at once: all, or what is left of the innermost axes. */
static int64_t held_residues(const int64_t residues[UC_AXES], int64_t most) {
  if (uc_volume(residues) <= most) return uc_volume(residues);
  if (residues[1] * residues[2] <= most) return residues[1] * residues[2];
  if (residues[2] <= most) return residues[2];
  for (int64_t r = most; r > 1; r--)
    if (residues[2] % r == 0) return r;
  return 1;
}

int64_t uc_cuda_held_residues(const int64_t residues[UC_AXES]) {
  return held_residues(residues, MAX_RESIDUES);
}

int64_t uc_cuda_cell_count(const int64_t extent[UC_AXES]) {
  int64_t count = 1;
  for (int a = 0; a < UC_AXES; a++) count *= uc_power_of_two(extent[a]);
  return count;
}

/* ---- FFMA ---- */

/* The axis along which a thread's cells follow each other. Not W where that can be: neighbouring lanes take neighbours along W,
   so that their loads and stores meet, and cells along another axis read inputs in common. */
static int axis_of_cells(const int64_t extent[UC_AXES]) {
  static const int order[UC_AXES] = {1, 0, 2};
  for (int64_t least = THREAD_CELLS; least > 1; least /= 2)
    for (int i = 0; i < UC_AXES; i++)
      if (extent[order[i]] >= least) return order[i];
  return 2;
}

/* Cells come before channels: a thread loads the weights of each of its channels for every product, but they serve all its
   cells, which in turn have most inputs in common. Two channels are as cheap to load as one. */
static void choose_sums(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  int64_t most_channels = uc_power_of_two(e->group_out), two = uc_min(2, most_channels);
  k->rt = held_residues(k->residues, k->pool >= 0 ? MAX_SUMS : MAX_RESIDUES);
  k->residue_groups = uc_volume(k->residues) / k->rt;
  k->thread_axis = axis_of_cells(extent);
  k->thread_cells = 1;
  while (k->thread_cells < THREAD_CELLS && k->rt * two * k->thread_cells * 2 <= MAX_SUMS &&
         k->thread_cells * 2 <= extent[k->thread_axis])
    k->thread_cells *= 2;
  k->mc = uc_min(8, most_channels);
  int64_t most = k->thread_cells > 1 ? MAX_SUMS : MAX_SUMS / 2; /* weights take registers too */
  if (k->mc == 8) most = MAX_SUMS / 2;
  while (k->mc > 1 && k->rt * k->thread_cells * k->mc > most) {
    k->mc /= 2;
    most = MAX_SUMS;
  }
}

static void cells_of_lanes(const uc_cuda_kernel *k, const int64_t lanes[UC_AXES],
                           int64_t cells[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++)
    cells[a] = lanes[a] * (a == k->thread_axis ? k->thread_cells : 1);
}

/* Instructions of a thread, were there one thread, for all tiles: counted in machine code, to a few of them. */
static double tiling_cost(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                          const int64_t extent[UC_AXES], const int64_t cells[UC_AXES]) {
  double tiles = 1, x = (double)e->group_in, count = (double)k->bm;
  for (int a = 0; a < UC_AXES; a++) {
    tiles *= (double)uc_ceil_div(extent[a], cells[a]);
    x *= (double)uc_cuda_input_size(k, a, cells[a]);
    count *= (double)cells[a];
  }
  /* addresses are found once for up to eight channels; short rows and runs share lines and sectors with others */
  double row = (double)uc_cuda_input_size(k, 2, cells[2]);
  double word = (12 + 24.0 / (double)uc_min(8, e->group_in)) * (1 + 8 / row);
  double outputs = k->pool >= 0 ? 1 : (double)uc_volume(k->residues);
  double run = (double)(cells[2] * (k->pool >= 0 ? 1 : k->residues[2]));
  return tiles * (x * word +
                  count * (1.2 * (double)(k->tap_count * e->group_in) + outputs * (6 + 32 / run)));
}

/* `count` threads (a power of two) over the axes: the cheapest way, of those whose input fits. */
static void spread_threads(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t count,
                           const int64_t extent[UC_AXES]) {
  bool best_fits = false;
  double best = -1;
  for (int64_t w = 1; w <= count; w *= 2)
    for (int64_t h = 1; w * h <= count; h *= 2) {
      int64_t lanes[UC_AXES] = {count / w / h, h, w}, cells[UC_AXES], x = 1;
      cells_of_lanes(k, lanes, cells);
      for (int a = 0; a < UC_AXES; a++) x *= uc_cuda_input_size(k, a, cells[a]);
      bool fits = x <= UC_CUDA_STAGING_FLOATS;
      double cost = tiling_cost(e, k, extent, cells);
      if (best >= 0 && (fits != best_fits ? best_fits : cost >= best)) continue;
      best = cost;
      best_fits = fits;
      memcpy(k->lanes, lanes, sizeof lanes);
      memcpy(k->cells, cells, sizeof cells);
    }
}

/* Taps are known. */
static void choose_ffma(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  k->strip = 1;
  choose_sums(e, k, extent);
  int64_t groups_of_channels = uc_power_of_two(uc_ceil_div(e->group_out, k->mc));
  /* at least eight channels share an input tile, if there are as many */
  int64_t most = k->mc >= 4 || groups_of_channels <= 2 ? 128 : 64;
  int64_t threads_of_cells = uc_max(32, uc_min(most, uc_cuda_cell_count(extent) / k->thread_cells));
  k->threads = uc_min(256, threads_of_cells * groups_of_channels);
  k->bm = k->threads / threads_of_cells * k->mc;
  spread_threads(e, k, threads_of_cells, extent);
}

enum { BANKS = 32 };

/* Words of the input tile, of the inputs that the lanes of a warp read at once, that lie in the fullest bank. */
static int64_t bank_conflicts(const uc_cuda_kernel *k, int64_t row, int64_t plane) {
  int64_t most = 0, words[BANKS] = {0};
  for (int64_t t = 0; t < BANKS; t++) {
    int64_t w = t % k->lanes[2], h = t / k->lanes[2] % k->lanes[1],
            d = t / k->lanes[2] / k->lanes[1];
    int64_t at = d * (k->cells[0] / k->lanes[0]) * k->step[0] * plane +
                 h * (k->cells[1] / k->lanes[1]) * k->step[1] * row + w * k->step[2];
    most = uc_max(most, ++words[at % BANKS]);
  }
  return most;
}

/* Distances of rows and planes in the input tile: the first without bank conflicts, or with the fewest, that do not make it
   much larger. */
static void place_rows(uc_cuda_kernel *k) {
  const int64_t *x = k->x_size;
  int64_t most = uc_max(uc_volume(x), uc_min(uc_volume(x) * 3 / 2, UC_CUDA_STAGING_FLOATS));
  int64_t fewest = BANKS + 1;
  for (int64_t i = 0; i < (k->lanes[2] < BANKS ? BANKS : 1); i++)
    for (int64_t j = 0; j < (k->lanes[2] * k->lanes[1] < BANKS ? BANKS : 1); j++) {
      int64_t row = x[2] + i, plane = x[1] * row + j, conflicts = bank_conflicts(k, row, plane);
      if (conflicts >= fewest || x[0] * plane > most) continue;
      fewest = conflicts;
      k->x_row = row;
      k->x_plane = plane;
      if (fewest == 1) return;
    }
}

static const char *stage_ffma(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  place_rows(k);
  int64_t x = k->x_size[0] * k->x_plane, w = e->kernel_size * k->bm;
  k->shared_weights = w <= UC_CUDA_STAGING_FLOATS / 2;
  int64_t per_channel = x + (k->shared_weights ? w : 0);
  k->resident =
      k->fused && k->shared_weights && k->residue_groups == 1 &&
      e->group_in * per_channel <= uc_min(UC_CUDA_RESIDENT_FLOATS, e->target.shared_bytes / 8);
  /* chunks of nearly equal size */
  int64_t most = uc_max(1, UC_CUDA_STAGING_FLOATS / per_channel);
  k->chunk = k->resident ? e->group_in : uc_ceil_div(e->group_in, uc_ceil_div(e->group_in, most));
  k->static_taps = k->residue_groups == 1 && k->tap_count * k->thread_cells * k->mc <= MAX_UNROLLED;
  k->x_floats = k->team_floats = uc_ceil_div(k->chunk * x, 4) * 4;
  k->staging_floats = k->x_floats + (k->shared_weights ? k->chunk * w : 0);
  return k->staging_floats * 4 > e->target.shared_bytes
             ? "the input of one tile does not fit shared memory"
             : NULL;
}

/* ---- a fused pass ---- */

static void value_extent(const int64_t (*shape)[UC_RANK], int value, int64_t extent[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++) extent[a] = uc_max(1, shape[value][a + 2]);
}

/* Blocks that a multiprocessor should hold: while some wait for memory, others compute. With few sums a thread gets along
   with 64 registers, so that there are 32 warps; else with 128, and 16. */
static int64_t wanted_blocks(const uc_cuda_kernel *k) {
  int64_t sums = k->gemm  ? k->held * k->mt * k->nt * 4
                 : k->mma ? k->rt * k->mt * k->nt * 4
                          : k->rt * k->mc * k->thread_cells;
  int64_t threads = sums <= 32 ? 1024 : sums <= 64 ? 512 : 256;
  int64_t held = k->shared_floats > 0 ? UC_CUDA_SHARED_OF_SM / (4 * k->shared_floats) : threads;
  return uc_max(1, uc_min(threads / (k->threads * k->teams), k->gemm ? held : threads));
}

/* FFMA: a position of the input tile is found in as many instructions as three of its words are fetched with. Where a block
   goes over many tiles and a position has few words, all are found once, and so are inverses to divide a tile's number by,
   which lie before them; if the blocks that are wanted have room. */
static void keep_positions(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  int64_t at = uc_ceil_div(k->shared_floats, 4) * 4 + 4, floats = at + 4 * uc_volume(k->x_size);
  int64_t all = k->min_blocks * (4 * floats + UC_CUDA_SHARED_OF_BLOCK);
  if (!k->resident || e->group_in > 4 || all > e->target.shared_bytes) return;
  k->positions_at = at;
  k->shared_floats = floats;
}

/* The inner product's own part: cells, threads, channels and shared memory. Returns why it cannot be, or NULL. */
static const char *shape_inner(const uc_cuda_engine *e, uc_cuda_kernel *k,
                               const int64_t extent[UC_AXES], int64_t width) {
  if (e->gemm) return uc_cuda_shape_gemm(e, k, extent);
  if (e->phase) return uc_cuda_shape_phase(e, k, extent, width);
  if (e->panel) return uc_cuda_shape_panel(e, k, extent, width);
  if (!e->mma && uc_cuda_shape_direct(e, k, extent)) return NULL;
  const char *refusal = NULL;
  if (!e->mma)
    choose_ffma(e, k, extent);
  else
    refusal = uc_cuda_choose_mma(e, k, extent, width);
  if (refusal) return refusal;
  size_input(k);
  return e->mma ? uc_cuda_stage_mma(e, k) : stage_ffma(e, k);
}

/* A maximum of the convolution itself: x + b rounds monotonously, so that the greatest sum makes the greatest element. */
static bool pools_sums(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  if (!(k->mma || k->phase || k->panel) || k->pool < 0 || e->scales_sums) return false;
  const upconv_op *op = &e->lowered->tail->op[k->pass->step[k->pool].op];
  return op->operand[0].index == 0 && op->kind != UPCONV_OP_AVG_POOL;
}

static upconv_status shape_fused(const uc_cuda_engine *e, const int64_t (*shape)[UC_RANK],
                                 uc_cuda_kernel *k, const char **refusal) {
  int64_t extent[UC_AXES];
  value_extent(shape, k->pass->result, extent);
  int64_t width = extent[2];
  const upconv_window *w =
      k->pool >= 0 ? &e->lowered->tail->op[k->pass->step[k->pool].op].window : NULL;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t s = e->lowered->conv.axis[a].stride;
    k->residues[a] = w ? w->stride[a] : s;
    k->base[a] = w ? -w->pad_begin[a] : 0;
    k->step[a] = k->residues[a] / s;
    if (k->scatter && !w && a < 2) k->base[a] = uc_cuda_scatter_base(&e->lowered->conv.axis[a]);
    if (!w) extent[a] = uc_ceil_div(extent[a] - k->base[a], s);
  }
  k->sums_pooled = pools_sums(e, k);
  if (k->depthwise) return uc_cuda_shape_depthwise(e, k, extent, refusal);
  upconv_status status = uc_cuda_find_taps(&e->lowered->conv, k);
  if (status != UPCONV_OK) return status;
  if (k->flat) return uc_cuda_shape_flat(e, k, extent, refusal);
  if (k->scatter) {
    *refusal = uc_cuda_shape_scatter(e, k, extent);
    return UPCONV_OK;
  }
  if ((*refusal = shape_inner(e, k, extent, width))) return UPCONV_OK;
  for (int a = 0; a < UC_AXES; a++) {
    k->cell_step[a] = k->cells[a];
    k->tile[a] = k->cells[a] * (w ? 1 : k->residues[a]);
  }
  k->channels = k->bm;
  k->shared_floats = k->staging_floats;
  if (k->direct) return UPCONV_OK;
  k->min_blocks = k->phase || k->panel ? 1 : wanted_blocks(k);
  if (!k->mma && !k->gemm && !k->phase && !k->panel) keep_positions(e, k);
  return UPCONV_OK;
}

/* ---- a pass with tile buffers ---- */

/* Tile buffers of all slots; false when they exceed `most` floats. */
static bool place_slots(uc_cuda_kernel *k, int64_t most) {
  const uc_pass *pass = k->pass;
  memset(k->slot_at, 0, (size_t)(pass->slot_count + 1) * sizeof *k->slot_at);
  for (int i = 0; i < pass->step_count; i++) {
    const uc_step *step = &pass->step[i];
    if (step->kind == UC_STEP_LOAD) continue;
    int64_t channels =
        pass->all_channels || step->channels == 1 ? step->channels : uc_min(step->channels, k->bm);
    int64_t floats = channels * uc_volume(k->box[i].size);
    k->slot_at[step->slot] = uc_max(k->slot_at[step->slot], uc_ceil_div(floats, 4) * 4);
  }
  int64_t at = 0;
  for (int i = 0; i < pass->slot_count; i++) {
    int64_t floats = k->slot_at[i];
    k->slot_at[i] = at;
    at += floats;
  }
  k->slot_floats = at;
  return at <= most;
}

static int conv_step(const uc_pass *pass) {
  for (int i = 0; i < pass->step_count; i++)
    if (pass->step[i].kind == UC_STEP_CONV) return i;
  return -1;
}

/* Cells of the convolution's box for the current tile; FFMA always serves these passes. */
static upconv_status shape_conv(const uc_cuda_engine *e, uc_cuda_kernel *k, const char **refusal) {
  int c = conv_step(k->pass);
  int64_t extent[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) {
    int64_t s = e->lowered->conv.axis[a].stride;
    k->residues[a] = s;
    k->step[a] = 1;
    k->base[a] = k->box[c].off[a];
    extent[a] = uc_ceil_div(k->box[c].size[a], s);
    k->cell_step[a] = k->box[c].mult[a] * k->tile[a] / s;
  }
  free(k->tap);
  k->tap = NULL;
  upconv_status status = uc_cuda_find_taps(&e->lowered->conv, k);
  if (status != UPCONV_OK) return status;
  choose_ffma(e, k, extent);
  for (int a = 0; a < UC_AXES; a++) k->cell_parts[a] = uc_ceil_div(extent[a], k->cells[a]);
  size_input(k);
  *refusal = stage_ffma(e, k);
  return UPCONV_OK;
}

/* Tries k->tile. *fits: the whole block's shared memory is within `most` floats. */
static upconv_status try_tile(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t most, bool *fits,
                              int *keep) {
  *fits = false;
  *keep = -1;
  if (!find_boxes(e->lowered, k->pass, k->tile, k->box, keep)) return UPCONV_OK;
  const char *refusal = NULL;
  k->staging_floats = 0;
  k->threads = 256;
  k->bm = uc_min(8, k->pass->step[k->pass->target].channels);
  if (k->pass->conv) {
    upconv_status status = shape_conv(e, k, &refusal);
    if (status != UPCONV_OK) return status;
  }
  *fits = !refusal && place_slots(k, most - k->staging_floats);
  k->shared_floats = k->staging_floats + k->slot_floats;
  return UPCONV_OK;
}

/* The value to keep so that the pass needs less shared memory: the operand of its last pooling or channel operator. */
static int value_to_keep(const uc_lowered *lowered, const uc_pass *pass) {
  for (int i = pass->step_count - 1; i >= 0; i--) {
    const uc_step *step = &pass->step[i];
    if (step->kind != UC_STEP_OP ||
        uc_op_classify(lowered->tail->op[step->op].kind) == UC_CLASS_ELEMENTWISE)
      continue;
    if (step->source[0] >= 0 && pass->step[step->source[0]].kind != UC_STEP_LOAD)
      return step_value(&pass->step[step->source[0]]);
  }
  return pass->reduce_op >= 0 && pass->step[pass->target].kind != UC_STEP_LOAD
             ? step_value(&pass->step[pass->target])
             : -1;
}

static upconv_status grow_tile(const uc_cuda_engine *e, uc_cuda_kernel *k,
                               const int64_t extent[UC_AXES], const int64_t unit[UC_AXES]) {
  int64_t most = uc_min(TILE_FLOATS + UC_CUDA_STAGING_FLOATS, e->target.shared_bytes / 4);
  int keep;
  bool fits;
  for (int a = UC_AXES - 1; a >= 0; a--) {
    int64_t limit = a == 2 ? MAX_TILE : 8;
    while (k->tile[a] < extent[a] && k->tile[a] < limit * unit[a]) {
      k->tile[a] *= 2;
      upconv_status status = try_tile(e, k, most, &fits, &keep);
      if (status != UPCONV_OK) return status;
      if (fits) continue;
      k->tile[a] /= 2;
      break;
    }
  }
  return try_tile(e, k, e->target.shared_bytes / 4, &fits, &keep);
}

static upconv_status shape_tiled(const uc_cuda_engine *e, const int64_t (*shape)[UC_RANK],
                                 uc_cuda_kernel *k, const char **refusal, int *keep) {
  int64_t extent[UC_AXES], unit[UC_AXES];
  int target = k->pass->reduce_op >= 0 ? e->lowered->tail->op[k->pass->reduce_op].operand[0].index
                                       : k->pass->result;
  value_extent(shape, target, extent);
  for (int a = 0; a < UC_AXES; a++) k->tile[a] = 1;
  if (!find_boxes(e->lowered, k->pass, k->tile, k->box, keep)) return UPCONV_OK;
  int c = conv_step(k->pass);
  for (int a = 0; a < UC_AXES; a++) {
    int64_t s = e->lowered->conv.axis[a].stride;
    unit[a] = c >= 0 ? s / uc_cuda_common_divisor(s, k->box[c].mult[a]) : 1;
    k->tile[a] = unit[a];
  }
  bool fits;
  upconv_status status = try_tile(e, k, e->target.shared_bytes / 4, &fits, keep);
  if (status != UPCONV_OK || *keep >= 0) return status;
  if (!fits) {
    *keep = value_to_keep(e->lowered, k->pass);
    if (*keep < 0) *refusal = "one tile does not fit shared memory";
    return UPCONV_OK;
  }
  status = grow_tile(e, k, extent, unit);
  k->channels = k->pass->all_channels ? k->pass->step[k->pass->target].channels : k->bm;
  return status;
}

upconv_status uc_cuda_shape(const uc_cuda_engine *e, const uc_pass *pass,
                            const int64_t (*shape)[UC_RANK], uc_cuda_kernel *k,
                            const char **refusal, int *keep) {
  k->pass = pass;
  k->teams = 1;
  *refusal = NULL;
  *keep = -1;
  int *side = calloc((size_t)pass->step_count, sizeof *side);
  k->box = calloc((size_t)pass->step_count, sizeof *k->box);
  k->slot_at = calloc((size_t)pass->slot_count + 1, sizeof *k->slot_at);
  if (!side || !k->box || !k->slot_at) {
    free(side);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  }
  k->fused = fusible(e->lowered, pass, side, &k->pool);
  free(side);
  if (!k->fused) k->pool = -1;
  k->samples = 1;
  k->mma = e->mma && !e->gemm && !e->phase && !e->panel && k->fused;
  k->phase = e->phase && k->fused;
  k->panel = e->panel && k->fused;
  k->gemm = e->gemm && k->fused;
  k->depthwise = e->depthwise && k->fused;
  k->flat = e->flat && k->fused;
  k->scatter = e->scatter && k->fused;
  if (k->fused) return shape_fused(e, shape, k, refusal);
  if ((e->mma || e->depthwise || e->flat || e->scatter) && pass->conv) {
    *refusal = "the tail needs tile buffers, which the FP32 kernel alone has";
    return UPCONV_OK;
  }
  return shape_tiled(e, shape, k, refusal, keep);
}

void uc_cuda_shape_free(uc_cuda_kernel *k) {
  free(k->tap);
  free(k->flattened.quad);
  free(k->phases.main.product);
  free(k->phases.rest.product);
  free(k->box);
  free(k->slot_at);
  free(k->source);
}
