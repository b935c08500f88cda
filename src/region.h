/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of every value, and of x, a box of the output needs: what sub-volumes stand on. */
#ifndef UPCONV_REGION_H
#define UPCONV_REGION_H

#include "lowered.h"

typedef struct uc_region {
  uc_range axis[UC_RANK]; /* N, C, D, H, W; empty where nothing is needed */
} uc_region;

/* region[v] for every value v of the tail; region[op_count] is given. shape: of every value. */
void uc_regions(const uc_lowered *lowered, const int64_t (*shape)[UC_RANK], uc_region *region);

/* The part of x that the convolution's region needs, clipped to x. */
uc_region uc_region_input(const upconv_problem *conv, const int64_t x_shape[UC_RANK],
                          const uc_region *conv_region);

bool uc_region_empty(const uc_region *region);

#endif
