/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's program against the installed library: a 1-D transposed convolution of two elements whose
 * result is known. Also compiled as C++, so it keeps to what both languages have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <upconv/upconv.h>

static void need(upconv_status status) {
  if (status == UPCONV_OK) return;
  fprintf(stderr, "%s: %s\n", upconv_status_string(status), upconv_last_error());
  exit(1);
}

static void *aligned(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!memory) exit(1);
  return memory;
}

int main(int argc, char **argv) {
  float x[2] = {1, 2}, w[3] = {1, 10, 100}, y[5] = {0};
  const float expected[5] = {1, 10, 102, 20, 200};
  const int64_t x_shape[3] = {1, 1, 2}, w_shape[3] = {1, 1, 3}, y_shape[3] = {1, 1, 5};

  if (argc != 2 || strcmp(upconv_version(), argv[1]) != 0) {
    fprintf(stderr, "the library says %s\n", upconv_version());
    return 1;
  }

  upconv_context *context;
  upconv_problem *problem;
  upconv_plan *plan;
  need(upconv_context_create(NULL, &context));
  need(upconv_problem_parse("ci1 co1 in2 k3 s2", &problem, NULL));
  need(upconv_plan_create(context, problem, NULL, NULL, &plan));

  upconv_parameters parameters;
  memset(&parameters, 0, sizeof parameters);
  parameters.weight = upconv_tensor_dense(w, UPCONV_F32, 3, w_shape, UPCONV_CHANNELS_FIRST);
  void *packed = aligned(upconv_plan_packed_size(plan));
  need(upconv_plan_pack(plan, &parameters, packed, NULL));

  upconv_arguments arguments;
  memset(&arguments, 0, sizeof arguments);
  arguments.x = upconv_tensor_dense(x, UPCONV_F32, 3, x_shape, UPCONV_CHANNELS_FIRST);
  arguments.y = upconv_tensor_dense(y, UPCONV_F32, 3, y_shape, UPCONV_CHANNELS_FIRST);
  arguments.packed = packed;
  need(upconv_plan_workspace_size(plan, x_shape, &arguments.workspace_size));
  arguments.workspace = aligned(arguments.workspace_size);
  need(upconv_execute(plan, &arguments));

  free(arguments.workspace);
  free(packed);
  upconv_plan_destroy(plan);
  upconv_problem_destroy(problem);
  upconv_context_destroy(context);
  return memcmp(y, expected, sizeof y) == 0 ? 0 : 1;
}
