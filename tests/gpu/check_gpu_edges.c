/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out, arguments that are wrong, tensors that are empty, odd, huge or lie anywhere. */
#include <stdio.h>
#include <string.h>

#include "check_gpu.h"

/* ---- memory that runs out ---- */

enum { MOST_BLOCKS = 256, PLANS = 20 };

typedef struct hog {
  uc_cuda_pointer block[MOST_BLOCKS];
  int count, result; /* of the last allocation */
} hog;

/* Takes all that there is. */
static void hog_take(hog *h) {
  size_t bytes = (size_t)16 << 30;
  h->count = 0;
  while (bytes >= (size_t)1 << 20 && h->count < MOST_BLOCKS) {
    h->result = gpu->cuMemAlloc(&h->block[h->count], bytes);
    if (h->result == UC_CUDA_SUCCESS)
      h->count++;
    else
      bytes /= 2;
  }
}

static void hog_give_back(hog *h) {
  for (int i = 0; i < h->count; i++) GPU_CHECK(gpu->cuMemFree(h->block[i]));
}

/* Planning with no memory left either works or says that there is none. */
static void plan_without_memory(const gpu_task *t) {
  upconv_plan *plan = NULL;
  upconv_status status = upconv_plan_create(gpu_context, t->problem, t->epilogue, NULL, &plan);
  CHECK_MSG(status == UPCONV_OK || status == UPCONV_OUT_OF_MEMORY, "%s: %s",
            upconv_status_string(status), upconv_last_error());
  CHECK_MSG(status == UPCONV_OK || (!plan && strstr(upconv_last_error(), "OUT_OF_MEMORY")), "%s",
            upconv_last_error());
  printf("     a plan without memory: %s\n", status == UPCONV_OK ? "made" : upconv_last_error());
  upconv_plan_destroy(plan);
}

static void out_of_memory(void) {
  static const char text[] =
      "n2 ci8 co16 in6x9x10 k3 s2 p1 bias math=tf32 | silu | mul @m | mean w | exp";
  static const char other[] =
      "n2 ci12 co20 in6x9x10 k3 s2 p1 bias math=tf32 | gelu | avg_pool 2 | tanh";
  static hog h;
  gpu_task t, u;
  gpu_run run = {.task = NULL};
  upconv_plan *plan = NULL;
  bool ready = gpu_task_make(text, 4, GPU_DENSE, &t) && gpu_oracle(&t) &&
               (plan = gpu_plan(gpu_context, &t, NULL)) && gpu_run_make(&t, plan, GPU_DENSE, &run);
  ready = gpu_task_make(other, 4, GPU_DENSE, &u) && ready;
  if (ready) {
    hog_take(&h);
    CHECK_INT(h.result, UC_CUDA_OUT_OF_MEMORY);
    CHECK_INT(uc_cuda_check(gpu, h.result, "a test's buffer"), UPCONV_OUT_OF_MEMORY);
    CHECK_MSG(strstr(upconv_last_error(), "a test's buffer") &&
                  strstr(upconv_last_error(), "OUT_OF_MEMORY"),
              "%s", upconv_last_error());
    plan_without_memory(&u);
    /* What exists goes on, for it allocates nothing. */
    if (gpu_run_all(&run)) gpu_run_compare(&run, "with no memory left");
    hog_give_back(&h);
    if (gpu_run_all(&run)) gpu_run_compare(&run, "with memory again");
  }
  gpu_run_free(&run);
  upconv_plan_destroy(plan);
  gpu_task_free(&t);
  gpu_task_free(&u);
  CHECK(gpu_check_candidates(gpu_context, other, GPU_DENSE, GPU_DENSE));
}

/* Plans that come and go leave nothing behind. */
static void plans_free_their_memory(void) {
  static const char text[] = "n2 ci8 co16 in6x9x10 k3 s2 p1 bias math=tf32 | relu | mul @m";
  size_t before = 0, after = 0, total;
  const size_t tolerance = (size_t)8 << 20; /* the driver's own */
  for (int i = 0; i < PLANS; i++) {
    if (!CHECK(gpu_check_candidates(gpu_context, text, GPU_DENSE, GPU_DENSE))) return;
    if (i == PLANS / 4) GPU_CHECK(gpu->cuMemGetInfo(&before, &total));
  }
  GPU_CHECK(gpu->cuMemGetInfo(&after, &total));
  CHECK_MSG(after + tolerance >= before, "%zu bytes were free, then %zu", before, after);
}

/* ---- arguments ---- */

/* With a message about the argument. */
static void refused(upconv_status status, const char *part) {
  if (!CHECK_STATUS(status, UPCONV_INVALID_ARGUMENT)) return;
  CHECK_MSG(strstr(upconv_last_error(), part) != NULL, "no '%s' in: %s", part, upconv_last_error());
}

static void check_refusals(const gpu_run *run) {
  upconv_arguments a = run->arguments;
  a.packed = NULL;
  refused(upconv_execute(run->plan, &a), "packed");
  a = run->arguments;
  a.packed = (const char *)a.packed + 4;
  refused(upconv_execute(run->plan, &a), "packed");
  a = run->arguments;
  a.workspace = NULL;
  refused(upconv_execute(run->plan, &a), "workspace");
  a = run->arguments;
  a.workspace_size = 0;
  refused(upconv_execute(run->plan, &a), "workspace_size");
  a = run->arguments;
  a.x.data = NULL;
  refused(upconv_execute(run->plan, &a), "x");
  a = run->arguments;
  a.y.data = NULL;
  refused(upconv_execute(run->plan, &a), "y");
  a = run->arguments;
  a.y.shape[2]++;
  refused(upconv_execute(run->plan, &a), "y");
  a = run->arguments;
  a.x.dtype = UPCONV_F16;
  refused(upconv_execute(run->plan, &a), "x");
  upconv_parameters p = run->task->parameters;
  refused(upconv_plan_pack(run->plan, &p, NULL, NULL), "packed");
  p.weight.shape[0]++;
  refused(upconv_plan_pack(run->plan, &p, gpu_address(&run->packed), NULL), "weight");
  p = run->task->parameters;
  p.param_count = 0;
  refused(upconv_plan_pack(run->plan, &p, gpu_address(&run->packed), NULL), "param");
}

static void wrong_arguments(void) {
  static const char text[] = "n2 ci3 co5 in9x7 k4 s2 p1 bias | silu | mul @m | mean w | exp";
  gpu_task t;
  gpu_run run = {.task = NULL};
  upconv_plan *plan = NULL;
  if (gpu_task_make(text, 4, GPU_DENSE, &t) && gpu_oracle(&t) &&
      (plan = gpu_plan(gpu_context, &t, NULL)) && gpu_run_make(&t, plan, GPU_DENSE, &run) &&
      gpu_run_pack(&run, NULL)) {
    check_refusals(&run);
    /* Nothing was started, and everything still works. */
    if (gpu_run_sync(NULL) && gpu_run_download(&run))
      CHECK(check_is_poison(run.y.bytes, run.y.byte_count));
    if (gpu_run_all(&run)) gpu_run_compare(&run, "after wrong arguments");
  }
  gpu_run_free(&run);
  upconv_plan_destroy(plan);
  gpu_task_free(&t);
}

/* ---- shapes ---- */

static void check_all(const char *const *text, size_t count, gpu_place x_place, gpu_place y_place) {
  for (size_t i = 0; i < count; i++)
    CHECK_MSG(gpu_check_candidates(gpu_context, text[i], x_place, y_place), "%s", text[i]);
}

static void corners(void) {
  static const char *const text[] = {
      "n1 ci1 co1 in1 k1",
      "n1 ci1 co1 in1x1x1 k3 s2 p1 op1 bias | relu",
      "n3 ci1 co16 in5x6 k4 s2 p1 bias | silu | max_pool 2",
      "n3 ci16 co1 in5x6 k4 s2 p1 bias math=tf32 | sigmoid",
      "n2 ci64 co1 in9x10x11 k4 s2 p1 bias dtype=f16 | tanh",
      "n2 ci24 co24 g24 in7x8x9 k4 s2 p1 bias | relu",
      "n2 ci24 co24 g24 in7x8x9 k4 s2 p1 dtype=bf16 layout=ndhwc | relu",
      "n3 ci1 co8 in5x6x7 k4 s2 p1 bias | gelu",
      "n2 ci24 co48 g24 in7x8 k3 s2 p1 op1 dtype=f16 | softmax",
      "n1 ci4 co4 in1x9x1 k2x3x1 s2x1x3 bias math=tf32 | avg_pool 2x1x1",
      "n2 ci4 co4 in3 k2 s5 bias | exp",
      "n2 ci4 co6 in9 k3 s2 d3 p2 op1 bias | elu | sum w",
      "n1 ci32 co32 in1x1x64 k1x1x4 s1x1x2 p0x0x1 dtype=bf16 | logsumexp",
  };
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_DENSE);
}

/* No sample, or sizes that leave nothing. */
static void empty_tensors(void) {
  static const char *const text[] = {
      "n0 ci4 co8 in5x6x7 k3 s2 p1 bias math=tf32 | relu | max_pool 2",
      "n0 ci4 co8 in5x6 k3 s2 p1 bias | softmax | mean w",
      "n2 ci4 co8 in1 k2 p1 bias dtype=f16 | relu",
      "n2 ci4 co8 in3x1 k2x2 p0x1 bias | silu",
  };
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_DENSE);
}

/* ---- many blocks ---- */

static void many_samples(void) {
  static const char *const text[] = {
      "n100000 ci2 co3 in3 k3 s2 bias | relu",
      "n100000 ci2 co3 in3 k3 s2 bias | softmax",
      "n100000 ci2 co3 in2x2 k3 s2 p1 op1 bias | tanh | mean hw",
      "n100000 ci4 co8 in2x2 k2 s2 math=tf32 | max_pool 2",
  };
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_DENSE);
}

static void many_blocks(void) {
  static const char *const text[] = {
      "n4 ci1 co1 in4000000 k4 s2 p1 bias | tanh",
      "n2 ci2 co2 in3000000 k4 s2 p1 bias | softmax",
      "n1 ci70000 co70000 g70000 in2x2 k2 s2 | relu",
      "n1 ci1 co70000 in2x2 k2 s2 bias | relu",
  };
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_DENSE);
}

/* ---- how tensors lie ---- */

static const char *const placed[] = {
    "n2 ci4 co8 in5x6x9 k3 s2 p1 op1 bias math=ieee | relu",
    "n2 ci16 co32 in5x6x9 k3 s2 p1 op1 bias math=tf32 | relu | mul @m | elu | max_pool 2",
    "n2 ci16 co32 in5x6x9 k3 s2 p1 op1 bias dtype=f16 layout=ndhwc | leaky_relu 0.2 | mul @m",
    "n2 ci16 co16 in5x6x9 k2 s2 bias dtype=bf16 | silu",
    "n2 ci16 co16 in5x6x9 k4 s2 p1 bias x=f16 w=f16 y=f32 xlayout=ndhwc | relu",
    "n2 ci8 co8 in20x21 k4 s2 p1 bias math=tf32 ylayout=ndhwc | softmax",
    "n3 ci3 co5 in50 k16 s8 p4 bias dtype=f16 | tanh",
    "n2 ci6 co6 g6 in9x10x11 k4 s2 p1 dtype=f16 | relu",
    "n2 ci12 co24 g12 in20x21 k4 s2 p1 bias dtype=bf16 layout=ndhwc | silu",
    "n2 ci6 co6 g6 in40 k3 p1 bias | relu",
};

/* Runs of y that are long enough to be copied as a whole, and such as end anywhere. */
static void long_runs(void) {
  static const char *const text[] = {
      "n1 ci2 co4 in150x400 k2 s2 bias math=tf32 | relu",
      "n1 ci2 co4 in151x399 k2 s2 p0x1 op0x1 bias math=tf32 | relu",
  };
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_DENSE);
  check_all(text, CHECK_COUNT(text), GPU_DENSE, GPU_MISALIGNED);
}

static void misaligned(void) {
  check_all(placed, CHECK_COUNT(placed), GPU_MISALIGNED, GPU_MISALIGNED);
}
static void slices(void) { check_all(placed, CHECK_COUNT(placed), GPU_SLICE, GPU_SLICE); }
static void skip_concatenation(void) {
  check_all(placed, CHECK_COUNT(placed), GPU_CONCAT, GPU_CONCAT);
}
static void one_of_two_misaligned(void) {
  check_all(placed, CHECK_COUNT(placed), GPU_DENSE, GPU_MISALIGNED);
  check_all(placed, CHECK_COUNT(placed), GPU_MISALIGNED, GPU_DENSE);
}

static const check_test tests[] = {
    {"out_of_memory", out_of_memory},
    {"plans_free_their_memory", plans_free_their_memory},
    {"wrong_arguments", wrong_arguments},
    {"corners", corners},
    {"empty_tensors", empty_tensors},
    {"many_samples", many_samples},
    {"many_blocks", many_blocks},
    {"long_runs", long_runs},
    {"misaligned", misaligned},
    {"one_of_two_misaligned", one_of_two_misaligned},
    {"slices", slices},
    {"skip_concatenation", skip_concatenation},
};
const gpu_tests gpu_edge_tests = {tests, CHECK_COUNT(tests)};
