/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels of the emulator are compiled with: CUDA's words, and calls for what PTX does. The functions are in driver.cpp. */
#pragma once

#define __device__
#define __host__
#define __global__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x) ((void)0)
#define __isGlobal(x) 1

struct uint2 {
  unsigned x, y;
} __attribute__((aligned(8)));
struct uint4 {
  unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct int2 {
  int x, y;
} __attribute__((aligned(8)));
struct int4 {
  int x, y, z, w;
} __attribute__((aligned(16)));
struct float2 {
  float x, y;
} __attribute__((aligned(8)));
struct float4 {
  float x, y, z, w;
} __attribute__((aligned(16)));
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline unsigned __activemask() { return 0xffffffff; }
inline int __all_sync(unsigned, int all) { return all; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }

extern "C" {
float expf(float), expm1f(float), log1pf(float), logf(float), erff(float), erfcf(float),
    tanhf(float), sqrtf(float), fabsf(float), floorf(float), ceilf(float), rintf(float),
    fmaf(float, float, float), powf(float, float), fmaxf(float, float), fminf(float, float),
    sinf(float), cosf(float), exp2f(float);
double exp(double), expm1(double), log1p(double), log(double), erf(double), erfc(double),
    tanh(double), sqrt(double), fabs(double), floor(double), ceil(double), rint(double),
    fma(double, double, double), pow(double, double), fmax(double, double), fmin(double, double);

struct EmuIndex {
  unsigned x, y, z;
};
struct EmuThread {
  EmuIndex thread, block, block_size, grid_size;
};
extern EmuThread emu_thread;

enum { EMU_SHARED = 0x20000000, EMU_SHARED_BEGIN = EMU_SHARED + 1024 };

void emu_fail(const char *what);
void emu_barrier(unsigned id, unsigned threads); /* threads 0: all */
void emu_syncwarp();
unsigned long long emu_shuffle(unsigned long long value, unsigned lane);
unsigned short emu_to_f16(float);
float emu_from_f16(unsigned short);
unsigned short emu_to_bf16(float);
unsigned emu_to_tf32(float, bool even);
unsigned emu_max_nan_pair(unsigned, unsigned, bool bf16);
/* type: 0 TF32, 1 F16, 2 BF16; words: 8 or 4 a row */
void emu_mma(int type, int words, float &, float &, float &, float &, unsigned a0, unsigned a1,
             unsigned a2, unsigned a3, unsigned b0, unsigned b1);
void emu_ldmatrix4(unsigned &, unsigned &, unsigned &, unsigned &, unsigned address);
void emu_wgmma_registers(int type, int columns, float **d, unsigned a0, unsigned a1, unsigned a2,
                         unsigned a3, unsigned long long b);
void emu_wgmma_shared(int type, int columns, float **d, unsigned long long a, unsigned long long b,
                      unsigned add);
void emu_wgmma_fence();
void emu_wgmma_commit();
void emu_wgmma_wait(unsigned groups);
void emu_copy_async(unsigned to, const void *from, unsigned bytes, unsigned filled);
void emu_copy_commit();
void emu_copy_wait(int groups); /* -1: all, also what is not in a group */
void emu_mbarrier_init(unsigned barrier, unsigned arrivals);
void emu_mbarrier_arrive(unsigned barrier, unsigned bytes);
void emu_mbarrier_wait(unsigned barrier, unsigned parity);
void emu_bulk_to_shared(unsigned to, const void *from, unsigned bytes, unsigned barrier);
void emu_bulk_to_global(void *to, unsigned from, unsigned bytes);
void emu_bulk_commit();
void emu_bulk_wait(unsigned groups);
void emu_bulk_tensor(unsigned to, const void *map, int c0, int c1, int c2, int c3, int c4,
                     unsigned barrier);
}

#define threadIdx emu_thread.thread
#define blockIdx emu_thread.block
#define blockDim emu_thread.block_size
#define gridDim emu_thread.grid_size

inline void __syncthreads() { emu_barrier(0, 0); }
inline void __syncwarp(unsigned = ~0u) { emu_syncwarp(); }
template <class T> inline T __ldg(const T *p) { return *p; }
inline float __int_as_float(int x) {
  float f;
  __builtin_memcpy(&f, &x, 4);
  return f;
}
inline int __float_as_int(float x) {
  int f;
  __builtin_memcpy(&f, &x, 4);
  return f;
}
inline float __uint_as_float(unsigned x) {
  float f;
  __builtin_memcpy(&f, &x, 4);
  return f;
}
inline unsigned __float_as_uint(float x) {
  unsigned f;
  __builtin_memcpy(&f, &x, 4);
  return f;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(both >> (s >> 4 * i & 7) * 8 & 255) << 8 * i;
  return r;
}
inline float __double2float_rz(double d) {
  float f = (float)d;
  if (__builtin_isfinite(d) && fabs((double)f) > fabs(d)) f = __int_as_float(__float_as_int(f) - 1);
  return f;
}
inline unsigned long long __cvta_generic_to_shared(const void *p) {
  unsigned long long at = (unsigned long long)p;
  if (at < EMU_SHARED || at >= EMU_SHARED + (1 << 18))
    emu_fail("a pointer is not into shared memory");
  return at;
}
template <class T> inline T __shfl_sync(unsigned, T v, int lane, int = 32) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = emu_shuffle(bits, lane & 31);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int mask, int = 32) {
  return __shfl_sync(m, v, (int)(threadIdx.x % 32) ^ mask);
}
#define isinf(x) __builtin_isinf(x)
#define isnan(x) __builtin_isnan(x)

inline void emu_aligned(const void *p, unsigned n) {
  if ((unsigned long long)p % n) emu_fail("a load or store is not aligned");
}
inline void emu_load_f32_if(float &v, const void *p, int there) {
  v = 0;
  if (there) emu_aligned(p, 4), v = *(const float *)p;
}
template <class T> inline void emu_load_u16_if(T &v, const void *p, int there) {
  v = 0;
  if (there) emu_aligned(p, 2), v = *(const unsigned short *)p;
}
inline void emu_load_v4_if(unsigned &a, unsigned &b, unsigned &c, unsigned &d, const void *p,
                           int there) {
  uint4 v = {0, 0, 0, 0};
  if (there) emu_aligned(p, 16), v = *(const uint4 *)p;
  a = v.x, b = v.y, c = v.z, d = v.w;
}
inline void emu_load_v2_if(unsigned &a, unsigned &b, const void *p, int there) {
  uint2 v = {0, 0};
  if (there) emu_aligned(p, 8), v = *(const uint2 *)p;
  a = v.x, b = v.y;
}
inline float emu_max_nan(float a, float b) {
  if (a != a || b != b) return __int_as_float(0x7fffffff);
  if (a == b) return __int_as_float(__float_as_int(a) & __float_as_int(b)); /* +0 is more than -0 */
  return a > b ? a : b;
}
