/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is read as a problem with an epilogue, and as an epilogue alone. Nothing may crash; what is
 * read must print as a text that reads back and prints the same; shapes may be asked for.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upconv/upconv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int held, const char *what, const char *text) {
  if (held) return;
  fprintf(stderr, "fuzz_text: %s: %s\n%s\n", what, text, upconv_last_error());
  abort();
}

static char *allocate(size_t size) {
  char *memory = malloc(size);
  if (!memory) abort();
  return memory;
}

static char *print_problem(const upconv_problem *problem, const upconv_epilogue *epilogue) {
  size_t length = 0;
  upconv_problem_print(problem, epilogue, NULL, 0, &length);
  char *text = allocate(length + 1);
  upconv_problem_print(problem, epilogue, text, length + 1, NULL);
  require(strlen(text) == length, "the length is wrong", text);
  return text;
}

static char *print_epilogue(const upconv_epilogue *epilogue) {
  size_t length = 0;
  upconv_epilogue_print(epilogue, NULL, 0, &length);
  char *text = allocate(length + 1);
  upconv_epilogue_print(epilogue, text, length + 1, NULL);
  require(strlen(text) == length, "the length is wrong", text);
  return text;
}

/* Shapes either are refused with a message or are not negative. */
static void ask_for_shapes(const upconv_problem *problem, const upconv_epilogue *epilogue,
                           const char *text) {
  upconv_problem_desc desc;
  int64_t shape[UPCONV_MAX_RANK];
  require(!upconv_problem_get_desc(problem, &desc), "no desc", text);
  require(!upconv_problem_conv_shape(problem, shape), "no shape of a problem", text);
  if (upconv_output_shape(problem, epilogue, shape)) return;
  for (int i = 0; i < desc.spatial_dims + 2; i++) require(shape[i] >= 0, "a negative extent", text);
}

static void try_problem(const char *text) {
  upconv_problem *problem = NULL, *again = NULL;
  upconv_epilogue *epilogue = NULL, *epilogue_again = NULL;
  if (upconv_problem_parse(text, &problem, &epilogue)) {
    require(!problem && !epilogue && upconv_last_error()[0], "failed badly", text);
    return;
  }
  char *once = print_problem(problem, epilogue);
  require(!upconv_problem_parse(once, &again, &epilogue_again), "does not read back", once);
  char *twice = print_problem(again, epilogue_again);
  require(strcmp(once, twice) == 0, "prints differently", once);
  ask_for_shapes(problem, epilogue, once);
  free(once);
  free(twice);
  upconv_problem_destroy(problem);
  upconv_problem_destroy(again);
  upconv_epilogue_destroy(epilogue);
  upconv_epilogue_destroy(epilogue_again);
}

static void try_epilogue(int spatial_dims, const char *text) {
  upconv_epilogue *epilogue = NULL, *again = NULL;
  if (upconv_epilogue_parse(spatial_dims, text, &epilogue)) {
    require(!epilogue && upconv_last_error()[0], "failed badly", text);
    return;
  }
  char *once = print_epilogue(epilogue);
  require(!upconv_epilogue_parse(spatial_dims, once, &again), "does not read back", once);
  char *twice = print_epilogue(again);
  require(strcmp(once, twice) == 0, "prints differently", once);
  free(once);
  free(twice);
  upconv_epilogue_destroy(epilogue);
  upconv_epilogue_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = allocate(size + 1);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  try_problem(text);
  for (int spatial_dims = 1; spatial_dims <= UPCONV_MAX_SPATIAL; spatial_dims++)
    try_epilogue(spatial_dims, text);
  free(text);
  return 0;
}
