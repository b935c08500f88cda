/* SPDX-License-Identifier: Apache-2.0 */
/* What measuring needs of a GPU: events, a way to empty its cache, and how fast it can be at best. */
#ifndef UPCONV_CLI_GPU_H
#define UPCONV_CLI_GPU_H

#include <stdbool.h>

#include "timing.h"
#include "upconv/upconv.h"

typedef struct gpu_meter gpu_meter;

/* *gpu is NULL for the CPU's context. Compiles a few small kernels. */
upconv_status gpu_open(const upconv_context *context, gpu_meter **gpu);
void gpu_close(gpu_meter *gpu); /* NULL is fine */

/* Seconds from when the stream reaches what run(data) puts on it until that is done. evict: a buffer larger than the
   second-level cache is read before, so that nothing is left there, nor to be written back from there. false: run gave up, or
   the driver failed; upconv_last_error says why. */
bool gpu_time(gpu_meter *gpu, void *stream, bool evict, bool (*run)(void *data), void *data,
              double *seconds);

/* Copies within its memory, and multiply-adds in registers. */
upconv_status gpu_probe(gpu_meter *gpu, probe_result *result);

#endif
