/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution and its epilogue in float32, as plainly as it can be written: gather form, libm,
 * one operator after the other. What the oracle's bounds must leave room for, and a second opinion
 * on its values.
 */
#ifndef UPCONV_TESTS_FLOAT_PROGRAM_H
#define UPCONV_TESTS_FLOAT_PROGRAM_H

#include "epilogue.h"

/* Dense, channels first. */
typedef struct float_inputs {
  int64_t x_shape[UC_RANK];
  const float *x, *weight, *bias; /* bias may be NULL */
  float *const *param;            /* per declaration: one number, or one per channel */
  float *const *tensor;           /* per declaration, extent 1 where broadcast */
} float_inputs;

/* The result, to be freed by the caller; NULL and nothing else when something does not fit. */
float *float_program(const upconv_problem *problem, const upconv_epilogue *epilogue,
                     const float_inputs *inputs);

#endif
