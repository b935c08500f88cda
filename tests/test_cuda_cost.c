/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's candidates are said to cost, without a device: that costs follow what there is to do, and the kinds of problem
 * where an H200 showed that one of two kernels is far ahead.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "cuda/engine.h"
#include "cuda_covering.h"
#include "lowered.h"
#include "plan.h"

static const uc_cuda_target h200 = {
    .arch = "sm_90a", .major = 9, .shared_bytes = 232448, .sm_count = 132};

static const char *const candidates[] = {"cuda-ffma",      "cuda-mma",  "cuda-gemm",
                                         "cuda-depthwise", "cuda-flat", "cuda-scatter",
                                         "cuda-phase",     "cuda-panel"};
enum { CANDIDATES = CHECK_COUNT(candidates) };

/* NAN: it does not apply. chosen: the cheapest. */
typedef struct costs {
  double of[CANDIDATES];
  const char *chosen;
} costs;

static double cost_of(const upconv_plan *plan, const char *name) {
  const uc_candidate *c = uc_candidate_named(name);
  return c->refuses(plan->context, &plan->lowered) ? NAN : c->cost(plan->context, &plan->lowered);
}

static costs costs_for(const uc_cuda_target *target, const char *text) {
  uc_cuda_target copy = *target;
  upconv_context context = {.target = &copy};
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  upconv_plan_options options = {.tuning = UPCONV_TUNING_OFF};
  upconv_plan *plan = NULL;
  const uc_candidate *cheapest = NULL;
  costs all = {.chosen = ""};
  check_context("%s: %s", target->arch, text);
  if (CHECK_STATUS(upconv_problem_parse(text, &problem, &epilogue), UPCONV_OK) &&
      CHECK_STATUS(uc_plan_lower(&context, problem, epilogue, &options, &plan), UPCONV_OK)) {
    for (size_t i = 0; i < CANDIDATES; i++) all.of[i] = cost_of(plan, candidates[i]);
    if (CHECK_STATUS(uc_plan_cheapest(plan, &cheapest), UPCONV_OK)) all.chosen = cheapest->name;
  }
  upconv_plan_destroy(plan);
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
  return all;
}

static double cost_at(const costs *all, const char *name) {
  for (size_t i = 0; i < CANDIDATES; i++)
    if (strcmp(candidates[i], name) == 0) return all->of[i];
  return NAN;
}

/* ---------------------------------------------------------------- what there is to do */

/* Texts with two numbers to fill in: samples, and the extent along W. */
static const char *const growing[] = {
    "n%d ci64 co32 in28x%d k4 s2 p1 bias math=tf32 | relu",
    "n%d ci256 co128 in8x8x%d k2 s2 dtype=f16",
    "n%d ci128 co128 g16 in12x12x%d k3 s2 p1 op1 dtype=bf16",
    "n%d ci64 co64 g64 in64x%d k4 s2 p1 | hardswish",
    "n%d ci3 co16 in32x%d k3 s2 p1 bias dtype=f16 | sigmoid",
    "n%d ci32 co2 in16x16x%d k4 s2 p1 math=tf32 | max_pool 2",
    "n%d ci16 co8 in24x%d k3 s2 | softmax",
    "n%d ci512 co256 in%d k16 s8 p4 bias dtype=f16 | leaky_relu 0.1",
};

static void write_growing(char text[160], size_t i, int samples, int width) {
  snprintf(text, 160, growing[i], samples, width);
}

/* Twice as much takes longer, and not four times as long; tiles are chosen anew, and may happen to fit better. */
static void compare(const costs *one, const costs *two) {
  for (size_t i = 0; i < CANDIDATES; i++) {
    if (isnan(one->of[i]) || isnan(two->of[i])) continue;
    double ratio = two->of[i] / one->of[i];
    CHECK_MSG(ratio > 0.8 && ratio < 4, "%s: %g s, then %g s", candidates[i], one->of[i],
              two->of[i]);
  }
}

static void check_growth(size_t i, bool samples) {
  enum { DOUBLED = 12 };
  costs each[DOUBLED];
  char text[160];
  for (int d = 0; d < DOUBLED; d++) {
    write_growing(text, i, samples ? 1 << d : 3, samples ? 24 : 8 << d);
    each[d] = costs_for(&h200, text);
    if (d > 0) compare(&each[d - 1], &each[d]);
  }
  for (size_t c = 0; c < CANDIDATES; c++) {
    double first = each[0].of[c], last = each[DOUBLED - 1].of[c];
    CHECK_MSG(isnan(first) || isnan(last) || last > 10 * first, "%s: %g s, at last %g s",
              candidates[c], first, last);
  }
}

static void grows_with_samples_and_extents(void) {
  for (size_t i = 0; i < CHECK_COUNT(growing); i++) {
    check_growth(i, true);
    check_growth(i, false);
  }
  check_context(NULL);
}

/* Whatever the architecture and the problem. */
static void is_a_time(void) {
  static const uc_cuda_target targets[] = {
      {.arch = "sm_75", .major = 7, .minor = 5, .shared_bytes = 65536, .sm_count = 40},
      {.arch = "sm_80", .major = 8, .shared_bytes = 166912, .sm_count = 108},
      {.arch = "sm_86", .major = 8, .minor = 6, .shared_bytes = 101376, .sm_count = 84},
      {.arch = "sm_90a", .major = 9, .shared_bytes = 232448, .sm_count = 132},
      {.arch = "sm_90a", .major = 9, .shared_bytes = 232448, .sm_count = 1},
      {.arch = "sm_100", .major = 10, .shared_bytes = 232448, .sm_count = 148},
      {.arch = "sm_120", .major = 12, .shared_bytes = 101376, .sm_count = 170},
  };
  for (size_t i = 0; i < covering_case_count; i++)
    for (size_t t = 0; t < CHECK_COUNT(targets); t++) {
      costs all = costs_for(&targets[t], covering_cases[i].text);
      for (size_t c = 0; c < CANDIDATES; c++)
        CHECK_MSG(isnan(all.of[c]) || (all.of[c] > 1e-6 && all.of[c] < 10), "%s: %g s",
                  candidates[c], all.of[c]);
    }
  check_context(NULL);
}

static void huge_problems_are_counted(void) {
  static const char *const texts[] = {
      "n1048576 ci1024 co1024 in65536 k2 s2 dtype=f16",
      "n65536 ci8 co8 g8 in4096x65536 k4 s2 p1",
      "n1048576 ci2 co4 in1024x1024x1024 k2 s2 math=tf32",
      "n64 ci64 co64 in1048576x4096 k3 p1 dtype=f16",
      "n65536 ci64 co64 in256x256 k3 d90 p90 math=tf32",
  };
  for (size_t i = 0; i < CHECK_COUNT(texts); i++) {
    costs all = costs_for(&h200, texts[i]);
    for (size_t c = 0; c < CANDIDATES; c++)
      CHECK_MSG(isnan(all.of[c]) || (all.of[c] > 1 && isfinite(all.of[c])), "%s: %g s",
                candidates[c], all.of[c]);
  }
  check_context(NULL);
}

static void fewer_multiprocessors_take_longer(void) {
  uc_cuda_target half = h200;
  half.sm_count /= 2;
  for (size_t i = 0; i < CHECK_COUNT(growing); i++) {
    char text[160];
    write_growing(text, i, 64, 64);
    costs whole = costs_for(&h200, text), less = costs_for(&half, text);
    compare(&whole, &less);
  }
  check_context(NULL);
}

/* ---------------------------------------------------------------- who is ahead */

/* One is cheaper than the other, by a factor at least. */
static void check_ahead(const char *text, const char *ahead, const char *behind, double factor) {
  costs all = costs_for(&h200, text);
  double less = cost_at(&all, ahead), more = cost_at(&all, behind);
  CHECK_MSG(less * factor < more, "%s %g s, %s %g s", ahead, less, behind, more);
}

/* Few blocks, deep channels: each goes through the depth, and waits for it part after part. Products alone make cuda-ffma
   look faster than the tensor cores; it takes two to seven times as long. */
static void depth_of_few_blocks(void) {
  static const char *const modes[] = {"math=tf32", "dtype=f16", "dtype=bf16"};
  char text[160];
  for (size_t m = 0; m < CHECK_COUNT(modes); m++)
    for (int channels = 128; channels <= 1024; channels *= 2)
      for (int length = 32; length <= 512; length *= 2) {
        snprintf(text, sizeof text, "n1 ci%d co%d in%d k8 s4 p2 bias %s | leaky_relu 0.1", channels,
                 channels / 2, length, modes[m]);
        CHECK(strcmp(costs_for(&h200, text).chosen, "cuda-ffma") != 0);
        check_ahead(text, "cuda-gemm", "cuda-ffma", 1.5);
      }
  check_ahead("n1 ci256 co128 in128 k16 s8 p4 bias dtype=f16", "cuda-mma", "cuda-ffma", 3);
  check_ahead("n1 ci64 co32 in28x28 k5 s2 p2 op1 bias dtype=bf16 | silu", "cuda-gemm", "cuda-mma",
              1.2);
  check_context(NULL);
}

/* One output channel: rows of x take twice the bytes in TF32, and are made before. */
static void one_output_channel(void) {
  check_ahead("n16 ci64 co1 in32x32x32 k4 s2 p1 bias math=tf32 | sigmoid", "cuda-ffma", "cuda-gemm",
              1.3);
  check_ahead("n16 ci64 co1 in32x32x32 k4 s2 p1 bias dtype=f16 | tanh", "cuda-gemm", "cuda-ffma",
              1.1);
  check_context(NULL);
}

/* Few output channels: what gathering wastes; with more of them fragments are full, and sums need not meet in shared memory. */
static void few_output_channels(void) {
  check_ahead("n16 ci64 co1 in32x32x32 k4 s2 p1 bias math=tf32 | sigmoid", "cuda-scatter",
              "cuda-ffma", 3);
  check_ahead("n16 ci64 co1 in32x32x32 k4 s2 p1 bias dtype=f16 | tanh", "cuda-scatter", "cuda-gemm",
              2);
  check_ahead("n64 ci64 co3 in32x32 k4 s2 p1 bias dtype=f16 | tanh", "cuda-scatter", "cuda-gemm",
              1.3);
  check_ahead("n16 ci64 co8 in32x32x32 k4 s2 p1 bias math=tf32 | tanh", "cuda-mma", "cuda-scatter",
              1.2);
  check_context(NULL);
}

/* Many channels: cells that are columns need eight neighbours, and stores whole sectors. */
static void many_channels(void) {
  check_ahead("n16 ci128 co64 in16x16x16 k4 s2 p1 dtype=f16 | relu", "cuda-panel", "cuda-gemm",
              1.3);
  check_ahead("n2 ci320 co256 in8x8x8 k2 s2 bias math=tf32", "cuda-panel", "cuda-gemm", 1.2);
  check_ahead("n2 ci64 co32 in64x64x64 k2 s2 bias math=tf32", "cuda-phase", "cuda-panel", 1.2);
  /* rows longer than a tile may be wide */
  check_ahead("n4 ci256 co256 in500x500 k3 p1 math=tf32", "cuda-panel", "cuda-gemm", 1.2);
  check_context(NULL);
}

/* cuda-depthwise has more to do before the first output, and less for each. */
static void depthwise_small_and_large(void) {
  check_ahead("n1 ci64 co64 g64 in16x16x16 k2 s2 dtype=f16 | relu", "cuda-ffma", "cuda-depthwise",
              1.1);
  check_ahead("n16 ci256 co256 g256 in64x64 k4 s2 p1 dtype=f16", "cuda-depthwise", "cuda-ffma",
              1.3);
  check_context(NULL);
}

/* cuda-flat wastes nothing of a depth of three channels, but reads each word of the depth by itself. */
static void few_input_channels(void) {
  check_ahead("n128 ci3 co16 in16x32x32 k3 s2 p1 bias math=tf32 | scale 0.5 | avg_pool 2",
              "cuda-flat", "cuda-mma", 1.2);
  check_ahead("n8 ci32 co36 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1 math=tf32", "cuda-mma", "cuda-flat",
              1.5);
  check_context(NULL);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"grows_with_samples_and_extents", grows_with_samples_and_extents},
      {"is_a_time", is_a_time},
      {"huge_problems_are_counted", huge_problems_are_counted},
      {"fewer_multiprocessors_take_longer", fewer_multiprocessors_take_longer},
      {"depth_of_few_blocks", depth_of_few_blocks},
      {"one_output_channel", one_output_channel},
      {"few_output_channels", few_output_channels},
      {"many_channels", many_channels},
      {"depthwise_small_and_large", depthwise_small_and_large},
      {"few_input_channels", few_input_channels},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
