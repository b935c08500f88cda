// SPDX-License-Identifier: Apache-2.0
// What the kernels of plain operations share: elements of any type, and the way from a number to the places of an element in
// several views. Types are numbered as uc_plain_dtype; structs are laid out as those of plain_parts.h.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned long long u64;

enum {
  P_NONE, P_F32, P_F16, P_BF16, P_F64, P_I8, P_U8, P_I16, P_U16, P_I32, P_U32, P_I64, P_U64, P_BOOL
};

// ---- types ----

template <int T> struct Element;
template <> struct Element<P_NONE> { typedef u8 type; };
template <> struct Element<P_F32> { typedef float type; };
template <> struct Element<P_F16> { typedef u16 type; };
template <> struct Element<P_BF16> { typedef u16 type; };
template <> struct Element<P_F64> { typedef double type; };
template <> struct Element<P_I8> { typedef i8 type; };
template <> struct Element<P_U8> { typedef u8 type; };
template <> struct Element<P_I16> { typedef i16 type; };
template <> struct Element<P_U16> { typedef u16 type; };
template <> struct Element<P_I32> { typedef int type; };
template <> struct Element<P_U32> { typedef u32 type; };
template <> struct Element<P_I64> { typedef i64 type; };
template <> struct Element<P_U64> { typedef u64 type; };
template <> struct Element<P_BOOL> { typedef u8 type; };

// N neighbours, which are one load or store where they fit 16 bytes.
template <int T, int N>
struct alignas(sizeof(typename Element<T>::type) * N < 16 ? sizeof(typename Element<T>::type) * N : 16) Pack {
  typename Element<T>::type at[N];
};

// What kernels compute in: float, double or i64.
template <int T, class C>
__device__ __forceinline__ C decode(typename Element<T>::type bits) {
  if constexpr (T == P_F16) return (C)from_f16(bits);
  else if constexpr (T == P_BF16) return (C)from_bf16(bits);
  else if constexpr (T == P_BOOL) return (C)(bits != 0);
  else return (C)bits;
}

// Rounded to odd, so that rounding once more, to 16 bits, is as good as rounding once.
__device__ __forceinline__ float to_odd(double value) {
  float cut = __double2float_rz(value);
  return (double)cut == value || value != value ? cut : __int_as_float(__float_as_int(cut) | 1);
}

// Truncated and saturated; NaN is 0.
template <class I>
__device__ __forceinline__ I to_integer(double value, double low, double high, I least, I most) {
  if (value != value) return 0;
  return value <= low ? least : value >= high ? most : (I)value;
}

template <int T>
__device__ __forceinline__ typename Element<T>::type encode(double value) {
  if constexpr (T == P_F32) return (float)value;
  else if constexpr (T == P_F64) return value;
  else if constexpr (T == P_F16) return to_f16(to_odd(value));
  else if constexpr (T == P_BF16) return to_bf16(to_odd(value));
  else if constexpr (T == P_BOOL) return value != 0;
  else if constexpr (T == P_I8) return (i8)to_integer<int>(value, -128.0, 127.0, -128, 127);
  else if constexpr (T == P_U8) return (u8)to_integer<int>(value, 0.0, 255.0, 0, 255);
  else if constexpr (T == P_I16) return (i16)to_integer<int>(value, -32768.0, 32767.0, -32768, 32767);
  else if constexpr (T == P_U16) return (u16)to_integer<int>(value, 0.0, 65535.0, 0, 65535);
  else if constexpr (T == P_I32)
    return to_integer<int>(value, -2147483648.0, 2147483647.0, -2147483647 - 1, 2147483647);
  else if constexpr (T == P_U32) return to_integer<u32>(value, 0.0, 4294967295.0, 0u, 4294967295u);
  else if constexpr (T == P_I64)
    return to_integer<i64>(value, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807LL - 1,
                           9223372036854775807LL);
  else return to_integer<u64>(value, 0.0, 18446744073709551616.0, 0ULL, 18446744073709551615ULL);
}

template <int T>
__device__ __forceinline__ typename Element<T>::type encode(float value) {
  if constexpr (T == P_F32) return value;
  else if constexpr (T == P_F16) return to_f16(value);
  else if constexpr (T == P_BF16) return to_bf16(value);
  else if constexpr (T == P_BOOL) return value != 0;
  else return encode<T>((double)value);
}

// Wraps around.
template <int T>
__device__ __forceinline__ typename Element<T>::type encode(i64 value) {
  if constexpr (T == P_BOOL) return value != 0;
  else return (typename Element<T>::type)value;
}

template <int T, class C>
__device__ __forceinline__ C load(const char *base, i64 at) {
  return decode<T, C>(((const typename Element<T>::type *)base)[at]);
}

template <int T, class C>
__device__ __forceinline__ void store(char *base, i64 at, C value) {
  ((typename Element<T>::type *)base)[at] = encode<T>(value);
}

// ---- exponentials ----

__device__ __forceinline__ bool finite(double x) { return x - x == 0; }

// exp(x - shift) of a finite shift. What float holds is computed in float, and the rounding of the difference put back.
template <int T>
__device__ __forceinline__ double exp_difference(double x, double shift) {
  if constexpr (T != P_F32 && T != P_F16 && T != P_BF16) return exp(x - shift);
  const float a = (float)x, b = -(float)shift, d = a + b;
  if (!finite(d)) return d < 0 ? 0.0 : (double)d;
  const float back = d - a, error = (a - (d - back)) + (b - back), e = expf(d);
  return e + e * error;
}

// ---- places ----

enum { RANK = 8, WALK_VIEWS = 4 };

// Joined axes of several views of one shape.
struct Walk {
  i64 count; // elements, or groups of neighbours
  i64 rank;  // at least 1
  i64 shape[RANK];
  i64 stride[WALK_VIEWS][RANK]; // in elements
};

__device__ __forceinline__ i64 divide(i64 a, i64 b) {
  return ((u64)a | (u64)b) >> 32 ? a / b : (i64)((u32)a / (u32)b);
}

// Offsets of element `index` in VIEWS views.
template <int VIEWS>
__device__ __forceinline__ void locate(const Walk &w, i64 index, i64 (&at)[VIEWS]) {
#pragma unroll
  for (int k = 0; k < VIEWS; k++) at[k] = 0;
#pragma unroll 1
  for (int a = (int)w.rank - 1; a > 0; a--) {
    i64 rest = divide(index, w.shape[a]), i = index - rest * w.shape[a];
#pragma unroll
    for (int k = 0; k < VIEWS; k++) at[k] += i * w.stride[k][a];
    index = rest;
  }
#pragma unroll
  for (int k = 0; k < VIEWS; k++) at[k] += index * w.stride[k][0];
}

__device__ __forceinline__ i64 first_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 index_step() { return (i64)gridDim.x * blockDim.x; }
