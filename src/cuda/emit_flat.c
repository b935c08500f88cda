/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass with a flattened depth: shape_flat.c says what they are. */
#include "../checked.h"
#include "emit.h"

void uc_cuda_emit_flat_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const uc_cuda_flat *f = &k->flattened;
  uc_cuda_emit_define(text, "MT", k->mt);
  uc_cuda_emit_define(text, "NT", k->nt);
  uc_cuda_emit_define(text, "PARTS", e->parts);
  uc_cuda_emit_define(text, "GROUPS", e->lowered->conv.groups);
  uc_cuda_emit_define(text, "STEPS", f->step_count);
  uc_cuda_emit_define(text, "PATTERNS", f->pattern_count);
  uc_cuda_emit_define(text, "X_ROW", f->row);
  uc_cuda_emit_define(text, "X_PLANE", f->plane);
  uc_cuda_emit_define(text, "X_PITCH", f->channel);
  uc_cuda_emit_define(text, "HELD_WEIGHTS", f->held);
  uc_cuda_emit_define(text, "PREFETCH", f->prefetch);
  uc_cuda_emit_define(text, "BULK", f->bulk);
  uc_cuda_emit_define(text, "STRIPS", f->strips);
  uc_cuda_emit_define(text, "VX", f->vx);
  uc_cuda_emit_define(text, "READS_TENSORS", k->view_count > 0);
  uc_cuda_emit_define(text, "WEIGHT_WORDS", f->weight_words);
}

static void begin(uc_text *text, const char *name) {
  uc_text_add(text, "__device__ const int %s[] = {", name);
}

static int64_t base_of(const uc_cuda_kernel *k, const uc_cuda_quad *q) {
  const uc_cuda_flat *f = &k->flattened;
  return q->channel * f->channel + (q->delta[0] - k->x_base[0]) * f->plane +
         (q->delta[1] - k->x_base[1]) * f->row + q->delta[2] - k->x_base[2];
}

/* The quads of step after step, NULL where the second half of one is empty. */
static const uc_cuda_quad *half_of(const uc_cuda_flat *f, int64_t *at, int half, int32_t *residue) {
  if (*at >= f->quad_count) return NULL;
  const uc_cuda_quad *q = &f->quad[*at];
  if (half == 1 && q->residue != *residue) return NULL;
  *residue = q->residue;
  ++*at;
  return q;
}

typedef enum field { BASE, PATTERN, LIVE, PLACE, WINDOW } field;

static void emit_halves(uc_text *text, const uc_cuda_kernel *k, const char *name, field which) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t at = 0, count = 0;
  int32_t residue = 0, window = 0;
  begin(text, name);
  for (int64_t s = 0; s < 2 * f->step_count; s++) {
    const uc_cuda_quad *q = half_of(f, &at, (int)(s % 2), &residue);
    if (q) window = q->window;
    uc_cuda_emit_number(text, &count,
                        which == WINDOW  ? window
                        : !q             ? 0
                        : which == BASE  ? base_of(k, q)
                        : which == LIVE  ? q->live
                        : which == PLACE ? q->delta[2] - k->x_base[2]
                                         : q->pattern);
  }
  uc_text_add(text, "};\n");
}

static void emit_weights(uc_text *text, const uc_cuda_kernel *k) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t at = 0, count = 0;
  int32_t residue = 0;
  begin(text, "word_weight");
  for (int64_t s = 0; s < 2 * f->step_count; s++) {
    const uc_cuda_quad *q = half_of(f, &at, (int)(s % 2), &residue);
    for (int i = 0; i < UC_CUDA_QUAD; i++) uc_cuda_emit_number(text, &count, q ? q->weight[i] : -1);
  }
  uc_text_add(text, "};\n");
}

/* Residues of the steps, and where those of each group of residues begin. */
static void emit_residues(uc_text *text, const uc_cuda_kernel *k) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t at = 0, count = 0, begins = 0, most = 0, last = 0;
  int32_t residue = 0;
  begin(text, "step_residue");
  for (int64_t s = 0; s < f->step_count; s++) {
    half_of(f, &at, 0, &residue);
    uc_cuda_emit_number(text, &count, residue);
    half_of(f, &at, 1, &residue);
  }
  uc_text_add(text, "};\n");
  begin(text, "step_begin");
  uc_cuda_emit_number(text, &begins, 0);
  at = 0;
  for (int64_t rg = 0, s = 0; rg < k->residue_groups; rg++) {
    while (at < f->quad_count && f->quad[at].residue < (rg + 1) * k->rt) {
      half_of(f, &at, 0, &residue);
      half_of(f, &at, 1, &residue);
      s++;
    }
    uc_cuda_emit_number(text, &begins, s);
    most = uc_max(most, s - last);
    last = s;
  }
  uc_text_add(text, "};\n");
  uc_cuda_emit_define(text, "MOST_STEPS", most);
}

static void emit_patterns(uc_text *text, const uc_cuda_kernel *k) {
  const uc_cuda_flat *f = &k->flattened;
  int64_t count = 0;
  begin(text, "pattern_offset");
  for (int64_t p = 0; p < f->pattern_count; p++)
    for (int i = 0; i < UC_CUDA_QUAD; i++) {
      const int32_t *at = f->pattern[p][i];
      uc_cuda_emit_number(text, &count,
                          at[0] * f->channel + at[1] * f->plane + at[2] * f->row + at[3]);
    }
  uc_text_add(text, "};\n\n");
}

void uc_cuda_emit_flat_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  (void)e;
  uc_text_add(text,
              "\n// The depth, eight words a step, in halves of four: where the first lies from a "
              "cell, how the "
              "others lie from it,\n// how many there are; which weights they meet; and which "
              "residue each step serves.\n");
  emit_halves(text, k, "half_base", BASE);
  emit_halves(text, k, "half_pattern", PATTERN);
  emit_halves(text, k, "half_place", PLACE);
  emit_halves(text, k, "half_window", WINDOW);
  emit_halves(text, k, "half_live", LIVE);
  emit_weights(text, k);
  emit_residues(text, k);
  emit_patterns(text, k);
}
