/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's one argument, a struct, written field by field. */
#ifndef UPCONV_CUDA_ARGUMENTS_H
#define UPCONV_CUDA_ARGUMENTS_H

#include "engine.h"

enum { UC_CUDA_ARGUMENT_BYTES = 4096 };

typedef struct uc_cuda_arguments {
  _Alignas(64) char bytes[UC_CUDA_ARGUMENT_BYTES]; /* a tensor map lies at a multiple of 64 */
  size_t length;
} uc_cuda_arguments;

/* Fields are aligned to their size, at most to 8 bytes: the first one may be larger. */
void uc_cuda_put(uc_cuda_arguments *arguments, const void *data, size_t size);
void uc_cuda_put_int(uc_cuda_arguments *arguments, int64_t value);
void uc_cuda_put_i64(uc_cuda_arguments *arguments, int64_t value);
/* Writes struct View of prelude.cu. */
void uc_cuda_put_view(uc_cuda_arguments *arguments, const upconv_tensor *tensor,
                      bool may_broadcast);

#endif
