/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels for many channels are handed as x: x itself, rows or units made of it, and the copy engine's map of them. The
 * device is tests/cuda/fake_driver.c, whose kernels do nothing: 0 has wgmma, 1 is newer than the compiler and has not.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox.h"
#include "upconv/upconv.h"

#define FAKE UPCONV_FAKES "/fake_driver.so"

static const char *ask(const char *name) {
  const char *(*get)(void) = NULL;
  void *handle = dlopen(FAKE, RTLD_NOW | RTLD_NOLOAD), *symbol = dlsym(handle, name);
  dlclose(handle);
  memcpy(&get, &symbol, sizeof get);
  return get();
}

/* ---- one execution ---- */

enum { MOST_BYTES = 1 << 18, ALIGNMENT = 64 };

/* A problem of two axes; x is dense, but for what is said. */
typedef struct trial {
  const char *device, *text;
  int64_t x_shape[4];
  upconv_layout layout;
  int64_t misaligned, sample_stride; /* bytes; elements, 0: dense */
} trial;

static const trial *current;
static const char *candidate;

static void *memory(size_t bytes) {
  void *data = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  if (!data) abort();
  memset(data, 0, bytes);
  return data;
}

/* Says the status, or the error; one K a launch, or an E where the kernel may begin before the one before has ended; the map. */
static void execute(upconv_plan *plan, const trial *t) {
  int64_t y_shape[4];
  size_t workspace_size = 0;
  if (upconv_plan_output_shape(plan, t->x_shape, y_shape) != UPCONV_OK ||
      upconv_plan_workspace_size(plan, t->x_shape, &workspace_size) != UPCONV_OK) {
    sandbox_say("%s", upconv_last_error());
    return;
  }
  char *x = memory(MOST_BYTES), *y = memory(MOST_BYTES), *workspace = memory(workspace_size);
  void *packed = memory(upconv_plan_packed_size(plan));
  upconv_arguments arguments = {
      .x = upconv_tensor_dense(x + t->misaligned, UPCONV_F16, 4, t->x_shape, t->layout),
      .y = upconv_tensor_dense(y, UPCONV_F16, 4, y_shape, UPCONV_CHANNELS_FIRST),
      .packed = packed,
      .workspace = workspace,
      .workspace_size = workspace_size};
  if (t->sample_stride) arguments.x.stride[0] = t->sample_stride;
  ask("fake_log");
  upconv_status status = upconv_execute(plan, &arguments);
  sandbox_say("%d %s; %s; %s", status, status ? upconv_last_error() : "", ask("fake_log"),
              ask("fake_map"));
  free(x);
  free(y);
  free(workspace);
  free(packed);
}

static void run_trial(void) {
  setenv("UPCONV_LIBCUDA", FAKE, 1);
  setenv("UPCONV_NVRTC", UPCONV_FAKES "/fake_nvrtc.so", 1);
  setenv("UPCONV_CACHE_DIR", "", 1);
  upconv_context_options on = {.device = current->device};
  upconv_plan_options options = {.candidate = candidate};
  upconv_context *context = NULL;
  upconv_problem *problem = NULL;
  upconv_plan *plan = NULL;
  if (upconv_context_create(&on, &context) == UPCONV_OK &&
      upconv_problem_parse(current->text, &problem, NULL) == UPCONV_OK &&
      upconv_plan_create(context, problem, NULL, &options, &plan) == UPCONV_OK)
    execute(plan, current);
  else
    sandbox_say("%s", upconv_last_error());
  upconv_plan_destroy(plan);
  upconv_problem_destroy(problem);
  upconv_context_destroy(context);
}

static const char *said_of(const trial *t) {
  current = t;
  candidate = "cuda-gemm";
  return sandbox_run(run_trial);
}

static const char *said_of_panel(const trial *t) {
  current = t;
  candidate = "cuda-panel";
  return sandbox_run(run_trial);
}

static const upconv_layout first = UPCONV_CHANNELS_FIRST, last = UPCONV_CHANNELS_LAST;

/* ---- which rows ---- */

static void rows_are_made(void) {
  /* 24 channels are 12 words of a row of 32 */
  const trial short_row = {"cuda", "n2 ci24 co16 in5x6 k4 s2 p1 dtype=f16", {2, 24, 5, 6}, first, 0,
                           0};
  CHECK_SAYS(said_of(&short_row), "0 ; KK; dims 32 6 5 1 2, strides 128 768 768 3840, box 32 ");
  const trial chunks = {"cuda", "n2 ci160 co16 in5x6 k4 s2 p1 dtype=f16", {2, 160, 5, 6}, first, 0,
                        0};
  CHECK_SAYS(said_of(&chunks), "0 ; KK; dims 96 6 5 1 2, strides 384 2304 2304 11520, box 32 ");
  const trial groups = {"cuda", "n2 ci48 co16 g2 in5x6 k4 s2 p1 dtype=f16", {2, 48, 5, 6}, first, 0,
                        0};
  CHECK_SAYS(said_of(&groups), "0 ; KK; dims 64 6 5 1 2, strides 256 1536 1536 7680, box 32 ");
}

static void x_is_rows(void) {
  const trial plain = {
      "cuda", "n2 ci48 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 48, 5, 6}, last, 0, 0};
  CHECK_SAYS(said_of(&plain), "0 ; K; dims 24 6 5 1 2, strides 96 576 576 2880, box 32 ");
  const trial groups = {
      "cuda", "n2 ci128 co16 g2 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 128, 5, 6}, last, 0,
      0};
  CHECK_SAYS(said_of(&groups), "0 ; K; dims 64 6 5 1 2, strides 256 1536 1536 7680, box 32 ");
}

/* Channels-last, but a step is not whole, a row would reach into the next group, or it is not aligned. */
static void x_is_no_rows(void) {
  const trial step = {
      "cuda", "n2 ci40 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 40, 5, 6}, last, 0, 0};
  CHECK_SAYS(said_of(&step), "0 ; KK; dims 32 6 5 1 2,");
  const trial groups = {
      "cuda", "n2 ci96 co16 g2 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 96, 5, 6}, last, 0, 0};
  CHECK_SAYS(said_of(&groups), "0 ; KK; dims 64 6 5 1 2,");
  const trial pointer = {
      "cuda", "n2 ci48 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 48, 5, 6}, last, 2, 0};
  CHECK_SAYS(said_of(&pointer), "0 ; KK; dims 32 6 5 1 2,");
  const trial stride = {
      "cuda", "n2 ci48 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 48, 5, 6}, last, 0, 1441};
  CHECK_SAYS(said_of(&stride), "0 ; KK; dims 32 6 5 1 2,");
  const trial uneven = {
      /* aligned, but no whole number of lines */
      "cuda", "n2 ci48 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 48, 5, 6}, last, 0, 1448};
  CHECK_SAYS(said_of(&uneven), "0 ; KK; dims 32 6 5 1 2,");
}

/* A y without any x is the bias alone: a map must be of something, so it is of the packed buffer. */
static void x_is_empty(void) {
  const trial spatial = {"cuda", "n2 ci24 co16 in5x6 k4 s2 dtype=f16", {2, 24, 0, 6}, first, 0, 0};
  CHECK_SAYS(said_of(&spatial), "0 ; K; dims ");
  CHECK_SAYS(said_of(&spatial), " 1 1 1 1, strides 16 16 16 16, box 32 ");
  const trial samples = {"cuda", "n2 ci24 co16 in5x6 k4 s2 dtype=f16", {0, 24, 5, 6}, first, 0, 0};
  CHECK_SAYS(said_of(&samples), "0 ; ; ");
}

/* A box is a halo tile: of whole samples, where they are small. */
static void boxes_are_halo_tiles(void) {
  const trial small = {
      "cuda", "n64 ci64 co64 in2x3 k3 s2 p1 op1 dtype=f16", {64, 64, 2, 3}, first, 0, 0};
  CHECK_SAYS(said_of(&small), ", box 32 4 3 1 10");
}

/* ---- units ---- */

/* [unit of all channels][sample][position], in halves; the next kernel begins early. 24 channels are three units of eight, in chunks of
   an even number; a group's are its own. */
static void units_are_made(void) {
  const trial plain = {"cuda", "n2 ci24 co16 in5x6 k4 s2 p1 dtype=f16", {2, 24, 5, 6}, first, 0, 0};
  CHECK_SAYS(said_of_panel(&plain), "0 ; KE; dims 12 5 1 2 4, strides 96 480 480 960, box ");
  const trial groups = {"cuda", "n2 ci48 co16 g2 in5x6 k4 s2 p1 dtype=f16", {2, 48, 5, 6}, first, 0,
                        0};
  CHECK_SAYS(said_of_panel(&groups), "0 ; KE; dims 12 5 1 2 8, strides 96 480 480 960, box ");
  const trial larger = {"cuda", "n2 ci24 co16 in5x6 k4 s2 p1 dtype=f16", {3, 24, 7, 9}, first, 0,
                        0};
  CHECK_SAYS(said_of_panel(&larger), "0 ; KE; dims 18 7 1 3 4, strides 144 1008 1008 3024, box ");
}

/* Without a kernel before, it must not begin before whatever else is in the stream. */
static void no_units(void) {
  const trial empty = {"cuda", "n2 ci24 co16 in5x6 k4 s2 dtype=f16", {2, 24, 0, 6}, first, 0, 0};
  CHECK_SAYS(said_of_panel(&empty), "0 ; K; dims 2 1 1 1 1, strides 16 16 16 16, box ");
}

/* ---- without the copy engine ---- */

static void kernels_copy_themselves(void) {
  const trial made = {"cuda:1", "n2 ci24 co16 in5x6 k4 s2 p1 dtype=f16", {2, 24, 5, 6}, first, 0,
                      0};
  CHECK_STR(said_of(&made), "0 ; KK; ");
  const trial own = {
      "cuda:1", "n2 ci48 co16 in5x6 k4 s2 p1 dtype=f16 xlayout=ndhwc", {2, 48, 5, 6}, last, 0, 0};
  CHECK_STR(said_of(&own), "0 ; K; ");
  const trial empty = {"cuda:1", "n2 ci24 co16 in5x6 k4 s2 dtype=f16", {2, 24, 0, 6}, first, 0, 0};
  CHECK_STR(said_of(&empty), "0 ; K; ");
  const trial far = {"cuda:1",
                     "n64 ci64 co64 in2x3 k3 s2 p1 op1 dtype=f16 xlayout=ndhwc",
                     {64, 64, 2, 3},
                     last,
                     0,
                     (int64_t)192 << 27};
  CHECK_SAYS(said_of(&far), "x: its strides are more than one tile spans; ; ");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"rows_are_made", rows_are_made},
      {"x_is_rows", x_is_rows},
      {"x_is_no_rows", x_is_no_rows},
      {"x_is_empty", x_is_empty},
      {"boxes_are_halo_tiles", boxes_are_halo_tiles},
      {"units_are_made", units_are_made},
      {"no_units", no_units},
      {"kernels_copy_themselves", kernels_copy_themselves},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
