/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a tile's rows to memory, past the caches, and lines of memory to the caches: a few at a time, between other things. */
#ifndef UPCONV_CPU_DRAIN_H
#define UPCONV_CPU_DRAIN_H

#include "../isa.h"
#include "shuffle.h"

/* Of rows that follow each other without gaps in memory: with an end of one row and the beginning of the next where they meet. */
UC_INLINE void drain_dense(const uc_drain *d, uc_line_run *now) {
  UC_UNROLL
  for (int q = 0; q < LINE; q += VL) {
    vf v = vf_load(now->src + now->i);
    int64_t left = d->n - now->i;
    now->i += VL;
    if (left <= VL) {
      now->src += d->row;
      now->i -= d->n;
      if (++now->h == d->rows) {
        now->src += d->plane - d->rows * d->row;
        now->h = 0;
      }
      if (left < VL) v = vf_join(v, vf_load(now->src - left), left);
    }
    vf_stream(now->dst + q, v);
  }
  now->dst += LINE;
  now->lines--;
}

/* Two lines of two residues. */
UC_INLINE void drain_zip(const uc_drain *d, uc_line_run *now) {
  UC_UNROLL
  for (int q = 0; q < LINE; q += VL) {
    vf a = vf_load(now->src + now->i + q), b = vf_load(now->src + now->i + q + d->residue);
    vf_stream(now->dst + 2 * q, vf_zip_first(a, b));
    vf_stream(now->dst + 2 * q + VL, vf_zip_second(a, b));
  }
  now->i += LINE;
  now->dst += 2 * LINE;
  now->lines -= 2;
}

/* The next line of what will be read, into the second-level cache: the first is full of what is read now. */
UC_INLINE void fetch_line(uc_fetch *f) {
  if (f->now.lines == 0) {
    if (f->next == f->end) return;
    f->now = *f->next++;
  }
  __builtin_prefetch(f->now.at, 0, 2);
  f->now.at += LINE * sizeof(float);
  f->now.lines--;
}

UC_INLINE void drain_lines(uc_drain *d, int64_t lines) {
  uc_line_run now = d->now; /* in registers: stores might change what d points to */
  while (lines > 0) {
    if (now.lines == 0) {
      if (d->next == d->end) break;
      now = *d->next++;
    }
    if (d->residue)
      drain_zip(d, &now);
    else
      drain_dense(d, &now);
    lines -= d->residue ? 2 : 1;
  }
  d->now = now;
}

#endif
