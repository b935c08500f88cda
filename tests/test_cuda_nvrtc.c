/* SPDX-License-Identifier: Apache-2.0 */
// labels: parallel
/* The compiler layer: on a stand-in for NVRTC, and on the real one where it is installed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvrtc.h"
#include "sandbox.h"

#define FAKE UPCONV_FAKES "/fake_nvrtc.so"

static void use_fake(const char *version) {
  setenv("UPCONV_NVRTC", FAKE, 1);
  if (version) setenv("FAKE_NVRTC_VERSION", version, 1);
}

/* ---------------------------------------------------------------- loading */

static void ask_version(void) {
  int major = -1, minor = -1;
  upconv_status status = uc_nvrtc_version(&major, &minor);
  sandbox_say("%d %d.%d %s", status, major, minor, status ? upconv_last_error() : uc_nvrtc_path());
}

static void ask_fake(void) {
  use_fake("12.4");
  ask_version();
}

static void ask_old(void) {
  use_fake("11.8");
  ask_version();
}

static void ask_missing(void) {
  setenv("UPCONV_NVRTC", "/no/libnvrtc.so", 1);
  ask_version();
  char arch[UC_CUDA_ARCH_SIZE] = "untouched";
  void *image = arch;
  size_t size = 7;
  char *log = arch;
  sandbox_say("; %d", uc_nvrtc_supports("sm_80"));
  sandbox_say(" %d", uc_nvrtc_choose_arch(8, 0, false, arch));
  sandbox_say(" %d", uc_nvrtc_compile("", "sm_80", NULL, 0, &image, &size, &log));
  sandbox_say(" %s %d", arch, image == arch && size == 7 && log == NULL && !uc_nvrtc_path());
}

static void loading(void) {
  CHECK_STR(sandbox_run(ask_fake), "0 12.4 " FAKE);
  const char *said = sandbox_run(ask_old);
  CHECK_SAYS(said, "5 -1.-1 UPCONV_NVRTC = ");
  CHECK_SAYS(said, ": is older than 12.0");
  said = sandbox_run(ask_missing);
  CHECK_SAYS(said, "5 -1.-1 UPCONV_NVRTC = \"/no/libnvrtc.so\" is not NVRTC");
  CHECK_SAYS(said, "; 0 5 5 untouched 1");
}

/* ---------------------------------------------------------------- architectures */

/* The stand-in knows 75, 80, 86, 90, 100, 103. */
static void choose(void) {
  use_fake(NULL);
  static const struct {
    int major, minor;
    bool specific;
  } devices[] = {{7, 5, false}, {8, 0, false}, {8, 9, false},  {9, 0, false},
                 {9, 0, true},  {10, 3, true}, {10, 1, false}, {12, 1, false},
                 {7, 0, false}, {8, 0, true},  {10, 1, true},  {12, 0, true}};
  for (size_t i = 0; i < CHECK_COUNT(devices); i++) {
    char arch[UC_CUDA_ARCH_SIZE] = "none";
    upconv_status status =
        uc_nvrtc_choose_arch(devices[i].major, devices[i].minor, devices[i].specific, arch);
    sandbox_say("%s%d %s", i ? ", " : "", status, arch);
  }
  sandbox_say("; %s", upconv_last_error());
}

static void choose_architecture(void) {
  CHECK_STR(sandbox_run(choose),
            "0 sm_75, 0 sm_80, 0 compute_86, 0 sm_90, 0 sm_90a, 0 sm_103a, 0 compute_100, "
            "0 compute_103, 2 none, 2 none, 2 none, 2 none; compute capability 12.0: NVRTC 13.0 "
            "does not know features of it alone");
}

static void ask_supported(void) {
  use_fake(NULL);
  static const char *const archs[] = {
      "sm_75", "sm_90",  "sm_90a",     "compute_80", "sm_103a", "compute_100a",
      "sm_89", "sm_120", "compute_89", "sm_80a",     "sm_90b",  "sm_90aa",
      "sm_",   "sm_-90", "90",         "",           "sm_90 "};
  for (size_t i = 0; i < CHECK_COUNT(archs); i++) sandbox_say("%d", uc_nvrtc_supports(archs[i]));
}

static void supported_architectures(void) {
  CHECK_STR(sandbox_run(ask_supported), "11111100000000000");
}

/* ---------------------------------------------------------------- compiling */

static void compile_with(const char *source, const char *arch, bool want_log) {
  static const char *const options[] = {"-DA=1", "-DB"};
  void *image = NULL;
  size_t size = 0;
  char *log = NULL;
  upconv_status status =
      uc_nvrtc_compile(source, arch, options, 2, &image, &size, want_log ? &log : NULL);
  sandbox_say("%d %zu '%s'", status, size, image ? (char *)image : "");
  sandbox_say(" '%s' %s\n", log ? log : "none", status ? upconv_last_error() : "");
  free(image);
  free(log);
}

static void compile_fake(void) {
  use_fake(NULL);
  compile_with("code", "sm_90a", true);
  compile_with("code", "compute_80", false);
  compile_with("#error", "sm_80", false);
  compile_with("#error", "sm_80", true);
}

static void options_and_errors(void) {
  CHECK_STR(sandbox_run(compile_fake),
            "0 43 '--gpu-architecture=sm_90a -DA=1 -DB : code' 'a warning\n' \n"
            "0 47 '--gpu-architecture=compute_80 -DA=1 -DB : code' 'none' \n"
            "5 0 '' 'none' kernel for sm_80: NVRTC 13.0: upconv.cu(7): error: this is it\n"
            "5 0 '' 'upconv.cu(1): warning #1: an errorless line\n\nupconv.cu(7): error: this is "
            "it\nupconv.cu(8): error: and another one\n' kernel for sm_80: NVRTC 13.0: "
            "upconv.cu(7): error: this is it\n");
}

/* ---------------------------------------------------------------- the real compiler */

static const char kernel[] = "extern \"C\" __global__ void scale(float *y, const float *x) {\n"
                             "  y[threadIdx.x] = x[threadIdx.x] * FACTOR;\n"
                             "}\n";

static bool have_nvrtc(void) {
  int major, minor;
  return uc_nvrtc_version(&major, &minor) == UPCONV_OK;
}

/* The size in bytes of a cubin is what its ELF header says; the machine is CUDA's. */
static bool is_cubin(const void *image, size_t size) {
  const unsigned char *byte = image;
  return size > 64 && memcmp(byte, "\177ELF", 4) == 0 && byte[18] == 190 && byte[19] == 0;
}

static void compiles_for_every_architecture(void) {
  if (!have_nvrtc()) CHECK_SKIP("no NVRTC");
  static const char *const archs[] = {"sm_75",  "sm_80",  "sm_86",  "sm_89",      "sm_90",
                                      "sm_90a", "sm_100", "sm_120", "compute_90", "compute_75"};
  static const char *const options[] = {"-DFACTOR=2.0f", "--std=c++17"};
  for (size_t i = 0; i < CHECK_COUNT(archs); i++) {
    void *image = NULL;
    size_t size = 0;
    char *log = NULL;
    if (!uc_nvrtc_supports(archs[i])) {
      printf("     %s: not known to this NVRTC\n", archs[i]);
      continue;
    }
    if (!CHECK_STATUS(uc_nvrtc_compile(kernel, archs[i], options, 2, &image, &size, &log),
                      UPCONV_OK))
      continue;
    CHECK_STR(log, "");
    if (archs[i][0] == 's') {
      CHECK_MSG(is_cubin(image, size), "%s", archs[i]);
    } else {
      char target[64];
      snprintf(target, sizeof target, ".target sm_%s", archs[i] + strlen("compute_"));
      CHECK_MSG(size == strlen(image) + 1 && strstr(image, target), "%s", (char *)image);
    }
    free(image);
    free(log);
  }
}

static void real_errors(void) {
  if (!have_nvrtc()) CHECK_SKIP("no NVRTC");
  void *image = NULL;
  size_t size = 0;
  char *log = NULL;
  CHECK_STATUS(uc_nvrtc_compile(kernel, "sm_80", NULL, 0, &image, &size, &log),
               UPCONV_DEVICE_ERROR);
  const char *message = upconv_last_error();
  CHECK_SAYS(message, "kernel for sm_80: NVRTC ");
  CHECK_SAYS(message, "upconv.cu(2): error: identifier \"FACTOR\" is undefined");
  CHECK(log && strstr(log, "FACTOR"));
  free(log);
  static const char *const options[] = {"--no-such-option"};
  CHECK_STATUS(uc_nvrtc_compile(kernel, "sm_80", options, 1, &image, &size, NULL),
               UPCONV_DEVICE_ERROR);
  CHECK_SAYS(upconv_last_error(), "no-such-option");
  CHECK_STATUS(uc_nvrtc_compile(kernel, "sm_31", NULL, 0, &image, &size, NULL),
               UPCONV_DEVICE_ERROR);
  CHECK(!uc_nvrtc_supports("sm_31"));
  CHECK(image == NULL && size == 0);
}

enum { THREADS = 4, ROUNDS = 3 };

/* Every thread compiles a kernel of its own and one that does not compile. */
static void *compile_in_thread(void *data) {
  const int *number = data;
  char define[64];
  snprintf(define, sizeof define, "-DFACTOR=%d.5f", *number);
  const char *options[] = {define};
  for (int i = 0; i < ROUNDS; i++) {
    void *image = NULL;
    size_t size = 0;
    if (uc_nvrtc_compile(kernel, "compute_80", options, 1, &image, &size, NULL) != UPCONV_OK)
      return NULL;
    float factor = (float)*number + 0.5F;
    uint32_t bits;
    memcpy(&bits, &factor, sizeof bits);
    char literal[32];
    snprintf(literal, sizeof literal, "0f%08X", bits);
    bool good = strstr(image, literal) != NULL;
    free(image);
    if (!good || uc_nvrtc_compile("?", "sm_80", NULL, 0, &image, &size, NULL) == UPCONV_OK)
      return NULL;
    if (!strstr(upconv_last_error(), "upconv.cu(1): error")) return NULL;
  }
  return data;
}

static void threads_compile_at_once(void) {
  if (!have_nvrtc()) CHECK_SKIP("no NVRTC");
  pthread_t thread[THREADS];
  int number[THREADS];
  for (int i = 0; i < THREADS; i++) {
    number[i] = i + 2;
    if (!CHECK(pthread_create(&thread[i], NULL, compile_in_thread, &number[i]) == 0)) return;
  }
  for (int i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(thread[i], &result);
    CHECK_MSG(result != NULL, "thread %d", i);
  }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"loading", loading},
      {"choose_architecture", choose_architecture},
      {"supported_architectures", supported_architectures},
      {"options_and_errors", options_and_errors},
      /* Those that load the real one come last: a process loads one compiler. */
      {"compiles_for_every_architecture", compiles_for_every_architecture},
      {"real_errors", real_errors},
      {"threads_compile_at_once", threads_compile_at_once},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
