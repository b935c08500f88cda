/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on the data of a task. */
#include <math.h>
#include <string.h>

#include "check_gpu.h"
#include "check_gpu_tensor.h"

upconv_plan *gpu_plan(upconv_context *context, const gpu_task *t, const char *candidate) {
  upconv_plan_options options = {.candidate = candidate};
  upconv_plan *plan = NULL;
  check_context("%s, %s", candidate ? candidate : "the planner's choice", t->text);
  CHECK_STATUS(upconv_plan_create(context, t->problem, t->epilogue, &options, &plan), UPCONV_OK);
  return plan;
}

bool gpu_run_make(const gpu_task *t, const upconv_plan *plan, gpu_place y_place, gpu_run *r) {
  int64_t y_shape[UPCONV_MAX_RANK];
  size_t bytes = 0;
  memset(r, 0, sizeof *r);
  r->task = t;
  r->plan = plan;
  if (!CHECK_STATUS(upconv_plan_output_shape(plan, t->x.host.shape, y_shape), UPCONV_OK) ||
      !CHECK_STATUS(upconv_plan_workspace_size(plan, t->x.host.shape, &bytes), UPCONV_OK) ||
      !gpu_tensor_make(t->desc.y_dtype, t->rank, y_shape, t->desc.y_layout, y_place, &r->y))
    return false;
  r->arguments = (upconv_arguments){.x = t->x.there,
                                    .y = r->y.there,
                                    .tensors = t->tensor_view,
                                    .tensor_count = t->inputs.tensor_count,
                                    .workspace_size = bytes};
  r->arguments.packed = gpu_alloc_scratch(&r->packed, upconv_plan_packed_size(plan));
  r->arguments.workspace = gpu_alloc_scratch(&r->workspace, bytes);
  return r->arguments.packed && r->arguments.workspace;
}

void gpu_run_free(gpu_run *r) {
  gpu_tensor_free(&r->y);
  gpu_free(&r->packed);
  gpu_free(&r->workspace);
}

bool gpu_run_pack(const gpu_run *r, uc_cuda_stream stream) {
  return CHECK_STATUS(
      upconv_plan_pack(r->plan, &r->task->parameters, gpu_address(&r->packed), stream), UPCONV_OK);
}

bool gpu_run_execute(gpu_run *r, uc_cuda_stream stream) {
  r->arguments.stream = stream;
  return CHECK_STATUS(upconv_execute(r->plan, &r->arguments), UPCONV_OK);
}

/* Every byte of the buffer that is no element of y is still poison. Works on the elements' copy, which it restores. */
static bool beside_untouched(gpu_tensor *y) {
  size_t size = upconv_dtype_size(y->host.dtype), count = (size_t)random_tensor_count(&y->host);
  if (y->byte_count == count * size) return true;
  int64_t index[UPCONV_MAX_RANK] = {0};
  unsigned char *copy = check_alloc(y->byte_count, 0);
  memcpy(copy, y->bytes, y->byte_count);
  if (count > 0) do
      check_poison(copy + (random_tensor_at(&y->host, index) - y->bytes), size);
    while (random_tensor_next(&y->host, index));
  bool untouched =
      CHECK_MSG(check_is_poison(copy, y->byte_count), "elements beside y were written");
  CHECK_FREE(copy);
  return untouched;
}

bool gpu_run_download(gpu_run *r) {
  return gpu_read(r->y.bytes, gpu_address(&r->y.buffer), r->y.byte_count) &&
         beside_untouched(&r->y);
}

bool gpu_run_all(gpu_run *r) {
  return gpu_run_pack(r, NULL) && gpu_run_execute(r, NULL) && gpu_run_sync(NULL) &&
         gpu_run_download(r);
}

bool gpu_run_compare(const gpu_run *r, const char *what) {
  double worst = INFINITY;
  int64_t where = 0;
  check_context("%s, %s", what, r->task->text);
  if (!CHECK(r->task->value != NULL)) return false;
  if (!CHECK_STATUS(upconv_compare(&r->y.host, r->task->value, r->task->bound, &worst, &where),
                    UPCONV_OK))
    return false;
  return CHECK_MSG(worst <= 1,
                   "y is off by %g bounds at element %lld, where the oracle has %.9g within %.3g",
                   worst, (long long)where, r->task->value[where], r->task->bound[where]);
}

bool gpu_runs_equal(const gpu_run *a, const gpu_run *b) {
  if (!CHECK_INT(a->y.byte_count, b->y.byte_count)) return false;
  return CHECK_MSG(memcmp(a->y.bytes, b->y.bytes, a->y.byte_count) == 0,
                   "the bits of two runs differ");
}

static bool check_candidate(upconv_context *context, const gpu_task *t, const char *candidate,
                            gpu_place y_place) {
  gpu_run run = {.task = NULL};
  upconv_plan *plan = gpu_plan(context, t, candidate);
  if (!plan) return false;
  bool right =
      gpu_run_make(t, plan, y_place, &run) && gpu_run_all(&run) && gpu_run_compare(&run, candidate);
  gpu_run_free(&run);
  upconv_plan_destroy(plan);
  return right;
}

bool gpu_check_candidates(upconv_context *context, const char *text, gpu_place x_place,
                          gpu_place y_place) {
  gpu_task t;
  upconv_plan *chosen = NULL;
  bool right = gpu_task_make(text, 1, x_place, &t) && gpu_oracle(&t);
  if (right) chosen = gpu_plan(context, &t, NULL);
  right = right && chosen;
  for (int i = 0; right && upconv_plan_candidate_name(chosen, i); i++)
    right = check_candidate(context, &t, upconv_plan_candidate_name(chosen, i), y_place);
  upconv_plan_destroy(chosen);
  gpu_task_free(&t);
  check_context(NULL);
  return right;
}
