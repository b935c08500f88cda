/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes with few input channels on the tensor cores: the depth of the product is flattened over channels and taps. Each
 * residue has its own list of words, four of them (a quad) for the four lanes that share a row; a lane finds its word at
 * an offset from its cell that is a constant of the quad plus one of a few patterns.
 */
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "shape.h"

enum {
  MOST_THREADS = 256,
  LANE_GROUPS = 8,      /* lanes of a warp that have different cells */
  MAX_SUMS = 128,       /* registers of sums */
  GOOD_SUMS = 64,       /* up to where a fragment takes more channels */
  MAX_PRODUCTS = 512,   /* unrolled instructions */
  MAX_RESULTS = 512,    /* unrolled: results of a lane */
  HELD_WORDS = 24,      /* registers of weights */
  OF_SHARE = 128,       /* registers of a thread where 512 share a multiprocessor */
  FETCHED_WORDS = 24,   /* registers of the next tile's input */
  FETCHED_VECTORS = 32, /* the same, in vectors: fewer places to remember */
  BULK_BYTES = 4096,    /* of a run, from which on it is copied as a whole */
  MAX_REACH = 4096,     /* distance of taps along an axis */
  MAX_EXTENT = 511,     /* of a tile's input: coordinates of nine bits */
  MAX_CELLS = 1024,
  BANKS = 32,
  ORDERS = 24, /* of channel, depth, height and width */
  STRIP = 4    /* cells */
};

/* ---- the depth ---- */

typedef struct word {
  int64_t key;
  int32_t at[1 + UC_AXES]; /* channel, delta */
  int32_t weight;
} word;

static int by_key(const void *a, const void *b) {
  int64_t x = ((const word *)a)->key, y = ((const word *)b)->key;
  return (x > y) - (x < y);
}

/* Order i of the axes: order[0] varies fastest. */
static void nth_order(int i, int order[1 + UC_AXES]) {
  int left[] = {0, 1, 2, 3};
  for (int n = 4; n > 0; n--) {
    order[4 - n] = left[i % n];
    memmove(left + i % n, left + i % n + 1, (size_t)(n - 1 - i % n) * sizeof *left);
    i /= n;
  }
}

/* The words of a residue, in that order; returns how many. */
static int64_t list_words(const uc_cuda_engine *e, const uc_cuda_kernel *k, int32_t residue,
                          const int order[1 + UC_AXES], word *words) {
  int64_t count = 0;
  for (int64_t t = 0; t < k->tap_count; t++) {
    const uc_cuda_tap *tap = &k->tap[t];
    if (tap->residue != residue) continue;
    for (int32_t c = 0; c < (int32_t)e->group_in; c++) {
      word *w = &words[count++];
      *w = (word){.at = {c, tap->delta[0], tap->delta[1], tap->delta[2]},
                  .weight = c * (int32_t)e->kernel_size + tap->kernel};
      for (int i = UC_AXES; i >= 0; i--) {
        int64_t base = order[i] == 0 ? 0 : k->x_base[order[i] - 1];
        w->key = w->key * MAX_REACH + w->at[order[i]] - base;
      }
    }
  }
  qsort(words, (size_t)count, sizeof *words, by_key);
  return count;
}

/* Index of a pattern, added if new; -1: there are too many. */
static int32_t pattern_of(uc_cuda_flat *f, int32_t pattern[UC_CUDA_QUAD][1 + UC_AXES]) {
  size_t size = sizeof f->pattern[0];
  for (int32_t i = 0; i < (int32_t)f->pattern_count; i++)
    if (memcmp(f->pattern[i], pattern, size) == 0) return i;
  if (f->pattern_count == UC_CUDA_MAX_PATTERNS) return -1;
  memcpy(f->pattern[f->pattern_count], pattern, size);
  return (int32_t)f->pattern_count++;
}

/* Words first .. first + live - 1 as a quad; what is beyond them lies at the first, with no weight. */
static bool add_quad(uc_cuda_flat *f, int32_t residue, const word *words, int64_t live) {
  int32_t pattern[UC_CUDA_QUAD][1 + UC_AXES] = {{0}};
  uc_cuda_quad *q = &f->quad[f->quad_count++];
  *q = (uc_cuda_quad){.residue = residue, .live = (int32_t)live, .channel = words->at[0]};
  memcpy(q->delta, words->at + 1, sizeof q->delta);
  for (int i = 0; i < UC_CUDA_QUAD; i++) {
    q->weight[i] = i < live ? words[i].weight : -1;
    for (int a = 0; a <= UC_AXES && i < live; a++) pattern[i][a] = words[i].at[a] - words->at[a];
  }
  q->pattern = pattern_of(f, pattern);
  return q->pattern >= 0;
}

/* How many of these words make a quad. In strips they are those of one place along W, so that each of a lane's windows of
   inputs begins at a multiple of a strip. */
static int64_t quad_length(const uc_cuda_flat *f, const word *words, int64_t left) {
  int64_t live = 1, most = uc_min(left, UC_CUDA_QUAD);
  while (live < most && (!f->strips || words[live].at[UC_AXES] == words->at[UC_AXES])) live++;
  return live;
}

/* In strips, those of the same rows after each other: they are read as one window. */
static int by_rows(const void *a, const void *b) {
  const uc_cuda_quad *x = a, *y = b;
  int64_t difference[] = {x->pattern - y->pattern, x->channel - y->channel,
                          x->delta[0] - y->delta[0], x->delta[1] - y->delta[1],
                          x->delta[2] - y->delta[2]};
  for (int i = 0; i < 5; i++)
    if (difference[i] != 0) return difference[i] > 0 ? 1 : -1;
  return 0;
}

static bool same_rows(const uc_cuda_quad *x, const uc_cuda_quad *y) {
  return x->residue == y->residue && x->pattern == y->pattern && x->channel == y->channel &&
         x->delta[0] == y->delta[0] && x->delta[1] == y->delta[1];
}

/* Which window quads first .. f->quad_count - 1 read. */
static void number_windows(uc_cuda_flat *f, int64_t first) {
  qsort(f->quad + first, (size_t)(f->quad_count - first), sizeof *f->quad, by_rows);
  for (int64_t i = first; i < f->quad_count; i++) {
    if (i == 0 || !same_rows(&f->quad[i], &f->quad[i - 1])) f->window_count++;
    f->quad[i].window = (int32_t)f->window_count - 1;
  }
}

/* All quads, in one order of the axes; false when there are too many patterns. */
static bool list_quads(const uc_cuda_engine *e, const uc_cuda_kernel *k, int order_index,
                       word *words, uc_cuda_flat *f) {
  int order[1 + UC_AXES];
  nth_order(order_index, order);
  if (f->strips && order[UC_AXES] != UC_AXES) return false;
  f->quad_count = f->pattern_count = f->step_count = f->window_count = 0;
  for (int32_t r = 0; r < (int32_t)uc_volume(k->residues); r++) {
    int64_t count = list_words(e, k, r, order, words);
    int64_t before = f->quad_count;
    for (int64_t i = 0, live; i < count; i += live) {
      live = quad_length(f, words + i, count - i);
      if (!add_quad(f, r, words + i, live)) return false;
    }
    if (f->strips) number_windows(f, before);
    f->step_count += uc_ceil_div(f->quad_count - before, 2);
  }
  return true;
}

/* ---- banks ---- */

static int64_t pattern_offset(const uc_cuda_flat *f, int64_t pattern, int i) {
  const int32_t *at = f->pattern[pattern][i];
  return at[0] * f->channel + at[1] * f->plane + at[2] * f->row + at[3];
}

/* How often the banks are asked when a warp reads this pattern from cells side by side; in strips: a quarter of a warp. */
static int64_t bank_turns(const uc_cuda_flat *f, int64_t pattern, int64_t step) {
  int64_t met[BANKS][LANE_GROUPS * UC_CUDA_QUAD], count[BANKS] = {0}, most = 0;
  for (int i = 0; i < UC_CUDA_QUAD; i++)
    for (int g = 0; g < LANE_GROUPS; g++) { /* in strips two lanes, four words of each */
      int64_t at = pattern_offset(f, pattern, i) + g * step, bank = uc_mod(at, BANKS);
      bool known = false;
      for (int64_t j = 0; j < count[bank]; j++) known = known || met[bank][j] == at;
      if (!known) met[bank][count[bank]++] = at;
      most = uc_max(most, count[bank]);
    }
  return most;
}

static int64_t turns(const uc_cuda_kernel *k, const uc_cuda_flat *f) {
  int64_t sum = 0, of[UC_CUDA_MAX_PATTERNS];
  for (int64_t p = 0; p < f->pattern_count; p++) of[p] = bank_turns(f, p, k->step[2]);
  for (int64_t q = 0; q < f->quad_count; q++) sum += of[f->quad[q].pattern];
  return sum;
}

/* The least number >= words that is 8 i more than a multiple of all banks; i < 0: words itself. */
static int64_t skewed(int64_t words, int i) {
  return i < 0 ? words : words + uc_mod(8 * i - words, BANKS);
}

static int64_t round_up(int64_t n, int64_t unit) { return uc_ceil_div(n, unit) * unit; }

/* Of a row of the tile's input; windows of the last strip reach beyond it. */
static int64_t row_words(const uc_cuda_kernel *k, const uc_cuda_flat *f) {
  if (!f->strips) return k->x_size[2];
  int64_t reach = k->x_size[2] - k->cells[2];
  return round_up(round_up(k->cells[2], STRIP) + reach, STRIP);
}

/* Distances of rows, planes and channels: the fewest conflicts, then the least memory. */
static int64_t choose_pitches(const uc_cuda_engine *e, const uc_cuda_kernel *k, uc_cuda_flat *f) {
  int64_t best = INT64_MAX, row = 0, plane = 0, channel = 0, least = row_words(k, f);
  for (int i = -1; i < BANKS / 8; i++)
    for (int j = -1; j < (k->x_size[0] > 1 ? BANKS / 8 : 0); j++)
      for (int c = -1; c < (e->group_in > 1 ? BANKS / 8 : 0); c++) {
        f->row = skewed(least, i);
        f->plane = skewed(f->row * k->x_size[1], j);
        f->channel = skewed(f->plane * k->x_size[0], c);
        int64_t cost = turns(k, f) * 100000 + uc_min(99999, f->channel * e->group_in);
        if (cost >= best) continue;
        best = cost;
        row = f->row;
        plane = f->plane;
        channel = f->channel;
      }
  f->row = row;
  f->plane = plane;
  f->channel = channel;
  return best;
}

/* ---- fragments ---- */

static int64_t results_of_lane(const uc_cuda_kernel *k) {
  return uc_volume(k->residues) * k->mt * k->nt * 4;
}

static const char *choose_fragments(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_cuda_flat *f = &k->flattened;
  int64_t all = uc_volume(k->residues), most = 8;
  k->rt = all;
  if (k->pool < 0) { /* residues of a row: what is stored side by side */
    k->rt = k->residues[2];
    while (k->rt > most || k->residues[2] % k->rt != 0) k->rt = uc_min(k->rt - 1, most);
  }
  k->residue_groups = all / k->rt;
  if (k->rt * 4 * e->parts > MAX_SUMS) return "more phases of a cell than a lane holds";
  int64_t columns = uc_ceil_div(e->group_out, 8);
  int64_t nt = uc_max(1, uc_min(4, GOOD_SUMS / (k->rt * 4 * e->parts)));
  k->nt = uc_ceil_div(columns, uc_ceil_div(columns, nt));
  int64_t words = f->step_count * k->nt * e->parts * 2;
  f->held = words <= HELD_WORDS;
  k->mt = f->strips || (!f->held && k->rt * k->nt * e->parts <= 4) ? 2 : 1;
  k->bm = 8 * k->nt;
  f->weight_words = f->held ? 0 : words * 32;
  if (f->step_count * k->mt * k->nt * e->parts > MAX_PRODUCTS || results_of_lane(k) > MAX_RESULTS)
    return "more taps or phases than the flattened kernel unrolls";
  return NULL;
}

/* ---- the tile ---- */

static int64_t vector_of(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  bool last = k->pass->result == e->program.value_count - 1;
  return 16 / (int64_t)upconv_dtype_size(last ? e->lowered->source.y_dtype : UPCONV_F32);
}

/* Shared memory of the finished tile: every row, plane and channel may begin anywhere within 16 bytes, the channels of
   each lane anywhere within all banks. */
static int64_t result_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                             const int64_t cells[UC_AXES]) {
  int64_t vector = vector_of(e, k), size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) size[a] = cells[a] * (k->pool >= 0 ? 1 : k->residues[a]);
  int64_t plane = size[1] * (size[2] + vector - 1) + vector - 1;
  bool strips = k->flattened.strips; /* skewed channel by channel */
  int64_t channel = size[0] * plane + (strips ? 8 : 1) * vector - 1;
  int64_t lanes = strips ? 0 : 3 * (8 * vector - 1);
  int64_t elements = uc_min(k->bm, e->group_out) * channel + lanes + vector;
  return uc_ceil_div(elements, vector) * 4;
}

/* Extent of such a tile's input. */
static int64_t input_size(const uc_cuda_kernel *k, int axis, int64_t cells) {
  return uc_cuda_input_size(k, axis, cells) + (axis == UC_AXES - 1 ? k->lead : 0);
}

static int64_t positions(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  int64_t count = 1;
  for (int a = 0; a < UC_AXES; a++) count *= input_size(k, a, cells[a]);
  return count;
}

/* Spots of the input of such a tile that a thread fetches, and words. */
static int64_t fetched_spots(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  int64_t row = input_size(k, UC_AXES - 1, cells[UC_AXES - 1]), vx = k->flattened.vx;
  return uc_ceil_div(positions(k, cells) / row * uc_ceil_div(row, vx), k->threads);
}

static int64_t fetched_words(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                             const int64_t cells[UC_AXES]) {
  int64_t vx = k->flattened.vx, size = (int64_t)upconv_dtype_size(e->lowered->source.x_dtype);
  return fetched_spots(k, cells) * e->group_in * (vx == 1 ? 1 : vx * size / 4);
}

static int64_t most_fetched(const uc_cuda_kernel *k) {
  return k->flattened.vx > 1 ? FETCHED_VECTORS : FETCHED_WORDS;
}

/* Cells that are multiplied, those beyond a row's end in its last strip among them. */
static int64_t row_cells(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  int64_t row = k->flattened.strips ? round_up(cells[2], STRIP) : cells[2];
  return cells[0] * cells[1] * row;
}

/* Instructions that read the input for a fragment's cells: word by word, or a window for two fragments. */
static double reads_of_fragment(const uc_cuda_kernel *k) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t window = STRIP + k->span[UC_AXES - 1] + k->lead;
  return f->strips ? (double)(f->window_count * (window / 4 + window % 4)) / 2
                   : 2 * (double)f->quad_count;
}

/* Instructions of a thread that bring the input of a tile to shared memory. */
static double staging_of_thread(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                                const int64_t cells[UC_AXES]) {
  double each = k->flattened.vx > 1 ? 2 + 1.5 * (double)k->flattened.vx : 5;
  return (double)fetched_spots(k, cells) * (14 + each * (double)e->group_in);
}

/* Bytes that follow each other in y, and how many such runs a tile has: planes of whole rows, or rows. */
static int64_t run_bytes(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                         const int64_t extent[UC_AXES], const int64_t cells[UC_AXES],
                         int64_t *runs) {
  int64_t size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) size[a] = cells[a] * (k->pool >= 0 ? 1 : k->residues[a]);
  bool planes = cells[2] == extent[2];
  *runs = uc_min(k->bm, e->group_out) * size[0] * (planes ? 1 : size[1]);
  return size[2] * (planes ? size[1] : 1) * 16 / vector_of(e, k);
}

/* Slots that copying so many runs of a tile takes. */
static double store_slots(int64_t runs, int64_t bytes) {
  return (double)runs * (bytes >= BULK_BYTES ? 60 : 70 + (double)bytes / 80);
}

/* Slots of the schedulers that a warp's part of a tile takes, about, times warps: fragments, staging, stores, and what a
   tile costs by itself; fewer tiles than blocks leave multiprocessors idle. */
static double tiling_cost(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                          const int64_t extent[UC_AXES], const int64_t cells[UC_AXES]) {
  const upconv_problem *p = &e->lowered->conv;
  const uc_cuda_flat *f = &k->flattened;
  double tiles = (double)p->batch * (double)p->groups * (double)uc_ceil_div(e->group_out, k->bm);
  for (int a = 0; a < UC_AXES; a++) tiles *= (double)uc_ceil_div(extent[a], cells[a]);
  int64_t warps = k->threads / 32, runs, bytes = run_bytes(e, k, extent, cells, &runs);
  int64_t rounds = uc_ceil_div(row_cells(k, cells), 16 * k->mt * warps);
  double results = (double)results_of_lane(k) / (double)k->mt;
  double fragment = reads_of_fragment(k) + (double)(f->step_count * k->nt * e->parts) +
                    (e->parts == 1 ? 2.5 : 4) * results;
  double staging = staging_of_thread(e, k, cells);
  double stores = store_slots(runs, bytes);
  double tile = (double)warps * ((double)(rounds * k->mt) * (fragment + 16) + staging + 200);
  double blocks = 4.0 * (double)e->target.sm_count;
  return (tile + stores) * (tiles + blocks);
}

/* The table of cells, of whole fragments: two words each. */
static int64_t table_words(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  int64_t table = uc_ceil_div(row_cells(k, cells), 16 * k->mt) * 16 * k->mt;
  return 2 * (k->flattened.strips ? table / STRIP : table);
}

static bool too_large(const uc_cuda_kernel *k, const int64_t cells[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++)
    if (input_size(k, a, cells[a]) > MAX_EXTENT) return true;
  return uc_volume(cells) > MAX_CELLS;
}

static int64_t shared_floats(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                             const int64_t cells[UC_AXES]) {
  int64_t reach = k->flattened.strips ? 2 : 0; /* eighths */
  return e->group_in * (positions(k, cells) * (10 + reach) / 8 + BANKS) +
         k->flattened.weight_words + table_words(k, cells) + result_floats(e, k, cells);
}

/* Registers of a thread, about. */
static int64_t registers(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                         const int64_t cells[UC_AXES]) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t fetched = fetched_words(e, k, cells);
  return 32 + k->rt * k->mt * k->nt * 4 * e->parts + f->pattern_count +
         (f->held ? f->step_count * k->nt * e->parts * 2 : 8) +
         (f->strips ? STRIP + k->span[UC_AXES - 1] + k->lead : 0) +
         (fetched <= most_fetched(k) ? fetched + 2 * fetched_spots(k, cells) : 0);
}

/* The best tile for k->threads within so many floats of shared memory; *best: its cost, and that of the best before, if
   not negative. fetched: words that a thread may fetch of a tile. */
static void try_tiles(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES],
                      int64_t most, int64_t fetched, double *best, int64_t *threads) {
  for (int64_t n = 1; n <= extent[2]; n = uc_max(n + 1, n * 5 / 4)) {
    int64_t cells[UC_AXES] = {1, 1, uc_ceil_div(extent[2], n)};
    if (k->flattened.strips) cells[2] = uc_min(extent[2], round_up(cells[2], STRIP));
    for (cells[0] = 1; cells[0] <= uc_min(extent[0], 8); cells[0]++)
      for (cells[1] = 1; cells[1] <= uc_min(extent[1], 64); cells[1]++) {
        if (too_large(k, cells) || shared_floats(e, k, cells) > most ||
            fetched_words(e, k, cells) > fetched ||
            (k->flattened.strips && fetched < INT64_MAX && registers(e, k, cells) > OF_SHARE))
          break;
        double cost = tiling_cost(e, k, extent, cells);
        if (*best >= 0 && cost >= *best) continue;
        *best = cost;
        *threads = k->threads;
        memcpy(k->cells, cells, sizeof cells);
      }
  }
}

/* First a tile that leaves room for several blocks and is fetched ahead, then any. Of strips, two fragments' sums are in registers, which
   such a tile must leave room for as well. */
static bool choose_tile(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES]) {
  double best = -1;
  int64_t threads = 0;
  for (int any = 0; any < 2 && best < 0; any++)
    for (k->threads = MOST_THREADS; k->threads >= MOST_THREADS / 2; k->threads /= 2)
      try_tiles(e, k, extent, e->target.shared_bytes / 4 * (any ? 1 : k->threads) / (any ? 1 : 512),
                any ? INT64_MAX : most_fetched(k), &best, &threads);
  k->threads = threads;
  return best >= 0;
}

/* Blocks that fit a multiprocessor, by registers and by shared memory. */
static int64_t wanted_blocks(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t by_registers = 65536 / (uc_ceil_div(registers(e, k, k->cells), 8) * 8 * k->threads);
  int64_t by_memory = e->target.shared_bytes / (4 * k->shared_floats + UC_CUDA_SHARED_OF_BLOCK);
  return uc_max(1, uc_min(8, uc_min(by_registers, by_memory)));
}

/* ---- the pass ---- */

/* The order of the axes with the fewest patterns, each of which is a register; then that with the fewest conflicts. */
static bool choose_order(const uc_cuda_engine *e, uc_cuda_kernel *k, word *words, bool banks) {
  uc_cuda_flat *f = &k->flattened;
  int64_t best = INT64_MAX;
  int chosen = -1;
  for (int i = 0; i < ORDERS; i++) {
    if (!list_quads(e, k, i, words, f)) continue;
    int64_t cost = f->pattern_count << 40;
    if (banks && cost - ((int64_t)1 << 40) < best) cost += choose_pitches(e, k, f);
    if (cost >= best) continue;
    best = cost;
    chosen = i;
  }
  if (chosen < 0 || !list_quads(e, k, chosen, words, f)) return false;
  if (banks) choose_pitches(e, k, f);
  return true;
}

/* Where cells lie one input and one output apart along W, four of them read nearly the same inputs, by wide instructions. They are stored
   together where rows are whole strips. Elsewhere lanes store elements four cells apart, in different banks if an odd number lies
   between channels. */
static bool takes_strips(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES],
                         word *words) {
  uc_cuda_flat *f = &k->flattened;
  int64_t outputs = k->pool >= 0 ? 1 : k->residues[2];
  int64_t channel = extent[0] * extent[1] * extent[2]; /* of y */
  if (k->step[2] != 1 || outputs != 1 || e->lowered->source.y_layout == UPCONV_CHANNELS_LAST)
    return false;
  if (channel % 2 == 0 && extent[2] % STRIP != 0) return false;
  if (round_up(extent[2], STRIP) * 8 > extent[2] * 9) return false;
  f->strips = false;
  if (!choose_order(e, k, words, false)) return false;
  int64_t single = f->step_count;
  f->strips = true;
  if (!choose_order(e, k, words, false) || f->step_count > single) return false;
  /* two fragments have room for sums of a useful number of channels */
  return uc_volume(k->residues) * 2 * uc_min(2, uc_ceil_div(e->group_out, 8)) * 4 * e->parts <=
         GOOD_SUMS;
}

/* Whether rows of x begin at multiples of a vector. */
static bool fetches_vectors(const uc_cuda_engine *e) {
  const upconv_problem *p = &e->lowered->conv;
  return p->x_layout != UPCONV_CHANNELS_LAST && p->axis[UC_AXES - 1].in_size % STRIP == 0;
}

static const char *shape(const uc_cuda_engine *e, uc_cuda_kernel *k, const int64_t extent[UC_AXES],
                         word *words) {
  uc_cuda_flat *f = &k->flattened;
  const char *why;
  f->strips = takes_strips(e, k, extent, words);
  f->vx = f->strips && fetches_vectors(e) ? STRIP : 1;
  k->lead = uc_mod(k->x_base[2], f->vx);
  k->x_base[2] -= k->lead;
  if (!choose_order(e, k, words, false)) return "taps lie in too many different ways";
  if ((why = choose_fragments(e, k))) return why;
  if (!choose_tile(e, k, extent)) return "one tile does not fit shared memory";
  for (int a = 0; a < UC_AXES; a++) {
    k->cell_step[a] = k->cells[a];
    k->tile[a] = k->cells[a] * (k->pool >= 0 ? 1 : k->residues[a]);
    k->x_size[a] = input_size(k, a, k->cells[a]);
  }
  if (f->strips && k->cells[2] % STRIP == 0) k->strip = STRIP;
  choose_order(e, k, words, true);
  f->prefetch = fetched_words(e, k, k->cells) <= most_fetched(k);
  int64_t runs, bytes = run_bytes(e, k, extent, k->cells, &runs);
  f->bulk = bytes >= BULK_BYTES;
  f->store_slots = store_slots(runs, bytes);
  f->reads = reads_of_fragment(k);
  f->y_floats = result_floats(e, k, k->cells);
  k->x_floats = uc_ceil_div(e->group_in * f->channel, 4) * 4;
  k->staging_floats = k->x_floats + f->weight_words + table_words(k, k->cells);
  k->shared_floats = k->staging_floats + f->y_floats;
  return k->shared_floats * 4 > e->target.shared_bytes ? "one tile does not fit shared memory"
                                                       : NULL;
}

upconv_status uc_cuda_shape_flat(const uc_cuda_engine *e, uc_cuda_kernel *k,
                                 const int64_t extent[UC_AXES], const char **refusal) {
  int64_t most = k->tap_count * e->group_in;
  for (int a = 0; a < UC_AXES; a++)
    if (k->span[a] >= MAX_REACH) *refusal = "taps lie too far apart";
  if (most > UC_CUDA_QUAD * MAX_PRODUCTS) *refusal = "more taps than the flattened kernel unrolls";
  if (k->tap_count == 0) *refusal = "no taps";
  if (*refusal) return UPCONV_OK;
  uc_cuda_flat *f = &k->flattened;
  f->quad = calloc((size_t)most, sizeof *f->quad);
  word *words = calloc((size_t)most, sizeof *words);
  if (!f->quad || !words) {
    free(words);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a table of %lld taps", (long long)most);
  }
  k->strip = k->mc = k->thread_cells = 1;
  k->chunk = e->group_in;
  k->static_taps = k->shared_weights = k->resident = true;
  *refusal = shape(e, k, extent, words);
  free(words);
  k->channels = k->bm;
  if (!*refusal) k->min_blocks = wanted_blocks(e, k);
  return UPCONV_OK;
}
