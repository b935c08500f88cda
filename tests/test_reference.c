/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle against numbers computed elsewhere, against hand-computed ones, and its bounds: wide
 * enough for plain float32 arithmetic, too narrow for a missing tap.
 */

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "example.h"
#include "float_program.h"
#include "reference_golden.h"
#include "reference_parts.h"
#include "tensor.h"

static bool reference(example *e) {
  return CHECK_STATUS(upconv_reference(e->problem, e->epilogue, &e->parameters, &e->arguments, NULL,
                                       e->value, e->bound),
                      UPCONV_OK);
}

/* The plain float32 implementation; the caller frees it. */
static float *in_float32(const example *e) {
  float_inputs in = {{0}, e->x, e->weight, e->bias, e->param, e->tensor};
  int nd = e->problem->nd;
  for (int a = 0; a < UC_RANK; a++)
    in.x_shape[a] = a < 2 ? e->x_shape[a] : a < 2 + 3 - nd ? 1 : e->x_shape[a - (UC_AXES - nd)];
  return float_program(e->problem, e->epilogue, &in);
}

/* ---- values ---- */

static void agrees_with_golden_numbers(void) {
  for (size_t i = 0; i < CHECK_COUNT(goldens); i++) {
    const golden *g = &goldens[i];
    example e;
    if (example_make(g->text, &e) && CHECK_INT(e.count, g->count) && reference(&e)) {
      double sum = 0, size = 1;
      for (int64_t k = 0; k < e.count; k++) {
        sum += e.value[k] * (double)(k % 7 + 1);
        size += fabs(e.value[k]) * 7;
      }
      CHECK_NEAR(sum, g->sum, 1e-11 * size);
      const int64_t at[3] = {0, e.count / 2, e.count - 1};
      for (int k = 0; k < 3; k++)
        CHECK_NEAR(e.value[at[k]], g->element[k], 1e-11 * (1 + fabs(g->element[k])));
    }
    example_destroy(&e);
  }
}

/* Every kind of operator is among the golden numbers. */
static void covers_every_operator(void) {
  int seen[UPCONV_OP_COUNT] = {0};
  for (size_t i = 0; i < CHECK_COUNT(goldens); i++) {
    upconv_problem *problem;
    upconv_epilogue *epilogue;
    if (!CHECK_STATUS(upconv_problem_parse(goldens[i].text, &problem, &epilogue), UPCONV_OK))
      continue;
    for (int k = 0; k < epilogue->op_count; k++) seen[epilogue->op[k].kind]++;
    upconv_problem_destroy(problem);
    upconv_epilogue_destroy(epilogue);
  }
  for (int kind = 0; kind < UPCONV_OP_COUNT; kind++)
    CHECK_MSG(seen[kind] > 0, "no golden number for %s", upconv_op_name((upconv_op_kind)kind));
}

/* x = 1 2, w = 10 20 30, stride 2: 1 * w at 0, 2 * w at 2. */
static void works_a_row_by_hand(void) {
  example e;
  if (example_make("ci1 co1 in2 k3 s2 bias", &e)) {
    memcpy(e.x, (float[]){1, 2}, 2 * sizeof(float));
    memcpy(e.weight, (float[]){10, 20, 30}, 3 * sizeof(float));
    e.bias[0] = -1;
    const double value[5] = {9, 19, 49, 39, 59}, n[5] = {1, 1, 2, 1, 1};
    const double magnitude[5] = {11, 21, 51, 41, 61};
    reference(&e);
    for (int i = 0; i < 5; i++) {
      CHECK_NEAR(e.value[i], value[i], 0);
      /* (4 + 2 sqrt n) 2^-24 M, give or take the rounding of the stored ends */
      double bound = (4 + 2 * sqrt(n[i])) * 0x1p-24 * magnitude[i];
      CHECK_NEAR(e.bound[i], bound, value[i] * 0x1p-24);
    }
  }
  example_destroy(&e);
}

static void follows_the_error_model(void) {
  example e;
  const upconv_error_model tf32 = {0x1p-11, true};
  if (example_make("ci40 co1 in1 k1", &e)) {
    double magnitude = 0;
    for (int i = 0; i < 40; i++) magnitude += fabs((double)e.x[i] * (double)e.weight[i]);
    CHECK_STATUS(
        upconv_reference(e.problem, NULL, &e.parameters, &e.arguments, &tf32, e.value, e.bound),
        UPCONV_OK);
    double bound = (0x1p-10 + (4 + 40.0 / 16) * 0x1p-24) * magnitude;
    CHECK_NEAR(e.bound[0], bound, 0x1p-24 * magnitude);
  }
  example_destroy(&e);
}

/* ---- bounds ---- */

/* An element's use of the bound; the largest of a comparison, through upconv_compare. */
static double worst_ratio(const example *e, float *y) {
  double worst = -1;
  upconv_tensor view =
      upconv_tensor_dense(y, UPCONV_F32, e->problem->nd + 2, e->y_shape, UPCONV_CHANNELS_FIRST);
  CHECK_STATUS(upconv_compare(&view, e->value, e->bound, &worst, NULL), UPCONV_OK);
  return worst;
}

static const char *const more_examples[] = {
    "ci16 co4 in6x7 k4 s2 p1 bias",
    "ci8 co8 g8 in5x6x4 k3 s2 p1 op1 bias",
    "ci12 co3 in9x9 k5 s1 p2 | mul 37.3 | gelu",
    "ci12 co3 in9x9 k5 s1 p2 | mul 37.3 | gelu_tanh | add 0.3",
    "ci12 co3 in9x9 k5 s1 p2 | mul 9.7 | mish | mul %2 %2",
    "ci12 co3 in9x9 k5 s1 p2 | mul 21 | silu | avg_pool 4",
    "ci12 co3 in9x9 k5 s1 p2 | mul 21 | hardswish | max_pool 3",
    "ci12 co3 in9x9 k5 s1 p2 | mul 11 | selu | sum hw",
    "ci12 co3 in9x9 k5 s1 p2 | softplus 0.7 2 | mean c",
    "ci6 co40 in5x5 k4 s2 | mul 3.3 | softmax | avg_pool 3 s2 p1 ceil",
    "ci6 co40 in5x5 k4 s2 | mul 3.3 | log_softmax | tanh",
    "ci6 co40 in5x5 k4 s2 | mul 0.01 | logsumexp | exp",
    "ci6 co40 in5x5 k4 s2 | mul 1e-30 | mul 1e-10",
    "ci6 co4 in5x5 k4 s2 | mul 1e-38 | abs | sqrt",
    "ci6 co4 in5x5 k4 s2 | abs | sqrt | div 3 | sub 0.2 %3 | sigmoid",
    "ci6 co4 in5x5 k4 s2 | sigmoid | div %0 %1 | clamp -2.2 1.7 | elu 0.3",
    "ci6 co4 in5x5 k4 s2 bias | batch_norm mean=@m var=@v weight=@w bias=@b | leaky_relu 0.2",
    "ci6 co4 in5x5 k4 s2 bias | relu | batch_norm mean=@m var=@v eps=0.1 | softsign",
    "ci6 co4 in5x5 k4 s2 bias | prelu @a | celu 0.4 | add #r",
    "ci6 co4 in5x5 k4 s2 bias | mean hw | sigmoid | mul %0 %2 | hardsigmoid 0.3 0.1",
};

static void check_float32(const char *text, double *largest) {
  example e;
  if (example_make(text, &e) && reference(&e)) {
    float *y = in_float32(&e);
    if (CHECK(y)) {
      double worst = worst_ratio(&e, y);
      CHECK_MSG(worst < 1, "float32 is off by %g bounds", worst);
      *largest = fmax(*largest, worst);
    }
    for (int64_t i = 0; i < e.count; i++)
      CHECK_MSG(isfinite(e.bound[i]), "element %lld of plain data is undecided", (long long)i);
    free(y);
  }
  example_destroy(&e);
}

static void leaves_room_for_float32(void) {
  double largest = 0;
  for (size_t i = 0; i < CHECK_COUNT(goldens); i++) check_float32(goldens[i].text, &largest);
  for (size_t i = 0; i < CHECK_COUNT(more_examples); i++) check_float32(more_examples[i], &largest);
  printf("     plain float32 uses at most %.3f of the bound\n", largest);
}

/* Positive data, so that nothing cancels. One tap less must show in every output that has it. */
static void check_missing_tap(const char *text, double *smallest) {
  example e;
  if (example_make(text, &e)) {
    int64_t taps = example_product(e.weight_shape + 2, e.problem->nd);
    int64_t weights = example_product(e.weight_shape, e.problem->nd + 2), missing = taps / 2;
    for (int64_t i = 0; i < example_product(e.x_shape, e.problem->nd + 2); i++)
      e.x[i] = 2 + e.x[i] / 4;
    for (int64_t i = 0; i < weights; i++) e.weight[i] = (2 + e.weight[i]) / (float)weights;
    reference(&e);
    for (int64_t i = missing; i < weights; i += taps) e.weight[i] = 0;
    float *y = in_float32(&e);
    double worst = worst_ratio(&e, y);
    CHECK_MSG(worst > 20, "a missing tap uses only %g of the bound", worst);
    *smallest = fmin(*smallest, worst);
    free(y);
  }
  example_destroy(&e);
}

static void catches_a_missing_tap(void) {
  static const char *const text[] = {
      "ci3 co16 in5x6x6 k3 s2 p1 bias | mul 0.5 | avg_pool 2 | add @b | mul 1",
      "ci32 co8 g4 in3x4x6 k3x5x7 s2 p1x2x3 op1",
      "ci16 co8 in4x5x4 k3 s2 p1 op1 bias | leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2",
      "ci64 co8 in12x12 k4 s2 p1 | relu | avg_pool 8",
      "ci64 co8 in9x9 k5 s1 p2 | gelu | mean hw",
      "ci64 co16 in9x9 k5 s1 p2 | mish | log_softmax",
      "ci64 co16 in16 k16 s8 p4 | tanh | sum c",
  };
  double smallest = INFINITY;
  for (size_t i = 0; i < CHECK_COUNT(text); i++) check_missing_tap(text[i], &smallest);
  printf("     a missing tap is off by at least %.0f bounds\n", smallest);
}

/* f(x') lies in the interval for every x' of the operand's interval, kinks and turns included. */
static void functions_contain_their_image(void) {
  uint64_t seed = 7;
  const double centre[] = {0, -0.75, -1.28, -1.19, -1.5, -3, 3, 20, 1, -0.5, 0.75, -88, 5, -20};
  for (int kind = UPCONV_OP_RELU; kind <= UPCONV_OP_EXP; kind++) {
    upconv_op op;
    upconv_op_init(&op, (upconv_op_kind)kind);
    if (kind == UPCONV_OP_PRELU) continue;
    if (kind == UPCONV_OP_CLAMP) op.attr[0] = -0.5, op.attr[1] = 0.75;
    for (int n = 0; n < 4000; n++) {
      double middle = centre[n % 14] + (check_random_unit(&seed) - 0.5) * (n % 3 ? 0.01 : 8);
      double width = pow(10, -8 * check_random_unit(&seed));
      if (kind == UPCONV_OP_LEAKY_RELU || kind == UPCONV_OP_ELU) op.attr[0] = n % 2 ? 0.3 : -0.4;
      if (kind == UPCONV_OP_SOFTPLUS) op.attr[1] = n % 2 ? 20 : 1;
      uc_approx x = {middle, middle - width, middle + width};
      uc_approx y = uc_approx_function(op.kind, op.attr, x);
      double inside = x.low + 2 * width * check_random_unit(&seed);
      uc_approx point = uc_approx_function(op.kind, op.attr, uc_approx_exact(inside));
      CHECK_MSG(uc_approx_is_undecided(y) || isnan(point.value) ||
                    (y.low <= point.value && point.value <= y.high),
                "%s: f(%.17g) = %.17g is not in [%.17g, %.17g] for [%.17g, %.17g]",
                upconv_op_name(op.kind), inside, point.value, y.low, y.high, x.low, x.high);
      CHECK(uc_approx_is_undecided(y) || isnan(y.value) || (y.low <= y.value && y.value <= y.high));
    }
  }
}

/* ---- what is not a finite number ---- */

/* One channel, one element, k1: y = x w. */
static void check_special(const char *tail, float x, double value, double bound_low,
                          double bound_high) {
  char text[200];
  snprintf(text, sizeof text, "ci1 co1 in1 k1%s", tail);
  example e;
  if (example_make(text, &e)) {
    e.x[0] = x;
    e.weight[0] = 1;
    reference(&e);
    bool same = isnan(value) ? isnan(e.value[0]) : e.value[0] == value;
    CHECK_MSG(same, "x = %g gives %g, not %g", (double)x, e.value[0], value);
    CHECK_MSG(e.bound[0] >= bound_low && e.bound[0] <= bound_high, "x = %g has the bound %g",
              (double)x, e.bound[0]);
  }
  example_destroy(&e);
}

static void keeps_what_is_not_finite(void) {
  static const struct {
    const char *tail;
    double of_nan, of_inf, of_minus_inf;
  } rule[] = {
      {"", NAN, INFINITY, -INFINITY},
      {" | relu", NAN, INFINITY, 0},
      {" | leaky_relu 0.1", NAN, INFINITY, -INFINITY},
      {" | elu", NAN, INFINITY, -1},
      {" | softplus", NAN, INFINITY, 0},
      {" | softsign", NAN, NAN, NAN},
      {" | gelu", NAN, INFINITY, NAN},
      {" | silu", NAN, INFINITY, NAN},
      {" | mish", NAN, INFINITY, NAN},
      {" | hardswish", NAN, INFINITY, NAN},
      {" | hardsigmoid", NAN, 1, 0},
      {" | clamp -1 2", NAN, 2, -1},
      {" | sigmoid", NAN, 1, 0},
      {" | tanh", NAN, 1, -1},
      {" | abs", NAN, INFINITY, INFINITY},
      {" | sqrt", NAN, INFINITY, NAN},
      {" | exp", NAN, INFINITY, 0},
      {" | mul 0", NAN, NAN, NAN},
      {" | div 0", NAN, INFINITY, -INFINITY},
      {" | sub %0 %0", NAN, NAN, NAN},
      {" | div 1 %0", NAN, 0, 0},
      {" | softmax", NAN, NAN, NAN},
      {" | logsumexp", NAN, INFINITY, -INFINITY},
      {" | max_pool 1", NAN, INFINITY, -INFINITY},
      {" | avg_pool 1", NAN, INFINITY, -INFINITY},
      {" | max c", NAN, INFINITY, -INFINITY},
      {" | min w", NAN, INFINITY, -INFINITY},
      {" | mean c", NAN, INFINITY, -INFINITY},
  };
  for (size_t i = 0; i < CHECK_COUNT(rule); i++) {
    /* the sign of the divisor 0 is not known */
    double most = strcmp(rule[i].tail, " | div 0") == 0 ? INFINITY : 1e-5;
    check_special(rule[i].tail, NAN, rule[i].of_nan, 0, most);
    check_special(rule[i].tail, INFINITY, rule[i].of_inf, 0, most);
    check_special(rule[i].tail, -INFINITY, rule[i].of_minus_inf, 0, most);
  }
}

static void knows_where_rounding_decides(void) {
  check_special(" | mul 2", 3e38f, INFINITY, 0, 0);
  check_special(" | mul 1e30 | mul 1e-30", 1e20f, INFINITY, 0, 0);
  check_special(" | sub 1 | sqrt", 1, 0, INFINITY, INFINITY);
  check_special(" | sub 1 | div 1 %1", 1, INFINITY, INFINITY, INFINITY);
  check_special(" | sub 1 | abs | sqrt", 1, 0, 1e-5, 1e-2);
  check_special(" | sub 1 | mul 1e38 | mul 1e38", 1, 0, INFINITY, INFINITY);
  check_special(" | abs | mul 3.4028234663852886e38", 1, (double)FLT_MAX, INFINITY, INFINITY);
  check_special(" | mul -1e-30 | mul 1e-30 | abs | sqrt", 1, 1e-30, 0, 1e-22);
}

static void follows_the_output_type(void) {
  example e;
  if (example_make("ci1 co1 in4 k1", &e)) {
    e.weight[0] = 1;
    memcpy(e.x, (float[]){65504, 65520, 65600, 1e-8f}, 4 * sizeof(float));
    e.arguments.y.dtype = UPCONV_F16;
    reference(&e);
    CHECK(e.value[0] == 65504 && e.bound[0] < 33 && e.bound[0] >= 0);
    CHECK(isinf(e.bound[1])); /* the middle between the largest number and infinity */
    CHECK(isinf(e.value[2]) && e.bound[2] == 0);
    CHECK(e.bound[3] >= 1e-8f && e.bound[3] < 0x1p-24); /* becomes 0 */
    memcpy(e.x, (float[]){1, 1.0039f, 3.3961775e38f, 300}, 4 * sizeof(float));
    e.arguments.y.dtype = UPCONV_BF16;
    reference(&e);
    CHECK(e.bound[1] > 0.0038 && e.bound[1] < 0.0041);
    CHECK(isinf(e.bound[2]));
    CHECK(e.bound[3] <= 1);
  }
  example_destroy(&e);
}

/* ---- inputs ---- */

/* The same numbers, as f16 with strides all their own. */
static void takes_any_strides(void) {
  enum { N = 2, C = 2, W = 5, GAP = 3 };
  example e;
  if (example_make("n2 ci2 co3 in5 k3 s2 p1", &e)) {
    uint16_t strided[N * C * W * GAP];
    float weight[2 * 3 * 3];
    for (int n = 0; n < N; n++)
      for (int c = 0; c < C; c++)
        for (int w = 0; w < W; w++)
          strided[(w * N * C + c * N + n) * GAP] = uc_f32_to_f16(e.x[(n * C + c) * W + w]);
    for (int i = 0; i < 18; i++) weight[17 - i] = e.weight[i];
    reference(&e);
    double *value = e.value;
    e.value = malloc(((size_t)e.count + 1) * sizeof *value);
    e.value[e.count] = 12345;
    upconv_tensor *x = &e.arguments.x, *w = &e.parameters.weight;
    x->data = strided;
    x->dtype = UPCONV_F16;
    x->stride[0] = GAP;
    x->stride[1] = N * GAP;
    x->stride[2] = N * C * GAP;
    w->data = weight + 17;
    for (int i = 0; i < 3; i++) w->stride[i] = -w->stride[i];
    reference(&e);
    for (int64_t i = 0; i < e.count; i++) CHECK_NEAR(e.value[i], value[i], 0);
    free(value);
  }
  example_destroy(&e);
}

static void check_refused(example *e, const char *part) {
  CHECK_STATUS(upconv_reference(e->problem, e->epilogue, &e->parameters, &e->arguments, NULL,
                                e->value, e->bound),
               UPCONV_INVALID_ARGUMENT);
  CHECK_MSG(strstr(upconv_last_error(), part), "'%s' does not name %s", upconv_last_error(), part);
}

static void refuses_what_does_not_fit(void) {
  example e;
  if (example_make("ci2 co3 in4 k3 s2 bias | mul @scale | add #rest", &e)) {
    e.arguments.x.shape[1] = 1;
    check_refused(&e, "x");
    e.arguments.x.shape[1] = 2;
    e.arguments.x.offset[2] = 1;
    check_refused(&e, "offset");
    e.arguments.x.offset[2] = 0;
    e.parameters.weight.shape[2] = 2;
    check_refused(&e, "weight");
    e.parameters.weight.shape[2] = 3;
    e.parameters.bias.data = NULL;
    check_refused(&e, "bias");
    e.parameters.bias.data = e.bias;
    e.param_view[0].shape[0] = 2;
    check_refused(&e, "scale");
    e.param_view[0].shape[0] = 3;
    e.tensor_view[0].shape[2]--;
    check_refused(&e, "rest");
    e.tensor_view[0].shape[2]++;
    e.parameters.param_count = 0;
    check_refused(&e, "param_count");
    e.parameters.param_count = 1;
    e.arguments.tensor_count = 0;
    check_refused(&e, "tensor_count");
    e.arguments.tensor_count = 1;
    reference(&e);
  }
  example_destroy(&e);
}

static void empty_tensors_are_fine(void) {
  static const char *const text[] = {"n0 ci2 co3 in4 k3 s2 bias | mul 2",
                                     "ci2 co3 in2x0 k2x3 s2x1 p0x1 | relu | max_pool 1",
                                     "ci1 co1 in2 k1 p0 pe2 s1 | softmax"};
  for (size_t i = 0; i < CHECK_COUNT(text); i++) {
    example e;
    if (example_make(text[i], &e)) {
      CHECK_INT(e.count, 0);
      reference(&e);
    }
    example_destroy(&e);
  }
}

/* ---- the rewritten program ---- */

/* In exact arithmetic a rewritten program gives the same values. */
static void rewriting_keeps_values(void) {
  static const char *const text[] = {
      "n2 ci3 co4 in3x4x4 k3 s2 p1 bias | mul @a[] | avg_pool 2 | add @b | mul @c[]",
      "ci4 co4 g2 in4x5 k3 s2 p1 op1 bias | leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2",
      "ci4 co6 in4x5 k3 s2 bias | batch_norm mean=@m var=@v weight=@w bias=@b | relu | softmax",
      "ci4 co6 in4x5 k4 s2 p1 | neg | sub 0.3 %1 | div @d[] | abs | mul -2 | max_pool 3 s2 p1",
  };
  for (size_t i = 0; i < CHECK_COUNT(text); i++) {
    example e;
    uc_lowered lowered;
    if (example_make(text[i], &e) && reference(&e) &&
        CHECK_STATUS(uc_lower(e.problem, e.epilogue, NULL, false, &lowered), UPCONV_OK)) {
      double *value = malloc((size_t)e.count * sizeof *value);
      double *bound = malloc((size_t)e.count * sizeof *bound);
      CHECK(lowered.fired_count > 0);
      CHECK_STATUS(uc_reference_lowered(&lowered, &e.parameters, &e.arguments, NULL, value, bound),
                   UPCONV_OK);
      for (int64_t k = 0; k < e.count; k++) {
        CHECK_NEAR(value[k], e.value[k], 1e-12 * (1 + fabs(value[k])));
        CHECK(bound[k] >= 0 && bound[k] <= 4 * e.bound[k]);
      }
      free(value);
      free(bound);
      uc_lowered_free(&lowered);
    }
    example_destroy(&e);
  }
}

/* ---- upconv_compare ---- */

static double compare_one(float y, double value, double bound) {
  double worst = -1;
  int64_t shape[3] = {1, 1, 1};
  upconv_tensor t = upconv_tensor_dense(&y, UPCONV_F32, 3, shape, UPCONV_CHANNELS_FIRST);
  CHECK_STATUS(upconv_compare(&t, &value, &bound, &worst, NULL), UPCONV_OK);
  return worst;
}

static void compares_element_by_element(void) {
  CHECK_NEAR(compare_one(1.5f, 1, 0.25), 2, 0);
  CHECK_NEAR(compare_one(1, 1, 0), 0, 0);
  CHECK_NEAR(compare_one(-0.0f, 0, 0), 0, 0);
  CHECK(isinf(compare_one(1.5f, 1, 0)));
  CHECK(isinf(compare_one(1.5f, 1, NAN)));
  CHECK(isinf(compare_one(NAN, 1, 1e30)));
  CHECK(isinf(compare_one(1, NAN, 1e30)));
  CHECK_NEAR(compare_one(NAN, NAN, 0), 0, 0);
  CHECK_NEAR(compare_one(INFINITY, (double)INFINITY, 0), 0, 0);
  CHECK(isinf(compare_one(-INFINITY, (double)INFINITY, 1)));
  CHECK(isinf(compare_one(INFINITY, 1e38, 1e38)));
  CHECK_NEAR(compare_one(NAN, 1, (double)INFINITY), 0, 0);
  CHECK_NEAR(compare_one(INFINITY, 1, (double)INFINITY), 0, 0);
}

static void compare_names_the_place(void) {
  float y[2 * 3 * 4] = {0}; /* channels last */
  double value[24] = {0}, bound[24], worst;
  int64_t shape[4] = {1, 3, 2, 4}, where;
  upconv_tensor t = upconv_tensor_dense(y, UPCONV_F32, 4, shape, UPCONV_CHANNELS_LAST);
  for (int i = 0; i < 24; i++) bound[i] = 1;
  y[(1 * 4 + 2) * 3 + 1] = 3; /* h 1, w 2, c 1 */
  CHECK_STATUS(upconv_compare(&t, value, bound, &worst, &where), UPCONV_OK);
  CHECK_NEAR(worst, 3, 0);
  CHECK_INT(where, (1 * 2 + 1) * 4 + 2);
  CHECK_STATUS(upconv_compare(NULL, value, bound, &worst, &where), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_compare(&t, value, NULL, &worst, &where), UPCONV_INVALID_ARGUMENT);
  t.rank = 2;
  CHECK_STATUS(upconv_compare(&t, value, bound, &worst, &where), UPCONV_INVALID_ARGUMENT);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"agrees_with_golden_numbers", agrees_with_golden_numbers},
      {"covers_every_operator", covers_every_operator},
      {"works_a_row_by_hand", works_a_row_by_hand},
      {"follows_the_error_model", follows_the_error_model},
      {"leaves_room_for_float32", leaves_room_for_float32},
      {"catches_a_missing_tap", catches_a_missing_tap},
      {"functions_contain_their_image", functions_contain_their_image},
      {"keeps_what_is_not_finite", keeps_what_is_not_finite},
      {"knows_where_rounding_decides", knows_where_rounding_decides},
      {"follows_the_output_type", follows_the_output_type},
      {"takes_any_strides", takes_any_strides},
      {"refuses_what_does_not_fit", refuses_what_does_not_fit},
      {"empty_tensors_are_fine", empty_tensors_are_fine},
      {"rewriting_keeps_values", rewriting_keeps_values},
      {"compares_element_by_element", compares_element_by_element},
      {"compare_names_the_place", compare_names_the_place},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
