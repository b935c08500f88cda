/* SPDX-License-Identifier: Apache-2.0 */
/* The cut as text: what `upconv plan MODEL.onnx` prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "../text.h"
#include "session.h"

static void print_shape(uc_text *text, const uc_value *v) {
  uc_text_add(text, "%s [", uc_onnx_dtype_name(v->dtype));
  for (int i = 0; i < v->rank; i++)
    uc_text_add(text, "%s%lld", i ? "," : "", (long long)v->shape[i]);
  uc_text_add(text, "]");
}

/* A task's operator; what a pattern made of it in brackets. */
static void print_operator(uc_text *text, const uc_onnx_task *t) {
  static const struct {
    uc_fn fn;
    const char *name;
  } patterns[] = {
      {UC_FN_GELU, "gelu"},           {UC_FN_GELU_TANH, "gelu_tanh"},
      {UC_FN_SILU, "silu"},           {UC_FN_MISH, "mish"},
      {UC_FN_HARDSWISH, "hardswish"}, {UC_FN_HARDSIGMOID, "hardsigmoid"},
      {UC_FN_SOFTPLUS, "softplus"},
  };
  uc_text_add(text, "%s", t->node->op_type);
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
    if (t->fn == patterns[i].fn && t->input_count == 1 && t->node->input_count > 1)
      uc_text_add(text, " [%s]", patterns[i].name);
}

static void print_tasks(uc_text *text, const uc_cut *cut, const int *task, int count) {
  for (int i = 0; i < count; i++) {
    const uc_onnx_task *t = &cut->program->task[task[i]];
    uc_text_add(text, "    ");
    print_operator(text, t);
    uc_text_add(text, " '%s'\n", t->node->name);
  }
}

/* Text of a function with snprintf's convention, indented. */
static upconv_status add_indented(uc_text *text, const upconv_plan *plan) {
  size_t length;
  upconv_status status = upconv_plan_print(plan, NULL, 0, &length);
  char *buffer = status ? NULL : uc_onnx_new((int64_t)length + 1, 1);
  if (!status && !buffer) return UPCONV_OUT_OF_MEMORY;
  if (!status) status = upconv_plan_print(plan, buffer, length + 1, NULL);
  for (char *line = buffer; !status && line && *line;) {
    size_t n = strcspn(line, "\n");
    uc_text_add(text, "    %.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
  free(buffer);
  return status;
}

static void print_rules(uc_text *text, const upconv_plan *plan) {
  uc_text_add(text, "    %s", upconv_plan_candidate(plan));
  for (int i = 0; upconv_plan_rule(plan, i); i++)
    uc_text_add(text, "%s%s", i ? ", " : "; rules: ", upconv_plan_rule(plan, i));
  uc_text_add(text, "\n");
}

static upconv_status print_problem(uc_text *text, const uc_segment *s) {
  size_t length;
  upconv_status status = upconv_problem_print(s->problem, s->epilogue, NULL, 0, &length);
  char *buffer = status ? NULL : uc_onnx_new((int64_t)length + 1, 1);
  if (!status && !buffer) return UPCONV_OUT_OF_MEMORY;
  if (!status) status = upconv_problem_print(s->problem, s->epilogue, buffer, length + 1, NULL);
  if (!status) uc_text_add(text, "    %s\n", buffer);
  free(buffer);
  return status;
}

static upconv_status print_segment(uc_text *text, uc_onnx_session *session, const uc_cut *cut,
                                   const uc_segment *s, bool plans) {
  const uc_onnx_program *p = cut->program;
  uc_text_add(text, "segment: '%s' -> '%s' ", p->model->value[s->x].name,
              p->model->value[s->y.value].name);
  print_shape(text, &p->value[s->y.value]);
  uc_text_add(text, "\n");
  print_tasks(text, cut, s->task, s->task_count);
  upconv_status status = print_problem(text, s);
  if (status) return status;
  /* The plan kept may have been made for other sizes: numbers are printed for these. */
  upconv_plan *plan;
  status = uc_plans_fresh(&session->plans, p, s, &plan);
  if (status) return status;
  if (plans)
    status = add_indented(text, plan);
  else
    print_rules(text, plan);
  upconv_plan_destroy(plan);
  return status;
}

static void print_plain(uc_text *text, const uc_cut *cut, int task) {
  const uc_onnx_task *t = &cut->program->task[task];
  uc_text_add(text, "plain: ");
  print_operator(text, t);
  uc_text_add(text, " '%s' -> ", t->node->name);
  if (t->output[0] >= 0) print_shape(text, &cut->program->value[t->output[0]]);
  uc_text_add(text, "\n");
}

static upconv_status print_cut(uc_onnx_session *session, const uc_cut *cut, bool plans,
                               uc_text *text) {
  int folded = 0, views = 0;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < cut->program->task_count; i++) {
    folded += cut->program->task[i].live && cut->program->task[i].folded;
    views += uc_task_runs(&cut->program->task[i]) && cut->program->task[i].view;
  }
  for (int i = 0; i < cut->step_count && !status; i++) {
    const uc_step *step = &cut->step[i];
    if (step->segment >= 0)
      status = print_segment(text, session, cut, &cut->segment[step->segment], plans);
    if (step->task >= 0) print_plain(text, cut, step->task);
    if (step->output >= 0)
      uc_text_add(text, "copy: to output '%s'\n", session->model->output_info[step->output].name);
  }
  uc_text_add(text,
              "%d nodes: %d segment%s, %d constant, %d view%s; %zu bytes of intermediate results\n",
              cut->program->task_count, cut->segment_count, cut->segment_count == 1 ? "" : "s",
              folded, views, views == 1 ? "" : "s", cut->arena);
  return status;
}

upconv_status uc_onnx_print(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                            bool plans, char *buffer, size_t capacity, size_t *length) {
  const uc_onnx_tensor **ordered;
  uc_cut *cut;
  uc_text text;
  upconv_status status = uc_session_inputs(session->model, inputs, input_count, &ordered);
  if (status) return status;
  uc_text_init(&text, buffer, capacity);
  status = uc_session_cut(session, ordered, &cut);
  if (!status) status = print_cut(session, cut, plans, &text);
  if (!status && length) *length = text.length;
  free(ordered);
  return status;
}

upconv_status uc_onnx_work(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                           upconv_work *work) {
  const uc_onnx_tensor **ordered;
  uc_cut *cut;
  upconv_status status = uc_session_inputs(session->model, inputs, input_count, &ordered);
  if (status) return status;
  *work = (upconv_work){0};
  status = uc_session_cut(session, ordered, &cut);
  for (int i = 0; !status && i < cut->segment_count; i++) {
    upconv_work one;
    upconv_plan *plan;
    status = uc_plans_fresh(&session->plans, cut->program, &cut->segment[i], &plan);
    if (status) break;
    status = upconv_plan_work(plan, &one);
    upconv_plan_destroy(plan);
    work->source_flop += one.source_flop;
    work->planned_flop += one.planned_flop;
    work->source_bytes += one.source_bytes;
    work->planned_bytes += one.planned_bytes;
  }
  free(ordered);
  return status;
}
