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
  MOST_PRODUCTS = 512, /* of a step */
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
  /* To give sums to other warps and wait for theirs. */
  double meeting;
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
                              .meeting = 500,
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
                               .meeting = 500,
                               .rows = 214,
                               .piece = 0.72,
                               .run = 1.15,
                               .overlap = 3.4};

static int64_t places(const uc_cuda_kernel *k) { return k->residues[0] * k->residues[1]; }

/* The residue of a panel's pair, by its place along D and H, and the first or second of the pair; -1: none. */
static int64_t residue_of(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t panel,
                          int64_t slot, int64_t second) {
  const uc_cuda_phase *p = &k->phases;
  int64_t place = panel / p->pairs * l->slots + slot, w = panel % p->pairs * 2 + second;
  return place < places(k) && w < k->residues[2] ? place * k->residues[2] + w : -1;
}

/* ---- products ---- */

static void choose_panels(const uc_cuda_kernel *k, uc_cuda_layout *l, int64_t fragments) {
  l->fragments = fragments;
  l->slots = UC_CUDA_PANEL_PAIRS / fragments;
  l->panels = k->phases.pairs * uc_ceil_div(places(k), l->slots);
}

int64_t uc_cuda_phase_panel(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t residue) {
  int64_t place = residue / k->residues[2], w = residue % k->residues[2];
  return place / l->slots * k->phases.pairs + w / 2;
}

static int64_t layout_weights(const uc_cuda_phase *p, const uc_cuda_layout *l) {
  return l->rounds * p->steps * l->product_count * l->held * PANEL_BYTES;
}

int64_t uc_cuda_phase_weights(const uc_cuda_phase *p) {
  return layout_weights(p, &p->main) + layout_weights(p, &p->rest);
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
static bool find_product(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t panel,
                         int64_t first, int64_t end, uc_cuda_product *product) {
  bool any = false;
  memset(product->kernel, -1, sizeof product->kernel);
  product->panel = (int32_t)panel;
  for (int64_t t = first; t < end; t++) {
    int64_t residue = k->tap[t].residue;
    if (uc_cuda_phase_panel(k, l, residue) != panel) continue;
    int64_t slot = residue / k->residues[2] % l->slots;
    any = true;
    for (int half = 0; half < 2; half++) {
      product->kernel[half][slot][residue % k->residues[2] % 2] = k->tap[t].kernel;
      memcpy(product->delta[half], k->tap[t].delta, sizeof product->delta[half]);
    }
  }
  return any;
}

/* Where a position has one unit, two offsets of a panel make a product; what is left over is multiplied by zeros. */
static void join_products(uc_cuda_layout *l) {
  int64_t count = 0;
  for (int64_t panel = 0; panel < l->panels; panel++) {
    int64_t open = -1;
    for (int64_t i = 0; i < l->product_count; i++) {
      if (l->product[i].panel != panel) continue;
      if (open >= 0) {
        memcpy(l->product[open].delta[1], l->product[i].delta[0], sizeof l->product[i].delta[0]);
        memcpy(l->product[open].kernel[1], l->product[i].kernel[0], sizeof l->product[i].kernel[0]);
        l->product[i].panel = -1;
        open = -1;
      } else {
        memset(l->product[i].kernel[1], -1, sizeof l->product[i].kernel[1]);
        open = i;
      }
    }
  }
  for (int64_t i = 0; i < l->product_count; i++)
    if (l->product[i].panel >= 0) l->product[count++] = l->product[i];
  l->product_count = count;
}

/* Whether a row of a channel and a residue that there are has zeros. */
static bool has_gaps(const uc_cuda_kernel *k, const uc_cuda_layout *l) {
  for (int64_t i = 0; i < l->product_count; i++)
    for (int half = 0; half < 2; half++)
      for (int64_t slot = 0; slot < l->slots; slot++)
        for (int second = 0; second < 2; second++)
          if (l->product[i].kernel[half][slot][second] < 0 &&
              residue_of(k, l, l->product[i].panel, slot, second) >= 0)
            return true;
  return false;
}

/* l->product has room for all. */
static void list_products(const uc_cuda_kernel *k, uc_cuda_layout *l, int64_t fragments) {
  choose_panels(k, l, fragments);
  l->product_count = 0;
  for (int64_t first = 0, end; first < k->tap_count; first = end) {
    end = next_offset(k, first);
    for (int64_t panel = 0; panel < l->panels; panel++)
      if (find_product(k, l, panel, first, end, &l->product[l->product_count])) l->product_count++;
  }
  if (k->phases.quads == 1) join_products(l);
}

/* Products for so many blocks of eight channels, where a panel has `fragments`. */
static int64_t products_of(const uc_cuda_kernel *k, uc_cuda_layout *l, int64_t fragments,
                           int64_t blocks) {
  list_products(k, l, fragments);
  return l->product_count * uc_ceil_div(blocks, fragments);
}

/* The last blocks of eight channels, which do not fill a panel of main's, have panels of fewer channels where that leaves fewer products. */
static void choose_rest(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_cuda_phase *p = &k->phases;
  int64_t blocks = uc_ceil_div(e->group_out, BLOCK), left = blocks % p->main.fragments;
  int64_t least = p->main.product_count, fragments = 0;
  p->rest.held = 1;
  if (left == blocks) return;
  for (int64_t f = p->main.fragments / 2; f >= 1 && left > 0; f /= 2) {
    int64_t all = products_of(k, &p->rest, f, left);
    if (all >= least) continue;
    least = all;
    fragments = f;
  }
  if (fragments == 0) return;
  list_products(k, &p->rest, fragments);
  p->rest.rounds = uc_ceil_div(left, fragments);
}

/* Of 32, 16 or 8 channels a panel, those with the fewest products for all channels: where products are shared by places,
   residues without a tap there make zeros of rows; where channels are few, they fill rows of others. */
static int64_t fewest_products(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  int64_t blocks = uc_ceil_div(e->group_out, BLOCK), best = -1, fragments = 0;
  for (int64_t f = UC_CUDA_PANEL_PAIRS; f >= 1; f /= 2) {
    int64_t all = products_of(k, &k->phases.main, f, blocks);
    if (best >= 0 && all >= best) continue;
    best = all;
    fragments = f;
  }
  return fragments;
}

static bool make_room_for_products(uc_cuda_kernel *k) {
  uc_cuda_phase *p = &k->phases;
  /* a product for every tap at most, and one more place to write the next */
  p->main.product = calloc((size_t)k->tap_count + 1, sizeof *p->main.product);
  p->rest.product = calloc((size_t)k->tap_count + 1, sizeof *p->rest.product);
  return p->main.product && p->rest.product;
}

/* The products of panels of so many blocks of channels. */
static const char *lay_out_products(const uc_cuda_engine *e, uc_cuda_kernel *k, int64_t fragments) {
  uc_cuda_phase *p = &k->phases;
  list_products(k, &p->main, fragments);
  p->main.rounds = 1;
  p->rest.rounds = 0;
  choose_rest(e, k);
  p->gaps = has_gaps(k, &p->main) || (p->rest.rounds > 0 && has_gaps(k, &p->rest));
  if (p->main.product_count > MOST_PRODUCTS) return "more taps than the kernel for phases unrolls";
  if (p->main.panels * 4 > MOST_SUMS)
    return "more phases than the kernel for phases holds in registers";
  return NULL;
}

/* ---- tiles ---- */

typedef struct tiling {
  int64_t held, groups, parts[UC_AXES], rounds, blocks, buffers, row_pitch;
  int axis;
  bool rest;           /* the last channels have a layout of their own */
  double clocks, cost; /* beside other tilings; beside other candidates, of the best */
} tiling;

typedef struct setting {
  const uc_cuda_engine *e;
  const uc_cuda_kernel *k;
  const int64_t *extent;
  int64_t panel_blocks, whole;    /* of channels, each has all panels once; that channels fill */
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

/* Products of a step of all rounds, and sums of a cell that a thread has of them. */
static int64_t all_products(const setting *s, const tiling *t) {
  const uc_cuda_phase *p = &s->k->phases;
  return t->rounds * t->held * p->main.product_count +
         (t->rest ? p->rest.rounds * p->rest.product_count : 0);
}

static int64_t all_panels(const setting *s, const tiling *t) {
  const uc_cuda_phase *p = &s->k->phases;
  return t->rounds * t->held * p->main.panels + (t->rest ? p->rest.rounds * p->rest.panels : 0);
}

static int64_t all_rounds(const setting *s, const tiling *t) {
  return t->rounds + (t->rest ? s->k->phases.rest.rounds : 0);
}

static int64_t weight_bytes(const setting *s, const tiling *t) {
  return s->k->phases.steps * all_products(s, t) * PANEL_BYTES;
}

/* Whether a pool wants sums that other warps have. */
static bool gathers(const setting *s, const uc_cuda_layout *l) {
  return s->k->pool >= 0 && l->slots > 1 && l->rounds > 0;
}

/* Of all warps, which give each other the sums of as many groups as a panel has places. */
static int64_t gathered_bytes(const setting *s, const uc_cuda_layout *l) {
  enum { WARP_SUMS = 32 * 4 * 4 };
  return gathers(s, l) ? MULTIPLIERS / 32 * l->slots * l->panels * WARP_SUMS : 0;
}

static int64_t stage_bytes(const setting *s, const tiling *t) {
  if (t->row_pitch > 0) return WARP_ROWS * t->row_pitch * s->y_size;
  const uc_cuda_phase *p = &s->k->phases;
  return uc_max(gathered_bytes(s, &p->main), t->rest ? gathered_bytes(s, &p->rest) : 0);
}

static int64_t shared_bytes(const setting *s, const tiling *t) {
  int64_t marks = s->k->phases.gaps ? x_bytes(s, t) / UNIT_BYTES / s->k->phases.quads : 0;
  return weight_bytes(s, t) + t->buffers * (x_bytes(s, t) + marks) + UC_CUDA_NOTES_BYTES +
         stage_bytes(s, t);
}

/* Rounds and blocks of channels, and buffers: the fewest blocks whose weights leave room for two tiles' input. */
static bool fit(const setting *s, tiling *t) {
  int64_t all = uc_ceil_div(t->rest ? s->whole : s->panel_blocks, t->held);
  int64_t most = s->e->target.shared_bytes, most_blocks = t->rest ? 1 : all;
  for (t->blocks = 1; t->blocks <= most_blocks; t->blocks++) {
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

/* How often the warps of a team give each other sums, for a part. */
static double meetings(const setting *s, const tiling *t) {
  const uc_cuda_phase *p = &s->k->phases;
  int64_t count = 0;
  if (gathers(s, &p->main)) count += t->rounds * t->held * uc_ceil_div(t->groups, p->main.slots);
  if (t->rest && gathers(s, &p->rest))
    count += p->rest.rounds * uc_ceil_div(t->groups, p->rest.slots);
  return (double)count;
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
  double parts = (double)(t->parts[0] * t->parts[1] * t->parts[2]);
  double products = parts * (double)(p->steps * all_products(s, t)) * product_clocks(t);
  double sums = parts * (double)(all_panels(s, t) * t->groups * 4);
  double outputs =
      sums * MULTIPLIERS / 2 / (s->k->pool >= 0 ? (double)uc_volume(s->k->residues) : 1);
  double units = (double)x_bytes(s, t) / UNIT_BYTES, words = pairs ? 8 : 4;
  double of_place = s->k->pool >= 0 ? (double)p->main.panels : (double)p->pairs;
  double finishing = sums * sum_clocks(s, t, r) +
                     (t->row_pitch > 0 ? parts * (double)all_panels(s, t) / of_place * r->rows : 0);
  double issue = finishing + units * words * (r->word[pairs] + (p->gaps ? r->look : 0));
  /* copying warps load 32 words a thread together; a team finishes while the other multiplies */
  double copying = ceil(units * words / (32.0 * COPIERS)) * r->latency[pairs];
  double alone = products / 2 + parts * (double)all_rounds(s, t) * r->part + finishing * 2 +
                 parts * meetings(s, t) * r->meeting / 2;
  const double part[] = {products, issue, copying, alone,
                         near_bytes(s, cells, r) * r->of_x / r->l2_bytes +
                             store_clocks(s, t, r, outputs * there)};
  double clocks = uc_cuda_together(part, 5, r->overlap);
  double weights = (double)weight_bytes(s, t);
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
  const uc_cuda_phase *p = &s->k->phases;
  if (gathers(s, &p->main) || (t->rest && gathers(s, &p->rest))) return false;
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
  int64_t sums = 4 * s->k->phases.main.panels * held, most = uc_min(MOST_GROUPS, MOST_SUMS / sums);
  if (s->k->pool >= 0) return most;
  int64_t registers = MOST_REGISTERS - (s->tail_loads > 0 ? READING_REGISTERS : 0);
  int64_t room = registers / (sums + GROUP_REGISTERS);
  return uc_min(most, held == 1 ? uc_max(1, room) : room);
}

static void try_groups(const setting *s, tiling *t, tiling *best) {
  int64_t most = most_groups(s, t->held);
  for (t->groups = 1; t->groups <= most; t->groups += t->groups < 8 ? 1 : 2)
    for (t->axis = 0; t->axis < UC_AXES; t->axis++) {
      int64_t cells = t->axis == 2 ? t->groups * GROUP : t->groups;
      bool last = t->axis == 2 || t->groups > 1; /* a group alone has no axis */
      if (!last || cells >= 2 * s->extent[t->axis] + GROUP) continue;
      t->row_pitch = 0;
      try_parts(s, t, best);
      if (!meets_in_rows(s, t)) continue;
      t->row_pitch = row_pitch(s, t);
      try_parts(s, t, best);
    }
}

static void choose_tiling(const setting *s, tiling *best) {
  tiling t = {.clocks = 0};
  for (t.held = 1; t.held <= s->panel_blocks; t.held *= 2) {
    t.rest = false;
    try_groups(s, &t, best);
    if (s->k->phases.rest.rounds == 0 || s->whole % t.held != 0) continue;
    t.rest = true;
    try_groups(s, &t, best);
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

/* The tiling with panels of so many blocks of channels. */
static const char *try_layout(setting *s, uc_cuda_kernel *k, int64_t fragments, tiling *best) {
  int64_t blocks = uc_ceil_div(s->e->group_out, BLOCK);
  const char *why = lay_out_products(s->e, k, fragments);
  if (why) return why;
  s->panel_blocks = uc_ceil_div(blocks, fragments);
  s->whole = blocks / fragments;
  best->clocks = 0;
  choose_tiling(s, best);
  return best->clocks > 0 ? NULL : "the weights of a block of channels do not fit shared memory";
}

/* Panels and their tiling. Where a pool has warps give each other sums, fewer products alone do not say what is faster. */
static const char *choose_layout(setting *s, uc_cuda_kernel *k, tiling *best) {
  int64_t fragments = fewest_products(s->e, k);
  double least = 0;
  for (int64_t f = UC_CUDA_PANEL_PAIRS; k->pool >= 0 && f >= 1; f /= 2) {
    if (try_layout(s, k, f, best) || (least > 0 && best->clocks >= least)) continue;
    least = best->clocks;
    fragments = f;
  }
  return try_layout(s, k, fragments, best);
}

/* Registers of a thread that copies, and of one that multiplies; the first load less where the second would lack some. */
static void share_registers(const uc_cuda_engine *e, uc_cuda_kernel *k, const tiling *t,
                            const setting *s) {
  int64_t sums = k->phases.main.panels * t->held * t->groups * 4;
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
  p->main.held = t->held;
  p->main.rounds = t->rounds;
  if (!t->rest) p->rest.rounds = 0;
  p->stage_bytes = stage_bytes(s, t);
  p->blocks = t->blocks;
  p->groups = t->groups;
  p->group_axis = t->axis;
  p->row_pitch = t->row_pitch;
  p->clocks = t->cost;
  part_of(t, p->part);
  cells_of(t, k->cells);
  for (int a = 0; a < UC_AXES; a++) k->x_size[a] = uc_cuda_input_size(k, a, k->cells[a]);
  lay_out_pairs(s, k);
  k->bm = (t->rounds * t->held * p->main.fragments + p->rest.rounds * p->rest.fragments) * BLOCK;
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
  p->pairs = uc_ceil_div(k->residues[2], 2);
  uc_cuda_sort_taps(k);
  if (!make_room_for_products(k)) return "no memory";
  setting s = {.e = e, .k = k, .extent = extent};
  bool last = k->pass->result == e->program.value_count - 1;
  s.y_size = (int64_t)upconv_dtype_size(last ? e->lowered->source.y_dtype : UPCONV_F32);
  s.width = width;
  s.of_cell = k->pool >= 0 ? 1 : k->residues[2];
  s.rolled = uc_cuda_long_tail(e, k);
  s.tail_instructions = uc_cuda_tail_instructions(e, k);
  s.tail_loads = uc_cuda_tail_loads(e, k);
  tiling best = {.clocks = 0};
  const char *why = choose_layout(&s, k, &best);
  if (why) return why;
  settle(e, k, &best, &s);
  return NULL;
}
