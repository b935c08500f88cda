/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of the kernel for many channels: warps, fragments and cells are what an estimate of the time finds best. */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "shape.h"

enum {
  MAX_FRAGMENTS = 32, /* of sums of a thread, four registers each */
  MAX_HELD = 4,       /* residues, without a pool that needs more */
  MAX_POOLED = 8,
  MAX_WIDE = 4,     /* output channels of a group whose residues are columns */
  MAX_COLUMNS = 64, /* of those */
  MAX_TAPS = 7168,
  TABLE_BYTES = 60 * 1024, /* constant memory has 64 KiB */
  ROW_WORDS = 32,          /* of a chunk: 128 bytes */
  STAGES = 4,
  ROW_BYTES = ROW_WORDS * 4,
  MOST_WARPS = 8,    /* that multiply; with wgmma twice as many */
  MOST_COPIED = 256, /* along an axis, by the copy engine */
  BARRIER_BYTES = 256,
  MAX_BOX_TRIES = 16, /* widths of a tile, and heights for each */
  REGISTERS = 65536,
  MOST_REGISTERS = 232, /* that a thread takes */
  OTHER_REGISTERS = 32
};

/* Clocks of one multiprocessor: a fragment's product by mma.sync (sm_90), by wgmma; bytes from the second-level cache in
   a clock; what a block waits for in a stage, and at its start; an output. */
static const double PRODUCT = 1.75, WGMMA_PRODUCT = 1.1, L2_BYTES = 28, LATENCY = 300, START = 2500,
                    OUTPUT = 0.3;
static const double CLOCK = 1.6e9, SLACK = 1.2;

/* What the choice is about; cells and samples follow. */
typedef struct tiling {
  int64_t mt, nt, teams_m, teams_n, cells[UC_AXES], samples;
  double seconds;
} tiling;

/* What it depends on. */
typedef struct setting {
  const uc_cuda_engine *e;
  const uc_cuda_kernel *k;
  const int64_t *extent; /* in cells */
  int64_t span[UC_AXES], steps, chunks;
  /* groups of residues; their taps in all, and the fewest of one; columns of a group; residues that a thread holds sums of:
     none apart where they are columns */
  int64_t groups, taps, least_taps, columns, held;
  int64_t team; /* warps that make products together */
} setting;

/* What a thread that multiplies needs: sums, rows of a chunk, and the rest. */
static int64_t registers_for(const setting *s, const tiling *t) {
  return (s->held * t->nt + s->steps) * t->mt * 4 + OTHER_REGISTERS;
}

/* Registers that each of `threads` can have: a quarter of a multiprocessor takes whole warps, a warp whole eights. */
static int64_t registers_each(int64_t threads) {
  return uc_min(255, REGISTERS / 4 / (uc_ceil_div(threads, 128) * 32) / 8 * 8);
}

/* Threads that only copy, with wgmma: two warps, or four, where each gives registers away. */
enum { COPIERS = 64, GIVERS = 128, KEPT_REGISTERS = 32 };

static int64_t multipliers(const setting *s, const tiling *t) {
  return 32 * t->teams_m * t->teams_n * s->team;
}

/* Registers that the multiplying threads take; 0: they have enough as it is. */
static int64_t registers_taken(const setting *s, const tiling *t) {
  int64_t threads = multipliers(s, t);
  if (s->team == 1 || registers_for(s, t) <= registers_each(threads + COPIERS)) return 0;
  int64_t all = registers_each(threads + GIVERS) * (threads + GIVERS);
  return uc_min(MOST_REGISTERS, (all - GIVERS * KEPT_REGISTERS) / threads / 8 * 8);
}

static int64_t copiers(const setting *s, const tiling *t) {
  if (s->team == 1) return 0;
  return registers_taken(s, t) ? GIVERS : COPIERS;
}

static bool fits_registers(const setting *s, const tiling *t) {
  int64_t taken = registers_taken(s, t);
  return taken == 0 || registers_for(s, t) <= taken;
}

static int64_t rows_of(const setting *s, const tiling *t) {
  return t->teams_m * s->team * t->mt * 16;
}

static int64_t x_rows(const setting *s, const tiling *t) {
  int64_t rows = t->samples;
  for (int a = 0; a < UC_AXES; a++) rows *= t->cells[a] + s->span[a];
  return rows;
}

static int64_t x_buffers(const setting *s) {
  return s->chunks > 1 ? uc_ceil_div(STAGES - 1, uc_max(1, s->least_taps)) + 1 : 1;
}

static int64_t weight_bytes(const setting *s, const tiling *t) {
  return s->steps * t->teams_n * t->nt * 256;
}

static int64_t staged_bytes(const setting *s, const tiling *t) {
  return x_buffers(s) * uc_ceil_div(x_rows(s, t) * ROW_BYTES, 1024) * 1024 +
         STAGES * weight_bytes(s, t);
}

/* Sums of 8 channels of every team, on their way to where they are finished. */
static int64_t round_bytes(const setting *s, const tiling *t) {
  return t->teams_n * 8 * (rows_of(s, t) * s->held + 4) * 4;
}

/* For `round` fragments of sums. Where some warps only copy, the next tile is copied while sums are finished; else staging and
   sums share their memory, and tables follow. */
static int64_t shared_for(const setting *s, const tiling *t, int64_t round) {
  int64_t sums = round_bytes(s, t) * round;
  if (s->team > 1) return staged_bytes(s, t) + BARRIER_BYTES + sums;
  return uc_max(staged_bytes(s, t), sums) + uc_ceil_div(x_rows(s, t), 4) * 16;
}

static int64_t shared_bytes(const setting *s, const tiling *t) {
  return shared_for(s, t, s->columns == s->e->group_out ? 1 : t->nt);
}

/* Blocks of one multiprocessor. */
static double resident(const setting *s, const tiling *t, int64_t shared) {
  int64_t threads = multipliers(s, t) + copiers(s, t);
  double registers = (double)uc_min(255, registers_for(s, t));
  return fmax(1, fmin(floor(UC_CUDA_SHARED_OF_SM / (double)shared),
                      floor(REGISTERS / ((double)threads * registers))));
}

static int64_t blocks_of(const setting *s, const tiling *t) {
  const upconv_problem *p = &s->e->lowered->conv;
  int64_t blocks = uc_ceil_div(uc_max(1, p->batch), t->samples) * s->groups * p->groups *
                   uc_ceil_div(s->columns, t->teams_n * t->nt * 8);
  for (int a = 0; a < UC_AXES; a++) blocks *= uc_ceil_div(s->extent[a], t->cells[a]);
  return blocks;
}

/* Products, shared memory and the second-level cache work side by side; a block alone waits for each in turn. */
static double estimate(const setting *s, const tiling *t) {
  const uc_cuda_engine *e = s->e;
  double teams = (double)(t->teams_m * t->teams_n), warps = teams * (double)s->team;
  double taps = (double)s->taps / (double)s->groups;
  double products =
      warps * (double)(s->steps * t->mt * t->nt) * (s->team > 1 ? WGMMA_PRODUCT : PRODUCT);
  double copied = (double)weight_bytes(s, t) + (double)(x_rows(s, t) * ROW_BYTES) / fmax(1, taps);
  /* wgmma reads weights once for each of its 64 rows */
  double reads = (double)(s->team > 1 ? t->mt * t->nt : s->team * t->nt);
  double shared = (double)s->steps * (warps * (double)t->mt * 4 + teams * reads * 2) + copied / 128;
  double stage = fmax(fmax(products, shared), copied / L2_BYTES);
  double blocks = ceil((double)blocks_of(s, t) / e->target.sm_count),
         stages = taps * (double)s->chunks;
  double outputs = warps * 32 * (double)(s->held * t->mt * t->nt * 4);
  double busy = blocks * (stages * stage + outputs * OUTPUT);
  double waiting = ceil(blocks / resident(s, t, shared_bytes(s, t))) *
                   (stages * fmax(LATENCY, stage) + outputs * OUTPUT);
  return SLACK * (fmax(busy, waiting) + START) / CLOCK;
}

/* Whether the copy engine takes a halo tile at once. */
static bool copies(const setting *s, const tiling *t) {
  bool fits = t->samples <= MOST_COPIED;
  for (int a = 0; a < UC_AXES; a++) fits = fits && t->cells[a] + s->span[a] <= MOST_COPIED;
  return fits || s->team == 1;
}

/* The box of at most `rows` cells that is best; widths and heights divide the extent into nearly equal parts. */
static void choose_box(const setting *s, tiling *t, tiling *best) {
  const int64_t *extent = s->extent;
  int64_t rows = rows_of(s, t), batch = uc_max(1, s->e->lowered->conv.batch);
  int64_t least_w = uc_ceil_div(extent[2], rows);
  for (int64_t i = 0; i < MAX_BOX_TRIES; i++) {
    t->cells[2] = uc_ceil_div(extent[2], least_w + i);
    int64_t least_h = uc_ceil_div(extent[1], uc_max(1, rows / t->cells[2]));
    for (int64_t j = 0; j < MAX_BOX_TRIES; j++) {
      t->cells[1] = uc_ceil_div(extent[1], least_h + j);
      int64_t left = uc_max(1, rows / (t->cells[2] * t->cells[1]));
      t->cells[0] = uc_ceil_div(extent[0], uc_ceil_div(extent[0], uc_min(left, extent[0])));
      bool whole = memcmp(t->cells, extent, sizeof t->cells) == 0;
      int64_t most = whole ? uc_max(1, uc_min(batch, rows / uc_volume(t->cells))) : 1;
      t->samples = uc_ceil_div(batch, uc_ceil_div(batch, most));
      if (shared_bytes(s, t) > s->e->target.shared_bytes || !copies(s, t)) continue;
      t->seconds = estimate(s, t);
      if (best->seconds < 0 || t->seconds < best->seconds) *best = *t;
      if (t->cells[1] == 1) break;
    }
    if (t->cells[2] == 1) break;
  }
}

/* Residues that are columns must be together where they are finished. */
static bool fits_columns(const setting *s, const tiling *t) {
  return s->held > 0 &&
         (s->columns == s->e->group_out || (t->teams_n == 1 && t->nt * 8 >= s->columns));
}

/* Fragments and warps in powers of two; no more columns than there are channels. */
static void choose_tiling(const setting *s, tiling *best) {
  int64_t columns = uc_power_of_two(uc_ceil_div(s->columns, 8));
  best->seconds = -1;
  int64_t warps = s->team > 1 ? 2 * MOST_WARPS : MOST_WARPS;
  tiling t;
  for (t.teams_n = 1; t.teams_n * s->team <= warps && t.teams_n <= columns; t.teams_n *= 2)
    for (t.nt = 1; t.nt <= (s->team > 1 ? 16 : 8) && t.nt * t.teams_n <= columns; t.nt *= 2)
      for (t.mt = 1; t.mt <= (s->team > 1 ? 2 : 4); t.mt *= 2)
        for (t.teams_m = 1; t.teams_m * t.teams_n * s->team <= warps; t.teams_m *= 2)
          if (s->held * t.mt * t.nt <= MAX_FRAGMENTS && fits_columns(s, &t) &&
              fits_registers(s, &t) && t.teams_m * t.teams_n * s->team >= 4)
            choose_box(s, &t, best);
}

void uc_cuda_group_taps(const uc_cuda_kernel *k, int64_t rt, int64_t group, int64_t *taps,
                        int64_t low[UC_AXES], int64_t high[UC_AXES]) {
  *taps = 0;
  for (int a = 0; a < UC_AXES; a++) low[a] = high[a] = 0;
  for (int64_t t = 0; t < k->tap_count; t++) {
    const uc_cuda_tap *tap = &k->tap[t];
    if (tap->residue / rt != group) continue;
    for (int a = 0; a < UC_AXES; a++) {
      low[a] = *taps == 0 ? tap->delta[a] : uc_min(low[a], tap->delta[a]);
      high[a] = *taps == 0 ? tap->delta[a] : uc_max(high[a], tap->delta[a]);
    }
    ++*taps;
  }
}

static bool same_shift(const uc_cuda_kernel *k, int64_t a, int64_t b) {
  return memcmp(k->tap[a].delta, k->tap[b].delta, sizeof k->tap[a].delta) == 0;
}

bool uc_cuda_new_shift(const uc_cuda_kernel *k, int64_t tap) {
  for (int64_t t = 0; t < tap; t++)
    if (same_shift(k, t, tap)) return false;
  return true;
}

int64_t uc_cuda_column_kernel(const uc_cuda_kernel *k, int64_t tap, int64_t residue) {
  for (int64_t t = 0; t < k->tap_count; t++)
    if (k->tap[t].residue == residue && same_shift(k, t, tap)) return k->tap[t].kernel;
  return -1;
}

void uc_cuda_gemm_base(const uc_cuda_kernel *k, int64_t group, int64_t base[UC_AXES]) {
  int64_t taps, high[UC_AXES];
  uc_cuda_group_taps(k, k->rt, group, &taps, base, high);
}

static int64_t held_residues(const uc_cuda_kernel *k) {
  int64_t all = uc_volume(k->residues), most = k->pool >= 0 ? MAX_POOLED : MAX_HELD;
  if (k->pool >= 0) return all <= most ? all : -1;
  int64_t held = k->residues[2];
  if (held > most)
    for (held = most; k->residues[2] % held != 0; held--) continue;
  return held;
}

static void measure_groups(setting *s, int64_t rt) {
  s->groups = uc_volume(s->k->residues) / rt;
  s->least_taps = INT64_MAX;
  for (int64_t g = 0; g < s->groups; g++) {
    int64_t taps, low[UC_AXES], high[UC_AXES];
    uc_cuda_group_taps(s->k, rt, g, &taps, low, high);
    if (taps > 0) s->least_taps = uc_min(s->least_taps, taps);
    for (int a = 0; a < UC_AXES; a++) s->span[a] = uc_max(s->span[a], high[a] - low[a]);
  }
}

/* Tables in constant memory: for each tap where it reads and its weights, for each group of residues where its tile begins;
   where residues are columns, for each shift what it is and whom it serves. */
static bool tables_fit(const setting *s, bool columns) {
  int64_t residues = uc_volume(s->k->residues);
  int64_t each = columns ? 20 + residues : 8, begins = 4 * (residues + 1);
  return s->taps * each + begins + 12 * s->groups <= TABLE_BYTES;
}

/* The usual way: a thread holds sums of a few residues, each with taps of its own. */
static setting by_residues(const setting *all) {
  setting s = *all;
  s.held = held_residues(s.k);
  s.columns = s.e->group_out;
  s.taps = s.k->tap_count;
  if (s.held > 0) measure_groups(&s, s.held);
  if (s.held > 0 && !tables_fit(&s, false)) s.held = 0;
  return s;
}

/* Few output channels: all residues of all channels are columns, and every shift of the cells serves all of them, with zeros
   for weights where a residue has no tap there. Held is 0 where that is no way. */
static setting by_columns(const setting *all) {
  setting s = *all;
  int64_t residues = uc_volume(s.k->residues);
  s.columns = residues * s.e->group_out;
  s.held = s.e->group_out <= MAX_WIDE && residues > 1 && s.columns <= MAX_COLUMNS;
  s.taps = 0;
  for (int64_t t = 0; t < s.k->tap_count && s.held; t++) s.taps += uc_cuda_new_shift(s.k, t);
  if (s.held) measure_groups(&s, residues);
  s.least_taps = s.taps;
  if (s.held && !tables_fit(&s, true)) s.held = 0;
  return s;
}

/* Fragments of sums that are finished at once: as many as cost no block of a multiprocessor. */
static int64_t most_at_once(const setting *s, const tiling *t) {
  int64_t round = t->nt, least = shared_bytes(s, t);
  if (s->columns != s->e->group_out) return round;
  for (; round > 1; round /= 2) {
    int64_t shared = shared_for(s, t, round);
    if (shared <= s->e->target.shared_bytes &&
        (shared == least || (s->team > 1 && resident(s, t, shared) >= resident(s, t, least))))
      break;
  }
  return round;
}

static void set_tiling(const setting *s, const tiling *t, uc_cuda_kernel *k) {
  k->wide = s->columns != s->e->group_out;
  k->held = s->held;
  k->shifts = s->taps;
  k->rt = k->wide ? uc_volume(k->residues) : s->held;
  k->residue_groups = s->groups;
  k->wgmma = s->team > 1;
  k->mt = t->mt, k->nt = t->nt, k->warps_m = t->teams_m, k->teams_n = t->teams_n;
  k->threads = multipliers(s, t) + copiers(s, t);
  k->registers_taken = registers_taken(s, t);
  k->registers_kept = KEPT_REGISTERS;
  k->copiers = copiers(s, t);
  k->round = most_at_once(s, t);
  k->bm = k->wide ? s->e->group_out : t->teams_n * t->nt * 8;
  k->samples = t->samples;
  k->x_buffers = x_buffers(s);
  for (int a = 0; a < UC_AXES; a++) {
    k->cells[a] = t->cells[a];
    k->x_size[a] = t->cells[a] + s->span[a];
  }
  k->staging_floats = shared_for(s, t, k->round) / 4;
  k->barriers_at = staged_bytes(s, t) / 4;
  k->sums_at = k->barriers_at + BARRIER_BYTES / 4;
  k->located_at = k->staging_floats - uc_ceil_div(x_rows(s, t), 4) * 4;
}

const char *uc_cuda_shape_gemm(const uc_cuda_engine *e, uc_cuda_kernel *k,
                               const int64_t extent[UC_AXES]) {
  if (uc_volume(k->step) != 1) return "a pool's stride is not the convolution's";
  if (k->tap_count == 0) return "no taps";
  if (k->tap_count > MAX_TAPS) return "more taps than tables of the kernel for many channels hold";
  setting all = {.e = e, .k = k, .extent = extent};
  all.steps = uc_min(e->ci_steps, ROW_WORDS / 8);
  all.chunks = uc_ceil_div(e->ci_steps, all.steps);
  all.team = strcmp(e->target.arch, "sm_90a") == 0 ? 4 : 1;
  const setting ways[] = {by_residues(&all), by_columns(&all)};
  tiling t[2];
  for (int i = 0; i < 2; i++) choose_tiling(&ways[i], &t[i]);
  if (t[0].seconds < 0 && t[1].seconds < 0)
    return "more phases, or more of one chunk, than the kernel for many channels holds";
  int best = t[0].seconds < 0 || (t[1].seconds >= 0 && t[1].seconds < t[0].seconds);
  k->chunk = all.steps * 8;
  k->steps_ahead = all.team > 1 ? 1 : all.steps;
  k->chunks = all.chunks;
  k->stages = STAGES;
  k->steps_ahead = all.team > 1 ? 1 : all.steps;
  k->strip = 1;
  k->shared_weights = true;
  set_tiling(&ways[best], &t[best], k);
  if (k->wgmma && !k->wide) uc_cuda_sort_held_taps(k);
  return NULL;
}
