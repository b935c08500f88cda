/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA candidates: from a lowered program to loaded kernels. */
#include "candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "codegen.h"
#include "cost.h"
#include "engine.h"
#include "launch.h"
#include "module.h"
#include "pack.h"
#include "registers.h"
#include "shape.h"

typedef enum inner_product {
  FFMA,
  MMA,
  GEMM,
  PHASE,
  PANEL,
  DEPTHWISE,
  FLAT,
  SCATTER
} inner_product;

enum {
  MAX_PARAMS = 100,
  MAX_PHASES = 4096,
  MAX_KERNEL = 1 << 20,
  MAX_FLAT_CHANNELS = 8,
  MAX_SCATTER_CHANNELS = 8
};

/* ---- what applies ---- */

/* Whether every pass can be shaped: the reason why not, or NULL. */
static const char *cannot_shape(const upconv_context *context, const uc_lowered *lowered,
                                inner_product inner);

/* What all need, and what is cheap to see. */
static const char *refuses(const upconv_context *context, const uc_lowered *lowered) {
  if (!context->target) return "the context is not CUDA's";
  if (lowered->tail->op_count >= UC_CUDA_MAX_VALUES ||
      lowered->source_tail->op_count >= UC_CUDA_MAX_VALUES)
    return "more operators than a kernel takes";
  if (lowered->source_tail->param_count > MAX_PARAMS)
    return "more parameters than the packing kernel takes";
  if (lowered->tail->tensor_count > UC_CUDA_MAX_VIEWS)
    return "more extra tensors than a kernel takes";
  int64_t phases = 1;
  for (int a = 0; a < UC_AXES; a++) {
    if (lowered->conv.axis[a].stride > MAX_PHASES) return "a stride is larger than 4096";
    phases *= lowered->conv.axis[a].stride;
  }
  if (phases > MAX_PHASES) return "more than 4096 phases";
  if (uc_problem_kernel_size(&lowered->conv) > MAX_KERNEL ||
      uc_problem_kernel_size(&lowered->source) > MAX_KERNEL)
    return "more than 2^20 taps";
  return NULL;
}

/* Words of the tensor-core kernels: -1 where they do not apply. 16-bit weights stay as they are, so that products are exact:
   a folded scale multiplies the sums instead; weights that an average mixes have no 16-bit form. */
static int mma_word(const uc_lowered *lowered) {
  const upconv_problem *p = &lowered->conv;
  bool narrow = p->x_dtype != UPCONV_F32 && p->w_dtype != UPCONV_F32;
  if (narrow)
    return p->x_dtype == p->w_dtype && !uc_lowered_folds(lowered, UC_FOLD_AVG_POOL)
               ? (int)p->x_dtype
               : -1;
  return p->math == UPCONV_MATH_TF32 ? (int)UPCONV_F32 : -1;
}

static const char *old_tensor_cores(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = refuses(context, lowered);
  if (why) return why;
  return context->target->major < 8 ? "tensor cores before sm_80 have no TF32 and bf16" : NULL;
}

static const char *no_tensor_cores(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = old_tensor_cores(context, lowered);
  if (why) return why;
  return mma_word(lowered) < 0 ? "full float32 products: tensor cores would round the operands"
                               : NULL;
}

/* Fewer channels waste most of a row of words, and of a fragment. */
static const char *gemm_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_tensor_cores(context, lowered);
  if (why) return why;
  if (lowered->conv.in_channels / lowered->conv.groups < 8)
    return "fewer than 8 input channels in a group";
  return cannot_shape(context, lowered, GEMM);
}

static const char *no_shared_operands(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_tensor_cores(context, lowered);
  if (why) return why;
  return strcmp(context->target->arch, "sm_90a") != 0
             ? "only sm_90a multiplies operands that both lie in shared memory"
             : NULL;
}

/* With fewer channels most of 64 rows, or of a unit of the depth, are empty. */
static const char *panel_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_shared_operands(context, lowered);
  if (why) return why;
  const upconv_problem *p = &lowered->conv;
  if (p->in_channels / p->groups < 8 || p->out_channels / p->groups < 8)
    return "fewer than 8 input or output channels in a group";
  return cannot_shape(context, lowered, PANEL);
}

static const char *phase_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_shared_operands(context, lowered);
  if (why) return why;
  const upconv_problem *p = &lowered->conv;
  if (p->in_channels / p->groups < 2 || p->out_channels / p->groups < 2)
    return "one input or output channel in a group";
  return cannot_shape(context, lowered, PHASE);
}

static const char *mma_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_tensor_cores(context, lowered);
  if (why) return why;
  const upconv_problem *p = &lowered->conv;
  int64_t phases = p->axis[0].stride * p->axis[1].stride * p->axis[2].stride;
  if (phases > 32) return "more than 32 phases";
  if (p->in_channels / p->groups < 2 || p->out_channels / p->groups < 4)
    return "fewer than 2 input or 4 output channels in a group";
  return cannot_shape(context, lowered, MMA);
}

/* TF32 words that a weight of the flattened kernel is the sum of: f16 and bf16 weights are one exactly, unless they are
   folded; -1 where products must be those of full float32 numbers. */
static int flat_parts(const uc_lowered *lowered) {
  const upconv_problem *p = &lowered->conv;
  if (p->x_dtype != UPCONV_F32 && p->w_dtype != UPCONV_F32)
    return uc_lowered_folds(lowered, UC_FOLD_SCALE) || uc_lowered_folds(lowered, UC_FOLD_AVG_POOL)
               ? 2
               : 1;
  return p->math == UPCONV_MATH_TF32 ? 1 : -1;
}

static const char *flat_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = old_tensor_cores(context, lowered);
  if (why) return why;
  if (flat_parts(lowered) < 0)
    return "full float32 products: tensor cores would round the operands";
  const upconv_problem *p = &lowered->conv;
  if (p->in_channels / p->groups > MAX_FLAT_CHANNELS)
    return "more than 8 input channels in a group";
  if (p->out_channels / p->groups < 4) return "fewer than 4 output channels in a group";
  return cannot_shape(context, lowered, FLAT);
}

/* With fewer channels the depth of a product is empty. */
static const char *scatter_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = no_tensor_cores(context, lowered);
  if (why) return why;
  const upconv_problem *p = &lowered->conv;
  if (p->in_channels / p->groups < 8) return "fewer than 8 input channels in a group";
  if (p->out_channels / p->groups > MAX_SCATTER_CHANNELS)
    return "more than 8 output channels in a group";
  return cannot_shape(context, lowered, SCATTER);
}

static const char *ffma_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = refuses(context, lowered);
  return why ? why : cannot_shape(context, lowered, FFMA);
}

static bool is_depthwise(const uc_lowered *lowered) {
  return lowered->conv.in_channels == lowered->conv.groups;
}

static const char *depthwise_refuses(const upconv_context *context, const uc_lowered *lowered) {
  const char *why = refuses(context, lowered);
  if (why) return why;
  if (!is_depthwise(lowered)) return "more than one input channel in a group";
  return cannot_shape(context, lowered, DEPTHWISE);
}

/* ---- create ---- */

static void free_kernels(uc_cuda_engine *e) {
  for (int i = 0; i < e->kernel_count; i++) uc_cuda_shape_free(&e->kernel[i]);
  free(e->kernel);
  e->kernel = NULL;
  e->kernel_count = 0;
}

static void destroy(void *state) {
  uc_cuda_engine *e = state;
  if (!e) return;
  uc_cuda_unload(e);
  free_kernels(e);
  uc_program_free(&e->program);
  free(e->param_at);
  free(e->pack_source);
  free(e);
}

static const char *name_of(const uc_cuda_engine *e) {
  return e->gemm        ? "cuda-gemm"
         : e->phase     ? "cuda-phase"
         : e->panel     ? "cuda-panel"
         : e->mma       ? "cuda-mma"
         : e->depthwise ? "cuda-depthwise"
         : e->flat      ? "cuda-flat"
         : e->scatter   ? "cuda-scatter"
                        : "cuda-ffma";
}

/* Shapes every pass; *keep >= 0: the program must be built again with that value kept. */
static upconv_status shape_passes(uc_cuda_engine *e, int *keep) {
  int64_t shape[UC_CUDA_MAX_VALUES][UC_RANK];
  upconv_status status = uc_lowered_nominal_shapes(e->lowered, shape);
  if (status != UPCONV_OK) return status;
  e->kernel = calloc((size_t)e->program.pass_count, sizeof *e->kernel);
  if (!e->kernel) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  e->core_order = e->gemm;
  for (int i = 0; i < e->program.pass_count && status == UPCONV_OK && *keep < 0; i++) {
    uc_cuda_kernel *k = &e->kernel[e->kernel_count++];
    const char *refusal = NULL;
    snprintf(k->name, sizeof k->name, "upconv_value%d", e->program.pass[i].result);
    status =
        uc_cuda_shape(e, &e->program.pass[i], (const int64_t(*)[UC_RANK])shape, k, &refusal, keep);
    e->core_order |= k->wgmma;
    if (status == UPCONV_OK && refusal)
      status = uc_fail(UPCONV_UNSUPPORTED, "candidate %s: %s", name_of(e), refusal);
  }
  return status;
}

static upconv_status build_passes(uc_cuda_engine *e, bool no_fuse) {
  bool also_keep[UC_CUDA_MAX_VALUES] = {false};
  for (int tries = 0; tries <= UC_CUDA_MAX_VALUES; tries++) {
    int keep = -1;
    upconv_status status = uc_program_build(e->lowered, no_fuse, also_keep, &e->program);
    if (status == UPCONV_OK) status = shape_passes(e, &keep);
    if (status != UPCONV_OK || keep < 0) return status;
    if (also_keep[keep]) break;
    also_keep[keep] = true;
    free_kernels(e);
    uc_program_free(&e->program);
  }
  return uc_fail(UPCONV_UNSUPPORTED, "the tail does not fit shared memory, whatever is kept");
}

static upconv_status generate(uc_cuda_engine *e) {
  upconv_status status = uc_cuda_pack_source(e, &e->pack_source);
  for (int i = 0; i < e->kernel_count && status == UPCONV_OK; i++) {
    uc_cuda_expect_registers(e, &e->kernel[i]);
    status = uc_cuda_kernel_source(e, &e->kernel[i], &e->kernel[i].source);
    if (status == UPCONV_OK && e->kernel[i].view_count > UC_CUDA_MAX_VIEWS)
      status =
          uc_fail(UPCONV_UNSUPPORTED, "one pass reads more than %d tensors", UC_CUDA_MAX_VIEWS);
  }
  return status;
}

static void describe(uc_cuda_engine *e, const upconv_context *context, const uc_lowered *lowered,
                     inner_product inner) {
  e->context = context;
  e->lowered = lowered;
  e->target = *context->target;
  e->mma = inner == MMA || inner == GEMM || inner == PHASE || inner == PANEL;
  e->gemm = inner == GEMM;
  e->phase = inner == PHASE;
  e->panel = inner == PANEL;
  e->depthwise = inner == DEPTHWISE;
  e->flat = inner == FLAT;
  e->scatter = inner == SCATTER;
  e->parts = e->flat ? flat_parts(lowered) : 1;
  e->word = e->mma || e->scatter ? (upconv_dtype)mma_word(lowered) : UPCONV_F32;
  e->scales_sums = e->word != UPCONV_F32 && uc_lowered_folds(lowered, UC_FOLD_SCALE);
  e->group_in = lowered->conv.in_channels / lowered->conv.groups;
  e->group_out = lowered->conv.out_channels / lowered->conv.groups;
  e->kernel_size = uc_problem_kernel_size(&lowered->conv);
}

/* ---- shaping alone: what applies, what it costs ---- */

/* *seconds: what the kernels should take; 0 without memory, of which create will then tell. */
static const char *try_shape(const upconv_context *context, const uc_lowered *lowered,
                             inner_product inner, double *seconds) {
  *seconds = 0;
  uc_cuda_engine *e = calloc(1, sizeof *e);
  if (!e) return "no memory";
  describe(e, context, lowered, inner);
  upconv_status status = uc_cuda_plan_packed(e);
  if (status == UPCONV_OK) status = build_passes(e, false);
  if (status == UPCONV_OK) *seconds = uc_cuda_cost(e);
  destroy(e);
  if (status == UPCONV_OK) return NULL;
  if (inner == MMA || inner == GEMM || inner == PHASE || inner == PANEL)
    return "the tail, the taps or a tile are more than the tensor-core kernel holds";
  if (inner == FLAT) return "the tail, the taps or a tile are more than the flattened kernel holds";
  if (inner == SCATTER)
    return "the tail, the taps or a tile are more than the scattering kernel holds";
  return inner == DEPTHWISE
             ? "the tail, the taps or a tile are more than the depthwise kernel holds"
             : "one tile does not fit shared memory";
}

static const char *cannot_shape(const upconv_context *context, const uc_lowered *lowered,
                                inner_product inner) {
  double seconds;
  return try_shape(context, lowered, inner, &seconds);
}

static double cost_of(const upconv_context *context, const uc_lowered *lowered,
                      inner_product inner) {
  double seconds;
  try_shape(context, lowered, inner, &seconds);
  return seconds;
}

static double ffma_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, FFMA);
}

static double mma_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, MMA);
}

static double gemm_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, GEMM);
}

static double phase_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, PHASE);
}

static double panel_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, PANEL);
}

static double depthwise_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, DEPTHWISE);
}

static double flat_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, FLAT);
}

static double scatter_cost(const upconv_context *context, const uc_lowered *lowered) {
  return cost_of(context, lowered, SCATTER);
}

static upconv_status create(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                            inner_product inner, void **state) {
  uc_cuda_engine *e = calloc(1, sizeof *e);
  if (!e) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  describe(e, context, lowered, inner);
  upconv_status status = uc_cuda_plan_packed(e);
  if (status == UPCONV_OK) status = build_passes(e, no_fuse);
  for (int i = 0; i < e->kernel_count && status == UPCONV_OK; i++)
    if (e->kernel[i].wide)
      status = uc_cuda_widen_packed(e, &e->kernel[i]);
    else if (e->kernel[i].phase)
      status = uc_cuda_phase_packed(e, &e->kernel[i]);
    else if (e->kernel[i].panel)
      status = uc_cuda_panel_packed(e, &e->kernel[i]);
  if (status == UPCONV_OK) status = generate(e);
  if (status == UPCONV_OK) status = uc_cuda_load(e);
  if (status != UPCONV_OK) {
    destroy(e);
    return status;
  }
  *state = e;
  return UPCONV_OK;
}

static upconv_status create_ffma(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                 void **state) {
  return create(context, lowered, no_fuse, FFMA, state);
}

static upconv_status create_mma(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                void **state) {
  return create(context, lowered, no_fuse, MMA, state);
}

static upconv_status create_gemm(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                 void **state) {
  return create(context, lowered, no_fuse, GEMM, state);
}

static upconv_status create_phase(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                  void **state) {
  return create(context, lowered, no_fuse, PHASE, state);
}

static upconv_status create_panel(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                  void **state) {
  return create(context, lowered, no_fuse, PANEL, state);
}

static upconv_status create_depthwise(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                      void **state) {
  return create(context, lowered, no_fuse, DEPTHWISE, state);
}

static upconv_status create_flat(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                 void **state) {
  return create(context, lowered, no_fuse, FLAT, state);
}

static upconv_status create_scatter(upconv_context *context, uc_lowered *lowered, bool no_fuse,
                                    void **state) {
  return create(context, lowered, no_fuse, SCATTER, state);
}

/* ---- the rest of the table ---- */

static size_t packed_size(const void *state) {
  return (size_t)((const uc_cuda_engine *)state)->packed_floats * sizeof(float);
}

static upconv_status pack(const void *state, const upconv_parameters *parameters, void *packed,
                          void *stream) {
  return uc_cuda_pack(state, parameters, packed, stream);
}

static upconv_status workspace(const void *state, const int64_t x_shape[UC_RANK], size_t *bytes) {
  return uc_cuda_workspace(state, x_shape, bytes);
}

static upconv_status execute(const void *state, const uc_call *call) {
  return uc_cuda_execute(state, call);
}

static void explain(const void *state, uc_text *text) {
  const uc_cuda_engine *e = state;
  for (int i = 0; i < e->kernel_count; i++) {
    const uc_cuda_kernel *k = &e->kernel[i];
    uc_text_add(text,
                "  pass %d     value %%%d%s, tiles of %lld x %lld x %lld, %lld threads, %lld KiB "
                "shared, %s\n",
                i + 1, k->pass->result, k->pass->reduce_op >= 0 ? " (reduced over space)" : "",
                (long long)k->tile[0], (long long)k->tile[1], (long long)k->tile[2],
                (long long)(k->threads * k->teams), (long long)(k->shared_floats * 4 / 1024),
                k->fused ? "finished in registers" : "values in shared memory");
  }
}

static void source(const void *state, uc_text *text) {
  const uc_cuda_engine *e = state;
  for (int i = 0; i < e->kernel_count; i++) uc_text_add(text, "%s\n", e->kernel[i].source);
  uc_text_add(text, "%s", e->pack_source);
}

const uc_candidate uc_candidate_cuda_ffma = {
    "cuda-ffma", false, false,     ffma_refuses, ffma_cost, create_ffma, destroy,
    packed_size, pack,  workspace, execute,      explain,   source};
const uc_candidate uc_candidate_cuda_mma = {
    "cuda-mma",  false, true,      mma_refuses, mma_cost, create_mma, destroy,
    packed_size, pack,  workspace, execute,     explain,  source};
const uc_candidate uc_candidate_cuda_gemm = {
    "cuda-gemm", false, true,      gemm_refuses, gemm_cost, create_gemm, destroy,
    packed_size, pack,  workspace, execute,      explain,   source};
const uc_candidate uc_candidate_cuda_phase = {
    "cuda-phase", false, true,      phase_refuses, phase_cost, create_phase, destroy,
    packed_size,  pack,  workspace, execute,       explain,    source};
const uc_candidate uc_candidate_cuda_panel = {
    "cuda-panel", false, true,      panel_refuses, panel_cost, create_panel, destroy,
    packed_size,  pack,  workspace, execute,       explain,    source};
const uc_candidate uc_candidate_cuda_depthwise = {"cuda-depthwise",
                                                  false,
                                                  false,
                                                  depthwise_refuses,
                                                  depthwise_cost,
                                                  create_depthwise,
                                                  destroy,
                                                  packed_size,
                                                  pack,
                                                  workspace,
                                                  execute,
                                                  explain,
                                                  source};
const uc_candidate uc_candidate_cuda_flat = {
    "cuda-flat", false, true,      flat_refuses, flat_cost, create_flat, destroy,
    packed_size, pack,  workspace, execute,      explain,   source};
const uc_candidate uc_candidate_cuda_scatter = {
    "cuda-scatter", false, true,      scatter_refuses, scatter_cost, create_scatter, destroy,
    packed_size,    pack,  workspace, execute,         explain,      source};
