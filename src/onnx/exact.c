/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's run over a graph, and the comparison with what a session computed. */
#include "exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"
#include "rows.h"
#include "session.h"

typedef struct run {
  const uc_cut *cut;
  const upconv_error_model *model; /* NULL: that of each segment's plan */
  uc_approx **root;                /* elements of values that are their own root */
  int *last;                       /* the last step that reads them; steps: kept to the end */
} run;

/* ---- values ---- */

static uc_exact exact_of(const void *context, int value) {
  const run *r = context;
  uc_exact exact = {.at = NULL};
  if (value < 0) return exact;
  const uc_value *v = &r->cut->program->value[value];
  exact.dtype = v->dtype;
  exact.rank = v->rank;
  memcpy(exact.shape, v->shape, sizeof exact.shape);
  memcpy(exact.stride, v->stride, sizeof exact.stride);
  if (r->root[v->root]) exact.at = r->root[v->root] + v->offset;
  return exact;
}

/* Room for a value that is made, or for data that are given. */
static upconv_status make_root(run *r, int value, const void *data) {
  const uc_value *v = &r->cut->program->value[value];
  int64_t count = uc_shape_count(v->rank, v->shape);
  if (r->root[value]) return UPCONV_OK;
  r->root[value] = uc_onnx_new(count, sizeof *r->root[value]);
  if (!r->root[value]) return UPCONV_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count && data; i++)
    r->root[value][i] = uc_approx_exact(uc_onnx_get(data, v->dtype, i));
  return UPCONV_OK;
}

/* A constant is converted when a step needs it: weights of segments never are. */
static upconv_status need(run *r, int value) {
  if (value < 0) return UPCONV_OK;
  int root = r->cut->program->value[value].root;
  const uc_value *v = &r->cut->program->value[root];
  return v->data ? make_root(r, root, v->data) : UPCONV_OK;
}

/* ---- lives ---- */

static void read_at(run *r, int value, int step) {
  if (value >= 0) r->last[r->cut->program->value[value].root] = step;
}

static void find_lives(run *r) {
  const uc_cut *cut = r->cut;
  const uc_onnx_model *m = cut->program->model;
  for (int i = 0; i < cut->step_count; i++) {
    const uc_step *step = &cut->step[i];
    if (step->task >= 0) {
      const uc_onnx_task *t = &cut->program->task[step->task];
      for (int k = 0; k < t->input_count; k++) read_at(r, t->input[k], i);
    }
    if (step->segment < 0) continue;
    const uc_segment *s = &cut->segment[step->segment];
    read_at(r, s->x, i);
    read_at(r, s->weight, i);
    read_at(r, s->bias, i);
    for (int k = 0; k < s->param_count; k++) read_at(r, s->param[k].value, i);
    for (int k = 0; k < s->tensor_count; k++) read_at(r, s->tensor[k].value, i);
  }
  for (int i = 0; i < m->output_count; i++) read_at(r, m->output[i], cut->step_count);
}

static void release(run *r, int value, int step) {
  if (value < 0) return;
  int root = r->cut->program->value[value].root;
  if (r->last[root] != step) return;
  free(r->root[root]);
  r->root[root] = NULL;
}

/* ---- steps ---- */

static upconv_status run_task(run *r, int step, const uc_onnx_task *t) {
  uc_exact *in = uc_onnx_new(t->input_count, sizeof *in);
  if (!in) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = make_root(r, t->output[0], NULL);
  for (int k = 0; k < t->input_count && !status; k++) {
    status = need(r, t->input[k]);
    in[k] = exact_of(r, t->input[k]);
  }
  uc_exact out = exact_of(r, t->output[0]);
  if (!status) status = uc_exact_task(t, in, &out);
  for (int k = 0; k < t->input_count; k++) release(r, t->input[k], step);
  free(in);
  return status;
}

static upconv_status run_segment(run *r, int step, const uc_segment *s) {
  upconv_status status = make_root(r, s->y.value, NULL);
  if (!status) status = need(r, s->x);
  for (int k = 0; k < s->tensor_count && !status; k++) status = need(r, s->tensor[k].value);
  uc_exact out = exact_of(r, s->y.value);
  upconv_error_model own = uc_plan_error_model(uc_plan_of(s));
  const upconv_error_model *model = r->model ? r->model : &own;
  if (!status) status = uc_exact_segment(r->cut->program, s, model, exact_of, r, &out);
  release(r, s->x, step);
  for (int k = 0; k < s->tensor_count; k++) release(r, s->tensor[k].value, step);
  return status;
}

static upconv_status run_steps(run *r, const uc_onnx_tensor *const *inputs) {
  const uc_onnx_program *p = r->cut->program;
  upconv_status status = UPCONV_OK;
  find_lives(r);
  for (int i = 0; i < p->model->input_count && !status; i++)
    status = make_root(r, p->model->input[i], inputs[i]->data);
  for (int i = 0; i < r->cut->step_count && !status; i++) {
    const uc_step *step = &r->cut->step[i];
    const uc_segment *s = step->segment < 0 ? NULL : &r->cut->segment[step->segment];
    const uc_onnx_task *t = &p->task[s ? s->first : step->task];
    status = s ? run_segment(r, i, s) : run_task(r, i, t);
    if (status) uc_fail_in(status, "node '%.200s' (%.80s)", t->node->name, t->node->op_type);
  }
  return status;
}

/* ---- results ---- */

static double bound_of(uc_approx a) {
  if (uc_approx_is_undecided(a)) return INFINITY;
  return uc_approx_is_special(a) ? 0 : fmax(a.high - a.value, a.value - a.low);
}

static upconv_status store_result(run *r, int value, uc_onnx_result *result) {
  upconv_status status = need(r, value);
  if (status) return status;
  uc_exact exact = exact_of(r, value);
  int64_t count = uc_shape_count(exact.rank, exact.shape), k = 0;
  result->dtype = exact.dtype;
  result->rank = exact.rank;
  memcpy(result->shape, exact.shape, sizeof result->shape);
  result->value = uc_onnx_new(count, sizeof *result->value);
  result->bound = uc_onnx_new(count, sizeof *result->bound);
  if (!result->value || !result->bound) return UPCONV_OUT_OF_MEMORY;
  const uc_view view = uc_exact_view(&exact, UC_PART_VALUE);
  const uc_view *walked[] = {&view};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 1, walked); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++, k++) {
      const double *element = (const double *)view.data + walk.at[0] + i * walk.step[0];
      uc_approx a = *(const uc_approx *)element;
      result->value[k] = a.value;
      result->bound[k] = bound_of(a);
    }
  return UPCONV_OK;
}

static upconv_status run_cut(const uc_onnx_session *session, const uc_cut *cut,
                             const uc_onnx_tensor *const *inputs, const upconv_error_model *model,
                             uc_onnx_result *results, int count) {
  const uc_onnx_program *p = cut->program;
  run r = {.cut = cut, .model = model};
  r.root = uc_onnx_new(p->value_count, sizeof *r.root);
  r.last = uc_onnx_new(p->value_count, sizeof *r.last);
  upconv_status status = r.root && r.last ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  for (int v = 0; v < p->value_count && !status; v++) r.last[v] = -1;
  if (!status) status = run_steps(&r, inputs);
  for (int i = 0; i < count && !status; i++) {
    int index;
    status = uc_session_output(session->model, results[i].name, i, &index);
    if (!status) status = store_result(&r, session->model->output[index], &results[i]);
  }
  for (int v = 0; r.root && v < p->value_count; v++) free(r.root[v]);
  free(r.root);
  free(r.last);
  return status;
}

upconv_status uc_onnx_reference(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                int input_count, const upconv_error_model *model,
                                uc_onnx_result *results, int result_count) {
  const uc_onnx_tensor **ordered;
  uc_onnx_program *program;
  uc_cut cut = {.program = NULL};
  for (int i = 0; i < result_count; i++) results[i].value = results[i].bound = NULL;
  upconv_status status = uc_session_inputs(session->model, inputs, input_count, &ordered);
  if (status) return status;
  status = uc_session_program(session, ordered, &program);
  if (!status) status = uc_cut_make(&cut, program, &session->plans, false);
  if (!status) status = run_cut(session, &cut, ordered, model, results, result_count);
  uc_cut_free(&cut);
  free(ordered);
  for (int i = 0; i < result_count && status; i++) uc_onnx_result_free(&results[i]);
  return status;
}

void uc_onnx_result_free(uc_onnx_result *result) {
  free(result->value);
  free(result->bound);
  result->value = result->bound = NULL;
}

/* ---- comparison ---- */

/* How much of the bound an element uses; infinity where it is wrong whatever the bound. */
static double used(double y, double value, double bound) {
  if (isinf(bound) && bound > 0) return 0;
  if (isnan(y) || isnan(value)) return isnan(y) && isnan(value) ? 0 : (double)INFINITY;
  if (y == value) return 0;
  if (isinf(y) || isinf(value) || !(bound > 0)) return INFINITY;
  return fabs(y - value) / bound;
}

upconv_status uc_onnx_compare(const uc_onnx_tensor *tensor, const uc_onnx_result *result,
                              double *worst, int64_t *where) {
  int64_t count;
  bool same = tensor->rank == result->rank && tensor->dtype == result->dtype;
  for (int i = 0; same && i < tensor->rank; i++) same = tensor->shape[i] == result->shape[i];
  if (!same || !uc_onnx_tensor_elements(tensor, &count))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "'%.200s' and the oracle's result differ in type or shape",
                   tensor->name ? tensor->name : "?");
  *worst = 0;
  if (where) *where = 0;
  for (int64_t i = 0; i < count; i++) {
    double r =
        used(uc_onnx_get(tensor->data, tensor->dtype, i), result->value[i], result->bound[i]);
    if (!(r > *worst)) continue;
    *worst = r;
    if (where) *where = i;
  }
  return UPCONV_OK;
}
