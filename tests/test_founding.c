/* SPDX-License-Identifier: Apache-2.0
 *
 * The founding models: what their plans say, results at reduced size against the oracle, memory at full size.
 */
// labels: parallel valgrind
// timeout: 300

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "random_data.h"

#define A_TAIL "| mul @scale1[] | avg_pool 2 | add @b | mul @scale2[]"
#define C_TAIL "| leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2"
#define A_FULL "n128 ci3 co16 in16x32x32 k3 s2 p1 bias " A_TAIL

typedef struct model {
  const char *name, *text, *says[3];
} model;

/* Reduced in batch and size; channels, kernels and tails are the models' own. */
static const model models[] = {
    {"A", "n2 ci3 co16 in4x8x8 k3 s2 p1 bias " A_TAIL, {"8 where 27 stood", "fold-avg-pool", NULL}},
    {"B",
     "n1 ci32 co32 in3x6x12 k3x5x7 s2 p1x2x3 op1 g4",
     {"8, with 24 18 16 12 12 9 8 6 taps", NULL, NULL}},
    {"C",
     "n2 ci16 co32 in4x8x8 k3 s2 p1 op1 bias " C_TAIL,
     {"hoist-max-pool", "extreme_pool 2 dir=@m", NULL}},
};

static void *aligned(size_t bytes) { return aligned_alloc(64, (bytes + 64) / 64 * 64); }

/* A model with its data and plan. */
typedef struct setup {
  upconv_context *context;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_plan *plan;
  random_inputs inputs;
  random_tensor y;
  upconv_arguments arguments;
  void *packed, *workspace;
} setup;

static bool prepare(setup *s, const char *text, const upconv_plan_options *options) {
  uint64_t random = 7;
  int64_t shape[UPCONV_MAX_RANK];
  *s = (setup){.context = NULL};
  upconv_context_options two = {.threads = 2};
  if (!CHECK_STATUS(upconv_context_create(&two, &s->context), UPCONV_OK)) return false;
  if (!CHECK_STATUS(upconv_problem_parse(text, &s->problem, &s->epilogue), UPCONV_OK)) return false;
  if (!CHECK_STATUS(upconv_plan_create(s->context, s->problem, s->epilogue, options, &s->plan),
                    UPCONV_OK))
    return false;
  random_inputs_create(&random, s->problem, text, &s->inputs);
  const upconv_tensor *x = &s->inputs.x.view;
  if (!CHECK_STATUS(upconv_plan_output_shape(s->plan, x->shape, shape), UPCONV_OK)) return false;
  random_tensor_create(&random, UPCONV_F32, x->rank, shape, UPCONV_CHANNELS_FIRST, true, false,
                       &s->y);
  s->arguments = (upconv_arguments){.x = *x, .y = s->y.view};
  s->packed = aligned(upconv_plan_packed_size(s->plan));
  CHECK_STATUS(upconv_plan_workspace_size(s->plan, x->shape, &s->arguments.workspace_size),
               UPCONV_OK);
  s->workspace = aligned(s->arguments.workspace_size);
  s->arguments.packed = s->packed;
  s->arguments.workspace = s->workspace;
  return CHECK_STATUS(upconv_plan_pack(s->plan, &s->inputs.parameters, s->packed, NULL), UPCONV_OK);
}

static void release(setup *s) {
  free(s->packed);
  free(s->workspace);
  random_inputs_free(&s->inputs);
  random_tensor_free(&s->y);
  upconv_plan_destroy(s->plan);
  upconv_problem_destroy(s->problem);
  upconv_epilogue_destroy(s->epilogue);
  upconv_context_destroy(s->context);
}

static void check_explanation(const setup *s, const model *m) {
  char text[8192];
  CHECK_STATUS(upconv_plan_print(s->plan, text, sizeof text, NULL), UPCONV_OK);
  for (int i = 0; i < 3 && m->says[i]; i++)
    CHECK_MSG(strstr(text, m->says[i]) != NULL, "the plan of %s does not say \"%s\":\n%s", m->name,
              m->says[i], text);
}

static void check_result(setup *s, const char *what) {
  size_t count = (size_t)random_tensor_count(&s->y.view);
  double *value = malloc(count * sizeof *value), *bound = malloc(count * sizeof *bound), worst = -1;
  CHECK_STATUS(upconv_execute(s->plan, &s->arguments), UPCONV_OK);
  CHECK_STATUS(upconv_reference(s->problem, s->epilogue, &s->inputs.parameters, &s->arguments, NULL,
                                value, bound),
               UPCONV_OK);
  CHECK_STATUS(upconv_compare(&s->y.view, value, bound, &worst, NULL), UPCONV_OK);
  CHECK_MSG(worst >= 0 && worst <= 1, "%s: off by %g bounds", what, worst);
  free(value);
  free(bound);
}

static void plans_and_results(void) {
  for (size_t i = 0; i < CHECK_COUNT(models); i++) {
    static const upconv_plan_options ways[] = {
        {.no_rewrite = false}, {.no_rewrite = true}, {.no_fuse = true}};
    for (size_t k = 0; k < CHECK_COUNT(ways); k++) {
      setup s;
      if (prepare(&s, models[i].text, &ways[k])) {
        if (k == 0) check_explanation(&s, &models[i]);
        check_result(&s, models[i].name);
      }
      release(&s);
    }
  }
}

/* ---- memory ---- */

static int64_t bytes_of(const upconv_tensor *t) {
  return random_tensor_count(t) * (int64_t)sizeof(float);
}

/* Peak of a process that only runs model A, beyond its tensors: in MB, or -1. */
static int64_t excess_megabytes(void) {
  setup s;
  struct rusage usage;
  if (!prepare(&s, A_FULL, NULL)) return -1;
  /* every page of x and y is in use now: y is poisoned, x filled */
  if (upconv_execute(s.plan, &s.arguments) != UPCONV_OK || getrusage(RUSAGE_SELF, &usage) != 0)
    return -1;
  int64_t tensors = bytes_of(&s.inputs.x.view) + bytes_of(&s.y.view),
          peak = (int64_t)usage.ru_maxrss * 1024;
  release(&s);
  return (peak - tensors) / 1000000;
}

static void memory_of_a(void) {
  if (getenv("UPCONV_SANITIZE") && getenv("UPCONV_SANITIZE")[0])
    CHECK_SKIP("sanitizers need memory of their own");
  if (getenv("UPCONV_LAUNCHER") && getenv("UPCONV_LAUNCHER")[0])
    CHECK_SKIP("valgrind needs memory of its own");
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    int64_t excess = excess_megabytes();
    _exit(excess < 0 || excess > 250 ? 251 : (int)excess);
  }
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  CHECK_MSG(WEXITSTATUS(status) <= 64, "model A at full size: %d MB beyond input and output",
            WEXITSTATUS(status));
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"plans_and_results", plans_and_results},
      {"memory_of_a", memory_of_a},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
