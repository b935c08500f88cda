/* SPDX-License-Identifier: Apache-2.0 */
/* The highest rate of float32 multiply-adds: independent chains in registers, as many as hide the latency. */
#include <math.h>

#include "monotonic.h"
#include "timing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, STEPS = 4096 };
static const double LEAST_TIME = 0.01;

/* Runs STEPS steps on CHAINS vectors and returns their sum, so that nothing can be left out, through *sink. */
typedef void (*fma_loop)(float *sink);

#if defined(__x86_64__)

__attribute__((target("avx512f"))) static void loop_avx512(float *sink) {
  const __m512 factor = _mm512_set1_ps(0.999f), summand = _mm512_set1_ps(0.001f);
  __m512 chain[CHAINS];
  for (int i = 0; i < CHAINS; i++) chain[i] = _mm512_set1_ps((float)i);
  for (int step = 0; step < STEPS; step++) {
    /* Unrolled, so that the chains live in registers whatever the optimisation level. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) chain[i] = _mm512_fmadd_ps(chain[i], factor, summand);
  }
  for (int i = 1; i < CHAINS; i++) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  _mm512_storeu_ps(sink, chain[0]);
}

__attribute__((target("avx2,fma"))) static void loop_avx2(float *sink) {
  const __m256 factor = _mm256_set1_ps(0.999f), summand = _mm256_set1_ps(0.001f);
  __m256 chain[CHAINS];
  for (int i = 0; i < CHAINS; i++) chain[i] = _mm256_set1_ps((float)i);
  for (int step = 0; step < STEPS; step++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) chain[i] = _mm256_fmadd_ps(chain[i], factor, summand);
  }
  for (int i = 1; i < CHAINS; i++) chain[0] = _mm256_add_ps(chain[0], chain[i]);
  _mm256_storeu_ps(sink, chain[0]);
}

#endif

typedef float vec4 __attribute__((vector_size(16)));

/* Machines without an instruction for it multiply, then add: fmaf() would be a slow function there. */
static vec4 multiply_add(vec4 a, vec4 b, vec4 c) {
#ifdef FP_FAST_FMAF
  for (int lane = 0; lane < 4; lane++) c[lane] = fmaf(a[lane], b[lane], c[lane]);
  return c;
#else
  return a * b + c;
#endif
}

static void loop_portable(float *sink) {
  const vec4 factor = {0.999f, 0.999f, 0.999f, 0.999f}, summand = {0.001f, 0.001f, 0.001f, 0.001f};
  vec4 chain[CHAINS];
  for (int i = 0; i < CHAINS; i++) chain[i] = factor * (float)i;
  for (int step = 0; step < STEPS; step++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) chain[i] = multiply_add(chain[i], factor, summand);
  }
  for (int i = 1; i < CHAINS; i++) chain[0] += chain[i];
  for (int lane = 0; lane < 4; lane++) sink[lane] = chain[0][lane];
}

double probe_fma_one_thread(void) {
  fma_loop loop = loop_portable;
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    loop = loop_avx512;
    lanes = 16;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    loop = loop_avx2;
    lanes = 8;
  }
#endif
  volatile float kept;
  float sink[16];
  double flop = 0, start = uc_now(), elapsed;
  do {
    for (int i = 0; i < 8; i++) loop(sink);
    kept = sink[0];
    flop += 8.0 * 2.0 * CHAINS * STEPS * lanes;
    elapsed = uc_now() - start;
  } while (elapsed < LEAST_TIME);
  (void)kept;
  return flop / elapsed;
}
