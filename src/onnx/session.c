/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: their life, and the cut for given inputs. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"

upconv_status uc_onnx_session_create(const uc_onnx_model *model, upconv_context *context,
                                     const uc_onnx_options *options, uc_onnx_session **session) {
  upconv_status status = uc_onnx_check_operators(model);
  if (status) return status;
  uc_onnx_session *s = uc_onnx_new(1, sizeof *s);
  if (!s) return UPCONV_OUT_OF_MEMORY;
  s->model = model;
  s->plans.context = context;
  if (options) s->plans.options = *options;
  s->initial = uc_onnx_new(model->value_count, sizeof *s->initial);
  status = s->initial ? uc_device_open(context, &s->plans.device) : UPCONV_OUT_OF_MEMORY;
  if (status) {
    uc_onnx_session_destroy(s);
    return status;
  }
  s->memory_limit = s->plans.options.memory_limit;
  if (s->memory_limit == 0) s->memory_limit = s->plans.device->memory;
  *session = s;
  return UPCONV_OK;
}

void uc_onnx_session_destroy(uc_onnx_session *session) {
  if (!session) return;
  uc_device *device = session->plans.device;
  for (int i = 0; i < session->cut_count; i++) uc_cut_free(&session->cut[i]);
  uc_plans_free(&session->plans);
  if (device) device->kind->release(device, session->arena);
  for (int v = 0; device && v < session->model->value_count; v++)
    device->kind->release(device, session->initial[v]);
  uc_device_close(device);
  free(session->initial);
  free(session);
}

/* ---- cuts ---- */

/* Same types and shapes, and the same data where the plan depends on them. */
static bool cut_fits(const uc_cut *cut, const uc_onnx_tensor *const *inputs) {
  const uc_onnx_model *m = cut->program->model;
  for (int i = 0; i < m->input_count; i++) {
    const uc_value *v = &cut->program->value[m->input[i]];
    size_t bytes;
    if (v->dtype != inputs[i]->dtype || v->rank != inputs[i]->rank ||
        memcmp(v->shape, inputs[i]->shape, (size_t)v->rank * sizeof v->shape[0]) != 0)
      return false;
    if (!v->data) continue;
    if (!inputs[i]->data || !uc_onnx_tensor_bytes(inputs[i], &bytes)) return false;
    if (memcmp(v->data, inputs[i]->data, bytes) != 0) return false;
  }
  return true;
}

static void drop_last(uc_onnx_session *session) {
  uc_cut *cut = &session->cut[--session->cut_count];
  if (session->staged == cut->program) session->staged = NULL;
  uc_cut_free(cut);
}

static void move_to_front(uc_onnx_session *session, int i) {
  uc_cut cut = session->cut[i];
  memmove(&session->cut[1], &session->cut[0], (size_t)i * sizeof cut);
  session->cut[0] = cut;
}

upconv_status uc_session_program(const uc_onnx_session *session,
                                 const uc_onnx_tensor *const *inputs, uc_onnx_program **program) {
  uc_onnx_program *p = uc_onnx_new(1, sizeof *p);
  if (!p) return UPCONV_OUT_OF_MEMORY;
  p->model = session->model;
  p->memory_limit = session->memory_limit;
  upconv_status status = uc_onnx_program_plan(p, inputs);
  for (int i = 0; i < p->task_count && !status; i++) p->task[i].isa = session->plans.context->isa;
  if (status) {
    uc_onnx_program_free(p);
    free(p);
  } else {
    *program = p;
  }
  return status;
}

upconv_status uc_session_cut(uc_onnx_session *session, const uc_onnx_tensor *const *inputs,
                             uc_cut **cut) {
  for (int i = 0; i < session->cut_count; i++) {
    if (!cut_fits(&session->cut[i], inputs)) continue;
    move_to_front(session, i);
    *cut = &session->cut[0];
    return UPCONV_OK;
  }
  uc_onnx_program *program;
  uc_cut made;
  upconv_status status = uc_session_program(session, inputs, &program);
  if (status) return status;
  status = uc_cut_make(&made, program, &session->plans, true);
  if (status) {
    uc_cut_free(&made);
    return status;
  }
  if (session->cut_count == UC_KEPT_CUTS) drop_last(session);
  session->cut[session->cut_count++] = made;
  move_to_front(session, session->cut_count - 1);
  *cut = &session->cut[0];
  return UPCONV_OK;
}
