/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a pass whose values lie in tile buffers: one loop per step over the elements of its box. */
#include <stdio.h>
#include <string.h>

#include "../checked.h"
#include "emit.h"

static int64_t elements_of(const int64_t size[UC_AXES]) { return size[0] * size[1] * size[2]; }

/* Channels of a step's buffer; a buffer of one channel is broadcast. */
static int64_t buffer_channels(const uc_cuda_kernel *k, const uc_step *step) {
  if (k->pass->all_channels || step->channels == 1) return step->channels;
  return uc_min(step->channels, k->bm);
}

static const char *y_type(const uc_cuda_engine *e, const uc_pass *pass) {
  bool last = pass->result == e->program.value_count - 1;
  return uc_cuda_type_name(last ? e->lowered->source.y_dtype : UPCONV_F32);
}

/* Text of the first element of a step's box along an axis. */
static void box_begin(const uc_cuda_box *box, int a, char out[64]) {
  static const char *const target[UC_AXES] = {"td", "th", "tw"};
  snprintf(out, 64, "(%s * %lld + %lld)", target[a], (long long)box->mult[a],
           (long long)box->off[a]);
}

/* A lambda that reads a tile buffer at global coordinates. */
static void emit_buffer_reader(uc_text *text, const uc_cuda_kernel *k, int operand, int s) {
  const uc_step *step = &k->pass->step[s];
  const uc_cuda_box *box = &k->box[s];
  char begin[UC_AXES][64];
  for (int a = 0; a < UC_AXES; a++) box_begin(box, a, begin[a]);
  uc_text_add(text,
              "    const auto x%d = [&](int c, int d, int h, int w) {\n"
              "      return tiles[%lld + ((%s * %lld + d - %s) * %lld + h - %s) * %lld + w - %s];\n"
              "    };\n",
              operand, (long long)k->slot_at[step->slot],
              step->channels == 1 ? "0" : "(c - tile.first)", (long long)box->size[0], begin[0],
              (long long)box->size[1], begin[1], (long long)box->size[2], begin[2]);
}

/* A lambda that reads memory; what the tensor does not hold is 0. */
static void emit_memory_reader(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k,
                               int operand, const upconv_operand *o) {
  bool tensor = o->kind == UPCONV_OPERAND_TENSOR;
  int view = uc_cuda_view_of(k, tensor, o->index);
  const char *type =
      uc_cuda_type_name(tensor ? e->lowered->tail->tensor[o->index].dtype : UPCONV_F32);
  uc_text_add(text,
              "    const auto x%d = [&](int c, int d, int h, int w) {\n"
              "      const View &v = a.view[%d];\n"
              "      return load_if<%s>(holds(v, c, d, h, w), v.origin, view_index(v, tile.n, c, "
              "d, h, w));\n"
              "    };\n",
              operand, view, type);
}

static void emit_scalar_reader(uc_text *text, const uc_cuda_engine *e, int operand,
                               const upconv_operand *o) {
  uc_text_add(text, "    const auto x%d = [&](int c, int, int, int) { return ", operand);
  if (o->kind == UPCONV_OPERAND_PARAM) {
    int param = e->lowered->param_of_decl[o->index];
    uc_text_add(text, "__ldg(a.packed + %lld%s)", (long long)e->param_at[param],
                e->lowered->param[param].size > 1 ? " + c" : " + 0 * c");
  } else {
    uc_cuda_emit_float(text, o->kind == UPCONV_OPERAND_CONSTANT ? o->constant
                             : operand == 1                     ? 1
                                                                : 0);
  }
  uc_text_add(text, "; };\n");
}

/* Readers x0, x1, ... of all operands. A pool's or channel operator's operand is bounded by its own size. */
static void emit_readers(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k,
                         const uc_step *step) {
  const upconv_op *op = &e->lowered->tail->op[step->op];
  for (int i = 0; i < uc_op_operand_count(op->kind); i++) {
    const upconv_operand *o = &op->operand[i];
    bool memory = o->kind == UPCONV_OPERAND_TENSOR || o->kind == UPCONV_OPERAND_VALUE;
    bool buffer = step->source[i] >= 0 && k->pass->step[step->source[i]].kind != UC_STEP_LOAD;
    if (buffer)
      emit_buffer_reader(text, k, i, step->source[i]);
    else if (memory)
      emit_memory_reader(text, e, k, i, o);
    else
      emit_scalar_reader(text, e, i, o);
  }
}

/* The head of a loop over the elements of a step's buffer, with global coordinates c, d, h, w. single: one channel for
   all. */
static void emit_loop(uc_text *text, const uc_cuda_kernel *k, int s, int64_t channels,
                      bool single) {
  const uc_cuda_box *box = &k->box[s];
  char begin[UC_AXES][64];
  for (int a = 0; a < UC_AXES; a++) box_begin(box, a, begin[a]);
  int64_t plane = box->size[2] * box->size[1];
  int64_t elements = channels * box->size[0] * box->size[1] * box->size[2];
  uc_text_add(
      text,
      "    for (int i = threadIdx.x; i < %lld; i += THREADS) {\n"
      "      const int w = %s + i %% %lld, h = %s + i / %lld %% %lld, d = %s + i / %lld %% %lld;\n"
      "      const int c = %s + i / %lld;\n",
      (long long)elements, begin[2], (long long)box->size[2], begin[1], (long long)box->size[2],
      (long long)box->size[1], begin[0], (long long)plane, (long long)box->size[0],
      single ? "0 * tile.first" : "tile.first", (long long)elements_of(box->size));
}

static void emit_elementwise_body(uc_text *text, const upconv_op *op) {
  char operand[UPCONV_MAX_OPERANDS][512];
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    snprintf(operand[i], sizeof operand[i], "x%d(c, d, h, w)", i);
  uc_text_add(text, "      to[i] = ");
  uc_cuda_emit_elementwise(text, op, operand);
  uc_text_add(text, ";\n");
}

static void emit_pool_body(uc_text *text, const upconv_op *op) {
  const upconv_window *w = &op->window;
  bool average = op->kind == UPCONV_OP_AVG_POOL, extreme = op->kind == UPCONV_OP_EXTREME_POOL;
  uc_text_add(text, "      %s;\n",
              extreme ? "const bool low = x1(c, d, h, w) < 0" : "const bool low = false");
  uc_text_add(text, "      float pooled = %s;\n", average ? "0.0f" : "low ? INF : -INF");
  static const char *const at[UC_AXES] = {"d", "h", "w"};
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "      for (int k%s = 0; k%s < %lld; k%s++)\n", at[a], at[a],
                (long long)w->kernel[a], at[a]);
  uc_text_add(text, "      {\n");
  for (int a = 0; a < UC_AXES; a++)
    uc_text_add(text, "        const int s%s = %s * %lld - %lld + k%s * %lld;\n", at[a], at[a],
                (long long)w->stride[a], (long long)w->pad_begin[a], at[a],
                (long long)w->dilation[a]);
  uc_text_add(text, "        if (!inside(a.size[%d], sd, sh, sw)) continue;\n",
              op->operand[0].index);
  uc_text_add(text, "        const float v = x0(c, sd, sh, sw);\n        pooled = %s;\n      }\n",
              average ? "pooled + v" : "low ? min_nan(pooled, v) : max_nan(pooled, v)");
  if (average && w->divisor != 0)
    uc_text_add(text, "      pooled /= %lld.0f;\n", (long long)w->divisor);
  if (average && w->divisor == 0) {
    uc_text_add(text, "      pooled /= (float)(");
    for (int a = 0; a < UC_AXES; a++)
      uc_text_add(text, "%swindow_count(%s, %lld, %lld, %lld, %lld, %lld, a.size[%d][%d], %s)",
                  a ? " * " : "", at[a], (long long)w->stride[a], (long long)w->kernel[a],
                  (long long)w->dilation[a], (long long)w->pad_begin[a], (long long)w->pad_end[a],
                  op->operand[0].index, a, w->count_include_pad ? "true" : "false");
    uc_text_add(text, ");\n");
  }
  uc_text_add(text, "      to[i] = pooled;\n");
}

/* One thread goes over the channels of one position. */
static void emit_channels_body(uc_text *text, const upconv_op *op, int64_t channels,
                               int64_t positions) {
  const char *best = op->kind == UPCONV_OP_MIN ? "min_nan" : "max_nan";
  uc_text_add(text, "      const int C = %lld;\n", (long long)channels);
  if (op->kind == UPCONV_OP_SUM || op->kind == UPCONV_OP_MEAN) {
    uc_text_add(
        text,
        "      float sum = 0.0f;\n      for (int q = 0; q < C; q++) sum += x0(q, d, h, w);\n");
    uc_text_add(text, "      to[i] = %s;\n", op->kind == UPCONV_OP_MEAN ? "sum / (float)C" : "sum");
    return;
  }
  uc_text_add(text,
              "      float best = x0(0, d, h, w);\n      for (int q = 1; q < C; q++) best = "
              "%s(best, x0(q, d, h, w));\n",
              best);
  if (op->kind == UPCONV_OP_MAX || op->kind == UPCONV_OP_MIN) {
    uc_text_add(text, "      to[i] = best;\n");
    return;
  }
  /* exp(x - max), where -inf - -inf and inf - inf are as in the definition by limits that PyTorch uses */
  uc_text_add(text, "      float sum = 0.0f;\n");
  if (op->kind == UPCONV_OP_LOGSUMEXP)
    uc_text_add(
        text,
        "      if (fabsf(best) == INF) {\n        to[i] = best;\n        continue;\n      }\n");
  uc_text_add(text, "      for (int q = 0; q < C; q++) sum += expf(x0(q, d, h, w) - best);\n");
  if (op->kind == UPCONV_OP_LOGSUMEXP) uc_text_add(text, "      to[i] = best + logf(sum);\n");
  if (op->kind == UPCONV_OP_SOFTMAX)
    uc_text_add(
        text,
        "      for (int q = 0; q < C; q++) to[q * %lld + i] = expf(x0(q, d, h, w) - best) / sum;\n",
        (long long)positions);
  if (op->kind == UPCONV_OP_LOG_SOFTMAX)
    uc_text_add(
        text,
        "      const float log_sum = logf(sum);\n"
        "      for (int q = 0; q < C; q++) to[q * %lld + i] = x0(q, d, h, w) - best - log_sum;\n",
        (long long)positions);
}

static void emit_step(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k, int s) {
  const uc_step *step = &k->pass->step[s];
  const upconv_op *op = &e->lowered->tail->op[step->op];
  uc_op_class class = uc_op_classify(op->kind);
  bool over_channels = class == UC_CLASS_CHANNELS || class == UC_CLASS_REDUCE;
  int64_t positions = k->box[s].size[0] * k->box[s].size[1] * k->box[s].size[2];
  uc_text_add(text, "  { // %%%d = ", step->op + 1);
  uc_op_print(e->lowered->tail, step->op, text);
  uc_text_add(text, "\n    float *const to = tiles + %lld;\n", (long long)k->slot_at[step->slot]);
  emit_readers(text, e, k, step);
  bool single = over_channels || step->channels == 1;
  emit_loop(text, k, s, single ? 1 : buffer_channels(k, step), single);
  if (!single && !k->pass->all_channels) uc_text_add(text, "      if (c >= tile.end) continue;\n");
  if (over_channels) uc_text_add(text, "      (void)c;\n");
  if (class == UC_CLASS_ELEMENTWISE) emit_elementwise_body(text, op);
  if (class == UC_CLASS_POOL) emit_pool_body(text, op);
  if (over_channels)
    emit_channels_body(text, op, k->pass->step[step->source[0]].channels, positions);
  uc_text_add(text, "    }\n    __syncthreads();\n  }\n");
}

/* A reader x0 of the pass's target. */
static void emit_target_reader(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  const uc_step *target = &k->pass->step[k->pass->target];
  if (target->kind != UC_STEP_LOAD) {
    emit_buffer_reader(text, k, 0, k->pass->target);
    return;
  }
  const upconv_operand *o = &e->lowered->tail->op[target->op].operand[target->operand];
  emit_memory_reader(text, e, k, 0, o);
}

static void emit_store(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_text_add(text, "  { // the result\n");
  emit_target_reader(text, e, k);
  const uc_step *target = &k->pass->step[k->pass->target];
  emit_loop(text, k, k->pass->target, buffer_channels(k, target), target->channels == 1);
  uc_text_add(
      text,
      "      if (c >= tile.end || c < a.y_begin[1] || c >= a.y_end[1] || d < a.y_begin[2] || d >= "
      "a.y_end[2] ||\n"
      "          h < a.y_begin[3] || h >= a.y_end[3] || w < a.y_begin[4] || w >= a.y_end[4])\n"
      "        continue;\n"
      "      store_at<%s>(a.y.origin, view_index(a.y, tile.n, c, d, h, w), x0(c, d, h, w));\n"
      "    }\n  }\n",
      y_type(e, k->pass));
}

/* ---- reductions over space ---- */

static const char *reduce_start(upconv_op_kind kind) {
  return kind == UPCONV_OP_MAX ? "-INF" : kind == UPCONV_OP_MIN ? "INF" : "0.0";
}

static const char *reduce_add(upconv_op_kind kind) {
  if (kind == UPCONV_OP_MAX) return "sum != sum || sum > more ? sum : more";
  if (kind == UPCONV_OP_MIN) return "sum != sum || sum < more ? sum : more";
  return "sum + more";
}

/* A warp adds the tile's elements that reduce to one, lane by lane and then as a tree: the order is always the same. */
static void emit_reduce(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  const upconv_op *op = &e->lowered->tail->op[k->pass->reduce_op];
  const uc_step *target = &k->pass->step[k->pass->target];
  const int64_t *size = k->box[k->pass->target].size;
  int64_t channels = buffer_channels(k, target), kept[UC_AXES], reduced[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) {
    bool over = op->axes >> (1 + a) & 1;
    kept[a] = over ? 1 : size[a];
    reduced[a] = over ? size[a] : 1;
  }
  int64_t kept_plane = kept[2] * kept[1], reduced_plane = reduced[2] * reduced[1];
  int64_t items = channels * kept[0] * kept[1] * kept[2];
  uc_text_add(text, "  { // the part of ");
  uc_op_print(e->lowered->tail, k->pass->reduce_op, text);
  uc_text_add(text, " that this tile makes\n");
  emit_target_reader(text, e, k);
  uc_text_add(text,
              "    const int lane = threadIdx.x %% 32;\n"
              "    for (int item = threadIdx.x / 32; item < %lld; item += THREADS / 32) {\n"
              "      const int kw = item %% %lld, kh = item / %lld %% %lld, kd = item / %lld %% "
              "%lld, c = tile.first + item "
              "/ %lld;\n"
              "      if (c >= tile.end) continue;\n"
              "      double sum = %s;\n"
              "      for (int j = lane; j < %lld; j += 32) {\n"
              "        const int w = tw + kw + j %% %lld, h = th + kh + j / %lld %% %lld, d = td + "
              "kd + j / %lld;\n"
              "        if (!inside(a.size[%d], d, h, w)) continue;\n"
              "        const double more = x0(c, d, h, w);\n"
              "        sum = %s;\n"
              "      }\n",
              (long long)items, (long long)kept[2], (long long)kept[2], (long long)kept[1],
              (long long)kept_plane, (long long)kept[0], (long long)elements_of(kept),
              reduce_start(op->kind), (long long)elements_of(reduced), (long long)reduced[2],
              (long long)reduced[2], (long long)reduced[1], (long long)reduced_plane,
              op->operand[0].index, reduce_add(op->kind));
  uc_text_add(text,
              "      for (int other = 16; other > 0; other /= 2) {\n"
              "        const double more = __shfl_xor_sync(0xffffffffu, sum, other);\n"
              "        sum = %s;\n"
              "      }\n"
              "      const int d = td + kd, h = th + kh, w = tw + kw;\n"
              "      if (lane == 0 && inside(a.size[%d], d, h, w)) a.partial[partial_index(a, "
              "tile.n, c, %s, %s, %s, "
              "%s)] = sum;\n"
              "    }\n  }\n",
              reduce_add(op->kind), op->operand[0].index, op->axes & 2 ? "0" : "d",
              op->axes & 4 ? "0" : "h", op->axes & 8 ? "0" : "w", "reduced_tile(a, ud, uh, uw)");
}

static void emit_partial_index(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const upconv_op *op = &e->lowered->tail->op[k->pass->reduce_op];
  int result = k->pass->result;
  uc_text_add(text,
              "\n// Partial sums: [tile along the reduced axes][n][c][d][h][w] of the result.\n"
              "__device__ __forceinline__ i64 partial_index(const Args &a, int n, int c, int d, "
              "int h, int w, int tile) {\n"
              "  i64 at = ((i64)tile * a.batch + n - a.n0) * %lld + c;\n"
              "  return ((at * a.size[%d][0] + d) * a.size[%d][1] + h) * a.size[%d][2] + w;\n"
              "}\n",
              (long long)k->pass->step[k->pass->target].channels, result, result, result);
  uc_text_add(text, "__device__ __forceinline__ int reduced_tile(const Args &a, int ud, int uh, "
                    "int uw) {\n  int at = 0;\n");
  static const char *const index[UC_AXES] = {"ud", "uh", "uw"};
  for (int i = 0; i < UC_AXES; i++)
    if (op->axes >> (1 + i) & 1) uc_text_add(text, "  at = at * a.grid[%d] + %s;\n", i, index[i]);
  uc_text_add(text, "  return at;\n}\n");
}

void uc_cuda_emit_combine(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k) {
  const upconv_op *op = &e->lowered->tail->op[k->pass->reduce_op];
  uc_text_add(
      text,
      "\n// A warp adds the partial sums of one element of the result, always in the same order.\n"
      "extern \"C\" __global__ void __launch_bounds__(128) %s_combine(const __grid_constant__ Args "
      "a) {\n"
      "  int extent[5];\n"
      "  i64 count = 1;\n"
      "  for (int i = 0; i < 5; i++) count *= extent[i] = a.y_end[i] - a.y_begin[i];\n"
      "  int tiles = 1;\n",
      k->name);
  for (int i = 0; i < UC_AXES; i++)
    if (op->axes >> (1 + i) & 1) uc_text_add(text, "  tiles *= a.grid[%d];\n", i);
  uc_text_add(text,
              "  const int lane = threadIdx.x %% 32;\n"
              "  for (i64 item = (i64)blockIdx.x * 4 + threadIdx.x / 32; item < count; item += "
              "(i64)gridDim.x * 4) {\n"
              "    i64 rest = item;\n"
              "    int at[5];\n"
              "    for (int i = 4; i >= 0; i--) {\n"
              "      at[i] = (int)(rest %% extent[i]) + a.y_begin[i];\n"
              "      rest /= extent[i];\n"
              "    }\n"
              "    double sum = %s;\n"
              "    for (int tile = lane; tile < tiles; tile += 32) {\n"
              "      const double more = a.partial[partial_index(a, at[0], at[1], at[2], at[3], "
              "at[4], tile)];\n"
              "      sum = %s;\n"
              "    }\n"
              "    for (int other = 16; other > 0; other /= 2) {\n"
              "      const double more = __shfl_xor_sync(0xffffffffu, sum, other);\n"
              "      sum = %s;\n"
              "    }\n",
              reduce_start(op->kind), reduce_add(op->kind), reduce_add(op->kind));
  if (op->kind == UPCONV_OP_MEAN) {
    uc_text_add(text, "    sum /= 1.0");
    for (int i = 0; i < UC_AXES; i++)
      if (op->axes >> (1 + i) & 1) uc_text_add(text, " * a.size[%d][%d]", op->operand[0].index, i);
    uc_text_add(text, ";\n");
  }
  uc_text_add(text,
              "    if (lane == 0)\n"
              "      store_at<%s>(a.y.origin, view_index(a.y, at[0], at[1], at[2], at[3], at[4]), "
              "(float)sum);\n"
              "  }\n}\n",
              y_type(e, k->pass));
}

/* ---- the whole ---- */

static void emit_finish(uc_text *text, const uc_cuda_kernel *k) {
  int s = 0;
  while (k->pass->step[s].kind != UC_STEP_CONV) s++;
  const int64_t *size = k->box[s].size;
  uc_text_add(text,
              "\n// A cell of the convolution goes to its tile buffer.\n"
              "template <bool INSIDE>\n"
              "__device__ __forceinline__ void finish(const Args &, const Tile &tile, int rg, bool "
              "live, int c, int jd, int jh, int jw,\n"
              "                                       const float (&cell)[RT]) {\n"
              "#pragma unroll\n"
              "  for (int r = 0; r < RT; r++) {\n"
              "    const int rr = rg * RT + r;\n"
              "    const int d = (tile.od + jd) * R0 + rr / (R1 * R2), h = (tile.oh + jh) * R1 + "
              "rr / R2 %% R1;\n"
              "    const int w = (tile.ow + jw) * R2 + rr %% R2;\n"
              "    if (live && d < %lld && h < %lld && w < %lld)\n"
              "      tile_buffers[%lld + (((c - tile.first) * %lld + d) * %lld + h) * %lld + w] = "
              "cell[r];\n"
              "  }\n}\n",
              (long long)size[0], (long long)size[1], (long long)size[2],
              (long long)k->slot_at[k->pass->step[s].slot], (long long)size[0], (long long)size[1],
              (long long)size[2]);
}

void uc_cuda_emit_tiled(uc_text *text, const uc_cuda_engine *e, uc_cuda_kernel *k) {
  uc_text_add(text, "\nextern __shared__ __align__(16) float tile_buffers[];\n");
  if (k->pass->conv) emit_finish(text, k);
  if (k->pass->reduce_op >= 0) emit_partial_index(text, e, k);
  uc_text_add(
      text,
      "\n// (td, th, tw): first element of the target's tile; (ud, uh, uw): the tile's number.\n"
      "__device__ __forceinline__ void steps(const Args &a, const Tile &tile, int td, int th, int "
      "tw, int ud, int uh, "
      "int uw,\n"
      "                                      float *tiles) {\n");
  for (int s = 0; s < k->pass->step_count; s++)
    if (k->pass->step[s].kind == UC_STEP_OP) emit_step(text, e, k, s);
  if (k->pass->reduce_op >= 0)
    emit_reduce(text, e, k);
  else
    emit_store(text, e, k);
  uc_text_add(text, "}\n");
}
