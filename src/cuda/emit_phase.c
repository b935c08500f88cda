/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass whose products have residues and channels as rows: shape_phase.c says what they are. */
#include <stdio.h>
#include <string.h>

#include "../checked.h"
#include "codegen.h"
#include "emit.h"
#include "shape.h"

void uc_cuda_emit_phase_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_cuda_emit_define(text, "SUMS_POOLED", k->sums_pooled);
  uc_text_add(text, "#define WORD_IS_%s 1\n", uc_cuda_type_name(e->word));
  uc_cuda_emit_define(text, "REST", p->rest.rounds > 0);
  uc_cuda_emit_define(text, "ALL_ROUNDS", p->main.rounds + p->rest.rounds);
  uc_cuda_emit_define(text, "WEIGHT_BYTES", uc_cuda_phase_weights(p));
  uc_cuda_emit_define(text, "STAGE_BYTES", p->stage_bytes);
  uc_cuda_emit_define(text, "GROUPS", p->groups);
  uc_cuda_emit_define(text, "GROUP_AXIS", p->group_axis);
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "#define PART_%c %lld\n", "DHW"[a], (long long)p -> part[a]);
  uc_cuda_emit_define(text, "QUADS", p->quads);
  uc_cuda_emit_define(text, "STEPS", p->steps);
  uc_cuda_emit_define(text, "GAPS", p->gaps);
  uc_cuda_emit_define(text, "PAIRED", k->x_vector == 2);
  uc_cuda_emit_define(text, "X_BUFFERS", k->x_buffers);
  uc_cuda_emit_define(text, "ROW_PITCH", p->row_pitch);
  uc_cuda_emit_define(text, "NOTES_BYTES", UC_CUDA_NOTES_BYTES);
  uc_cuda_emit_define(text, "COPIERS", k->copiers);
  uc_cuda_emit_define(text, "UNITS_AHEAD", k->steps_ahead);
  uc_cuda_emit_define(text, "REGISTERS_KEPT", k->registers_kept);
  uc_cuda_emit_define(text, "REGISTERS_TAKEN", k->registers_taken);
}

/* ---- products ---- */

typedef int64_t table_value(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i);

static int64_t position_of(const uc_cuda_kernel *k, const int32_t delta[UC_AXES]) {
  uc_cuda_tap tap = {.residue = 0};
  memcpy(tap.delta, delta, sizeof tap.delta);
  return uc_cuda_tap_offset(k, &tap);
}

static int64_t product_panel(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  (void)k;
  return l->product[i].panel;
}

static int64_t product_at(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  return position_of(k, l->product[i].delta[0]);
}

/* From the first half of the depth to the second: the next unit of the position, or another position. */
static int64_t product_far(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  if (k->phases.quads > 1) return uc_volume(k->x_size);
  return position_of(k, l->product[i].delta[1]) - product_at(k, l, i);
}

static int64_t product_begins(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  (void)k;
  for (int64_t before = 0; before < i; before++)
    if (l->product[before].panel == l->product[i].panel) return 0;
  return 1;
}

static int64_t panel_lives(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t panel) {
  (void)k;
  for (int64_t i = 0; i < l->product_count; i++)
    if (l->product[i].panel == panel) return 1;
  return 0;
}

/* The product that has a tap, and in which half of its depth: 2 * product + half. */
static int64_t find_tap(const uc_cuda_kernel *k, const uc_cuda_layout *l, const uc_cuda_tap *tap) {
  int64_t place = tap->residue / k->residues[2], w = tap->residue % k->residues[2];
  for (int64_t i = 0; i < l->product_count; i++)
    for (int half = 0; half < 2; half++)
      if (l->product[i].panel == uc_cuda_phase_panel(k, l, tap->residue) &&
          memcmp(l->product[i].delta[half], tap->delta, sizeof tap->delta) == 0 &&
          l->product[i].kernel[half][place % l->slots][w % 2] == tap->kernel)
        return 2 * i + half;
  return 0;
}

/* The i-th tap, residue by residue. */
static const uc_cuda_tap *tap_by_residue(const uc_cuda_kernel *k, int64_t i) {
  for (int64_t r = 0; r < uc_volume(k->residues); r++)
    for (int64_t t = 0; t < k->tap_count; t++)
      if (k->tap[t].residue == r && i-- == 0) return &k->tap[t];
  return k->tap;
}

static int64_t tap_offset(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  (void)l;
  return uc_cuda_tap_offset(k, tap_by_residue(k, i));
}

static int64_t tap_product(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  return find_tap(k, l, tap_by_residue(k, i)) / 2;
}

static int64_t tap_half(const uc_cuda_kernel *k, const uc_cuda_layout *l, int64_t i) {
  return find_tap(k, l, tap_by_residue(k, i)) % 2;
}

/* One more entry, so that no table is empty. */
static void emit_list(uc_text *text, const uc_cuda_kernel *k, const uc_cuda_layout *l,
                      const char *name, int64_t length, table_value *value) {
  int64_t count = 0;
  uc_text_add(text, "__device__ const int %s[] = {", name);
  for (int64_t i = 0; i < length; i++) uc_cuda_emit_number(text, &count, value(k, l, i));
  uc_cuda_emit_number(text, &count, 0);
  uc_text_add(text, "};\n");
}

static void emit_taps(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "\n// Taps of residue r: [tap_begin[r], tap_begin[r + 1]).\n");
  int64_t count = 0, taps = 0;
  uc_text_add(text, "__device__ const int tap_begin[] = {");
  uc_cuda_emit_number(text, &count, 0);
  for (int64_t r = 0; r < uc_volume(k->residues); r++) {
    for (int64_t t = 0; t < k->tap_count; t++) taps += k->tap[t].residue == r;
    uc_cuda_emit_number(text, &count, taps);
  }
  uc_text_add(text, "};\n");
  emit_list(text, k, &k->phases.main, "tap_offset", k->tap_count, tap_offset);
}

/* ---- layouts ---- */

/* Main of a block of channels, or what comes behind it. */
static const uc_cuda_layout *layout_of(const uc_cuda_phase *p, int i) {
  return i == 0 ? &p->main : &p->rest;
}

static int layout_count(const uc_cuda_phase *p) { return p->rest.rounds > 0 ? 2 : 1; }

static int64_t layout_channels(const uc_cuda_layout *l) {
  return l->rounds * l->held * l->fragments * 8;
}

static int64_t layout_bytes(const uc_cuda_phase *p) {
  return uc_cuda_phase_weights(p) -
         (p->rest.rounds * p->steps * p->rest.product_count * p->rest.held * 2048);
}

static void emit_numbers(uc_text *text, const uc_cuda_phase *p, int i) {
  const uc_cuda_layout *l = layout_of(p, i);
  uc_text_add(text,
              "  enum { FRAGMENTS = %lld, PANELS = %lld, HELD = %lld, PRODUCTS = %lld, ROUNDS = "
              "%lld, SLOTS = %lld, FIRST_CHANNEL = %lld, FIRST_BYTE = %lld };\n",
              (long long)l->fragments, (long long)l->panels, (long long)l->held,
              (long long)l->product_count, (long long)l->rounds, (long long)l->slots,
              (long long)(i > 0 ? layout_channels(&p->main) : 0),
              (long long)(i > 0 ? layout_bytes(p) : 0));
}

static const char *const layout_name[] = {"Main", "Rest"};

static void emit_layout(uc_text *text, const uc_cuda_kernel *k, int at) {
  static const struct {
    const char *name;
    int of; /* 0: products, 1: panels, 2: taps */
    table_value *value;
  } table[] = {{"panel", 0, product_panel}, {"at", 0, product_at},
               {"far", 0, product_far},     {"begins", 0, product_begins},
               {"lives", 1, panel_lives},   {"tap_product", 2, tap_product},
               {"tap_half", 2, tap_half}};
  const uc_cuda_phase *p = &k->phases;
  const uc_cuda_layout *l = layout_of(p, at);
  const int64_t length[] = {l->product_count, l->panels, k->tap_count};
  int count = p->gaps ? 7 : 5;
  char name[32];
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%s_of_%s", table[i].name, layout_name[at]);
    emit_list(text, k, l, name, length[table[i].of], table[i].value);
  }
  uc_text_add(text, "struct %s {\n", layout_name[at]);
  emit_numbers(text, p, at);
  for (int i = 0; i < count; i++)
    uc_text_add(text, "  static __device__ __forceinline__ int %s(int i) { return %s_of_%s[i]; }\n",
                table[i].name, table[i].name, layout_name[at]);
  uc_text_add(text, "};\n");
}

void uc_cuda_emit_phase_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_text_add(text, "\n// Products of a step: their panel, where they read the input tile, how far "
                    "the other half of the depth is, whether\n// they are their panel's first; "
                    "whether a panel has any.\n");
  for (int i = 0; i < layout_count(p); i++) emit_layout(text, k, i);
  if (p->gaps) emit_taps(text, k);
  uc_text_add(text,
              "\n// The sums of a panel += a b; where add is false they begin anew.\n"
              "__device__ __forceinline__ void wgmma(float (&d)[%lld], unsigned long long a, "
              "unsigned long long b, bool add) {\n",
              (long long)p->groups * 4);
  uc_cuda_emit_wgmma_shared(text, e, p->groups);
  uc_text_add(text, "}\n\n");
}

/* ---- packing ---- */

static void emit_kernels(uc_text *text, const uc_cuda_layout *l, const char *name) {
  uc_text_add(text, "__device__ const int kernel_of_%s[][2][4][2] = {", name);
  for (int64_t i = 0; i < l->product_count; i++) {
    uc_text_add(text, "%s{", i ? ",\n  " : "");
    for (int half = 0; half < 2; half++) {
      uc_text_add(text, "%s{", half ? ", " : "");
      for (int slot = 0; slot < UC_CUDA_PANEL_PAIRS; slot++)
        uc_text_add(text, "%s{%d, %d}", slot ? ", " : "", (int)l->product[i].kernel[half][slot][0],
                    (int)l->product[i].kernel[half][slot][1]);
      uc_text_add(text, "}");
    }
    uc_text_add(text, "}");
  }
  uc_text_add(text, "%s};\n", l->product_count ? "" : "{{{-1}}}");
}

void uc_cuda_emit_phase_packing(uc_text *text, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_cuda_emit_define(text, "BLOCKS_PER_GROUP", p->blocks);
  uc_cuda_emit_define(text, "BM", k->bm);
  uc_cuda_emit_define(text, "STEPS", p->steps);
  uc_cuda_emit_define(text, "QUADS", p->quads);
  uc_cuda_emit_define(text, "REST", p->rest.rounds > 0);
  uc_cuda_emit_define(text, "BLOCK_WORDS", uc_max(1, uc_cuda_phase_weights(p) / 4));
  for (int i = 0; i < layout_count(p); i++) {
    emit_kernels(text, layout_of(p, i), layout_name[i]);
    uc_text_add(text, "struct %s {\n", layout_name[i]);
    emit_numbers(text, p, i);
    uc_text_add(text,
                "  static __device__ int kernel(int product, int half, int slot, int second) {\n"
                "    return kernel_of_%s[product][half][slot][second];\n  }\n};\n",
                layout_name[i]);
  }
}
