/* SPDX-License-Identifier: Apache-2.0
 *
 * upconv_execute and its neighbours: refusals that name the argument, weights that are not finite, one plan in many threads.
 */
// labels: parallel

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "upconv/upconv.h"

enum {
  CI = 3,
  CO = 5,
  SIDE = 6,
  OUT = 11,
  X_COUNT = 2 * CI * SIDE * SIDE,
  Y_COUNT = 2 * CO * OUT * OUT,
  W_COUNT = CI * CO * 9
};

static const char text[] = "n2 ci3 co5 in6x6 k3 s2 p1 bias";
static const int64_t x_shape[] = {2, CI, SIDE, SIDE}, y_shape[] = {2, CO, OUT, OUT},
                     w_shape[] = {CI, CO, 3, 3};

typedef struct fixture {
  upconv_context *context;
  upconv_problem *problem;
  upconv_plan *plan;
  float x[X_COUNT], y[Y_COUNT], w[W_COUNT], b[CO];
  upconv_parameters parameters;
  upconv_arguments arguments;
  void *packed, *workspace;
} fixture;

static void *aligned(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

static void fill(float *to, int count, uint64_t seed) {
  for (int i = 0; i < count; i++) to[i] = (float)check_random_unit(&seed) - 0.5F;
}

static void open_fixture(fixture *f, const upconv_plan_options *options) {
  memset(f, 0, sizeof *f);
  const int64_t channels = CO;
  fill(f->x, X_COUNT, 1);
  fill(f->w, W_COUNT, 2);
  fill(f->b, CO, 3);
  upconv_context_options two = {.threads = 2};
  CHECK_STATUS(upconv_context_create(&two, &f->context), UPCONV_OK);
  CHECK_STATUS(upconv_problem_parse(text, &f->problem, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_plan_create(f->context, f->problem, NULL, options, &f->plan), UPCONV_OK);
  f->parameters.weight = upconv_tensor_dense(f->w, UPCONV_F32, 4, w_shape, UPCONV_CHANNELS_FIRST);
  f->parameters.bias = upconv_tensor_dense(f->b, UPCONV_F32, 1, &channels, UPCONV_CHANNELS_FIRST);
  f->arguments.x = upconv_tensor_dense(f->x, UPCONV_F32, 4, x_shape, UPCONV_CHANNELS_FIRST);
  f->arguments.y = upconv_tensor_dense(f->y, UPCONV_F32, 4, y_shape, UPCONV_CHANNELS_FIRST);
  f->packed = aligned(upconv_plan_packed_size(f->plan));
  CHECK_STATUS(upconv_plan_workspace_size(f->plan, x_shape, &f->arguments.workspace_size),
               UPCONV_OK);
  f->workspace = aligned(f->arguments.workspace_size);
  f->arguments.packed = f->packed;
  f->arguments.workspace = f->workspace;
  CHECK_STATUS(upconv_plan_pack(f->plan, &f->parameters, f->packed, NULL), UPCONV_OK);
}

static void close_fixture(fixture *f) {
  free(f->packed);
  free(f->workspace);
  upconv_plan_destroy(f->plan);
  upconv_problem_destroy(f->problem);
  upconv_context_destroy(f->context);
}

/* ---- refusals ---- */

static void refused(const fixture *f, const upconv_arguments *a, const char *names) {
  CHECK_STATUS(upconv_execute(f->plan, a), UPCONV_INVALID_ARGUMENT);
  CHECK_MSG(strstr(upconv_last_error(), names) != NULL, "\"%s\" does not name %s",
            upconv_last_error(), names);
}

static void refuses_arguments(void) {
  fixture f;
  open_fixture(&f, NULL);
  upconv_arguments a = f.arguments;
  a.packed = NULL;
  refused(&f, &a, "packed");
  a = f.arguments;
  a.packed = f.w; /* not packed at all, whatever its alignment */
  CHECK(upconv_execute(f.plan, &a) == UPCONV_INVALID_ARGUMENT);
  a = f.arguments;
  a.workspace = (char *)f.workspace + 4;
  refused(&f, &a, "workspace");
  a = f.arguments;
  a.workspace_size = 64;
  refused(&f, &a, "workspace_size");
  a.workspace_size = f.arguments.workspace_size - 1;
  refused(&f, &a, "workspace_size");
  a = f.arguments;
  a.x.dtype = UPCONV_F16;
  refused(&f, &a, "x: dtype");
  a = f.arguments;
  a.x.shape[1] = 4;
  refused(&f, &a, "channels");
  a = f.arguments;
  a.x.rank = 5;
  refused(&f, &a, "x");
  a = f.arguments;
  a.x.offset[2] = 1;
  refused(&f, &a, "x.offset");
  a = f.arguments;
  a.x.data = NULL;
  refused(&f, &a, "x");
  a = f.arguments;
  a.y.shape[3] = OUT + 1;
  refused(&f, &a, "y");
  a = f.arguments;
  a.y.stride[1] = 0;
  refused(&f, &a, "stride 0");
  a = f.arguments;
  a.tensor_count = 1;
  refused(&f, &a, "tensor_count");
  CHECK_STATUS(upconv_execute(NULL, &f.arguments), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_execute(f.plan, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_execute(f.plan, &f.arguments), UPCONV_OK); /* and nothing of that did harm */
  close_fixture(&f);
}

static void refuses_plans(void) {
  fixture f;
  upconv_plan *plan = NULL;
  open_fixture(&f, NULL);
  upconv_plan_options options = {.candidate = "no-such"};
  CHECK_STATUS(upconv_plan_create(f.context, f.problem, NULL, &options, &plan),
               UPCONV_INVALID_ARGUMENT);
  CHECK(plan == NULL && strstr(upconv_last_error(), "no-such") != NULL);
  CHECK_STATUS(upconv_plan_create(NULL, f.problem, NULL, NULL, &plan), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_plan_pack(f.plan, &f.parameters, (char *)f.packed + 8, NULL),
               UPCONV_INVALID_ARGUMENT);
  upconv_context *context = NULL;
  upconv_context_options bad = {.device = "tpu"};
  CHECK_STATUS(upconv_context_create(&bad, &context), UPCONV_INVALID_ARGUMENT);
  bad = (upconv_context_options){.threads = -1};
  CHECK_STATUS(upconv_context_create(&bad, &context), UPCONV_INVALID_ARGUMENT);
  CHECK(context == NULL);
  upconv_plan_destroy(NULL);
  upconv_context_destroy(NULL);
  close_fixture(&f);
}

/* ---- weights that are not finite ---- */

/* Border taps contribute nothing, whatever their weight: an infinite one must not meet a zero of the padding. */
static void infinite_weights(void) {
  static const char *const candidates[] = {"cpu-tiled", "cpu-panels", "cpu-products", "cpu-direct"};
  static const float special[] = {INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < 12; i++) {
    fixture f;
    upconv_plan_options options = {.candidate = candidates[i % 4]};
    static double value[Y_COUNT], bound[Y_COUNT];
    double worst = -1;
    open_fixture(&f, &options);
    f.w[4 * CO * 0 + 9 + (i / 4) * 3] = special[i / 4];
    CHECK_STATUS(upconv_plan_pack(f.plan, &f.parameters, f.packed, NULL), UPCONV_OK);
    CHECK_STATUS(upconv_execute(f.plan, &f.arguments), UPCONV_OK);
    CHECK_STATUS(upconv_reference(f.problem, NULL, &f.parameters, &f.arguments, NULL, value, bound),
                 UPCONV_OK);
    int finite = 0, other = 0;
    for (int k = 0; k < Y_COUNT; k++) isfinite(value[k]) ? finite++ : other++;
    CHECK(finite > 0 && other > 0);
    CHECK_STATUS(upconv_compare(&f.arguments.y, value, bound, &worst, NULL), UPCONV_OK);
    CHECK_MSG(worst >= 0 && worst <= 1, "%s: off by %g bounds", candidates[i % 4], worst);
    close_fixture(&f);
  }
}

/* ---- threads ---- */

typedef struct caller {
  const fixture *f;
  float y[Y_COUNT];
  bool same;
} caller;

static void *call_often(void *argument) {
  caller *c = argument;
  upconv_arguments a = c->f->arguments;
  void *workspace = aligned(a.workspace_size);
  a.workspace = workspace;
  a.y.data = c->y;
  c->same = true;
  for (int i = 0; i < 20; i++) {
    memset(c->y, 0xff, sizeof c->y);
    if (upconv_execute(c->f->plan, &a) != UPCONV_OK || memcmp(c->y, c->f->y, sizeof c->y) != 0)
      c->same = false;
  }
  free(workspace);
  return NULL;
}

static void one_plan_in_many_threads(void) {
  enum { CALLERS = 4 };
  fixture f;
  pthread_t thread[CALLERS];
  static caller callers[CALLERS];
  open_fixture(&f, NULL);
  CHECK_STATUS(upconv_execute(f.plan, &f.arguments), UPCONV_OK);
  for (int i = 0; i < CALLERS; i++) {
    callers[i].f = &f;
    if (!CHECK(pthread_create(&thread[i], NULL, call_often, &callers[i]) == 0)) return;
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(thread[i], NULL);
    CHECK_MSG(callers[i].same, "caller %d saw other bits", i);
  }
  close_fixture(&f);
}

static void empty_batch(void) {
  fixture f;
  const int64_t none[] = {0, CI, SIDE, SIDE};
  int64_t shape[4];
  size_t bytes = 0;
  open_fixture(&f, NULL);
  CHECK_STATUS(upconv_plan_output_shape(f.plan, none, shape), UPCONV_OK);
  CHECK(shape[0] == 0 && shape[1] == CO && shape[2] == OUT);
  CHECK_STATUS(upconv_plan_workspace_size(f.plan, none, &bytes), UPCONV_OK);
  upconv_arguments a = f.arguments;
  a.x.shape[0] = a.y.shape[0] = 0;
  memset(f.y, 0x55, sizeof f.y);
  CHECK_STATUS(upconv_execute(f.plan, &a), UPCONV_OK);
  CHECK(((unsigned char *)f.y)[0] == 0x55 && ((unsigned char *)f.y)[sizeof f.y - 1] == 0x55);
  close_fixture(&f);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"refuses_arguments", refuses_arguments},
      {"refuses_plans", refuses_plans},
      {"infinite_weights", infinite_weights},
      {"one_plan_in_many_threads", one_plan_in_many_threads},
      {"empty_batch", empty_batch},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
