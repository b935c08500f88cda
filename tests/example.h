/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A problem from its text, with data that formulas give, so that another implementation can be
 * given the same:
 *
 *   x[i] = ((37 i + 11) mod 64 - 32) / 16           w[i] = ((29 i + 5) mod 33 - 16) / 16
 *   bias[c] = ((7 c + 3) mod 16 - 8) / 8            tensors: ((13 i + 7) mod 21 - 10) / 8
 *   parameter j: ((5 c + 3 j + 2) mod 9 - 3) / 4; where its name starts with v, |that| + 1/4
 */
#ifndef UPCONV_TESTS_EXAMPLE_H
#define UPCONV_TESTS_EXAMPLE_H

#include "epilogue.h"

enum { EXAMPLE_DECLARED = 8 };

typedef struct example {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  int64_t x_shape[UC_RANK], weight_shape[UC_RANK], y_shape[UC_RANK]; /* as users see them */
  int64_t count;                                                     /* of y */
  float *x, *weight, *bias, *param[EXAMPLE_DECLARED], *tensor[EXAMPLE_DECLARED];
  upconv_tensor param_view[EXAMPLE_DECLARED], tensor_view[EXAMPLE_DECLARED];
  upconv_parameters parameters;
  upconv_arguments arguments;
  double *value, *bound;
} example;

int64_t example_product(const int64_t *shape, int rank);

/* false after a failed check; destroy it all the same. The text is the check's context until then.
 */
bool example_make(const char *text, example *e);
/* Checks that nobody wrote beyond value and bound. */
void example_destroy(example *e);

#endif
