/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass for few output channels: shape_scatter.c says what they are. */
#include "../checked.h"
#include "emit.h"
#include "shape.h"

void uc_cuda_emit_scatter_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_scatter *s = &k->scattered;
  uc_cuda_emit_define(text, "STEPS", e->ci_steps);
  uc_cuda_emit_define(text, "KERNEL_DEPTH", e->lowered->conv.axis[0].kernel);
  uc_cuda_emit_define(text, "FRAGMENTS", e->scatter_fragments);
  uc_cuda_emit_define(text, "OPEN", s->open);
  uc_cuda_emit_define(text, "PARTS", s->parts);
  uc_cuda_emit_define(text, "MT", k->mt);
  uc_cuda_emit_define(text, "SUM_ROWS", s->rows);
  uc_cuda_emit_define(text, "RESIDUE_ROWS", s->rows / k->residues[0]);
  uc_cuda_emit_define(text, "LEAD", s->lead);
  uc_cuda_emit_define(text, "X_ROW", s->row);
  uc_cuda_emit_define(text, "PITCH", s->pitch);
  uc_cuda_emit_define(text, "SUMS_AT", k->staging_floats);
  uc_cuda_emit_define(text, "WIDE_X", s->wide);
  uc_text_add(text, "#define WORD_IS_%s 1\n", uc_cuda_type_name(e->word));
}

/* ---- what is added in registers ---- */

/* The kernel element along D by which a plane of those that a layer reads serves a residue along D, or -1. */
static int64_t depth_kernel(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t residue,
                            int64_t plane) {
  for (int64_t t = 0; t < k->tap_count; t++) {
    const uc_cuda_tap *tap = &k->tap[t];
    if (tap->residue / (k->residues[1] * k->residues[2]) == residue &&
        tap->delta[0] - k->x_base[0] == plane)
      return tap->kernel / uc_cuda_plane_taps(e);
  }
  return -1;
}

static void emit_depth(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t count = 0;
  uc_text_add(text,
              "\n// The kernel element along D by which a plane of x serves a residue along D; -1: "
              "none.\n__device__ const int depth_kernel[] = {");
  for (int64_t r = 0; r < k->residues[0]; r++)
    for (int64_t p = 0; p < k->x_size[0]; p++)
      uc_cuda_emit_number(text, &count, depth_kernel(e, k, r, p));
  uc_text_add(text, "};\n");
}

/* ---- what is added of the sums in shared memory ---- */

/* Whether a tap is the first of those that differ along D alone. */
static bool is_term(const uc_cuda_engine *e, const uc_cuda_kernel *k, int64_t t) {
  const uc_cuda_tap *tap = &k->tap[t];
  for (int64_t i = 0; i < k->tap_count; i++) {
    const uc_cuda_tap *other = &k->tap[i];
    if (other->residue == tap->residue && other->kernel < tap->kernel &&
        (tap->kernel - other->kernel) % uc_cuda_plane_taps(e) == 0)
      return false;
  }
  return true;
}

typedef enum field { RESIDUE, ROW, PLACE } field;

static int64_t value_of(const uc_cuda_engine *e, const uc_cuda_kernel *k, const uc_cuda_tap *tap,
                        field which) {
  const uc_cuda_scatter *s = &k->scattered;
  if (which == RESIDUE) return tap->residue;
  if (which == ROW)
    return tap->residue / (k->residues[1] * k->residues[2]) * (s->rows / k->residues[0]) +
           tap->kernel % uc_cuda_plane_taps(e);
  return (tap->delta[1] - k->x_base[1]) * s->row + tap->delta[2] - k->x_base[2] + s->lead;
}

static void emit_terms(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k,
                       const char *name, field which) {
  int64_t count = 0;
  uc_text_add(text, "__device__ const int %s[] = {", name);
  for (int64_t t = 0; t < k->tap_count; t++)
    if (is_term(e, k, t)) uc_cuda_emit_number(text, &count, value_of(e, k, &k->tap[t], which));
  if (count == 0) uc_cuda_emit_number(text, &count, 0);
  uc_text_add(text, "};\n");
}

static void emit_begins(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t count = 0, most = 0, last = 0;
  uc_text_add(text,
              "// Of the residues that are held together.\n__device__ const int terms_begin[] = {");
  uc_cuda_emit_number(text, &count, 0);
  for (int64_t rg = 0, t = 0, terms = 0; rg < k->residue_groups; rg++) {
    for (; t < k->tap_count && k->tap[t].residue < (rg + 1) * k->rt; t++) terms += is_term(e, k, t);
    uc_cuda_emit_number(text, &count, terms);
    most = uc_max(most, terms - last);
    last = terms;
  }
  uc_text_add(text, "};\n");
  uc_cuda_emit_define(text, "MOST_TERMS", most);
}

void uc_cuda_emit_scatter_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  emit_depth(text, e, k);
  uc_text_add(text,
              "\n// What a cell adds: for which residue, which row of sums, and where from the "
              "cell's first position.\n");
  emit_terms(text, e, k, "term_residue", RESIDUE);
  emit_terms(text, e, k, "term_row", ROW);
  emit_terms(text, e, k, "term_place", PLACE);
  emit_begins(text, e, k);
}
