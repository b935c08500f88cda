/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a problem once on one CPU thread, for scripts/count-instructions:  count_run "TEXT" */
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "../example.h"

static upconv_status run(upconv_context *context, example *e) {
  upconv_plan *plan = NULL;
  size_t bytes = 0;
  upconv_status status = upconv_plan_create(context, e->problem, e->epilogue, NULL, &plan);
  if (status == UPCONV_OK) status = upconv_plan_workspace_size(plan, e->x_shape, &bytes);
  size_t packed_bytes = status == UPCONV_OK ? upconv_plan_packed_size(plan) : 0;
  void *packed = aligned_alloc(64, (packed_bytes / 64 + 1) * 64);
  void *workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  float *y = malloc(((size_t)e->count + 1) * sizeof *y);
  if (status == UPCONV_OK && (!packed || !workspace || !y)) status = UPCONV_OUT_OF_MEMORY;
  if (status == UPCONV_OK) status = upconv_plan_pack(plan, &e->parameters, packed, NULL);
  upconv_problem_desc desc;
  upconv_problem_get_desc(e->problem, &desc);
  upconv_arguments a = e->arguments;
  a.y = upconv_tensor_dense(y, UPCONV_F32, desc.spatial_dims + 2, e->y_shape, desc.y_layout);
  a.packed = packed;
  a.workspace = workspace;
  a.workspace_size = bytes;
  if (status == UPCONV_OK) status = upconv_execute(plan, &a);
  free(y);
  free(workspace);
  free(packed);
  upconv_plan_destroy(plan);
  return status;
}

int main(int argc, char **argv) {
  upconv_context_options options = {.device = "cpu", .threads = 1};
  upconv_context *context = NULL;
  example e = {.count = 0};
  if (argc != 2) {
    fprintf(stderr, "usage: count_run \"TEXT\"\n");
    return 2;
  }
  bool ok = upconv_context_create(&options, &context) == UPCONV_OK && example_make(argv[1], &e) &&
            run(context, &e) == UPCONV_OK;
  if (ok)
    printf("%s\n", upconv_context_describe(context));
  else
    fprintf(stderr, "count_run: %s\n", upconv_last_error());
  example_destroy(&e);
  upconv_context_destroy(context);
  return ok ? 0 : 1;
}
