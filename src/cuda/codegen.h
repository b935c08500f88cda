/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_CODEGEN_H
#define UPCONV_CUDA_CODEGEN_H

#include "engine.h"

/* The whole program of a shaped kernel, freed by the caller; an earlier *source (NULL: none) is freed. */
upconv_status uc_cuda_kernel_source(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                    char **source);
/* The program that packs: kernels pack_params and pack_weights. */
upconv_status uc_cuda_pack_source(const uc_cuda_engine *engine, char **source);

/* Runs write twice: once to count, once into a buffer of that size. */
upconv_status uc_cuda_text(void (*write)(uc_text *text, const uc_cuda_engine *engine,
                                         void *argument),
                           const uc_cuda_engine *engine, void *argument, char **source);

/* Text of kernels/NAME.cu; NULL when there is none. */
const char *uc_cuda_embedded(const char *name);

#endif
