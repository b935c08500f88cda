/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_CANDIDATES_H
#define UPCONV_CUDA_CANDIDATES_H

#include "../plan.h"

/* FP32 units; any problem and epilogue. */
extern const uc_candidate uc_candidate_cuda_ffma;
/* Tensor cores (mma.sync): TF32 when the math mode allows, f16 and bf16 operands; tails that finish in registers. */
extern const uc_candidate uc_candidate_cuda_mma;
/* The same for many channels: x as rows of channels, weights streamed past a tile of them. */
extern const uc_candidate uc_candidate_cuda_gemm;
/* Tensor cores of sm_90a: residues and output channels as rows, cells as columns; weights stay in shared memory. */
extern const uc_candidate uc_candidate_cuda_phase;
/* Tensor cores of sm_90a for many channels: output channels as rows, cells as columns; weights stream past a tile of x. */
extern const uc_candidate uc_candidate_cuda_panel;
/* FP32 units; one input channel a group. */
extern const uc_candidate uc_candidate_cuda_depthwise;
/* Tensor cores (mma.sync, TF32 words) for few input channels a group: the depth is flattened over channels and taps. */
extern const uc_candidate uc_candidate_cuda_flat;
/* Tensor cores (mma.sync) for few output channels a group: sums of every tap meet in shared memory. */
extern const uc_candidate uc_candidate_cuda_scatter;

#endif
