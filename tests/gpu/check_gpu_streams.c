/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, threads, contexts and devices. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check_gpu.h"

enum { THREADS = 8, RUNS = 20, PLANNERS = 4 };

static const char fused_text[] = "n3 ci16 co32 in6x9x10 k3 s2 p1 op1 bias math=tf32 | leaky_relu "
                                 "0.2 | mul @m | leaky_relu 0.2 | max_pool 2";
/* Two passes and a sum over space, so with a workspace. */
static const char tiled_text[] = "n2 ci5 co20 in19x17 k4 s2 p1 bias | silu | avg_pool 3 s1 p1 | "
                                 "mul #res | mean w | exp | mul @m | add %1";

/* A problem with a run of the planner's choice. */
typedef struct fixture {
  gpu_task task;
  upconv_plan *plan;
  gpu_run run;
} fixture;

static bool fixture_make(upconv_context *context, const char *text, fixture *f) {
  memset(f, 0, sizeof *f);
  if (!gpu_task_make(text, 9, GPU_DENSE, &f->task) || !gpu_oracle(&f->task)) return false;
  f->plan = gpu_plan(context, &f->task, NULL);
  return f->plan && gpu_run_make(&f->task, f->plan, GPU_DENSE, &f->run);
}

static void fixture_free(fixture *f) {
  gpu_run_free(&f->run);
  upconv_plan_destroy(f->plan);
  gpu_task_free(&f->task);
}

/* ---- graphs ---- */

/* Whatever allocates or waits makes a capture fail, so this also shows that nothing does, on the first call. */
static bool capture(gpu_run *r, uc_cuda_stream stream, uc_cuda_graph_exec *exec) {
  uc_cuda_graph graph = NULL;
  if (!GPU_CHECK(gpu->cuStreamBeginCapture(stream, UC_CAPTURE_GLOBAL))) return false;
  bool done = gpu_run_pack(r, stream) && gpu_run_execute(r, stream);
  bool ended = GPU_CHECK(gpu->cuStreamEndCapture(stream, &graph));
  done = done && ended && GPU_CHECK(gpu->cuGraphInstantiate(exec, graph, 0));
  if (graph) GPU_CHECK(gpu->cuGraphDestroy(graph));
  return done;
}

static bool replay(gpu_run *r, uc_cuda_stream stream, uc_cuda_graph_exec exec) {
  return gpu_poison(&r->y.buffer) && gpu_poison(&r->packed) && gpu_poison(&r->workspace) &&
         GPU_CHECK(gpu->cuGraphLaunch(exec, stream)) && gpu_run_sync(stream) && gpu_run_download(r);
}

static bool compare_replays(fixture *f, uc_cuda_stream stream, uc_cuda_graph_exec exec,
                            gpu_run *direct) {
  unsigned char *first = check_alloc(f->run.y.byte_count, 0);
  bool right = replay(&f->run, stream, exec) && gpu_run_compare(&f->run, "the graph") &&
               gpu_run_all(direct) && gpu_runs_equal(&f->run, direct);
  memcpy(first, f->run.y.bytes, f->run.y.byte_count);
  right = right && gpu_task_refill(&f->task, 10) && gpu_oracle(&f->task) &&
          replay(&f->run, stream, exec) &&
          gpu_run_compare(&f->run, "the graph with other inputs") && gpu_run_all(direct) &&
          gpu_runs_equal(&f->run, direct) &&
          CHECK(memcmp(first, f->run.y.bytes, f->run.y.byte_count) != 0);
  CHECK_FREE(first);
  return right;
}

static void run_graph(const char *text) {
  fixture f;
  uc_cuda_stream stream = NULL;
  uc_cuda_graph_exec exec = NULL;
  gpu_run direct = {.task = NULL};
  if (fixture_make(gpu_context, text, &f) &&
      GPU_CHECK(gpu->cuStreamCreate(&stream, UC_STREAM_NON_BLOCKING)) &&
      capture(&f.run, stream, &exec) && gpu_run_make(&f.task, f.plan, GPU_DENSE, &direct))
    compare_replays(&f, stream, exec, &direct);
  if (exec) GPU_CHECK(gpu->cuGraphExecDestroy(exec));
  if (stream) GPU_CHECK(gpu->cuStreamDestroy(stream));
  gpu_run_free(&direct);
  fixture_free(&f);
}

static void graph_fused(void) { run_graph(fused_text); }
static void graph_tiled(void) { run_graph(tiled_text); }
/* Many channels: on some devices a kernel that begins before the one that brings its input has ended. */
static void graph_early(void) { run_graph("n4 ci128 co64 in8x8x8 k4 s2 p1 bias math=tf32 | relu"); }

/* ---- threads ---- */

/* One plan and one packed buffer; a stream, a workspace and an output each. */
typedef struct worker {
  fixture *shared;
  int differing; /* -1: it did not get to the end */
} worker;

static bool run_often(worker *w, gpu_run *r, uc_cuda_stream stream) {
  const gpu_run *shared = &w->shared->run;
  r->arguments.packed = shared->arguments.packed;
  int differing = 0;
  for (int i = 0; i < RUNS; i++) {
    if (!gpu_poison(&r->y.buffer) || !gpu_run_execute(r, stream) || !gpu_run_sync(stream) ||
        !gpu_run_download(r))
      return false;
    differing += memcmp(r->y.bytes, shared->y.bytes, shared->y.byte_count) != 0;
  }
  w->differing = differing;
  return true;
}

static void *work(void *argument) {
  worker *w = argument;
  uc_cuda_stream stream = NULL;
  gpu_run run = {.task = NULL};
  if (!gpu_enter()) return NULL;
  if (GPU_CHECK(gpu->cuStreamCreate(&stream, UC_STREAM_NON_BLOCKING)) &&
      gpu_run_make(&w->shared->task, w->shared->plan, GPU_DENSE, &run))
    run_often(w, &run, stream);
  if (stream) GPU_CHECK(gpu->cuStreamDestroy(stream));
  gpu_run_free(&run);
  gpu_leave();
  return NULL;
}

static void run_threads(const char *text) {
  fixture f;
  pthread_t thread[THREADS];
  worker workers[THREADS];
  int started = 0;
  if (fixture_make(gpu_context, text, &f) && gpu_run_all(&f.run) &&
      gpu_run_compare(&f.run, "one thread")) {
    for (int i = 0; i < THREADS; i++) {
      workers[i] = (worker){&f, -1};
      if (pthread_create(&thread[i], NULL, work, &workers[i]) == 0)
        started++;
      else
        break;
    }
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    CHECK_INT(started, THREADS);
    for (int i = 0; i < started; i++)
      CHECK_MSG(workers[i].differing == 0, "thread %d: %d of %d runs have other bits", i,
                workers[i].differing, RUNS);
  }
  fixture_free(&f);
}

static void threads_fused(void) { run_threads(fused_text); }
static void threads_tiled(void) { run_threads(tiled_text); }

/* Threads that plan the same thing at once. */
static void *plan_and_run(void *argument) {
  fixture *shared = argument;
  gpu_run run = {.task = NULL};
  if (!gpu_enter()) return NULL;
  upconv_plan *plan = gpu_plan(gpu_context, &shared->task, NULL);
  if (plan && gpu_run_make(&shared->task, plan, GPU_DENSE, &run) && gpu_run_all(&run)) {
    gpu_run_compare(&run, "a plan of its own thread");
    gpu_runs_equal(&run, &shared->run);
  }
  gpu_run_free(&run);
  upconv_plan_destroy(plan);
  gpu_leave();
  return NULL;
}

static void threads_plan(void) {
  fixture f;
  pthread_t thread[PLANNERS];
  int started = 0;
  if (fixture_make(gpu_context, tiled_text, &f) && gpu_run_all(&f.run)) {
    while (started < PLANNERS && pthread_create(&thread[started], NULL, plan_and_run, &f) == 0)
      started++;
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    CHECK_INT(started, PLANNERS);
  }
  fixture_free(&f);
}

/* ---- contexts and devices ---- */

static void two_contexts(void) {
  const upconv_context_options options = {.device = "cuda:0"};
  upconv_context *other = NULL;
  fixture f, g;
  memset(&g, 0, sizeof g);
  if (fixture_make(gpu_context, fused_text, &f) &&
      CHECK_STATUS(upconv_context_create(&options, &other), UPCONV_OK) &&
      fixture_make(other, fused_text, &g) && gpu_run_all(&f.run) && gpu_run_all(&g.run) &&
      gpu_run_compare(&g.run, "the second context"))
    gpu_runs_equal(&f.run, &g.run);
  fixture_free(&g);
  upconv_context_destroy(other);
  /* The end of one does not touch the other. */
  if (f.run.plan && gpu_run_all(&f.run)) gpu_run_compare(&f.run, "the first context, alone again");
  fixture_free(&f);
}

static void run_on(int ordinal) {
  char name[32];
  upconv_context *context = NULL;
  uc_cuda_device device;
  snprintf(name, sizeof name, "cuda:%d", ordinal);
  const upconv_context_options options = {.device = name};
  if (!CHECK_STATUS(uc_cuda_device_open(ordinal, &device), UPCONV_OK)) return;
  if (CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK) &&
      CHECK_STATUS(uc_cuda_enter(&device), UPCONV_OK)) {
    fixture f;
    if (fixture_make(context, tiled_text, &f)) {
      /* Calls work, and leave the thread's device as it was, while another one is current. */
      bool entered = gpu_enter();
      bool done = gpu_run_pack(&f.run, NULL) && gpu_run_execute(&f.run, NULL);
      if (entered) gpu_leave();
      if (done && gpu_run_sync(NULL) && gpu_run_download(&f.run)) gpu_run_compare(&f.run, name);
    }
    fixture_free(&f);
    uc_cuda_leave(&device);
  }
  upconv_context_destroy(context);
  uc_cuda_device_close(&device);
}

static void devices(void) {
  if (gpu->device_count < 2) CHECK_SKIP("there is one device");
  for (int i = 0; i < gpu->device_count; i++) run_on(i);
}

static void no_such_device(void) {
  char name[32];
  upconv_context *context = NULL;
  snprintf(name, sizeof name, "cuda:%d", gpu->device_count);
  const upconv_context_options options = {.device = name};
  CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_INVALID_ARGUMENT);
  CHECK_MSG(strstr(upconv_last_error(), name) != NULL, "%s", upconv_last_error());
  CHECK(context == NULL);
}

static const check_test tests[] = {
    {"graph_fused", graph_fused},       {"graph_tiled", graph_tiled},
    {"graph_early", graph_early},       {"threads_fused", threads_fused},
    {"threads_tiled", threads_tiled},   {"threads_plan", threads_plan},
    {"two_contexts", two_contexts},     {"devices", devices},
    {"no_such_device", no_such_device},
};
const gpu_tests gpu_stream_tests = {tests, CHECK_COUNT(tests)};
