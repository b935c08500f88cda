/* SPDX-License-Identifier: Apache-2.0 */
/* Weight blocks and the packed buffer. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "engine.h"
#include "residue.h"

static const uint64_t PACKED_MAGIC = 0x75636b6370310002u;

enum { HEADER_FLOATS = sizeof(uc_packed_header) / sizeof(float) };

/* ---- plan time ---- */

static upconv_status make_table(const uc_axis *axis, uc_axis_table *table) {
  table->stride = axis->stride;
  table->phase = calloc((size_t)axis->stride, sizeof *table->phase);
  table->before = calloc((size_t)axis->stride + 1, sizeof *table->before);
  if (!table->phase || !table->before)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a table of phases");
  for (int64_t phi = 0; phi < axis->stride; phi++) {
    table->phase[phi] = uc_axis_phase(axis, phi);
    table->before[phi + 1] = table->before[phi] + table->phase[phi].count;
  }
  return UPCONV_OK;
}

static int64_t most_taps(const uc_axis_table *table) {
  int64_t most = 0;
  for (int64_t phi = 0; phi < table->stride; phi++) most = uc_max(most, table->phase[phi].count);
  return most;
}

/* Channels of a group in blocks of nearly equal size. */
static upconv_status make_blocks(uc_engine *e, int64_t groups) {
  int64_t per_group = uc_ceil_div(e->group_out, UC_MAX_MC);
  e->block_count = groups * per_group;
  e->block = calloc((size_t)e->block_count, sizeof *e->block);
  if (!e->block) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a table of channels");
  for (int64_t i = 0; i < e->block_count; i++) {
    int64_t g = i / per_group, b = i % per_group;
    int64_t first = b * e->group_out / per_group, end = (b + 1) * e->group_out / per_group;
    e->block[i] = (uc_block){g, g * e->group_out + first, (int)(end - first)};
  }
  return UPCONV_OK;
}

static int64_t padded(int64_t floats) { return (floats + UC_PAD - 1) / UC_PAD * UC_PAD; }

static upconv_status place_params(uc_engine *e, int64_t at) {
  int count = e->lowered->tail->param_count;
  e->param_at = calloc((size_t)count + 1, sizeof *e->param_at);
  e->param_size = calloc((size_t)count + 1, sizeof *e->param_size);
  if (!e->param_at || !e->param_size)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a table of parameters");
  for (int i = 0; i < count; i++) {
    e->param_at[i] = at;
    e->param_size[i] = uc_lowered_param_size(e->lowered, i);
    at += e->param_size[i];
  }
  e->packed_floats = padded(at);
  return UPCONV_OK;
}

upconv_status uc_engine_plan_weights(uc_engine *e) {
  const upconv_problem *p = &e->lowered->conv;
  e->kernel_size = uc_problem_kernel_size(p);
  e->group_in = p->in_channels / p->groups;
  e->group_out = p->out_channels / p->groups;
  /* chunks of nearly equal size: a short last one would pay for its tile without using it */
  int64_t most = e->group_out <= UC_MAX_MC ? UC_FLAT_CHUNK : UC_CHUNK;
  if (e->products) most = UC_PRODUCT_CHUNK;
  e->tap_group = uc_max(1, UC_MAX_MC / uc_max(1, e->group_out));
  int64_t chunks = uc_max(1, uc_ceil_div(e->group_in, most));
  e->chunk = uc_max(1, uc_ceil_div(e->group_in, chunks));
  upconv_status status = UPCONV_OK;
  e->max_taps = 1;
  for (int a = 0; status == UPCONV_OK && a < UC_AXES; a++) {
    status = make_table(&p->axis[a], &e->table[a]);
    if (status == UPCONV_OK) e->max_taps *= most_taps(&e->table[a]);
  }
  if (status == UPCONV_OK) status = make_blocks(e, p->groups);
  e->weight_at = HEADER_FLOATS;
  e->bias_at = padded(e->weight_at + p->in_channels * e->group_out * e->kernel_size);
  return status == UPCONV_OK ? place_params(e, padded(e->bias_at + p->out_channels)) : status;
}

/* ---- pack time ---- */

/* A chunk [e0, e1) of a group's input channels; of these, the weights of [c0, c1) are at hand. */
typedef struct packer {
  const uc_engine *engine;
  int64_t e0, e1, c0, c1;
  double *weight;
  float *packed;
  bool finite;
} packer;

/* mc weights of a block, of input channel c of the group and of kernel element k, which is a flat index. Channel by channel
   and block by block, weights are read in the order in which they lie; what is written is a few streams. */
static void pack_weights(packer *pk, const uc_block *b, int64_t c, int64_t k, float *to) {
  const uc_engine *e = pk->engine;
  int64_t out = b->channel - b->group * e->group_out;
  const double *from = pk->weight + ((c - pk->c0) * e->group_out + out) * e->kernel_size + k;
  float zeros = 0; /* NaN once a weight is not finite */
  for (int m = 0; m < b->mc; m++) {
    to[m] = (float)from[m * e->kernel_size];
    zeros += 0.0F * to[m];
  }
  if (isnan(zeros)) pk->finite = false;
}

/* The weights of one block and phase. */
static void pack_phase(packer *pk, const uc_block *b, const uc_residue r[UC_AXES]) {
  const uc_axis *axis = pk->engine->lowered->conv.axis;
  float *to = pk->packed + uc_phase_weights_at(pk->engine, b, r, pk->e0, pk->e1);
  for (int64_t c = pk->c0; c < pk->c1; c++) {
    float *tap = to + (c - pk->e0) * b->mc;
    for (int64_t d = 0; d < r[0].phase->count; d++)
      for (int64_t h = 0; h < r[1].phase->count; h++)
        for (int64_t w = 0; w < r[2].phase->count; w++, tap += (pk->e1 - pk->e0) * b->mc) {
          int64_t kd = r[0].phase->first + d * r[0].phase->step;
          int64_t kh = r[1].phase->first + h * r[1].phase->step;
          int64_t kw = r[2].phase->first + w * r[2].phase->step;
          pack_weights(pk, b, c, (kd * axis[1].kernel + kh) * axis[2].kernel + kw, tap);
        }
  }
}

static void pack_phases(packer *pk, const uc_block *b) {
  const uc_axis_table *table = pk->engine->table;
  for (int64_t d = 0; d < table[0].stride; d++)
    for (int64_t h = 0; h < table[1].stride; h++)
      for (int64_t w = 0; w < table[2].stride; w++) {
        uc_residue r[UC_AXES] = {{.phase = &table[0].phase[d], .phi = d},
                                 {.phase = &table[1].phase[h], .phi = h},
                                 {.phase = &table[2].phase[w], .phi = w}};
        pack_phase(pk, b, r);
      }
}

/* As product.c walks. */
static void pack_products(packer *pk, const uc_block *b) {
  const uc_engine *e = pk->engine;
  int64_t out = b->channel - b->group * e->group_out, channels = pk->e1 - pk->e0;
  float *chunk =
      pk->packed + e->weight_at + e->group_out * e->kernel_size * (b->group * e->group_in + pk->e0);
  for (int64_t c = pk->c0; c < pk->c1; c++) {
    float *elements = chunk;
    for (int64_t i = 0; i < e->kernel_size; i += e->tap_group) {
      int64_t taps = uc_min(e->tap_group, e->kernel_size - i);
      float *to = elements + (out * channels + (c - pk->e0) * b->mc) * taps;
      for (int64_t j = 0; j < taps; j++)
        pack_weights(pk, b, c, e->kernel_size - 1 - i - j, to + j * b->mc);
      elements += taps * e->group_out * channels;
    }
  }
}

/* Some channels of a chunk, for all blocks of group g. */
static upconv_status pack_channels(packer *pk, const uc_folded *folded, int64_t g) {
  const uc_engine *e = pk->engine;
  upconv_status status =
      uc_fold_weights(e->lowered, folded, g * e->group_in + pk->c0, pk->c1 - pk->c0, &pk->weight);
  if (status != UPCONV_OK) return status;
  int64_t per_group = e->block_count / e->lowered->conv.groups;
  for (const uc_block *b = &e->block[g * per_group]; b < &e->block[(g + 1) * per_group]; b++)
    if (e->products)
      pack_products(pk, b);
    else
      pack_phases(pk, b);
  free(pk->weight);
  return UPCONV_OK;
}

static upconv_status pack_group(packer *pk, const uc_folded *folded, int64_t g) {
  enum { AT_ONCE = 8192 }; /* weights: few enough for memory that is at hand */
  const uc_engine *e = pk->engine;
  int64_t channels = uc_max(1, AT_ONCE / uc_max(1, e->group_out * e->kernel_size));
  for (pk->e0 = 0; pk->e0 < e->group_in; pk->e0 = pk->e1) {
    pk->e1 = uc_min(pk->e0 + e->chunk, e->group_in);
    for (pk->c0 = pk->e0; pk->c0 < pk->e1; pk->c0 = pk->c1) {
      pk->c1 = uc_min(pk->c0 + channels, pk->e1);
      upconv_status status = pack_channels(pk, folded, g);
      if (status != UPCONV_OK) return status;
    }
  }
  return UPCONV_OK;
}

upconv_status uc_engine_pack(const uc_engine *e, const upconv_parameters *parameters,
                             void *packed) {
  uc_folded folded;
  upconv_status status = uc_fold_all_but_weights(e->lowered, parameters, &folded);
  if (status != UPCONV_OK) return status;
  float *out = packed;
  packer pk = {.engine = e, .packed = out, .finite = true};
  for (int64_t g = 0; g < e->lowered->conv.groups && status == UPCONV_OK; g++)
    status = pack_group(&pk, &folded, g);
  if (status != UPCONV_OK) {
    uc_folded_free(&folded);
    return status;
  }
  /* + 0: from -0 a sum of border zeros would be -0 or 0, depending on how many of them a tile leaves out */
  for (int64_t c = 0; c < e->lowered->conv.out_channels; c++)
    out[e->bias_at + c] = (float)folded.bias[c] + 0.0F;
  for (int i = 0; i < e->lowered->tail->param_count; i++)
    for (int64_t c = 0; c < e->param_size[i]; c++)
      out[e->param_at[i] + c] = (float)folded.param[i][c];
  uc_packed_header header = {
      .magic = PACKED_MAGIC, .floats = e->packed_floats, .finite = pk.finite};
  memcpy(packed, &header, sizeof header);
  uc_folded_free(&folded);
  return UPCONV_OK;
}

upconv_status uc_engine_check_packed(const uc_engine *e, const void *packed, bool *finite) {
  const uc_packed_header *header = packed;
  if (header->magic != PACKED_MAGIC || header->floats != e->packed_floats)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "packed: was not filled by upconv_plan_pack of this plan");
  *finite = header->finite != 0;
  return UPCONV_OK;
}
