/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the elements of one tile of a value lie. Elements are stored by residue: element o of an axis with split s is
 * position j = (o - begin) / s of residue (o - begin) mod s. With s the stride of the convolution a residue is one phase
 * of it, so that phases are written, and stride-aligned pooling windows are read, without gaps. A split of 1 is the natural
 * order. Channels follow each other at a fixed pitch; rows may have padding between them that holds junk.
 */
#ifndef UPCONV_CPU_LAYOUT_H
#define UPCONV_CPU_LAYOUT_H

#include "../problem.h"
#include "isa.h"

typedef struct uc_box {
  int64_t begin[UC_AXES], size[UC_AXES];
} uc_box;

typedef struct uc_layout {
  uc_box box;
  int64_t split[UC_AXES];
  int64_t count[UC_AXES];     /* positions of residue 0, the longest */
  int64_t row, plane, volume; /* pitches of positions along H and D, and of residues */
  int64_t channel;            /* floats per channel: a multiple of UC_PAD, overrun included */
} uc_layout;

bool uc_box_equal(const uc_box *a, const uc_box *b);
void uc_box_unite(uc_box *a, const uc_box *b);

/* row_pitch 0: rows padded for vectors where they are long, dense where short. Otherwise rows of that pitch, so that a
   plane is one run of positions. */
void uc_layout_init(uc_layout *layout, const uc_box *box, const int64_t *split, int64_t row_pitch);

/* Positions of a residue along an axis. */
static inline int64_t uc_layout_positions(const uc_layout *l, int axis, int64_t residue) {
  return (l->box.size[axis] - residue + l->split[axis] - 1) / l->split[axis];
}

/* First float of the row that holds local elements (d, h, residue + split * j) for j = 0, 1, ... */
static inline int64_t uc_layout_row(const uc_layout *l, int64_t d, int64_t h, int64_t residue) {
  int64_t rd = d % l->split[0], rh = h % l->split[1];
  return ((rd * l->split[1] + rh) * l->split[2] + residue) * l->volume +
         d / l->split[0] * l->plane + h / l->split[1] * l->row;
}

/* Copies the box of `to` out of `from`, which holds at least that box, for `channels` channels. scratch: a row of from's
   box in natural order, padded. */
void uc_layout_copy(const uc_isa *isa, const uc_layout *to, float *dst, const uc_layout *from,
                    const float *src, int64_t channels, float *scratch);

/* A row of natural order: local elements (d, h, 0 .. size). Points into src where the split is 1, else to scratch. */
const float *uc_layout_natural_row(const uc_isa *isa, const uc_layout *l, const float *channel,
                                   int64_t d, int64_t h, float *scratch);

/* Makes a view the same everywhere along a canonical axis where it has one element. */
void uc_layout_broadcast(upconv_tensor *view, int axis);

/* Loads channels [c0, c0 + channels) of sample n of a view of a whole tensor; the view's offset and shape say which part
   it holds. Elements outside it become 0. */
void uc_layout_load(const uc_isa *isa, const uc_layout *to, float *dst, const upconv_tensor *tensor,
                    int64_t n, int64_t c0, int64_t channels);

/* Stores channels [c0, c0 + channels), of which src holds channel c0 first, into a view that holds the box. scratch:
   channels rows in natural order, padded. stream: past the caches; f32 with dense rows alone. */
void uc_layout_store(const uc_isa *isa, const uc_layout *from, const float *src,
                     const upconv_tensor *tensor, int64_t n, int64_t c0, int64_t channels,
                     bool stream, float *scratch);

/* Whether uc_layout_list takes what uc_layout_store would store past the caches. */
bool uc_layout_drains(const uc_isa *isa, const uc_layout *from, const upconv_tensor *tensor,
                      int64_t n, int64_t c0);
/* Stores what is no whole line, and leaves the lines to `drain`, which reads src. run: room for uc_layout_runs. */
int64_t uc_layout_runs(const uc_layout *from, int64_t channels);
void uc_layout_list(const uc_isa *isa, const uc_layout *from, const float *src,
                    const upconv_tensor *tensor, int64_t n, int64_t c0, int64_t channels,
                    uc_line_run *run, uc_drain *drain);

/* Where a box of channels [c0, c0 + channels) lies, as far as the tensor has it: a run for each plane whose rows lie close to each
   other; returns how many. */
int64_t uc_layout_fetch(const uc_box *box, const upconv_tensor *tensor, int64_t n, int64_t c0,
                        int64_t channels, uc_fetch_run *run);

/* Fetches the lines in which the box begins and ends in each channel: they are not stored as a whole, and stores that follow wait
   until they are there. */
void uc_layout_touch(const uc_layout *layout, const upconv_tensor *tensor, int64_t n);

#endif
