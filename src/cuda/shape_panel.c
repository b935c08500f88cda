/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of the kernel for many channels on sm_90a: channels are rows of its products, positions of the halo tile their columns.
 * Columns come in runs of eight neighbouring positions that follow each other by one distance: eight, and then they go through
 * the halo of rows too; or a row of the tile, whose cells then are some eights along W. A part is the runs of one team; parts
 * begin where the first cell is that no part before has. Of all this, an estimate of the time decides.
 */
#include <math.h>
#include <string.h>

#include "../checked.h"
#include "shape.h"
#include "work.h"

enum {
  RUN = 8,
  PANEL = 64, /* channels of a team */
  UNIT_BYTES = 16,
  TEAM_THREADS = 128,
  COPIERS = 128,
  MOST_SUMS = 136,    /* of a thread */
  MOST_COLUMNS = 256, /* of a product */
  MANY_SUMS = 64,     /* for which threads that copy give registers away */
  MOST_TEAMS = 2,
  KEPT_REGISTERS = 40,
  TAKEN_REGISTERS = 232,
  MOST_HELD = 8,
  LEAST_BUFFERS = 2, /* of the halo tile */
  MOST_BUFFERS = 4,
  LEAST_QUADS = 2,
  MOST_QUADS = 16, /* of a chunk */
  LEAST_STAGES = 3,
  MOST_STAGES = 8,
  MOST_COPIED = 256, /* along an axis, by the copy engine, which counts half units along W */
  MOST_TRIES = 8,    /* extents of a tile along an axis */
  MAX_TAPS = 7168,   /* tables in constant memory */
  MAX_GROUPS = 1024,
  BARRIER_BYTES = 256,
  VECTOR_BYTES = 16,
  WARP_CHANNELS = 8, /* that a warp finishes at once */
  ROW_BYTES = 5120,  /* wanted, of a warp's finished rows */
  SECTOR = 32,
  LINE_POSITIONS = 8 /* whose units fill a line of the second-level cache */
};

/* Clocks of one multiprocessor, fitted to an H200 (docs/DECISIONS.md). */
typedef struct rates {
  /* Bytes of the second-level cache in one; that a byte of x counts for; lines that a row takes more
     if it is no whole ones. */
  double l2_bytes, of_x, line;
  /* Of a stage: besides its products; from weights that are there to products that are. */
  double stage, least_stage;
  /* From a chunk of x that is asked for to one that is there; bytes of it, in one. */
  double chunk, chunk_bytes;
  /* To begin and end a job, by the crews; to begin at all. */
  double job[2], begin;
  /* Of an output of all threads; of one that goes through shared memory, and of a row of a channel
     there. */
  double output, row_output, row;
  /* Of an output that four warps finish: an instruction of the tail; an element that it reads, also
     where rows go through shared memory; moving a group's sums past code that exists once. */
  double tail, element, row_element, moved;
  /* Bytes of the second-level cache that an output takes where sectors are put together from pieces:
     of two elements or more, or of single ones. */
  double of_pieces, of_elements;
  /* How well units work side by side: 1 is one after the other, infinity as long as the slowest. */
  double overlap;
} rates;

/* From tilings that were measured side by side: what is the same for all of a problem's does not matter. */
static const rates tilings = {.l2_bytes = 36,
                              .of_x = 1,
                              .stage = 40,
                              .least_stage = 200,
                              .chunk = 2500,
                              .chunk_bytes = 100,
                              .job = {400, 400},
                              .begin = 1500,
                              .output = 0.105,
                              .row_output = 0.3,
                              .row = 20,
                              .of_pieces = 18,
                              .of_elements = 56,
                              .overlap = 8};
/* From some 200 problems, to compare with other candidates. */
static const rates problems = {.l2_bytes = 46,
                               .of_x = 1.7,
                               .line = 0.74,
                               .stage = 10,
                               .least_stage = 212,
                               .chunk = 2150,
                               .chunk_bytes = 100,
                               .job = {0, 1030},
                               .begin = 1660,
                               .output = 0.06,
                               .row_output = 0.2,
                               .row = 26,
                               .tail = 0.01,
                               .element = 0.33,
                               .row_element = 1.55,
                               .moved = 0.027,
                               .of_pieces = 12,
                               .of_elements = 94,
                               .overlap = 9};
static const double SHARED_BYTES = 128;

typedef struct tiling {
  int64_t held, groups, teams_m, teams_n, quads, stages, buffers, crews;
  bool by_rows;                           /* runs are one row apart, else neighbours */
  int64_t cells[UC_AXES], samples, width; /* width: positions of a row */
  int64_t parts, part[UC_CUDA_PANEL_PARTS];
  bool stages_rows;    /* finished rows meet in shared memory first */
  double clocks, cost; /* beside other tilings; beside other candidates, of the best */
} tiling;

typedef struct setting {
  const uc_cuda_engine *e;
  const uc_cuda_kernel *k;
  const int64_t *extent, width;         /* in cells; of the result, along W */
  int64_t units, y_size;                /* of a group's channels; bytes */
  double tail_instructions, tail_loads; /* for an output */
  bool rolled;                          /* its code exists once */
  int64_t span[MOST_HELD + 1]
              [UC_AXES]; /* of the taps of a group of residues, by how many are held */
} setting;

/* ---- the tile ---- */

static int64_t rows_of(const setting *s, const tiling *t) {
  return t->samples * (t->cells[0] + s->span[t->held][0]) * (t->cells[1] + s->span[t->held][1]);
}

static int64_t positions(const setting *s, const tiling *t) { return rows_of(s, t) * t->width; }

/* Whether row r of the halo tile, of all planes and samples, has cells. */
static bool has_cells(const setting *s, const tiling *t, int64_t r) {
  int64_t h = r % (t->cells[1] + s->span[t->held][1]),
          d = r / (t->cells[1] + s->span[t->held][1]) % (t->cells[0] + s->span[t->held][0]);
  return h < t->cells[1] && d < t->cells[0];
}

static bool add_part(tiling *t, int64_t position) {
  if (t->parts >= t->teams_n) return false;
  t->part[t->parts++] = position;
  return true;
}

/* Parts whose runs are one row apart: for each eight cells along W, as many rows as a part has runs. */
static bool cover_rows(const setting *s, tiling *t) {
  int64_t rows = rows_of(s, t);
  for (int64_t w = 0; w < t->cells[2]; w += RUN)
    for (int64_t r = 0; r < rows; r++) {
      if (!has_cells(s, t, r)) continue;
      if (!add_part(t, r * t->width + w)) return false;
      r += t->groups - 1;
    }
  return true;
}

/* Parts whose runs follow each other. */
static bool cover_positions(const setting *s, tiling *t) {
  int64_t rows = rows_of(s, t), covered = 0;
  for (int64_t r = 0; r < rows; r++) {
    if (!has_cells(s, t, r)) continue;
    int64_t first = uc_max(covered, r * t->width), end = r * t->width + t->cells[2];
    for (; first < end; first = covered) {
      if (!add_part(t, first)) return false;
      covered = first + t->groups * RUN;
    }
  }
  return true;
}

static bool cover(const setting *s, tiling *t) {
  t->parts = 0;
  return (t->by_rows ? cover_rows(s, t) : cover_positions(s, t)) && t->parts == t->teams_n;
}

static int64_t group_step(const tiling *t) { return t->by_rows ? t->width : RUN; }

/* ---- shared memory ---- */

static int64_t x_bytes(const setting *s, const tiling *t) {
  return uc_ceil_div(t->quads * positions(s, t) * UNIT_BYTES, 128) * 128;
}

static int64_t stage_bytes(const tiling *t) { return t->quads * t->teams_m * PANEL * UNIT_BYTES; }

/* Along W. */
static int64_t outputs_of_cell(const setting *s) { return s->k->pool >= 0 ? 1 : s->k->residues[2]; }

/* Runs that a warp finishes at once, and what it has for a channel of them: each row begins anywhere in a vector. */
static int64_t round_runs(const setting *s, const tiling *t, int64_t *pitch) {
  int64_t vector = VECTOR_BYTES / s->y_size, of_cell = outputs_of_cell(s);
  for (int64_t rounds = 1;; rounds++) {
    int64_t runs = uc_ceil_div(t->groups, rounds), rows = (runs * RUN - 1) / t->width + 2;
    *pitch = uc_ceil_div(runs * RUN * of_cell + (rows + 1) * vector, vector) * vector;
    if (runs == 1 || WARP_CHANNELS * *pitch * s->y_size <= ROW_BYTES) return runs;
  }
}

/* Memory of the warps that finish rows. */
static int64_t rows_bytes(const setting *s, const tiling *t) {
  int64_t pitch, warps = t->crews * t->teams_m * t->teams_n * TEAM_THREADS / 32;
  if (!t->stages_rows) return 0;
  round_runs(s, t, &pitch);
  return warps * WARP_CHANNELS * pitch * s->y_size;
}

static int64_t shared_bytes(const setting *s, const tiling *t) {
  return t->buffers * x_bytes(s, t) + t->stages * stage_bytes(t) + BARRIER_BYTES + rows_bytes(s, t);
}

/* Columns that are no cells may lie behind the halo tile: still within what the block has. */
static bool reads_inside(const setting *s, const tiling *t) {
  const int64_t *span = s->span[t->held];
  int64_t row = t->width, plane = row * (t->cells[1] + span[1]);
  int64_t reach = t->part[t->parts - 1] + (t->groups - 1) * group_step(t) + RUN + span[0] * plane +
                  span[1] * row + span[2];
  return (reach - positions(s, t)) * UNIT_BYTES <= t->stages * stage_bytes(t);
}

static bool fit(const setting *s, tiling *t) {
  const int64_t *span = s->span[t->held];
  if (2 * t->width > MOST_COPIED || t->samples > MOST_COPIED) return false;
  if (t->cells[0] + span[0] > MOST_COPIED || t->cells[1] + span[1] > MOST_COPIED) return false;
  if (!cover(s, t)) return false;
  int64_t left =
      s->e->target.shared_bytes - BARRIER_BYTES - t->buffers * x_bytes(s, t) - rows_bytes(s, t);
  t->stages = uc_min(MOST_STAGES, left / stage_bytes(t));
  return t->stages >= LEAST_STAGES && reads_inside(s, t);
}

/* ---- how long ---- */

static double product_clocks(const tiling *t) {
  double columns = (double)(t->groups * RUN);
  return fmax(16 + columns / 4, columns / 2);
}

/* Where rows are no whole sectors, or their elements come from different blocks, sectors are put together from pieces. */
static double stored_bytes(const setting *s, const tiling *t, const rates *r) {
  double size = (double)s->y_size, row = (double)s->width * size;
  if (s->e->lowered->source.y_layout == UPCONV_CHANNELS_LAST) return SECTOR;
  if (t->stages_rows)
    return size * (1 + (double)SECTOR / (row * (double)t->cells[2] / (double)s->extent[2]));
  if (s->k->pool < 0 && t->held < s->k->residues[2]) return r->of_elements;
  if (fmod(row, SECTOR) == 0) return size;
  return fmod(row, 2 * size) == 0 ? r->of_pieces : r->of_elements;
}

/* To finish an output. */
static double output_clocks(const setting *s, const tiling *t, const rates *r) {
  double element = t->stages_rows ? r->row_element : r->element;
  double tail = s->tail_instructions * r->tail + s->tail_loads * element +
                (s->rolled ? (double)t->groups * r->moved : 0);
  return (t->stages_rows ? r->row_output : r->output) + tail / (double)(t->teams_m * t->teams_n);
}

/* Jobs of a multiprocessor, of the average group of residues. */
static double jobs_of(const setting *s, const tiling *t) {
  const uc_cuda_engine *e = s->e;
  double jobs = (double)uc_ceil_div(e->group_out, t->teams_m * PANEL) *
                (double)e->lowered->conv.groups *
                ((double)uc_volume(s->k->residues) / (double)t->held) *
                (double)uc_ceil_div(uc_max(1, e->lowered->conv.batch), t->samples);
  for (int a = 0; a < UC_AXES; a++) jobs *= (double)uc_ceil_div(s->extent[a], t->cells[a]);
  return ceil(jobs / (double)uc_max(1, e->target.sm_count));
}

/* A crew alone multiplies and then finishes; of two, one finishes while the other one multiplies. */
static double estimate(const setting *s, const tiling *t, const rates *r) {
  double taps = (double)s->k->tap_count * (double)t->held / (double)uc_volume(s->k->residues);
  double units = (double)(uc_ceil_div(s->units, t->quads) * t->quads), steps = taps * units / 2;
  double teams = (double)(t->teams_m * t->teams_n);
  double of_stage =
      fmax(teams * (double)t->quads / 2 * product_clocks(t) + r->stage, r->least_stage);
  double chunks = units / (double)t->quads;
  double row = (double)t->width, of_chunk = (double)(positions(s, t) * t->quads * UNIT_BYTES);
  bool lines =
      t->width % LINE_POSITIONS == 0 && s->e->lowered->conv.axis[2].in_size % LINE_POSITIONS == 0;
  double of_x = of_chunk * (lines ? 1 : 1 + r->line * LINE_POSITIONS / row) * r->of_x;
  double products =
      chunks * fmax(taps * of_stage, r->chunk / (double)t->buffers + of_chunk / r->chunk_bytes);
  double copied = steps * (double)(t->teams_m * PANEL) * 2 * UNIT_BYTES + chunks * of_x;
  double read = steps * teams * (PANEL + (double)t->groups * RUN) * 2 * UNIT_BYTES;
  double outputs = teams * TEAM_THREADS * (double)(t->held * t->groups * 4);
  double kept = s->k->pool >= 0 ? outputs / (double)t->held : outputs;
  double stored = kept * stored_bytes(s, t, r), issued = outputs * output_clocks(s, t, r);
  if (t->stages_rows) issued += kept / (double)(t->cells[2] * outputs_of_cell(s)) * r->row;
  double shared = (read + copied) / SHARED_BYTES;
  const double one[] = {products, copied / r->l2_bytes, shared},
               two[] = {products, (copied + stored) / r->l2_bytes, shared, issued};
  double job = t->crews > 1 ? uc_cuda_together(two, 4, r->overlap)
                            : uc_cuda_together(one, 3, r->overlap) + issued + stored / r->l2_bytes;
  double end = t->crews > 1 ? issued + stored / r->l2_bytes : 0; /* of the last job */
  return jobs_of(s, t) * (job + r->job[t->crews - 1]) + end + r->begin;
}

/* ---- the choice ---- */

static int64_t most_groups(const tiling *t) {
  return uc_min(MOST_COLUMNS / RUN, MOST_SUMS / 4 / t->held);
}

/* The fewest runs with which the teams' parts have all cells. */
static bool find_groups(const setting *s, tiling *t) {
  int64_t cells = uc_volume(t->cells) * t->samples;
  for (t->groups = uc_max(1, cells / (t->teams_n * RUN)); t->groups <= most_groups(t); t->groups++)
    if (cover(s, t)) return true;
  return false;
}

/* Whether rows are put together before they are stored: where they are no whole sectors, and a run is part of one. */
static bool can_stage_rows(const setting *s, const tiling *t) {
  bool whole = s->k->pool >= 0 || t->held == s->k->residues[2];
  return whole && !t->by_rows && s->width * s->y_size % SECTOR != 0 &&
         s->e->lowered->source.y_layout != UPCONV_CHANNELS_LAST;
}

/* How many chunks of x are on their way. */
static void try_buffers(const setting *s, tiling *t, tiling *best) {
  for (t->buffers = LEAST_BUFFERS; t->buffers <= MOST_BUFFERS; t->buffers++) {
    if (!fit(s, t)) return;
    t->clocks = estimate(s, t, &tilings);
    if (best->clocks > 0 && t->clocks >= best->clocks) continue;
    *best = *t;
    best->cost = estimate(s, t, &problems);
  }
}

/* A box of cells: whose channels, and how many at once. */
static void try_box(const setting *s, tiling *t, tiling *best) {
  if (LEAST_BUFFERS * LEAST_QUADS * UNIT_BYTES * positions(s, t) > s->e->target.shared_bytes)
    return;
  if (!find_groups(s, t)) return;
  for (t->teams_m = 1; t->teams_m * t->teams_n <= MOST_TEAMS; t->teams_m++) {
    if (t->teams_m > 1 && s->e->group_out <= PANEL) break;
    for (t->quads = LEAST_QUADS; t->quads <= MOST_QUADS; t->quads += 2) {
      if (t->quads > LEAST_QUADS && t->quads >= s->units + 2) break;
      for (t->crews = 1; t->crews * t->teams_m * t->teams_n <= MOST_TEAMS; t->crews++)
        for (int rows = 0; rows <= can_stage_rows(s, t); rows++) {
          t->stages_rows = rows;
          try_buffers(s, t, best);
        }
    }
  }
}

/* A part of an extent, of at least n that are as equal as `unit` allows. */
static int64_t part_of(int64_t extent, int64_t n, int64_t unit) {
  int64_t part = uc_ceil_div(uc_ceil_div(extent, n), unit) * unit;
  return unit > 1 ? uc_min(uc_ceil_div(extent, 2) * 2, part) : part;
}

/* The next smaller one, of the fewest parts that are smaller; 0: there is none. */
static int64_t next_part(int64_t extent, int64_t part, int64_t unit) {
  return part > unit ? part_of(extent, uc_ceil_div(extent, part - unit), unit) : 0;
}

/* Samples, where one of them leaves room for more. */
static void try_samples(const setting *s, tiling *t, tiling *best) {
  bool whole = true;
  for (int a = 0; a < UC_AXES; a++) whole = whole && t->cells[a] >= s->extent[a];
  int64_t batch = whole ? uc_max(1, s->e->lowered->conv.batch) : 1;
  int64_t most = uc_max(1, t->teams_n * most_groups(t) * RUN / uc_volume(t->cells));
  t->samples = part_of(batch, uc_ceil_div(batch, most), 1);
  for (int tries = 0; t->samples > 0 && tries < MOST_TRIES; tries++) {
    try_box(s, t, best);
    t->samples = next_part(batch, t->samples, 1);
  }
}

/* Most cells of a box along an axis: what the copy engine takes with the halo, and `inner` of them are there already. */
static int64_t most_cells(const setting *s, const tiling *t, int axis, int64_t inner) {
  int64_t most = t->teams_n * most_groups(t) * RUN / inner, copied = MOST_COPIED;
  if (axis == 2) copied = MOST_COPIED / 2 - 1; /* halves of units, of an even number of positions */
  return uc_max(1, uc_min(most, copied - s->span[t->held][axis]));
}

/* Extents of a box along an axis, and then along those outside it, of no more cells than the teams have columns. */
static void try_axis(const setting *s, tiling *t, int axis, int64_t inner, tiling *best) {
  if (axis < 0) {
    try_samples(s, t, best);
    return;
  }
  int64_t unit = axis < 2 ? 1 : t->by_rows ? RUN : 2, tries = axis == 0 ? 1 : MOST_TRIES;
  int64_t extent = s->extent[axis];
  int64_t part = part_of(extent, uc_ceil_div(extent, most_cells(s, t, axis, inner)), unit);
  for (; part > 0 && tries > 0; tries--) { /* along D only the deepest that fits */
    t->cells[axis] = part;
    if (axis == 2) t->width = uc_ceil_div(part + s->span[t->held][2], 2) * 2;
    try_axis(s, t, axis - 1, inner * part, best);
    part = next_part(extent, part, unit);
  }
}

/* Residues that are neighbours: some of a row, whole rows of a plane, or whole planes; of a pool's cell all. */
static bool holds_together(const uc_cuda_kernel *k, int64_t held) {
  const int64_t *r = k->residues;
  if (k->pool >= 0) return held == uc_volume(r);
  if (held <= r[2]) return r[2] % held == 0;
  if (held % r[2] != 0) return false;
  int64_t rows = held / r[2];
  if (rows <= r[1]) return r[1] % rows == 0;
  return rows % r[1] == 0 && r[0] % (rows / r[1]) == 0;
}

static void choose_tiling(const setting *s, tiling *best) {
  tiling t = {.clocks = 0};
  best->clocks = 0;
  for (t.held = 1; t.held <= MOST_HELD; t.held++) {
    if (!holds_together(s->k, t.held)) continue;
    for (t.teams_n = 1; t.teams_n <= MOST_TEAMS; t.teams_n++)
      for (int by_rows = 0; by_rows < 2; by_rows++) {
        t.by_rows = by_rows;
        try_axis(s, &t, 2, 1, best);
      }
  }
}

static void measure_spans(setting *s) {
  const uc_cuda_kernel *k = s->k;
  for (int64_t held = 1; held <= MOST_HELD; held++) {
    if (!holds_together(k, held)) continue;
    for (int64_t g = 0; g < uc_volume(k->residues) / held; g++) {
      int64_t taps, low[UC_AXES], high[UC_AXES];
      uc_cuda_group_taps(k, held, g, &taps, low, high);
      for (int a = 0; a < UC_AXES; a++)
        s->span[held][a] = uc_max(s->span[held][a], high[a] - low[a]);
    }
  }
}

static void settle(uc_cuda_kernel *k, const setting *s, const tiling *t) {
  uc_cuda_panel *p = &k->panels;
  p->groups = t->groups;
  p->group_step = group_step(t);
  p->whole_runs = t->cells[2] % RUN == 0 && (t->by_rows || t->width % RUN == 0);
  p->teams_m = t->teams_m;
  p->crews = t->crews;
  p->quads = t->quads;
  p->blocks = uc_ceil_div(s->e->group_out, t->teams_m * PANEL);
  p->clocks = t->cost;
  p->round_runs = t->stages_rows ? round_runs(s, t, &p->row_pitch) : 0;
  p->part_count = t->parts;
  memcpy(p->part_position, t->part, sizeof p->part_position);
  k->held = k->rt = t->held;
  k->residue_groups = uc_volume(k->residues) / t->held;
  k->bm = t->teams_m * PANEL;
  k->threads = t->crews * t->teams_m * t->teams_n * TEAM_THREADS + COPIERS;
  k->copiers = COPIERS;
  k->registers_kept = KEPT_REGISTERS;
  k->registers_taken = t->held * t->groups * 4 > MANY_SUMS ? TAKEN_REGISTERS : 0;
  k->samples = t->samples;
  k->chunks = uc_ceil_div(s->units, t->quads);
  k->chunk = s->e->group_in;
  k->stages = t->stages;
  k->x_buffers = t->buffers;
  k->strip = 2;
  k->wgmma = true;
  k->resident = true; /* blocks go over many jobs */
  for (int a = 0; a < UC_AXES; a++) {
    k->cells[a] = t->cells[a];
    k->x_size[a] = a == 2 ? t->width : t->cells[a] + s->span[t->held][a];
  }
  k->staging_floats = shared_bytes(s, t) / 4;
  k->sums_at = (shared_bytes(s, t) - rows_bytes(s, t)) / 4;
}

const char *uc_cuda_shape_panel(const uc_cuda_engine *e, uc_cuda_kernel *k,
                                const int64_t extent[UC_AXES], int64_t width) {
  if (uc_volume(k->step) != 1) return "a pool's stride is not the convolution's";
  if (k->tap_count == 0) return "no taps";
  if (k->tap_count > MAX_TAPS || uc_volume(k->residues) > MAX_GROUPS)
    return "more taps or phases than tables of the kernel for many channels hold";
  if (k->pool >= 0 && uc_volume(k->residues) > MOST_HELD)
    return "a pool of more than eight elements";
  setting s = {.e = e, .k = k, .extent = extent, .width = width};
  int64_t of_unit = e->word == UPCONV_F32 ? 4 : 8;
  s.units = uc_ceil_div(e->group_in, of_unit);
  bool last = k->pass->result == e->program.value_count - 1;
  s.y_size = (int64_t)upconv_dtype_size(last ? e->lowered->source.y_dtype : UPCONV_F32);
  s.tail_instructions = uc_cuda_tail_instructions(e, k);
  s.tail_loads = uc_cuda_tail_loads(e, k);
  s.rolled = uc_cuda_long_tail(e, k);
  measure_spans(&s);
  tiling best;
  choose_tiling(&s, &best);
  if (best.clocks == 0) return "the input of a tile does not fit shared memory";
  settle(k, &s, &best);
  return NULL;
}
