/* SPDX-License-Identifier: Apache-2.0 */
// labels: parallel
/* The driver layer on stand-ins for the driver: how it fails, what it reads off devices, whose
   context is current. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "sandbox.h"
#include "status.h"

#define FAKE UPCONV_FAKES "/fake_driver.so"
#define STUB "/usr/local/cuda/lib64/stubs/libcuda.so"

/* Twice the same: the status and what the message says. */
static void ask(void) {
  const uc_cuda_driver *driver = NULL;
  upconv_status status = uc_cuda_driver_get(&driver);
  char message[1024];
  snprintf(message, sizeof message, "%s", status == UPCONV_OK ? "" : upconv_last_error());
  uc_fail(UPCONV_OVERFLOW, "another message in between");
  if (uc_cuda_driver_get(&driver) != status) sandbox_say("other status ");
  if (status != UPCONV_OK && strcmp(upconv_last_error(), message) != 0) sandbox_say("other text ");
  if (status != UPCONV_OK && driver) sandbox_say("touched ");
  sandbox_say("%d %s", status, message);
}

static void ask_with(const char *library, const char *fault) {
  setenv("UPCONV_LIBCUDA", library, 1);
  if (fault) setenv("FAKE_DRIVER", fault, 1);
  ask();
}

static void ask_missing(void) { ask_with("/no/libcuda.so.1", NULL); }
static void ask_other(void) { ask_with(UPCONV_FAKES "/fake_nvrtc.so", NULL); }
static void ask_stub(void) { ask_with(FAKE, "stub"); }
static void ask_real_stub(void) { ask_with(STUB, NULL); }
static void ask_old(void) { ask_with(FAKE, "old"); }
static void ask_lacking(void) { ask_with(UPCONV_FAKES "/fake_driver_lacking.so", NULL); }
static void ask_init(void) { ask_with(FAKE, "init"); }
static void ask_zero(void) { ask_with(FAKE, "zero"); }
static void ask_none(void) {
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  ask_with(FAKE, "nodevice");
}
static void ask_good(void) { ask_with(FAKE, NULL); }

static void expect(void (*run)(void), const char *const *part) {
  const char *said = sandbox_run(run);
  CHECK_INT(said[0], '0' + UPCONV_DEVICE_ERROR);
  for (; *part; part++) CHECK_SAYS(said, *part);
}

#define EXPECT(run, ...) expect(run, (const char *const[]){__VA_ARGS__, NULL})

static void failures(void) {
  EXPECT(ask_missing, "UPCONV_LIBCUDA = \"/no/libcuda.so.1\" is not the NVIDIA driver library");
  EXPECT(ask_other, "is not a CUDA driver");
  EXPECT(ask_stub, "is the toolkit's stub for linking, not a driver");
  EXPECT(ask_old, "too old", FAKE, "CUDA 11.4", "12.0 is needed");
  EXPECT(ask_lacking, "fake_driver_lacking.so lacks cuInit");
  EXPECT(ask_init, "does not start: cuInit: CUDA_ERROR_UNKNOWN (999: unknown error)");
  EXPECT(ask_zero, "no CUDA device", FAKE, "(CUDA 12.8) sees none");
  EXPECT(ask_none, "no CUDA device", "sees none (CUDA_VISIBLE_DEVICES = \"7\")");
}

static void works(void) { CHECK_STR(sandbox_run(ask_good), "0 "); }

static void stub_of_toolkit(void) {
  if (access(STUB, R_OK) != 0) CHECK_SKIP("no CUDA toolkit");
  EXPECT(ask_real_stub, "is the toolkit's stub for linking, not a driver");
}

/* ---- devices */

static const uc_cuda_driver *get_fake(void) {
  const uc_cuda_driver *driver = NULL;
  setenv("UPCONV_LIBCUDA", FAKE, 1);
  if (uc_cuda_driver_get(&driver) != UPCONV_OK) sandbox_say("%s", upconv_last_error());
  return driver;
}

static void query(void) {
  const uc_cuda_driver *driver = get_fake();
  uc_cuda_device d;
  if (!driver || uc_cuda_device_query(1, &d) != UPCONV_OK) return;
  sandbox_say("%d devices of %d, %s; ", driver->device_count, driver->version,
              strrchr(driver->path, '/'));
  sandbox_say("%d %d %s %d.%d %lld %d %d %d; ", d.ordinal, d.handle, d.name, d.major, d.minor,
              (long long)d.memory_bytes, d.l2_bytes, d.constant_bytes, d.sm_count);
  sandbox_say("%d %d %d %d; ", d.shared_per_block, d.shared_per_block_optin, d.shared_per_sm,
              d.shared_reserved);
  sandbox_say("%d %d %d %d %d; ", d.registers_per_block, d.registers_per_sm, d.threads_per_block,
              d.threads_per_sm, d.blocks_per_sm);
  sandbox_say("%d %d %d %d", d.clock_khz, d.memory_clock_khz, d.memory_bus_bits,
              d.context == NULL && d.driver == driver);
}

static void device_properties(void) {
  CHECK_STR(sandbox_run(query), "2 devices of 12080, /fake_driver.so; "
                                "1 101 Fake 1 9.3 34359738368 52428800 65536 132; "
                                "49152 232448 233472 1024; "
                                "65536 65536 1024 2048 32; "
                                "0 0 5120 1");
}

static void open_wrong(void) {
  uc_cuda_device d = {.ordinal = 77};
  get_fake();
  static const int ordinals[] = {-1, 2};
  for (int i = 0; i < 2; i++) {
    sandbox_say("%d ", uc_cuda_device_open(ordinals[i], &d));
    sandbox_say("%s; ", upconv_last_error());
  }
  static const char *const faults[] = {"retain", "attribute"};
  for (int i = 0; i < 2; i++) {
    setenv("FAKE_DRIVER", faults[i], 1);
    sandbox_say("%d ", uc_cuda_device_open(0, &d));
    sandbox_say("%s; ", upconv_last_error());
  }
  sandbox_say("%d", d.ordinal);
}

static void wrong_devices(void) {
  char expected[1024];
  snprintf(expected, sizeof expected,
           "%d device cuda:-1: there are 2, counted from 0; "
           "%d device cuda:2: there are 2, counted from 0; "
           "%d device cuda:0: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2: out of "
           "memory); "
           "%d device cuda:0: attribute 75: cuDeviceGetAttribute: unknown error (1: no "
           "description); 77",
           UPCONV_INVALID_ARGUMENT, UPCONV_INVALID_ARGUMENT, UPCONV_OUT_OF_MEMORY,
           UPCONV_DEVICE_ERROR);
  CHECK_STR(sandbox_run(open_wrong), expected);
}

/* An int function of the fake that takes a number, or nothing and ignores it. */
static int fake(const char *name, int number) {
  void *handle = dlopen(FAKE, RTLD_NOW | RTLD_NOLOAD), *symbol = dlsym(handle, name);
  int (*function)(int) = NULL;
  memcpy(&function, &symbol, sizeof function);
  int value = function(number);
  dlclose(handle);
  return value;
}

static void say_retained(void) {
  sandbox_say("%d%d ", fake("fake_retained", 0), fake("fake_retained", 1));
}

static void open_and_close(void) {
  get_fake();
  uc_cuda_device a, b, c;
  say_retained();
  if (uc_cuda_device_open(1, &a) != UPCONV_OK || uc_cuda_device_open(1, &b) != UPCONV_OK ||
      uc_cuda_device_open(0, &c) != UPCONV_OK)
    return;
  say_retained();
  sandbox_say("%d%d ", a.context == b.context, a.context == c.context);
  uc_cuda_device_close(&a);
  uc_cuda_device_close(&a);
  say_retained();
  uc_cuda_device_close(&b);
  uc_cuda_device_close(&c);
  say_retained();
  uc_cuda_device zero;
  memset(&zero, 0, sizeof zero);
  uc_cuda_device_close(&zero);
  sandbox_say("%d", a.context == NULL);
}

static void contexts_are_counted(void) {
  CHECK_STR(sandbox_run(open_and_close), "00 12 10 11 00 1");
}

/* Which of the contexts is current: 0 for none. */
static int current(const uc_cuda_driver *driver, const uc_cuda_device *a, const uc_cuda_device *b) {
  uc_cuda_context context = NULL;
  driver->cuCtxGetCurrent(&context);
  return !context ? 0 : context == a->context ? 1 : context == b->context ? 2 : 3;
}

static void enter_and_leave(void) {
  const uc_cuda_driver *driver = get_fake();
  uc_cuda_device a, b, closed;
  if (uc_cuda_device_open(0, &a) != UPCONV_OK || uc_cuda_device_open(1, &b) != UPCONV_OK) return;
  int callers; /* something that is not ours */
  driver->cuCtxPushCurrent((uc_cuda_context)(void *)&callers);
  sandbox_say("%d", current(driver, &a, &b));
  sandbox_say("/%d", uc_cuda_enter(&a));
  sandbox_say("%d", current(driver, &a, &b));
  sandbox_say("/%d", uc_cuda_enter(&b));
  sandbox_say("%d", current(driver, &a, &b));
  sandbox_say("/%d", uc_cuda_enter(&b));
  uc_cuda_leave(&b);
  uc_cuda_leave(&b);
  sandbox_say("%d", current(driver, &a, &b));
  uc_cuda_leave(&a);
  sandbox_say("%d ", current(driver, &a, &b));
  closed = a;
  uc_cuda_device_close(&closed);
  sandbox_say("%d %s %d", uc_cuda_enter(&closed), upconv_last_error(), fake("fake_depth", 0));
  uc_cuda_device_close(&b);
}

static void callers_context_stays(void) {
  char expected[256];
  snprintf(expected, sizeof expected,
           "3/01/02/013 %d cuCtxPushCurrent: unknown error (201: no description) 1",
           UPCONV_DEVICE_ERROR);
  CHECK_STR(sandbox_run(enter_and_leave), expected);
}

/* ---- errors */

static void check_results(void) {
  const uc_cuda_driver *driver = get_fake();
  static const int results[] = {0, 2, 222, 4242};
  for (size_t i = 0; i < CHECK_COUNT(results); i++) {
    upconv_status status = uc_cuda_check(driver, results[i], "doing it");
    sandbox_say("%d%s%s\n", status, status ? " " : "", status ? upconv_last_error() : "");
  }
}

static void results_become_statuses(void) {
  char expected[1024];
  snprintf(expected, sizeof expected,
           "0\n%d doing it: CUDA_ERROR_OUT_OF_MEMORY (2: out of memory)\n"
           "%d doing it: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222: the provided PTX was compiled "
           "with an unsupported toolchain.); the driver is older than the compiler: update it, or "
           "name an older libnvrtc in UPCONV_NVRTC\n"
           "%d doing it: unknown error (4242: no description)\n",
           UPCONV_OUT_OF_MEMORY, UPCONV_DEVICE_ERROR, UPCONV_DEVICE_ERROR);
  CHECK_STR(sandbox_run(check_results), expected);
}

/* ---- threads */

enum { THREADS = 8 };

static void *get_driver(void *to) {
  const uc_cuda_driver **driver = to;
  return uc_cuda_driver_get(driver) == UPCONV_OK ? to : NULL;
}

static void get_from_threads(void) {
  setenv("UPCONV_LIBCUDA", FAKE, 1);
  pthread_t thread[THREADS];
  const uc_cuda_driver *driver[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, get_driver, &driver[i]) != 0) exit(94);
  int good = 0;
  for (int i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(thread[i], &result);
    good += result != NULL && driver[i] == driver[0];
  }
  sandbox_say("%d", good);
}

static void threads_get_the_same(void) { CHECK_STR(sandbox_run(get_from_threads), "8"); }

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"failures", failures},
      {"works", works},
      {"stub_of_toolkit", stub_of_toolkit},
      {"device_properties", device_properties},
      {"wrong_devices", wrong_devices},
      {"contexts_are_counted", contexts_are_counted},
      {"callers_context_stays", callers_context_stays},
      {"results_become_statuses", results_become_statuses},
      {"threads_get_the_same", threads_get_the_same},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
