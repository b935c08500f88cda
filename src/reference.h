/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The float64 oracle: the definition (scatter form), operator by operator over whole tensors, carrying an error bound.
 * It shares no index arithmetic with problem.c or the backends: it re-derives everything from the definition.
 */
#ifndef UPCONV_REFERENCE_H
#define UPCONV_REFERENCE_H

#include "lowered.h"
#include "upconv/upconv.h"

/* Dense float64 inputs, canonical rank 5 (problem.h). */
typedef struct uc_reference_inputs {
  int64_t batch;
  int64_t in_size[UC_AXES];
  const double *x;      /* [N, C_in, D, H, W] */
  const double *weight; /* [C_in, C_out / groups, K0, K1, K2] */
  const double *bias;   /* [C_out] or NULL */
  double *const *param; /* per declaration: one number or one per channel */
  const upconv_tensor
      *tensor; /* per declaration: canonical rank 5 views, extent 1 where broadcast, offset 0 */
  /* How far x and tensors may be off already, as results of an earlier step; NULL: they are exact. */
  const double *x_error;             /* dense, like x */
  const double *const *tensor_error; /* per declaration, or NULL: laid out as the tensor */
} uc_reference_inputs;

/* value and bound: elements of the result, channels first. The storage rounding of problem->y_dtype is in the bound. */
upconv_status uc_reference_run(const upconv_problem *problem, const upconv_epilogue *epilogue,
                               const uc_reference_inputs *inputs, const upconv_error_model *model,
                               double *value, double *bound);

/* upconv_reference for x and tensors that have errors of their own; as in uc_reference_inputs, either may be NULL. */
upconv_status
uc_reference_with_errors(const upconv_problem *problem, const upconv_epilogue *epilogue,
                         const upconv_parameters *parameters, const upconv_arguments *arguments,
                         const double *x_error, const double *const *tensor_error,
                         const upconv_error_model *model, double *value, double *bound);

/* The oracle of the rewritten program: folds and derived parameters in float64, then uc_reference_run on conv + tail. */
upconv_status uc_reference_lowered(const uc_lowered *lowered, const upconv_parameters *parameters,
                                   const upconv_arguments *arguments,
                                   const upconv_error_model *model, double *value, double *bound);

#endif
