/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs for property tests of rewrites, built operator by operator, with random problems
 * and data. Everything is decided by the state of check_random, so a seed replays a case; the
 * one-line text form of the program says what it was.
 */
#ifndef UPCONV_TESTS_SMALL_PROGRAM_H
#define UPCONV_TESTS_SMALL_PROGRAM_H

#include "upconv/upconv.h"

/* Every field varied (1-D to 3-D, groups, depthwise, dilation, negative and uneven padding, K < s),
   small enough for the oracle to take about a millisecond; valid, with at least one element of the
   convolution's output. */
upconv_problem_desc small_problem(uint64_t *random);

enum { SMALL_TEXT = 2048 };

/* A program under construction: a problem and the text of its epilogue. */
typedef struct small_program {
  upconv_problem *problem;
  char text[SMALL_TEXT];
  int names, ops;
} small_program;

bool small_program_init(small_program *program, const upconv_problem_desc *desc);
void small_program_free(small_program *program);

/* Appends operators in text form; each '$' becomes a name that was not used yet, as in
   "mul @$ | add @$[]". false: the program would not be valid, and is as it was. */
bool small_program_append(small_program *program, const char *ops);

/* Appends up to count operators out of all that exist; those that do not fit are left out. A chain
   reads nothing but the previous value, constants and parameters. */
void small_program_append_any(small_program *program, uint64_t *random, int count);
void small_program_append_chain(small_program *program, uint64_t *random, int count);

/* One of the texts. */
#define PICK_ONE(random, array) \
  (array)[check_random_range((random), 0, (int64_t)(sizeof(array) / sizeof *(array)) - 1)]

upconv_epilogue *small_program_epilogue(const small_program *program);

/* Parameters, input and extra tensors, dense f32 in buffers of check_alloc. Parameters have any
   sign and are sometimes 0, but for variances, which are positive, and divisors, which are not. */
typedef struct small_data {
  upconv_parameters parameters;
  upconv_arguments arguments; /* x, tensors, and y without data */
  upconv_tensor *param, *tensor;
  int64_t y_count; /* elements of the result */
} small_data;

/* in_size: sizes of this run (spatial_dims entries). false when the program has no result at that
   size. */
bool small_data_create(small_data *data, uint64_t *random, const upconv_problem *problem,
                       const upconv_epilogue *epilogue, int64_t batch, const int64_t *in_size);
void small_data_free(small_data *data);

#endif
