/* SPDX-License-Identifier: Apache-2.0 */
/* Running a cut: views of all values, step after step. A device with memory of its own gets the
   inputs before the first step, and gives the outputs back after the last one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"
#include "session.h"

typedef struct frame {
  const uc_cut *cut;
  const uc_plans *plans;
  void **input, **output; /* in the model's order, where the device reaches them */
  char *arena;
  uc_view *in; /* room for the inputs of any task */
} frame;

/* ---- views ---- */

static char *base_of(const frame *f, int root) {
  const uc_place *place = &f->cut->place[root];
  switch (place->kind) {
  case UC_PLACE_CONSTANT:
    return (char *)(uintptr_t)f->cut->constant[root];
  case UC_PLACE_INPUT:
    return f->input[place->index];
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
  uc_view view = uc_cut_view(f->cut, value);
  if (value < 0) return view;
  const uc_value *v = &f->cut->program->value[value];
  char *base = base_of(f, v->root);
  if (base) view.data = base + v->offset * (int64_t)uc_onnx_dtype_size(v->dtype);
  return view;
}

static uc_view view_for_parameters(const void *context, int value) {
  return view_of(context, value);
}

/* ---- steps ---- */

static upconv_status run_task(const frame *f, const uc_step *step, const uc_onnx_task *t) {
  uc_view out = view_of(f, t->output[0]);
  for (int k = 0; k < t->input_count; k++) f->in[k] = view_of(f, t->input[k]);
  const uc_device *device = f->cut->device;
  return device->kind->run(device, t, step->work, f->in, &out, f->arena + step->workspace);
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
      .stream = f->cut->device->stream,
  };
  return upconv_execute(uc_plan_of(s), &arguments);
}

static upconv_status run_segment(const frame *f, const uc_step *step, const uc_segment *s) {
  const void *packed;
  upconv_status status =
      uc_plans_pack(f->plans, s, f->cut->program, view_for_parameters, f, &packed);
  if (status) return status;
  upconv_tensor *tensors = uc_onnx_new(s->tensor_count, sizeof *tensors);
  if (!tensors) return UPCONV_OUT_OF_MEMORY;
  status = execute(f, step, s, tensors, packed);
  free(tensors);
  return status;
}

static upconv_status run_copy(const frame *f, int output) {
  int value = f->cut->program->model->output[output];
  uc_view from = view_of(f, value), to = from;
  to.data = f->output[output];
  uc_dense_strides(to.rank, to.shape, to.stride);
  return f->cut->device->kind->copy(f->cut->device, &from, &to);
}

static upconv_status run_step(const frame *f, const uc_step *step) {
  const uc_cut *cut = f->cut;
  const uc_onnx_program *p = cut->program;
  if (step->output >= 0) {
    upconv_status status = run_copy(f, step->output);
    const char *name = p->model->output_info[step->output].name;
    return status ? uc_fail_in(status, "output '%.200s'", name) : UPCONV_OK;
  }
  const uc_segment *s = step->segment < 0 ? NULL : &cut->segment[step->segment];
  const uc_onnx_task *t = &p->task[s ? s->first : step->task];
  upconv_status status = s ? run_segment(f, step, s) : run_task(f, step, t);
  if (status) return uc_fail_in(status, "node '%.200s' (%.80s)", t->node->name, t->node->op_type);
  return UPCONV_OK;
}

static upconv_status run_steps(const frame *f) {
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < f->cut->step_count && !status; i++) status = run_step(f, &f->cut->step[i]);
  return status;
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

/* ---- memory ---- */

static size_t padded(const uc_device *device, size_t bytes) {
  size_t alignment = device->kind->alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

/* Where inputs, then outputs, lie behind the arena of a device that has memory of its own: stores
   addresses, base NULL: none. Returns the bytes of it all. */
static size_t lay_out(const uc_cut *cut, char *base, void **input, void **output) {
  const uc_onnx_program *p = cut->program;
  const uc_onnx_model *m = p->model;
  size_t at = padded(cut->device, cut->arena);
  for (int i = 0; i < m->input_count + m->output_count; i++) {
    bool is_input = i < m->input_count;
    int k = is_input ? i : i - m->input_count;
    if (base) *(is_input ? &input[k] : &output[k]) = base + at;
    at += padded(cut->device, bytes_of(&p->value[is_input ? m->input[k] : m->output[k]]));
  }
  return at;
}

static upconv_status reserve_arena(uc_onnx_session *session, const uc_cut *cut) {
  const uc_device *device = cut->device;
  bool separate = device->kind->separate;
  size_t bytes = separate ? lay_out(cut, NULL, NULL, NULL) : cut->arena;
  if (session->arena && bytes <= session->arena_size) return UPCONV_OK;
  device->kind->release(device, session->arena);
  session->arena = NULL;
  session->arena_size = 0;
  session->staged = NULL;
  upconv_status status = device->kind->allocate(device, bytes, &session->arena);
  if (status)
    return uc_fail_in(status, "%zu bytes of intermediate results%s", bytes,
                      separate ? ", inputs and outputs" : "");
  session->arena_size = bytes;
  return UPCONV_OK;
}

static upconv_status upload_inputs(const frame *f, const uc_onnx_tensor *const *inputs) {
  const uc_onnx_program *p = f->cut->program;
  const uc_device *device = f->cut->device;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < p->model->input_count && !status; i++) {
    int number = p->model->input[i];
    if (f->cut->place[number].kind != UC_PLACE_INPUT) continue;
    status =
        device->kind->upload(device, inputs[i]->data, bytes_of(&p->value[number]), f->input[i]);
    if (status) uc_fail_in(status, "input '%.200s'", p->model->input_info[i].name);
  }
  return status;
}

static upconv_status download_outputs(const frame *f, void *const *buffer) {
  const uc_onnx_program *p = f->cut->program;
  const uc_device *device = f->cut->device;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < p->model->output_count && !status; i++) {
    size_t bytes = bytes_of(&p->value[p->model->output[i]]);
    status = device->kind->download(device, f->output[i], bytes, buffer[i]);
    if (status) uc_fail_in(status, "output '%.200s'", p->model->output_info[i].name);
  }
  return status;
}

/* ---- running ---- */

/* On the data where they lie: the caller's. */
static upconv_status run_here(frame *f, const uc_onnx_tensor *const *inputs, void **buffer) {
  for (int i = 0; i < f->cut->program->model->input_count; i++) f->input[i] = inputs[i]->data;
  memcpy(f->output, buffer, (size_t)f->cut->program->model->output_count * sizeof *buffer);
  return run_steps(f);
}

/* Also after a failure nothing of it may be under way any more: what the copies read and write is
   the caller's. */
static upconv_status run_there(frame *f, uc_onnx_session *session,
                               const uc_onnx_tensor *const *inputs, void **buffer) {
  const uc_device *device = f->cut->device;
  lay_out(f->cut, f->arena, f->input, f->output);
  session->staged = NULL;
  upconv_status status = upload_inputs(f, inputs);
  if (!status) status = run_steps(f);
  if (!status) status = download_outputs(f, buffer);
  if (status) {
    char message[1024]; /* the first one counts */
    snprintf(message, sizeof message, "%s", upconv_last_error());
    (void)device->kind->finish(device);
    return uc_fail(status, "%s", message);
  }
  status = device->kind->finish(device);
  if (!status) session->staged = f->cut->program;
  return status;
}

static void frame_free(frame *f) {
  free(f->input);
  free(f->output);
  free(f->in);
}

static upconv_status frame_make(uc_onnx_session *session, uc_cut *cut, frame *f) {
  const uc_onnx_model *m = session->model;
  *f = (frame){.cut = cut, .plans = &session->plans};
  f->input = uc_onnx_new(m->input_count, sizeof *f->input);
  f->output = uc_onnx_new(m->output_count, sizeof *f->output);
  f->in = uc_onnx_new(uc_cut_most_inputs(cut), sizeof *f->in);
  upconv_status status = f->input && f->output && f->in ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  if (!status) status = reserve_arena(session, cut);
  if (!status) status = uc_cut_constants(cut, session->initial);
  f->arena = session->arena;
  if (status) frame_free(f);
  return status;
}

static upconv_status run_cut(uc_onnx_session *session, uc_cut *cut,
                             const uc_onnx_tensor *const *inputs, uc_onnx_tensor *outputs,
                             int count) {
  const uc_onnx_model *m = session->model;
  frame f;
  upconv_status status = frame_make(session, cut, &f);
  if (status) return status;
  void **buffer = uc_onnx_new(m->output_count, sizeof *buffer);
  void **fresh = uc_onnx_new(m->output_count, sizeof *fresh);
  if (!buffer || !fresh) status = UPCONV_OUT_OF_MEMORY;
  if (!status) status = find_buffers(cut, outputs, count, buffer, fresh);
  if (!status)
    status = cut->device->kind->separate ? run_there(&f, session, inputs, buffer)
                                         : run_here(&f, inputs, buffer);
  if (!status) status = give_buffers(cut, outputs, count, fresh);
  for (int i = 0; fresh && i < m->output_count; i++) free(fresh[i]);
  free(buffer);
  free(fresh);
  frame_free(&f);
  return status;
}

void *uc_onnx_stream(const uc_onnx_session *session) { return session->plans.device->stream; }

upconv_status uc_onnx_repeat(uc_onnx_session *session) {
  uc_cut *cut = session->cut_count ? &session->cut[0] : NULL;
  frame f;
  if (!cut || !cut->device->kind->separate || session->staged != cut->program)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "there is nothing to repeat: the inputs of these shapes are not on a GPU");
  upconv_status status = frame_make(session, cut, &f);
  if (status) return status;
  lay_out(cut, f.arena, f.input, f.output);
  status = run_steps(&f);
  frame_free(&f);
  return status;
}

/* ---- entry points ---- */

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
