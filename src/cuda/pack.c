/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed buffer of a CUDA plan and the program that fills it on the stream: parameters and folds in float64, then
 * weights in the order in which the inner product reads them.
 */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../rewrite.h"
#include "../status.h"
#include "codegen.h"
#include "emit.h"
#include "shape.h"

static int64_t padded(int64_t floats) { return (floats + 63) / 64 * 64; }

/* Entry of the parameters' doubles, in doubles from the first. */
static int64_t doubles_before(const uc_lowered *lowered, int param) {
  int64_t at = 0;
  for (int i = 0; i < param; i++) at += lowered->param[i].size;
  return at;
}

int64_t uc_cuda_step_words(int64_t words) {
  return words <= 20 && words % 8 >= 1 && words % 8 <= 4 ? 4 : 8;
}

static upconv_status size_weights(uc_cuda_engine *e) {
  int64_t depth = e->mma ? e->ci_steps * e->step_words : e->group_in;
  int64_t factors[] = {e->lowered->conv.groups, depth, e->weight_taps, e->co_pad,
                       e->flat ? e->parts : 1};
  if (e->scatter) {
    depth = e->ci_steps * e->step_words;
    int64_t blocks = uc_ceil_div(e->group_out, e->scatter_channels);
    int64_t rows[] = {e->lowered->conv.groups, depth, blocks, 16 * e->scatter_fragments,
                      e->lowered->conv.axis[0].kernel};
    memcpy(factors, rows, sizeof factors);
  }
  if (!uc_product(factors, 5, &e->weight_floats) || e->weight_floats > INT64_MAX / 64)
    return uc_fail(UPCONV_OVERFLOW, "weights: more elements than memory can hold");
  e->packed_floats = padded(e->weights_at + e->weight_floats);
  return UPCONV_OK;
}

upconv_status uc_cuda_plan_packed(uc_cuda_engine *e) {
  const uc_lowered *l = e->lowered;
  e->param_at = calloc((size_t)l->param_count + 1, sizeof *e->param_at);
  if (!e->param_at) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  int64_t at = 0;
  for (int i = 0; i < l->param_count; i++) {
    e->param_at[i] = at;
    at += l->param[i].size;
  }
  e->bias_at = padded(at);
  e->factor_at = padded(e->bias_at + l->conv.out_channels);
  e->scale_at =
      padded(e->factor_at + (e->scales_sums
                                 ? l->conv.out_channels
                                 : 0)); /* doubles: parameters, then the scale of every channel */
  e->weights_at =
      padded(e->scale_at + 2 * (doubles_before(l, l->param_count) + l->conv.out_channels));
  int64_t words = uc_ceil_div(e->group_in, e->word == UPCONV_F32 ? 1 : 2);
  e->step_words = e->gemm || e->scatter ? 8 : uc_cuda_step_words(words);
  e->ci_steps = uc_ceil_div(words, e->step_words);
  int64_t unit = 1; /* whole vectors of the channels that a thread takes */
  while (unit < 8 && (e->mma || unit < e->group_out)) unit *= 2;
  e->co_pad = uc_ceil_div(e->group_out, unit) * unit;
  e->weight_taps = e->kernel_size;
  if (e->scatter) uc_cuda_plan_scatter(e);
  return size_weights(e);
}

/* Where residues are columns, weights are those of every shift, for every residue and channel. */
upconv_status uc_cuda_widen_packed(uc_cuda_engine *e, const uc_cuda_kernel *k) {
  e->weight_taps = k->shifts;
  e->co_pad = k->nt * 8;
  return size_weights(e);
}

/* The panels of all products, as they lie in shared memory. */
upconv_status uc_cuda_phase_packed(uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  int64_t factors[] = {e->lowered->conv.groups, p->blocks, uc_cuda_phase_weights(p) / 4};
  if (!uc_product(factors, 3, &e->weight_floats) || e->weight_floats > INT64_MAX / 64)
    return uc_fail(UPCONV_OVERFLOW, "weights: more elements than memory can hold");
  e->packed_floats = padded(e->weights_at + e->weight_floats);
  return UPCONV_OK;
}

/* The stages of all taps and chunks, as they lie in shared memory. */
upconv_status uc_cuda_panel_packed(uc_cuda_engine *e, const uc_cuda_kernel *k) {
  enum { UNIT_FLOATS = 4 };
  int64_t factors[] = {e->lowered->conv.groups,
                       k->panels.blocks,
                       k->tap_count,
                       k->chunks,
                       k->panels.quads,
                       k->bm,
                       UNIT_FLOATS};
  if (!uc_product(factors, 7, &e->weight_floats) || e->weight_floats > INT64_MAX / 64)
    return uc_fail(UPCONV_OVERFLOW, "weights: more elements than memory can hold");
  e->packed_floats = padded(e->weights_at + e->weight_floats);
  return UPCONV_OK;
}

/* ---- source ---- */

static void emit_ref(uc_text *text, const uc_lowered *l, uc_ref ref) {
  if (ref.param < 0) {
    uc_text_add(text, "(double)");
    uc_text_add_double(text, ref.constant);
    return;
  }
  uc_text_add(text, "d[%lld%s]", (long long)doubles_before(l, ref.param),
              l->param[ref.param].size > 1 ? " + c" : "");
}

static void emit_formula(uc_text *text, const uc_lowered *l, const uc_param *p) {
  static const char *const infix[] = {
      [UC_PARAM_ADD] = "+", [UC_PARAM_SUB] = "-", [UC_PARAM_MUL] = "*", [UC_PARAM_DIV] = "/"};
  switch (p->kind) {
  case UC_PARAM_INPUT:
    uc_text_add(text, "read(a.param[%d], c)", p->input);
    break;
  case UC_PARAM_SQRT:
    uc_text_add(text, "sqrt(");
    emit_ref(text, l, p->a);
    uc_text_add(text, ")");
    break;
  case UC_PARAM_SELECT:
    emit_ref(text, l, p->a);
    uc_text_add(text, " > 0 ? ");
    emit_ref(text, l, p->b);
    uc_text_add(text, " : ");
    emit_ref(text, l, p->c);
    break;
  default:
    emit_ref(text, l, p->a);
    uc_text_add(text, " %s ", infix[p->kind]);
    emit_ref(text, l, p->b);
  }
}

static void emit_folds(uc_text *text, const uc_lowered *l) {
  for (int i = 0; i < l->fold_count; i++) {
    const uc_fold *f = &l->fold[i];
    if (f->kind == UC_FOLD_AVG_POOL) {
      double elements = 1;
      for (int a = 0; a < UC_AXES; a++) elements *= (double)f->window.kernel[a];
      double divisor = f->window.divisor ? (double)f->window.divisor : elements;
      uc_text_add(text, "    scale /= %.17g;\n    bias *= (double)%.17g;\n", divisor,
                  elements / divisor);
      continue;
    }
    uc_text_add(text, "    by = ");
    emit_ref(text, l, f->by);
    uc_text_add(text, f->kind == UC_FOLD_SCALE ? ";\n    scale *= by;\n    bias *= by;\n"
                                               : ";\n    bias += by;\n");
  }
}

/* Where an extreme_pool of bare sums takes the least, the weights' sign is turned. */
static void emit_sign(uc_text *text, const uc_cuda_engine *e) {
  const uc_lowered *l = e->lowered;
  for (int i = 0; i < e->kernel_count; i++) {
    const uc_cuda_kernel *k = &e->kernel[i];
    if (!k->sums_pooled) continue;
    const upconv_op *op = &l->tail->op[k->pass->step[k->pool].op];
    const upconv_operand *dir = &op->operand[1];
    if (op->kind != UPCONV_OP_EXTREME_POOL) continue;
    if (dir->kind == UPCONV_OPERAND_PARAM) {
      int param = l->param_of_decl[dir->index];
      uc_text_add(text, "    if (a.packed[%lld%s] < 0) scale = -scale;\n",
                  (long long)e->param_at[param], l->param[param].size > 1 ? " + c" : "");
    } else if (dir->constant < 0) {
      uc_text_add(text, "    scale = -scale;\n");
    }
  }
}

static void emit_params(uc_text *text, const uc_cuda_engine *e) {
  const uc_lowered *l = e->lowered;
  uc_text_add(text,
              "\nextern \"C\" __global__ void __launch_bounds__(256) pack_params(const "
              "__grid_constant__ PackArgs a) {\n"
              "  double *const d = (double *)(a.packed + %lld);\n",
              (long long)e->scale_at);
  for (int i = 0; i < l->param_count; i++) {
    if (l->param[i].size == 0) continue;
    uc_text_add(text, "  for (int c = threadIdx.x; c < %lld; c += 256) {\n    const double v = ",
                (long long)l->param[i].size);
    emit_formula(text, l, &l->param[i]);
    uc_text_add(
        text,
        ";\n    d[%lld + c] = v;\n    a.packed[%lld + c] = (float)v;\n  }\n  __syncthreads();\n",
        (long long)doubles_before(l, i), (long long)e->param_at[i]);
  }
  uc_text_add(text,
              "  for (int c = threadIdx.x; c < %lld; c += 256) {\n"
              "    double scale = 1, bias = a.bias.data ? read(a.bias, c) : 0, by = 0;\n"
              "    (void)by;\n",
              (long long)l->conv.out_channels);
  emit_folds(text, l);
  emit_sign(text, e);
  uc_text_add(text, "    d[%lld + c] = scale;\n    a.packed[%lld + c] = (float)bias;\n",
              (long long)doubles_before(l, l->param_count), (long long)e->bias_at);
  if (e->scales_sums)
    uc_text_add(text, "    a.packed[%lld + c] = (float)scale;\n", (long long)e->factor_at);
  uc_text_add(text, "  }\n}\n");
}

/* How often tap k of the source counts in tap k' of the folded kernel, per axis: [K'][K]. */
static double *tap_map(const uc_lowered *l, int a) {
  int64_t from = l->source.axis[a].kernel;
  double *map = calloc((size_t)(from * from), sizeof *map);
  for (int64_t k = 0; map && k < from; k++) map[k * from + k] = 1;
  for (int i = 0; map && i < l->fold_count; i++) {
    const uc_fold *f = &l->fold[i];
    if (f->kind != UC_FOLD_AVG_POOL || (f->window.kernel[a] == 1 && f->window.stride[a] == 1))
      continue;
    int64_t next = f->after[a].kernel;
    double *folded = calloc((size_t)(next * from), sizeof *folded);
    for (int64_t k = 0; folded && k < next; k++) {
      int64_t u = k * f->after[a].dilation - f->after[a].pad_begin;
      uc_range taps = uc_avg_pool_taps(&f->before[a], f->window.kernel[a], f->window.stride[a], u);
      for (int64_t t = taps.begin; t < taps.end; t++)
        for (int64_t j = 0; j < from; j++) folded[k * from + j] += map[t * from + j];
    }
    free(map);
    map = folded;
  }
  return map;
}

static void emit_map(uc_text *text, const uc_lowered *l, int a) {
  double *map = tap_map(l, a);
  int64_t count = l->conv.axis[a].kernel * l->source.axis[a].kernel;
  uc_text_add(text, "__device__ const double taps%d[] = {", a);
  for (int64_t i = 0; map && i < count; i++) uc_text_add(text, "%s%g", i ? ", " : "", map[i]);
  uc_text_add(text, "};\n");
  free(map);
}

/* weight(a, ci, co, k): the folded weight, k flat. */
static void emit_weight(uc_text *text, const uc_cuda_engine *e) {
  const uc_lowered *l = e->lowered;
  const uc_axis *s = l->source.axis, *f = l->conv.axis;
  bool pool = uc_lowered_folds(l, UC_FOLD_AVG_POOL);
  int64_t plane = f[2].kernel * f[1].kernel;
  for (int a = 0; a < UC_AXES && pool; a++) emit_map(text, l, a);
  uc_text_add(
      text,
      "\n// Folded weight of input channel i and output channel o of its group, kernel element k.\n"
      "__device__ double weight(const PackArgs &a, int i, int o, int k) {\n"
      "  const int k2 = k %% %lld, k1 = k / %lld %% %lld, k0 = k / %lld;\n",
      (long long)f[2].kernel, (long long)f[2].kernel, (long long)f[1].kernel, (long long)plane);
  if (!pool) {
    uc_text_add(text, "  return read_weight(a, i, o, k0, k1, k2);\n}\n");
    return;
  }
  uc_text_add(text, "  double sum = 0;\n");
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "  for (int j%d = 0; j%d < %lld; j%d++)\n", a, a, (long long)s[a].kernel, a);
  uc_text_add(text,
              "  {\n    const double count = taps0[k0 * %lld + j0] * taps1[k1 * %lld + j1] * "
              "taps2[k2 * %lld + j2];\n"
              "    if (count != 0) sum += count * read_weight(a, i, o, j0, j1, j2);\n  }\n  return "
              "sum;\n}\n",
              (long long)s[0].kernel, (long long)s[1].kernel, (long long)s[2].kernel);
}

/* The kernel in whose own order weights are packed: one whose residues are columns, or are rows, or channels are; NULL: none. */
static const uc_cuda_kernel *ordering_kernel(const uc_cuda_engine *e) {
  for (int i = 0; i < e->kernel_count; i++) {
    const uc_cuda_kernel *k = &e->kernel[i];
    if (k->wide || k->phase || k->panel) return k;
  }
  return NULL;
}

/* Which element of the kernel serves a residue when the cells are shifted: the one whose tap it is, or none, -1. */
static void emit_columns(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "#define RESIDUES %lld\n__device__ const int column_kernel[][RESIDUES] = {",
              (long long)k->rt);
  for (int64_t t = 0; t < k->tap_count; t++) {
    if (!uc_cuda_new_shift(k, t)) continue;
    for (int64_t r = 0; r < k->rt; r++) {
      uc_text_add(text, "%s%lld",
                  r   ? ", "
                  : t ? ",\n  {"
                      : "{",
                  (long long)uc_cuda_column_kernel(k, t, r));
    }
    uc_text_add(text, "}");
  }
  uc_text_add(text, "};\n");
}

static void write_pack(uc_text *text, const uc_cuda_engine *e, void *argument) {
  (void)argument;
  const uc_lowered *l = e->lowered;
  int64_t scales_at = e->scale_at + 2 * doubles_before(l, l->param_count);
  uc_text_add(text, "// packing for ");
  uc_problem_print(&l->source, text);
  uc_text_add(text, "\n\n%s\n#define PARAMS %d\n", uc_cuda_embedded("prelude"),
              (int)uc_max(1, l->source_tail->param_count));
  uc_text_add(text,
              "#define CI %lld\n#define CO %lld\n#define GROUPS %lld\n#define KERNEL %lld\n#define "
              "CO_PAD %lld\n",
              (long long)e->group_in, (long long)e->group_out, (long long)l->conv.groups,
              (long long)e->kernel_size, (long long)e->co_pad);
  uc_text_add(text, "#define CI_STEPS %lld\n#define WEIGHTS_AT %lld\n#define SCALES_AT %lld\n",
              (long long)e->ci_steps, (long long)e->weights_at, (long long)scales_at);
  uc_text_add(text, "#define WEIGHT_WORDS %lldLL\n", (long long)e->weight_floats);
  if (e->flat) uc_text_add(text, "#define PARTS %lld\n", (long long)e->parts);
  if (e->scatter)
    uc_text_add(text,
                "#define SCATTER 1\n#define BM %lld\n#define BLOCKS %lld\n#define FRAGMENTS "
                "%lld\n#define KERNEL_DEPTH %lld\n#define X_LAST %d\n",
                (long long)e->scatter_channels,
                (long long)uc_ceil_div(e->group_out, e->scatter_channels),
                (long long)e->scatter_fragments, (long long)l->conv.axis[0].kernel,
                l->conv.x_layout == UPCONV_CHANNELS_LAST);
  if (e->mma || e->scatter)
    uc_text_add(text,
                "#define WORD_IS_%s 1\n#define STEP_WORDS %lld\n#define CORE_ORDER %d\n#define "
                "SCALES_SUMS %d\n#define WEIGHT_TAPS %lld\n",
                uc_cuda_type_name(e->word), (long long)e->step_words, e->core_order, e->scales_sums,
                (long long)e->weight_taps);
  const uc_cuda_kernel *k = ordering_kernel(e);
  uc_cuda_emit_define(text, "WIDE", k && k->wide);
  if (k && k->wide) emit_columns(text, k);
  uc_cuda_emit_define(text, "IN_PANELS", k && k->phase);
  uc_cuda_emit_define(text, "STAGED", k && k->panel);
  if (k && k->panel) uc_cuda_emit_panel_packing(text, k);
  if (k && k->phase) uc_cuda_emit_phase_packing(text, k);
  uc_text_add(text, "%s", uc_cuda_embedded("pack"));
  emit_params(text, e);
  emit_weight(text, e);
  uc_text_add(text, "%s", uc_cuda_embedded("pack_weights"));
}

upconv_status uc_cuda_pack_source(const uc_cuda_engine *e, char **source) {
  return uc_cuda_text(write_pack, e, NULL, source);
}
