/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for values. Inputs and constants stay where they are, graph outputs are made in the
 * caller's buffers, parts of a Concat inside its result, and everything else in one arena whose
 * blocks are used again as soon as their last reader has run.
 */
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "cut.h"
#include "ops.h"

typedef struct life {
  int first, last; /* steps; first -1: never made */
} life;

/* ---- what needs no block ---- */

static void place_known(uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < p->model->input_count; i++)
    cut->place[p->model->input[i]] = (uc_place){.kind = UC_PLACE_INPUT, .index = i};
  for (int v = 0; v < p->value_count; v++)
    if (p->value[v].data) cut->place[v] = (uc_place){.kind = UC_PLACE_CONSTANT};
}

/* Whether the value is all of its root's elements in their order. */
static bool covers_root(const uc_onnx_program *p, const uc_value *v) {
  const uc_value *root = &p->value[v->root];
  return v->offset == 0 && uc_is_dense(v->rank, v->shape, v->stride) &&
         uc_shape_count(v->rank, v->shape) == uc_shape_count(root->rank, root->shape);
}

static void place_outputs(uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < p->model->output_count; i++) {
    const uc_value *v = &p->value[p->model->output[i]];
    uc_place *place = &cut->place[v->root];
    if (!v->data && place->kind == UC_PLACE_NONE && covers_root(p, v))
      *place = (uc_place){.kind = UC_PLACE_OUTPUT, .index = i};
    if (!v->data && place->kind == UC_PLACE_OUTPUT && place->index == i) continue;
    cut->step[cut->step_count++] = (uc_step){.task = -1, .segment = -1, .output = i};
  }
}

/* ---- Concat ---- */

/* Values that others are views of, or that a reshape fills in its own order. */
static bool *find_fixed(const uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  bool *fixed = uc_onnx_new(p->value_count, sizeof *fixed);
  if (!fixed) return NULL;
  for (int i = 0; i < p->task_count; i++) {
    const uc_onnx_task *t = &p->task[i];
    if (!uc_task_runs(t) || cut->owner[i] >= 0) continue;
    bool reshape = t->op->family == UC_FAMILY_VIEW && !t->view;
    for (int k = 0; k < t->output_count; k++) {
      if (t->output[k] < 0) continue;
      const uc_value *out = &p->value[t->output[k]];
      if (t->view) fixed[out->root] = fixed[t->output[k]] = true;
      if (reshape) fixed[t->output[k]] = true;
    }
  }
  for (int i = 0; i < p->model->output_count; i++) fixed[p->model->output[i]] = true;
  return fixed;
}

/* A value that occurs twice is made in its first place, and copied to the second. */
static void place_parts(uc_cut *cut, const uc_onnx_task *t, bool *fixed) {
  const uc_onnx_program *p = cut->program;
  const uc_value *out = &p->value[t->output[0]];
  int64_t at = 0;
  for (int k = 0; k < t->input_count; k++) {
    int number = t->input[k];
    uc_value *part = &p->value[number];
    bool free_to_move = part->root == number && !fixed[number] && !part->data &&
                        cut->place[number].kind == UC_PLACE_NONE;
    if (free_to_move) {
      fixed[number] = true;
      part->root = out->root;
      part->offset = out->offset + at * out->stride[t->axis];
      memcpy(part->stride, out->stride, sizeof part->stride);
    }
    at += part->shape[t->axis];
  }
}

/* From the last Concat back, so that a Concat's own place is known before its parts'. */
static upconv_status place_concats(uc_cut *cut) {
  bool *fixed = find_fixed(cut);
  if (!fixed) return UPCONV_OUT_OF_MEMORY;
  for (int i = cut->step_count - 1; i >= 0; i--) {
    const uc_onnx_task *t = cut->step[i].task < 0 ? NULL : &cut->program->task[cut->step[i].task];
    if (t && t->op->plan == uc_plan_concat) place_parts(cut, t, fixed);
  }
  free(fixed);
  return UPCONV_OK;
}

/* ---- lives ---- */

static void touch(const uc_cut *cut, life *lives, int value, int step) {
  if (value < 0) return;
  int root = cut->program->value[value].root;
  if (lives[root].first < 0) lives[root].first = step;
  lives[root].last = step;
}

static void find_lives(const uc_cut *cut, life *lives) {
  const uc_onnx_program *p = cut->program;
  for (int v = 0; v < p->value_count; v++) lives[v].first = -1;
  for (int i = 0; i < cut->step_count; i++) {
    const uc_step *step = &cut->step[i];
    if (step->output >= 0) touch(cut, lives, p->model->output[step->output], i);
    if (step->task >= 0) {
      const uc_onnx_task *t = &p->task[step->task];
      for (int k = 0; k < t->input_count; k++) touch(cut, lives, t->input[k], i);
      for (int k = 0; k < t->output_count; k++)
        if (t->output[k] >= 0 && p->value[t->output[k]].dtype) touch(cut, lives, t->output[k], i);
    }
    if (step->segment < 0) continue;
    const uc_segment *s = &cut->segment[step->segment];
    touch(cut, lives, s->x, i);
    touch(cut, lives, s->weight, i);
    touch(cut, lives, s->bias, i);
    for (int k = 0; k < s->param_count; k++) touch(cut, lives, s->param[k].value, i);
    for (int k = 0; k < s->tensor_count; k++) touch(cut, lives, s->tensor[k].value, i);
    touch(cut, lives, s->y.value, i);
  }
}

/* ---- the arena ---- */

typedef struct hole {
  size_t offset, size;
} hole;

typedef struct arena {
  size_t alignment, end, peak;
  int count;
  hole hole[1024]; /* ascending; when it is full, the smallest is forgotten */
} arena;

static void remove_hole(arena *a, int i) {
  memmove(&a->hole[i], &a->hole[i + 1], (size_t)(a->count - i - 1) * sizeof a->hole[0]);
  a->count--;
}

/* Best fit, else behind the end. */
static bool take(arena *a, size_t size, size_t limit, size_t *offset) {
  int best = -1;
  if (size > limit) return false;
  size = (size + a->alignment - 1) / a->alignment * a->alignment;
  for (int i = 0; i < a->count; i++)
    if (a->hole[i].size >= size && (best < 0 || a->hole[i].size < a->hole[best].size)) best = i;
  if (best >= 0) {
    *offset = a->hole[best].offset;
    a->hole[best].offset += size;
    a->hole[best].size -= size;
    if (a->hole[best].size == 0) remove_hole(a, best);
    return true;
  }
  /* A hole at the end grows. */
  bool last = a->count > 0 && a->hole[a->count - 1].offset + a->hole[a->count - 1].size == a->end;
  *offset = last ? a->hole[a->count - 1].offset : a->end;
  if (last) a->count--;
  if (__builtin_add_overflow(*offset, size, &a->end) || a->end > limit) return false;
  if (a->end > a->peak) a->peak = a->end;
  return true;
}

static void give(arena *a, size_t offset, size_t size) {
  enum { MOST = sizeof a->hole / sizeof a->hole[0] };
  size = (size + a->alignment - 1) / a->alignment * a->alignment;
  if (size == 0) return;
  int i = 0;
  while (i < a->count && a->hole[i].offset < offset) i++;
  if (i > 0 && a->hole[i - 1].offset + a->hole[i - 1].size == offset) {
    a->hole[--i].size += size;
  } else {
    if (a->count == MOST) {
      int smallest = 0;
      for (int k = 1; k < a->count; k++)
        if (a->hole[k].size < a->hole[smallest].size) smallest = k;
      remove_hole(a, smallest);
      if (smallest < i) i--;
    }
    memmove(&a->hole[i + 1], &a->hole[i], (size_t)(a->count - i) * sizeof a->hole[0]);
    a->hole[i] = (hole){offset, size};
    a->count++;
  }
  if (i + 1 < a->count && a->hole[i].offset + a->hole[i].size == a->hole[i + 1].offset) {
    a->hole[i].size += a->hole[i + 1].size;
    remove_hole(a, i + 1);
  }
}

static size_t bytes_of(const uc_value *v) {
  return (size_t)uc_shape_count(v->rank, v->shape) * uc_onnx_dtype_size(v->dtype);
}

/* Values by the step of their birth or death: lists in `next`, heads in `head`. */
static void chain(const uc_cut *cut, const life *lives, bool by_last, int *head, int *next) {
  for (int i = 0; i < cut->step_count; i++) head[i] = -1;
  for (int v = cut->program->value_count - 1; v >= 0; v--) {
    if (cut->place[v].kind != UC_PLACE_ARENA) continue;
    int step = by_last ? lives[v].last : lives[v].first;
    next[v] = head[step];
    head[step] = v;
  }
}

static upconv_status fill_arena(uc_cut *cut, arena *a, int *born, int *next_born, int *dead,
                                int *next_dead) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < cut->step_count; i++) {
    uc_step *step = &cut->step[i];
    bool fits = true;
    for (int v = born[i]; v >= 0 && fits; v = next_born[v])
      fits = take(a, bytes_of(&p->value[v]), p->memory_limit, &cut->place[v].offset);
    if (fits) fits = take(a, step->workspace_size, p->memory_limit, &step->workspace);
    if (!fits)
      return uc_fail(UPCONV_OUT_OF_MEMORY, "intermediate results take more than %zu bytes",
                     p->memory_limit);
    give(a, step->workspace, step->workspace_size);
    for (int v = dead[i]; v >= 0; v = next_dead[v])
      give(a, cut->place[v].offset, bytes_of(&p->value[v]));
  }
  cut->arena = a->peak;
  return UPCONV_OK;
}

static upconv_status place_arena(uc_cut *cut, const life *lives) {
  int steps = cut->step_count, values = cut->program->value_count;
  int *born = uc_onnx_new(steps, sizeof *born), *dead = uc_onnx_new(steps, sizeof *dead);
  int *next_born = uc_onnx_new(values, sizeof *next_born);
  int *next_dead = uc_onnx_new(values, sizeof *next_dead);
  arena *a = uc_onnx_new(1, sizeof *a);
  upconv_status status = UPCONV_OUT_OF_MEMORY;
  if (born && dead && next_born && next_dead && a) {
    a->alignment = cut->device->kind->alignment;
    chain(cut, lives, false, born, next_born);
    chain(cut, lives, true, dead, next_dead);
    status = fill_arena(cut, a, born, next_born, dead, next_dead);
  }
  free(born);
  free(dead);
  free(next_born);
  free(next_dead);
  free(a);
  return status;
}

/* ---- workspaces ---- */

static upconv_status find_workspaces(uc_cut *cut) {
  for (int i = 0; i < cut->step_count; i++) {
    if (cut->step[i].segment < 0) continue;
    const uc_segment *s = &cut->segment[cut->step[i].segment];
    const uc_value *x = &cut->program->value[s->x];
    upconv_status status =
        upconv_plan_workspace_size(uc_plan_of(s), x->shape, &cut->step[i].workspace_size);
    if (status) return status;
  }
  return UPCONV_OK;
}

upconv_status uc_cut_places(uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  cut->place = uc_onnx_new(p->value_count, sizeof *cut->place);
  if (!cut->place) return UPCONV_OUT_OF_MEMORY;
  place_known(cut);
  place_outputs(cut);
  upconv_status status = place_concats(cut);
  if (!status) status = uc_cut_prepare(cut);
  life *lives = uc_onnx_new(p->value_count, sizeof *lives);
  if (!lives) status = UPCONV_OUT_OF_MEMORY;
  if (!status) {
    find_lives(cut, lives);
    for (int v = 0; v < p->value_count; v++)
      if (cut->place[v].kind == UC_PLACE_NONE && lives[v].first >= 0)
        cut->place[v].kind = UC_PLACE_ARENA;
    status = find_workspaces(cut);
  }
  if (!status) status = place_arena(cut, lives);
  free(lives);
  return status;
}
