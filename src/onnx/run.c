/* SPDX-License-Identifier: Apache-2.0 */
/* Running a cut: views of all values, step after step. */
#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"
#include "parallel.h"
#include "session.h"

typedef struct frame {
  const uc_cut *cut;
  const uc_onnx_tensor *const *input; /* in the model's order */
  void **output;                      /* buffers, likewise */
  char *arena;
  struct uc_threads *threads;
  uc_view *in; /* room for the inputs of any task */
} frame;

/* ---- views ---- */

static char *base_of(const frame *f, int root) {
  const uc_place *place = &f->cut->place[root];
  switch (place->kind) {
  case UC_PLACE_CONSTANT:
    return (char *)(uintptr_t)f->cut->program->value[root].data;
  case UC_PLACE_INPUT:
    return f->input[place->index]->data;
  case UC_PLACE_OUTPUT:
    return f->output[place->index];
  case UC_PLACE_ARENA:
    return f->arena + place->offset;
  case UC_PLACE_NONE:
    break;
  }
  return NULL;
}

static uc_view view_of(const frame *f, int value) {
  uc_view view = {.dtype = UC_ONNX_UNDEFINED};
  if (value < 0) return view;
  const uc_value *v = &f->cut->program->value[value];
  view.dtype = v->dtype;
  view.rank = v->rank;
  memcpy(view.shape, v->shape, sizeof view.shape);
  memcpy(view.stride, v->stride, sizeof view.stride);
  char *base = base_of(f, v->root);
  if (base) view.data = base + v->offset * (int64_t)uc_onnx_dtype_size(v->dtype);
  return view;
}

static uc_view view_for_parameters(const void *context, int value) {
  return view_of(context, value);
}

/* ---- steps ---- */

static void run_task(const frame *f, const uc_onnx_task *t) {
  uc_view out = view_of(f, t->output[0]);
  for (int k = 0; k < t->input_count; k++) f->in[k] = view_of(f, t->input[k]);
  if (t->op->family == UC_FAMILY_VIEW)
    uc_view_copy(&f->in[0], &out);
  else
    uc_run_parallel(f->threads, t, f->in, &out);
}

static upconv_status execute(const frame *f, const uc_step *step, const uc_segment *s,
                             upconv_tensor *tensors, const void *packed) {
  int nd = s->desc.spatial_dims;
  const uc_onnx_source straight = {.dim = {0, 1, 2, 3, 4}};
  uc_view x = view_of(f, s->x), y = view_of(f, s->y.value);
  for (int i = 0; i < s->tensor_count; i++) {
    uc_view tensor = view_of(f, s->tensor[i].value);
    tensors[i] = uc_source_tensor(&s->tensor[i], nd, &tensor);
  }
  upconv_arguments arguments = {
      .x = uc_source_tensor(&straight, nd, &x),
      .y = uc_source_tensor(&s->y, nd, &y),
      .tensors = tensors,
      .tensor_count = s->tensor_count,
      .packed = packed,
      .workspace = f->arena + step->workspace,
      .workspace_size = step->workspace_size,
  };
  return upconv_execute(uc_plan_of(s), &arguments);
}

static upconv_status run_segment(const frame *f, const uc_step *step, const uc_segment *s) {
  const void *packed;
  upconv_status status = uc_plans_pack(s, view_for_parameters, f, &packed);
  if (status) return status;
  upconv_tensor *tensors = uc_onnx_new(s->tensor_count, sizeof *tensors);
  if (!tensors) return UPCONV_OUT_OF_MEMORY;
  status = execute(f, step, s, tensors, packed);
  free(tensors);
  return status;
}

static void run_copy(const frame *f, int output) {
  int value = f->cut->program->model->output[output];
  uc_view from = view_of(f, value), to = from;
  to.data = f->output[output];
  uc_dense_strides(to.rank, to.shape, to.stride);
  uc_view_copy(&from, &to);
}

static upconv_status run_steps(const frame *f) {
  const uc_cut *cut = f->cut;
  for (int i = 0; i < cut->step_count; i++) {
    const uc_step *step = &cut->step[i];
    if (step->task >= 0) run_task(f, &cut->program->task[step->task]);
    if (step->output >= 0) run_copy(f, step->output);
    if (step->segment < 0) continue;
    const uc_segment *s = &cut->segment[step->segment];
    upconv_status status = run_segment(f, step, s);
    const uc_onnx_node *node = cut->program->task[s->first].node;
    if (status) return uc_fail_in(status, "node '%.200s' (%.80s)", node->name, node->op_type);
  }
  return UPCONV_OK;
}

/* ---- memory ---- */

static upconv_status reserve_arena(uc_onnx_session *session, size_t bytes) {
  enum { ALIGNMENT = 64 };
  if (session->arena && bytes <= session->arena_size) return UPCONV_OK;
  free(session->arena);
  session->arena = NULL;
  session->arena_size = 0;
  if (posix_memalign(&session->arena, ALIGNMENT, bytes ? bytes : 1)) {
    session->arena = NULL;
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes of intermediate results", bytes);
  }
  session->arena_size = bytes;
  return UPCONV_OK;
}

static int most_inputs(const uc_onnx_program *p) {
  int most = 0;
  for (int i = 0; i < p->task_count; i++)
    if (p->task[i].input_count > most) most = p->task[i].input_count;
  return most;
}

/* ---- outputs ---- */

static bool same_shape(const uc_onnx_tensor *tensor, const uc_value *v) {
  return tensor->dtype == v->dtype && tensor->rank == v->rank &&
         memcmp(tensor->shape, v->shape, (size_t)v->rank * sizeof v->shape[0]) == 0;
}

static size_t bytes_of(const uc_value *v) {
  return (size_t)uc_shape_count(v->rank, v->shape) * uc_onnx_dtype_size(v->dtype);
}

/* Where each graph output goes: the caller's buffer, or new memory, marked in fresh. */
static upconv_status find_buffers(const uc_cut *cut, const uc_onnx_tensor *outputs, int count,
                                  void **buffer, void **fresh) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < count; i++) {
    int index;
    upconv_status status = uc_session_output(p->model, outputs[i].name, i, &index);
    if (status) return status;
    const uc_value *v = &p->value[p->model->output[index]];
    if (!outputs[i].data) continue;
    if (!same_shape(&outputs[i], v))
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "output '%.200s': the buffer has another type or shape",
                     p->model->output_info[index].name);
    if (buffer[index])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "output '%.200s' is asked for twice",
                     p->model->output_info[index].name);
    buffer[index] = outputs[i].data;
  }
  for (int i = 0; i < p->model->output_count; i++) {
    if (buffer[i]) continue;
    size_t bytes = bytes_of(&p->value[p->model->output[i]]);
    fresh[i] = buffer[i] = malloc(bytes ? bytes : 1);
    if (!fresh[i])
      return uc_fail(UPCONV_OUT_OF_MEMORY, "output '%.200s': no memory for %zu bytes",
                     p->model->output_info[i].name, bytes);
  }
  return UPCONV_OK;
}

static void describe(const uc_value *v, uc_onnx_tensor *tensor) {
  tensor->dtype = v->dtype;
  tensor->rank = v->rank;
  memcpy(tensor->shape, v->shape, sizeof tensor->shape);
}

/* Hands new memory to the outputs that came without. */
static upconv_status give_buffers(const uc_cut *cut, uc_onnx_tensor *outputs, int count,
                                  void **fresh) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < count; i++) {
    int index;
    upconv_status status = uc_session_output(p->model, outputs[i].name, i, &index);
    if (status || outputs[i].data) continue;
    if (!fresh[index])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "output '%.200s' is asked for twice",
                     p->model->output_info[index].name);
    char *name = uc_onnx_copy_string(p->model->output_info[index].name);
    if (!name) return UPCONV_OUT_OF_MEMORY;
    outputs[i] = (uc_onnx_tensor){.name = name, .data = fresh[index], .owned = true};
    describe(&p->value[p->model->output[index]], &outputs[i]);
    fresh[index] = NULL;
  }
  return UPCONV_OK;
}

/* ---- entry points ---- */

static upconv_status run_cut(uc_onnx_session *session, const uc_cut *cut,
                             const uc_onnx_tensor *const *inputs, uc_onnx_tensor *outputs,
                             int count) {
  const uc_onnx_model *m = session->model;
  void **buffer = uc_onnx_new(m->output_count, sizeof *buffer);
  void **fresh = uc_onnx_new(m->output_count, sizeof *fresh);
  frame f = {.cut = cut, .input = inputs, .output = buffer};
  f.in = uc_onnx_new(most_inputs(cut->program), sizeof *f.in);
  upconv_status status = buffer && fresh && f.in ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  if (!status) status = reserve_arena(session, cut->arena);
  f.arena = session->arena;
  f.threads = session->plans.context->threads;
  if (!status) status = find_buffers(cut, outputs, count, buffer, fresh);
  if (!status) status = run_steps(&f);
  if (!status) status = give_buffers(cut, outputs, count, fresh);
  for (int i = 0; fresh && i < m->output_count; i++) free(fresh[i]);
  free(buffer);
  free(fresh);
  free(f.in);
  return status;
}

upconv_status uc_onnx_run(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                          uc_onnx_tensor *outputs, int output_count) {
  const uc_onnx_tensor **ordered;
  uc_cut *cut;
  upconv_status status = uc_session_inputs(session->model, inputs, input_count, &ordered);
  if (status) return status;
  for (int i = 0; i < session->model->input_count && !status; i++) {
    size_t bytes;
    if (!ordered[i]->data && uc_onnx_tensor_bytes(ordered[i], &bytes) && bytes)
      status = uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s' has no data",
                       session->model->input_info[i].name);
  }
  if (!status) status = uc_session_cut(session, ordered, &cut);
  if (!status) status = run_cut(session, cut, ordered, outputs, output_count);
  free(ordered);
  return status;
}

/* What the functions below share: the cut for inputs whose data may be missing. */
static upconv_status cut_for(uc_onnx_session *session, const uc_onnx_tensor *inputs, int count,
                             uc_cut **cut) {
  const uc_onnx_tensor **ordered;
  upconv_status status = uc_session_inputs(session->model, inputs, count, &ordered);
  if (status) return status;
  status = uc_session_cut(session, ordered, cut);
  free(ordered);
  return status;
}

upconv_status uc_onnx_shapes(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                             int input_count, uc_onnx_tensor *outputs, int output_count) {
  uc_cut *cut;
  upconv_status status = cut_for(session, inputs, input_count, &cut);
  for (int i = 0; i < output_count && !status; i++) {
    int index;
    status = uc_session_output(session->model, outputs[i].name, i, &index);
    if (!status) describe(&cut->program->value[session->model->output[index]], &outputs[i]);
  }
  return status;
}

upconv_status uc_onnx_memory(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                             int input_count, size_t *bytes) {
  uc_cut *cut;
  upconv_status status = cut_for(session, inputs, input_count, &cut);
  if (!status) *bytes = cut->arena;
  return status;
}

upconv_status uc_onnx_step_counts(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                  int input_count, int *segments, int *plain) {
  uc_cut *cut;
  upconv_status status = cut_for(session, inputs, input_count, &cut);
  if (status) return status;
  *segments = *plain = 0;
  for (int i = 0; i < cut->step_count; i++) {
    *segments += cut->step[i].segment >= 0;
    *plain += cut->step[i].task >= 0;
  }
  return UPCONV_OK;
}

upconv_status uc_onnx_segment_plan(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                   int input_count, int index, const upconv_plan **plan) {
  uc_cut *cut;
  upconv_status status = cut_for(session, inputs, input_count, &cut);
  *plan = NULL;
  for (int i = 0; !status && i < cut->step_count; i++)
    if (cut->step[i].segment >= 0 && index-- == 0)
      *plan = uc_plan_of(&cut->segment[cut->step[i].segment]);
  return status;
}
