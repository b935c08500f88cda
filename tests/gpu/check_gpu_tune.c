/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring candidates on a device. */
#include <stdlib.h>
#include <string.h>

#include "../../src/plan.h"
#include "check_gpu.h"

static const char text[] =
    "n2 ci16 co32 in6x9x10 k3 s2 p1 op1 bias dtype=f16 | leaky_relu 0.2 | mul @m | add #t:f16";

/* A context of its own, so that no other test follows what is decided here. */
typedef struct fixture {
  gpu_task task;
  upconv_context *context;
} fixture;

static bool fixture_make(fixture *f) {
  const upconv_context_options options = {.device = "cuda:0"};
  memset(f, 0, sizeof *f);
  return gpu_task_make(text, 11, GPU_DENSE, &f->task) &&
         CHECK_STATUS(upconv_context_create(&options, &f->context), UPCONV_OK);
}

static void fixture_free(fixture *f) {
  upconv_context_destroy(f->context);
  gpu_task_free(&f->task);
}

static size_t available(void) {
  size_t free_bytes = 0, total = 0;
  GPU_CHECK(gpu->cuMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

static void measures(void) {
  fixture f;
  upconv_plan *plan = NULL;
  upconv_tune_result result = {.count = 0};
  const upconv_tune_options options = {.seconds = 0.2};
  if (fixture_make(&f) &&
      CHECK_STATUS(upconv_tune(f.context, f.task.problem, f.task.epilogue, &options, &result),
                   UPCONV_OK)) {
    CHECK(result.count > 1);
    for (int i = 0; i < result.count; i++) {
      const upconv_trial *t = &result.trial[i];
      CHECK_MSG(t->runs > 0 && t->fastest > 1e-7 && t->fastest <= t->quartile &&
                    t->quartile <= t->median && t->median < 0.1,
                "%s: %d runs, %g s, %s", t->candidate, t->runs, t->median, t->why);
    }
    plan = gpu_plan(f.context, &f.task, NULL);
    if (plan) {
      CHECK_INT(plan->choice, UC_CHOICE_STORED);
      CHECK_STR(upconv_plan_candidate(plan), result.trial[result.chosen].candidate);
    }
    /* What is taken to measure is given back: the buffer that empties the cache alone is 256 MiB. The driver may keep a
       little. */
    enum { LITTLE = 64 << 20 };
    size_t before = available();
    CHECK_STATUS(upconv_tune(f.context, f.task.problem, f.task.epilogue, &options, &result),
                 UPCONV_OK);
    CHECK(available() + LITTLE > before);
  }
  upconv_plan_destroy(plan);
  fixture_free(&f);
}

/* A plan that measures, made while a stream of that kind is captured; model: whether the model must choose. */
static void plan_while_captured(unsigned stream_kind, int capture, bool model) {
  fixture f;
  uc_cuda_stream stream = NULL;
  uc_cuda_graph graph = NULL;
  upconv_plan *plan = NULL;
  const upconv_plan_options options = {.tuning = UPCONV_TUNING_MEASURE};
  if (fixture_make(&f) && GPU_CHECK(gpu->cuStreamCreate(&stream, stream_kind)) &&
      GPU_CHECK(gpu->cuStreamBeginCapture(stream, capture))) {
    if (CHECK_STATUS(
            upconv_plan_create(f.context, f.task.problem, f.task.epilogue, &options, &plan),
            UPCONV_OK) &&
        model)
      CHECK_INT(plan->choice, UC_CHOICE_MODEL);
    if (GPU_CHECK(gpu->cuStreamEndCapture(stream, &graph))) GPU_CHECK(gpu->cuGraphDestroy(graph));
  }
  if (stream) GPU_CHECK(gpu->cuStreamDestroy(stream));
  upconv_plan_destroy(plan);
  fixture_free(&f);
}

/* What is measured meanwhile leaves no trace in a graph: it has no nodes. */
static void while_another_stream_is_captured(void) {
  plan_while_captured(UC_STREAM_NON_BLOCKING, UC_CAPTURE_GLOBAL, false);
}

/* A stream that waits for the default one shows: the model chooses. */
static void while_a_blocking_stream_is_captured(void) {
  plan_while_captured(UC_STREAM_DEFAULT, UC_CAPTURE_RELAXED, true);
}

static const check_test tests[] = {
    {"tune_measures", measures},
    {"tune_while_another_stream_is_captured", while_another_stream_is_captured},
    {"tune_while_a_blocking_stream_is_captured", while_a_blocking_stream_is_captured},
};
const gpu_tests gpu_tune_tests = {tests, CHECK_COUNT(tests)};
