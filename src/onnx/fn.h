/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar functions of uc_fn, on rows of numbers. */
#ifndef UPCONV_ONNX_FN_H
#define UPCONV_ONNX_FN_H

#include "program.h"

int uc_fn_operands(uc_fn fn);
/* y[i] = fn(x[0][i], x[1][i], ...); y may be one of x. */
void uc_fn_row(uc_fn fn, const double *attr, const double *const *x, double *y, int64_t n);
/* The same in int64, for the functions that integers have; false for others. */
bool uc_fn_row_int(uc_fn fn, const int64_t *const *x, int64_t *y, int64_t n);

#endif
