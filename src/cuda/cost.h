/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_COST_H
#define UPCONV_CUDA_COST_H

#include "engine.h"

/* Seconds that the shaped kernels of a candidate would take at the nominal sizes; docs/DECISIONS.md says how good that is. */
double uc_cuda_cost(const uc_cuda_engine *engine);

#endif
