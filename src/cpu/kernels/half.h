/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of f16 and bf16: to float exactly, from float to nearest even. NaN stays NaN, overflow is
 * infinity, subnormal numbers are kept. Bit for bit what src/tensor.c does one number at a time.
 */
#ifndef UPCONV_CPU_HALF_H
#define UPCONV_CPU_HALF_H

#include "simd.h"

UC_INLINE vf vf_from_bf16(vh h) { return (vf)(__builtin_convertvector(h, vu) << 16); }

UC_INLINE vh vh_bf16(vf x) {
  vu bits = (vu)x;
  vu rounded = bits + 0x7fff + ((bits >> 16) & 1);
  vu quiet = bits | 0x400000; /* so that cutting the payload of a NaN leaves no infinity */
  vu cut = (vu)vf_select(vm_nan(x), (vf)quiet, (vf)rounded) >> 16;
  return __builtin_convertvector(cut, vh);
}

#if defined(UPCONV_ISA_AVX512)

UC_INLINE vf vf_from_f16(vh h) { return _mm512_cvtph_ps((__m256i)h); }
/* Unmasked, it is a macro without optimisation, and converts a -1. */
UC_INLINE vh vh_f16(vf x) {
  return (vh)_mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT);
}

#elif defined(UPCONV_ISA_AVX2)

UC_INLINE vf vf_from_f16(vh h) { return _mm256_cvtph_ps((__m128i)h); }
UC_INLINE vh vh_f16(vf x) { return (vh)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }

#else

/* The exponent is rebased by a multiplication, which normalises subnormal numbers too. */
UC_INLINE vf vf_from_f16(vh h) {
  vu bits = __builtin_convertvector(h, vu);
  vu sign = (bits & 0x8000u) << 16;
  vu magnitude = (bits & 0x7fffu) << 13;
  vu number = (vu)((vf)magnitude * 0x1p112f);
  vu special = magnitude | 0x7f800000u; /* infinity, NaN */
  vu is_special = (vu)(magnitude >= (0x7c00u << 13));
  return (vf)(vu_select(is_special, special, number) | sign);
}

UC_INLINE vh vh_f16(vf x) {
  vu bits = (vu)x;
  vu sign = (bits >> 16) & 0x8000u;
  vu magnitude = bits & INT32_MAX;
  vu normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  /* Added to 0.5, whose last bit is worth f16's smallest number, the hardware rounds where f16
     does. */
  vu small = (vu)((vf)magnitude + 0.5f) - 0x3f000000u;
  vu nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  vu h = vu_select((vu)(magnitude < 0x38800000u), small, normal);
  h = vu_select((vu)(magnitude >= 0x477ff000u), 0x7c00u - (vu){0}, h); /* 65520 and more */
  h = vu_select((vu)(magnitude > 0x7f800000u), nan, h);
  return __builtin_convertvector(h | sign, vh);
}

#endif
#endif
