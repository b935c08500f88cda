/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a segment reaches. From a convolution on, readers of what is inside join as long as they
 * translate. A set of joined tasks can be run as one when exactly one of its values is read
 * outside, or is an output of the graph: that one is y, and the last task makes it. (A value that
 * is needed from outside can then not depend on the segment: it would depend on an inner value that
 * is read outside.) The longest such prefix for which a plan can be made is taken.
 */
#include "segment.h"

#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "cut.h"
#include "plans.h"

/* ---- growing ---- */

typedef struct growth {
  uc_onnx_program *program;
  const int *owner; /* segment of each task, -1: none yet */
  const int *uses;  /* of each value: readers and graph outputs */
  uc_tail tail;
  int count; /* joined tasks */
  int task[UC_MAX_TAIL + 1];
  bool cut[UC_MAX_TAIL + 1]; /* whether the first i + 1 tasks can be run as one */
  int waiting_count;
  int waiting[UC_MAX_TAIL]; /* readers that were seen, not yet tried */
  int inner_uses[UC_MAX_TAIL + 1];
} growth;

static bool is_listed(const int *list, int count, int task) {
  for (int i = 0; i < count; i++)
    if (list[i] == task) return true;
  return false;
}

static void add_readers(growth *g, int value) {
  const uc_onnx_program *p = g->program;
  for (int64_t r = p->first_reader[value]; r < p->first_reader[value + 1]; r++) {
    int task = p->reader[r];
    if (g->waiting_count == UC_MAX_TAIL) return;
    if (g->owner[task] < 0 && !is_listed(g->waiting, g->waiting_count, task) &&
        !is_listed(g->task, g->count, task))
      g->waiting[g->waiting_count++] = task;
  }
}

/* The waiting task that stands first in the graph, so that what it reads inside has joined
   before it. */
static int next_waiting(growth *g) {
  int best = 0;
  for (int i = 1; i < g->waiting_count; i++)
    if (g->waiting[i] < g->waiting[best]) best = i;
  int task = g->waiting[best];
  g->waiting[best] = g->waiting[--g->waiting_count];
  return task;
}

/* The task has joined: counts what it reads inside, and whether the set is closed now. */
static void joined(growth *g, int task) {
  const uc_onnx_task *t = &g->program->task[task];
  int open = 0;
  g->task[g->count] = task;
  g->inner_uses[g->count] = 0;
  for (int k = 0; k < t->input_count && g->count > 0; k++)
    for (int i = 0; i < g->count; i++)
      if (t->input[k] == g->program->task[g->task[i]].output[0]) g->inner_uses[i]++;
  g->count++;
  for (int i = 0; i < g->count; i++)
    open += g->inner_uses[i] < g->uses[g->program->task[g->task[i]].output[0]];
  g->cut[g->count - 1] = open == 1;
}

static upconv_status grow(growth *g, int head, bool alone) {
  uc_onnx_program *p = g->program;
  upconv_status status = uc_tail_start(&g->tail, p, &p->task[head]);
  if (status) return status;
  joined(g, head);
  if (!alone) add_readers(g, p->task[head].output[0]);
  while (g->waiting_count > 0 && g->count <= UC_MAX_TAIL) {
    int task = next_waiting(g);
    if (!uc_tail_add(&g->tail, &p->task[task])) continue;
    joined(g, task);
    add_readers(g, p->task[task].output[0]);
  }
  uc_tail_free(&g->tail);
  return UPCONV_OK;
}

/* ---- the segment ---- */

static int *copy_tasks(const growth *g, int count) {
  int *task = uc_onnx_new(count, sizeof *task);
  if (task) memcpy(task, g->task, (size_t)count * sizeof *task);
  return task;
}

static uc_onnx_source *copy_sources(const uc_onnx_source *from, int count) {
  uc_onnx_source *to = uc_onnx_new(count, sizeof *to);
  if (to && count) memcpy(to, from, (size_t)count * sizeof *to);
  return to;
}

/* y's dimensions for each axis, and the type that the last operator rounds to. */
static upconv_status finish_y(uc_segment *s, const uc_inner *inner) {
  s->y = (uc_onnx_source){.value = inner->value, .dim = {-1, -1, -1, -1, -1}};
  for (int i = 0; i < inner->rank; i++)
    if (inner->axis[i] >= 0) s->y.dim[inner->axis[i]] = i;
  (void)uc_onnx_engine_dtype(inner->dtype, &s->desc.y_dtype);
  upconv_status status = upconv_problem_create(&s->desc, &s->problem);
  return status ? status : upconv_output_shape(s->problem, s->epilogue, s->y_shape);
}

/* The first `count` joined tasks as a segment. */
static upconv_status build(growth *g, int count, const uc_plans *plans, uc_segment *s) {
  uc_onnx_program *p = g->program;
  const uc_onnx_task *head = &p->task[g->task[0]];
  *s = (uc_segment){.first = g->task[0], .last = g->task[count - 1], .task_count = count};
  upconv_status status = uc_tail_start(&g->tail, p, head);
  for (int i = 1; i < count && !status; i++)
    if (!uc_tail_add(&g->tail, &p->task[g->task[i]]))
      status = uc_fail(UPCONV_UNSUPPORTED, "an operator did not fuse twice");
  if (status) {
    uc_tail_free(&g->tail);
    return status;
  }
  s->epilogue = g->tail.epilogue;
  s->task = copy_tasks(g, count);
  s->param_count = g->tail.param_count;
  s->param = copy_sources(g->tail.param, s->param_count);
  s->tensor_count = g->tail.tensor_count;
  s->tensor = copy_sources(g->tail.tensor, s->tensor_count);
  if (!s->task || !s->param || !s->tensor) return UPCONV_OUT_OF_MEMORY;
  s->conv = head->op->variant != 0;
  s->desc = head->desc;
  s->desc.math = uc_plans_math(plans);
  s->x = head->input[0];
  s->weight = head->input[1];
  s->bias = head->input_count > 2 ? head->input[2] : -1;
  return finish_y(s, uc_tail_find(&g->tail, p->task[s->last].output[0]));
}

void uc_segment_free(uc_segment *s) {
  upconv_problem_destroy(s->problem);
  upconv_epilogue_destroy(s->epilogue);
  free(s->task);
  free(s->param);
  free(s->tensor);
}

/* From the longest prefix on, until one has a plan. */
static upconv_status choose(growth *g, uc_plans *plans, uc_segment *s) {
  upconv_status status = UPCONV_OK;
  for (int count = g->count; count > 0; count--) {
    if (!g->cut[count - 1]) continue;
    status = build(g, count, plans, s);
    if (!status) status = uc_plans_get(plans, g->program, s);
    if (!status) return UPCONV_OK;
    uc_segment_free(s);
    if (status != UPCONV_UNSUPPORTED && status != UPCONV_INVALID_ARGUMENT) break;
  }
  const uc_onnx_node *node = g->program->task[g->task[0]].node;
  return uc_fail_in(status, "node '%.200s' (%.80s)", node->name, node->op_type);
}

/* ---- all of them ---- */

static int *count_uses(const uc_onnx_program *p) {
  int *uses = uc_onnx_new(p->value_count, sizeof *uses);
  for (int v = 0; uses && v < p->value_count; v++)
    uses[v] = (int)(p->first_reader[v + 1] - p->first_reader[v]);
  for (int i = 0; uses && i < p->model->output_count; i++) uses[p->model->output[i]]++;
  return uses;
}

static upconv_status add_segment(uc_cut *cut, uc_plans *plans, const int *uses, int head) {
  growth *g = uc_onnx_new(1, sizeof *g);
  if (!g) return UPCONV_OUT_OF_MEMORY;
  g->program = cut->program;
  g->owner = cut->owner;
  g->uses = uses;
  upconv_status status = grow(g, head, plans->options.no_tails);
  if (!status) status = choose(g, plans, &cut->segment[cut->segment_count]);
  if (!status) {
    uc_segment *s = &cut->segment[cut->segment_count];
    for (int i = 0; i < s->task_count; i++) cut->owner[s->task[i]] = cut->segment_count;
    cut->segment_count++;
  }
  free(g);
  return status;
}

/* A view that read a value inside a segment reads memory now that did not exist when it was
   planned. */
static upconv_status replan_views(uc_cut *cut) {
  uc_onnx_program *p = cut->program;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < cut->segment_count; i++) {
    int number = cut->segment[i].y.value;
    uc_value *y = &p->value[number];
    y->root = number;
    y->offset = 0;
    uc_dense_strides(y->rank, y->shape, y->stride);
  }
  for (int i = 0; i < p->task_count && !status && cut->segment_count; i++) {
    uc_onnx_task *t = &p->task[i];
    if (!uc_task_runs(t) || cut->owner[i] >= 0) continue;
    if (t->op->family != UC_FAMILY_VIEW && !t->view) continue;
    t->view = false;
    status = t->op->plan(p, t);
  }
  return status;
}

upconv_status uc_cut_segments(uc_cut *cut, uc_plans *plans) {
  uc_onnx_program *p = cut->program;
  enum { MOST_SEGMENTS = 10000 };
  int heads = 0;
  for (int i = 0; i < p->task_count; i++)
    heads += uc_task_runs(&p->task[i]) && p->task[i].op->family == UC_FAMILY_CONV;
  if (heads > MOST_SEGMENTS)
    return uc_fail(UPCONV_UNSUPPORTED, "the graph has %d convolutions; at most %d are supported",
                   heads, MOST_SEGMENTS);
  int *uses = count_uses(p);
  cut->owner = uc_onnx_new(p->task_count, sizeof *cut->owner);
  cut->segment = uc_onnx_new(heads, sizeof *cut->segment);
  upconv_status status = uses && cut->owner && cut->segment ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < p->task_count && !status; i++) cut->owner[i] = -1;
  for (int i = 0; i < p->task_count && !status; i++)
    if (uc_task_runs(&p->task[i]) && p->task[i].op->family == UC_FAMILY_CONV)
      status = add_segment(cut, plans, uses, i);
  free(uses);
  return status ? status : replan_views(cut);
}
