/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring on a GPU: events, and a way to empty its cache. */
#ifndef UPCONV_CUDA_CLOCK_H
#define UPCONV_CUDA_CLOCK_H

#include "driver.h"
#include "upconv/upconv.h"

typedef struct uc_cuda_clock uc_cuda_clock;

/* Compiles a small kernel, through the cache, and takes UC_CUDA_CLOCK_BYTES of memory. */
upconv_status uc_cuda_clock_open(const upconv_context *context, uc_cuda_clock **clock);
void uc_cuda_clock_close(uc_cuda_clock *clock); /* NULL is fine */

/* Seconds from when the stream reaches what run(data) puts on it until that is done. cold: the buffer is read before, during
   which run's kernels are launched. */
upconv_status uc_cuda_clock_time(uc_cuda_clock *clock, void *stream, bool cold,
                                 upconv_status (*run)(void *data), void *data, double *seconds);

/* What is read: larger than any second-level cache. Whoever has the clock may write there. */
enum { UC_CUDA_CLOCK_BYTES = 256 << 20 };
void *uc_cuda_clock_buffer(const uc_cuda_clock *clock);

#endif
