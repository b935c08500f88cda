// SPDX-License-Identifier: Apache-2.0
// Reductions in float64. A group of threads shares an output; where outputs are few, several blocks share one too and their
// partial results are combined by a second kernel, in a fixed order. Defined: TYPE, KIND.

enum {
  REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_LOG_SUM_EXP, REDUCE_SUM_SQUARE, REDUCE_L1, REDUCE_L2,
  REDUCE_PROD, REDUCE_LOG_SUM,
  REDUCE_SOFTMAX,  // writes statistics: the maximum, and the sum of exp(x - maximum) or its logarithm
  REDUCE_CENTRE,   // writes statistics: the mean
  REDUCE_DEVIATION // reads them, adds the factor of x - mean and the bias
};

enum { BLOCK = 256, STATISTICS = 3 };

struct ReduceArgs {
  char *y;             // NULL: statistics
  const char *x;
  double *partial;     // State of each split of each output; unused when there is one split
  double *statistics;  // STATISTICS numbers an output
  const char *scale, *bias; // of instance norm
  i64 channels, scale_stride, bias_stride;
  double epsilon;
  i64 log;
  i64 outputs, reduced, splits, group;
  i64 along_kept;      // neighbouring threads have neighbouring outputs
  Walk kept;           // y, x
  Walk inner;          // x
};

// The running result, and for exponentials the sum relative to it.
struct State {
  double value, sum;
};

__device__ __forceinline__ double larger(double a, double b) { return a != a || a > b ? a : b; }
__device__ __forceinline__ double smaller(double a, double b) { return a != a || a < b ? a : b; }

constexpr bool exponential = KIND == REDUCE_LOG_SUM_EXP || KIND == REDUCE_SOFTMAX;

__device__ __forceinline__ State start() {
  const double inf = (double)INF;
  State s;
  s.value = KIND == REDUCE_MAX || exponential ? -inf : KIND == REDUCE_MIN ? inf : KIND == REDUCE_PROD ? 1.0 : 0.0;
  s.sum = 0;
  return s;
}

__device__ __forceinline__ void add(State &s, double x, double shift) {
  if constexpr (KIND == REDUCE_MAX) s.value = larger(s.value, x);
  else if constexpr (KIND == REDUCE_MIN) s.value = smaller(s.value, x);
  else if constexpr (KIND == REDUCE_PROD) s.value *= x;
  else if constexpr (KIND == REDUCE_L1) s.value += fabs(x);
  else if constexpr (KIND == REDUCE_L2 || KIND == REDUCE_SUM_SQUARE) s.value += x * x;
  else if constexpr (KIND == REDUCE_DEVIATION) s.value += (x - shift) * (x - shift);
  else if constexpr (exponential) {
    if (x <= s.value) {
      // a logarithm of a sum near 1 keeps what float would lose
      if (finite(x)) s.sum += KIND == REDUCE_SOFTMAX ? exp_difference<TYPE>(x, s.value) : exp(x - s.value);
    } else {
      // the first, a larger one, or a NaN, after which the sum means nothing
      s.sum = finite(s.value) ? s.sum * exp(s.value - x) + 1 : 1;
      s.value = larger(s.value, x);
    }
  } else s.value += x;
}

__device__ __forceinline__ void combine(State &s, const State &t) {
  if constexpr (KIND == REDUCE_MAX) s.value = larger(s.value, t.value);
  else if constexpr (KIND == REDUCE_MIN) s.value = smaller(s.value, t.value);
  else if constexpr (KIND == REDUCE_PROD) s.value *= t.value;
  else if constexpr (exponential) {
    const double most = larger(s.value, t.value);
    const double a = finite(s.value) ? s.sum * exp(s.value - most) : 0, b = finite(t.value) ? t.sum * exp(t.value - most) : 0;
    s.value = most;
    s.sum = a + b;
  } else s.value += t.value;
}

__device__ __forceinline__ double result_of(const State &s, i64 reduced) {
  if constexpr (KIND == REDUCE_MEAN) return s.value / (double)reduced;
  else if constexpr (KIND == REDUCE_L2) return sqrt(s.value);
  else if constexpr (KIND == REDUCE_LOG_SUM) return log(s.value);
  else if constexpr (KIND == REDUCE_LOG_SUM_EXP) return finite(s.value) ? s.value + log(s.sum) : s.value;
  else return s.value;
}

__device__ __forceinline__ void finish(const ReduceArgs &a, i64 output, const State &s) {
  double *statistics = a.statistics + output * STATISTICS;
  if constexpr (KIND == REDUCE_SOFTMAX) {
    statistics[0] = s.value;
    statistics[1] = a.log ? log(s.sum) : s.sum;
  } else if constexpr (KIND == REDUCE_CENTRE) {
    statistics[0] = s.value / (double)a.reduced;
  } else if constexpr (KIND == REDUCE_DEVIATION) {
    const i64 channel = output - divide(output, a.channels) * a.channels;
    const double scale = load<SCALE_TYPE, double>(a.scale, channel * a.scale_stride);
    statistics[1] = scale / sqrt(s.value / (double)a.reduced + a.epsilon);
    statistics[2] = load<BIAS_TYPE, double>(a.bias, channel * a.bias_stride);
  } else {
    i64 at[2];
    double y = result_of(s, a.reduced);
    // of nothing: the smallest, the largest
    if (TYPE == P_BOOL && !finite(y) && y == y) y = y > 0;
    locate(a.kept, output, at);
    store<TYPE>(a.y, at[0], y);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) reduce(const ReduceArgs a) {
  __shared__ State shared[BLOCK];
  const int group = (int)a.group, each = BLOCK / group;
  const int lane = a.along_kept ? threadIdx.x / each : threadIdx.x % group;
  const int mine = a.along_kept ? threadIdx.x % each : threadIdx.x / group;
  const i64 sets = divide(a.outputs + each - 1, each), share = divide(a.reduced + a.splits - 1, a.splits);
  for (i64 block = blockIdx.x; block < sets * a.splits; block += gridDim.x) {
    const i64 split = divide(block, sets), output = (block - split * sets) * each + mine;
    State s = start();
    if (output < a.outputs) {
      i64 place[2], end = (split + 1) * share < a.reduced ? (split + 1) * share : a.reduced;
      double shift = KIND == REDUCE_DEVIATION ? a.statistics[output * STATISTICS] : 0;
      locate(a.kept, output, place);
      for (i64 r = split * share + lane; r < end; r += group) {
        i64 at[1];
        locate(a.inner, r, at);
        add(s, load<TYPE, double>(a.x, place[1] + at[0]), shift);
      }
    }
    shared[threadIdx.x] = s;
    const int stride = a.along_kept ? each : 1;
    for (int half = group / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) combine(shared[threadIdx.x], shared[threadIdx.x + half * stride]);
    }
    if (lane == 0 && output < a.outputs) {
      if (a.splits == 1) finish(a, output, shared[threadIdx.x]);
      else ((State *)a.partial)[split * a.outputs + output] = shared[threadIdx.x];
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) reduce_combine(const ReduceArgs a) {
  for (i64 output = first_index(); output < a.outputs; output += index_step()) {
    State s = ((const State *)a.partial)[output];
    for (i64 split = 1; split < a.splits; split++) combine(s, ((const State *)a.partial)[split * a.outputs + output]);
    finish(a, output, s);
  }
}
