/* SPDX-License-Identifier: Apache-2.0 */
/* Defines and tables of a pass on the tensor cores: shape_mma.c says what they are. */
#include "../checked.h"
#include "codegen.h"
#include "emit.h"
#include "shape.h"
#include "work.h"

void uc_cuda_emit_mma_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_cuda_emit_define(text, "SUMS_POOLED", k->sums_pooled);
  uc_cuda_emit_define(text, "ROLLED", uc_cuda_long_tail(e, k));
  uc_cuda_emit_define(text, "CORE_ORDER", e->core_order);
  uc_cuda_emit_define(text, "MT", k->mt);
  uc_cuda_emit_define(text, "NT", k->nt);
  uc_cuda_emit_define(text, "WARPS_M", k->warps_m);
  uc_cuda_emit_define(text, "ROUNDS", k->rounds);
  uc_cuda_emit_define(text, "CI_STEPS", e->ci_steps);
  uc_text_add(text, "#define WORD_IS_%s 1\n", uc_cuda_type_name(e->word));
  uc_cuda_emit_define(text, "STEP_WORDS", e->step_words);
  if (k->prefetch) uc_cuda_emit_define(text, "VX", k->x_vector);
  uc_cuda_emit_define(text, "WINDOW", k->window);
  uc_cuda_emit_define(text, "VECTOR", k->vector);
  uc_cuda_emit_define(text, "PAIRS", k->pairs);
  uc_cuda_emit_define(text, "X_PLANE", k->x_plane);
  uc_cuda_emit_define(text, "X_STEP", k->x_step_words);
  uc_cuda_emit_define(text, "SKEW_ODD", k->skew_odd);
  uc_cuda_emit_define(text, "SKEW_HIGH", k->skew_high);
  uc_cuda_emit_define(text, "WINDOW_CELL", k->vector == 1 ? 1 : k->step[2]);
}

/* ---- rows of taps ---- */

/* Whether tap t begins a new window: another row of the input or, without windows, another offset. */
static bool begins_row(const uc_cuda_kernel *k, int64_t t) {
  if (t == 0) return true;
  const int32_t *here = k->tap[t].delta, *before = k->tap[t - 1].delta;
  return here[0] != before[0] || here[1] != before[1] || (k->vector == 1 && here[2] != before[2]);
}

/* Windows begin at a multiple of what is loaded together, as late as that. */
static int64_t tap_window(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  if (k->vector == 1) return 0;
  return tap->delta[2] - k->x_base[2] - k->lead / k->vector * k->vector;
}

/* Whether a product begins with tap t. */
static bool begins_product(const uc_cuda_kernel *k, int64_t t) {
  int64_t before = 0;
  while (uc_cuda_tap_goes_on(k, t - before)) before++;
  return before % k->product_taps == 0;
}

/* A number for every product, by its first tap. */
static void emit_products(uc_text *text, const uc_cuda_kernel *k, const char *name,
                          int64_t (*value)(const uc_cuda_kernel *k, int64_t tap)) {
  int64_t count = 0;
  uc_text_add(text, "__device__ const int %s[] = {", name);
  for (int64_t t = 0; t < k->tap_count; t++)
    if (begins_product(k, t)) uc_cuda_emit_number(text, &count, value(k, t));
  uc_text_add(text, "};\n");
}

static int64_t window_of(const uc_cuda_kernel *k, int64_t t) { return tap_window(k, &k->tap[t]); }
static int64_t itself(const uc_cuda_kernel *k, int64_t t) {
  (void)k;
  return t;
}
static int64_t residue_of(const uc_cuda_kernel *k, int64_t t) { return k->tap[t].residue; }

/* What is loaded together, and which products read it. */
static void emit_rows(uc_text *text, const uc_cuda_kernel *k) {
  int64_t rows = 0, products = 0, of_row = 0, most = 0;
  uc_text_add(text, "// Windows of the input, and the products that read each: [row_begin[i], "
                    "row_begin[i + 1]).\n__device__ const int row_at[] = {");
  for (int64_t t = 0; t < k->tap_count; t++)
    if (begins_row(k, t))
      uc_text_add(text, "%s%lld", rows++ ? ", " : "",
                  (long long)(uc_cuda_tap_offset(k, &k->tap[t]) - tap_window(k, &k->tap[t])));
  uc_text_add(text, "};\n__device__ const int row_begin[] = {");
  for (int64_t t = 0; t < k->tap_count; t++) {
    if (begins_row(k, t)) {
      uc_text_add(text, "%s%lld", t ? ", " : "", (long long)products);
      of_row = 0;
    }
    if (!begins_product(k, t)) continue;
    products++;
    most = uc_max(most, ++of_row);
  }
  uc_text_add(text, ", %lld};\n", (long long)products);
  uc_cuda_emit_define(text, "TAP_ROWS", rows);
  uc_cuda_emit_define(text, "MOST_OF_ROW", most);
  uc_text_add(text, "// Where in its window a product begins.\n");
  emit_products(text, k, "in_window", window_of);
}

/* ---- products by four warps ---- */

static void emit_sum(uc_text *text, const uc_cuda_kernel *k, int64_t block, int64_t i) {
  uc_text_add(text, "d[r + %lld][i][%lld][%lld]", (long long)(block / k->nt),
              (long long)(block % k->nt), (long long)i);
}

static void emit_wgmma(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_text_add(
      text,
      "\n// Sums of residues [r, r + %lld) of fragment i += a b.\n"
      "__device__ __forceinline__ void wgmma(float (&d)[RT][MT][NT][4], int r, int i, const "
      "u32 (&a)[4], u64 b) {\n",
      (long long)k->product_taps);
  uc_cuda_emit_wgmma(text, e, k, k->product_taps * k->nt, emit_sum);
  uc_text_add(text, "}\n\n");
}

void uc_cuda_emit_mma_tables(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  emit_rows(text, k);
  if (!k->wgmma) return;
  uc_text_add(text, "// The first tap of a product, and the residue it serves.\n");
  emit_products(text, k, "first_tap", itself);
  emit_products(text, k, "first_residue", residue_of);
  uc_text_add(text, "%s", uc_cuda_embedded("warpgroup"));
  emit_wgmma(text, e, k);
}
