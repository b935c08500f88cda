/* SPDX-License-Identifier: Apache-2.0 */
/* From the graph and the shapes of its inputs to tasks and values: shapes are inferred,
   constants computed. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "program.h"

/* ---- which nodes matter, and which inputs must be known ---- */

static void mark_live(uc_onnx_program *p, bool *wanted) {
  const uc_onnx_model *m = p->model;
  for (int i = 0; i < m->output_count; i++) wanted[m->output[i]] = true;
  for (int i = m->node_count - 1; i >= 0; i--) {
    const uc_onnx_node *node = &m->node[i];
    for (int k = 0; k < node->output_count; k++)
      if (node->output[k] >= 0 && wanted[node->output[k]]) p->task[i].live = true;
    for (int k = 0; k < node->input_count && p->task[i].live; k++)
      if (node->input[k] >= 0) wanted[node->input[k]] = true;
  }
}

/* Values on which shapes depend: inputs of operators that say so, and whatever those are
   computed from. */
static void mark_shape_data(uc_onnx_program *p, bool *needed) {
  const uc_onnx_model *m = p->model;
  for (int i = m->node_count - 1; i >= 0; i--) {
    const uc_onnx_task *t = &p->task[i];
    if (!t->live) continue;
    bool all = false;
    for (int k = 0; k < t->output_count; k++)
      all = all || (t->output[k] >= 0 && needed[t->output[k]]);
    /* A shape is known without the data. */
    bool only_shape = t->op->family == UC_FAMILY_SHAPE && t->op->constant_inputs == 0;
    for (int k = 0; k < t->input_count; k++) {
      bool direct = k < 32 && (t->op->constant_inputs >> k & 1);
      if (t->input[k] >= 0 && ((all && !only_shape) || direct)) needed[t->input[k]] = true;
    }
  }
}

/* ---- values that are there from the start ---- */

static upconv_status set_start(uc_onnx_program *p, int number, const uc_onnx_tensor *tensor,
                               const void *data) {
  /* uc_set_result speaks of a task's output; this one has none but its number. */
  const uc_onnx_task source = {.output_count = 1, .output = &number};
  upconv_status status = uc_set_result(p, &source, 0, tensor->dtype, tensor->rank, tensor->shape);
  if (status) return uc_fail_in(status, "'%.200s'", p->model->value[number].name);
  p->value[number].data = data;
  return UPCONV_OK;
}

static upconv_status set_inputs(uc_onnx_program *p, const uc_onnx_tensor *const *inputs,
                                const bool *needed) {
  const uc_onnx_model *m = p->model;
  enum { MOST = 4096 }; /* shapes are small; what is larger is data */
  for (int i = 0; i < m->input_count; i++) {
    int number = m->input[i];
    upconv_status status = set_start(p, number, inputs[i], NULL);
    if (status) return status;
    uc_value *value = &p->value[number];
    int64_t count = uc_shape_count(value->rank, value->shape);
    if (!needed[number] || !inputs[i]->data || count > MOST) continue;
    size_t bytes = (size_t)count * uc_onnx_dtype_size(value->dtype);
    value->owned = uc_onnx_new((int64_t)bytes, 1);
    if (!value->owned) return UPCONV_OUT_OF_MEMORY;
    if (bytes) memcpy(value->owned, inputs[i]->data, bytes);
    value->data = value->owned;
  }
  return UPCONV_OK;
}

static upconv_status set_initialisers(uc_onnx_program *p) {
  int64_t total = 0;
  for (int i = 0; i < p->value_count; i++) {
    const uc_onnx_graph_value *v = &p->model->value[i];
    if (!v->is_initial) continue;
    upconv_status status = set_start(p, i, &v->initial, v->initial.data);
    if (status) return status;
    total += uc_shape_count(v->initial.rank, v->initial.shape) * 8;
  }
  p->fold_budget = 4 * total + (INT64_C(1) << 30);
  return UPCONV_OK;
}

/* ---- constant folding ---- */

static bool all_constant(uc_onnx_program *p, const uc_onnx_task *t) {
  for (int k = 0; k < t->input_count; k++)
    if (t->input[k] >= 0 && !p->value[t->input[k]].data) return false;
  return true;
}

static int64_t bytes_of(const uc_value *v) {
  return uc_shape_count(v->rank, v->shape) * (int64_t)uc_onnx_dtype_size(v->dtype);
}

static bool within_budget(uc_onnx_program *p, const uc_onnx_task *t) {
  int64_t bytes = 0;
  for (int k = 0; k < t->input_count + t->output_count; k++) {
    int number = k < t->input_count ? t->input[k] : t->output[k - t->input_count];
    if (number >= 0) bytes += bytes_of(&p->value[number]);
    if (bytes > p->fold_budget) return false;
  }
  p->fold_budget -= bytes;
  return true;
}

/* A view of a constant is a constant: the same memory where that is dense, else a copy. */
static upconv_status fold_view(uc_onnx_program *p, uc_onnx_task *t, int output) {
  uc_value *out = uc_task_out(p, t, output);
  const uc_value *in = uc_task_in(p, t, 0);
  if (!out || out->dtype == UC_ONNX_UNDEFINED || out->data) return UPCONV_OK;
  uc_view from = {.dtype = out->dtype, .rank = out->rank};
  from.data = (char *)(uintptr_t)in->data + out->offset * (int64_t)uc_onnx_dtype_size(in->dtype);
  memcpy(from.shape, out->shape, sizeof from.shape);
  memcpy(from.stride, out->stride, sizeof from.stride);
  if (!t->view) { /* a reshape that needs a copy */
    from = uc_constant_view(in);
  } else if (uc_is_dense(out->rank, out->shape, out->stride)) {
    out->data = from.data;
  }
  out->root = t->output[output];
  out->offset = 0;
  uc_dense_strides(out->rank, out->shape, out->stride);
  if (out->data) return UPCONV_OK;
  if (!uc_set_constant(p, t, output)) return UPCONV_OUT_OF_MEMORY;
  uc_view to = uc_constant_view(out);
  uc_view_copy(&from, &to);
  return UPCONV_OK;
}

static upconv_status fold_run(uc_onnx_program *p, uc_onnx_task *t) {
  if (!uc_set_constant(p, t, 0)) return UPCONV_OUT_OF_MEMORY;
  uc_view *in = uc_onnx_new(t->input_count, sizeof *in);
  if (!in) return UPCONV_OUT_OF_MEMORY;
  for (int k = 0; k < t->input_count; k++)
    if (t->input[k] >= 0) in[k] = uc_constant_view(&p->value[t->input[k]]);
  uc_view out = uc_constant_view(uc_task_out(p, t, 0));
  t->op->run(t, in, &out);
  free(in);
  return UPCONV_OK;
}

static upconv_status fold(uc_onnx_program *p, uc_onnx_task *t) {
  if (t->op->family == UC_FAMILY_SHAPE) {
    t->folded = true;
    return UPCONV_OK;
  }
  if (t->op->family == UC_FAMILY_CONV || !all_constant(p, t) || !within_budget(p, t))
    return UPCONV_OK;
  t->folded = true;
  if (!t->view && t->op->run) return fold_run(p, t);
  upconv_status status = UPCONV_OK;
  for (int k = 0; k < t->output_count && !status; k++) status = fold_view(p, t, k);
  return status;
}

/* ---- one node ---- */

static bool lists(const char *names, const char *name) {
  size_t length = strlen(name);
  for (const char *at = names; length > 0 && (at = strstr(at, name)); at++)
    if (at > names && at[-1] == ' ' && at[length] == ' ') return true;
  return false;
}

static upconv_status check_node(uc_onnx_program *p, const uc_onnx_task *t, const bool *wanted) {
  const uc_onnx_op *op = t->op;
  if (t->input_count < op->min_inputs || (op->max_inputs >= 0 && t->input_count > op->max_inputs))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "has %d inputs", t->input_count);
  for (int k = 0; k < t->input_count; k++) {
    bool required = k < op->min_inputs || op->max_inputs < 0;
    if (t->input[k] < 0 && required)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "input %d is missing", k);
    if (t->input[k] >= 0 && p->value[t->input[k]].dtype == UC_ONNX_UNDEFINED)
      return uc_fail(UPCONV_UNSUPPORTED, "input '%.200s' has no known type",
                     p->model->value[t->input[k]].name);
  }
  for (int k = op->max_outputs; op->max_outputs >= 0 && k < t->output_count; k++)
    if (t->output[k] >= 0 && wanted[t->output[k]])
      return uc_fail(UPCONV_UNSUPPORTED, "output %d ('%.200s') is not supported", k,
                     p->model->value[t->output[k]].name);
  for (int k = 0; k < t->node->attr_count; k++)
    if (!lists(op->attributes, t->node->attr[k].name))
      return uc_fail(UPCONV_UNSUPPORTED, "attribute '%.80s' is not supported",
                     t->node->attr[k].name);
  return UPCONV_OK;
}

static upconv_status plan_task(uc_onnx_program *p, uc_onnx_task *t, const bool *wanted) {
  upconv_status status = check_node(p, t, wanted);
  if (!status) status = t->op->plan(p, t);
  if (!status) status = fold(p, t);
  return status ? uc_fail_in(status, "node '%.200s' (%.80s)", t->node->name, t->node->op_type)
                : UPCONV_OK;
}

static upconv_status make_task(uc_onnx_program *p, uc_onnx_task *t, const uc_onnx_node *node) {
  t->node = node;
  t->input_count = node->input_count;
  t->output_count = node->output_count;
  t->output = node->output;
  t->input = uc_onnx_new(node->input_count, sizeof *t->input);
  if (!t->input) return UPCONV_OUT_OF_MEMORY;
  if (node->input_count)
    memcpy(t->input, node->input, (size_t)node->input_count * sizeof *t->input);
  t->op = uc_onnx_op_find(node, p->model->opset);
  if (t->op || !t->live) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED,
                 "node '%.200s': operator %.80s%s%.80s is not supported (operator set %lld)",
                 node->name, node->domain, *node->domain ? "." : "", node->op_type,
                 (long long)p->model->opset);
}

/* ---- the whole ---- */

static upconv_status program_start(uc_onnx_program *p, bool *wanted) {
  const uc_onnx_model *m = p->model;
  p->value_count = m->value_count;
  p->task_count = m->node_count;
  p->value = uc_onnx_new(m->value_count, sizeof *p->value);
  p->task = uc_onnx_new(m->node_count, sizeof *p->task);
  if (!p->value || !p->task) return UPCONV_OUT_OF_MEMORY;
  mark_live(p, wanted);
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < p->task_count && !status; i++)
    status = make_task(p, &p->task[i], &m->node[i]);
  return status;
}

static upconv_status plan_all(uc_onnx_program *p, const uc_onnx_tensor *const *inputs, bool *wanted,
                              bool *needed) {
  upconv_status status = program_start(p, wanted);
  if (status) return status;
  mark_shape_data(p, needed);
  status = set_inputs(p, inputs, needed);
  if (!status) status = set_initialisers(p);
  for (int i = 0; i < p->task_count && !status; i++)
    if (p->task[i].live) status = plan_task(p, &p->task[i], wanted);
  return status;
}

upconv_status uc_onnx_program_plan(uc_onnx_program *p, const uc_onnx_tensor *const *inputs) {
  bool *wanted = uc_onnx_new(p->model->value_count, sizeof *wanted);
  bool *needed = uc_onnx_new(p->model->value_count, sizeof *needed);
  upconv_status status = UPCONV_OUT_OF_MEMORY;
  if (wanted && needed) status = plan_all(p, inputs, wanted, needed);
  free(wanted);
  free(needed);
  return status;
}

upconv_status uc_onnx_check_operators(const uc_onnx_model *model) {
  uc_onnx_program p = {.model = model};
  bool *wanted = uc_onnx_new(model->value_count, sizeof *wanted);
  upconv_status status = wanted ? program_start(&p, wanted) : UPCONV_OUT_OF_MEMORY;
  free(wanted);
  uc_onnx_program_free(&p);
  return status;
}

void uc_onnx_program_free(uc_onnx_program *p) {
  for (int i = 0; p->task && i < p->task_count; i++) {
    free(p->task[i].input);
    for (int k = 0; k < UC_ONNX_MAX_RANK; k++) free(p->task[i].map[k]);
  }
  for (int i = 0; p->value && i < p->value_count; i++) free(p->value[i].owned);
  free(p->task);
  free(p->value);
  free(p->first_reader);
  free(p->reader);
  *p = (uc_onnx_program){.model = p->model};
}
