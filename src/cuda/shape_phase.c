/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of the kernel whose products have residues and channels as rows and cells as columns: which rows make a panel, which
 * products there are, and which part of a tile four warps take; of what fits, what an estimate of the time finds best.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "registers.h"
#include "shape.h"
#include "work.h"

enum {
  MOST_SUMS = 128,      /* registers of a thread that multiplies */
  MOST_REGISTERS = 144, /* of sums, and of what finishing them takes where each becomes an output */
  GROUP_REGISTERS = 2,
  READING_REGISTERS = 32, /* the same where the tail reads tensors */
  MOST_GROUPS =
      16,    /* of one product, whose sums must fit the registers that threads are launched with */
  GROUP = 8, /* cells, neighbours along W */
  BLOCK = 8, /* channels */
  MOST_UNROLLED = 512, /* products */
  MOST_PARTS = 8,      /* of a tile, along each axis */
  MOST_BUFFERS = 3,
  MULTIPLIERS = 256,
  WARP_ROWS = 8 * MULTIPLIERS / 32, /* of a part, of all warps that multiply */
  VECTOR_BYTES = 16,
  SECTOR = 32,
  LINE = 128,
  COPIERS = 256,
  MANY_SUMS = 72,         /* beyond which threads that multiply take registers of those that copy */
  MANY_SUMS_READING = 40, /* the same where the tail reads tensors */
  LARGE_SUMS =
      112, /* for which that is not enough where rows meet, or a cell has more than two outputs */
  KEPT_REGISTERS = 80,
  TAKEN_REGISTERS = 176,
  EVEN_REGISTERS = 120, /* that these keep otherwise, so that nothing of either goes to memory */
  REST_REGISTERS = 136,
  UNITS_AHEAD = 8, /* that a thread loads together, four words each */
  UNIT_BYTES = 16,
  PANEL_BYTES = 2048,
  MOST_TAPS = 4096
};

/* Clocks of one multiprocessor, fitted to an H200 (docs/DECISIONS.md). */
typedef struct rates {
  /* Bytes of the second-level cache in one; that a byte of x counts for, and how much what whole lines of its rows have
     beyond whole sectors. */
  double l2_bytes, of_x, lines;
  /* To bring a word of x, an element or of two, and a round trip to memory for them; to look whether
     it is finite. */
  double word[2], latency[2], look;
  /* A tile by itself; a part, from the end of its products to its first sum; to begin. */
  double tile, part, begin;
  /* Of a sum that four warps finish: by itself; more if it is stored alone; an instruction of the
     tail; an element that it reads, also where rows meet in shared memory; moving a group's sums past
     code that exists once. */
  double finish, alone, tail, element, row_element, moved;
  /* To put eight rows together and copy them; a sector that is put together from pieces; what is
     stored side by side, up to a line. */
  double rows, piece, run;
  /* How well units work side by side: 1 is one after the other, infinity as long as the slowest. */
  double overlap;
} rates;

/* From some 160 tilings that were measured side by side: what is the same for all of a problem's does not matter. */
static const rates tilings = {.l2_bytes = 28,
                              .of_x = 1.03,
                              .lines = 0.23,
                              .word = {0.19, 0.185},
                              .look = 0.05,
                              .latency = {1040, 1080},
                              .tile = 445,
                              .part = 350,
                              .begin = 2000,
                              .finish = 0.83,
                              .alone = 12.5,
                              .tail = 0.28,
                              .element = 15.5,
                              .row_element = 50,
                              .moved = 3,
                              .rows = 198,
                              .piece = 1.3,
                              .run = 1.2,
                              .overlap = 2.25};
/* From some 230 problems, to compare with other candidates. */
static const rates problems = {.l2_bytes = 36,
                               .of_x = 1.27,
                               .word = {0.16, 0.14},
                               .look = 0.093,
                               .latency = {694, 1230},
                               .tile = 1200,
                               .begin = 790,
                               .finish = 1.2,
                               .alone = 13,
                               .tail = 0.5,
                               .element = 15.5,
                               .row_element = 50,
                               .moved = 3,
                               .rows = 214,
                               .piece = 0.72,
                               .run = 1.15,
                               .overlap = 3.4};

static int64_t places(const uc_cuda_kernel *k) { return k->residues[0] * k->residues[1]; }

/* The residue of a panel's pair, by its place along D and H, and the first or second of the pair; -1: none. */
static int64_t residue_of(const uc_cuda_kernel *k, int64_t panel, int64_t slot, int64_t second) {
  const uc_cuda_phase *p = &k->phases;
  int64_t place = panel / p->pairs * p->slots + slot, w = panel % p->pairs * 2 + second;
  return place < places(k) && w < k->residues[2] ? place * k->residues[2] + w : -1;
}

/* ---- products ---- */

static void choose_panels(const uc_cuda_kernel *k, uc_cuda_phase *p, int64_t fragments) {
  p->fragments = fragments;
  p->slots = UC_CUDA_PANEL_PAIRS / fragments;
  p->pairs = uc_ceil_div(k->residues[2], 2);
  p->panels = p->pairs * uc_ceil_div(places(k), p->slots);
}

int64_t uc_cuda_phase_panel(const uc_cuda_kernel *k, int64_t residue) {
  const uc_cuda_phase *p = &k->phases;
  int64_t place = residue / k->residues[2], w = residue % k->residues[2];
  return place / p->slots * p->pairs + w / 2;
}

/* The first tap, from t on, of another offset; taps go offset by offset. */
static int64_t next_offset(const uc_cuda_kernel *k, int64_t t) {
  int64_t end = t;
  while (end < k->tap_count &&
         memcmp(k->tap[end].delta, k->tap[t].delta, sizeof k->tap[t].delta) == 0)
    end++;
  return end;
}

/* A panel's product at the offset of taps [first, end), or at none (false). */
static bool find_product(const uc_cuda_kernel *k, const uc_cuda_phase *p, int64_t panel,
                         int64_t first, int64_t end, uc_cuda_product *product) {
  bool any = false;
  memset(product->kernel, -1, sizeof product->kernel);
  product->panel = (int32_t)panel;
  for (int64_t t = first; t < end; t++) {
    int64_t residue = k->tap[t].residue;
    if (uc_cuda_phase_panel(k, residue) != panel) continue;
    int64_t slot = residue / k->residues[2] % p->slots;
    any = true;
    for (int half = 0; half < 2; half++) {
      product->kernel[half][slot][residue % k->residues[2] % 2] = k->tap[t].kernel;
      memcpy(product->delta[half], k->tap[t].delta, sizeof product->delta[half]);
    }
  }
  return any;
}

/* Where a position has one unit, two offsets of a panel make a product; what is left over is multiplied by zeros. */
static void join_products(uc_cuda_phase *p) {
  int64_t count = 0;
  for (int64_t panel = 0; panel < p->panels; panel++) {
    int64_t open = -1;
    for (int64_t i = 0; i < p->product_count; i++) {
      if (p->product[i].panel != panel) continue;
      if (open >= 0) {
        memcpy(p->product[open].delta[1], p->product[i].delta[0], sizeof p->product[i].delta[0]);
        memcpy(p->product[open].kernel[1], p->product[i].kernel[0], sizeof p->product[i].kernel[0]);
        p->product[i].panel = -1;
        open = -1;
      } else {
        memset(p->product[i].kernel[1], -1, sizeof p->product[i].kernel[1]);
        open = i;
      }
    }
  }
  for (int64_t i = 0; i < p->product_count; i++)
    if (p->product[i].panel >= 0) p->product[count++] = p->product[i];
  p->product_count = count;
}

/* Whether a row of a channel and a residue that there are has zeros. */
static bool has_gaps(const uc_cuda_kernel *k, const uc_cuda_phase *p) {
  for (int64_t i = 0; i < p->product_count; i++)
    for (int half = 0; half < 2; half++)
      for (int64_t slot = 0; slot < p->slots; slot++)
        for (int second = 0; second < 2; second++)
          if (p->product[i].kernel[half][slot][second] < 0 &&
              residue_of(k, p->product[i].panel, slot, second) >= 0)
            return true;
  return false;
}

/* p->product has room for all. */
static void list_products(const uc_cuda_kernel *k, uc_cuda_phase *p) {
  p->product_count = 0;
  for (int64_t first = 0, end; first < k->tap_count; first = end) {
    end = next_offset(k, first);
    for (int64_t panel = 0; panel < p->panels; panel++)
      if (find_product(k, p, panel, first, end, &p->product[p->product_count])) p->product_count++;
  }
  if (p->quads == 1) join_products(p);
}

/* Of 32, 16 or 8 channels a panel, those with the fewest products for all channels: where products are shared by places,
   residues without a tap there make zeros of rows; where channels are few, they fill rows of others. */
static const char *choose_products(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_cuda_phase *p = &k->phases;
  int64_t blocks = uc_ceil_div(e->group_out, BLOCK), best = -1, fragments = 0;
  /* a product for every tap at most, and one more place to write the next */
  p->product = calloc((size_t)k->tap_count + 1, sizeof *p->product);
  if (!p->product) return "no memory";
  for (int64_t f = UC_CUDA_PANEL_PAIRS; f >= (k->pool >= 0 ? UC_CUDA_PANEL_PAIRS : 1); f /= 2) {
    choose_panels(k, p, f);
    list_products(k, p);
    int64_t all = p->product_count * uc_ceil_div(blocks, f);
    if (best >= 0 && all >= best) continue;
    best = all;
    fragments = f;
  }
  choose_panels(k, p, fragments);
  list_products(k, p);
  p->gaps = has_gaps(k, p);
  return NULL;
}

/* ---- tiles ---- */

typedef struct tiling {
  int64_t held, groups, parts[UC_AXES], rounds, blocks, buffers, row_pitch;
  int axis;
  double clocks, cost; /* beside other tilings; beside other candidates, of the best */
} tiling;

typedef struct setting {
  const uc_cuda_engine *e;
  const uc_cuda_kernel *k;
  const int64_t *extent;
  int64_t panel_blocks;           /* of channels: each has all panels once */
  int64_t y_size, width, of_cell; /* bytes of an output; outputs of a row of y; of a cell along W */
  double tail_instructions, tail_loads; /* for an output */
  bool rolled;                          /* its code exists once */
} setting;

static void part_of(const tiling *t, int64_t part[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++) part[a] = a == t->axis ? t->groups : 1;
  part[2] = t->axis == 2 ? t->groups * GROUP : GROUP;
}

static void cells_of(const tiling *t, int64_t cells[UC_AXES]) {
  part_of(t, cells);
  for (int a = 0; a < UC_AXES; a++) cells[a] *= t->parts[a];
}

/* Two 16-bit positions are loaded together where rows lie along W: from an even one on, so that two units come of it. */
static bool paired(const setting *s) {
  return s->e->word != UPCONV_F32 && s->e->lowered->conv.x_layout != UPCONV_CHANNELS_LAST;
}

/* Positions of a row of the input tile. */
static int64_t row_positions(const setting *s, int64_t cells) {
  int64_t row = uc_cuda_input_size(s->k, 2, cells);
  return paired(s) ? uc_ceil_div(row + uc_mod(s->k->x_base[2], 2), 2) * 2 : row;
}

static int64_t x_bytes(const setting *s, const tiling *t) {
  int64_t cells[UC_AXES];
  cells_of(t, cells);
  int64_t positions = row_positions(s, cells[2]);
  for (int a = 0; a < 2; a++) positions *= uc_cuda_input_size(s->k, a, cells[a]);
  return positions * s->k->phases.quads * UNIT_BYTES;
}

static int64_t round_bytes(const setting *s, const tiling *t) {
  return s->k->phases.steps * s->k->phases.product_count * t->held * PANEL_BYTES;
}

static int64_t shared_bytes(const setting *s, const tiling *t) {
  int64_t marks = s->k->phases.gaps ? x_bytes(s, t) / UNIT_BYTES / s->k->phases.quads : 0;
  return t->rounds * round_bytes(s, t) + t->buffers * (x_bytes(s, t) + marks) +
         UC_CUDA_NOTES_BYTES + WARP_ROWS * t->row_pitch * s->y_size;
}

/* Rounds and blocks of channels, and buffers: the fewest blocks whose weights leave room for two tiles' input. */
static bool fit(const setting *s, tiling *t) {
  int64_t all = uc_ceil_div(s->panel_blocks, t->held), most = s->e->target.shared_bytes;
  for (t->blocks = 1; t->blocks <= all; t->blocks++) {
    t->rounds = uc_ceil_div(all, t->blocks);
    t->buffers = 2;
    if (shared_bytes(s, t) > most) continue;
    while (t->buffers < MOST_BUFFERS && shared_bytes(s, t) + x_bytes(s, t) * 17 / 16 <= most)
      t->buffers++;
    t->blocks = uc_ceil_div(all, t->rounds);
    return true;
  }
  return false;
}

/* Clocks of a product: a multiprocessor multiplies four columns in a clock, or reads 128 bytes of shared memory. */
static double product_clocks(const tiling *t) {
  double columns = (double)(t->groups * GROUP);
  return fmax(columns / 2, 16 + columns / 4);
}

/* Clocks of the second-level cache for y: sectors that are not written as a whole take longer. Where rows are no multiples of
   sectors, both ends of a run are such, and what a lane's neighbours do not store with it is a run. */
static double store_clocks(const setting *s, const tiling *t, const rates *r, double outputs) {
  double bytes = outputs * (double)s->y_size, lanes = (double)(GROUP * s->of_cell * s->y_size);
  double run = lanes * (t->axis == 2 ? (double)t->groups : 1);
  double clocks = bytes / r->l2_bytes + bytes / fmin(run, LINE) * r->run;
  if (s->width * s->y_size % SECTOR == 0) return clocks;
  if (t->row_pitch > 0) return clocks + bytes / run * 2 * r->piece;
  int64_t of_lane = uc_min(VECTOR_BYTES, 2 * s->of_cell * s->y_size);
  bool together = s->width * s->y_size % of_lane == 0;
  return clocks + bytes / lanes * (together ? 2 : 4) * r->piece;
}

/* Whether outputs are stored one by one, for rows of y are not aligned to half of what a lane has. */
static bool stores_alone(const setting *s, const tiling *t) {
  int64_t of_lane = uc_min(VECTOR_BYTES, 2 * s->of_cell * s->y_size);
  return t->row_pitch == 0 && (s->width * s->y_size % uc_max(1, of_lane / 2) != 0 ||
                               s->e->lowered->source.y_layout == UPCONV_CHANNELS_LAST);
}

/* To finish a sum. */
static double sum_clocks(const setting *s, const tiling *t, const rates *r) {
  double element = t->row_pitch > 0 ? r->row_element : r->element;
  return r->finish + (stores_alone(s, t) ? r->alone : 0) + s->tail_instructions * r->tail +
         s->tail_loads * element + (s->rolled ? (double)t->groups * r->moved : 0);
}

/* Positions of x that a tile reads along an axis, of those that there are. */
static double held_positions(const setting *s, int axis, const int64_t cells[UC_AXES]) {
  return (double)uc_min(uc_cuda_input_size(s->k, axis, cells[axis]),
                        s->e->lowered->conv.axis[axis].in_size);
}

/* Bytes of x that come from memory for a tile: whole sectors of its rows, and a share of what lines have besides. Where a tile has
   whole rows, these begin where lines do. */
static double near_bytes(const setting *s, const int64_t cells[UC_AXES], const rates *r) {
  const upconv_problem *p = &s->e->lowered->conv;
  double size = (double)upconv_dtype_size(p->x_dtype), rows = (double)s->e->group_in;
  double row = held_positions(s, 2, cells) * size;
  for (int a = 0; a < 2; a++) rows *= held_positions(s, a, cells);
  if (p->x_layout == UPCONV_CHANNELS_LAST)
    return rows * row + rows * row / size / (double)s->e->group_in * (SECTOR - size);
  double sectors = row + SECTOR - size;
  double lines = cells[2] >= s->extent[2] ? ceil(row / LINE) * LINE : row + LINE - size;
  return rows * (sectors + r->lines * (lines - sectors));
}

static double estimate(const setting *s, const tiling *t, const rates *r) {
  const uc_cuda_phase *p = &s->k->phases;
  bool pairs = s->e->word != UPCONV_F32;
  int64_t cells[UC_AXES];
  cells_of(t, cells);
  double tiles = (double)(t->blocks * s->e->lowered->conv.groups) *
                 (double)uc_max(1, s->e->lowered->conv.batch);
  double there = 1; /* of the tiles' cells: others are not stored */
  for (int a = 0; a < UC_AXES; a++) {
    int64_t along = uc_ceil_div(s->extent[a], cells[a]);
    tiles *= (double)along;
    there *= (double)s->extent[a] / (double)(along * cells[a]);
  }
  double parts = (double)(t->parts[0] * t->parts[1] * t->parts[2]) * (double)t->rounds;
  double products = parts * (double)(p->steps * p->product_count * t->held) * product_clocks(t);
  double sums = parts * (double)(p->panels * t->held * t->groups * 4);
  double outputs =
      sums * MULTIPLIERS / 2 / (s->k->pool >= 0 ? (double)uc_volume(s->k->residues) : 1);
  double units = (double)x_bytes(s, t) / UNIT_BYTES, words = pairs ? 8 : 4;
  double of_place = s->k->pool >= 0 ? (double)p->panels : (double)p->pairs;
  double finishing =
      sums * sum_clocks(s, t, r) +
      (t->row_pitch > 0 ? parts * (double)(p->panels * t->held) / of_place * r->rows : 0);
  double issue = finishing + units * words * (r->word[pairs] + (p->gaps ? r->look : 0));
  /* copying warps load 32 words a thread together; a team finishes while the other multiplies */
  double copying = ceil(units * words / (32.0 * COPIERS)) * r->latency[pairs];
  double alone = products / 2 + parts * r->part + finishing * 2;
  const double part[] = {products, issue, copying, alone,
                         near_bytes(s, cells, r) * r->of_x / r->l2_bytes +
                             store_clocks(s, t, r, outputs * there)};
  double clocks = uc_cuda_together(part, 5, r->overlap);
  double weights = (double)(t->rounds * round_bytes(s, t));
  return ceil(tiles / (double)uc_max(1, s->e->target.sm_count)) * (clocks + r->tile) + r->begin +
         fmax(weights / r->l2_bytes, copying);
}

/* How many parts may lie along an axis: more finely where few do, as a tile beyond the extent is work for nothing. */
static int64_t next_parts(int64_t parts) { return parts < 6 ? parts + 1 : parts + 2; }

/* Parts along each axis: none that lies beyond the extent as a whole. */
static void try_parts(const setting *s, tiling *t, tiling *best) {
  int64_t part[UC_AXES];
  part_of(t, part);
  int64_t n[UC_AXES];
  for (n[0] = 1; n[0] <= MOST_PARTS; n[0] = next_parts(n[0]))
    for (n[1] = 1; n[1] <= MOST_PARTS; n[1] = next_parts(n[1]))
      for (n[2] = 1; n[2] <= MOST_PARTS; n[2] = next_parts(n[2])) {
        bool beyond = n[0] * n[1] * n[2] > MOST_PARTS;
        for (int a = 0; a < UC_AXES; a++)
          beyond |= n[a] > 1 && part[a] * (n[a] - 1) >= s->extent[a];
        if (beyond) continue;
        memcpy(t->parts, n, sizeof n);
        if (!fit(s, t)) continue;
        t->clocks = estimate(s, t, &tilings);
        if (best->clocks > 0 && t->clocks >= best->clocks) continue;
        *best = *t;
        best->cost = estimate(s, t, &problems);
      }
}

/* Whether rows are put together before they are stored: where they are no whole sectors, and lie along W. */
static bool meets_in_rows(const setting *s, const tiling *t) {
  return t->axis == 2 && s->width * s->y_size % SECTOR != 0 &&
         s->e->lowered->source.y_layout != UPCONV_CHANNELS_LAST;
}

/* Room for a row that begins anywhere in a vector; rows lie half of all banks apart. */
static int64_t row_pitch(const setting *s, const tiling *t) {
  int64_t vector = VECTOR_BYTES / s->y_size, banks = 128 / s->y_size;
  int64_t row = t->groups * GROUP * s->of_cell + vector;
  return uc_ceil_div(row - banks / 2, banks) * banks + banks / 2;
}

/* Groups whose sums, and where these become outputs what finishes them, fit the registers; of one block of channels one at least. */
static int64_t most_groups(const setting *s, int64_t held) {
  int64_t sums = 4 * s->k->phases.panels * held, most = uc_min(MOST_GROUPS, MOST_SUMS / sums);
  if (s->k->pool >= 0) return most;
  int64_t registers = MOST_REGISTERS - (s->tail_loads > 0 ? READING_REGISTERS : 0);
  int64_t room = registers / (sums + GROUP_REGISTERS);
  return uc_min(most, held == 1 ? uc_max(1, room) : room);
}

static void choose_tiling(const setting *s, tiling *best) {
  tiling t = {.clocks = 0};
  for (t.held = 1; t.held <= s->panel_blocks; t.held *= 2) {
    int64_t most = most_groups(s, t.held);
    for (t.groups = 1; t.groups <= most; t.groups += t.groups < 8 ? 1 : 2)
      for (t.axis = 0; t.axis < UC_AXES; t.axis++) {
        int64_t cells = t.axis == 2 ? t.groups * GROUP : t.groups;
        bool last = t.axis == 2 || t.groups > 1; /* a group alone has no axis */
        if (!last || cells >= 2 * s->extent[t.axis] + GROUP) continue;
        t.row_pitch = 0;
        try_parts(s, &t, best);
        if (!meets_in_rows(s, &t)) continue;
        t.row_pitch = row_pitch(s, &t);
        try_parts(s, &t, best);
      }
  }
}

static void lay_out_pairs(const setting *s, uc_cuda_kernel *k) {
  k->x_vector = 1;
  if (!paired(s)) return;
  k->x_vector = 2;
  k->x_size[2] = row_positions(s, k->cells[2]);
  k->x_base[2] -= uc_mod(k->x_base[2], 2);
}

/* Whether rows of the result are stored element by element. */
static bool stores_apart(const setting *s) {
  int64_t run = VECTOR_BYTES / s->y_size;
  while (2 * s->of_cell % run != 0) run /= 2;
  return s->width % uc_max(1, run / 2) != 0;
}

/* Registers of a thread that copies, and of one that multiplies; the first load less where the second would lack some. */
static void share_registers(const uc_cuda_engine *e, uc_cuda_kernel *k, const tiling *t,
                            const setting *s) {
  int64_t sums = k->phases.panels * t->held * t->groups * 4;
  bool many = sums > (uc_cuda_tail_loads(e, k) > 0 ? MANY_SUMS_READING : MANY_SUMS);
  k->steps_ahead = UNITS_AHEAD;
  k->registers_kept = many ? KEPT_REGISTERS : EVEN_REGISTERS;
  k->registers_taken = many ? TAKEN_REGISTERS : REST_REGISTERS;
  bool lacks = sums >= LARGE_SUMS && (t->row_pitch > 0 || s->of_cell > 2);
  if (lacks || (sums > MANY_SUMS && t->row_pitch > 0 && stores_apart(s))) uc_cuda_load_less(k);
}

static void settle(const uc_cuda_engine *e, uc_cuda_kernel *k, const tiling *t, const setting *s) {
  uc_cuda_phase *p = &k->phases;
  k->staging_floats = uc_ceil_div(shared_bytes(s, t), 4);
  p->held = t->held;
  p->blocks = t->blocks;
  p->groups = t->groups;
  p->group_axis = t->axis;
  p->row_pitch = t->row_pitch;
  p->clocks = t->cost;
  part_of(t, p->part);
  cells_of(t, k->cells);
  for (int a = 0; a < UC_AXES; a++) k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
  lay_out_pairs(s, k);
  k->rounds = t->rounds;
  k->bm = t->rounds * t->held * p->fragments * BLOCK;
  k->x_buffers = t->buffers;
  k->threads = MULTIPLIERS + COPIERS;
  k->copiers = COPIERS;
  share_registers(e, k, t, s);
  k->rt = k->pool >= 0 ? uc_volume(k->residues) : k->residues[2];
  k->residue_groups = uc_volume(k->residues) / k->rt;
  k->strip = 2;
  k->resident = true;
  k->wgmma = true;
  k->chunk = e->group_in;
}

const char *uc_cuda_shape_phase(const uc_cuda_engine *e, uc_cuda_kernel *k,
                                const int64_t extent[UC_AXES], int64_t width) {
  uc_cuda_phase *p = &k->phases;
  if (k->step[2] != 1) return "neighbouring cells along W read inputs that lie apart";
  if (k->tap_count > MOST_TAPS) return "more taps than the kernel for phases unrolls";
  int64_t of_unit = e->word == UPCONV_F32 ? 4 : 8;
  p->quads = uc_ceil_div(e->group_in, of_unit);
  if (p->quads > 1) p->quads = uc_ceil_div(p->quads, 2) * 2;
  p->steps = uc_max(1, p->quads / 2);
  uc_cuda_sort_taps(k);
  const char *why = choose_products(e, k);
  if (why) return why;
  if (p->product_count > MOST_UNROLLED) return "more taps than the kernel for phases unrolls";
  if (p->panels * 4 > MOST_SUMS) return "more phases than the kernel for phases holds in registers";
  setting s = {.e = e, .k = k, .extent = extent};
  bool last = k->pass->result == e->program.value_count - 1;
  s.y_size = (int64_t)upconv_dtype_size(last ? e->lowered->source.y_dtype : UPCONV_F32);
  s.width = width;
  s.of_cell = k->pool >= 0 ? 1 : k->residues[2];
  s.rolled = uc_cuda_long_tail(e, k);
  s.tail_instructions = uc_cuda_tail_instructions(e, k);
  s.tail_loads = uc_cuda_tail_loads(e, k);
  s.panel_blocks = uc_ceil_div(uc_ceil_div(e->group_out, BLOCK), p->fragments);
  tiling best = {.clocks = 0};
  choose_tiling(&s, &best);
  if (best.clocks == 0) return "the weights of a block of channels do not fit shared memory";
  settle(e, k, &best, &s);
  return NULL;
}
