/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_PACK_H
#define UPCONV_CUDA_PACK_H

#include "engine.h"

/* Fills in where things lie in the packed buffer. Needs group_in, group_out, kernel_size, mma and word. */
upconv_status uc_cuda_plan_packed(uc_cuda_engine *engine);
/* The same where residues are columns, once the kernel is shaped. */
upconv_status uc_cuda_widen_packed(uc_cuda_engine *engine, const uc_cuda_kernel *kernel);
/* The same where residues and channels are rows. */
upconv_status uc_cuda_phase_packed(uc_cuda_engine *engine, const uc_cuda_kernel *kernel);
/* The same where many channels are. */
upconv_status uc_cuda_panel_packed(uc_cuda_engine *engine, const uc_cuda_kernel *kernel);
/* Words of the depth that one tensor-core instruction takes, 4 or 8, when a group has so many. */
int64_t uc_cuda_step_words(int64_t words);

#endif
