/* SPDX-License-Identifier: Apache-2.0
 *
 * What no test without a GPU shows: the founding models at full size, more than 2^31 elements, graphs, threads, several
 * contexts and devices, the cache, memory that runs out, every way in which tensors may lie.
 *
 *   check_gpu               all of it
 *   check_gpu -l            the names of the tests
 *   check_gpu NAME ...      these alone
 *   check_gpu --device      says which device there is; 77: none
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_gpu.h"

enum { MOST_TESTS = 100, SKIPPED = 77 };

static int gather(check_test *all) {
  const gpu_tests *const parts[] = {&gpu_model_tests, &gpu_large_tests,      &gpu_stream_tests,
                                    &gpu_cache_tests, &gpu_edge_tests,       &gpu_tune_tests,
                                    &gpu_plain_tests, &gpu_plain_move_tests, &gpu_plain_sum_tests};
  int count = 0;
  for (size_t p = 0; p < CHECK_COUNT(parts); p++)
    for (size_t i = 0; i < parts[p]->count && count < MOST_TESTS; i++)
      all[count++] = parts[p]->test[i];
  return count;
}

static int run(int argc, char **argv) {
  check_test all[MOST_TESTS];
  int count = gather(all);
  if (argc == 3 && strcmp(argv[1], "--child-plan") == 0) return gpu_child_plan(argv[2]);
  if (argc == 3 && strcmp(argv[1], "--child-check") == 0) return gpu_child_check(argv[2]);
  puts(upconv_context_describe(gpu_context));
  if (argc == 2 && strcmp(argv[1], "--device") == 0) return 0;
  return check_main(argc, argv, all, (size_t)count);
}

int main(int argc, char **argv) {
  const upconv_context_options options = {.device = "cuda:0"};
  setenv("UPCONV_TUNE_FILE", "",
         1); /* what was decided on this machine is none of the tests' business */
  if (gpu_open() != UPCONV_OK) {
    printf("SKIP check_gpu: %s\n0 passed, 0 failed, 1 skipped\n", upconv_last_error());
    return SKIPPED;
  }
  /* From here on nothing may be missing: a device without its compiler is a failure. */
  int code = 1;
  if (upconv_context_create(&options, &gpu_context) == UPCONV_OK)
    code = run(argc, argv);
  else
    printf("FAIL check_gpu: %s\n0 passed, 1 failed\n", upconv_last_error());
  upconv_context_destroy(gpu_context);
  gpu_close();
  return code;
}
