/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialect of one instruction set: vf, a vector of VL floats, and vi, of VL int32. The compiler's vector extension
 * gives arithmetic, comparison and selection for every target; only what it cannot express is written per set.
 * Every file in this folder is compiled once per instruction set, with UPCONV_ISA naming it.
 */
#ifndef UPCONV_CPU_SIMD_H
#define UPCONV_CPU_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(UPCONV_ISA_AVX512)
#define VL 16
#elif defined(UPCONV_ISA_AVX2)
#define VL 8
#else
#define VL 4
#endif

/* uc_name(conv) is uc_conv_avx512 and so on: the one place where names are pasted. */
#define UC_PASTE2(a, b) uc_##a##_##b
#define UC_PASTE(a, b) UC_PASTE2(a, b)
#define uc_name(name) UC_PASTE(name, UPCONV_ISA)

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));

#define UC_INLINE static inline __attribute__((always_inline, unused))

UC_INLINE vf vf_load(const float *p) {
  vf v;
  memcpy(&v, p, sizeof v);
  return v;
}

UC_INLINE void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }

/* x - 0 is x for every x, -0 included; the compiler makes it a broadcast. */
UC_INLINE vf vf_set(float x) { return x - (vf){0}; }

UC_INLINE vf vf_select(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

#endif
