/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_REGISTERS_H
#define UPCONV_CUDA_REGISTERS_H

#include "engine.h"

/*
 * Registers of a thread. A shape rations them for as many blocks as a multiprocessor should hold (min_blocks), and so do the
 * costs that were fitted. What a kernel lacks shows once it is compiled: values lie in memory, and it is compiled again.
 */

/* Before a kernel is compiled: fewer blocks, or less that is loaded together, where kernels of this kind have always lacked
   registers. Spares the compilation that would show it. */
void uc_cuda_expect_registers(const uc_cuda_engine *engine, uc_cuda_kernel *kernel);
/* After it was: fewer threads on a multiprocessor or, where there is but one block, less that is loaded together. lacking: how
   many registers, more than 0. false: nothing is left to give. */
bool uc_cuda_give_registers(uc_cuda_kernel *kernel, int64_t lacking);
/* cuda-phase: half the loads ahead; threads that copy give the registers for them to those that multiply, of which there are as
   many. */
void uc_cuda_load_less(uc_cuda_kernel *kernel);

#endif
