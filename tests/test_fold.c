/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack time: checks of the caller's parameters, and folds and formulas evaluated in float64.
 */
// labels: valgrind
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lowered.h"
#include "tensor.h"

/* ---- a lowered program with its parameters ---- */

enum { MOST_PARAMS = 4 };

typedef struct setup {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  uc_lowered lowered;
  upconv_tensor param[MOST_PARAMS];
  upconv_parameters parameters;
  bool ready;
} setup;

static upconv_tensor ramp(int rank, const int64_t *shape, float first, float step) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  float *number = check_alloc((size_t)count * sizeof *number, 0);
  for (int64_t i = 0; i < count; i++) number[i] = first + step * (float)i;
  return upconv_tensor_dense(number, UPCONV_F32, rank, shape, UPCONV_CHANNELS_FIRST);
}

/* Weights are 1, 2, 3, ...; biases 10, 20, ...; parameter i is i + 2, i + 2.5, ... */
static setup make(const char *text) {
  setup s = {.ready = false};
  if (!CHECK_STATUS(upconv_problem_parse(text, &s.problem, &s.epilogue), UPCONV_OK)) return s;
  const upconv_problem *p = s.problem;
  s.ready = CHECK_STATUS(uc_lower(p, s.epilogue, NULL, false, &s.lowered), UPCONV_OK);
  if (!s.ready) return s;
  int64_t weight[UC_RANK] = {p->in_channels, p->out_channels / p->groups};
  for (int i = 0; i < p->nd; i++) weight[2 + i] = p->axis[UC_AXES - p->nd + i].kernel;
  s.parameters.weight = ramp(p->nd + 2, weight, 1, 1);
  if (p->bias) s.parameters.bias = ramp(1, &p->out_channels, 10, 10);
  for (int i = 0; i < s.epilogue->param_count && i < MOST_PARAMS; i++)
    s.param[i] = ramp(1, &s.lowered.param[i].size, (float)i + 2, 0.5f);
  s.parameters.param_count = s.epilogue->param_count;
  return s;
}

static upconv_status fold(setup *s, uc_folded *folded) {
  s->parameters.params = s->param;
  return uc_fold_parameters(&s->lowered, &s->parameters, folded);
}

static void destroy(setup *s) {
  CHECK_FREE(s->parameters.weight.data);
  CHECK_FREE(s->parameters.bias.data);
  for (int i = 0; i < MOST_PARAMS; i++) CHECK_FREE(s->param[i].data);
  if (s->ready) uc_lowered_free(&s->lowered);
  upconv_epilogue_destroy(s->epilogue);
  upconv_problem_destroy(s->problem);
}

static void check_numbers(const double *got, const double *wanted, int count, const char *what) {
  for (int i = 0; i < count; i++)
    CHECK_MSG(fabs(got[i] - wanted[i]) <= 1e-13 * fabs(wanted[i]), "%s %d is %.17g, not %.17g",
              what, i, got[i], wanted[i]);
}

/* ---- what comes out ---- */

static void plain(void) {
  setup s = make("ci2 co3 in4 k2 bias | gelu | mul @a");
  uc_folded f;
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    double weight[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    check_numbers(f.weight, weight, 12, "weight");
    check_numbers(f.bias, (double[]){10, 20, 30}, 3, "bias");
    CHECK_INT(f.param_count, 1);
    check_numbers(f.param[0], (double[]){2, 2.5, 3}, 3, "param");
    uc_folded_free(&f);
  }
  destroy(&s);
}

/* The scale of an output channel, in each group: weights are [in_channels, out_channels / groups].
   */
static void scale_and_shift(void) {
  setup s = make("ci4 co4 g2 in4 k2 | mul @a | add @b[] | sub 1 %2");
  uc_folded f;
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    double scale[] = {2, 2.5, 3, 3.5}, weight[16];
    for (int e = 0; e < 4; e++)
      for (int c = 0; c < 2; c++)
        for (int k = 0; k < 2; k++) {
          int i = (e * 2 + c) * 2 + k;
          weight[i] = -(double)(i + 1) * scale[e / 2 * 2 + c];
        }
    check_numbers(f.weight, weight, 16, "weight");
    check_numbers(f.bias, (double[]){-2, -2, -2, -2}, 4, "bias");
    CHECK(s.lowered.conv.bias);
    CHECK_INT(f.param_count, 0);
    uc_folded_free(&f);
  }
  destroy(&s);
}

static void norm(void) {
  setup s = make("ci1 co2 in4 k1 bias | batch_norm mean=@m var=@v weight=@w bias=@b eps=0.25");
  uc_folded f;
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    /* Declared in the order of the text: m 2 2.5, v 3 3.5, w 4 4.5, b 5 5.5. */
    double scale[] = {4 / sqrt(3.25), 4.5 / sqrt(3.75)};
    double bias[] = {(10 - 2) * scale[0] + 5, (20 - 2.5) * scale[1] + 5.5};
    check_numbers(f.weight, (double[]){scale[0], 2 * scale[1]}, 2, "weight");
    check_numbers(f.bias, bias, 2, "bias");
    uc_folded_free(&f);
  }
  destroy(&s);
}

/* k3 s2 p1, pool 2: U[-1] = w0 / 2, U[0] = (w1 + w2) / 2 per axis; with a divisor the bias changes
   too. */
static void avg_pool(void) {
  setup s = make("ci1 co1 in4x4 k3 s2 p1 bias | avg_pool 2 div=8 | mul 4");
  uc_folded f;
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    CHECK_INT(uc_problem_kernel_size(&s.lowered.conv), 4);
    double weight[] = {1 / 2.0, (2 + 3) / 2.0, (4 + 7) / 2.0, (5 + 6 + 8 + 9) / 2.0};
    check_numbers(f.weight, weight, 4, "weight");
    check_numbers(f.bias, (double[]){10 * 4 / 8.0 * 4}, 1, "bias");
    uc_folded_free(&f);
  }
  destroy(&s);
}

static void formulas(void) {
  setup s = make("ci1 co2 in4x4 k2 s2 | leaky_relu 0.5 | mul @m | leaky_relu 0.25 | max_pool 2");
  uc_folded f;
  if (s.ready) {
    float *m = s.param[0].data;
    m[0] = -3;
    m[1] = 2;
  }
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    CHECK_INT(f.param_count, 3); /* direction, slopes */
    check_numbers(f.param[0], (double[]){-3, 2}, 2, "direction");
    check_numbers(f.param[1], (double[]){-3 * 0.25, 2}, 2, "positive slope");
    check_numbers(f.param[2], (double[]){-3 * 0.5, 2 * 0.5 * 0.25}, 2, "negative slope");
    uc_folded_free(&f);
  }
  destroy(&s);
}

/* Formulas of different kinds over the same operands: v + 0.5 in the fold, v * 0.5 behind it. */
static void formulas_alike(void) {
  setup s = make("ci1 co2 in4 k1 | batch_norm mean=@m var=@v eps=0.5 | gelu | mul @v | mul 0.5");
  uc_folded f;
  if (s.ready && CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    check_numbers(f.weight, (double[]){1 / sqrt(3.5), 2 / sqrt(4)}, 2, "weight");
    CHECK_INT(f.param_count, 1);
    check_numbers(f.param[0], (double[]){1.5, 1.75}, 2, "param");
    uc_folded_free(&f);
  }
  destroy(&s);
}

/* ---- memory ---- */

static void check_view(setup *s, const upconv_tensor *view, const char *what) {
  upconv_tensor kept = s->parameters.weight;
  uc_folded f;
  s->parameters.weight = *view;
  if (CHECK_STATUS(fold(s, &f), UPCONV_OK)) {
    double wanted[2 * 3 * 2 * 5];
    for (int i = 0; i < 60; i++) wanted[i] = i + 1;
    check_numbers(f.weight, wanted, 60, what);
    uc_folded_free(&f);
  }
  s->parameters.weight = kept;
}

static void strides(void) {
  setup s = make("ci2 co3 in4x4 k2x5 | gelu");
  if (!s.ready) return;
  const int64_t order[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 2, 3}, {0, 2, 3, 1}, {0, 1, 3, 2}};
  for (size_t o = 0; o < CHECK_COUNT(order); o++)
    for (int64_t gap = 1; gap <= 3; gap += 2) {
      upconv_tensor view = s.parameters.weight;
      int64_t stride = gap;
      for (int i = 3; i >= 0; i--) {
        view.stride[order[o][i]] = stride;
        stride *= view.shape[order[o][i]];
      }
      float *number = view.data = check_alloc((size_t)stride * sizeof *number, 0);
      const float *dense = s.parameters.weight.data;
      for (int64_t i = 0; i < 60; i++)
        number[i / 30 * view.stride[0] + i / 10 % 3 * view.stride[1] + i / 5 % 2 * view.stride[2] +
               i % 5 * view.stride[3]] = dense[i];
      check_view(&s, &view, "weight of other strides");
      CHECK_FREE(view.data);
    }
  destroy(&s);
}

static void dtypes(void) {
  setup s = make("ci2 co3 in4x4 k2x5 | gelu | mul @a");
  if (!s.ready) return;
  const upconv_dtype dtype[] = {UPCONV_F16, UPCONV_BF16};
  for (size_t d = 0; d < CHECK_COUNT(dtype); d++) {
    upconv_tensor view = s.parameters.weight, kept = s.param[0];
    view.dtype = s.param[0].dtype = dtype[d];
    view.data = check_alloc(60 * sizeof(uint16_t), 2);
    s.param[0].data = check_alloc(3 * sizeof(uint16_t), 2);
    for (int64_t i = 0; i < 60; i++) uc_store(view.data, dtype[d], i, (double)(i + 1));
    for (int64_t i = 0; i < 3; i++) uc_store(s.param[0].data, dtype[d], i, 0.5 * (double)i);
    check_view(&s, &view, upconv_dtype_name(dtype[d]));
    CHECK_FREE(view.data);
    CHECK_FREE(s.param[0].data);
    s.param[0] = kept;
  }
  destroy(&s);
}

/* A single number has rank 0 or 1; a stride of 0 repeats one for all channels. */
static void vectors(void) {
  setup s = make("ci1 co3 in4 k1 bias | gelu | mul @a[] | add @b");
  uc_folded f;
  if (!s.ready) return;
  s.param[0].rank = 0;
  s.param[1].stride[0] = 0;
  s.parameters.bias.stride[0] = 0;
  if (CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    CHECK_NEAR(f.param[0][0], 2, 0);
    check_numbers(f.param[1], (double[]){3, 3, 3}, 3, "param");
    check_numbers(f.bias, (double[]){10, 10, 10}, 3, "bias");
    uc_folded_free(&f);
  }
  destroy(&s);
}

/* ---- refusals ---- */

static void check_refused(setup *s, upconv_status status, const char *message) {
  uc_folded f = {.param_count = -1};
  CHECK_STATUS(fold(s, &f), status);
  CHECK_STR(upconv_last_error(), message);
  CHECK_INT(f.param_count, -1);
}

static void refused_weight(void) {
  setup s = make("ci2 co4 g2 in4x4 k2x5 | mul @a");
  if (!s.ready) return;
  upconv_tensor good = s.parameters.weight, *w = &s.parameters.weight;
  w->shape[0] = 3;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "weight: shape[0] is 3; it must be 2 (in_channels)");
  *w = good;
  w->shape[1] = 4;
  check_refused(&s, UPCONV_INVALID_ARGUMENT,
                "weight: shape[1] is 4; it must be 2 (out_channels / groups)");
  *w = good;
  w->shape[3] = 2;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "weight: shape[3] is 2; it must be 5 (kernel)");
  *w = good;
  w->rank = 5;
  check_refused(&s, UPCONV_INVALID_ARGUMENT,
                "weight: rank is 5; the problem needs 4 (N, C, spatial)");
  *w = good;
  w->dtype = (upconv_dtype)7;
  check_refused(&s, UPCONV_UNSUPPORTED, "weight: dtype is 7; allowed: f32, f16, bf16");
  *w = good;
  w->data = NULL;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "weight: data is NULL and the tensor is not empty");
  *w = good;
  destroy(&s);
}

static void refused_bias(void) {
  setup s = make("ci2 co4 in4 k2 bias | mul @a");
  if (!s.ready) return;
  upconv_tensor good = s.parameters.bias, *b = &s.parameters.bias;
  b->data = NULL;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "bias: data is NULL; the problem has a bias");
  *b = good;
  b->shape[0] = 1;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "bias: shape[0] is 1; it must be 4");
  *b = good;
  b->rank = 2;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "bias: rank is 2; allowed: 1");
  *b = good;
  s.lowered.source.bias = false;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "bias: data is not NULL; the problem has no bias");
  destroy(&s);
}

static void refused_params(void) {
  setup s = make("ci2 co4 in4 k2 | mul @a | relu | add @b[]");
  if (!s.ready) return;
  upconv_tensor a = s.param[0], b = s.param[1];
  s.param[0].shape[0] = 1;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "parameter @a: shape[0] is 1; it must be 4");
  s.param[0] = a;
  s.param[0].rank = 0;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "parameter @a: rank is 0; allowed: 1");
  s.param[0] = a;
  s.param[1].rank = 2;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "parameter @b: rank is 2; allowed: 1, and 0");
  s.param[1] = b;
  s.param[1].dtype = (upconv_dtype)9;
  check_refused(&s, UPCONV_UNSUPPORTED, "parameter @b: dtype is 9; allowed: f32, f16, bf16");
  s.param[1] = b;
  s.param[1].data = NULL;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "parameter @b: data is NULL");
  s.param[1] = b;
  s.parameters.param_count = 3;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "param_count is 3; the epilogue has 2 parameters");
  s.parameters.param_count = 2;
  uc_folded f;
  s.parameters.params = NULL;
  CHECK_STATUS(uc_fold_parameters(&s.lowered, &s.parameters, &f), UPCONV_INVALID_ARGUMENT);
  CHECK_STR(upconv_last_error(), "params is NULL; the epilogue has 2 parameters");
  CHECK_STATUS(uc_fold_parameters(&s.lowered, NULL, &f), UPCONV_INVALID_ARGUMENT);
  CHECK_STR(upconv_last_error(), "parameters is NULL");
  destroy(&s);
}

/* A parameter of a dropped operator is still checked; one that no operator uses may be anything. */
static void unused(void) {
  setup s = make("ci2 co4 in4 k2 | declare @u @a | relu | mul @a %0 | exp %1");
  uc_folded f;
  if (!s.ready) return;
  CHECK_INT(s.lowered.param[0].size, 0);
  CHECK_FREE(s.param[0].data);
  s.param[0].data = NULL;
  if (CHECK_STATUS(fold(&s, &f), UPCONV_OK)) {
    CHECK_INT(f.param_count, 0);
    uc_folded_free(&f);
  }
  s.param[1].shape[0] = 3;
  check_refused(&s, UPCONV_INVALID_ARGUMENT, "parameter @a: shape[0] is 3; it must be 4");
  destroy(&s);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"plain", plain},
      {"scale_and_shift", scale_and_shift},
      {"norm", norm},
      {"avg_pool", avg_pool},
      {"formulas", formulas},
      {"formulas_alike", formulas_alike},
      {"strides", strides},
      {"dtypes", dtypes},
      {"vectors", vectors},
      {"refused_weight", refused_weight},
      {"refused_bias", refused_bias},
      {"refused_params", refused_params},
      {"unused", unused},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
