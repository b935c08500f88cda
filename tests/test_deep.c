/* SPDX-License-Identifier: Apache-2.0
 *
 * What the random suite's small problems seldom reach on the CPU: several chunks of input channels, several runs of positions,
 * groups of samples, parts of the output channels; the convolution and a pool, laid out differently, in one operator; pools
 * that take the convolution's residues as they are computed. Every candidate with every instruction set, for 1, 2, 3 and 7
 * threads, against the oracle and against each other, bit by bit.
 */
// labels: parallel valgrind
// timeout: 300

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/isa.h"
#include "random_data.h"

/* Deep: more channels than any chunk. Few: several taps at once. Short and long rows; borders on all sides; tails. */
static const char *const texts[] = {
    "n3 ci300 co9 in2x3x3 k4 s2 p1 bias | relu",
    "n1 ci270 co1 in5x17 k4x3 s2x1 p1 bias | sigmoid",
    "n2 ci40 co3 in9x7x5 k3x2x4 s2 p0x1x2 op1 bias",
    "n5 ci257 co17 in1x4 k4 s2 p1 | leaky_relu 0.1 | max_pool 2",
    "n1 ci20 co2 in700 k7 s3 p2 d2 bias | tanh",
    "n2 ci36 co8 g4 in6x21 k3 s2 p1 bias | softmax",
    "n2 ci130 co5 in4x5 k1x5 s2x4 p0x1 op1 | mean hw | sigmoid | mul %0",
    "n2 ci33 co4 in3x33 k2 s2 bias x=f16 y=bf16 xlayout=ndhwc ylayout=ndhwc",
    "n7 ci64 co24 in3x3 k2 s3 bias | avg_pool 3",
    "n2 ci4 co8 in6x5 k3 p1 | clamp -4 4 | avg_pool 1 | sub %0 %2",
};

/* Pools that take a residue at once: of both directions, with windows that leave residues out, of residues without taps, of
   groups and all channels. */
static const char *const pooled[] = {
    "n2 ci5 co9 in6x7 k3 s2 p1 op1 bias | leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2",
    "n2 ci4 co8 g2 in5x4x9 k3 s3 bias | max_pool 2x3x1 s3 | relu",
    "n1 ci3 co10 in140 k2 s4 bias | max_pool 4 | relu",
    "n2 ci6 co4 in7x18 k5x3 s2x1 p1 | max_pool 2x1 | softmax",
    "n3 ci2 co20 in9x33 k4 s2 p1 bias | max_pool 2 | max w | mul 2",
};

/* And pools that do not: windows that overlap or leave the value, another stride, a second reader, many channels. */
static const char *const unpooled[] = {
    "n1 ci3 co4 in6x7 k3 s2 p1 | max_pool 3 s2",
    "n1 ci3 co4 in6x7 k3 s2 p1 | max_pool 2 s2 p1",
    "n1 ci3 co4 in6x7 k3 s2 p1 | max_pool 2 ceil",
    "n1 ci3 co4 in6x7 k3 s2 p1 | max_pool 4",
    "n1 ci3 co4 in6x7 k3 p1 | sigmoid | max_pool 1 | add %0",
    "n1 ci130 co4 in6x7 k4 s2 p1 | max_pool 2",
};

static const int threads[] = {1, 2, 3, 7};

/* A problem with its data and what the oracle says. */
typedef struct setup {
  const char *text;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_problem_desc desc;
  random_inputs inputs;
  int64_t y_shape[UPCONV_MAX_RANK];
  double *value, *bound;
} setup;

static bool prepare(setup *s, const char *text) {
  uint64_t random = 11;
  *s = (setup){.text = text};
  if (!CHECK_STATUS(upconv_problem_parse(text, &s->problem, &s->epilogue), UPCONV_OK)) return false;
  upconv_problem_get_desc(s->problem, &s->desc);
  random_inputs_create(&random, s->problem, text, &s->inputs);
  if (!CHECK_STATUS(upconv_output_shape(s->problem, s->epilogue, s->y_shape), UPCONV_OK))
    return false;
  size_t count = 1;
  for (int a = 0; a < s->desc.spatial_dims + 2; a++) count *= (size_t)s->y_shape[a];
  s->value = malloc(count * sizeof *s->value);
  s->bound = malloc(count * sizeof *s->bound);
  upconv_arguments a = {.x = s->inputs.x.view, .y = {.dtype = s->desc.y_dtype}};
  return CHECK_STATUS(upconv_reference(s->problem, s->epilogue, &s->inputs.parameters, &a, NULL,
                                       s->value, s->bound),
                      UPCONV_OK);
}

static void release(setup *s) {
  free(s->value);
  free(s->bound);
  random_inputs_free(&s->inputs);
  upconv_problem_destroy(s->problem);
  upconv_epilogue_destroy(s->epilogue);
}

/* y, by so many threads of the instruction set that UPCONV_ISA names. */
static bool run(const setup *s, const upconv_plan_options *forced, int count, random_tensor *y) {
  uint64_t random = 5;
  upconv_context *context = NULL;
  upconv_plan *plan = NULL;
  upconv_context_options options = {.threads = count};
  random_tensor_create(&random, s->desc.y_dtype, s->desc.spatial_dims + 2, s->y_shape,
                       s->desc.y_layout, true, false, y);
  upconv_arguments a = {.x = s->inputs.x.view, .y = y->view};
  bool held =
      CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK) &&
      CHECK_STATUS(upconv_plan_create(context, s->problem, s->epilogue, forced, &plan),
                   UPCONV_OK) &&
      CHECK_STATUS(upconv_plan_workspace_size(plan, a.x.shape, &a.workspace_size), UPCONV_OK);
  if (held) {
    unsigned char *packed = check_alloc(upconv_plan_packed_size(plan), 0);
    unsigned char *workspace = check_alloc(a.workspace_size, 0);
    a.packed = packed;
    a.workspace = workspace;
    held = CHECK_STATUS(upconv_plan_pack(plan, &s->inputs.parameters, packed, NULL), UPCONV_OK) &&
           CHECK_STATUS(upconv_execute(plan, &a), UPCONV_OK);
    CHECK_FREE(packed);
    CHECK_FREE(workspace);
  }
  upconv_plan_destroy(plan);
  upconv_context_destroy(context);
  return held;
}

static void check_candidate(const setup *s, const char *isa, const upconv_plan_options *forced) {
  random_tensor first, y;
  double worst = -1;
  check_context("%s, %s, %s%s", s->text, isa, forced->candidate,
                forced->no_rewrite ? ", as written" : "");
  if (run(s, forced, threads[0], &first)) {
    CHECK_STATUS(upconv_compare(&first.view, s->value, s->bound, &worst, NULL), UPCONV_OK);
    CHECK_MSG(worst >= 0 && worst <= 1, "off by %g bounds", worst);
    for (size_t t = 1; t < CHECK_COUNT(threads); t++) {
      if (run(s, forced, threads[t], &y))
        CHECK_MSG(memcmp(first.view.data, y.view.data,
                         (size_t)random_tensor_count(&y.view) * upconv_dtype_size(y.view.dtype)) ==
                      0,
                  "%d threads give other bits", threads[t]);
      random_tensor_free(&y);
    }
  }
  random_tensor_free(&first);
}

static void check_all(const char *text) {
  static const char *const candidates[] = {"cpu-tiled", "cpu-panels", "cpu-products", "cpu-direct"};
  setup s;
  const uc_isa *isa;
  check_context("%s", text);
  if (prepare(&s, text))
    for (int k = 0; (isa = uc_isa_available(k)); k++) {
      setenv("UPCONV_ISA", isa->name, 1);
      for (size_t c = 0; c < 2 * CHECK_COUNT(candidates); c++)
        check_candidate(
            &s, isa->name,
            &(upconv_plan_options){.candidate = candidates[c / 2], .no_rewrite = c % 2});
      unsetenv("UPCONV_ISA");
    }
  release(&s);
  check_context(NULL);
}

static void deep_channels(void) {
  for (size_t i = 0; i < CHECK_COUNT(texts); i++) check_all(texts[i]);
}

static void check_pooled(const char *text, bool wanted) {
  char explanation[8192] = "";
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  upconv_context *context = NULL;
  upconv_plan *plan = NULL;
  const upconv_plan_options options = {.candidate = "cpu-tiled"};
  check_context("%s", text);
  if (CHECK_STATUS(upconv_problem_parse(text, &problem, &epilogue), UPCONV_OK) &&
      CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK) &&
      CHECK_STATUS(upconv_plan_create(context, problem, epilogue, &options, &plan), UPCONV_OK) &&
      CHECK_STATUS(upconv_plan_print(plan, explanation, sizeof explanation, NULL), UPCONV_OK))
    CHECK_MSG((strstr(explanation, "pooled as it is computed") != NULL) == wanted, "%s",
              explanation);
  upconv_plan_destroy(plan);
  upconv_context_destroy(context);
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
  check_context(NULL);
}

static void pools(void) {
  for (size_t i = 0; i < CHECK_COUNT(pooled); i++) {
    check_pooled(pooled[i], true);
    check_all(pooled[i]);
  }
  for (size_t i = 0; i < CHECK_COUNT(unpooled); i++) {
    check_pooled(unpooled[i], false);
    check_all(unpooled[i]);
  }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {{"deep_channels", deep_channels}, {"pools", pools}};
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
