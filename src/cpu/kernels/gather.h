/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors from strided memory. */
#ifndef UPCONV_CPU_GATHER_H
#define UPCONV_CPU_GATHER_H

#include "shuffle.h"

/* lane i = p[i * stride], i < n <= VL; further lanes are 0. Nothing else is read. */
UC_INLINE vf vf_gather_n(const float *p, int64_t stride, int64_t n) {
  float lane[VL] = {0};
  for (int64_t i = 0; i < n; i++) lane[i] = p[i * stride];
  return vf_load(lane);
}

/* All VL lanes. */
UC_INLINE vf vf_gather(const float *p, int64_t stride) {
  float lane[VL];
  for (int i = 0; i < VL; i++) lane[i] = p[i * stride];
  return vf_load(lane);
}

/* All VL lanes for stride 2. The second vector starts one element early, so as to end with the last
   lane. */
UC_INLINE vf vf_gather_2(const float *p) { return vf_mixed(vf_load(p), vf_load(p + VL - 1)); }

#endif
