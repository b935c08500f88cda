/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_TESTS_GPU_CHECK_GPU_TENSOR_H
#define UPCONV_TESTS_GPU_CHECK_GPU_TENSOR_H

#include "check_gpu.h"

/* Poisoned on both sides. Free it whatever is returned. */
bool gpu_tensor_make(upconv_dtype dtype, int rank, const int64_t *shape, upconv_layout layout,
                     gpu_place place, gpu_tensor *t);
void gpu_tensor_free(gpu_tensor *t);

#endif
