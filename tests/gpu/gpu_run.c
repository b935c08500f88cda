/* SPDX-License-Identifier: Apache-2.0
 *
 * One problem on the GPU, every candidate: checked against the oracle, timed with a cold cache.
 *
 *   gpu_run [--no-check] [--runs N] [--samples] [--only CANDIDATE] [--chosen] "TEXT" ...
 *
 * --chosen: what the planner chooses, nothing else. --samples: every single time, too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../device.h"
#include "../random_data.h"

enum { MOST_RUNS = 200 };

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static int64_t product(const int64_t *shape, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= shape[i];
  return p;
}

typedef struct trial {
  upconv_context *context;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_problem_desc desc;
  random_inputs inputs;
  random_tensor y;
  double *value, *bound;
  bool check;
  int runs;
  const char *only;
  bool chosen, samples;
} trial;

static const char *failed(const char *what) {
  printf("  %s: %s\n", what, upconv_last_error());
  return what;
}

static void run_candidate(trial *t, const char *name) {
  upconv_plan_options options = {.candidate = name};
  upconv_plan *plan = NULL;
  int64_t x_shape[UPCONV_MAX_RANK];
  memcpy(x_shape, t->inputs.x.view.shape, sizeof x_shape);
  if (upconv_plan_create(t->context, t->problem, t->epilogue, &options, &plan)) {
    failed(name);
    return;
  }
  size_t bytes = 0, packed_bytes = upconv_plan_packed_size(plan);
  upconv_plan_workspace_size(plan, x_shape, &bytes);
  upconv_arguments a = {.x = t->inputs.x.view,
                        .y = t->y.view,
                        .tensors = t->inputs.tensor_view,
                        .tensor_count = t->inputs.tensor_count,
                        .workspace_size = bytes};
  void *packed = aligned_alloc(256, (packed_bytes + 255) / 256 * 256);
  a.workspace = aligned_alloc(256, (bytes + 511) / 256 * 256);
  a.packed = packed;
  memset(t->y.buffer, 0xff, t->y.bytes);
  double worst = NAN;
  int64_t where = 0;
  float ms[MOST_RUNS] = {0};
  bool ok = device_pack(plan, &t->inputs.parameters, packed) == UPCONV_OK &&
            device_execute(plan, &a) == UPCONV_OK;
  if (!ok) failed(name);
  if (ok && t->check) upconv_compare(&t->y.view, t->value, t->bound, &worst, &where);
  if (ok && t->runs > 0 && device_time(plan, &a, t->runs, ms) != UPCONV_OK) failed(name);
  if (t->samples) {
    printf("  samples of %s, ms:", name);
    for (int i = 0; i < t->runs; i++) printf(" %.5f", (double)ms[i]);
    printf("\n");
  }
  qsort(ms, (size_t)t->runs, sizeof *ms, by_value);
  upconv_work work;
  upconv_plan_work(plan, &work);
  double median = t->runs ? (double)ms[t->runs / 2] : 0;
  printf("  %-10s %s worst %.3g of the bound%s, median %.4f ms (min %.4f max %.4f), %.1f TFLOP/s, "
         "%.0f GB/s\n",
         name,
         !t->check    ? "-"
         : worst <= 1 ? "ok"
                      : "WRONG",
         worst, device_guards_intact() ? "" : ", GUARDS DAMAGED", median, (double)ms[0],
         t->runs ? (double)ms[t->runs - 1] : 0, work.planned_flop / median * 1e-9,
         work.planned_bytes / median * 1e-6);
  fflush(stdout);
  free(packed);
  free(a.workspace);
  upconv_plan_destroy(plan);
}

static void run_text(trial *t, const char *text) {
  printf("%s\n", text);
  if (upconv_problem_parse(text, &t->problem, &t->epilogue)) {
    failed("text");
    return;
  }
  upconv_problem_get_desc(t->problem, &t->desc);
  uint64_t random = 1;
  int64_t y_shape[UPCONV_MAX_RANK];
  int rank = t->desc.spatial_dims + 2;
  upconv_output_shape(t->problem, t->epilogue, y_shape);
  random_inputs_create_plain(&random, t->problem, text, &t->inputs);
  random_tensor_create(&random, t->desc.y_dtype, rank, y_shape, t->desc.y_layout, true, false,
                       &t->y);
  int64_t count = product(y_shape, rank);
  t->value = t->bound = NULL;
  upconv_error_model model = {0, true};
  if (t->desc.math == UPCONV_MATH_TF32 && t->desc.x_dtype == UPCONV_F32)
    model.operand_rounding = 1.0 / 2048;
  if (t->check) {
    t->value = malloc((size_t)count * sizeof(double));
    t->bound = malloc((size_t)count * sizeof(double));
    upconv_arguments a = {.x = t->inputs.x.view,
                          .y = {.dtype = t->desc.y_dtype},
                          .tensors = t->inputs.tensor_view,
                          .tensor_count = t->inputs.tensor_count};
    if (upconv_reference(t->problem, t->epilogue, &t->inputs.parameters, &a, &model, t->value,
                         t->bound))
      failed("oracle");
  }
  upconv_plan *plan;
  const upconv_plan_options by_cost = {.tuning = UPCONV_TUNING_OFF};
  if (upconv_plan_create(t->context, t->problem, t->epilogue, &by_cost, &plan) == UPCONV_OK) {
    upconv_work work;
    upconv_plan_work(plan, &work);
    printf("  the planner's choice: %s, %.0f FLOP, %.0f bytes\n", upconv_plan_candidate(plan),
           work.planned_flop, work.planned_bytes);
    if (t->chosen) run_candidate(t, upconv_plan_candidate(plan));
    for (int i = 0; upconv_plan_candidate_name(plan, i) && !t->chosen; i++)
      if (!t->only || strcmp(t->only, upconv_plan_candidate_name(plan, i)) == 0)
        run_candidate(t, upconv_plan_candidate_name(plan, i));
    upconv_plan_destroy(plan);
  } else {
    failed("plan");
  }
  free(t->value);
  free(t->bound);
  random_inputs_free(&t->inputs);
  random_tensor_free(&t->y);
  upconv_problem_destroy(t->problem);
  upconv_epilogue_destroy(t->epilogue);
}

int main(int argc, char **argv) {
  trial t = {.check = true, .runs = 50};
  upconv_context_options options = {.device = "cuda:0"};
  if (device_open() || upconv_context_create(&options, &t.context)) {
    printf("SKIP gpu_run: %s\n", upconv_last_error());
    return 77;
  }
  printf("%s\n", upconv_context_describe(t.context));
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--no-check") == 0)
      t.check = false;
    else if (strcmp(argv[i], "--chosen") == 0)
      t.chosen = true;
    else if (strcmp(argv[i], "--samples") == 0)
      t.samples = true;
    else if (strcmp(argv[i], "--check") == 0)
      t.check = true;
    else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
      t.runs = atoi(argv[++i]);
    else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      t.only = argv[++i];
    else
      run_text(&t, argv[i]);
  }
  upconv_context_destroy(t.context);
  device_close();
  return 0;
}
