/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's four candidates: one engine, four ways to fill the convolution's tile. */
#include "candidates.h"

#include <stdlib.h>

#include "../status.h"
#include "engine.h"

enum { MAX_STRIDE = 65536 };

/* Rates for the cost model, per thread: they only have to rank candidates. */
static const double VECTOR_MACS_PER_LANE = 2.5e9, SCALAR_MACS = 2e8;

/* Of a last-level cache, a few cores reach about so much, whatever the system says of the whole host. */
static const double STREAM_BYTES = 32 << 20;

static const char *refuses(const upconv_context *context, const uc_lowered *lowered) {
  if (context->target) return "the context is not the CPU's";
  for (int a = 0; a < UC_AXES; a++)
    if (lowered->conv.axis[a].stride > MAX_STRIDE) return "a stride is larger than 65536";
  return NULL;
}

/* Residues are stored apart in a tile: with huge strides tiles would be mostly padding. */
static const char *tiled_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = refuses(context, lowered);
  int64_t residues = 1;
  for (int a = 0; a < UC_AXES && !why; a++) {
    residues *= lowered->conv.axis[a].stride;
    if (residues > 4096) why = "more than 4096 phases";
  }
  return why;
}

static double macs(const uc_lowered *lowered) {
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = lowered->conv.axis[a].in_size;
  return uc_problem_macs(&lowered->conv, lowered->conv.batch, in_size);
}

/* Seconds that a call takes longer than one of cpu-tiled, however small: lists, and more memory that is cold. */
static const double PANELS_START = 5e-6, PRODUCTS_START = 4e-6;

/* What the costs depend on: channels of a group, products of an output, and inputs along W. */
typedef struct sizes {
  double in, out, products, width;
} sizes;

static sizes sizes_of(const uc_lowered *lowered) {
  const upconv_problem *p = &lowered->conv;
  sizes z = {.in = (double)(p->in_channels / p->groups),
             .out = (double)(p->out_channels / p->groups)};
  if (z.in < 1) z.in = 1;
  z.products = z.in;
  for (int a = 0; a < UC_AXES; a++)
    z.products *= (double)p->axis[a].kernel / (double)p->axis[a].stride;
  z.width = p->axis[2].in_size < 1 ? 1 : (double)p->axis[2].in_size;
  return z;
}

/* Time were everything multiply-adds. The factors below are fits to 330 problems, each measured with these three candidates;
   see docs/DECISIONS.md. */
static double plain_cost(const upconv_context *context, const uc_lowered *lowered) {
  return macs(lowered) /
         (VECTOR_MACS_PER_LANE * context->isa->width * uc_threads_count(context->threads));
}

/* Every input vector is loaded for each tap: with one output channel that is most of the time. Rows shorter than a vector
   are mostly padding. */
static double tiled_cost(const upconv_context *context, const uc_lowered *lowered) {
  sizes z = sizes_of(lowered);
  double factor = 0.93 + 1.0 / z.out + 24 / z.products;
  if (z.out == 1) factor += 1;
  if (z.width < UC_PAD) factor += 2 / z.width;
  return plain_cost(context, lowered) * factor;
}

/* Each number gathered into a panel is worth it for many output channels. */
static double panels_cost(const upconv_context *context, const uc_lowered *lowered) {
  sizes z = sizes_of(lowered);
  return PANELS_START + plain_cost(context, lowered) * (0.9 + 9.2 / z.out + 45 / z.products);
}

/* Each product written and added where it belongs is worth it for many input channels. */
static double products_cost(const upconv_context *context, const uc_lowered *lowered) {
  sizes z = sizes_of(lowered);
  return PRODUCTS_START +
         plain_cost(context, lowered) * (0.85 + 0.6 / z.out + 13 / z.in + 20 / z.products);
}

static double direct_cost(const upconv_context *context, const uc_lowered *lowered) {
  return macs(lowered) / (SCALAR_MACS * uc_threads_count(context->threads));
}

static void destroy(void *state) {
  uc_engine *e = state;
  if (!e) return;
  for (int a = 0; a < UC_AXES; a++) {
    free(e->table[a].phase);
    free(e->table[a].before);
  }
  free(e->block);
  free(e->param_at);
  free(e->param_size);
  uc_program_free(&e->program);
  free(e);
}

static upconv_status create(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                            const uc_engine *way, void **state) {
  uc_engine *e = calloc(1, sizeof *e);
  if (!e) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  e->isa = context->isa;
  e->stream_bytes = STREAM_BYTES;
  e->threads = context->threads;
  e->lowered = lowered;
  e->scalar = way->scalar;
  e->panels = way->panels;
  e->products = way->products;
  upconv_status status = uc_program_build(lowered, no_fuse, NULL, &e->program);
  if (status == UPCONV_OK) status = uc_engine_plan_weights(e);
  if (status != UPCONV_OK) {
    destroy(e);
    return status;
  }
  *state = e;
  return UPCONV_OK;
}

static upconv_status create_tiled(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                  void **state) {
  return create(context, lowered, no_fuse, &(uc_engine){.scalar = false}, state);
}

static upconv_status create_panels(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                   void **state) {
  return create(context, lowered, no_fuse, &(uc_engine){.panels = true}, state);
}

static upconv_status create_products(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                     void **state) {
  return create(context, lowered, no_fuse, &(uc_engine){.panels = true, .products = true}, state);
}

static upconv_status create_direct(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                   void **state) {
  return create(context, lowered, no_fuse, &(uc_engine){.scalar = true}, state);
}

static size_t packed_size(const void *state) {
  return (size_t)((const uc_engine *)state)->packed_floats * sizeof(float);
}

static upconv_status pack(const void *state, const upconv_parameters *parameters, void *packed,
                          void *stream) {
  (void)stream;
  return uc_engine_pack(state, parameters, packed);
}

static upconv_status workspace(const void *state, const int64_t x_shape[UC_RANK], size_t *bytes) {
  const uc_engine *e = state;
  int64_t(*shape)[UC_RANK] = calloc((size_t)e->program.value_count, sizeof *shape);
  int64_t *slot_at = calloc(1, uc_engine_slots_bytes(e) + 1);
  upconv_status status = UPCONV_OK;
  if (!shape || !slot_at) status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to size a workspace");
  uc_workspace w = {0};
  if (status == UPCONV_OK) status = uc_engine_shapes(e, x_shape, shape);
  if (status == UPCONV_OK)
    status = uc_engine_workspace(e, (const int64_t(*)[UC_RANK])shape, slot_at, &w);
  free(shape);
  free(slot_at);
  *bytes = w.bytes;
  return status;
}

static upconv_status execute(const void *state, const uc_call *call) {
  return uc_engine_execute(state, call);
}

/* Passes, and the tile of each at the nominal sizes. */
static void explain(const void *state, uc_text *text) {
  const uc_engine *e = state;
  const upconv_problem *p = &e->lowered->conv;
  int64_t x_shape[UC_RANK] = {p->batch, p->in_channels, p->axis[0].in_size, p->axis[1].in_size,
                              p->axis[2].in_size};
  int64_t(*shape)[UC_RANK] = calloc((size_t)e->program.value_count, sizeof *shape);
  int64_t *slot_at = calloc(1, uc_engine_slots_bytes(e) + 1);
  if (shape && slot_at && uc_engine_shapes(e, x_shape, shape) == UPCONV_OK)
    for (int i = 0; i < e->program.pass_count; i++) {
      const uc_pass *pass = &e->program.pass[i];
      uc_tiling t;
      uc_tiling_choose(e, pass, (const int64_t(*)[UC_RANK])shape, true, slot_at, &t);
      uc_text_add(
          text,
          "  pass %d     value %%%d%s, tiles of %lld x %lld x %lld, %s%s%s; %lld KiB per thread\n",
          i + 1, pass->result, pass->reduce_op >= 0 ? " (reduced over space)" : "",
          (long long)t.tile[0], (long long)t.tile[1], (long long)t.tile[2],
          pass->all_channels ? "all channels at once" : "channels in rounds",
          t.pooled ? ", pooled as it is computed" : "",
          t.drains ? ", stored beside the next round" : "",
          (long long)(t.scratch * (int64_t)sizeof(float) / 1024));
    }
  free(shape);
  free(slot_at);
}

const uc_candidate uc_candidate_cpu_tiled = {
    "cpu-tiled", true, false,     tiled_refuses, tiled_cost, create_tiled, destroy,
    packed_size, pack, workspace, execute,       explain,    NULL};

const uc_candidate uc_candidate_cpu_panels = {
    "cpu-panels", true, false,     tiled_refuses, panels_cost, create_panels, destroy,
    packed_size,  pack, workspace, execute,       explain,     NULL};

const uc_candidate uc_candidate_cpu_products = {
    "cpu-products",  true,    false,       tiled_refuses, products_cost,
    create_products, destroy, packed_size, pack,          workspace,
    execute,         explain, NULL};

const uc_candidate uc_candidate_cpu_direct = {
    "cpu-direct", true, false,     refuses, direct_cost, create_direct, destroy,
    packed_size,  pack, workspace, execute, explain,     NULL};
