// SPDX-License-Identifier: Apache-2.0
// Scalar functions, numbered as uc_plain_fn, in float, double and i64. An epilogue's have its formulas (prelude.cu); those
// that the CPU computes in float64 alone are computed so here too.

enum {
  FN_NONE, FN_ADD, FN_SUB, FN_MUL, FN_DIV, FN_POW, FN_MAX, FN_MIN, FN_PRELU, FN_EQUAL, FN_GREATER, FN_LESS,
  FN_GREATER_EQUAL, FN_LESS_EQUAL, FN_AND, FN_OR, FN_XOR, FN_WHERE, FN_CLIP, FN_CAST, FN_NOT, FN_RELU, FN_LEAKY_RELU,
  FN_ELU, FN_SELU, FN_CELU, FN_SOFTPLUS, FN_SOFTSIGN, FN_GELU, FN_GELU_TANH, FN_SILU, FN_MISH, FN_HARDSWISH,
  FN_HARDSIGMOID, FN_SIGMOID, FN_TANH, FN_ABS, FN_NEG, FN_SQRT, FN_EXP, FN_LOG, FN_ERF, FN_RECIPROCAL, FN_FLOOR, FN_CEIL,
  FN_ROUND, FN_SIGN, FN_SIN, FN_COS
};

// Comparisons are written so that NaN stays NaN.
template <class C>
__device__ __forceinline__ C clip(C x, C low, C high) {
  if (x < low) x = low;
  return x > high ? high : x;
}

// What has one formula in all types; known: whether there is one.
template <int FN, class C>
__device__ __forceinline__ C simple(const C (&x)[3], bool &known) {
  known = true;
  switch (FN) {
    case FN_MAX: return x[0] != x[0] || x[0] > x[1] ? x[0] : x[1];
    case FN_MIN: return x[0] != x[0] || x[0] < x[1] ? x[0] : x[1];
    case FN_EQUAL: return x[0] == x[1];
    case FN_GREATER: return x[0] > x[1];
    case FN_LESS: return x[0] < x[1];
    case FN_GREATER_EQUAL: return x[0] >= x[1];
    case FN_LESS_EQUAL: return x[0] <= x[1];
    case FN_AND: return x[0] != 0 && x[1] != 0;
    case FN_OR: return x[0] != 0 || x[1] != 0;
    case FN_XOR: return (x[0] != 0) != (x[1] != 0);
    case FN_WHERE: return x[0] != 0 ? x[1] : x[2];
    case FN_CLIP: return clip(x[0], x[1], x[2]);
    case FN_CAST: return x[0];
    case FN_NOT: return x[0] == 0;
    case FN_RELU: return x[0] < 0 ? (C)0 : x[0];
    case FN_SIGN: return x[0] > 0 ? (C)1 : x[0] < 0 ? (C)-1 : x[0];
  }
  known = false;
  return 0;
}

// The arithmetic of floating point that is the same in both types.
template <int FN, class C>
__device__ __forceinline__ C arithmetic(const C (&x)[3], const C (&attr)[2], bool &known) {
  known = true;
  switch (FN) {
    case FN_ADD: return x[0] + x[1];
    case FN_SUB: return x[0] - x[1];
    case FN_MUL: return x[0] * x[1];
    case FN_DIV: return x[0] / x[1];
    case FN_PRELU: return x[0] < 0 ? x[0] * x[1] : x[0];
    case FN_LEAKY_RELU: return x[0] < 0 ? attr[0] * x[0] : x[0];
    case FN_SOFTSIGN: return x[0] / (1 + (x[0] < 0 ? -x[0] : x[0]));
    case FN_HARDSWISH: return x[0] * clip(x[0] + 3, (C)0, (C)6) / 6;
    case FN_HARDSIGMOID: return clip(attr[0] * x[0] + attr[1], (C)0, (C)1);
    case FN_NEG: return -x[0];
    case FN_RECIPROCAL: return 1 / x[0];
  }
  known = false;
  return 0;
}

template <int FN>
__device__ __forceinline__ double apply(const double (&operand)[3], const double (&attr)[2]) {
  bool known;
  double y = simple<FN>(operand, known);
  if (known) return y;
  y = arithmetic<FN>(operand, attr, known);
  if (known) return y;
  const double x = operand[0];
  switch (FN) {
    case FN_POW: return operand[1] == 2 ? x * x : pow(x, operand[1]);
    case FN_ELU: return x > 0 ? x : attr[0] * expm1(x);
    case FN_SELU: return attr[1] * (x > 0 ? x : attr[0] * expm1(x));
    case FN_CELU: return x > 0 ? x : attr[0] * expm1(x / attr[0]);
    case FN_SOFTPLUS:
      if (attr[0] * x > attr[1]) return x;
      return (fmax(attr[0] * x, 0.0) + log1p(exp(-fabs(attr[0] * x)))) / attr[0];
    case FN_GELU: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case FN_GELU_TANH: return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case FN_SILU: return x / (1 + exp(-attr[0] * x));
    case FN_MISH: return x * tanh(fmax(x, 0.0) + log1p(exp(-fabs(x))));
    case FN_SIGMOID: return 1 / (1 + exp(-x));
    case FN_TANH: return tanh(x);
    case FN_ABS: return fabs(x);
    case FN_SQRT: return sqrt(x);
    case FN_EXP: return exp(x);
    case FN_LOG: return log(x);
    case FN_ERF: return erf(x);
    case FN_FLOOR: return floor(x);
    case FN_CEIL: return ceil(x);
    case FN_ROUND: return rint(x);
    case FN_SIN: return sin(x);
    case FN_COS: return cos(x);
  }
  return x;
}

template <int FN>
__device__ __forceinline__ float apply(const float (&operand)[3], const float (&attr)[2]) {
  bool known;
  float y = simple<FN>(operand, known);
  if (known) return y;
  y = arithmetic<FN>(operand, attr, known);
  if (known) return y;
  const float x = operand[0];
  switch (FN) {
    case FN_POW: return operand[1] == 2 ? x * x : (float)pow((double)x, (double)operand[1]);
    case FN_ELU: return op_elu(x, attr[0]);
    case FN_SELU: return op_selu(x, attr[0], attr[1]);
    case FN_CELU: return op_celu(x, attr[0]);
    case FN_SOFTPLUS: return op_softplus(x, attr[0], attr[1]);
    case FN_GELU: return op_gelu(x);
    case FN_GELU_TANH: return op_gelu_tanh(x);
    case FN_SILU: return x * op_sigmoid(attr[0] * x);
    case FN_MISH: return op_mish(x);
    case FN_SIGMOID: return op_sigmoid(x);
    case FN_TANH: return tanhf(x);
    case FN_ABS: return fabsf(x);
    case FN_SQRT: return sqrtf(x);
    case FN_EXP: return expf(x);
    case FN_LOG: return (float)log((double)x);
    case FN_ERF: return (float)erf((double)x);
    case FN_FLOOR: return floorf(x);
    case FN_CEIL: return ceilf(x);
    case FN_ROUND: return rintf(x);
    case FN_SIN: return (float)sin((double)x);
    case FN_COS: return (float)cos((double)x);
  }
  return x;
}

// ---- integers ----

// Unsigned arithmetic wraps around where signed would be undefined.
__device__ __forceinline__ i64 divide_integers(i64 a, i64 b) {
  if (b == 0) return 0;
  return b == -1 ? (i64)(0 - (u64)a) : a / b;
}

__device__ __forceinline__ i64 power(i64 a, i64 b) {
  u64 result = 1, base = (u64)a;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (; b > 0; b /= 2, base *= base)
    if (b % 2) result *= base;
  return (i64)result;
}

template <int FN>
__device__ __forceinline__ i64 apply(const i64 (&x)[3], const i64 (&)[2]) {
  bool known;
  i64 y = simple<FN>(x, known);
  if (known) return y;
  switch (FN) {
    case FN_ADD: return (i64)((u64)x[0] + (u64)x[1]);
    case FN_SUB: return (i64)((u64)x[0] - (u64)x[1]);
    case FN_MUL: return (i64)((u64)x[0] * (u64)x[1]);
    case FN_DIV: return divide_integers(x[0], x[1]);
    case FN_POW: return power(x[0], x[1]);
    case FN_ABS: return x[0] < 0 ? (i64)(0 - (u64)x[0]) : x[0];
    case FN_NEG: return (i64)(0 - (u64)x[0]);
  }
  return 0;
}
