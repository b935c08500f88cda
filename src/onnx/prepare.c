/* SPDX-License-Identifier: Apache-2.0 */
/* What a cut needs of its device besides an arena: plain tasks made ready, constants brought
   there. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "cut.h"

uc_view uc_cut_view(const uc_cut *cut, int value) {
  uc_view view = {.dtype = UC_ONNX_UNDEFINED};
  if (value < 0) return view;
  const uc_value *v = &cut->program->value[value];
  view.dtype = v->dtype;
  view.rank = v->rank;
  memcpy(view.shape, v->shape, sizeof view.shape);
  memcpy(view.stride, v->stride, sizeof view.stride);
  return view;
}

int uc_cut_most_inputs(const uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  int most = 0;
  for (int i = 0; i < p->task_count; i++)
    if (p->task[i].input_count > most) most = p->task[i].input_count;
  return most;
}

/* ---- tasks ---- */

static upconv_status prepare_step(const uc_cut *cut, uc_step *step, uc_view *in) {
  const uc_onnx_task *t = &cut->program->task[step->task];
  uc_view out = uc_cut_view(cut, t->output[0]);
  for (int k = 0; k < t->input_count; k++) in[k] = uc_cut_view(cut, t->input[k]);
  upconv_status status =
      cut->device->kind->prepare(cut->device, t, in, &out, &step->work, &step->workspace_size);
  if (status) uc_fail_in(status, "node '%.200s' (%.80s)", t->node->name, t->node->op_type);
  return status;
}

upconv_status uc_cut_prepare(uc_cut *cut) {
  uc_view *in = uc_onnx_new(uc_cut_most_inputs(cut), sizeof *in);
  upconv_status status = in ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < cut->step_count && !status; i++)
    if (cut->step[i].task >= 0) status = prepare_step(cut, &cut->step[i], in);
  free(in);
  return status;
}

/* ---- constants ---- */

typedef void (*value_function)(void *context, int value);

/* Calls f for the values that steps read on the device; parameters that are packed once come from
   the host. */
static void for_each_read(const uc_cut *cut, value_function f, void *context) {
  const uc_onnx_program *p = cut->program;
  for (int i = 0; i < cut->step_count; i++) {
    const uc_step *step = &cut->step[i];
    if (step->output >= 0) f(context, p->model->output[step->output]);
    const uc_onnx_task *t = step->task < 0 ? NULL : &p->task[step->task];
    for (int k = 0; t && k < t->input_count; k++) f(context, t->input[k]);
    if (step->segment < 0) continue;
    const uc_segment *s = &cut->segment[step->segment];
    f(context, s->x);
    for (int k = 0; k < s->tensor_count; k++) f(context, s->tensor[k].value);
    if (uc_plan_is_constant(s)) continue;
    f(context, s->weight);
    f(context, s->bias);
    for (int k = 0; k < s->param_count; k++) f(context, s->param[k].value);
  }
}

typedef struct upload {
  const uc_cut *cut;
  const void **constant; /* of each value: the host's data, then where they lie on the device */
} upload;

static void note_constant(void *context, int value) {
  const upload *u = context;
  if (value < 0) return;
  int root = u->cut->program->value[value].root;
  if (u->cut->place[root].kind == UC_PLACE_CONSTANT)
    u->constant[root] = u->cut->program->value[root].data;
}

static size_t bytes_of(const uc_value *v) {
  return (size_t)uc_shape_count(v->rank, v->shape) * uc_onnx_dtype_size(v->dtype);
}

static bool is_initial(const uc_cut *cut, int value) {
  return cut->program->value[value].data == cut->program->model->value[value].initial.data;
}

static size_t padded(const uc_cut *cut, size_t bytes) {
  size_t alignment = cut->device->kind->alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

/* An initialiser serves all cuts. */
static upconv_status upload_initial(const uc_cut *cut, const uc_value *v, void **there) {
  const uc_device *device = cut->device;
  if (*there) return UPCONV_OK;
  upconv_status status = device->kind->allocate(device, bytes_of(v), there);
  if (!status) status = device->kind->upload(device, v->data, bytes_of(v), *there);
  if (!status) return UPCONV_OK;
  device->kind->release(device, *there);
  *there = NULL;
  return status;
}

/* What planning computed, in one block. */
static upconv_status upload_computed(uc_cut *cut, const void **constant) {
  const uc_onnx_program *p = cut->program;
  const uc_device *device = cut->device;
  size_t bytes = 0;
  for (int v = 0; v < p->value_count; v++)
    if (constant[v] && !is_initial(cut, v)) bytes += padded(cut, bytes_of(&p->value[v]));
  upconv_status status = bytes ? device->kind->allocate(device, bytes, &cut->constants) : UPCONV_OK;
  char *at = cut->constants;
  for (int v = 0; v < p->value_count && !status; v++) {
    if (!constant[v] || is_initial(cut, v)) continue;
    status = device->kind->upload(device, constant[v], bytes_of(&p->value[v]), at);
    constant[v] = at;
    at += padded(cut, bytes_of(&p->value[v]));
  }
  return status;
}

static upconv_status upload_all(uc_cut *cut, const void **constant, void **initial) {
  const uc_onnx_program *p = cut->program;
  upconv_status status = upload_computed(cut, constant);
  for (int v = 0; v < p->value_count && !status; v++) {
    if (!constant[v] || !is_initial(cut, v)) continue;
    status = upload_initial(cut, &p->value[v], &initial[v]);
    constant[v] = initial[v];
  }
  return status;
}

upconv_status uc_cut_constants(uc_cut *cut, void **initial) {
  const uc_device *device = cut->device;
  upload u = {.cut = cut};
  if (cut->constant) return UPCONV_OK;
  u.constant = uc_onnx_new(cut->program->value_count, sizeof *u.constant);
  if (!u.constant) return UPCONV_OUT_OF_MEMORY;
  for_each_read(cut, note_constant, &u);
  upconv_status status = device->kind->separate ? upload_all(cut, u.constant, initial) : UPCONV_OK;
  if (status) {
    device->kind->release(device, cut->constants);
    cut->constants = NULL;
    free(u.constant);
    return uc_fail_in(status, "the model's constants");
  }
  cut->constant = u.constant;
  return UPCONV_OK;
}
