/* SPDX-License-Identifier: Apache-2.0 */
/* One residue of a convolution's box, axis by axis: its phase, where it reads, and which of its taps reach the input. */
#ifndef UPCONV_CPU_RESIDUE_H
#define UPCONV_CPU_RESIDUE_H

#include "engine.h"

typedef struct uc_residue {
  const uc_phase *phase;
  int64_t phi;
  int64_t input; /* position j reads input `input` + j - t * shift_step with tap t */
  int64_t positions;
} uc_residue;

uc_residue uc_residue_find(const uc_engine *engine, const uc_layout *conv, int axis, int64_t r);

/* Taps t whose input index, for some position in [j0, j1), lies inside the input. */
uc_range uc_residue_live_taps(const uc_residue *r, int64_t in_size, int64_t j0, int64_t j1);

/* A block's weights of one phase, for the chunk of channels [e0, e1): where in the packed buffer, and there. */
int64_t uc_phase_weights_at(const uc_engine *engine, const uc_block *block,
                            const uc_residue r[UC_AXES], int64_t e0, int64_t e1);
const float *uc_phase_weights(const uc_engine *engine, const float *packed, const uc_block *block,
                              const uc_residue r[UC_AXES], int64_t e0, int64_t e1);

#endif
