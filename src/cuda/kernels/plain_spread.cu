// SPDX-License-Identifier: Apache-2.0
// What follows a reduction: statistics meet every element again. Defined: TYPE, SPREAD; the types of a batch norm's vectors.

enum { SPREAD_SOFTMAX, SPREAD_LOG_SOFTMAX, SPREAD_AFFINE };

struct SpreadArgs {
  char *y;
  const char *x;
  const double *statistics; // three numbers each
  i64 step;                 // from those of an element of a group to the next one's
  Walk walk;                // y, x, statistics
};

__device__ __forceinline__ double spread_one(double x, const double *s) {
  if constexpr (SPREAD == SPREAD_AFFINE) return (x - s[0]) * s[1] + s[2];
  // an infinite maximum, or none that is a number: nor is the result
  if (!finite(s[0])) return s[0] - s[0];
  if constexpr (SPREAD == SPREAD_LOG_SOFTMAX) return x - s[0] - s[1];
  if constexpr (TYPE == P_F64) return exp_difference<TYPE>(x, s[0]) / s[1];
  return (float)exp_difference<TYPE>(x, s[0]) / (float)s[1];
}

template <int N>
__device__ __forceinline__ void spread(const SpreadArgs &a) {
  typedef typename Element<TYPE>::type type;
  for (i64 index = first_index(); index < a.walk.count; index += index_step()) {
    i64 at[3];
    locate(a.walk, index, at);
    Pack<TYPE, N> x = *(const Pack<TYPE, N> *)((const type *)a.x + at[1]), y;
#pragma unroll
    for (int i = 0; i < N; i++)
      y.at[i] = encode<TYPE>(spread_one(decode<TYPE, double>(x.at[i]), a.statistics + at[2] + i * a.step));
    *(Pack<TYPE, N> *)((type *)a.y + at[0]) = y;
  }
}

extern "C" __global__ void __launch_bounds__(256) spread_1(const SpreadArgs a) { spread<1>(a); }
extern "C" __global__ void __launch_bounds__(256) spread_4(const SpreadArgs a) { spread<4>(a); }

// The statistics of a batch norm: mean, factor, bias of each channel.
struct ChannelArgs {
  double *statistics;
  i64 channels;
  double epsilon;
  const char *scale, *bias, *mean, *variance;
  i64 stride[4];
};

extern "C" __global__ void __launch_bounds__(256) channels(const ChannelArgs a) {
  for (i64 c = first_index(); c < a.channels; c += index_step()) {
    double *s = a.statistics + 3 * c;
    s[0] = load<MEAN_TYPE, double>(a.mean, c * a.stride[2]);
    s[1] = load<SCALE_TYPE, double>(a.scale, c * a.stride[0]) /
           sqrt(load<VARIANCE_TYPE, double>(a.variance, c * a.stride[3]) + a.epsilon);
    s[2] = load<BIAS_TYPE, double>(a.bias, c * a.stride[1]);
  }
}
