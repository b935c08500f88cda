/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass for few output channels: shape_scatter.c says what they are. */
#include "../checked.h"
#include "emit.h"
#include "shape.h"

void uc_cuda_emit_scatter_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_scatter *s = &k->scattered;
  uc_cuda_emit_define(text, "STEPS", e->ci_steps);
  uc_cuda_emit_define(text, "FRAGMENTS", e->scatter_fragments);
  uc_cuda_emit_define(text, "PARTS", s->parts);
  uc_cuda_emit_define(text, "MT", k->mt);
  uc_cuda_emit_define(text, "SUM_ROWS", s->rows);
  uc_cuda_emit_define(text, "LEAD", s->lead);
  uc_cuda_emit_define(text, "X_ROW", s->row);
  uc_cuda_emit_define(text, "PITCH", s->pitch);
  uc_cuda_emit_define(text, "SUMS_AT", k->staging_floats);
  uc_cuda_emit_define(text, "WIDE_X", s->wide);
  uc_text_add(text, "#define WORD_IS_%s 1\n", uc_cuda_type_name(e->word));
}

static int64_t tap_kernel(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  (void)k;
  return tap->kernel;
}

static int64_t tap_residue(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  (void)k;
  return tap->residue;
}

static int64_t tap_plane(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  return tap->delta[0] - k->x_base[0];
}

static int64_t tap_place(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  const uc_cuda_scatter *s = &k->scattered;
  return (tap->delta[1] - k->x_base[1]) * s->row + tap->delta[2] - k->x_base[2] + s->lead;
}

void uc_cuda_emit_scatter_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  (void)e;
  int64_t count = 0, most = 0, last = 0;
  uc_text_add(text, "\n// Taps: which element of the kernel they are, which residue they serve, and which "
                    "sums of a row they are,\n// by plane and from a cell's first position of it.\n");
  uc_cuda_emit_table(text, k, "tap_kernel", tap_kernel);
  uc_cuda_emit_table(text, k, "tap_residue", tap_residue);
  uc_cuda_emit_table(text, k, "tap_plane", tap_plane);
  uc_cuda_emit_table(text, k, "tap_place", tap_place);
  uc_text_add(text, "// Of the residues that are held together.\n__device__ const int taps_begin[] = {");
  uc_cuda_emit_number(text, &count, 0);
  for (int64_t rg = 0, t = 0; rg < k->residue_groups; rg++) {
    while (t < k->tap_count && k->tap[t].residue < (rg + 1) * k->rt) t++;
    uc_cuda_emit_number(text, &count, t);
    most = uc_max(most, t - last);
    last = t;
  }
  uc_text_add(text, "};\n");
  uc_cuda_emit_define(text, "MOST_TAPS", most);
}
