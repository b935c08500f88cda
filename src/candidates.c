/* SPDX-License-Identifier: Apache-2.0 */
/* Every candidate of every backend. The order does not matter: the cheapest that applies is chosen. */
#include <string.h>

#include "cpu/candidates.h"
#include "cuda/candidates.h"
#include "plan.h"

static const uc_candidate *const candidates[] = {
    &uc_candidate_cpu_tiled,      &uc_candidate_cpu_panels, &uc_candidate_cpu_products,
    &uc_candidate_cpu_direct,     &uc_candidate_cuda_ffma,  &uc_candidate_cuda_mma,
    &uc_candidate_cuda_gemm,      &uc_candidate_cuda_phase, &uc_candidate_cuda_panel,
    &uc_candidate_cuda_depthwise, &uc_candidate_cuda_flat,  &uc_candidate_cuda_scatter,
};

const uc_candidate *uc_candidate_at(int index) {
  int count = (int)(sizeof candidates / sizeof candidates[0]);
  return index >= 0 && index < count ? candidates[index] : NULL;
}

const uc_candidate *uc_candidate_named(const char *name) {
  for (int i = 0; uc_candidate_at(i); i++)
    if (strcmp(uc_candidate_at(i)->name, name) == 0) return uc_candidate_at(i);
  return NULL;
}
