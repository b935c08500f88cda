/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interleaving of rows: the phases of a strided axis into a row of the output, channels into
 * channels-last memory. Two and four rows are zipped; any other number goes by quads, the elements
 * of four rows at one position.
 */
#include "shuffle.h"
#include "table.h"

/* The row's vector of which only `count` elements, perhaps none, are there. */
UC_INLINE vf load_left(const float *p, int64_t count) {
  return count >= VL ? vf_load(p) : vf_load_n(p, count > 0 ? count : 0);
}

UC_INLINE void zip_2(vf out[2], const vf v[2]) {
  out[0] = vf_zip_first(v[0], v[1]);
  out[1] = vf_zip_second(v[0], v[1]);
}

/* The zip of zips: a0 c0 a1 c1 ... with b0 d0 b1 d1 ... */
UC_INLINE void zip_4(vf out[4], const vf v[4]) {
  vf ac_first = vf_zip_first(v[0], v[2]), ac_second = vf_zip_second(v[0], v[2]);
  vf bd_first = vf_zip_first(v[1], v[3]), bd_second = vf_zip_second(v[1], v[3]);
  zip_2(out, (vf[]){ac_first, bd_first});
  zip_2(out + 2, (vf[]){ac_second, bd_second});
}

/* Positions from j on, of which `left` elements are there, at most VL of each row. */
UC_INLINE void zip_block(float *dst, const float *const *src, const int rows, int64_t j,
                         int64_t left, void (*zip)(vf *out, const vf *v)) {
  vf v[4], out[4];
  UC_UNROLL
  for (int r = 0; r < rows; r++) v[r] = load_left(src[r] + j, (left - r + rows - 1) / rows);
  zip(out, v);
  UC_UNROLL
  for (int r = 0; r < rows; r++)
    if (r * VL < left) vf_store(dst + j * rows + r * VL, out[r]);
}

UC_INLINE void interleave_zip(float *dst, const float *const *src, const int rows, int64_t total,
                              void (*zip)(vf *out, const vf *v)) {
  int64_t j = 0;
  for (; (j + VL) * rows <= total; j += VL) zip_block(dst, src, rows, j, VL * rows, zip);
  if (j * rows < total) zip_block(dst, src, rows, j, total - j * rows, zip);
}

/* Four rows at the positions [j, j + count), or as many as there are; dst is where they belong at
   position j. */
UC_INLINE void quads(float *dst, const float *const *src, int64_t rows, int64_t step, int64_t j,
                     int64_t count) {
  vf v[4];
  UC_UNROLL
  for (int r = 0; r < 4; r++) v[r] = r < rows ? load_left(src[r] + j, count) : (vf){0};
  vf_transpose_parts(v);
  UC_UNROLL
  for (int p = 0; p < VL / 4; p++) {
    UC_UNROLL
    for (int r = 0; r < 4; r++) {
      v4 quad = vf_part(v[r], p);
      if (4 * p + r < count) memcpy(dst + (4 * p + r) * step, &quad, sizeof quad);
    }
  }
}

/*
 * The last group of rows may have fewer than four; its quads then run into the next position, so
 * they are stored before what belongs there: groups from the last to the first, positions upwards,
 * and the last position one by one.
 */
static void interleave_quads(float *dst, const float *const *src, int64_t rows, int64_t total) {
  int64_t end = total / rows - 1, j = 0;
  for (; j < end; j += VL)
    for (int64_t group = (rows - 1) / 4 * 4; group >= 0; group -= 4) {
      float *to = dst + j * rows + group;
      if (j + VL <= end)
        quads(to, src + group, rows - group, rows, j, VL);
      else
        quads(to, src + group, rows - group, rows, j, end - j);
    }
  j = end > 0 ? end : 0;
  for (int64_t at = j * rows; at < total; j++)
    for (int64_t r = 0; r < rows && at < total; r++, at++) dst[at] = src[r][j];
}

void uc_name(interleave)(float *dst, const float *const *src, int64_t rows, int64_t total) {
  switch (rows) {
  case 2:
    interleave_zip(dst, src, 2, total, zip_2);
    break;
  case 4:
    interleave_zip(dst, src, 4, total, zip_4);
    break;
  default:
    interleave_quads(dst, src, rows, total);
    break;
  }
}
