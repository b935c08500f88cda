/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_WORK_H
#define UPCONV_CUDA_WORK_H

#include "engine.h"

/* What a kernel has to do, counted once it is shaped: cost.c makes seconds of it. Instructions are of all threads. */
typedef struct uc_cuda_work {
  /* of the pass */
  double tiles;     /* of all samples and blocks of channels: teams take them in turn */
  double teams;     /* that a multiprocessor holds at once */
  double far_bytes; /* of tensors and weights, each once */
  double
      rows_bytes; /* what the kernel before, which makes rows of x, reads and writes; 0: there is none */
  double clocks; /* of all jobs of a multiprocessor, where they are counted at once; else 0 */
  /* of a block before its first tile */
  double code, finishing_code; /* instructions of a thread that come one after the other */
  double first_bytes;          /* weights that stay */
  double first_waits;          /* for them, one after the other */
  /* of one tile */
  double warps;        /* of its team */
  double instructions; /* products, staging, operators */
  double serial;       /* of the operators': those that the next output waits for */
  double finishing;    /* bias, conversion and stores: of what candidates do differently well */
  double tensor;       /* clocks of the tensor cores */
  double shared;       /* clocks of shared memory, were there no conflicts */
  double near_bytes;   /* through the second-level cache */
  double waits;        /* for memory, one after the other */
  double stages,
      calls; /* cuda-gemm: of the depth; of the code that finishes a cell of one channel */
} uc_cuda_work;

/* Instructions of the operators of a pass for one output, those before a pool counted once. */
double uc_cuda_tail_instructions(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel);

/* Threads that a multiprocessor holds. */
int64_t uc_cuda_most_threads(const uc_cuda_target *target);

/* Whether what follows the convolution is so long that its code is to exist once: unrolled for every sum of a thread it takes the
   compiler tens of seconds, and the device to fetch it as well. */
bool uc_cuda_long_tail(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel);

/* Operands of a pass's operators that are tensors, or other values that lie in memory. */
int uc_cuda_tail_loads(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel);

/* shape: of every value at the nominal sizes. */
void uc_cuda_count_work(const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                        const int64_t (*shape)[UC_RANK], uc_cuda_work *work);

#endif
