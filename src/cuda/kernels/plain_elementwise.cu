// SPDX-License-Identifier: Apache-2.0
// y = fn(x0, x1, x2) of broadcast operands. Defined: FN, Y_TYPE, X0_TYPE ... (P_NONE: left out), COMPUTE (float, double or
// i64).

struct ElementwiseArgs {
  char *y;
  const char *x[3];
  double attr[2];
  i64 fill[2];  // an operand that is left out, in i64
  i64 step[3];  // of an operand within a group: 0 or 1
  Walk walk;    // y, x0, x1, x2
};

template <int T, int N>
__device__ __forceinline__ void load_group(const char *base, i64 at, i64 step, COMPUTE (&to)[N]) {
  if (N == 1 || step == 0) {
    COMPUTE one = load<T, COMPUTE>(base, at);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = one;
    return;
  }
  Pack<T, N> pack = *(const Pack<T, N> *)((const typename Element<T>::type *)base + at);
#pragma unroll
  for (int i = 0; i < N; i++) to[i] = decode<T, COMPUTE>(pack.at[i]);
}

// What stands for a bound of clip that is left out.
__device__ __forceinline__ void fill_in(const ElementwiseArgs &a, int k, float &x) { x = (float)a.attr[k]; }
__device__ __forceinline__ void fill_in(const ElementwiseArgs &a, int k, double &x) { x = a.attr[k]; }
__device__ __forceinline__ void fill_in(const ElementwiseArgs &a, int k, i64 &x) { x = a.fill[k]; }

// Groups of N neighbours along the last axis.
template <int N>
__device__ __forceinline__ void run(const ElementwiseArgs &a) {
  const COMPUTE attr[2] = {(COMPUTE)a.attr[0], (COMPUTE)a.attr[1]};
  for (i64 index = first_index(); index < a.walk.count; index += index_step()) {
    i64 at[WALK_VIEWS];
    COMPUTE x[3][N];
    locate(a.walk, index, at);
    load_group<X0_TYPE>(a.x[0], at[1], a.step[0], x[0]);
#pragma unroll
    for (int i = 0; i < N; i++) {
      fill_in(a, 0, x[1][i]);
      fill_in(a, 1, x[2][i]);
    }
    if constexpr (X1_TYPE != P_NONE) load_group<X1_TYPE>(a.x[1], at[2], a.step[1], x[1]);
    if constexpr (X2_TYPE != P_NONE) load_group<X2_TYPE>(a.x[2], at[3], a.step[2], x[2]);
    Pack<Y_TYPE, N> y;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const COMPUTE operand[3] = {x[0][i], x[1][i], x[2][i]};
      y.at[i] = encode<Y_TYPE>(apply<FN>(operand, attr));
    }
    *(Pack<Y_TYPE, N> *)((typename Element<Y_TYPE>::type *)a.y + at[0]) = y;
  }
}

extern "C" __global__ void __launch_bounds__(256) elementwise(const ElementwiseArgs a) { run<1>(a); }
extern "C" __global__ void __launch_bounds__(256) elementwise_4(const ElementwiseArgs a) { run<4>(a); }
