/* SPDX-License-Identifier: Apache-2.0 */
/* Permutations of vectors: zip, unzip, and the transpose of VL vectors. */
#ifndef UPCONV_CPU_SHUFFLE_H
#define UPCONV_CPU_SHUFFLE_H

#include "simd.h"

/* zip: a0 b0 a1 b1 ..., first and second half. even: a0 a2 ... b0 b2 ...; mixed: the even lanes of
   a, then the odd ones of b. low, high: of each 128-bit part, a0 b0 a1 b1 or a2 b2 a3 b3; low2,
   high2: a0 a1 b0 b1 or a2 a3 b2 b3. */
#if VL == 16

UC_INLINE vf vf_zip_first(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
UC_INLINE vf vf_zip_second(vf a, vf b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}
UC_INLINE vf vf_even(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
UC_INLINE vf vf_mixed(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
}
UC_INLINE vf vf_low(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
UC_INLINE vf vf_high(vf a, vf b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
UC_INLINE vf vf_low2(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
UC_INLINE vf vf_high2(vf a, vf b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
/* 128-bit parts 0 and 2, or 1 and 3, of a, then of b. */
UC_INLINE vf vf_parts_even(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
UC_INLINE vf vf_parts_odd(vf a, vf b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

#elif VL == 8

UC_INLINE vf vf_zip_first(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
UC_INLINE vf vf_zip_second(vf a, vf b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
UC_INLINE vf vf_even(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
}
UC_INLINE vf vf_mixed(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);
}
UC_INLINE vf vf_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
UC_INLINE vf vf_high(vf a, vf b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
UC_INLINE vf vf_low2(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); }
UC_INLINE vf vf_high2(vf a, vf b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
UC_INLINE vf vf_parts_even(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
UC_INLINE vf vf_parts_odd(vf a, vf b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

#else

UC_INLINE vf vf_zip_first(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
UC_INLINE vf vf_zip_second(vf a, vf b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
UC_INLINE vf vf_even(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
UC_INLINE vf vf_mixed(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 2, 5, 7); }
UC_INLINE vf vf_low(vf a, vf b) { return vf_zip_first(a, b); }
UC_INLINE vf vf_high(vf a, vf b) { return vf_zip_second(a, b); }
UC_INLINE vf vf_low2(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
UC_INLINE vf vf_high2(vf a, vf b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); }

#endif

/* 4 x 4 transposes within the 128-bit parts: part p of result i holds lane 4p + i of each of the
   four vectors. */
UC_INLINE void vf_transpose_parts(vf v[4]) {
  vf ab = vf_low(v[0], v[1]), cd = vf_low(v[2], v[3]);
  vf ab_high = vf_high(v[0], v[1]), cd_high = vf_high(v[2], v[3]);
  v[0] = vf_low2(ab, cd);
  v[1] = vf_high2(ab, cd);
  v[2] = vf_low2(ab_high, cd_high);
  v[3] = vf_high2(ab_high, cd_high);
}

/* VL vectors of VL lanes: lane j of vector i and lane i of vector j change places. */
UC_INLINE void vf_transpose(vf v[VL]) {
  UC_UNROLL
  for (int i = 0; i < VL; i += 4) vf_transpose_parts(v + i);
#if VL == 8
  UC_UNROLL
  for (int i = 0; i < 4; i++) {
    vf first = vf_parts_even(v[i], v[i + 4]);
    v[i + 4] = vf_parts_odd(v[i], v[i + 4]);
    v[i] = first;
  }
#elif VL == 16
  UC_UNROLL
  for (int i = 0; i < 4; i++) {
    vf even01 = vf_parts_even(v[i], v[i + 4]), odd01 = vf_parts_odd(v[i], v[i + 4]);
    vf even23 = vf_parts_even(v[i + 8], v[i + 12]), odd23 = vf_parts_odd(v[i + 8], v[i + 12]);
    v[i] = vf_parts_even(even01, even23);
    v[i + 8] = vf_parts_odd(even01, even23);
    v[i + 4] = vf_parts_even(odd01, odd23);
    v[i + 12] = vf_parts_odd(odd01, odd23);
  }
#endif
}

/* ---- 128-bit parts ---- */

typedef float v4 __attribute__((vector_size(16)));

/* Part p of v, for a constant p < VL / 4. */
UC_INLINE v4 vf_part(vf v, const int p) {
#if VL == 4
  (void)p;
  return v;
#else
  switch (p) {
  case 0:
    return __builtin_shufflevector(v, v, 0, 1, 2, 3);
#if VL == 16
  case 2:
    return __builtin_shufflevector(v, v, 8, 9, 10, 11);
  case 3:
    return __builtin_shufflevector(v, v, 12, 13, 14, 15);
#endif
  default:
    return __builtin_shufflevector(v, v, 4, 5, 6, 7);
  }
#endif
}

/* The vector of VL / 4 parts, `step` floats apart in memory. */
UC_INLINE vf vf_load_parts(const float *p, int64_t step) {
  v4 part[VL / 4];
  UC_UNROLL
  for (int i = 0; i < VL / 4; i++) memcpy(&part[i], p + i * step, sizeof part[i]);
#if VL == 4
  return part[0];
#elif VL == 8
  return __builtin_shufflevector(part[0], part[1], 0, 1, 2, 3, 4, 5, 6, 7);
#else
  typedef float v8 __attribute__((vector_size(32)));
  v8 first = __builtin_shufflevector(part[0], part[1], 0, 1, 2, 3, 4, 5, 6, 7);
  v8 second = __builtin_shufflevector(part[2], part[3], 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                 15);
#endif
}

#endif
