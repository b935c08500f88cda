/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass whose products have channels as rows: shape_panel.c says what they are. */
#include "../checked.h"
#include "codegen.h"
#include "emit.h"
#include "shape.h"

void uc_cuda_emit_panel_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_panel *p = &k->panels;
  uc_cuda_emit_define(text, "SUMS_POOLED", k->sums_pooled);
  uc_cuda_emit_define(text, "HELD", k->held);
  uc_cuda_emit_define(text, "GROUPS", p->groups);
  uc_cuda_emit_define(text, "GROUP_STEP", p->group_step);
  uc_cuda_emit_define(text, "TEAMS_M", p->teams_m);
  uc_cuda_emit_define(text, "CREWS", p->crews);
  uc_cuda_emit_define(text, "QUADS", p->quads);
  uc_cuda_emit_define(text, "CHUNKS", k->chunks);
  uc_cuda_emit_define(text, "STAGES", k->stages);
  uc_cuda_emit_define(text, "X_BUFFERS", k->x_buffers);
  uc_cuda_emit_define(text, "COPIERS", k->copiers);
  if (p->row_pitch > 0) {
    uc_cuda_emit_define(text, "ROUND_RUNS", p->round_runs);
    uc_cuda_emit_define(text, "ROW_PITCH", p->row_pitch);
  }
  uc_cuda_emit_define(text, "ROWS_AT", k->sums_at);
  uc_cuda_emit_define(text, "REGISTERS_KEPT", k->registers_kept);
  uc_cuda_emit_define(text, "REGISTERS_TAKEN", k->registers_taken);
  uc_cuda_emit_define(text, "GROUPS_OF_X", e->lowered->conv.groups);
  uc_text_add(text, "#define WORD_IS_%s 1\n#define ROWS_NAME %s_rows\n", uc_cuda_type_name(e->word),
              k->name);
}

static void emit_positions(uc_text *text, const uc_cuda_panel *p) {
  uc_text_add(text, "// Where the teams' parts of a tile begin.\n"
                    "__constant__ const int part_position[] = {");
  for (int64_t i = 0; i < p->part_count; i++)
    uc_text_add(text, "%s%lld", i ? ", " : "", (long long)p->part_position[i]);
  uc_text_add(text, "};\n");
}

static int64_t taps_of(const uc_cuda_kernel *k, int64_t group) {
  int64_t count = 0;
  for (int64_t t = 0; t < k->tap_count; t++) count += k->tap[t].residue / k->rt == group;
  return count;
}

/* Groups of residues, those with the most taps first: where blocks have different numbers of jobs, the last are short. */
static void emit_order(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "__constant__ const int heavy_first[] = {");
  int64_t count = 0, most = 0;
  for (int64_t g = 0; g < k->residue_groups; g++) most = uc_max(most, taps_of(k, g));
  for (int64_t taps = most; taps >= 0; taps--)
    for (int64_t g = 0; g < k->residue_groups; g++)
      if (taps_of(k, g) == taps) uc_cuda_emit_number(text, &count, g);
  uc_text_add(text, "};\n");
}

void uc_cuda_emit_panel_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_cuda_emit_group_bases(text, k);
  emit_positions(text, &k->panels);
  emit_order(text, k);
  uc_text_add(text,
              "\n// d += a b: 64 channels by %lld positions; where add is false sums begin anew.\n"
              "__device__ __forceinline__ void wgmma(float (&d)[%lld], unsigned long long a, "
              "unsigned long long b, bool add) {\n",
              (long long)k->panels.groups * 8, (long long)k->panels.groups * 4);
  uc_cuda_emit_wgmma_shared(text, e, k->panels.groups);
  uc_text_add(text, "}\n\n");
}

void uc_cuda_emit_panel_packing(uc_text *text, const uc_cuda_kernel *k) {
  uc_cuda_emit_define(text, "BLOCKS_PER_GROUP", k->panels.blocks);
  uc_cuda_emit_define(text, "BM", k->bm);
  uc_cuda_emit_define(text, "QUADS", k->panels.quads);
  uc_cuda_emit_define(text, "CHUNKS", k->chunks);
  uc_cuda_emit_define(text, "TAPS", k->tap_count);
  int64_t count = 0, taps = 0;
  uc_text_add(text, "// Taps of a group of residues: [group_begin[g], group_begin[g + 1]).\n"
                    "__device__ const int group_begin[] = {0");
  for (int64_t g = 0; g < k->residue_groups; g++)
    uc_text_add(text, ", %lld", (long long)(taps += taps_of(k, g)));
  uc_text_add(text, "};\n__device__ const int tap_kernel[] = {");
  for (int64_t t = 0; t < k->tap_count; t++) uc_cuda_emit_number(text, &count, k->tap[t].kernel);
  uc_text_add(text, "};\n");
}
