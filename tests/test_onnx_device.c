/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a device with memory of its own: what is copied, kept, waited for and given back. The
   device is tests/cuda/fake_driver.c, whose kernels do nothing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_case.h"
#include "sandbox.h"

#define FAKE UPCONV_FAKES "/fake_driver.so"

/* ---- the fake ---- */

static void use_fakes(void) {
  setenv("UPCONV_LIBCUDA", FAKE, 1);
  setenv("UPCONV_NVRTC", UPCONV_FAKES "/fake_nvrtc.so", 1);
}

static void *fake(const char *name) {
  void *handle = dlopen(FAKE, RTLD_NOW | RTLD_NOLOAD), *symbol = dlsym(handle, name);
  dlclose(handle);
  return symbol;
}

/* What the device did since the last call, without repetitions: "AHKD". */
static const char *done(void) {
  static char text[4096];
  const char *(*get_log)(void) = NULL;
  void *symbol = fake("fake_log");
  memcpy(&get_log, &symbol, sizeof get_log);
  size_t length = 0;
  for (const char *at = get_log(); *at && length + 1 < sizeof text; at++)
    if (length == 0 || text[length - 1] != *at) text[length++] = *at;
  text[length] = 0;
  return text;
}

static int held(void) {
  int (*get_held)(void) = NULL;
  void *symbol = fake("fake_held");
  memcpy(&get_held, &symbol, sizeof get_held);
  return get_held();
}

static int holds(const void *data, size_t bytes) {
  int (*find)(const void *, size_t) = NULL;
  void *symbol = fake("fake_holds");
  memcpy(&find, &symbol, sizeof find);
  return find(data, bytes);
}

/* ---- a session ---- */

enum { CHANNELS = 4, SIZE = 6, MOST = 16 * CHANNELS * 2 * SIZE * 2 * SIZE };

typedef struct trial {
  upconv_context *context;
  uc_onnx_model *model;
  uc_onnx_session *session;
  float x[MOST], y[MOST];
  uc_onnx_tensor input, output;
} trial;

static const float shift[2 * CHANNELS * SIZE] = {1, 2, 3, 5, 8, 13, 21};

/* Three segments and three plain operators; one input of the Concat is made in its place, the other
   is the graph's. */
static void build(onnx_build *b) {
  *b = onnx_begin(13);
  onnx_input(b, "x", ONNX_FLOAT, "N,4,6,6");
  onnx_random(b, "w", "4,4,2,2", 1);
  onnx_random(b, "v", "4,8,1,1", 2);
  onnx_random(b, "u", "4,4,1,1", 3);
  onnx_floats(b, "shift", "1,8,6,1", shift);
  onnx_node(b, "Conv", "x,u", "a");
  onnx_node(b, "Concat", "a,x", "c");
  onnx_int(b, "axis", 1);
  onnx_node(b, "Sin", "c", "d");
  onnx_node(b, "Add", "d,shift", "e");
  onnx_node(b, "Conv", "e,v", "f");
  onnx_node(b, "ConvTranspose", "f,w", "y");
  onnx_ints(b, "strides", "2,2");
  onnx_output(b, "y");
  onnx_end(b);
}

static void set_batch(trial *t, int64_t batch) {
  uint64_t seed = (uint64_t)batch;
  t->input = (uc_onnx_tensor){.dtype = UC_ONNX_FLOAT, .rank = 4, .data = t->x};
  t->output = (uc_onnx_tensor){.dtype = UC_ONNX_FLOAT, .rank = 4, .data = t->y};
  const int64_t x_shape[] = {batch, CHANNELS, SIZE, SIZE};
  const int64_t y_shape[] = {batch, CHANNELS, 2 * (int64_t)SIZE, 2 * (int64_t)SIZE};
  memcpy(t->input.shape, x_shape, sizeof x_shape);
  memcpy(t->output.shape, y_shape, sizeof y_shape);
  for (int i = 0; i < MOST; i++) {
    t->x[i] = (float)check_random_unit(&seed);
    t->y[i] = 7;
  }
}

static bool open_on(trial *t, const char *device, const onnx_build *b) {
  const upconv_context_options options = {.device = device};
  *t = (trial){.context = NULL};
  use_fakes();
  bool good = upconv_context_create(&options, &t->context) == UPCONV_OK &&
              uc_onnx_model_parse(b->data, b->size, NULL, &t->model) == UPCONV_OK &&
              uc_onnx_session_create(t->model, t->context, NULL, &t->session) == UPCONV_OK;
  if (!good) sandbox_say("%s ", upconv_last_error());
  return good;
}

static void close_trial(trial *t) {
  uc_onnx_session_destroy(t->session);
  uc_onnx_model_destroy(t->model);
  upconv_context_destroy(t->context);
}

static upconv_status run(trial *t) { return uc_onnx_run(t->session, &t->input, 1, &t->output, 1); }

/* A trial of the model above on the fake, with its result said. */
static trial *begin(void) {
  static trial t;
  onnx_build b;
  build(&b);
  if (!open_on(&t, "cuda", &b)) exit(90);
  onnx_free(&b);
  set_batch(&t, 2);
  return &t;
}

static void say_run(trial *t) {
  upconv_status status = run(t);
  sandbox_say("%s %s; ", status ? upconv_last_error() : "ok", done());
}

static void finish(trial *t) {
  close_trial(t);
  sandbox_say("%d held", held());
}

/* ---- what is copied, and when ---- */

/* Later runs upload, launch, download and wait, once each. */
static void run_thrice(void) {
  trial *t = begin();
  (void)run(t);
  (void)done();
  say_run(t);
  set_batch(t, 2);
  say_run(t);
  finish(t);
}
static void only_computes(void) { CHECK_STR(sandbox_run(run_thrice), "ok HKDS; ok HKDS; 0 held"); }

/* Poison shows that outputs come from the device. Constants are there once, for all sizes. */
static void look_at_memory(void) {
  trial *t = begin();
  const uint32_t poison = 0xA5A5A5A5;
  (void)run(t);
  set_batch(t, 3);
  (void)run(t);
  sandbox_say("input %d, ", holds(t->x, sizeof(float) * 3 * CHANNELS * SIZE * SIZE));
  sandbox_say("constant %d, ", holds(shift, sizeof shift));
  sandbox_say("output %d %d, ", memcmp(t->y, &poison, sizeof poison) == 0, t->y[MOST - 1] == 7.0F);
  finish(t);
}
static void data_are_there(void) {
  CHECK_STR(sandbox_run(look_at_memory), "input 1, constant 1, output 1 1, 0 held");
}

/* Sizes that come back cost no memory, and nothing is prepared again. */
static void change_sizes(void) {
  trial *t = begin();
  static const int64_t batches[] = {2, 1, 5, 2, 1, 5};
  for (int i = 0; i < 6; i++) {
    set_batch(t, batches[i]);
    upconv_status status = run(t);
    const char *what = done();
    if (i > 2) sandbox_say("%d %s; ", status, what);
  }
  finish(t);
}
static void sizes_are_kept(void) {
  CHECK_STR(sandbox_run(change_sizes), "0 HKDS; 0 HKDS; 0 HKDS; 0 held");
}

static void repeat(void) {
  trial *t = begin();
  sandbox_say("%s; ", uc_onnx_repeat(t->session) ? upconv_last_error() : "ok");
  (void)run(t);
  (void)done();
  sandbox_say("%d ", uc_onnx_repeat(t->session));
  sandbox_say("%s, ", done());
  size_t bytes;
  set_batch(t, 3);
  (void)uc_onnx_memory(t->session, &t->input, 1, &bytes);
  sandbox_say("%d, ", uc_onnx_repeat(t->session));
  finish(t);
}
static void repeats_without_copies(void) {
  char expected[256];
  snprintf(expected, sizeof expected,
           "there is nothing to repeat: the inputs of these shapes are not on a GPU; 0 K, %d, "
           "0 held",
           UPCONV_INVALID_ARGUMENT);
  CHECK_STR(sandbox_run(repeat), expected);
}

/* ---- what goes wrong ---- */

static void out_of_memory(void) {
  trial *t = begin();
  (void)run(t);
  (void)done();
  setenv("FAKE_MEMORY", "30000", 1);
  set_batch(t, 16);
  say_run(t);
  set_batch(t, 1);
  say_run(t);
  unsetenv("FAKE_MEMORY");
  set_batch(t, 16);
  sandbox_say("%d ", run(t));
  (void)done();
  say_run(t);
  finish(t);
}
static void memory_that_is_not_there(void) {
  const char *said = sandbox_run(out_of_memory);
  CHECK_SAYS(said, "bytes of intermediate results, inputs and outputs: ");
  CHECK_SAYS(said, "CUDA_ERROR_OUT_OF_MEMORY (2: out of memory) F; ok AHKDS; 0 ok HKDS; 0 held");
}

static void fail_launch(void) {
  setenv("FAKE_DRIVER", "launch", 1);
  trial *t = begin();
  sandbox_say("%d ", run(t));
  sandbox_say("%s; ", upconv_last_error());
  const char *what = done();
  sandbox_say("%s; ", strlen(what) ? what + strlen(what) - 1 : "?");
  sandbox_say("%d ", run(t));
  finish(t);
}
static void launch_that_fails(void) {
  const char *said = sandbox_run(fail_launch);
  CHECK_INT(said[0], '0' + UPCONV_DEVICE_ERROR);
  CHECK_SAYS(said, " node 'Conv_0' (Conv): ");
  CHECK_SAYS(said, "CUDA_ERROR_UNKNOWN (999: unknown error); S; 0 0 held");
}

/* A stream of the thread is being captured: modules are loaded all the same. */
static void load_while_capturing(void) {
  setenv("FAKE_DRIVER", "capturing", 1);
  trial *t = begin();
  sandbox_say("%d ", run(t));
  finish(t);
}
static void modules_under_capture(void) {
  CHECK_SAYS(sandbox_run(load_while_capturing), "0 0 held");
}

static void only_plan(void) {
  onnx_build b;
  trial t;
  int segments = 0, plain = 0;
  build(&b);
  if (!open_on(&t, "cuda:sm_90", &b)) return;
  onnx_free(&b);
  set_batch(&t, 2);
  sandbox_say("%d ", uc_onnx_step_counts(t.session, &t.input, 1, &segments, &plain));
  sandbox_say("%d %d; ", segments, plain);
  sandbox_say("%d ", run(&t));
  sandbox_say("%s", upconv_last_error());
  close_trial(&t);
}
static void plans_without_a_device(void) {
  const char *said = sandbox_run(only_plan);
  char expected[64];
  snprintf(expected, sizeof expected, "0 3 3; %d ", UPCONV_DEVICE_ERROR);
  CHECK_SAYS(said, expected);
  CHECK_SAYS(said, "there is no device to keep data on");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"only_computes", only_computes},
      {"data_are_there", data_are_there},
      {"sizes_are_kept", sizes_are_kept},
      {"repeats_without_copies", repeats_without_copies},
      {"memory_that_is_not_there", memory_that_is_not_there},
      {"launch_that_fails", launch_that_fails},
      {"modules_under_capture", modules_under_capture},
      {"plans_without_a_device", plans_without_a_device},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
