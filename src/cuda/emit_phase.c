/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass whose products have residues and channels as rows: shape_phase.c says what they are. */
#include <string.h>

#include "codegen.h"
#include "emit.h"
#include "shape.h"

void uc_cuda_emit_phase_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_cuda_emit_define(text, "SUMS_POOLED", k->sums_pooled);
  uc_text_add(text, "#define WORD_IS_%s 1\n", uc_cuda_type_name(e->word));
  uc_cuda_emit_define(text, "FRAGMENTS", p->fragments);
  uc_cuda_emit_define(text, "PANELS", p->panels);
  uc_cuda_emit_define(text, "HELD", p->held);
  uc_cuda_emit_define(text, "GROUPS", p->groups);
  uc_cuda_emit_define(text, "GROUP_AXIS", p->group_axis);
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "#define PART_%c %lld\n", "DHW"[a], (long long)p -> part[a]);
  uc_cuda_emit_define(text, "QUADS", p->quads);
  uc_cuda_emit_define(text, "STEPS", p->steps);
  uc_cuda_emit_define(text, "PRODUCTS", p->product_count);
  uc_cuda_emit_define(text, "GAPS", p->gaps);
  uc_cuda_emit_define(text, "PAIRED", k->x_vector == 2);
  uc_cuda_emit_define(text, "ROUNDS", k->rounds);
  uc_cuda_emit_define(text, "X_BUFFERS", k->x_buffers);
  uc_cuda_emit_define(text, "ROW_PITCH", p->row_pitch);
  uc_cuda_emit_define(text, "NOTES_BYTES", UC_CUDA_NOTES_BYTES);
  uc_cuda_emit_define(text, "COPIERS", k->copiers);
  uc_cuda_emit_define(text, "UNITS_AHEAD", k->steps_ahead);
  uc_cuda_emit_define(text, "REGISTERS_KEPT", k->registers_kept);
  uc_cuda_emit_define(text, "REGISTERS_TAKEN", k->registers_taken);
}

/* ---- products ---- */

static int64_t position_of(const uc_cuda_kernel *k, const int32_t delta[UC_AXES]) {
  uc_cuda_tap tap = {.residue = 0};
  memcpy(tap.delta, delta, sizeof tap.delta);
  return uc_cuda_tap_offset(k, &tap);
}

static int64_t product_panel(const uc_cuda_kernel *k, int64_t i) {
  return k->phases.product[i].panel;
}

static int64_t product_at(const uc_cuda_kernel *k, int64_t i) {
  return position_of(k, k->phases.product[i].delta[0]);
}

/* From the first half of the depth to the second: the next unit of the position, or another position. */
static int64_t product_far(const uc_cuda_kernel *k, int64_t i) {
  if (k->phases.quads > 1) return uc_volume(k->x_size);
  return position_of(k, k->phases.product[i].delta[1]) - product_at(k, i);
}

static int64_t product_begins(const uc_cuda_kernel *k, int64_t i) {
  for (int64_t before = 0; before < i; before++)
    if (k->phases.product[before].panel == k->phases.product[i].panel) return 0;
  return 1;
}

static int64_t panel_lives(const uc_cuda_kernel *k, int64_t panel) {
  for (int64_t i = 0; i < k->phases.product_count; i++)
    if (k->phases.product[i].panel == panel) return 1;
  return 0;
}

/* One more entry, so that no table is empty. */
static void emit_list(uc_text *text, const uc_cuda_kernel *k, const char *name, int64_t length,
                      int64_t (*value)(const uc_cuda_kernel *k, int64_t i)) {
  int64_t count = 0;
  uc_text_add(text, "__device__ const int %s[] = {", name);
  for (int64_t i = 0; i < length; i++) uc_cuda_emit_number(text, &count, value(k, i));
  uc_cuda_emit_number(text, &count, 0);
  uc_text_add(text, "};\n");
}

/* ---- taps, residue by residue ---- */

/* The product that has a tap, and in which half of its depth: 2 * product + half. */
static int64_t find_tap(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  const uc_cuda_phase *p = &k->phases;
  int64_t place = tap->residue / k->residues[2], w = tap->residue % k->residues[2];
  for (int64_t i = 0; i < p->product_count; i++)
    for (int half = 0; half < 2; half++)
      if (p->product[i].panel == uc_cuda_phase_panel(k, tap->residue) &&
          memcmp(p->product[i].delta[half], tap->delta, sizeof tap->delta) == 0 &&
          p->product[i].kernel[half][place % p->slots][w % 2] == tap->kernel)
        return 2 * i + half;
  return 0;
}

static int64_t tap_product(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  return find_tap(k, tap) / 2;
}

static int64_t tap_half(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  return find_tap(k, tap) % 2;
}

static void emit_by_residue(uc_text *text, const uc_cuda_kernel *k, const char *name,
                            int64_t (*value)(const uc_cuda_kernel *, const uc_cuda_tap *)) {
  int64_t count = 0;
  uc_text_add(text, "__device__ const int %s[] = {", name);
  for (int64_t r = 0; r < uc_volume(k->residues); r++)
    for (int64_t t = 0; t < k->tap_count; t++)
      if (k->tap[t].residue == r) uc_cuda_emit_number(text, &count, value(k, &k->tap[t]));
  uc_cuda_emit_number(text, &count, 0);
  uc_text_add(text, "};\n");
}

static void emit_taps(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "// Taps of residue r: [tap_begin[r], tap_begin[r + 1]).\n");
  int64_t count = 0, taps = 0;
  uc_text_add(text, "__device__ const int tap_begin[] = {");
  uc_cuda_emit_number(text, &count, 0);
  for (int64_t r = 0; r < uc_volume(k->residues); r++) {
    for (int64_t t = 0; t < k->tap_count; t++) taps += k->tap[t].residue == r;
    uc_cuda_emit_number(text, &count, taps);
  }
  uc_text_add(text, "};\n");
  emit_by_residue(text, k, "tap_offset", uc_cuda_tap_offset);
  emit_by_residue(text, k, "tap_product", tap_product);
  emit_by_residue(text, k, "tap_half", tap_half);
}

void uc_cuda_emit_phase_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_text_add(text, "\n// Products of a step: their panel, where they read the input tile, how far "
                    "the other half of the depth is.\n");
  emit_list(text, k, "product_panel", p->product_count, product_panel);
  emit_list(text, k, "product_at", p->product_count, product_at);
  emit_list(text, k, "product_far", p->product_count, product_far);
  uc_text_add(text, "// Whether a product is its panel's first; whether a panel has any.\n");
  emit_list(text, k, "product_begins", p->product_count, product_begins);
  emit_list(text, k, "panel_lives", p->panels, panel_lives);
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

void uc_cuda_emit_phase_packing(uc_text *text, const uc_cuda_kernel *k) {
  const uc_cuda_phase *p = &k->phases;
  uc_cuda_emit_define(text, "BLOCKS_PER_GROUP", p->blocks);
  uc_cuda_emit_define(text, "ROUNDS", k->rounds);
  uc_cuda_emit_define(text, "STEPS", p->steps);
  uc_cuda_emit_define(text, "QUADS", p->quads);
  uc_cuda_emit_define(text, "PRODUCTS", p->product_count);
  uc_cuda_emit_define(text, "HELD", p->held);
  uc_cuda_emit_define(text, "FRAGMENTS", p->fragments);
  uc_text_add(text, "__device__ const int product_kernel[][2][4][2] = {");
  for (int64_t i = 0; i < p->product_count; i++) {
    uc_text_add(text, "%s{", i ? ",\n  " : "");
    for (int half = 0; half < 2; half++) {
      uc_text_add(text, "%s{", half ? ", " : "");
      for (int slot = 0; slot < UC_CUDA_PANEL_PAIRS; slot++)
        uc_text_add(text, "%s{%d, %d}", slot ? ", " : "", (int)p->product[i].kernel[half][slot][0],
                    (int)p->product[i].kernel[half][slot][1]);
      uc_text_add(text, "}");
    }
    uc_text_add(text, "}");
  }
  uc_text_add(text, "%s};\n", p->product_count ? "" : "{{{-1}}}");
}
