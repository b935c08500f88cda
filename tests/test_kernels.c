/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise kernels and functions of vectors, every instruction set that this machine runs,
 * against libm in float64: one float in 257 of all there are.
 */
// timeout: 300

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/isa.h"
#include "cpu/kernels/vecmath.h" /* the base dialect, for functions that no operator shows alone */

enum { BLOCK = 4096, MAX_ISAS = 4 };

/* A build without optimisation is many times slower. */
#if defined(__OPTIMIZE__)
enum { SWEEP_STEP = 257 };
#else
enum { SWEEP_STEP = 4099 };
#endif

static float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The distance in units of the last place of the right result; infinity stands for 2^128. */
static double ulps_off(float got, double right) {
  if (isnan(right) || isnan(got)) return isnan(right) && isnan(got) ? 0 : INFINITY;
  if (fabs(right) > 0x1p128) right = copysign(0x1p128, right);
  int exponent;
  frexp(right, &exponent);
  double ulp = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
  double value = isinf(got) ? copysign(0x1p128, got) : (double)got;
  return fabs(value - right) / ulp;
}

/* ---- formulas ---- */

typedef struct function {
  upconv_op_kind kind;
  double (*formula)(double x, const double *attr);
  double limit; /* ulps that are allowed */
  double attr[UPCONV_MAX_ATTRS];
} function;

static double f_relu(double x, const double *a) { return (void)a, x < 0 ? 0 : x; }
static double f_leaky(double x, const double *a) { return x > 0 ? x : a[0] * x; }
static double f_elu(double x, const double *a) { return x > 0 ? x : a[0] * expm1(x); }
static double f_selu(double x, const double *a) { return a[1] * f_elu(x, a); }
static double f_celu(double x, const double *a) { return x > 0 ? x : a[0] * expm1(x / a[0]); }
static double f_softplus(double x, const double *a) {
  double z = a[0] * x;
  if (isnan(z) || z > a[1]) return x;
  return (fmax(z, 0) + log1p(exp(-fabs(z)))) / a[0];
}
static double f_softsign(double x, const double *a) { return (void)a, x / (1 + fabs(x)); }
static double f_gelu(double x, const double *a) { return (void)a, 0.5 * x * erfc(-x * sqrt(0.5)); }
static double f_gelu_tanh(double x, const double *a) {
  (void)a;
  double z = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
  return x / (1 + exp(-2 * z));
}
static double f_silu(double x, const double *a) { return (void)a, x / (1 + exp(-x)); }
static double f_mish(double x, const double *a) {
  (void)a;
  double t = exp(x), p = t * (t + 2);
  return x > 40 ? x : x * (p / (p + 2));
}
static double f_hardswish(double x, const double *a) {
  (void)a;
  return isnan(x) ? x : x * (fmin(fmax((double)((float)x + 3.0f), 0), 6) / 6);
}
static double f_hardsigmoid(double x, const double *a) {
  return isnan(x) ? x : fmin(fmax((double)(float)(a[0] * x + a[1]), 0), 1);
}
static double f_clamp(double x, const double *a) {
  return isnan(x) ? x : fmin(fmax(x, a[0]), a[1]);
}
static double f_sigmoid(double x, const double *a) { return (void)a, 1 / (1 + exp(-x)); }
static double f_tanh(double x, const double *a) { return (void)a, tanh(x); }
static double f_abs(double x, const double *a) { return (void)a, fabs(x); }
static double f_neg(double x, const double *a) { return (void)a, -x; }
static double f_sqrt(double x, const double *a) { return (void)a, sqrt(x); }
static double f_exp(double x, const double *a) { return (void)a, exp(x); }

static const function functions[] = {
    {UPCONV_OP_RELU, f_relu, 0, {0}},
    {UPCONV_OP_LEAKY_RELU, f_leaky, 0.5, {(double)0.3f}},
    {UPCONV_OP_ELU, f_elu, 2, {1}},
    {UPCONV_OP_ELU, f_elu, 2, {(double)0.3f}},
    {UPCONV_OP_SELU, f_selu, 3, {(double)1.67326324f, (double)1.05070098f}},
    {UPCONV_OP_CELU, f_celu, 2.5, {2}},
    {UPCONV_OP_SOFTPLUS, f_softplus, 2, {1, 20}},
    {UPCONV_OP_SOFTPLUS, f_softplus, 2, {0.5, INFINITY}},
    {UPCONV_OP_SOFTSIGN, f_softsign, 1.6, {0}},
    {UPCONV_OP_GELU, f_gelu, 5.5, {0}},
    {UPCONV_OP_GELU_TANH, f_gelu_tanh, 2.5, {0}},
    {UPCONV_OP_SILU, f_silu, 2.5, {0}},
    {UPCONV_OP_MISH, f_mish, 4.5, {0}},
    {UPCONV_OP_HARDSWISH, f_hardswish, 2, {0}},
    {UPCONV_OP_HARDSIGMOID, f_hardsigmoid, 0, {0.25, 0.5}},
    {UPCONV_OP_CLAMP, f_clamp, 0, {-1.5, 2.5}},
    {UPCONV_OP_SIGMOID, f_sigmoid, 2, {0}},
    {UPCONV_OP_TANH, f_tanh, 2, {0}},
    {UPCONV_OP_ABS, f_abs, 0, {0}},
    {UPCONV_OP_NEG, f_neg, 0, {0}},
    {UPCONV_OP_SQRT, f_sqrt, 0.5, {0}},
    {UPCONV_OP_EXP, f_exp, 1.1, {0}},
};

/* ---- the sweep ---- */

typedef struct worst {
  double ulps;
  float at;
} worst;

static void compare(worst *w, const float *x, const float *got, const double *right, int n) {
  for (int i = 0; i < n; i++) {
    if (got[i] == (float)right[i]) continue; /* at most half an ulp */
    double ulps = ulps_off(got[i], right[i]);
    if (ulps > w->ulps) *w = (worst){ulps, x[i]};
  }
}

typedef struct sweep_state {
  uint64_t bits;
  bool specials_done;
} sweep_state;

/* The next block of arguments: first, numbers at the edges; then one float in SWEEP_STEP. False
   past the end. */
static bool next_block(sweep_state *state, float *x) {
  static const uint32_t edges[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000,
                                   0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fffffff};
  if (state->bits >> 32) return false;
  if (!state->specials_done) {
    for (uint32_t i = 0; i < BLOCK; i++) x[i] = float_of_bits(edges[i / 2 % 8] | (i % 2) << 31);
    state->specials_done = true;
    return true;
  }
  for (int i = 0; i < BLOCK; i++, state->bits += SWEEP_STEP)
    x[i] = float_of_bits((uint32_t)state->bits);
  return true;
}

static void sweep(const function *f) {
  static float x[BLOCK], got[BLOCK];
  static double right[BLOCK];
  worst w[MAX_ISAS] = {{0, 0}};
  uc_elementwise e = {.kind = f->kind, .dst = got, .n = BLOCK, .operand = {{.vector = x}}};
  for (int i = 0; i < UPCONV_MAX_ATTRS; i++) e.attr[i] = (float)f->attr[i];
  sweep_state state = {0};
  while (next_block(&state, x)) {
    for (int i = 0; i < BLOCK; i++) right[i] = f->formula((double)x[i], f->attr);
    const uc_isa *isa;
    for (int k = 0; (isa = uc_isa_available(k)); k++) {
      isa->elementwise(&e);
      compare(&w[k], x, got, right, BLOCK);
    }
  }
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++) {
    printf("     %s, %s: %.2f ulp at %.9g\n", upconv_op_name(f->kind), isa->name, w[k].ulps,
           (double)w[k].at);
    CHECK_MSG(w[k].ulps <= f->limit, "%s, %s: %.3f ulp at %.9g, %.3f allowed",
              upconv_op_name(f->kind), isa->name, w[k].ulps, (double)w[k].at, f->limit);
  }
}

static void functions_of_one_operand(void) {
  for (size_t i = 0; i < CHECK_COUNT(functions); i++) sweep(&functions[i]);
}

/* ---- functions that other kernels are made of, in the base dialect ---- */

typedef struct part {
  const char *name;
  vf (*of)(vf x);
  double (*formula)(double x);
  float low, high; /* domain; infinity and NaN belong to it when high is infinite */
  double limit;
} part;

static vf log_of(vf x) { return vf_log(x); }
static vf log1p_of(vf x) { return log1p_unit(x); }
static vf expm1_of(vf x) { return vf_expm1(x); }

static bool in_domain(const part *p, float x) {
  return (x >= p->low && x <= p->high) || (isnan(x) && isinf(p->high)) || x == 0;
}

static void parts_of_functions(void) {
  static const part parts[] = {{"log", log_of, log, FLT_MIN, INFINITY, 1.1},
                               {"log1p", log1p_of, log1p, 0, 1, 1.6},
                               {"expm1", expm1_of, expm1, -INFINITY, INFINITY, 1.6}};
  static float x[BLOCK], got[BLOCK];
  for (size_t k = 0; k < CHECK_COUNT(parts); k++) {
    const part *p = &parts[k];
    worst w = {0, 0};
    sweep_state state = {0};
    while (next_block(&state, x))
      for (int i = 0; i < BLOCK; i += VL) {
        vf_store(got + i, p->of(vf_load(x + i)));
        for (int j = i; j < i + VL; j++) {
          double right = p->formula((double)x[j]);
          if (in_domain(p, x[j])) compare(&w, &x[j], &got[j], &right, 1);
        }
      }
    printf("     %s: %.2f ulp at %.9g\n", p->name, w.ulps, (double)w.at);
    CHECK_MSG(w.ulps <= p->limit, "%s: %.3f ulp at %.9g", p->name, w.ulps, (double)w.at);
  }
}

/* ---- the same bits wherever an element lies ---- */

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Two NaNs are equal whatever their payload. */
static bool same_bits(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }

static void fill_random(float *x, int n, uint64_t *seed) {
  for (int i = 0; i < n; i++) x[i] = (float)(check_random_unit(seed) * 24 - 12);
}

enum { LONG = 256, SHORT = 40 };

static void check_lanes(const uc_isa *isa, const function *f, const float *x) {
  static float whole[LONG], part_of[SHORT + 2 * UC_PAD];
  uc_elementwise e = {.kind = f->kind, .dst = whole, .n = LONG, .operand = {{.vector = x}}};
  for (int i = 0; i < UPCONV_MAX_ATTRS; i++) e.attr[i] = (float)f->attr[i];
  isa->elementwise(&e);
  for (int n = 1; n <= SHORT; n++) {
    e.dst = part_of + 1;
    e.n = n;
    e.operand[0].vector = x + 3 * n;
    isa->elementwise(&e);
    for (int i = 0; i < n; i++)
      CHECK_MSG(same_bits(part_of[1 + i], whole[3 * n + i]), "%s, %s: element %d of %d",
                upconv_op_name(f->kind), isa->name, i, n);
  }
}

static void every_lane_gives_the_same_bits(void) {
  float x[LONG];
  uint64_t seed = 1;
  fill_random(x, LONG, &seed);
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t i = 0; i < CHECK_COUNT(functions); i++) check_lanes(isa, &functions[i], x);
}

/* ---- operators of several operands: every mix of rows and numbers, in place too ---- */

enum { ROW = 37, ROW_PADDED = 48 };

/* Operand k of element i: row k, or its element 0 throughout where bit k of `numbers` is set. */
static float operand_at(float (*row)[ROW_PADDED], unsigned numbers, int k, int i) {
  return row[k][numbers >> k & 1 ? 0 : i];
}

static void run_mix(const uc_isa *isa, upconv_op_kind kind, float attr, float (*row)[ROW_PADDED],
                    int operands, unsigned numbers, float *dst) {
  uc_elementwise e = {.kind = kind, .dst = dst, .n = ROW, .attr = {attr}};
  for (int k = 0; k < operands; k++) {
    if (numbers >> k & 1)
      e.operand[k].scalar = row[k][0];
    else
      e.operand[k].vector = row[k];
  }
  isa->elementwise(&e);
}

typedef float (*element_formula)(const float *in);

static float add(const float *in) { return in[0] + in[1]; }
static float subtract(const float *in) { return in[0] - in[1]; }
static float multiply(const float *in) { return in[0] * in[1]; }
static float divide(const float *in) { return in[0] / in[1]; }
static float prelu(const float *in) { return in[0] > 0 ? in[0] : in[1] * in[0]; }
static float slopes(const float *in) { return in[0] > 0 ? in[1] * in[0] : in[2] * in[0]; }

static void fill_special(float (*row)[ROW_PADDED], int operands) {
  static const float special[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1.5f};
  for (int k = 0; k < operands; k++)
    for (int i = 1; i <= 36; i++) row[k][i] = special[k ? (i - 1) % 6 : (i - 1) / 6];
}

/* Exact: one rounding. */
static void check_exact(upconv_op_kind kind, int operands, element_formula formula, bool special) {
  float row[3][ROW_PADDED];
  uint64_t seed = 2;
  fill_random(row[0], 3 * ROW_PADDED, &seed);
  if (special) fill_special(row, operands);
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (unsigned mix = 0; mix < 1u << operands; mix++)
      for (int in_place = 0; in_place < 2; in_place++) {
        float copy[3][ROW_PADDED], other[ROW_PADDED];
        memcpy(copy, row, sizeof copy);
        float *dst = in_place ? copy[operands - 1] : other;
        run_mix(isa, kind, 0, copy, operands, mix, dst);
        for (int i = 0; i < ROW; i++) {
          float in[3];
          for (int j = 0; j < operands; j++) in[j] = operand_at(row, mix, j, i);
          CHECK_MSG(same_bits(dst[i], formula(in)), "%s, %s, mix %u, element %d: %g",
                    upconv_op_name(kind), isa->name, mix, i, (double)dst[i]);
        }
      }
}

static void two_operands(void) {
  for (int special = 0; special < 2; special++) {
    check_exact(UPCONV_OP_ADD, 2, add, special);
    check_exact(UPCONV_OP_SUB, 2, subtract, special);
    check_exact(UPCONV_OP_MUL, 2, multiply, special);
    check_exact(UPCONV_OP_DIV, 2, divide, special);
    check_exact(UPCONV_OP_PRELU, 2, prelu, special);
  }
}

static void two_slopes(void) {
  check_exact(UPCONV_OP_TWO_SLOPE, 3, slopes, false);
  check_exact(UPCONV_OP_TWO_SLOPE, 3, slopes, true);
}

static void batch_norm(void) {
  float row[5][ROW_PADDED], got[ROW_PADDED];
  uint64_t seed = 3;
  fill_random(row[0], 5 * ROW_PADDED, &seed);
  for (int i = 0; i < ROW_PADDED; i++) row[4][i] = fabsf(row[4][i]);
  const float epsilon = 1e-3f;
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (unsigned mix = 0; mix < 32; mix++) {
      run_mix(isa, UPCONV_OP_BATCH_NORM, epsilon, row, 5, mix, got);
      for (int i = 0; i < ROW; i++) {
        double in[5];
        for (int j = 0; j < 5; j++) in[j] = (double)operand_at(row, mix, j, i);
        double scale = in[1] / sqrt(in[4] + (double)epsilon);
        double right = (in[0] - in[3]) * scale + in[2];
        double bound = 0x1p-24 * (5 * fabs((in[0] - in[3]) * scale) + fabs(in[2]));
        CHECK_NEAR(got[i], right, bound);
      }
    }
}

/* ---- isa.c ---- */

static void choice_by_environment(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++) {
    setenv("UPCONV_ISA", isa->name, 1);
    CHECK(uc_isa_choose() == isa);
  }
  setenv("UPCONV_ISA", "mmx", 1);
  CHECK(uc_isa_choose() == NULL);
  CHECK(strstr(upconv_last_error(), "'mmx'") != NULL);
  CHECK(strstr(upconv_last_error(), "base") != NULL);
  setenv("UPCONV_ISA", "", 1);
  CHECK(uc_isa_choose() == uc_isa_available(0));
  unsetenv("UPCONV_ISA");
  CHECK(uc_isa_choose() == uc_isa_available(0));
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"functions_of_one_operand", functions_of_one_operand},
      {"parts_of_functions", parts_of_functions},
      {"every_lane_gives_the_same_bits", every_lane_gives_the_same_bits},
      {"two_operands", two_operands},
      {"two_slopes", two_slopes},
      {"batch_norm", batch_norm},
      {"choice_by_environment", choice_by_environment},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
