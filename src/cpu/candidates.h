/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CPU_CANDIDATES_H
#define UPCONV_CPU_CANDIDATES_H

#include "../plan.h"

/* Vectors of positions within a phase; borders read zeros. */
extern const uc_candidate uc_candidate_cpu_tiled;
/* Vectors of positions of all rows and samples, gathered once for many output channels. */
extern const uc_candidate uc_candidate_cpu_panels;
/* All inputs times all weights as matrix products, whose results are then added where they belong. */
extern const uc_candidate uc_candidate_cpu_products;
/* One element at a time; borders are skipped, so that any weight, also Inf and NaN, is exact there. */
extern const uc_candidate uc_candidate_cpu_direct;

#endif
