/* SPDX-License-Identifier: Apache-2.0 */
#include "residue.h"

#include "../checked.h"

uc_residue uc_residue_find(const uc_engine *e, const uc_layout *conv, int a, int64_t r) {
  const uc_axis *axis = &e->lowered->conv.axis[a];
  int64_t o = conv->box.begin[a] + r + axis->pad_begin;
  int64_t phi = uc_mod(o, axis->stride);
  const uc_phase *phase = &e->table[a].phase[phi];
  int64_t q = uc_floor_div(o, axis->stride);
  return (uc_residue){phase, phi, q - phase->shift, uc_layout_positions(conv, a, r)};
}

uc_range uc_residue_live_taps(const uc_residue *r, int64_t in_size, int64_t j0, int64_t j1) {
  uc_range range = {0, r->phase->count};
  int64_t first = r->input + j0, last = r->input + j1 - 1, step = r->phase->shift_step;
  /* first - t * step < in_size and last - t * step >= 0 */
  if (first - (in_size - 1) > 0) range.begin = uc_ceil_div(first - (in_size - 1), step);
  range.end = last < 0 ? 0 : uc_min(range.end, last / step + 1);
  return range;
}

int64_t uc_phase_weights_at(const uc_engine *e, const uc_block *b, const uc_residue r[UC_AXES],
                            int64_t e0, int64_t e1) {
  const uc_axis *axis = e->lowered->conv.axis;
  int64_t before = e->table[0].before[r[0].phi] * axis[1].kernel * axis[2].kernel +
                   r[0].phase->count * (e->table[1].before[r[1].phi] * axis[2].kernel +
                                        r[1].phase->count * e->table[2].before[r[2].phi]);
  int64_t taps = r[0].phase->count * r[1].phase->count * r[2].phase->count;
  int64_t rows = e->group_out * (e0 * e->kernel_size + before * (e1 - e0)) +
                 (b->channel - b->group * e->group_out) * taps * (e1 - e0);
  return e->weight_at + b->group * e->group_out * e->kernel_size * e->group_in + rows;
}

const float *uc_phase_weights(const uc_engine *e, const float *packed, const uc_block *b,
                              const uc_residue r[UC_AXES], int64_t e0, int64_t e1) {
  return packed + uc_phase_weights_at(e, b, r, e0, e1);
}
