/* SPDX-License-Identifier: Apache-2.0 */
/* The founding models at full size: every candidate, every element, against the oracle of the program as written. */
#include <stdio.h>
#include <string.h>

#include "check_gpu.h"

static const char model_a[] = "n128 ci3 co16 in16x32x32 k3 s2 p1 bias %s | mul @scale1[] | "
                              "avg_pool 2 | add @bias | mul @scale2[]";
static const char model_b[] = "n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1 %s";
static const char model_c[] = "n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias %s | leaky_relu 0.2 | "
                              "mul @multiplier | leaky_relu 0.2 | max_pool 2";

const char gpu_model_c[] =
    "n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias math=tf32 | leaky_relu 0.2 | mul @multiplier | "
    "leaky_relu 0.2 | max_pool 2";

/* The convolution's output must not exist: it is what makes others slow. */
enum { MOST_WORKSPACE = 4096 };

static void check_fused(const char *text, const char *rule) {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_problem_desc d;
  upconv_plan *plan = NULL;
  size_t bytes = SIZE_MAX;
  bool fired = rule == NULL;
  if (!CHECK_STATUS(upconv_problem_parse(text, &problem, &epilogue), UPCONV_OK)) return;
  CHECK_STATUS(upconv_problem_get_desc(problem, &d), UPCONV_OK);
  if (CHECK_STATUS(upconv_plan_create(gpu_context, problem, epilogue, NULL, &plan), UPCONV_OK)) {
    int64_t x_shape[] = {d.batch, d.in_channels, d.in_size[0], d.in_size[1], d.in_size[2]};
    for (int i = 0; upconv_plan_rule(plan, i); i++)
      fired = fired || strcmp(upconv_plan_rule(plan, i), rule) == 0;
    CHECK_MSG(fired, "the rule %s did not fire", rule);
    CHECK_STATUS(upconv_plan_workspace_size(plan, x_shape, &bytes), UPCONV_OK);
    CHECK_MSG(bytes <= MOST_WORKSPACE, "%zu bytes of workspace", bytes);
    printf("     %s\n", upconv_plan_candidate(plan));
  }
  upconv_plan_destroy(plan);
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
}

static void check_model(const char *model, const char *type, const char *rule) {
  char text[512];
  const char *hole = strstr(model, "%s");
  snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - model), model, type, hole + 2);
  double begin = gpu_now_ms();
  if (gpu_check_candidates(gpu_context, text, GPU_DENSE, GPU_DENSE)) check_fused(text, rule);
  printf("     %.1f s\n", (gpu_now_ms() - begin) * 1e-3);
}

static void a_ieee(void) { check_model(model_a, "math=ieee", "fold-avg-pool"); }
static void a_tf32(void) { check_model(model_a, "math=tf32", "fold-avg-pool"); }
static void a_f16(void) { check_model(model_a, "dtype=f16", "fold-avg-pool"); }
static void a_bf16(void) { check_model(model_a, "dtype=bf16", "fold-avg-pool"); }
static void b_ieee(void) { check_model(model_b, "math=ieee", NULL); }
static void b_tf32(void) { check_model(model_b, "math=tf32", NULL); }
static void b_f16(void) { check_model(model_b, "dtype=f16", NULL); }
static void b_bf16(void) { check_model(model_b, "dtype=bf16", NULL); }
static void c_ieee(void) { check_model(model_c, "math=ieee", "hoist-max-pool"); }
static void c_tf32(void) { check_model(model_c, "math=tf32", "hoist-max-pool"); }
static void c_f16(void) { check_model(model_c, "dtype=f16", "hoist-max-pool"); }
static void c_bf16(void) { check_model(model_c, "dtype=bf16", "hoist-max-pool"); }

static const check_test tests[] = {
    {"model_a_ieee", a_ieee}, {"model_a_tf32", a_tf32}, {"model_a_f16", a_f16},
    {"model_a_bf16", a_bf16}, {"model_b_ieee", b_ieee}, {"model_b_tf32", b_tf32},
    {"model_b_f16", b_f16},   {"model_b_bf16", b_bf16}, {"model_c_ieee", c_ieee},
    {"model_c_tf32", c_tf32}, {"model_c_f16", c_f16},   {"model_c_bf16", c_bf16},
};
const gpu_tests gpu_model_tests = {tests, CHECK_COUNT(tests)};
