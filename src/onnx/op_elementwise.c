/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators: one function of one to three operands, broadcast as NumPy does. */
#include <math.h>
#include <string.h>

#include "../status.h"
#include "fn.h"
#include "ops.h"
#include "rows.h"

/* ---- running ---- */

/* Operand k of a row: its view's row, or for a clip bound that is left out the attribute. */
static void load_operand(const uc_onnx_task *t, const uc_view *view, int k, const uc_walk *walk,
                         int slot, int64_t done, int64_t n, double *row) {
  if (view->dtype == UC_ONNX_UNDEFINED) {
    for (int64_t i = 0; i < n; i++) row[i] = t->attr[k - 1];
    return;
  }
  uc_row_load(row, view, walk->at[slot] + done * walk->step[slot], walk->step[slot], n);
}

static void load_operand_int(const uc_onnx_task *t, const uc_view *view, int k, const uc_walk *walk,
                             int slot, int64_t done, int64_t n, int64_t *row) {
  if (view->dtype == UC_ONNX_UNDEFINED) {
    int64_t bound = t->attr[k - 1] < 0 ? INT64_MIN : INT64_MAX;
    for (int64_t i = 0; i < n; i++) row[i] = bound;
    return;
  }
  uc_row_load_int(row, view, walk->at[slot] + done * walk->step[slot], walk->step[slot], n);
}

/* Whether integers are computed as such; a comparison or Cast to or from floating point is not. */
static bool all_int(int count, const uc_view *const *views) {
  for (int k = 0; k < count; k++)
    if (!uc_dtype_is_int(views[k]->dtype)) return false;
  return true;
}

/* One function over operands that are all given or, for Clip, left out. */
static void run_fn(const uc_onnx_task *t, int operands, const uc_view *const *operand,
                   const uc_view *out) {
  if (uc_run_vector(t, operands, operand, out)) return;
  const uc_view *views[UC_WALK_MAX] = {out};
  int slot[3] = {0}, count = 1;
  for (int k = 0; k < operands; k++) {
    if (operand[k]->dtype == UC_ONNX_UNDEFINED) continue;
    slot[k] = count;
    views[count++] = operand[k];
  }
  bool ints = all_int(count, views);
  double row[3][UC_ROW];
  int64_t whole[3][UC_ROW];
  const double *const rows[] = {row[0], row[1], row[2]};
  const int64_t *const wholes[] = {whole[0], whole[1], whole[2]};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, count, views); more; more = uc_walk_next(&walk)) {
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      int64_t at = walk.at[0] + done * walk.step[0];
      for (int k = 0; k < operands && ints; k++)
        load_operand_int(t, operand[k], k, &walk, slot[k], done, n, whole[k]);
      if (ints && uc_fn_row_int(t->fn, wholes, whole[0], n)) {
        uc_row_store_int(out, at, walk.step[0], whole[0], n);
        continue;
      }
      for (int k = 0; k < operands; k++)
        load_operand(t, operand[k], k, &walk, slot[k], done, n, row[k]);
      uc_fn_row(t->fn, t->attr, rows, row[0], n);
      uc_row_store(out, at, walk.step[0], row[0], n);
    }
  }
}

void uc_run_elementwise(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  static const uc_view missing = {.data = NULL};
  int operands = uc_fn_operands(t->fn);
  const uc_view *operand[3] = {&missing, &missing, &missing};
  if (operands == 2) {
    /* A chain such as Sum(a, b, c): the first step is f(a, b), the next ones f(result, c). */
    operand[0] = &in[0];
    if (t->input_count == 1) uc_view_copy(&in[0], out);
    for (int k = 1; k < t->input_count; k++) {
      operand[1] = &in[k];
      run_fn(t, 2, operand, out);
      operand[0] = out;
    }
    return;
  }
  for (int k = 0; k < operands && k < t->input_count; k++) operand[k] = &in[k];
  run_fn(t, operands, operand, out);
}

/* ---- planning ---- */

static upconv_status broadcast_all(uc_onnx_program *p, const uc_onnx_task *t, int *rank,
                                   int64_t *shape) {
  *rank = 0;
  for (int k = 0; k < t->input_count; k++) {
    const uc_value *in = uc_task_in(p, t, k);
    upconv_status status = in ? uc_broadcast(rank, shape, in) : UPCONV_OK;
    if (status) return status;
  }
  return UPCONV_OK;
}

static upconv_status same_types(uc_onnx_program *p, const uc_onnx_task *t, int first) {
  const uc_value *a = uc_task_in(p, t, first);
  for (int k = first + 1; k < t->input_count; k++) {
    const uc_value *b = uc_task_in(p, t, k);
    if (b && b->dtype != a->dtype)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "inputs have types %s and %s; they must be the same",
                     uc_onnx_dtype_name(a->dtype), uc_onnx_dtype_name(b->dtype));
  }
  return UPCONV_OK;
}

/* Default attributes of the functions that have some; ONNX's names. */
static upconv_status read_attrs(const uc_onnx_program *p, uc_onnx_task *t) {
  static const struct {
    uc_fn fn;
    const char *name[2];
    double fallback[2];
  } table[] = {
      {UC_FN_LEAKY_RELU, {"alpha", NULL}, {0.01, 0}},
      {UC_FN_ELU, {"alpha", NULL}, {1, 0}},
      {UC_FN_CELU, {"alpha", NULL}, {1, 0}},
      {UC_FN_SELU, {"alpha", "gamma"}, {1.67326319217681884765625, 1.05070102214813232421875}},
      {UC_FN_HARDSIGMOID, {"alpha", "beta"}, {0.2, 0.5}},
  };
  if (t->fn == UC_FN_SOFTPLUS) {
    t->attr[0] = 1;
    t->attr[1] = INFINITY;
  }
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    for (int k = 0; k < 2 && table[i].fn == t->fn && table[i].name[k]; k++) {
      /* Selu's were shorter once. */
      bool old_selu = t->fn == UC_FN_SELU && p->model->opset < 6;
      double fallback = !old_selu ? table[i].fallback[k] : k ? 1.0507 : 1.6732;
      upconv_status status = uc_task_float(t, table[i].name[k], fallback, &t->attr[k]);
      if (status) return status;
    }
  return UPCONV_OK;
}

upconv_status uc_plan_unary(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  t->fn = (uc_fn)t->op->variant;
  int64_t ignored[1] = {0}, result[1];
  const int64_t *const probe[] = {ignored};
  upconv_status status = read_attrs(p, t);
  /* What integers have no function for is not defined for them. */
  if (!status && !uc_fn_row_int(t->fn, probe, result, 1)) status = uc_task_is_float(p, t, 0);
  if (status) return status;
  return uc_set_result(p, t, 0, in->dtype, in->rank, in->shape);
}

upconv_status uc_plan_binary(uc_onnx_program *p, uc_onnx_task *t) {
  int64_t shape[UC_ONNX_MAX_RANK];
  int rank;
  t->fn = (uc_fn)t->op->variant;
  upconv_status status = t->fn == UC_FN_POW ? UPCONV_OK : same_types(p, t, 0);
  if (!status) status = broadcast_all(p, t, &rank, shape);
  if (status) return status;
  return uc_set_result(p, t, 0, uc_task_in(p, t, 0)->dtype, rank, shape);
}

upconv_status uc_plan_compare(uc_onnx_program *p, uc_onnx_task *t) {
  upconv_status status = uc_plan_binary(p, t);
  uc_value *out = uc_task_out(p, t, 0);
  if (!status && out) out->dtype = UC_ONNX_BOOL;
  return status;
}

upconv_status uc_plan_prelu(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  upconv_status status = uc_plan_binary(p, t);
  const uc_value *out = uc_task_out(p, t, 0);
  if (!status && out &&
      uc_shape_count(out->rank, out->shape) != uc_shape_count(in->rank, in->shape))
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "the slope's shape does not fit into the input's");
  return status;
}

upconv_status uc_plan_where(uc_onnx_program *p, uc_onnx_task *t) {
  int64_t shape[UC_ONNX_MAX_RANK];
  int rank;
  t->fn = UC_FN_WHERE;
  upconv_status status = same_types(p, t, 1);
  if (!status) status = broadcast_all(p, t, &rank, shape);
  if (status) return status;
  return uc_set_result(p, t, 0, uc_task_in(p, t, 1)->dtype, rank, shape);
}

upconv_status uc_plan_clip(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  t->fn = UC_FN_CLIP;
  upconv_status status = uc_task_float(t, "min", -INFINITY, &t->attr[0]);
  if (!status) status = uc_task_float(t, "max", INFINITY, &t->attr[1]);
  if (!status) status = same_types(p, t, 0);
  if (status) return status;
  for (int k = 1; k < 3; k++) {
    const uc_value *bound = uc_task_in(p, t, k);
    if (bound && uc_shape_count(bound->rank, bound->shape) != 1)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "input %d has more than one element", k);
  }
  return uc_set_result(p, t, 0, in->dtype, in->rank, in->shape);
}

/* ---- Cast ---- */

upconv_status uc_plan_cast(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0), *like = uc_task_in(p, t, 1);
  int64_t to = 0;
  t->fn = UC_FN_CAST;
  upconv_status status = like ? UPCONV_OK : uc_task_int(t, "to", 0, &to);
  if (status) return status;
  if (like) to = (int64_t)like->dtype;
  if (to < 0 || to > INT32_MAX || uc_onnx_dtype_size((uc_onnx_dtype)to) == 0)
    return uc_fail(UPCONV_UNSUPPORTED, "type %lld is not supported", (long long)to);
  t->input_count = 1; /* CastLike reads the type of its second input only */
  if ((uc_onnx_dtype)to == in->dtype) return uc_plan_identity(p, t);
  return uc_set_result(p, t, 0, (uc_onnx_dtype)to, in->rank, in->shape);
}

/* ---- operators with variants ---- */

upconv_status uc_plan_gelu(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  const char *approximate;
  upconv_status status = uc_task_string(t, "approximate", "none", &approximate);
  if (!status) status = uc_task_is_float(p, t, 0);
  if (status) return status;
  bool is_tanh = strcmp(approximate, "tanh") == 0;
  if (!is_tanh && strcmp(approximate, "none") != 0)
    return uc_fail(UPCONV_UNSUPPORTED, "attribute 'approximate' is '%.40s'; allowed: none, tanh",
                   approximate);
  t->fn = is_tanh ? UC_FN_GELU_TANH : UC_FN_GELU;
  return uc_set_result(p, t, 0, in->dtype, in->rank, in->shape);
}

upconv_status uc_plan_swish(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *in = uc_task_in(p, t, 0);
  upconv_status status = uc_task_float(t, "alpha", 1, &t->attr[0]);
  if (!status) status = uc_task_is_float(p, t, 0);
  if (status) return status;
  t->fn = UC_FN_SILU;
  return uc_set_result(p, t, 0, in->dtype, in->rank, in->shape);
}
