/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialect of one instruction set: vf, a vector of VL floats, vi, of VL int32, and vm, the mask
 * that a comparison gives. The compiler's vector extension does arithmetic for every target; only
 * what it cannot express, or expresses badly, is written per set. Every file in this folder is
 * compiled once per instruction set, with UPCONV_ISA naming it.
 */
#ifndef UPCONV_CPU_SIMD_H
#define UPCONV_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(UPCONV_ISA_AVX512)
#define VL 16
#include <immintrin.h>
#elif defined(UPCONV_ISA_AVX2)
#define VL 8
#include <immintrin.h>
#else
#define VL 4
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

/* uc_name(conv) is uc_conv_avx512 and so on: the one place where names are pasted. */
#define UC_PASTE2(a, b) uc_##a##_##b
#define UC_PASTE(a, b) UC_PASTE2(a, b)
#define uc_name(name) UC_PASTE(name, UPCONV_ISA)

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL))); /* f16 or bf16 bits */
#if defined(UPCONV_ISA_AVX512)
typedef __mmask16 vm;
#else
typedef vi vm; /* lanes of all ones or all zeros */
#endif

#define UC_INLINE static inline __attribute__((always_inline, unused))

/* Before a loop over vectors whose count is constant once inlined, so that they stay in registers.
   clang takes a number as a wish that it may grant after it has put them in memory. */
#if defined(__clang__)
#define UC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define UC_UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- loads and stores of any alignment ---- */

UC_INLINE vf vf_load(const float *p) {
  vf v;
  memcpy(&v, p, sizeof v);
  return v;
}

UC_INLINE void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }

/* In a register from here on: the compiler would rather load it again for every use. */
UC_INLINE void vf_keep(vf *v) {
#if defined(UPCONV_ISA_AVX512)
  __asm__("" : "+v"(*v));
#elif defined(__SSE2__)
  __asm__("" : "+x"(*v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(*v));
#else
  (void)v;
#endif
}

UC_INLINE vh vh_load(const uint16_t *p) {
  vh v;
  memcpy(&v, p, sizeof v);
  return v;
}

UC_INLINE void vh_store(uint16_t *p, vh v) { memcpy(p, &v, sizeof v); }

/* x - 0 is x for every x, -0 included; the compiler makes it a broadcast. */
UC_INLINE vf vf_set(float x) { return x - (vf){0}; }

/* ---- the first n lanes alone, 0 <= n <= VL ----
 * Memory beyond them is not touched; lanes that are not loaded are 0. */

#if defined(UPCONV_ISA_AVX512)

UC_INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)((1u << n) - 1u); }

UC_INLINE vf vf_load_n(const float *p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

UC_INLINE vh vh_load_n(const uint16_t *p, int64_t n) {
  return (vh)_mm256_maskz_loadu_epi16(first_lanes(n), p);
}

#endif

/* Pieces of VL / 2 and so on: AMD's masked stores are slow, with AVX-512 too. */
UC_INLINE void copy_pieces(void *to, const void *from, int64_t n, size_t size) {
  char *p = (char *)to;
  const char *q = (const char *)from;
  UC_UNROLL
  for (int piece = VL / 2; piece; piece /= 2)
    if (n & piece) {
      memcpy(p, q, (size_t)piece * size);
      p += (size_t)piece * size;
      q += (size_t)piece * size;
    }
}

#if !defined(UPCONV_ISA_AVX512)

UC_INLINE vh vh_load_n(const uint16_t *p, int64_t n) {
  uint16_t lane[VL] = {0};
  if (n == VL) return vh_load(p);
  copy_pieces(lane, p, n, sizeof *p);
  return vh_load(lane);
}

#endif

UC_INLINE void vh_store_n(uint16_t *p, vh v, int64_t n) {
  uint16_t lane[VL];
  if (n == VL) {
    vh_store(p, v);
    return;
  }
  vh_store(lane, v);
  copy_pieces(p, lane, n, sizeof *p);
}

UC_INLINE void vf_store_n(float *p, vf v, int64_t n) {
  float lane[VL];
  if (n == VL) {
    vf_store(p, v);
    return;
  }
  vf_store(lane, v);
  copy_pieces(p, lane, n, sizeof *p);
}

#if !defined(UPCONV_ISA_AVX512)

UC_INLINE vf vf_load_n(const float *p, int64_t n) {
#if defined(UPCONV_ISA_AVX2)
  vi loaded = (vi){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n - (vi){0};
  return _mm256_maskload_ps(p, (__m256i)loaded);
#else
  float lane[VL] = {0};
  if (n == VL) return vf_load(p);
  copy_pieces(lane, p, n, sizeof *p);
  return vf_load(lane);
#endif
}

#endif

/* ---- past the caches ---- */

/* p lies at a multiple of the vector's size. Memory sees whole lines alone if all of one is stored in a row. */
UC_INLINE void vf_stream(float *p, vf v) {
#if defined(UPCONV_ISA_AVX512)
  _mm512_stream_ps(p, v);
#elif defined(UPCONV_ISA_AVX2)
  _mm256_stream_ps(p, v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, v);
#else
  vf_store(p, v);
#endif
}

enum { LINE = 16 }; /* floats of a cache line */

/* Floats from p to where the next line begins, which is at an element. */
UC_INLINE int64_t to_line(const float *p) { return (int64_t)(-((uintptr_t)p / sizeof *p) % LINE); }

/* A whole line, at its start. */
UC_INLINE void stream_line(float *dst, const float *src) {
  UC_UNROLL
  for (int i = 0; i < LINE; i += VL) vf_stream(dst + i, vf_load(src + i));
}

/* ---- masks and selection ---- */

#if defined(UPCONV_ISA_AVX512)

UC_INLINE vm vm_greater(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
UC_INLINE vm vm_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
UC_INLINE vm vm_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
UC_INLINE vf vf_select(vm mask, vf a, vf b) { return _mm512_mask_blend_ps(mask, b, a); }

#else

UC_INLINE vm vm_greater(vf a, vf b) { return a > b; }
UC_INLINE vm vm_equal(vf a, vf b) { return a == b; }
UC_INLINE vm vm_nan(vf a) { return a != a; }

UC_INLINE vf vf_select(vm mask, vf a, vf b) {
#if defined(UPCONV_ISA_AVX2)
  return _mm256_blendv_ps(b, a, (vf)mask);
#else
  return (vf)((mask & (vi)a) | (~mask & (vi)b));
#endif
}

#endif

/* The first n lanes of a, then the others of b. */
UC_INLINE vf vf_join(vf a, vf b, int64_t n) {
#if defined(UPCONV_ISA_AVX512)
  return vf_select(first_lanes(n), a, b);
#elif VL == 8
  return vf_select((vi){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n - (vi){0}, a, b);
#else
  return vf_select((vi){0, 1, 2, 3} < (int32_t)n - (vi){0}, a, b);
#endif
}

UC_INLINE vu vu_select(vu mask, vu a, vu b) { return (mask & a) | (~mask & b); }

/* ---- arithmetic ---- */

/* a > b ? a : b, and a < b ? a : b: b where either is NaN. x86 has them as they are. */
UC_INLINE vf vf_greater(vf a, vf b) {
#if defined(UPCONV_ISA_AVX512)
  return _mm512_max_ps(a, b);
#elif defined(UPCONV_ISA_AVX2)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return _mm_max_ps(a, b);
#else
  return vf_select(a > b, a, b);
#endif
}

UC_INLINE vf vf_smaller(vf a, vf b) {
#if defined(UPCONV_ISA_AVX512)
  return _mm512_min_ps(a, b);
#elif defined(UPCONV_ISA_AVX2)
  return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
  return _mm_min_ps(a, b);
#else
  return vf_select(a < b, a, b);
#endif
}

/* NaN where either is NaN. */
UC_INLINE vf vf_max(vf a, vf b) { return vf_select(vm_nan(a), a, vf_greater(a, b)); }
UC_INLINE vf vf_min(vf a, vf b) { return vf_select(vm_nan(a), a, vf_smaller(a, b)); }

UC_INLINE vf vf_abs(vf x) { return (vf)((vi)x & INT32_MAX); }

/* x with the sign bits of sign added: |x| must be x. */
UC_INLINE vf vf_with_sign(vf x, vf sign) { return (vf)((vi)x | ((vi)sign & INT32_MIN)); }

UC_INLINE vf vf_sqrt(vf x) {
#if defined(UPCONV_ISA_AVX512)
  return _mm512_sqrt_ps(x);
#elif defined(UPCONV_ISA_AVX2)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < VL; i++) x[i] = sqrtf(x[i]);
  return x;
#endif
}

/* x * 2^n, rounded once; n holds integers of magnitude below 250. */
UC_INLINE vf vf_ldexp(vf x, vf n) {
#if defined(UPCONV_ISA_AVX512)
  return _mm512_scalef_ps(x, n);
#else
  vi whole = __builtin_convertvector(n, vi);
  vi half = whole >> 1;
  vf a = (vf)((vu)(half + 127) << 23), b = (vf)((vu)(whole - half + 127) << 23);
  return x * a *
         b; /* the first product is exact, unless the result is far below the smallest number */
#endif
}

/* 2^n for integers n in [-126, 127]. */
UC_INLINE vf vf_pow2(vf n) {
#if defined(UPCONV_ISA_AVX512)
  return _mm512_scalef_ps(vf_set(1.0f), n);
#else
  return (vf)((vu)(__builtin_convertvector(n, vi) + 127) << 23);
#endif
}

#endif
