/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_CONTEXT_H
#define UPCONV_CUDA_CONTEXT_H

#include "../plan.h"

/* Fills in the CUDA part of a context: a device, or an architecture ("sm_90a") to generate code for. */
upconv_status uc_cuda_context_open(int ordinal, upconv_context *context);
upconv_status uc_cuda_context_plan_for(const char *arch, upconv_context *context);
void uc_cuda_context_close(upconv_context *context);

#endif
