/* SPDX-License-Identifier: Apache-2.0 */
/* From a planned program to steps in the order of execution. */
#include "cut.h"

#include <stdlib.h>

#include "../status.h"

/* Tasks in the graph's order, a segment where its last task stands. That is an order of
   execution: what a segment reads is made by a task in front of its reader, so the maker's
   segment ends in front of it too. */
static upconv_status make_steps(uc_cut *cut) {
  const uc_onnx_program *p = cut->program;
  const uc_onnx_model *m = p->model;
  cut->step = uc_onnx_new((int64_t)p->task_count + m->output_count, sizeof *cut->step);
  if (!cut->step) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < p->task_count; i++) {
    const uc_onnx_task *t = &p->task[i];
    int owner = cut->owner[i];
    if (!uc_task_runs(t) || t->view) continue;
    if (owner >= 0 && cut->segment[owner].last != i) continue;
    cut->step[cut->step_count++] =
        (uc_step){.task = owner < 0 ? i : -1, .segment = owner, .output = -1};
  }
  return UPCONV_OK;
}

/* The last task of a segment may be a view, which is no step elsewhere. */
static void unview_segments(uc_cut *cut) {
  for (int i = 0; i < cut->segment_count; i++)
    for (int k = 0; k < cut->segment[i].task_count; k++)
      cut->program->task[cut->segment[i].task[k]].view = false;
}

upconv_status uc_cut_make(uc_cut *cut, uc_onnx_program *program, uc_plans *plans, bool places) {
  *cut = (uc_cut){.program = program, .device = plans->device};
  upconv_status status = uc_onnx_program_readers(program);
  if (!status) {
    uc_onnx_program_patterns(program);
    status = uc_onnx_program_readers(program);
  }
  if (!status) status = uc_cut_segments(cut, plans);
  if (!status) {
    unview_segments(cut);
    status = make_steps(cut);
  }
  if (!status && places) status = uc_cut_places(cut);
  return status;
}

void uc_cut_free(uc_cut *cut) {
  for (int i = 0; i < cut->segment_count; i++) uc_segment_free(&cut->segment[i]);
  for (int i = 0; i < cut->step_count; i++) cut->device->kind->discard(cut->step[i].work);
  if (cut->device) cut->device->kind->release(cut->device, cut->constants);
  free(cut->constant);
  free(cut->segment);
  free(cut->owner);
  free(cut->step);
  free(cut->place);
  if (cut->program) uc_onnx_program_free(cut->program);
  free(cut->program);
  *cut = (uc_cut){.program = NULL};
}
