/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_PACK_H
#define UPCONV_CUDA_PACK_H

#include "engine.h"

/* Fills in where things lie in the packed buffer. Needs group_in, group_out, kernel_size, mma and word. */
upconv_status uc_cuda_plan_packed(uc_cuda_engine *engine);

#endif
