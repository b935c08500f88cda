/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise operators. Each is a function of vectors; map1 and map2 run it over rows. The
 * operator is chosen once a call. A scalar operand is a row of one vector that is read again and
 * again (step 0), so that every mix of scalars and rows runs the same instructions and gives the
 * same bits.
 */
#include "table.h"
#include "vecmath.h"

typedef struct operand {
  const float *at;
  int64_t step;
} operand;

/* Attributes as vectors. */
typedef struct attributes {
  vf a, b;
} attributes;

UC_INLINE operand open_operand(const uc_source *source, vf *fill) {
  if (source->vector) return (operand){source->vector, VL};
  *fill = vf_set(source->scalar);
  return (operand){(const float *)fill, 0};
}

UC_INLINE attributes open_attributes(const uc_elementwise *e) {
  return (attributes){vf_set(e->attr[0]), vf_set(e->attr[1])};
}

UC_INLINE void map1(const uc_elementwise *e, vf (*op)(vf x, attributes p)) {
  vf fill;
  operand x = open_operand(&e->operand[0], &fill);
  attributes p = open_attributes(e);
  float *dst = e->dst;
  for (int64_t left = e->n; left > 0; left -= VL, dst += VL, x.at += x.step)
    vf_store(dst, op(vf_load(x.at), p));
}

UC_INLINE void map2(const uc_elementwise *e, vf (*op)(vf x, vf y)) {
  vf fill[2];
  operand x = open_operand(&e->operand[0], &fill[0]);
  operand y = open_operand(&e->operand[1], &fill[1]);
  float *dst = e->dst;
  for (int64_t left = e->n; left > 0; left -= VL, dst += VL, x.at += x.step, y.at += y.step)
    vf_store(dst, op(vf_load(x.at), vf_load(y.at)));
}

UC_INLINE vf add(vf x, vf y) { return x + y; }
UC_INLINE vf subtract(vf x, vf y) { return x - y; }
UC_INLINE vf multiply(vf x, vf y) { return x * y; }
UC_INLINE vf divide(vf x, vf y) { return x / y; }

UC_INLINE vm is_positive(vf x) { return vm_greater(x, vf_set(0.0f)); }

UC_INLINE vf relu(vf x, attributes p) {
  (void)p;
  return vf_at_least(x, 0.0f);
}

UC_INLINE vf prelu(vf x, vf slope) { return vf_select(is_positive(x), x, slope * x); }
UC_INLINE vf leaky_relu(vf x, attributes p) { return prelu(x, p.a); }

UC_INLINE vf elu(vf x, attributes p) { return vf_select(is_positive(x), x, p.a * vf_expm1(x)); }
UC_INLINE vf selu(vf x, attributes p) { return p.b * elu(x, p); }
UC_INLINE vf celu(vf x, attributes p) {
  return vf_select(is_positive(x), x, p.a * vf_expm1(x / p.a));
}

UC_INLINE vf softplus(vf x, attributes p) {
  vf scaled = p.a * x;
  return vf_select(vm_greater(scaled, p.b), x, vf_softplus(scaled) / p.a);
}

/* beta = 1, as nearly always: the division is saved. */
UC_INLINE vf softplus_unit(vf x, attributes p) {
  return vf_select(vm_greater(x, p.b), x, vf_softplus(x));
}

UC_INLINE vf softsign(vf x, attributes p) {
  (void)p;
  return x / (1.0f + vf_abs(x));
}

UC_INLINE vf clamp(vf x, vf low, vf high) { return vf_smaller(high, vf_greater(low, x)); }
UC_INLINE vf clamp_to(vf x, attributes p) { return clamp(x, p.a, p.b); }

/* 6 / 6 is 1 in this order, so large x cannot overflow. */
UC_INLINE vf hardswish(vf x, attributes p) {
  (void)p;
  return x * (clamp(x + 3.0f, vf_set(0.0f), vf_set(6.0f)) * (1.0f / 6.0f));
}

UC_INLINE vf hardsigmoid(vf x, attributes p) {
  return clamp(p.a * x + p.b, vf_set(0.0f), vf_set(1.0f));
}

UC_INLINE vf gelu(vf x, attributes p) {
  (void)p;
  return vf_gelu(x);
}

UC_INLINE vf gelu_tanh(vf x, attributes p) {
  (void)p;
  return vf_gelu_tanh(x);
}

UC_INLINE vf silu(vf x, attributes p) {
  (void)p;
  return vf_silu(x);
}

UC_INLINE vf mish(vf x, attributes p) {
  (void)p;
  return vf_mish(x);
}

UC_INLINE vf sigmoid(vf x, attributes p) {
  (void)p;
  return vf_sigmoid(x);
}

UC_INLINE vf hyperbolic_tangent(vf x, attributes p) {
  (void)p;
  return vf_tanh(x);
}

UC_INLINE vf absolute(vf x, attributes p) {
  (void)p;
  return vf_abs(x);
}

UC_INLINE vf negate(vf x, attributes p) {
  (void)p;
  return -x;
}

UC_INLINE vf square_root(vf x, attributes p) {
  (void)p;
  return vf_sqrt(x);
}

UC_INLINE vf exponential(vf x, attributes p) {
  (void)p;
  return vf_exp(x);
}

static void two_slope(const uc_elementwise *e) {
  vf fill[3];
  operand x = open_operand(&e->operand[0], &fill[0]);
  operand above = open_operand(&e->operand[1], &fill[1]);
  operand below = open_operand(&e->operand[2], &fill[2]);
  float *dst = e->dst;
  for (int64_t left = e->n; left > 0; left -= VL, dst += VL) {
    vf value = vf_load(x.at);
    vf slope = vf_select(is_positive(value), vf_load(above.at), vf_load(below.at));
    vf_store(dst, value * slope);
    x.at += x.step;
    above.at += above.step;
    below.at += below.step;
  }
}

UC_INLINE vf norm_scale(vf weight, vf variance, vf epsilon) {
  return weight / vf_sqrt(variance + epsilon);
}

/* Weight and variance are numbers almost always: their quotient is then computed once. */
static void batch_norm(const uc_elementwise *e) {
  vf fill[UPCONV_MAX_OPERANDS];
  operand in[UPCONV_MAX_OPERANDS]; /* value, weight, bias, mean, variance */
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) in[i] = open_operand(&e->operand[i], &fill[i]);
  vf epsilon = vf_set(e->attr[0]);
  vf scale = norm_scale(vf_load(in[1].at), vf_load(in[4].at), epsilon);
  float *dst = e->dst;
  for (int64_t left = e->n; left > 0; left -= VL, dst += VL) {
    if (in[1].step + in[4].step) scale = norm_scale(vf_load(in[1].at), vf_load(in[4].at), epsilon);
    vf_store(dst, (vf_load(in[0].at) - vf_load(in[3].at)) * scale + vf_load(in[2].at));
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) in[i].at += in[i].step;
  }
}

static void activation(const uc_elementwise *e) {
  switch (e->kind) {
  case UPCONV_OP_RELU:
    map1(e, relu);
    break;
  case UPCONV_OP_LEAKY_RELU:
    map1(e, leaky_relu);
    break;
  case UPCONV_OP_ELU:
    map1(e, elu);
    break;
  case UPCONV_OP_SELU:
    map1(e, selu);
    break;
  case UPCONV_OP_CELU:
    map1(e, celu);
    break;
  case UPCONV_OP_SOFTPLUS:
    if (e->attr[0] == 1.0f)
      map1(e, softplus_unit);
    else
      map1(e, softplus);
    break;
  case UPCONV_OP_SOFTSIGN:
    map1(e, softsign);
    break;
  case UPCONV_OP_GELU:
    map1(e, gelu);
    break;
  case UPCONV_OP_GELU_TANH:
    map1(e, gelu_tanh);
    break;
  case UPCONV_OP_SILU:
    map1(e, silu);
    break;
  case UPCONV_OP_MISH:
    map1(e, mish);
    break;
  case UPCONV_OP_HARDSWISH:
    map1(e, hardswish);
    break;
  case UPCONV_OP_HARDSIGMOID:
    map1(e, hardsigmoid);
    break;
  case UPCONV_OP_CLAMP:
    map1(e, clamp_to);
    break;
  case UPCONV_OP_SIGMOID:
    map1(e, sigmoid);
    break;
  case UPCONV_OP_TANH:
    map1(e, hyperbolic_tangent);
    break;
  case UPCONV_OP_ABS:
    map1(e, absolute);
    break;
  case UPCONV_OP_NEG:
    map1(e, negate);
    break;
  case UPCONV_OP_SQRT:
    map1(e, square_root);
    break;
  case UPCONV_OP_EXP:
    map1(e, exponential);
    break;
  default:
    break;
  }
}

void uc_name(elementwise)(const uc_elementwise *e) {
  switch (e->kind) {
  case UPCONV_OP_ADD:
    map2(e, add);
    break;
  case UPCONV_OP_SUB:
    map2(e, subtract);
    break;
  case UPCONV_OP_MUL:
    map2(e, multiply);
    break;
  case UPCONV_OP_DIV:
    map2(e, divide);
    break;
  case UPCONV_OP_PRELU:
    map2(e, prelu);
    break;
  case UPCONV_OP_TWO_SLOPE:
    two_slope(e);
    break;
  case UPCONV_OP_BATCH_NORM:
    batch_norm(e);
    break;
  default:
    activation(e);
    break;
  }
}
