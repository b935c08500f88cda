/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problems that between them reach every part of the CUDA code generator, by family: what they have in
 * common, and what an architecture must have seen to be trusted with the rest of it.
 */
#ifndef UPCONV_TESTS_CUDA_COVERING_H
#define UPCONV_TESTS_CUDA_COVERING_H

#include <stddef.h>

/* What the planner must make of a problem: which passes with the convolution there are, ... */
enum {
  COVERING_FUSED = 1,          /* one is finished in registers */
  COVERING_TILED = 2,          /* one has tile buffers */
  COVERING_LOOPS = 4,          /* one goes over its taps in a loop */
  COVERING_GLOBAL_WEIGHTS = 8, /* one has more weights than shared memory takes */
  COVERING_MMA = 16,           /* tensor cores apply, from sm_80 on */
  COVERING_DEPTHWISE = 32,     /* the depthwise kernel applies */
  COVERING_FLAT = 64,          /* tensor cores with a flattened depth apply, from sm_80 on */
  COVERING_GEMM = 128,         /* tensor cores for many channels apply, from sm_80 on */
  COVERING_SCATTER = 256,      /* tensor cores for few output channels apply, from sm_80 on */
  COVERING_PHASE = 512,        /* tensor cores with residues as rows must apply, on sm_90a */
  COVERING_PANEL = 1024,       /* tensor cores with many channels as rows must apply, on sm_90a */
  COVERING_PASSES = 15,        /* those about the FP32 kernel's passes */
};

typedef struct covering_case {
  const char *family;
  int expect;
  const char *text;
} covering_case;

extern const covering_case covering_cases[];
extern const size_t covering_case_count;

#endif
