/* SPDX-License-Identifier: Apache-2.0 * * Small random problems, epilogues and data for property
   tests. Everything is decided by the state of check_random, so a * seed replays a case; the
   one-line text form of the program says what it was. */
#ifndef UPCONV_TESTS_RANDOM_PROGRAM_H
#define UPCONV_TESTS_RANDOM_PROGRAM_H

#include "upconv/upconv.h"

/* Every field varied (1-D to 3-D, groups, depthwise, dilation, negative and uneven padding, K < s),
   small enough for the * oracle to take about a millisecond; valid, with at least one element of
   the convolution's output. */
upconv_problem_desc random_problem(uint64_t *random);

enum { RANDOM_TEXT = 2048 };

/* A program under construction: a problem and the text of its epilogue. */
typedef struct random_program {
  upconv_problem *problem;
  char text[RANDOM_TEXT];
  int names, ops;
} random_program;

bool random_program_init(random_program *program, const upconv_problem_desc *desc);
void random_program_free(random_program *program);

/* Appends operators in text form; each '$' becomes a name that was not used yet, as in "mul @$ |
   add @$[]". false: the * program would not be valid, and is as it was. */
bool random_program_append(random_program *program, const char *ops);

/* Appends up to count operators out of all that exist; those that do not fit are left out. A chain
   reads nothing but the * previous value, constants and parameters. */
void random_program_append_any(random_program *program, uint64_t *random, int count);
void random_program_append_chain(random_program *program, uint64_t *random, int count);

/* One of the texts. */
#define RANDOM_PICK(random, array) \
  (array)[check_random_range((random), 0, (int64_t)(sizeof(array) / sizeof *(array)) - 1)]

upconv_epilogue *random_program_epilogue(const random_program *program);

/* Parameters, input and extra tensors, dense f32 in buffers of check_alloc. Parameters have any
   sign and are sometimes 0, * but for variances, which are positive, and divisors, which are not 0.
   */
typedef struct program_data {
  upconv_parameters parameters;
  upconv_arguments arguments; /* x, tensors, and y without data */
  upconv_tensor *param, *tensor;
  int64_t y_count; /* elements of the result */
} program_data;

/* in_size: sizes of this run (spatial_dims entries). false when the program has no result at that
   size. */
bool program_data_create(program_data *data, uint64_t *random, const upconv_problem *problem,
                         const upconv_epilogue *epilogue, int64_t batch, const int64_t *in_size);
void program_data_free(program_data *data);

#endif
