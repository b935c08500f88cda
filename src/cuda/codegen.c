/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's source: readable files of kernels/, specialised by defines, tables of taps and the pass's operators. */
#include "codegen.h"

#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "emit.h"
#include "shape.h"
#include "work.h"

upconv_status uc_cuda_text(void (*write)(uc_text *text, const uc_cuda_engine *engine,
                                         void *argument),
                           const uc_cuda_engine *engine, void *argument, char **source) {
  uc_text text;
  uc_text_init(&text, NULL, 0);
  write(&text, engine, argument);
  size_t capacity = text.length + 1;
  char *buffer = malloc(capacity);
  if (!buffer)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes of generated source", capacity);
  uc_text_init(&text, buffer, capacity);
  write(&text, engine, argument);
  *source = buffer;
  return UPCONV_OK;
}

static void define_axes(uc_text *text, const char *name, const int64_t value[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "#define %s%d %lld\n", name, a, (long long)value[a]);
}

static void define_dhw(uc_text *text, const char *prefix, const int64_t value[UC_AXES]) {
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "#define %s%c %lld\n", prefix, "DHW"[a], (long long)value[a]);
}

/* Elements that a thread holds of a row, side by side. */
static int64_t row_length(const uc_cuda_kernel *k) {
  if (k->pool >= 0) return k->strip;
  return k->rt >= k->residues[2] ? k->strip * k->residues[2] : k->rt; /* else cells do not meet */
}

/* Elements along W that a thread stores together, at most 16 bytes: a divisor of what it holds of a row. */
static int64_t run_length(const uc_cuda_kernel *k, upconv_dtype type) {
  int64_t run = 16 / (int64_t)upconv_dtype_size(type);
  while (row_length(k) % run != 0) run /= 2;
  return run;
}

/* Whether finished rows meet in shared memory first. */
static bool stages_rows(const uc_cuda_kernel *k) {
  return (k->phase && k->phases.row_pitch > 0) || (k->panel && k->panels.row_pitch > 0);
}

/* How a run along W can be stored, for the plan's own extents: 2, as a whole; 1, in halves; 0, element by element. */
static int nominal_width(const uc_cuda_engine *e, const uc_cuda_kernel *k, upconv_dtype type,
                         const int64_t result[UC_RANK]) {
  bool last = k->pass->result == e->program.value_count - 1;
  if (last && e->lowered->source.y_layout == UPCONV_CHANNELS_LAST) return 0;
  int64_t run = run_length(k, type);
  return result[4] % run == 0 ? 2 : result[4] % uc_max(1, run / 2) == 0 ? 1 : 0;
}

/* Whether lanes can exchange halves of runs: those of four lanes lie side by side. */
static bool lanes_meet(const uc_cuda_kernel *k, upconv_dtype type) {
  bool together = k->phase || (k->panel && k->panels.whole_runs);
  return together && !stages_rows(k) && row_length(k) == 4 && run_length(k, type) == 4;
}

/* Whether there are tiles of which a result of the plan's own extents has a part only. */
static bool has_borders(const uc_cuda_kernel *k, const int64_t result[UC_RANK]) {
  bool borders = result[0] % k->samples != 0;
  for (int a = 0; a < UC_AXES; a++)
    borders =
        borders || uc_cuda_before_first(k, a) != 0 || result[a + 2] % uc_max(1, k->tile[a]) != 0;
  return borders;
}

/* Of the candidates whose threads have two cells side by side: how the results of the plan's own extents are stored. */
static void emit_pair_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k,
                              upconv_dtype type) {
  static const char *const name[] = {"APART", "HALVES", "WHOLE"};
  int64_t shape[UC_CUDA_MAX_VALUES + 1][UC_RANK] = {{0}};
  if (uc_lowered_nominal_shapes(e->lowered, shape) != UPCONV_OK) memset(shape, 0, sizeof shape);
  const int64_t *result = shape[k->pass->result];
  int width = nominal_width(e, k, type, result);
  uc_text_add(text, "#define WIDTH %s\n", name[width]);
  uc_cuda_emit_define(text, "LANES_MEET", width == 1 && lanes_meet(k, type));
  uc_cuda_emit_define(text, "BORDERS", has_borders(k, result));
  uc_cuda_emit_define(text, "ROLLED", uc_cuda_long_tail(e, k));
}

/* What the inner product alone needs. */
static void emit_inner_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  if (k->gemm) {
    uc_cuda_emit_gemm_defines(text, e, k);
  } else if (k->phase) {
    uc_cuda_emit_phase_defines(text, e, k);
  } else if (k->panel) {
    uc_cuda_emit_panel_defines(text, e, k);
  } else if (k->mma) {
    uc_cuda_emit_mma_defines(text, e, k);
  } else if (k->depthwise) {
    uc_cuda_emit_define(text, "GROUP_OUT", e->group_out);
    uc_cuda_emit_define(text, "CHANNELS_FAST", k->channels_fast);
    uc_cuda_emit_define(text, "HAS_BIAS", e->lowered->conv.bias);
    uc_cuda_emit_define(text, "XC", k->x_channels);
    uc_cuda_emit_define(text, "VX", k->x_vector);
  } else if (k->flat) {
    uc_cuda_emit_flat_defines(text, e, k);
  } else if (k->scatter) {
    uc_cuda_emit_scatter_defines(text, e, k);
  } else {
    uc_cuda_emit_define(text, "MC", k->mc);
    uc_cuda_emit_define(text, "CELLS", k->thread_cells);
    define_dhw(text, "L", k->lanes);
    int64_t next[UC_AXES] = {0, 0, 0};
    next[k->thread_axis] = k->thread_axis == 2 ? k->lanes[2] : 1;
    define_axes(text, "NEXT", next);
    uc_cuda_emit_define(text, "X_ROW", k->x_row);
    uc_cuda_emit_define(text, "X_PLANE", k->x_plane);
    uc_cuda_emit_define(text, "FUSED", k->fused);
    if (k->direct) uc_cuda_emit_define(text, "INVERSE_AT", k->inverse_at);
  }
}

static void emit_conv_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const upconv_problem *p = &e->lowered->conv;
  uc_cuda_emit_define(text, "CI", e->group_in);
  uc_cuda_emit_define(text, "KERNEL", e->kernel_size);
  uc_cuda_emit_define(text, "CO_PAD", e->co_pad);
  uc_cuda_emit_define(text, "WEIGHTS_AT", e->weights_at);
  uc_cuda_emit_define(text, "BIAS_AT", e->bias_at);
  uc_cuda_emit_define(text, "FACTOR_AT", e->factor_at);
  uc_text_add(text, "#define X_TYPE %s\n", uc_cuda_type_name(p->x_dtype));
  uc_cuda_emit_define(text, "X_LAST", p->x_layout == UPCONV_CHANNELS_LAST);
  define_dhw(text, "T", k->cells);
  define_dhw(text, "X", k->x_size);
  define_axes(text, "X_BASE", k->x_base);
  define_axes(text, "R", k->residues);
  define_axes(text, "I", k->step);
  define_axes(text, "BASE", k->base);
  uc_cuda_emit_define(text, "RT", k->rt);
  uc_cuda_emit_define(text, "RESIDUE_GROUPS", k->residue_groups);
  int64_t one[UC_AXES] = {1, 1, 1}, none[UC_AXES] = {0, 0, 0};
  define_axes(text, "Y_CELL", k->pool >= 0 ? one : k->residues);
  define_axes(text, "Y_BASE", k->pool >= 0 ? none : k->base);
  bool last = k->pass->result == e->program.value_count - 1;
  upconv_dtype type = last ? e->lowered->source.y_dtype : UPCONV_F32;
  uc_text_add(text, "#define Y_TYPE %s\n", uc_cuda_type_name(type));
  uc_cuda_emit_define(text, "CHANNELS_TOO", k->gemm || k->direct);
  uc_cuda_emit_define(text, "MOVES_Y", k->gemm || k->panel || k->phase || k->x_row > 0);
  uc_cuda_emit_define(text, "POSITIONS_AT", k->positions_at);
  uc_cuda_emit_define(text, "DIRECT", k->direct);
  uc_cuda_emit_define(text, "STRIP", k->strip);
  uc_cuda_emit_define(text, "RUN", run_length(k, type));
  uc_cuda_emit_define(text, "CELLS_LIVE", k->phase || k->panel);
  if (k->phase || k->panel) emit_pair_defines(text, e, k, type);
  uc_cuda_emit_define(text, "EC", k->chunk);
  uc_cuda_emit_define(text, "TAPS", k->tap_count);
  uc_cuda_emit_define(text, "STATIC_TAPS", k->static_taps);
  uc_cuda_emit_define(text, "SHARED_WEIGHTS", k->shared_weights);
  uc_cuda_emit_define(text, "X_FLOATS", k->x_floats);
  uc_cuda_emit_define(text, "TEAM_FLOATS", k->team_floats);
  if (!k->flat) uc_cuda_emit_define(text, "PREFETCH", k->prefetch);
  uc_cuda_emit_define(text, "RESIDENT_WEIGHTS", k->resident);
  uc_cuda_emit_define(text, "SAMPLES", k->samples);
  uc_cuda_emit_define(text, "RESIDUE_BLOCKS", uc_cuda_many_channels(k) ? k->residue_groups : 1);
  emit_inner_defines(text, e, k);
}

static void emit_defines(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  int64_t channels = k->pass->step[k->pass->target].channels;
  bool by_group = k->pass->conv && !k->depthwise; /* else blocks count all channels through */
  int64_t co = by_group ? e->group_out : channels, groups = by_group ? e->lowered->conv.groups : 1;
  int64_t blocks = uc_ceil_div(co, k->bm);
  uc_text_add(text, "\n// ---- this pass ----\n");
  uc_text_add(text, "#define KERNEL_NAME %s\n", k->name);
  uc_cuda_emit_define(text, "THREADS", k->threads);
  uc_cuda_emit_define(text, "TEAMS", k->teams);
  uc_cuda_emit_define(text, "MIN_BLOCKS", k->min_blocks);
  uc_cuda_emit_define(text, "CO", co);
  uc_cuda_emit_define(text, "BM", k->bm);
  uc_cuda_emit_define(text, "BLOCKS_PER_GROUP", blocks);
  uc_cuda_emit_define(text, "CHANNEL_BLOCKS", blocks * groups);
  uc_cuda_emit_define(text, "CHANNELS", channels);
  uc_cuda_emit_define(text, "ALL_CHANNELS", k->pass->all_channels);
  uc_cuda_emit_define(text, "HAS_CONV", k->pass->conv);
  uc_cuda_emit_define(text, "TILE_FLOATS", k->fused ? 0 : k->slot_floats);
  define_axes(text, "TARGET", k->tile);
  define_axes(text, "CELL_STEP", k->cell_step);
  define_axes(text, "CELL_PARTS", k->cell_parts);
  uc_cuda_emit_define(text, "SCALES_SUMS", e->scales_sums);
  if (k->pass->conv) emit_conv_defines(text, e, k);
}

/* Laid out as launch_pass in launch.c writes it. */
static void emit_args(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  if (uc_cuda_maps_x(k))
    uc_text_add(text, "\n// x as rows of words, for the copy engine.\n"
                      "struct __align__(64) Map {\n  i64 words[16];\n};\n");
  else if (k->gemm)
    uc_text_add(text, "\n// x as rows of words: in bytes, from sample to sample, group, chunk, "
                      "position.\n"
                      "struct Rows {\n"
                      "  const char *origin;\n"
                      "  i64 stride[6];\n"
                      "};\n");
  uc_text_add(text,
              "\nstruct Args {\n"
              "%s"
              "  View x, y;\n"
              "  int x_step[3], y_step[3];       // their spatial strides: offsets within a tile "
              "fit 32 bits\n"
              "%s"
              "  View view[%lld];\n"
              "  const float *packed;\n"
              "  double *partial;\n"
              "  i64 tiles;                      // of all samples and channel blocks\n"
              "  int n0, batch;                  // samples of this run\n"
              "  int grid[3], grid_begin[3];     // tiles of the target\n"
              "  int y_begin[5], y_end[5];       // what to store\n"
              "  int size[%d][3];                // of every value\n"
              "};\n\n",
              uc_cuda_maps_x(k) ? "  Map map;\n" : "",
              uc_cuda_maps_x(k) ? "  i64 first_sample;\n"
              : k->gemm         ? "  Rows rows;\n"
                                : "",
              (long long)uc_max(1, k->view_count), e->program.value_count);
}

/* ---- tables of taps ---- */

/* Tables of unrolled loops vanish; what a loop reads by its counter is best kept in constant memory. */
static const char *table_space(const uc_cuda_kernel *k) {
  return uc_cuda_many_channels(k) ? "__constant__" : "__device__";
}

void uc_cuda_emit_table(uc_text *text, const uc_cuda_kernel *k, const char *name,
                        int64_t (*value)(const uc_cuda_kernel *, const uc_cuda_tap *)) {
  uc_text_add(text, "%s const int %s[] = {", table_space(k), name);
  for (int64_t t = 0, count = 0; t < k->tap_count; t++)
    uc_cuda_emit_number(text, &count, value(k, &k->tap[t]));
  uc_text_add(text, "};\n");
}

int64_t uc_cuda_tap_offset(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  int64_t base[UC_AXES];
  memcpy(base, k->x_base, sizeof base);
  if (uc_cuda_many_channels(k)) uc_cuda_gemm_base(k, tap->residue / k->rt, base);
  int64_t row = k->x_row ? k->x_row : k->x_size[2];
  int64_t plane = k->x_row ? k->x_plane : k->x_size[1] * row;
  return (tap->delta[0] - base[0]) * plane + (tap->delta[1] - base[1]) * row + tap->delta[2] -
         base[2];
}

static int64_t tap_kernel(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  (void)k;
  return tap->kernel;
}

static int64_t tap_residue(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  (void)k;
  return tap->residue;
}

/* The residue's place among those that a thread holds. */
static int64_t tap_held(const uc_cuda_kernel *k, const uc_cuda_tap *tap) {
  return tap->residue % k->rt;
}

/* Many channels where residues are columns: every shift once, for all of them; its weights are in that order. */
static void emit_shifts(uc_text *text, const uc_cuda_kernel *k) {
  const char *space = table_space(k);
  uc_text_add(text, "%s const int tap_offset[] = {", space);
  for (int64_t t = 0; t < k->tap_count; t++)
    if (uc_cuda_new_shift(k, t))
      uc_text_add(text, "%s%lld", t ? ", " : "", (long long)uc_cuda_tap_offset(k, &k->tap[t]));
  uc_text_add(text, "};\n%s const int tap_kernel[] = {", space);
  for (int64_t i = 0; i < k->shifts; i++) uc_text_add(text, "%s%lld", i ? ", " : "", (long long)i);
  uc_text_add(text, "};\n%s const int tap_begin[] = {0, %lld};\n", space, (long long)k->shifts);
}

static void emit_begins(uc_text *text, const uc_cuda_kernel *k) {
  uc_text_add(text,
              "// Taps of residue r: [tap_begin[r], tap_begin[r + 1]).\n%s const int "
              "tap_begin[] = {0",
              table_space(k));
  for (int64_t r = 0; r < k->rt * k->residue_groups; r++) {
    int64_t before = 0;
    for (int64_t t = 0; t < k->tap_count; t++) before += k->tap[t].residue <= r;
    uc_text_add(text, ", %lld", (long long)before);
  }
  uc_text_add(text, "};\n");
}

/* An unrolled loop goes offset by offset, so that what is loaded once serves all its taps; a loop over residues needs the
   taps in their order. */
static void emit_taps(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  uc_text_add(text, "\n// Taps: where they read the input tile, which element of the kernel they "
                    "are, which residue they serve.\n");
  if (k->wide) {
    emit_shifts(text, k);
    return;
  }
  if (!k->mma) uc_cuda_emit_table(text, k, "tap_offset", uc_cuda_tap_offset);
  if (!k->panel) uc_cuda_emit_table(text, k, "tap_kernel", tap_kernel);
  if (!k->static_taps)
    emit_begins(text, k);
  else if (!k->wgmma)
    uc_cuda_emit_table(text, k, "tap_residue", tap_residue);
  if (k->gemm && k->wgmma) uc_cuda_emit_table(text, k, "tap_held", tap_held);
  if (k->mma) uc_cuda_emit_mma_tables(text, e, k);
  uc_text_add(text, "\n");
}

/* ---- the whole ---- */

/* Where results are put first. */
static const char *output_of(const uc_cuda_kernel *k) {
  if (k->flat) return "output_staged";
  return stages_rows(k) ? "output_row" : "output";
}

static void write_kernel(uc_text *text, const uc_cuda_engine *e, void *argument) {
  uc_cuda_kernel *k = argument;
  uc_text_add(text, "// ");
  uc_problem_print(&e->lowered->conv, text);
  if (e->lowered->tail->op_count > 0) {
    uc_text_add(text, " | ");
    uc_epilogue_print(e->lowered->tail, text);
  }
  uc_text_add(text, "\n// value %%%d, for %s\n\n%s", k->pass->result, e->target.arch,
              uc_cuda_embedded("prelude"));
  emit_defines(text, e, k);
  emit_args(text, e, k);
  uc_text_add(text, "%s", uc_cuda_embedded("tile"));
  if (k->fused) {
    const char *output = output_of(k);
    uc_text_add(text, "\n%s", uc_cuda_embedded(output));
    if (strcmp(output, "output") != 0) uc_text_add(text, "%s", uc_cuda_embedded("output_shared"));
    uc_cuda_emit_finish_fused(text, e, k);
  } else {
    uc_cuda_emit_tiled(text, e, k);
  }
  if (k->fused) uc_text_add(text, "\n%s", uc_cuda_embedded("fused_tile"));
  if (k->flat) {
    uc_cuda_emit_flat_tables(text, e, k);
    const char *const file[] = {"flat", "position",   "stage",     "flat_convolve",
                                "run",  "flat_store", "flat_fused"};
    for (int i = 0; i < 7; i++) uc_text_add(text, "%s\n", uc_cuda_embedded(file[i]));
    return;
  }
  if (k->scatter) {
    uc_cuda_emit_scatter_tables(text, e, k);
    uc_text_add(text, "%s\n%s", uc_cuda_embedded("scatter"), uc_cuda_embedded("scatter_fused"));
    return;
  }
  if (k->pass->conv) {
    if (k->phase)
      uc_cuda_emit_phase_tables(text, e, k);
    else
      emit_taps(text, e, k);
    static const char *const
        ffma[] = {"ffma", "ffma_staged", "position", "stage", "inverse", "ffma_convolve", NULL},
        *const ffma_direct[] = {"ffma", "inverse", "ffma_direct", NULL},
        *const depthwise[] = {"depthwise", "depthwise_stage", "depthwise_convolve", NULL},
        *const gemm_sync[] = {"gemm", "gemm_mma", "gemm_rows", NULL},
        *const gemm_fours[] = {"gemm", "barrier", "gemm_wgmma", "gemm_rows", NULL},
        *const direct[] = {"barrier",      "matrix",       "pair", "phase",
                           "rolled",       "phase_direct", "word", "position",
                           "phase_bounds", "phase_fused",  NULL},
        *const rows[] = {"barrier",    "matrix", "pair",     "phase",        "rolled",      "run",
                         "phase_rows", "word",   "position", "phase_bounds", "phase_fused", NULL},
        *const panels[] = {"barrier",      "matrix",      "pair",        "panel", "rolled",
                           "panel_direct", "panel_fused", "panel_units", NULL},
        *const panel_rows[] = {"barrier", "matrix",     "pair",        "panel",       "rolled",
                               "run",     "panel_rows", "panel_fused", "panel_units", NULL};
    const char *const mma[] = {
        "word",       "mma",          k->wgmma ? "mma_warpgroup" : "mma_sync", "position", "stage",
        "mma_finish", "mma_convolve", k->prefetch ? "prefetch" : NULL,         NULL};
    const char *const *file = k->mma         ? mma
                              : k->phase     ? (stages_rows(k) ? rows : direct)
                              : k->panel     ? (stages_rows(k) ? panel_rows : panels)
                              : k->gemm      ? (k->wgmma ? gemm_fours : gemm_sync)
                              : k->depthwise ? depthwise
                              : k->direct    ? ffma_direct
                                             : ffma;
    if (k->gemm) uc_cuda_emit_gemm_tables(text, e, k);
    if (k->panel) uc_cuda_emit_panel_tables(text, e, k);
    for (int i = 0; file[i]; i++) uc_text_add(text, "%s\n", uc_cuda_embedded(file[i]));
  }
  uc_text_add(text, "%s", uc_cuda_embedded(k->fused ? "fused" : "tiled"));
  if (k->pass->reduce_op >= 0) uc_cuda_emit_combine(text, e, k);
}

upconv_status uc_cuda_kernel_source(const uc_cuda_engine *e, uc_cuda_kernel *k, char **source) {
  free(*source); /* of an earlier try */
  *source = NULL;
  if (k->static_taps && k->tap) uc_cuda_sort_taps(k);
  return uc_cuda_text(write_kernel, e, k, source);
}
