/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks run, and who reads what. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "program.h"

bool uc_task_runs(const uc_onnx_task *task) { return task->live && !task->folded; }

/* Backwards from the graph's outputs, along the tasks' inputs: a pattern may have left tasks
   without readers. */
static upconv_status mark(uc_onnx_program *p) {
  bool *wanted = uc_onnx_new(p->value_count, sizeof *wanted);
  if (!wanted) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < p->model->output_count; i++) wanted[p->model->output[i]] = true;
  for (int i = p->task_count - 1; i >= 0; i--) {
    uc_onnx_task *t = &p->task[i];
    if (!t->live) continue;
    bool live = false;
    for (int k = 0; k < t->output_count; k++)
      live = live || (t->output[k] >= 0 && wanted[t->output[k]]);
    t->live = live;
    for (int k = 0; k < t->input_count && uc_task_runs(t); k++)
      if (t->input[k] >= 0) wanted[t->input[k]] = true;
  }
  free(wanted);
  return UPCONV_OK;
}

upconv_status uc_onnx_program_readers(uc_onnx_program *p) {
  upconv_status status = mark(p);
  if (status) return status;
  free(p->first_reader);
  free(p->reader);
  p->reader = NULL;
  p->first_reader = uc_onnx_new((int64_t)p->value_count + 2, sizeof *p->first_reader);
  if (!p->first_reader) return UPCONV_OUT_OF_MEMORY;
  /* Counted two places further on, so that filling moves each list's end to where the next one
     begins. */
  int64_t *end = p->first_reader + 1;
  for (int i = 0; i < p->task_count; i++)
    for (int k = 0; k < p->task[i].input_count && uc_task_runs(&p->task[i]); k++)
      if (p->task[i].input[k] >= 0) end[p->task[i].input[k] + 1]++;
  for (int v = 0; v < p->value_count; v++) end[v + 1] += end[v];
  p->reader = uc_onnx_new(end[p->value_count], sizeof *p->reader);
  if (!p->reader) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < p->task_count; i++)
    for (int k = 0; k < p->task[i].input_count && uc_task_runs(&p->task[i]); k++)
      if (p->task[i].input[k] >= 0) p->reader[end[p->task[i].input[k]]++] = i;
  return UPCONV_OK;
}
