// SPDX-License-Identifier: Apache-2.0
// Windows over up to three spatial axes, a thread an output. Defined: TYPE, COMPUTE (of the maximum; float or double).

struct PoolArgs {
  char *y;
  const char *x;
  i64 count;                       // outputs
  i64 shape[5];                    // N, C, D, H, W of y
  i64 y_stride[5], x_stride[5];
  i64 size[3], kernel[3], stride[3], dilation[3], begin[3], end[3]; // of x, of the window
  i64 include_pad;
  i64 divisor; // 0: what a window counts
};

// The taps of an output along one axis that lie in x, and how many an average counts there.
struct Taps {
  i64 at, step, count, counted;
};

// How many of `kernel` positions start, start + dilation, ... lie before `limit`.
__device__ __forceinline__ i64 count_taps(const PoolArgs &a, int axis, i64 start, i64 limit) {
  if (start >= limit) return 0;
  i64 dilation = a.dilation[axis];
  i64 count = dilation == 1 ? limit - start : divide(limit - start + dilation - 1, dilation);
  return count < a.kernel[axis] ? count : a.kernel[axis];
}

// The padding belongs to an average with include_pad; what lies behind it never does.
__device__ __forceinline__ Taps find_taps(const PoolArgs &a, int axis, i64 o) {
  i64 start = o * a.stride[axis] - a.begin[axis];
  i64 before = count_taps(a, axis, start, 0);
  Taps t;
  t.step = a.dilation[axis] * a.x_stride[2 + axis];
  t.at = start * a.x_stride[2 + axis] + before * t.step;
  t.count = count_taps(a, axis, start, a.size[axis]) - before;
  t.counted = a.include_pad ? count_taps(a, axis, start, a.size[axis] + a.end[axis]) : t.count;
  return t;
}

template <class C, bool AVERAGE>
__device__ __forceinline__ void pool(const PoolArgs &a) {
  for (i64 index = first_index(); index < a.count; index += index_step()) {
    i64 o[5], rest = index;
#pragma unroll
    for (int k = 4; k > 0; k--) {
      i64 quotient = divide(rest, a.shape[k]);
      o[k] = rest - quotient * a.shape[k];
      rest = quotient;
    }
    o[0] = rest;
    const Taps d = find_taps(a, 0, o[2]), h = find_taps(a, 1, o[3]), w = find_taps(a, 2, o[4]);
    const i64 base = o[0] * a.x_stride[0] + o[1] * a.x_stride[1] + d.at + h.at + w.at;
    C result = AVERAGE ? (C)0 : -(C)INF;
    for (i64 i = 0; i < d.count; i++)
      for (i64 j = 0; j < h.count; j++) {
        i64 at = base + i * d.step + j * h.step;
        for (i64 k = 0; k < w.count; k++, at += w.step) {
          C x = load<TYPE, C>(a.x, at);
          if (AVERAGE) result += x;
          else result = result != result || result > x ? result : x;
        }
      }
    if (AVERAGE) result = result / (a.divisor ? (C)a.divisor : (C)d.counted * (C)h.counted * (C)w.counted);
    i64 to = 0;
#pragma unroll
    for (int k = 0; k < 5; k++) to += o[k] * a.y_stride[k];
    store<TYPE>(a.y, to, result);
  }
}

extern "C" __global__ void __launch_bounds__(256) pool_max(const PoolArgs a) { pool<COMPUTE, false>(a); }
extern "C" __global__ void __launch_bounds__(256) pool_average(const PoolArgs a) { pool<double, true>(a); }
