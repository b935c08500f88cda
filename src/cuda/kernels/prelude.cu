// SPDX-License-Identifier: Apache-2.0
// What every generated kernel begins with: views of tensors, conversions, and the operators' formulas.
// No CUDA header is needed; conversions to and from 16-bit types are PTX.

typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#define INF __int_as_float(0x7f800000)

enum { F32 = 0, F16 = 1, BF16 = 2 };

__device__ __forceinline__ constexpr int size_of(int type) { return type == F32 ? 4 : 2; }

// A tensor whose element (n, c, d, h, w) of the whole lies at origin + n * stride[0] + ...; stride 0 where broadcast. It
// holds elements [begin, end) along c, d, h and w: tiles may ask for more.
struct View {
  char *origin;
  i64 stride[5];
  int begin[4], end[4];
};

__device__ __forceinline__ bool holds(const View &v, int c, int d, int h, int w) {
  return (c >= v.begin[0]) & (c < v.end[0]) & (d >= v.begin[1]) & (d < v.end[1]) & (h >= v.begin[2]) & (h < v.end[2]) &
         (w >= v.begin[3]) & (w < v.end[3]);
}

__device__ __forceinline__ i64 view_index(const View &v, int n, int c, int d, int h, int w) {
  // the channel last: what neighbouring channels of one position share is then one subexpression
  return n * v.stride[0] + (d * v.stride[2] + h * v.stride[3] + w * v.stride[4]) + c * v.stride[1];
}

__device__ __forceinline__ float from_f16(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ u16 to_f16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ float from_bf16(u16 bits) { return __int_as_float((int)((u32)bits << 16)); }

// Round to nearest even; NaN stays a NaN.
__device__ __forceinline__ u16 to_bf16(float value) {
#if __CUDA_ARCH__ >= 800
  u16 converted;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(converted) : "f"(value));
  return converted;
#else
  u32 bits = (u32)__float_as_int(value);
  if (value != value) return 0x7fff;
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

#if __CUDA_ARCH__ >= 800
// The nearest TF32 number. Ties go to even where that is one instruction, else away from zero.
__device__ __forceinline__ u32 to_tf32(float value) {
  u32 bits;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#endif
  return bits;
}
#endif

// Two numbers of a 16-bit type in one word, the first in its lower half.
template <int TYPE>
__device__ __forceinline__ u32 to_pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 pair;
  if (TYPE == F16) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return TYPE == F16 ? to_f16(low) | (u32)to_f16(high) << 16 : to_bf16(low) | (u32)to_bf16(high) << 16;
#endif
}

template <int TYPE>
__device__ __forceinline__ float load_at(const char *base, i64 index) {
  if (TYPE == F32) return __ldg((const float *)base + index);
  u16 bits = __ldg((const u16 *)base + index);
  return TYPE == F16 ? from_f16(bits) : from_bf16(bits);
}

// The element, or 0 where there is none: a predicated load, so that many can be under way without a branch between them.
template <int TYPE>
__device__ __forceinline__ float load_if(bool there, const char *base, i64 index) {
  const char *from = base + index * size_of(TYPE);
  if (TYPE == F32) {
    float value;
    asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %2, 0;\n\tmov.f32 %0, 0f00000000;\n\t@p ld.global.nc.f32 %0, [%1];\n\t}"
        : "=f"(value) : "l"(from), "r"((int)there));
    return value;
  }
  u16 bits;
  asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %2, 0;\n\tmov.u16 %0, 0;\n\t@p ld.global.nc.u16 %0, [%1];\n\t}"
      : "=h"(bits) : "l"(from), "r"((int)there));
  return TYPE == F16 ? from_f16(bits) : from_bf16(bits);
}

__device__ __forceinline__ u32 load_bits_if(bool there, const u16 *from) {
  u32 bits; // a narrow load may have a wide register, and fills it with zeros
  asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %2, 0;\n\tmov.u32 %0, 0;\n\t@p ld.global.nc.u16 %0, [%1];\n\t}"
      : "=r"(bits) : "l"(from), "r"((int)there));
  return bits;
}

template <int TYPE>
__device__ __forceinline__ void store_at(char *base, i64 index, float value) {
  if (TYPE == F32) ((float *)base)[index] = value;
  else ((u16 *)base)[index] = TYPE == F16 ? to_f16(value) : to_bf16(value);
}

// ---- operators ----

__device__ __forceinline__ float max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return a != a || a > b ? a : b;
#endif
}
__device__ __forceinline__ float min_nan(float a, float b) { return -max_nan(-a, -b); }

__device__ __forceinline__ float op_relu(float x) { return x < 0 ? 0.0f : x; }
__device__ __forceinline__ float op_slopes(float x, float pos, float neg) { return x > 0 ? pos * x : neg * x; }
__device__ __forceinline__ float op_prelu(float x, float slope) { return x > 0 ? x : slope * x; }
__device__ __forceinline__ float op_elu(float x, float alpha) { return x > 0 ? x : alpha * expm1f(x); }
__device__ __forceinline__ float op_selu(float x, float alpha, float scale) {
  return scale * (x > 0 ? x : alpha * expm1f(x));
}
__device__ __forceinline__ float op_celu(float x, float alpha) { return x > 0 ? x : alpha * expm1f(x / alpha); }
__device__ __forceinline__ float op_softplus(float x, float beta, float threshold) {
  float bx = beta * x;
  return bx > threshold ? x : (bx > 0 ? bx + log1pf(expf(-bx)) : log1pf(expf(bx))) / beta;
}
__device__ __forceinline__ float op_softsign(float x) { return x / (1.0f + fabsf(x)); }
// x times the normal distribution; erfc keeps the relative accuracy of the negative tail.
__device__ __forceinline__ float op_gelu(float x) { return 0.5f * x * erfcf(-0.70710678118654752f * x); }
__device__ __forceinline__ float op_sigmoid(float x) {
  float e = expf(-fabsf(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}
// 0.5 x (1 + tanh(u)) is x sigmoid(2 u).
__device__ __forceinline__ float op_gelu_tanh(float x) {
  float u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
  return x * op_sigmoid(2.0f * u);
}
__device__ __forceinline__ float op_silu(float x) { return x * op_sigmoid(x); }
// tanh(softplus(x)) = n / (n + 2) with n = e^2x + 2 e^x; with e^-x where e^x would overflow.
__device__ __forceinline__ float op_mish(float x) {
  if (x != x) return x;
  float e = expf(-fabsf(x));
  float n = x < 0 ? e * (e + 2.0f) : 1.0f + 2.0f * e;
  return x * (n / (n + 2.0f * (x < 0 ? 1.0f : e * e)));
}
__device__ __forceinline__ float op_clamp(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}
__device__ __forceinline__ float op_hardswish(float x) { return x * op_clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f; }
__device__ __forceinline__ float op_hardsigmoid(float x, float slope, float offset) {
  return op_clamp(slope * x + offset, 0.0f, 1.0f);
}
__device__ __forceinline__ float op_batch_norm(float x, float weight, float bias, float mean, float var, float eps) {
  return (x - mean) / sqrtf(var + eps) * weight + bias;
}

// Elements of a window, which starts at `start`, that lie before `end`.
__device__ __forceinline__ int count_before(int start, int end, int dilation, int kernel) {
  int count = end > start ? (end - start + dilation - 1) / dilation : 0;
  return count < kernel ? count : kernel;
}

// Elements along one axis that output o of an average pooling window counts: those inside the value, or, with the
// padding, those inside the padded value.
__device__ __forceinline__ int window_count(int o, int stride, int kernel, int dilation, int pad, int pad_end, int size,
                                            bool padding) {
  const int start = o * stride - pad;
  if (padding) return count_before(start, size + pad_end, dilation, kernel);
  return count_before(start, size, dilation, kernel) - count_before(start, 0, dilation, kernel);
}

// N consecutive elements by one store.
template <int TYPE, int N>
__device__ __forceinline__ void store_together(char *to, const float *v) {
  enum { WORDS = N * size_of(TYPE) / 4 };
  u32 word[WORDS ? WORDS : 1];
#pragma unroll
  for (int i = 0; i < WORDS; i++)
    word[i] = TYPE == F32 ? (u32)__float_as_int(v[i]) : to_pair<TYPE>(v[2 * i % N], v[(2 * i + 1) % N]);
  if (WORDS == 1) *(u32 *)to = word[0];
  if (WORDS == 2) *(uint2 *)to = make_uint2(word[0], word[1 % WORDS]);
  if (WORDS == 4) *(uint4 *)to = make_uint4(word[0], word[1 % WORDS], word[2 % WORDS], word[3 % WORDS]);
}

// N consecutive elements along W, at most 16 bytes: one store where they are dense and aligned to their size (WHOLE), two where
// to half of it (HALVES).
enum { APART = 0, HALVES = 1, WHOLE = 2 };

template <int TYPE, int N>
__device__ __forceinline__ void store_run(char *base, int index, int stride, int width, const float (&v)[N]) {
  enum { HALF = N > 1 ? N / 2 : 1 };
  char *to = base + (i64)index * size_of(TYPE);
  if (N > 1 && width == WHOLE) {
    store_together<TYPE, N>(to, v);
  } else if (HALF > 1 && width == HALVES) {
    store_together<TYPE, HALF>(to, v);
    store_together<TYPE, HALF>(to + HALF * size_of(TYPE), v + HALF);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) store_at<TYPE>(base, index + i * stride, v[i]);
  }
}
