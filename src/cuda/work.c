/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a pass: counted in the kernels' source and machine code (sm_90a), to a few instructions. One function a
 * candidate counts products, loads and staging; what all have in common is counted once.
 */
#include "work.h"

#include <math.h>

#include "../checked.h"
#include "shape.h"

/* Instructions for an output, for a store, for an element of an extra tensor, and for a tile by itself of each warp. */
static const double OUTPUT = 3, STORE = 8, TENSOR_ELEMENT = 70, TILE = 100;
/* For comparing the coordinates of an output, where a tile reaches beyond what is stored. */
static const double COMPARED = 4;
/* For a word of x that is staged, and for finding the position of up to eight. */
static const double STAGED = 12, POSITION = 30;
/* Words that a thread loads before it waits; weights, and words of channels-last x, the same. */
enum { WORDS_AT_ONCE = 16, FEW_AT_ONCE = 4, POSITION_WORDS = 8, SECTOR = 32, LINE = 128 };
/* What a store of less than a sector takes of the second-level cache, which must put the sector together. */
static const double LONE_BYTES = 80;
/* What a warp's store for a part of a line takes of it besides sectors, in bytes: all of it for next to nothing of the line. */
static const double PART_BYTES = 76;
/* Clocks of shared memory of an asynchronous copy by a warp, besides what it stores. */
static const double COPY = 7;
/* The part of a wait that other work hides: of an input that is fetched ahead, and of one of two reads under way. */
static const double HALF = 0.5;

typedef struct counting {
  const uc_cuda_engine *e;
  const uc_cuda_kernel *k;
  const int64_t *target; /* shape of the value whose tiles are walked */
  double residues, outputs_of_cell;
  double ragged;         /* share of the tiles whose outputs are compared and stored one by one */
  double input;          /* positions of a tile's input */
  double x_size, y_size; /* bytes of an element */
  uc_cuda_work *w;
} counting;

static double volume(const int64_t v[UC_AXES]) {
  return (double)v[0] * (double)v[1] * (double)v[2];
}

static double elements(const int64_t shape[UC_RANK]) {
  double count = 1;
  for (int a = 0; a < UC_RANK; a++) count *= fmax(0, (double)shape[a]);
  return count;
}

static double threads_of(const uc_cuda_kernel *k) { return (double)k->threads; }

/* ---- operators ---- */

/* Instructions of a division, of a sigmoid (one exponential, one division), of a hardswish (zeros are divided by the slow path,
   and some lane has one), and of what branches. */
enum { DIVISION = 12, SIGMOID = 28, SLOW_DIVISION = 35, BRANCHES = 45 };

/* Executed, also where the lanes of a warp differ. */
static double op_instructions(upconv_op_kind kind) {
  switch (kind) {
  case UPCONV_OP_DIV:
  case UPCONV_OP_SOFTSIGN:
  case UPCONV_OP_SQRT:
  case UPCONV_OP_EXP:
    return DIVISION;
  case UPCONV_OP_GELU_TANH:
  case UPCONV_OP_SILU:
  case UPCONV_OP_SIGMOID:
    return SIGMOID;
  case UPCONV_OP_HARDSWISH:
    return SLOW_DIVISION;
  case UPCONV_OP_ELU:
  case UPCONV_OP_SELU:
  case UPCONV_OP_CELU:
  case UPCONV_OP_SOFTPLUS:
  case UPCONV_OP_GELU:
  case UPCONV_OP_MISH:
  case UPCONV_OP_TANH:
    return BRANCHES;
  default:
    return 2;
  }
}

double uc_cuda_tail_instructions(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  double sum = 0;
  for (int i = 0; i < k->pass->step_count; i++)
    if (k->pass->step[i].kind == UC_STEP_OP)
      sum += op_instructions(e->lowered->tail->op[k->pass->step[i].op].kind);
  return sum;
}

bool uc_cuda_long_tail(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  enum { LONG = 24 };
  return uc_cuda_tail_instructions(e, k) > LONG;
}

int uc_cuda_tail_loads(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int loads = 0;
  for (int i = 0; i < k->pass->step_count; i++) {
    if (k->pass->step[i].kind != UC_STEP_OP) continue;
    const upconv_op *op = &e->lowered->tail->op[k->pass->step[i].op];
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) loads += uc_cuda_in_memory(e, &op->operand[j]);
  }
  return loads;
}

static int tensor_operands(const upconv_op *op) {
  int count = 0;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    count += op->operand[i].kind == UPCONV_OPERAND_TENSOR;
  return count;
}

/* Instructions of the operators for an output; *tensors: elements of extra tensors that it reads. */
static double tail_instructions(const counting *c, double *tensors) {
  const uc_pass *pass = c->k->pass;
  double sum = 0;
  *tensors = 0;
  for (int i = 0; i < pass->step_count; i++) {
    if (pass->step[i].kind != UC_STEP_OP) continue;
    const upconv_op *op = &c->e->lowered->tail->op[pass->step[i].op];
    double times = i <= c->k->pool ? c->residues : 1;
    *tensors += times * tensor_operands(op);
    sum += times * op_instructions(op->kind);
  }
  return sum + TENSOR_ELEMENT * *tensors;
}

/* Those of operators that branch: outputs are not finished side by side then, but one after the other. */
static double serial_instructions(const counting *c) {
  const uc_pass *pass = c->k->pass;
  double sum = 0;
  for (int i = 0; i < pass->step_count; i++) {
    if (pass->step[i].kind != UC_STEP_OP) continue;
    double each = op_instructions(c->e->lowered->tail->op[pass->step[i].op].kind);
    if (each >= SLOW_DIVISION) sum += (i <= c->k->pool ? c->residues : 1) * each;
  }
  return sum;
}

/* ---- what all have in common ---- */

int64_t uc_cuda_most_threads(const uc_cuda_target *t) {
  if (t->major == 7) return 1024;
  return t->major == 12 || (t->major == 8 && t->minor > 0) ? 1536 : 2048;
}

/* Blocks that a multiprocessor holds at once: cuda-gemm's registers are not rationed. */
static double blocks_at_once(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  enum { MOST_BLOCKS = 32, REGISTERS = 65536, OTHER_REGISTERS = 64, MOST_REGISTERS = 255 };
  int64_t threads = k->threads * k->teams;
  int64_t shared = 4 * k->shared_floats + UC_CUDA_SHARED_OF_BLOCK;
  int64_t blocks = uc_min(MOST_BLOCKS, uc_cuda_most_threads(&e->target) / threads);
  blocks = uc_min(blocks, (e->target.shared_bytes + UC_CUDA_SHARED_OF_BLOCK) / shared);
  if (k->gemm) {
    int64_t registers = uc_min(MOST_REGISTERS, k->held * k->mt * k->nt * 4 + OTHER_REGISTERS);
    blocks = uc_min(blocks, REGISTERS / (threads * registers));
  } else if (k->min_blocks > 0) {
    blocks = uc_min(blocks, k->min_blocks);
  }
  return (double)uc_max(1, blocks);
}

static double channel_blocks(const counting *c) {
  const uc_cuda_kernel *k = c->k;
  if (k->pass->all_channels) return 1;
  if (!k->pass->conv || k->depthwise) return (double)uc_ceil_div(c->target[1], k->bm);
  return (double)uc_ceil_div(c->e->group_out, k->bm) * (double)c->e->lowered->conv.groups;
}

static void count_tiles(counting *c) {
  const uc_cuda_kernel *k = c->k;
  double tiles = channel_blocks(c) * (double)(k->gemm ? k->residue_groups : 1) *
                 (double)uc_ceil_div(uc_max(1, c->target[0]), k->samples);
  for (int a = 0; a < UC_AXES; a++)
    tiles *= (double)uc_ceil_div(uc_max(1, c->target[a + 2]) + uc_cuda_before_first(k, a),
                                 uc_max(1, k->tile[a]));
  c->w->tiles = tiles;
  c->w->teams = blocks_at_once(c->e, k) * (double)k->teams;
  c->w->warps = (double)uc_ceil_div(k->threads, 32);
  c->w->instructions = 32 * TILE * c->w->warps;
  c->w->first_waits = k->resident;
}

static double x_elements(const counting *c) {
  const upconv_problem *p = &c->e->lowered->conv;
  double count = (double)uc_max(1, p->batch) * (double)p->in_channels;
  for (int a = 0; a < UC_AXES; a++) count *= (double)p->axis[a].in_size;
  return count;
}

static bool x_last(const uc_cuda_engine *e) {
  return e->lowered->conv.x_layout == UPCONV_CHANNELS_LAST;
}

/* Whether the pass stores y, channels-last. */
static bool y_last(const counting *c) {
  return c->k->pass->result == c->e->program.value_count - 1 &&
         c->e->lowered->source.y_layout == UPCONV_CHANNELS_LAST;
}

/* Of tensors that lie in memory. Rows are still in the second-level cache. */
static void count_far_bytes(counting *c, const int64_t result[UC_RANK]) {
  double y = elements(result) * c->y_size, tensors;
  tail_instructions(c, &tensors);
  double x = c->k->pass->conv && c->w->rows_bytes == 0 ? x_elements(c) * c->x_size : 0;
  c->w->far_bytes = x + y * (1 + (tensors > 0)) + 4 * (double)c->e->weight_floats;
}

/* Outputs along W that one store takes: up to 16 bytes where rows of y begin at multiples of them. `side`: that a thread has
   side by side. */
static double outputs_of_store(const counting *c, int64_t side) {
  int64_t width = uc_max(1, c->target[4]), run = 1;
  if (y_last(c)) return 1;
  while ((double)(2 * run) * c->y_size <= 16 && side % (2 * run) == 0 && width % (2 * run) == 0)
    run *= 2;
  return (double)run;
}

/* By how much more a tile's rows take than their bytes, in whole sectors; channels: neighbours that one store of a warp takes
   where y is channels-last. */
static double sectors(const counting *c, double channels) {
  if (y_last(c)) return fmax(1, LONE_BYTES / (channels * c->y_size));
  int64_t width = uc_max(1, c->target[4]);
  double row = (double)uc_min(c->k->tile[2], width) * c->y_size;
  bool aligned = fmod((double)width * c->y_size, SECTOR) == 0;
  return aligned ? 1 : 1 + (SECTOR - 4) / row;
}

/* Share of the tiles that reach beyond what is stored. */
static double ragged_share(const counting *c) {
  double whole = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t before = uc_cuda_before_first(c->k, a), tile = uc_max(1, c->k->tile[a]);
    int64_t end = uc_max(1, c->target[a + 2]) + before;
    whole *= (double)uc_max(0, end / tile - (before > 0)) / (double)uc_ceil_div(end, tile);
  }
  return 1 - whole;
}

/* By how much more of the second-level cache a warp's stores take than their bytes: `lanes` neighbours along W have `side` outputs
   each, and store `together` of them at once. A store that takes every second output, say, touches all sectors and fills none. */
static double spread_of_stores(const counting *c, int64_t lanes, int64_t side, double together) {
  int64_t width = uc_max(1, c->target[4]), size = (int64_t)c->y_size, aligned = LINE;
  int64_t bytes = uc_min(lanes * side, width) * size;
  double sum = 0, places = 0;
  while (width * size % aligned != 0 || bytes % aligned != 0) aligned /= 2;
  for (int64_t at = 0; at < LINE; at += aligned, places++) {
    double touched = (double)uc_ceil_div(at + bytes, SECTOR) - floor((double)at / SECTOR);
    double parts = fmin(touched, together < (double)side ? (double)lanes : touched);
    double lines = fmin((double)uc_ceil_div(at + bytes, LINE), (double)lanes);
    sum += SECTOR * parts + PART_BYTES * fmax(0, lines - parts * SECTOR / LINE);
  }
  return (double)side / together * sum / places / (double)bytes;
}

/* Of whole tiles, and of ragged ones, whose outputs are stored one by one. */
static double spread_of_tiles(const counting *c, int64_t lanes, int64_t side) {
  if (y_last(c)) return sectors(c, 1);
  double whole = spread_of_stores(c, lanes, side, outputs_of_store(c, side));
  return whole + c->ragged * (spread_of_stores(c, lanes, side, 1) - whole);
}

/* Instructions of an output: bias, and its part of a store. */
static double output_instructions(const counting *c, int64_t side) {
  double whole = OUTPUT + STORE / outputs_of_store(c, side);
  return whole + c->ragged * (OUTPUT + STORE + COMPARED - whole);
}

/* outputs: of a tile; of_thread: those whose code a thread goes through once; calls: in which it finishes them. */
static void count_outputs(counting *c, double outputs, double of_thread, double calls, int64_t side,
                          double spread) {
  double tensors, tail = tail_instructions(c, &tensors);
  double each = output_instructions(c, side);
  c->w->finishing += outputs * each;
  c->w->instructions += outputs * tail;
  c->w->serial += outputs * serial_instructions(c);
  c->w->finishing_code += of_thread * each;
  c->w->code += of_thread * tail;
  c->w->waits += tensors > 0 ? calls * HALF : 0;
  c->w->near_bytes += outputs * c->y_size * spread * (1 + (tensors > 0));
}

/* Words of x that are staged, each made of `loads` elements; found: of what finding a position takes. */
static void count_staging(counting *c, double words, double loads, double found) {
  double together = x_last(c->e) ? 1 : fmin(POSITION_WORDS, (double)c->e->group_in);
  c->w->instructions += words * loads * (STAGED + found * POSITION / together);
  c->w->near_bytes += words * loads * c->x_size;
  c->w->shared += words / 32;
}

/* Times that a thread waits while a chunk is staged. */
static double staging_waits(const counting *c, int64_t words) {
  if (x_last(c->e)) return ceil(c->input * (double)words / (FEW_AT_ONCE * threads_of(c->k)));
  int64_t batch = uc_min(POSITION_WORDS, uc_max(1, words));
  double each = ceil(c->input * (double)uc_ceil_div(words, batch) / threads_of(c->k));
  return ceil(each / (double)(WORDS_AT_ONCE / batch));
}

/* Clocks of a fragment's product, 16 x 8 x 32 bytes, were there nothing else. */
static double fragment_clocks(const uc_cuda_target *t, bool wgmma) {
  if (wgmma) return 1;
  return t->major == 12 || (t->major == 8 && t->minor > 0) ? 4 : 1.75;
}

/* Slots that an FFMA takes: some architectures have 64 lanes. */
static double ffma_slots(const uc_cuda_target *t) {
  return t->major == 7 || (t->major == 8 && t->minor == 0) ? 2 : 1;
}

/* ---- cuda-ffma ---- */

/* Words of x that a thread loads of one channel, if its taps are unrolled: the inputs of all its cells and taps. */
static double distinct_inputs(const uc_cuda_kernel *k) {
  double inputs = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t more = a == k->thread_axis ? (k->thread_cells - 1) * k->step[a] : 0;
    inputs *= (double)(k->span[a] + 1 + more);
  }
  return fmin(inputs, (double)(k->tap_count * k->thread_cells));
}

/* The convolution of one tile for one block of channels. */
static void count_products(counting *c) {
  const uc_cuda_kernel *k = c->k;
  uc_cuda_work *w = c->w;
  double depth = (double)c->e->group_in, taps = (double)k->tap_count,
         cells = (double)k->thread_cells;
  double rounds = (double)k->residue_groups, threads = threads_of(k), weights = (double)k->mc;
  double loads = k->shared_weights ? ceil(weights / 4) : weights;
  double inputs = k->static_taps ? distinct_inputs(k) : taps * cells;
  double of_tap = cells * weights * ffma_slots(&c->e->target) + loads + (k->static_taps ? 0 : 3);
  w->instructions += depth * threads * (taps * of_tap + inputs);
  w->shared += depth * threads * (taps * loads + inputs) / 32;
  w->code +=
      k->static_taps ? taps * (cells * weights + loads) + inputs : cells * weights * (double)k->rt;
  double chunks = (double)uc_ceil_div(c->e->group_in, k->chunk);
  w->waits += rounds * chunks * staging_waits(c, k->chunk);
  count_staging(c, rounds * c->input * depth, 1, k->positions_at ? HALF : 1);
  /* found before the first tile, one after the other */
  if (k->positions_at) w->code += POSITION * ceil(c->input / threads);
  double kernel = (double)c->e->kernel_size * (double)k->bm, floats = depth * kernel;
  if (k->resident) {
    w->first_bytes += 4 * floats;
  } else if (k->shared_weights) {
    w->waits += rounds * chunks * ceil((double)k->chunk * kernel / (FEW_AT_ONCE * threads));
    w->near_bytes += 4 * rounds * floats;
    w->instructions += 2 * rounds * floats;
  } else {
    w->near_bytes += 4 * taps * depth * (double)k->bm;
  }
}

static void count_ffma(counting *c) {
  const uc_cuda_kernel *k = c->k;
  if (k->direct) {
    c->w->clocks = k->direct_clocks; /* counted where its cells are chosen */
    return;
  }
  count_products(c);
  double outputs = volume(k->cells) * (double)k->bm * c->outputs_of_cell;
  double of_thread = (double)(k->thread_cells * k->mc * k->rt) * c->outputs_of_cell / c->residues;
  int64_t side = k->pool >= 0 ? 1 : k->residues[2];
  c->ragged = ragged_share(c);
  count_outputs(c, outputs, of_thread, (double)(k->mc * k->residue_groups), side,
                spread_of_tiles(c, uc_min(32, k->lanes[2]), side));
}

/* ---- cuda-mma ---- */

/* Rows of taps, which are sorted; without windows, their offsets. */
static double tap_rows(const uc_cuda_kernel *k) {
  int64_t rows = 0;
  for (int64_t t = 0; t < k->tap_count; t++) {
    const int32_t *d = k->tap[t].delta, *before = t > 0 ? k->tap[t - 1].delta : d;
    rows +=
        t == 0 || d[0] != before[0] || d[1] != before[1] || (k->vector == 1 && d[2] != before[2]);
  }
  return (double)rows;
}

static void stage_mma(counting *c, double depth) {
  const uc_cuda_kernel *k = c->k;
  double loads = c->e->word == UPCONV_F32 ? 1 : 2;
  if (!k->prefetch) {
    count_staging(c, c->input * depth, loads, 1);
    double chunks = ceil(depth / (double)k->chunk);
    c->w->waits += chunks * (staging_waits(c, k->chunk) + (k->resident ? 0 : 1));
    return;
  }
  /* copied as it is, some at once, then read again and put in order */
  double together = (double)uc_max(1, k->x_vector), words = c->input * depth;
  c->w->instructions += words * (4 + 4 / together) + c->input / together * POSITION;
  c->w->near_bytes += words * c->x_size;
  c->w->shared += (3 + COPY / together) * words / 32;
  c->w->waits += HALF;
}

static void count_mma(counting *c) {
  const uc_cuda_kernel *k = c->k;
  const uc_cuda_engine *e = c->e;
  uc_cuda_work *w = c->w;
  double taps = (double)k->tap_count, mt = (double)k->mt, nt = (double)k->nt;
  double lane_words = (double)e->step_words / 4, strips = 2 * mt / (double)k->strip;
  double windows = tap_rows(k) * strips;
  double loads =
      windows * (double)uc_ceil_div(k->window, uc_max(1, k->vector)) * (k->pairs ? 1 : lane_words);
  double weights = k->wgmma ? 0 : taps * nt;
  double products = k->wgmma ? taps / (double)k->product_taps : taps * mt * nt;
  double steps = w->warps * (double)k->rounds * (double)e->ci_steps; /* of all warps */
  w->instructions += 32 * steps * (loads + weights + products);
  w->tensor += steps * taps * mt * nt * lane_words / 2 * fragment_clocks(&e->target, k->wgmma);
  w->shared +=
      steps * lane_words * (windows * (double)k->window + taps * nt * (k->wgmma ? 0.25 : 1));
  w->code += loads + weights + products;
  double depth = (double)(e->ci_steps * e->step_words);
  double bytes = 4 * depth * (double)(k->wgmma ? k->tap_count : e->kernel_size) * (double)k->bm;
  stage_mma(c, depth);
  if (k->resident) {
    w->first_bytes += bytes;
  } else {
    w->near_bytes += bytes;
    w->instructions += bytes / 2;
  }
  double outputs = volume(k->cells) * c->outputs_of_cell * (double)k->bm;
  int64_t side = k->strip * (k->pool >= 0 ? 1 : k->residues[2]);
  /* eight lanes of a warp have cells of one channel, strip by strip */
  int64_t lanes = uc_max(1, uc_min(8, k->cells[2] / k->strip));
  double of_thread = 4 * mt * nt * c->outputs_of_cell;
  if (uc_cuda_long_tail(e, k)) {
    /* its code exists once, and sums move from strip to strip and from channel to channel */
    of_thread = (double)k->strip * c->outputs_of_cell;
    w->instructions += volume(k->cells) * c->residues * (double)k->bm * (strips - 1 + 2 * nt - 1);
  }
  count_outputs(c, outputs, of_thread, 2 * nt * (double)k->rounds, side,
                y_last(c) ? sectors(c, 4) : spread_of_tiles(c, lanes, side));
}

/* ---- cuda-gemm ---- */

/* Neighbours along W that are finished together; *spread: of the stores, by eight lanes for a channel. */
static int64_t gemm_run(const counting *c, double *spread) {
  const uc_cuda_kernel *k = c->k;
  int64_t side = k->pool >= 0 ? 1 : k->residues[2];
  int64_t run = k->wide || k->pool >= 0 ? side : uc_min(k->held, side);
  *spread = y_last(c) ? sectors(c, (double)k->bm)
                      : spread_of_stores(c, uc_min(8, k->cells[2]), side, outputs_of_store(c, run));
  return run;
}

static void count_gemm(counting *c) {
  enum { ROW_BYTES = 128, BLOCK_BYTES = 256 };
  const uc_cuda_kernel *k = c->k;
  const upconv_problem *p = &c->e->lowered->conv;
  uc_cuda_work *w = c->w;
  double team = k->wgmma ? 4 : 1, teams = (double)(k->warps_m * k->teams_n), warps = team * teams;
  double mt = (double)k->mt, nt = (double)k->nt, sums = (double)(k->held * k->mt * k->nt * 4);
  double depth = (double)(k->chunk / 8); /* of a stage, in steps */
  w->stages = (double)k->shifts / (double)k->residue_groups * (double)k->chunks;
  double steps = w->stages * depth;
  w->warps = warps;
  w->tensor = steps * warps * mt * nt * fragment_clocks(&c->e->target, k->wgmma);
  /* wgmma reads weights once for each of its 64 rows */
  w->shared = steps * (4 * warps * mt + 2 * teams * nt * (k->wgmma ? mt : 1));
  double rows = (double)k->chunks * (double)k->samples * c->input;
  w->near_bytes = steps * (double)(k->teams_n * k->nt) * BLOCK_BYTES + rows * ROW_BYTES;
  w->code = 8 * depth * mt;
  w->waits = 1;
  w->calls = 4 * mt * nt / (double)(k->wide ? k->rt : 1);
  double spread, outputs = 32 * warps * sums / (k->pool >= 0 ? c->residues : 1);
  int64_t side = gemm_run(c, &spread);
  /* as when the costs were fitted, when two calls were unrolled; sums are put aside by what is */
  double unrolled = 2 * c->outputs_of_cell / (double)k->residue_groups + sums / 12;
  count_outputs(c, outputs, unrolled, w->calls, side, spread);
  if (x_last(c->e) && c->e->word != UPCONV_F32) return;
  double elements_of_x = x_elements(c), positions = elements_of_x / (double)p->in_channels;
  double chunks = (double)p->groups * (double)k->chunks;
  w->rows_bytes = elements_of_x * c->x_size + positions * chunks * ROW_BYTES;
}

/* ---- cuda-phase ---- */

/* Counted where its tiles are chosen. */
static void count_phase(counting *c) { c->w->clocks = c->k->phases.clocks; }

/* ---- cuda-panel ---- */

/* Counted where its tiles are chosen, but for the kernel before it. */
static void count_panel(counting *c) {
  enum { UNIT_BYTES = 16 };
  const uc_cuda_kernel *k = c->k;
  c->w->clocks = k->panels.clocks;
  double x = x_elements(c), positions = x / (double)c->e->lowered->conv.in_channels;
  double units = (double)(k->chunks * k->panels.quads * c->e->lowered->conv.groups);
  c->w->rows_bytes = x * c->x_size + positions * units * UNIT_BYTES;
}

/* ---- cuda-depthwise ---- */

static void count_depthwise(counting *c) {
  const uc_cuda_kernel *k = c->k;
  uc_cuda_work *w = c->w;
  double cells = volume(k->cells) * (double)k->bm, taps = (double)k->tap_count, inputs = 1;
  for (int a = 0; a < UC_AXES; a++) inputs *= (double)(k->span[a] + 1);
  inputs = fmin(inputs, taps);
  double kernel = (double)c->e->kernel_size;
  double each = taps * ffma_slots(&c->e->target) + ceil(kernel / 4) +
                inputs / (double)(k->channels_fast ? 1 : k->x_vector);
  double words = c->input * (double)k->x_channels;
  w->instructions += cells * each + 8 * words + 2 * kernel * (double)k->bm;
  w->shared += (cells * (inputs + kernel) + words) / 32;
  w->near_bytes += words * c->x_size + 4 * kernel * (double)k->bm;
  w->code += each;
  w->waits += HALF + ceil(words / (WORDS_AT_ONCE * threads_of(k)));
  int64_t side = k->channels_fast || k->pool >= 0 ? 1 : k->residues[2];
  c->ragged = ragged_share(c);
  double spread = k->channels_fast ? sectors(c, (double)k->bm)
                                   : spread_of_tiles(c, uc_min(32, k->cells[2]), side);
  count_outputs(c, cells * c->outputs_of_cell, c->outputs_of_cell, cells / threads_of(k), side,
                spread);
}

/* ---- cuda-flat ---- */

static void count_flat(counting *c) {
  const uc_cuda_kernel *k = c->k;
  const uc_cuda_flat *f = &k->flattened;
  uc_cuda_work *w = c->w;
  double threads = threads_of(k), mt = (double)k->mt, nt = (double)k->nt,
         groups = (double)k->residue_groups;
  double cells = volume(k->cells), parts = (double)c->e->parts, depth = (double)c->e->group_in;
  if (f->strips) cells *= ceil((double)k->cells[2] / 4) * 4 / (double)k->cells[2];
  double rounds = ceil(cells / (16 * mt * w->warps)), fragments = rounds * w->warps * mt;
  double products = (double)f->step_count * nt * parts;
  double results = 4 * nt * c->residues; /* of a lane and fragment */
  double words = c->input * depth;
  w->instructions += 32 * fragments * (f->reads + products + 16 * groups);
  /* four at once: loads, conversions, stores */
  w->instructions += f->vx > 1 ? 2 * words + 3.5 * c->input : 5 * words + 14 * c->input;
  w->finishing += 32 * fragments * (parts > 1 ? 4 : 2.5) * results;
  w->tensor += fragments * products * fragment_clocks(&c->e->target, false);
  w->near_bytes += words * c->x_size;
  /* word by word: where one lies is read from a table, and then it */
  w->first_bytes += 4 * (double)f->weight_words;
  w->first_waits += (double)f->weight_words / threads;
  w->waits += f->prefetch ? HALF : 1;
  /* tables, places and weights of a block */
  w->code += 300 + 15 * ceil(c->input / threads) + 20 * ceil(cells / threads) + 4 * products;
  w->code += (f->reads + products) * mt;
  /* those of cells that fill up the last fragment too */
  double outputs = 32 * fragments * 4 * nt * c->outputs_of_cell, tensors;
  double tail = tail_instructions(c, &tensors), of_thread = mt * nt * 4 * c->outputs_of_cell;
  w->instructions += y_last(c) ? POSITION * outputs : 32 * f->store_slots;
  w->shared += fragments * 2 * (double)f->quad_count + outputs * c->y_size / 64 + words / 32;
  w->instructions += outputs * tail;
  w->serial += outputs * serial_instructions(c);
  w->finishing_code += of_thread * 2.5;
  w->code += of_thread * tail;
  w->near_bytes += outputs * c->y_size * (1 + (tensors > 0));
  w->waits += tensors > 0 ? HALF * mt * nt * 4 * groups * rounds : 0;
}

/* ---- cuda-scatter ---- */

/* Instructions of a step besides loads of weights and products: x, and its conversion. */
static double scatter_step(const counting *c) {
  bool pairs = c->e->word != UPCONV_F32;
  return c->k->scattered.wide ? (pairs ? 27 : 21) : (pairs ? 110 : 43);
}

static void count_scatter(counting *c) {
  enum { PLANE_BY_ITSELF = 200, FRAGMENT_STORED = 30, CELL = 40, CODE = 1000 };
  const uc_cuda_kernel *k = c->k;
  const uc_cuda_scatter *s = &k->scattered;
  uc_cuda_work *w = c->w;
  double stored = (double)(s->items * k->mt), terms = (double)s->terms;
  double jobs = s->planes * (double)s->items, cells = volume(k->cells) * (double)k->bm;
  double steps = jobs * (double)c->e->ci_steps, products = steps * (double)(k->mt * s->open);
  w->instructions += 32 * (5 * products + steps * scatter_step(c) + PLANE_BY_ITSELF * jobs);
  w->instructions += 32 * FRAGMENT_STORED * stored + cells * (2 * terms + CELL);
  w->tensor += 4 * products * fragment_clocks(&c->e->target, false);
  /* weights, four words of each lane, and sums that are stored and read again */
  w->shared += (k->shared_weights ? 4 * products : 0) + 16 * stored + cells * terms / 32;
  double words = 32 * jobs / (double)s->parts * (double)c->e->group_in;
  w->near_bytes += words * c->x_size + (k->shared_weights ? 0 : 512 * products);
  w->first_bytes += 4 * (double)c->e->weight_floats;
  w->waits += HALF * s->planes;
  w->code += CODE;
  int64_t side = k->pool >= 0 ? 1 : k->residues[2];
  count_outputs(c, cells * c->outputs_of_cell, c->outputs_of_cell, ceil(cells / threads_of(k)),
                side, spread_of_tiles(c, uc_min(32, k->cells[2]), side));
}

/* ---- passes with tile buffers ---- */

/* Of an element of a value, besides its operator: its place, its operands' places, loads and stores. */
static const double BUFFERED = 30;

static double channels_of(const uc_cuda_kernel *k, const uc_step *step) {
  return (double)(k->pass->all_channels ? step->channels : uc_min(step->channels, k->bm));
}

/* A block convolves part after part of its tile, for one block of channels after another. */
static void count_parts(counting *c) {
  const uc_cuda_kernel *k = c->k;
  uc_cuda_work *w = c->w;
  count_products(c);
  double blocks = (double)uc_ceil_div(c->e->group_out, k->bm) * (double)c->e->lowered->conv.groups;
  double parts = volume(k->cell_parts) * (k->pass->all_channels ? blocks : 1);
  w->instructions *= parts;
  w->shared *= parts;
  w->near_bytes *= parts;
  w->waits *= parts;
}

static void count_tiled(counting *c) {
  const uc_cuda_kernel *k = c->k;
  uc_cuda_work *w = c->w;
  if (k->pass->conv) count_parts(c);
  for (int i = 0; i < k->pass->step_count; i++) {
    const uc_step *step = &k->pass->step[i];
    double each = BUFFERED;
    if (step->kind == UC_STEP_OP) each += op_instructions(c->e->lowered->tail->op[step->op].kind);
    w->instructions += volume(k->box[i].size) * channels_of(k, step) * each;
  }
  w->near_bytes += volume(k->tile) * channels_of(k, &k->pass->step[k->pass->target]) * c->y_size;
  w->waits += (double)k->pass->step_count;
}

/* ---- a pass ---- */

static void count_pass(counting *c) {
  const uc_cuda_kernel *k = c->k;
  if (!k->fused)
    count_tiled(c);
  else if (k->gemm)
    count_gemm(c);
  else if (k->phase)
    count_phase(c);
  else if (k->panel)
    count_panel(c);
  else if (k->mma)
    count_mma(c);
  else if (k->depthwise)
    count_depthwise(c);
  else if (k->flat)
    count_flat(c);
  else if (k->scatter)
    count_scatter(c);
  else
    count_ffma(c);
}

void uc_cuda_count_work(const uc_cuda_engine *e, const uc_cuda_kernel *k,
                        const int64_t (*shape)[UC_RANK], uc_cuda_work *w) {
  const uc_pass *pass = k->pass;
  int reduced = pass->reduce_op;
  int target = reduced >= 0 ? e->lowered->tail->op[reduced].operand[0].index : pass->result;
  bool is_y = pass->result == e->program.value_count - 1;
  *w = (uc_cuda_work){.tiles = 0};
  counting c = {.e = e, .k = k, .target = shape[target], .w = w};
  c.residues = volume(k->residues);
  c.outputs_of_cell = k->pool >= 0 ? 1 : c.residues;
  c.input = volume(k->x_size);
  c.x_size = (double)upconv_dtype_size(e->lowered->conv.x_dtype);
  c.y_size = (double)upconv_dtype_size(is_y ? e->lowered->source.y_dtype : UPCONV_F32);
  count_tiles(&c);
  count_pass(&c);
  count_far_bytes(&c, shape[pass->result]);
}
