/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators as expressions, and the code that finishes a cell in registers. */
#include "emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../op.h"

const char *uc_cuda_type_name(upconv_dtype dtype) {
  return dtype == UPCONV_F32 ? "F32" : dtype == UPCONV_F16 ? "F16" : "BF16";
}

void uc_cuda_emit_define(uc_text *text, const char *name, int64_t value) {
  uc_text_add(text, "#define %s %lld\n", name, (long long)value);
}

void uc_cuda_emit_number(uc_text *text, int64_t *count, int64_t value) {
  uc_text_add(text, "%s%lld",
              *count == 0        ? ""
              : *count % 24 == 0 ? ",\n  "
                                 : ", ",
              (long long)value);
  ++*count;
}

void uc_cuda_emit_float(uc_text *text, double value) {
  float f = (float)value;
  if (isnan(f))
    uc_text_add(text, "__int_as_float(0x7fffffff)");
  else if (isinf(f))
    uc_text_add(text, f > 0 ? "INF" : "-INF");
  else
    uc_text_add(text, signbit(f) ? "(%.9ef)" : "%.9ef", (double)f);
}

int uc_cuda_view_of(uc_cuda_kernel *kernel, bool tensor, int index) {
  for (int i = 0; i < kernel->view_count && i < UC_CUDA_MAX_VIEWS; i++)
    if (kernel->view[i].tensor == tensor && kernel->view[i].index == index) return i;
  if (kernel->view_count < UC_CUDA_MAX_VIEWS)
    kernel->view[kernel->view_count] = (uc_cuda_view){tensor, index};
  return kernel->view_count++; /* beyond the limit the plan is refused */
}

/* Operators that are one call f(operands, attributes). */
static const char *function_of(upconv_op_kind kind) {
  switch (kind) {
  case UPCONV_OP_RELU:
    return "op_relu";
  case UPCONV_OP_LEAKY_RELU:
    return "op_prelu";
  case UPCONV_OP_PRELU:
    return "op_prelu";
  case UPCONV_OP_ELU:
    return "op_elu";
  case UPCONV_OP_SELU:
    return "op_selu";
  case UPCONV_OP_CELU:
    return "op_celu";
  case UPCONV_OP_SOFTPLUS:
    return "op_softplus";
  case UPCONV_OP_SOFTSIGN:
    return "op_softsign";
  case UPCONV_OP_GELU:
    return "op_gelu";
  case UPCONV_OP_GELU_TANH:
    return "op_gelu_tanh";
  case UPCONV_OP_SILU:
    return "op_silu";
  case UPCONV_OP_MISH:
    return "op_mish";
  case UPCONV_OP_HARDSWISH:
    return "op_hardswish";
  case UPCONV_OP_HARDSIGMOID:
    return "op_hardsigmoid";
  case UPCONV_OP_CLAMP:
    return "op_clamp";
  case UPCONV_OP_SIGMOID:
    return "op_sigmoid";
  case UPCONV_OP_TANH:
    return "tanhf";
  case UPCONV_OP_ABS:
    return "fabsf";
  case UPCONV_OP_NEG:
    return "-";
  case UPCONV_OP_SQRT:
    return "sqrtf";
  case UPCONV_OP_EXP:
    return "expf";
  case UPCONV_OP_TWO_SLOPE:
    return "op_slopes";
  case UPCONV_OP_BATCH_NORM:
    return "op_batch_norm";
  default:
    return NULL;
  }
}

static const char *infix_of(upconv_op_kind kind) {
  switch (kind) {
  case UPCONV_OP_ADD:
    return "+";
  case UPCONV_OP_SUB:
    return "-";
  case UPCONV_OP_MUL:
    return "*";
  case UPCONV_OP_DIV:
    return "/";
  default:
    return NULL;
  }
}

void uc_cuda_emit_elementwise(uc_text *text, const upconv_op *op,
                              char operand[UPCONV_MAX_OPERANDS][512]) {
  if (infix_of(op->kind)) {
    uc_text_add(text, "%s %s %s", operand[0], infix_of(op->kind), operand[1]);
    return;
  }
  uc_text_add(text, "%s(", function_of(op->kind));
  for (int i = 0; i < uc_op_operand_count(op->kind); i++)
    uc_text_add(text, "%s%s", i ? ", " : "", operand[i]);
  for (int i = 0; i < uc_op_attr_count(op->kind); i++) {
    uc_text_add(text, ", ");
    uc_cuda_emit_float(text, op->attr[i]);
  }
  uc_text_add(text, ")");
}

/* ---- finishing a cell in registers ---- */

/* An operand of a fused pass as text: a register, a constant, a parameter, or a load at the current coordinates. */
static void fused_operand(const uc_cuda_engine *e, uc_cuda_kernel *k, const upconv_operand *o,
                          int position, const char *coordinates, char out[512]) {
  const upconv_epilogue *tail = e->lowered->tail;
  uc_text text;
  uc_text_init(&text, out, 512);
  if (o->kind == UPCONV_OPERAND_NONE) uc_cuda_emit_float(&text, position == 1 ? 1 : 0);
  if (o->kind == UPCONV_OPERAND_CONSTANT) uc_cuda_emit_float(&text, o->constant);
  if (o->kind == UPCONV_OPERAND_PARAM) {
    int param = e->lowered->param_of_decl[o->index];
    uc_text_add(&text, "__ldg(a.packed + %lld%s)", (long long)e->param_at[param],
                e->lowered->param[param].size > 1 ? " + c" : "");
  }
  if (o->kind == UPCONV_OPERAND_VALUE && !e->program.kept[o->index])
    uc_text_add(&text, "v%d", o->index);
  bool tensor = o->kind == UPCONV_OPERAND_TENSOR;
  if (tensor || (o->kind == UPCONV_OPERAND_VALUE && e->program.kept[o->index])) {
    int view = uc_cuda_view_of(k, tensor, o->index);
    uc_text_add(&text, "load_if<%s>(in, a.view[%d].origin, view_index(a.view[%d], n, c, %s))",
                uc_cuda_type_name(tensor ? tail->tensor[o->index].dtype : UPCONV_F32), view, view,
                coordinates);
  }
}

static void fused_step(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k,
                       const uc_step *step, const char *coordinates, const char *indent) {
  const upconv_op *op = &e->lowered->tail->op[step->op];
  char operand[UPCONV_MAX_OPERANDS][512];
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    fused_operand(e, k, &op->operand[i], i, coordinates, operand[i]);
  uc_text_add(text, "%sconst float v%d = ", indent, step->op + 1);
  uc_cuda_emit_elementwise(text, op, operand);
  uc_text_add(text, "; // ");
  uc_op_print(e->lowered->tail, step->op, text);
  uc_text_add(text, "\n");
}

static int step_value(const uc_step *step) { return step->kind == UC_STEP_OP ? step->op + 1 : 0; }

/* Operators [from, to) of the pass. */
static void fused_steps(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k, int from, int to,
                        bool before, const char *coordinates, const char *indent) {
  for (int i = from; i < to; i++) {
    const uc_step *step = &k->pass->step[i];
    if (step->kind != UC_STEP_OP || i == k->pool) continue;
    bool is_before = k->pool < 0 || i < k->pool;
    if (is_before == before) fused_step(text, e, k, step, coordinates, indent);
  }
}

/* INSIDE: no output's coordinates are compared, for all of the tile is stored or `live` tells what is. RUNS: neighbours along W are
   stored together, else output by output. */
static void finish_head(uc_text *text, const char *comment) {
  uc_text_add(text,
              "\n// %s\n"
              "template <bool INSIDE, bool RUNS = INSIDE>\n"
              "__device__ __forceinline__ void finish(const Args &a, const Tile &tile, int rg, "
              "Live live, int c, int jd, int jh,\n"
              "                                       int jw, const float (&cell)[STRIP * RT]) {\n"
              "  const int n = tile.n, qd = tile.qd + jd, qh = tile.qh + jh, qw = tile.qw + jw;\n"
              "  const Live in_c = channel_stored<INSIDE>(a, c) ? live : (Live)0;\n"
              "  char *const y = output_of(a, tile, c);\n",
              comment);
}

static void emit_unpooled(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  int value = step_value(&k->pass->step[k->pass->target]);
  finish_head(text, "What follows the convolution, for one channel of a strip of cells.");
  uc_text_add(
      text,
      "  enum { ROW = R2 < RT ? R2 : RT }; // residues held of one row\n"
      "#pragma unroll\n"
      "  for (int r0 = 0; r0 < RT; r0 += ROW) {\n"
      "    const int rr = rg * RT + r0, r1 = rr / R2 %% R1, r2 = rr %% R2;\n"
      "    const int d = qd * R0 + BASE0 + rr / (R1 * R2), h = qh * R1 + BASE1 + r1;\n"
      "    const int at = output_at(a, tile, jd * R0 + rr / (R1 * R2), jh * R1 + r1, jw * R2 + "
      "r2);\n"
      "    const bool in_row = INSIDE | ((d >= a.y_begin[2]) & (d < a.y_end[2]) &\n"
      "                                  (h >= a.y_begin[3]) & (h < a.y_end[3]));\n"
      "#pragma unroll\n"
      "    for (int i0 = 0; i0 < STRIP * ROW; i0 += RUN) {\n"
      "      float run[RUN];\n"
      "#pragma unroll\n"
      "      for (int i = 0; i < RUN; i++) {\n"
      "        const int q = (i0 + i) / ROW, r = (i0 + i) %% ROW, w = (qw + q) * R2 + BASE2 + r2 + "
      "r;\n"
      "        const bool in = lives(in_c, q) & in_row & (INSIDE | ((w >= a.y_begin[4]) & (w < "
      "a.y_end[4])));\n"
      "        const float v0 = cell[q * RT + r0 + r];\n");
  fused_steps(text, e, k, 0, k->pass->step_count, true, "d, h, w", "        ");
  uc_text_add(text,
              "        run[i] = v%d;\n"
              "        if (!RUNS && in) store_at<Y_TYPE>(y, at + (q * R2 + r) * output_step(a), "
              "run[i]);\n"
              "      }\n"
              "      if (RUNS) store_finished<ROW>(a, tile, in_c, i0, y, at + (i0 / ROW * R2 + i0 "
              "%% ROW) * "
              "output_step(a), run);\n"
              "    }\n"
              "  }\n"
              "}\n",
              value);
}

/* How the pooling operator starts, adds an element v, and ends. */
static void emit_pool_start(uc_text *text, const uc_cuda_engine *e, const upconv_op *op) {
  const upconv_operand *dir = &op->operand[1];
  if (op->kind == UPCONV_OP_EXTREME_POOL) {
    uc_text_add(text, "  const bool low = ");
    if (dir->kind == UPCONV_OPERAND_PARAM) {
      int param = e->lowered->param_of_decl[dir->index];
      uc_text_add(text, "__ldg(a.packed + %lld%s) < 0;\n", (long long)e->param_at[param],
                  e->lowered->param[param].size > 1 ? " + c" : "");
    } else {
      uc_text_add(text, "%s;\n", dir->constant < 0 ? "true" : "false");
    }
    uc_text_add(text,
                "  const float sign = low ? -1.0f : 1.0f; // the least is minus the greatest of "
                "minus\n");
  }
}

/* Two maxima grow side by side, so that they need not wait for each other. */
static const char *pool_add(const uc_cuda_kernel *k, upconv_op_kind kind) {
  if (kind == UPCONV_OP_AVG_POOL) return "pooled += %s";
  bool plain = kind == UPCONV_OP_MAX_POOL || k->sums_pooled;
  return plain ? "most[r %% 2] = max_nan(most[r %% 2], %s)"
               : "most[r %% 2] = max_nan(most[r %% 2], sign * %s)";
}

/* Divides by the elements of the window at output (d, h, w). */
static void emit_average(uc_text *text, const upconv_window *w, int source,
                         const char *const at[UC_AXES]) {
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

static void emit_pooled(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  const upconv_op *op = &e->lowered->tail->op[k->pass->step[k->pool].op];
  const upconv_window *w = &op->window;
  int source = op->operand[0].index, value = step_value(&k->pass->step[k->pass->target]);
  char element[16], add[64];
  snprintf(element, sizeof element, "v%d", source);
  snprintf(add, sizeof add, pool_add(k, op->kind), element);
  finish_head(text, "What follows the convolution, for one channel of a strip of cells: one "
                    "pooling window each.");
  uc_text_add(text, "  const bool in_row = INSIDE | ((qd >= a.y_begin[2]) & (qd < a.y_end[2]) &\n"
                    "                                (qh >= a.y_begin[3]) & (qh < a.y_end[3]));\n"
                    "  const int at = output_at(a, tile, jd, jh, jw);\n");
  emit_pool_start(text, e, op);
  uc_text_add(
      text,
      "#pragma unroll\n"
      "  for (int i0 = 0; i0 < STRIP; i0 += RUN) {\n"
      "    float run[RUN];\n"
      "#pragma unroll\n"
      "    for (int i = 0; i < RUN; i++) {\n"
      "      const int q = i0 + i, pw = qw + q;\n"
      "      const bool in = lives(in_c, q) & in_row & (INSIDE | ((pw >= a.y_begin[4]) & (pw < "
      "a.y_end[4])));\n"
      "      float %s;\n"
      "#pragma unroll\n"
      "      for (int r = 0; r < RT; r++) {\n"
      "        const int d = qd * R0 + BASE0 + r / (R1 * R2), h = qh * R1 + BASE1 + r / R2 %% R1, "
      "w = pw * R2 + BASE2 + r %% R2;\n"
      "        if (r / (R1 * R2) >= %lld || r / R2 %% R1 >= %lld || r %% R2 >= %lld) continue;\n",
      op->kind == UPCONV_OP_AVG_POOL ? "pooled = 0.0f" : "most[2] = {-INF, -INF}",
      (long long)w->kernel[0], (long long)w->kernel[1], (long long)w->kernel[2]);
  bool padded = w->ceil_mode;
  for (int a = 0; a < UC_AXES; a++) padded = padded || w->pad_begin[a] > 0 || w->pad_end[a] > 0;
  if (padded) uc_text_add(text, "        if (!inside(a.size[%d], d, h, w)) continue;\n", source);
  uc_text_add(text, "        const float v0 = cell[q * RT + r];\n");
  fused_steps(text, e, k, 0, k->pass->step_count, true, "d, h, w", "        ");
  uc_text_add(text, "        %s;\n      }\n", add);
  if (op->kind != UPCONV_OP_AVG_POOL)
    uc_text_add(text, "      const float pooled = max_nan(most[0], most[1]);\n");
  const char *const at[UC_AXES] = {"qd", "qh", "pw"};
  if (op->kind == UPCONV_OP_AVG_POOL) emit_average(text, w, source, at);
  uc_text_add(text, "      const float v%d = %spooled%s;\n", k->pass->step[k->pool].op + 1,
              op->kind == UPCONV_OP_EXTREME_POOL ? "sign * " : "",
              k->sums_pooled ? " + __ldg(a.packed + BIAS_AT + c)" : "");
  fused_steps(text, e, k, 0, k->pass->step_count, false, "qd, qh, pw", "      ");
  uc_text_add(
      text,
      "      run[i] = v%d;\n"
      "      if (!RUNS && in) store_at<Y_TYPE>(y, at + q * output_step(a), run[i]);\n"
      "    }\n"
      "    if (RUNS) store_finished<1>(a, tile, in_c, i0, y, at + i0 * output_step(a), run);\n"
      "  }\n"
      "}\n",
      value);
}

void uc_cuda_emit_finish_fused(uc_text *text, const uc_cuda_engine *engine,
                               uc_cuda_kernel *kernel) {
  if (kernel->pool >= 0)
    emit_pooled(text, engine, kernel);
  else
    emit_unpooled(text, engine, kernel);
}
