/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_LAUNCH_H
#define UPCONV_CUDA_LAUNCH_H

#include "engine.h"

upconv_status uc_cuda_workspace(const uc_cuda_engine *engine, const int64_t x_shape[UC_RANK],
                                size_t *bytes);
upconv_status uc_cuda_execute(const uc_cuda_engine *engine, const uc_call *call);
upconv_status uc_cuda_pack(const uc_cuda_engine *engine, const upconv_parameters *parameters,
                           void *packed, void *stream);

#endif
