/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_SHAPE_H
#define UPCONV_CUDA_SHAPE_H

#include "engine.h"

/*
 * Chooses tiles for a pass; shape: of every value at the nominal sizes. On UPCONV_OK either the kernel is shaped, or
 * *refusal says why the candidate cannot run this pass, or *keep >= 0 is a value that must be kept in memory so that
 * the pass fits: the caller then builds the program anew.
 */
upconv_status uc_cuda_shape(const uc_cuda_engine *engine, const uc_pass *pass,
                            const int64_t (*shape)[UC_RANK], uc_cuda_kernel *kernel,
                            const char **refusal, int *keep);
/* Fills in k->tap, x_base and x_size, for k->cells cells with residues, step and base. */
upconv_status uc_cuda_find_taps(const upconv_problem *problem, uc_cuda_kernel *kernel);
/* A fused pass of the depthwise candidate; extent: in cells of the residues so far, which it may widen. */
upconv_status uc_cuda_shape_depthwise(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                      int64_t extent[UC_AXES], const char **refusal);
void uc_cuda_shape_free(uc_cuda_kernel *kernel);

#endif
