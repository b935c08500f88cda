/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiled kernel says about itself, read from the ELF file that NVRTC makes. */
#ifndef UPCONV_CUDA_CUBIN_H
#define UPCONV_CUDA_CUBIN_H

#include <stddef.h>
#include <stdint.h>

typedef struct uc_cubin_function {
  char name[64];
  uint32_t
      frame; /* bytes of local memory of a thread: spilled registers, arrays indexed at run time */
} uc_cubin_function;

/* Stores the functions that are in data, which begins with a cubin, and returns how many there are; -1: it is none, or
 * there are more than capacity. */
int uc_cubin_functions(const void *data, size_t size, uc_cubin_function *function, int capacity);

#endif
