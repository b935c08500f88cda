/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass for many channels: shape_gemm.c says what they are. */
#include "codegen.h"
#include "emit.h"
#include "shape.h"
#include "work.h"

static bool stores_channels_last(const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  bool last = k->pass->result == e->program.value_count - 1;
  return last && e->lowered->source.y_layout == UPCONV_CHANNELS_LAST;
}

void uc_cuda_emit_gemm_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_cuda_emit_define(text, "MT", k->mt);
  uc_cuda_emit_define(text, "NT", k->nt);
  uc_cuda_emit_define(text, "WARPS_M", k->warps_m);
  uc_cuda_emit_define(text, "WARPS_N", k->teams_n);
  uc_cuda_emit_define(text, "CI_STEPS", e->ci_steps);
  uc_cuda_emit_define(text, "GROUPS", e->lowered->conv.groups);
  uc_cuda_emit_define(text, "Y_LAST", stores_channels_last(e, k));
  uc_cuda_emit_define(text, "STAGES", k->stages);
  uc_cuda_emit_define(text, "WGMMA", k->wgmma);
  uc_cuda_emit_define(text, "ROLLED", uc_cuda_long_tail(e, k));
  if (!k->wgmma) uc_cuda_emit_define(text, "STEPS_AHEAD", k->steps_ahead);
  uc_cuda_emit_define(text, "WIDE", k->wide);
  uc_cuda_emit_define(text, "HELD", k->held);
  uc_cuda_emit_define(text, "WEIGHT_TAPS", e->weight_taps);
  if (k->registers_taken) {
    uc_cuda_emit_define(text, "REGISTERS_KEPT", k->registers_kept);
    uc_cuda_emit_define(text, "REGISTERS_TAKEN", k->registers_taken);
  }
  uc_cuda_emit_define(text, "ROUND", k->round);
  if (k->wgmma) {
    uc_cuda_emit_define(text, "COPIERS", k->copiers);
    uc_cuda_emit_define(text, "BARRIERS_AT", k->barriers_at);
    uc_cuda_emit_define(text, "SUMS_AT", k->sums_at);
  } else {
    uc_cuda_emit_define(text, "LOCATED_AT", k->located_at);
  }
  uc_cuda_emit_define(text, "X_BUFFERS", k->x_buffers);
  uc_text_add(text, "#define WORD_IS_%s 1\n#define ROWS_NAME %s_rows\n", uc_cuda_type_name(e->word),
              k->name);
}

void uc_cuda_emit_group_bases(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "__constant__ const int first_delta[][3] = {");
  for (int64_t g = 0; g < k->residue_groups; g++) {
    int64_t base[UC_AXES];
    uc_cuda_gemm_base(k, g, base);
    uc_text_add(text, "%s{%lld, %lld, %lld}", g ? ", " : "", (long long)base[0], (long long)base[1],
                (long long)base[2]);
  }
  uc_text_add(text, "};\n");
}

/* Where residues are columns: the shifts of the cells, and which residues have a tap there. */
static void emit_live(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text, "__constant__ const int shift_delta[][3] = {");
  for (int64_t t = 0; t < k->tap_count; t++)
    if (uc_cuda_new_shift(k, t))
      uc_text_add(text, "%s{%d, %d, %d}", t ? ", " : "", (int)k->tap[t].delta[0],
                  (int)k->tap[t].delta[1], (int)k->tap[t].delta[2]);
  uc_text_add(text, "};\n__constant__ const bool column_live[][RT] = {");
  for (int64_t t = 0; t < k->tap_count; t++) {
    if (!uc_cuda_new_shift(k, t)) continue;
    uc_text_add(text, t ? ",\n  {" : "{");
    for (int64_t r = 0; r < k->rt; r++)
      uc_text_add(text, "%s%d", r ? ", " : "", uc_cuda_column_kernel(k, t, r) >= 0);
    uc_text_add(text, "}");
  }
  uc_text_add(text, "};\n");
}

static void emit_sum(uc_text *text, const uc_cuda_kernel *k, int64_t block, int64_t i) {
  (void)k;
  uc_text_add(text, "d[%lld][%lld]", (long long)block, (long long)i);
}

static void emit_wgmma(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_text_add(text, "%s", uc_cuda_embedded("warpgroup"));
  uc_text_add(text,
              "\n// d += a b: 64 cells by %lld channels.\n"
              "__device__ __forceinline__ void wgmma(float (&d)[NT][4], const u32 (&a)[4], u64 b) "
              "{\n",
              (long long)(k->nt * 8));
  uc_cuda_emit_wgmma(text, e, k, k->nt, emit_sum);
  uc_text_add(text, "}\n\n");
}

void uc_cuda_emit_gemm_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_cuda_emit_group_bases(text, k);
  if (k->wide) emit_live(text, k);
  if (k->wgmma) emit_wgmma(text, e, k);
}
