/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_COST_H
#define UPCONV_CUDA_COST_H

#include "engine.h"

/* Seconds that a candidate would take at the nominal extents: a roofline of products, stored outputs and bytes. The rates,
   a clock and multiprocessor, are measured ones; see docs/DECISIONS.md. */
double uc_cuda_ffma_cost(const uc_cuda_target *target, const uc_lowered *lowered);
double uc_cuda_depthwise_cost(const uc_cuda_target *target, const uc_lowered *lowered);
/* word: what the tensor cores multiply. */
double uc_cuda_mma_cost(const uc_cuda_target *target, const uc_lowered *lowered, upconv_dtype word);
/* parts: words that a weight is the sum of. */
double uc_cuda_flat_cost(const uc_cuda_target *target, const uc_lowered *lowered, int64_t parts);

#endif
