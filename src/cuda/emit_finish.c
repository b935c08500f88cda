/* SPDX-License-Identifier: Apache-2.0 */
/* The code that finishes cells in registers: what follows the convolution, for one channel of a strip of cells. */
#include <stdio.h>

#include "../op.h"
#include "codegen.h"
#include "emit.h"
#include "work.h"

/* Where operators stand: before a pool, or behind it. */
typedef struct place {
  bool before;
  const char *coordinates; /* of their result */
  const char *index;       /* of their result, within the strip */
  const char *indent;
} place;

typedef struct writer {
  uc_text *text;
  const uc_cuda_engine *e;
  uc_cuda_kernel *k;
  int loads[2]; /* so far, of elements that lie in memory: behind a pool, before it */
} writer;

/* Whether elements that lie in memory are loaded by a function of their own, so that they are under way while other strips are
   finished. */
static bool loads_ahead(const writer *w) { return w->k->phase || w->k->panel; }

/* Whether the order in which they are loaded is kept: what four warps finish straight into y has hardly a register left. */
static bool loads_in_turn(const writer *w) { return w->k->panel && w->k->panels.row_pitch == 0; }

/* Whether a long tail is in the code once, for strips that are stored whole and for those of which y holds a part. */
static bool stores_either(const writer *w) { return w->k->mma && uc_cuda_long_tail(w->e, w->k); }

static int step_value(const uc_step *step) { return step->kind == UC_STEP_OP ? step->op + 1 : 0; }

/* ---- operands ---- */

static void write_load(const writer *w, const upconv_operand *o, const place *at, uc_text *text) {
  bool tensor = o->kind == UPCONV_OPERAND_TENSOR;
  upconv_dtype type = tensor ? w->e->lowered->tail->tensor[o->index].dtype : UPCONV_F32;
  int view = uc_cuda_view_of(w->k, tensor, o->index);
  uc_text_add(text, "%s<%s>(in, a.view[%d].origin, view_index(a.view[%d], n, c, %s))",
              loads_in_turn(w) ? "load_in_turn" : "load_if", uc_cuda_type_name(type), view, view,
              at->coordinates);
}

/* The next element that was loaded ahead. */
static void write_loaded(writer *w, const place *at, uc_text *text) {
  uc_text_add(text, "extra.%s[%d][%s]", at->before ? "each" : "pooled", w->loads[at->before]++,
              at->index);
}

/* An operand as text: a register, a constant, a parameter, or an element that lies in memory. */
static void write_operand(writer *w, const upconv_operand *o, int position, const place *at,
                          char out[512]) {
  const uc_cuda_engine *e = w->e;
  uc_text text;
  uc_text_init(&text, out, 512);
  if (o->kind == UPCONV_OPERAND_NONE) uc_cuda_emit_float(&text, position == 1 ? 1 : 0);
  if (o->kind == UPCONV_OPERAND_CONSTANT) uc_cuda_emit_float(&text, o->constant);
  if (o->kind == UPCONV_OPERAND_PARAM) {
    int param = e->lowered->param_of_decl[o->index];
    uc_text_add(&text, "__ldg(a.packed + %lld%s)", (long long)e->param_at[param],
                e->lowered->param[param].size > 1 ? " + c" : "");
  }
  if (o->kind == UPCONV_OPERAND_VALUE && !uc_cuda_in_memory(e, o))
    uc_text_add(&text, "v%d", o->index);
  if (!uc_cuda_in_memory(e, o)) return;
  if (loads_ahead(w))
    write_loaded(w, at, &text);
  else
    write_load(w, o, at, &text);
}

/* ---- operators ---- */

static bool stands_at(const writer *w, int step, const place *at) {
  return w->k->pass->step[step].kind == UC_STEP_OP && step != w->k->pool &&
         at->before == (w->k->pool < 0 || step < w->k->pool);
}

static void write_step(writer *w, const uc_step *step, const place *at) {
  const upconv_op *op = &w->e->lowered->tail->op[step->op];
  char operand[UPCONV_MAX_OPERANDS][512];
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    write_operand(w, &op->operand[i], i, at, operand[i]);
  uc_text_add(w->text, "%sconst float v%d = ", at->indent, step->op + 1);
  uc_cuda_emit_elementwise(w->text, op, operand);
  uc_text_add(w->text, "; // ");
  uc_op_print(w->e->lowered->tail, step->op, w->text);
  uc_text_add(w->text, "\n");
}

static void write_steps(writer *w, const place *at) {
  for (int i = 0; i < w->k->pass->step_count; i++)
    if (stands_at(w, i, at)) write_step(w, &w->k->pass->step[i], at);
}

/* Loads of all that the operators there read from memory; text: NULL counts them only. */
static int write_loads(writer *w, const place *at, uc_text *text) {
  int count = 0;
  for (int i = 0; i < w->k->pass->step_count; i++) {
    if (!stands_at(w, i, at)) continue;
    const upconv_op *op = &w->e->lowered->tail->op[w->k->pass->step[i].op];
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      if (!uc_cuda_in_memory(w->e, &op->operand[j])) continue;
      if (text) {
        uc_text_add(text, "%sextra.%s[%d][%s] = ", at->indent, at->before ? "each" : "pooled",
                    count, at->index);
        write_load(w, &op->operand[j], at, text);
        uc_text_add(text, ";\n");
      }
      count++;
    }
  }
  return count;
}

/* ---- the functions ---- */

/* INSIDE: no output's coordinates are compared, for all of the tile is stored or `live` tells what is. RUNS: neighbours along W are
   stored together, else output by output. whole: the same as the kernel knows it of a strip. */
static void write_head(const writer *w, const char *name, const char *template, const char *last) {
  uc_text_add(w->text,
              "template <%s>\n"
              "__device__ __forceinline__ void %s(const Args &a, const Tile &tile, int rg, "
              "Live live, int c, int jd, int jh, int jw,\n"
              "                                       %s) {\n"
              "  const int n = tile.n, qd = tile.qd + jd, qh = tile.qh + jh, qw = tile.qw + jw;\n"
              "  const Live in_c = channel_stored<INSIDE>(a, c) ? live : (Live)0;\n",
              template, name, last);
}

static void write_finish_head(const writer *w, const char *comment) {
  uc_text_add(w->text, "\n// %s\n", comment);
  write_head(w, "finish",
             stores_either(w) ? "bool INSIDE = false" : "bool INSIDE, bool RUNS = INSIDE",
             loads_ahead(w)     ? "const float (&cell)[STRIP * RT], const Extra &extra"
             : stores_either(w) ? "const float (&cell)[STRIP * RT], bool whole"
                                : "const float (&cell)[STRIP * RT]");
  uc_text_add(w->text, "  char *const y = output_of(a, tile, c);\n");
}

/* The end of a run's loop, and its store. each, all: where an element lies, and the run, of which `row` elements are one cell's. */
static void write_stores(const writer *w, const char *indent, const char *each, const char *row,
                         const char *all) {
  int value = step_value(&w->k->pass->step[w->k->pass->target]);
  uc_text_add(w->text, "%s  run[i] = v%d;\n", indent, value);
  if (stores_either(w)) {
    uc_text_add(w->text,
                "%s  held[i] = in;\n%s}\n"
                "%sstore_either(a, tile, whole, held, y, at + %s * output_step(a), run);\n",
                indent, indent, indent, all);
    return;
  }
  uc_text_add(
      w->text,
      "%s  if (!RUNS && in) store_at<Y_TYPE>(y, at + %s * output_step(a), run[i]);\n%s}\n"
      "%sif (RUNS) store_finished<%s>(a, tile, in_c, i0, y, at + %s * output_step(a), run);\n",
      indent, each, indent, indent, row, all);
}

/* The function that loads what the operators read from memory, with the loops of `finish`. */
static void write_loader(writer *w, const place *before, const place *behind,
                         void (*loops)(const writer *w, const place *before, const place *behind)) {
  if (!loads_ahead(w)) return;
  int each = write_loads(w, before, NULL), pooled = write_loads(w, behind, NULL);
  if (each + pooled > 0 && loads_in_turn(w))
    uc_text_add(w->text, "%s", uc_cuda_embedded("load_in_turn"));
  uc_text_add(w->text,
              "\n// What operators read from memory for one channel of a strip of cells.\n"
              "struct Extra {\n"
              "  float each[%d][STRIP * RT], pooled[%d][STRIP];\n"
              "};\n"
              "enum { EXTRA_FLOATS = %d * STRIP * RT + %d * STRIP };\n\n",
              each > 0 ? each : 1, pooled > 0 ? pooled : 1, each, pooled);
  write_head(w, "load_extra", "bool INSIDE", "Extra &extra");
  if (each + pooled > 0) loops(w, before, behind);
  uc_text_add(w->text, "}\n");
}

/* ---- without a pool ---- */

/* To where an output is known, and whether it is stored. */
static void open_unpooled(uc_text *text, const char *row, const char *run) {
  uc_text_add(text,
              "  enum { ROW = R2 < RT ? R2 : RT }; // residues held of one row\n"
              "#pragma unroll\n"
              "  for (int r0 = 0; r0 < RT; r0 += ROW) {\n"
              "    const int rr = rg * RT + r0, r1 = rr / R2 %% R1, r2 = rr %% R2;\n"
              "    const int d = qd * R0 + BASE0 + rr / (R1 * R2), h = qh * R1 + BASE1 + r1;\n"
              "%s"
              "    const bool in_row = INSIDE | ((d >= a.y_begin[2]) & (d < a.y_end[2]) &\n"
              "                                  (h >= a.y_begin[3]) & (h < a.y_end[3]));\n"
              "#pragma unroll\n"
              "    for (int i0 = 0; i0 < STRIP * ROW; i0 += RUN) {\n"
              "%s"
              "#pragma unroll\n"
              "      for (int i = 0; i < RUN; i++) {\n"
              "        const int q = (i0 + i) / ROW, r = (i0 + i) %% ROW, w = (qw + q) * R2 + "
              "BASE2 + r2 + r;\n"
              "        const bool in = lives(in_c, q) & in_row & (INSIDE | ((w >= a.y_begin[4]) & "
              "(w < a.y_end[4])));\n",
              row, run);
}

static void load_unpooled(const writer *w, const place *before, const place *behind) {
  (void)behind;
  writer own = *w;
  open_unpooled(w->text, "", "");
  write_loads(&own, before, w->text);
  uc_text_add(w->text, "      }\n    }\n  }\n");
}

static void write_unpooled(writer *w) {
  const place before = {true, "d, h, w", "q * RT + r0 + r", "        "}, behind = {.before = false};
  uc_text *text = w->text;
  write_loader(w, &before, &behind, load_unpooled);
  write_finish_head(w, "What follows the convolution, for one channel of a strip of cells.");
  open_unpooled(
      text,
      "    const int at = output_at(a, tile, jd * R0 + rr / (R1 * R2), jh * R1 + r1, jw * R2 + "
      "r2);\n",
      stores_either(w) ? "      float run[RUN];\n      bool held[RUN];\n"
                       : "      float run[RUN];\n");
  uc_text_add(text, "        const float v0 = cell[q * RT + r0 + r];\n");
  write_steps(w, &before);
  write_stores(w, "      ", "(q * R2 + r)", "ROW", "(i0 / ROW * R2 + i0 % ROW)");
  uc_text_add(text, "    }\n"
                    "  }\n"
                    "}\n");
}

/* ---- with a pool ---- */

/* How the pooling operator starts, adds an element v, and ends. */
static void write_pool_start(const writer *w, const upconv_op *op) {
  const upconv_operand *dir = &op->operand[1];
  if (op->kind != UPCONV_OP_EXTREME_POOL) return;
  uc_text_add(w->text, "  const bool low = ");
  if (dir->kind == UPCONV_OPERAND_PARAM) {
    int param = w->e->lowered->param_of_decl[dir->index];
    uc_text_add(w->text, "__ldg(a.packed + %lld%s) < 0;\n", (long long)w->e->param_at[param],
                w->e->lowered->param[param].size > 1 ? " + c" : "");
  } else {
    uc_text_add(w->text, "%s;\n", dir->constant < 0 ? "true" : "false");
  }
  uc_text_add(w->text,
              "  const float sign = low ? -1.0f : 1.0f; // the least is minus the greatest of "
              "minus\n");
}

/* Adds element v of a window. Two maxima grow side by side, so that they need not wait for each other, each from its first element. */
static void write_pool_add(const writer *w, upconv_op_kind kind, int v) {
  if (kind == UPCONV_OP_AVG_POOL) {
    uc_text_add(w->text, "        pooled += v%d;\n", v);
    return;
  }
  const char *sign = kind == UPCONV_OP_MAX_POOL || w->k->sums_pooled ? "" : "sign * ";
  uc_text_add(w->text, "        most[r %% 2] = r < 2 ? %sv%d : max_nan(most[r %% 2], %sv%d);\n",
              sign, v, sign, v);
}

/* Divides by the elements of the window at output (qd, qh, pw). */
static void write_average(uc_text *text, const upconv_window *w, int source) {
  static const char *const at[UC_AXES] = {"qd", "qh", "pw"};
  if (w->divisor != 0) {
    uc_text_add(text, "      pooled /= %lld.0f;\n", (long long)w->divisor);
    return;
  }
  uc_text_add(text, "      pooled /= (float)(");
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "%swindow_count(%s, %lld, %lld, %lld, %lld, %lld, a.size[%d][%d], %s)",
                a ? " * " : "", at[a], (long long)w->stride[a], (long long)w->kernel[a],
                (long long)w->dilation[a], (long long)w->pad_begin[a], (long long)w->pad_end[a],
                source, a, w->count_include_pad ? "true" : "false");
  uc_text_add(text, ");\n");
}

static const upconv_op *pool_of(const writer *w) {
  return &w->e->lowered->tail->op[w->k->pass->step[w->k->pool].op];
}

/* To where a pooled output is known, and whether it is stored. */
static void open_pooled(uc_text *text, const char *run) {
  uc_text_add(text,
              "  const bool in_row = INSIDE | ((qd >= a.y_begin[2]) & (qd < a.y_end[2]) &\n"
              "                                (qh >= a.y_begin[3]) & (qh < a.y_end[3]));\n"
              "#pragma unroll\n"
              "  for (int i0 = 0; i0 < STRIP; i0 += RUN) {\n"
              "%s"
              "#pragma unroll\n"
              "    for (int i = 0; i < RUN; i++) {\n"
              "      const int q = i0 + i, pw = qw + q;\n"
              "      const bool in = lives(in_c, q) & in_row & (INSIDE | ((pw >= a.y_begin[4]) & "
              "(pw < a.y_end[4])));\n",
              run);
}

/* To an element of the window that lies in the value that is pooled. */
static void open_window(const writer *w) {
  const upconv_op *op = pool_of(w);
  const upconv_window *window = &op->window;
  uc_text_add(w->text,
              "#pragma unroll\n"
              "      for (int r = 0; r < RT; r++) {\n"
              "        const int d = qd * R0 + BASE0 + r / (R1 * R2), h = qh * R1 + BASE1 + r / R2 "
              "%% R1, w = pw * R2 + BASE2 + r %% R2;\n"
              "        if (r / (R1 * R2) >= %lld || r / R2 %% R1 >= %lld || r %% R2 >= %lld) "
              "continue;\n",
              (long long)window->kernel[0], (long long)window->kernel[1],
              (long long)window->kernel[2]);
  bool padded = window->ceil_mode;
  for (int a = 0; a < UC_AXES; a++)
    padded = padded || window->pad_begin[a] > 0 || window->pad_end[a] > 0;
  if (padded)
    uc_text_add(w->text, "        if (!inside(a.size[%d], d, h, w)) continue;\n",
                op->operand[0].index);
}

static void load_pooled(const writer *w, const place *before, const place *behind) {
  writer own = *w;
  open_pooled(w->text, "");
  open_window(w);
  write_loads(&own, before, w->text);
  uc_text_add(w->text, "      }\n");
  write_loads(&own, behind, w->text);
  uc_text_add(w->text, "    }\n  }\n");
}

static void write_pooled(writer *w) {
  const place before = {true, "d, h, w", "q * RT + r", "        "},
              behind = {false, "qd, qh, pw", "q", "      "};
  const upconv_op *op = pool_of(w);
  int source = op->operand[0].index;
  bool average = op->kind == UPCONV_OP_AVG_POOL;
  uc_text *text = w->text;
  write_loader(w, &before, &behind, load_pooled);
  write_finish_head(w, "What follows the convolution, for one channel of a strip of cells: one "
                       "pooling window each.");
  uc_text_add(text, "  const int at = output_at(a, tile, jd, jh, jw);\n");
  write_pool_start(w, op);
  open_pooled(text, stores_either(w) ? "    float run[RUN];\n    bool held[RUN];\n"
                                     : "    float run[RUN];\n");
  uc_text_add(text, "      float %s;\n", average ? "pooled = 0.0f" : "most[2] = {-INF, -INF}");
  open_window(w);
  uc_text_add(text, "        const float v0 = cell[q * RT + r];\n");
  write_steps(w, &before);
  write_pool_add(w, op->kind, source);
  uc_text_add(text, "      }\n");
  if (average)
    write_average(text, &op->window, source);
  else
    uc_text_add(text, "      const float pooled = max_nan(most[0], most[1]);\n");
  uc_text_add(text, "      const float v%d = %spooled%s;\n", w->k->pass->step[w->k->pool].op + 1,
              op->kind == UPCONV_OP_EXTREME_POOL ? "sign * " : "",
              w->k->sums_pooled ? " + __ldg(a.packed + BIAS_AT + c)" : "");
  write_steps(w, &behind);
  write_stores(w, "    ", "q", "1", "i0");
  uc_text_add(text, "  }\n"
                    "}\n");
}

void uc_cuda_emit_finish_fused(uc_text *text, const uc_cuda_engine *engine,
                               uc_cuda_kernel *kernel) {
  writer w = {.text = text, .e = engine, .k = kernel};
  if (kernel->pool >= 0)
    write_pooled(&w);
  else
    write_unpooled(&w);
}
