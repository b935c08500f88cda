/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of any transposed convolution, whatever its values: it is linear, it moves with
 * its input, and it is the adjoint of the forward convolution, which is written out here. Data are
 * small integers, for which float32 is exact: equal means equal.
 */
// labels: parallel

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random_data.h"
#include "random_problem.h"

enum { PROBLEMS = 150, FIRST_SEED = 77000, RANK = UPCONV_MAX_RANK };

/* A: one candidate's plan for a random problem without bias and epilogue, float32 throughout. */
typedef struct transform {
  upconv_problem_desc desc;
  int rank;
  int64_t x_shape[RANK], w_shape[RANK], y_shape[RANK];
  float *weight;
  upconv_plan *plan;
  void *packed;
} transform;

static upconv_context *context;

static int64_t product(const int64_t *shape, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= shape[i];
  return p;
}

static float *integers(uint64_t *random, int64_t n) {
  float *data = malloc(((size_t)n + 1) * sizeof *data);
  for (int64_t i = 0; i < n; i++) data[i] = (float)check_random_range(random, -4, 4);
  return data;
}

/* ---- setting up ---- */

/* The text's problem, stripped. */
static bool describe(const char *text, transform *t) {
  upconv_problem *problem;
  if (!CHECK_STATUS(upconv_problem_parse(text, &problem, NULL), UPCONV_OK)) return false;
  CHECK_STATUS(upconv_problem_get_desc(problem, &t->desc), UPCONV_OK);
  upconv_problem_destroy(problem);
  upconv_problem_desc *d = &t->desc;
  d->bias = false;
  d->x_dtype = d->w_dtype = d->y_dtype = UPCONV_F32;
  t->rank = d->spatial_dims + 2;
  t->x_shape[0] = d->batch;
  t->x_shape[1] = t->w_shape[0] = d->in_channels;
  t->w_shape[1] = d->out_channels / d->groups;
  for (int i = 0; i < d->spatial_dims; i++) {
    t->x_shape[2 + i] = d->in_size[i];
    t->w_shape[2 + i] = d->kernel[i];
  }
  return true;
}

static bool plan(transform *t, const upconv_problem *problem, const char *candidate) {
  upconv_plan_options options = {.candidate = candidate};
  upconv_parameters parameters = {.weight = upconv_tensor_dense(t->weight, UPCONV_F32, t->rank,
                                                                t->w_shape, UPCONV_CHANNELS_FIRST)};
  if (!CHECK_STATUS(upconv_plan_create(context, problem, NULL, &options, &t->plan), UPCONV_OK))
    return false;
  t->packed = check_alloc(upconv_plan_packed_size(t->plan), 0);
  return CHECK_STATUS(upconv_plan_pack(t->plan, &parameters, t->packed, NULL), UPCONV_OK);
}

/* A x, dense and channels first; the caller frees it. */
static float *apply(const transform *t, const float *x) {
  int64_t count = product(t->y_shape, t->rank);
  float *y = malloc(((size_t)count + 1) * sizeof *y);
  size_t bytes = 0;
  CHECK_STATUS(upconv_plan_workspace_size(t->plan, t->x_shape, &bytes), UPCONV_OK);
  void *workspace = check_alloc(bytes, 0);
  upconv_arguments arguments = {
      .x = upconv_tensor_dense((void *)(uintptr_t)x, UPCONV_F32, t->rank, t->x_shape,
                               UPCONV_CHANNELS_FIRST),
      .y = upconv_tensor_dense(y, UPCONV_F32, t->rank, t->y_shape, UPCONV_CHANNELS_FIRST),
      .packed = t->packed,
      .workspace = workspace,
      .workspace_size = bytes};
  check_poison(y, (size_t)count * sizeof *y);
  CHECK_STATUS(upconv_execute(t->plan, &arguments), UPCONV_OK);
  CHECK_FREE(workspace);
  return y;
}

/* ---- the properties ---- */

/* A (2 a - 3 b) = 2 A a - 3 A b */
static void check_linear(const transform *t, uint64_t *random) {
  int64_t in = product(t->x_shape, t->rank), out = product(t->y_shape, t->rank), wrong = 0;
  float *a = integers(random, in), *b = integers(random, in), *mix = integers(random, in);
  for (int64_t i = 0; i < in; i++) mix[i] = 2 * a[i] - 3 * b[i];
  float *ya = apply(t, a), *yb = apply(t, b), *ymix = apply(t, mix);
  for (int64_t i = 0; i < out; i++) wrong += ymix[i] != 2 * ya[i] - 3 * yb[i];
  CHECK_INT(wrong, 0);
  free(a);
  free(b);
  free(mix);
  free(ya);
  free(yb);
  free(ymix);
}

/* x moved by one element along an axis, 0 coming in and the last elements 0 before: y moves by the
 * stride. */
static void check_shift(const transform *t, uint64_t *random, int axis) {
  int64_t in = product(t->x_shape, t->rank), wrong = 0;
  int64_t stride = t->desc.stride[axis], size = t->x_shape[2 + axis];
  float *x = integers(random, in), *moved = integers(random, in);
  upconv_tensor view =
      upconv_tensor_dense(x, UPCONV_F32, t->rank, t->x_shape, UPCONV_CHANNELS_FIRST);
  int64_t step = view.stride[2 + axis], index[RANK] = {0}, at = 0;
  if (in > 0) do {
      if (index[2 + axis] == size - 1) x[at] = 0;
      moved[at] = index[2 + axis] > 0 ? x[at - step] : 0;
      at++;
    } while (random_tensor_next(&view, index));
  float *y = apply(t, x), *y_moved = apply(t, moved);
  view = upconv_tensor_dense(y, UPCONV_F32, t->rank, t->y_shape, UPCONV_CHANNELS_FIRST);
  step = view.stride[2 + axis] * stride;
  memset(index, 0, sizeof index);
  at = 0;
  if (product(t->y_shape, t->rank) > 0) do {
      if (index[2 + axis] >= stride) wrong += y_moved[at] != y[at - step];
      at++;
    } while (random_tensor_next(&view, index));
  CHECK_INT(wrong, 0);
  free(x);
  free(moved);
  free(y);
  free(y_moved);
}

/* (A^T v)[n, ci, i] = sum over co of the group and k of v[n, co, i s - p + d k] w[ci, co, k]: a
 * strided correlation. */
static double forward_element(const transform *t, const float *v, const int64_t *index) {
  const upconv_problem_desc *d = &t->desc;
  int64_t group = index[1] / (d->in_channels / d->groups), per_group = t->w_shape[1];
  upconv_tensor w =
      upconv_tensor_dense(NULL, UPCONV_F32, t->rank, t->w_shape, UPCONV_CHANNELS_FIRST);
  upconv_tensor y =
      upconv_tensor_dense(NULL, UPCONV_F32, t->rank, t->y_shape, UPCONV_CHANNELS_FIRST);
  w.shape[0] = 1; /* its own input channel alone */
  double sum = 0;
  int64_t k[RANK] = {0};
  do {
    int64_t from = index[0] * y.stride[0] + (group * per_group + k[1]) * y.stride[1];
    int64_t weight = index[1] * w.stride[0] + k[1] * w.stride[1];
    bool inside = true;
    for (int a = 0; a < d->spatial_dims; a++) {
      int64_t o = index[2 + a] * d->stride[a] - d->pad_begin[a] + d->dilation[a] * k[2 + a];
      inside = inside && o >= 0 && o < t->y_shape[2 + a];
      from += o * y.stride[2 + a];
      weight += k[2 + a] * w.stride[2 + a];
    }
    if (inside) sum += (double)v[from] * (double)t->weight[weight];
  } while (random_tensor_next(&w, k));
  return sum;
}

/* <A x, v> = <x, A^T v> */
static void check_adjoint(const transform *t, uint64_t *random) {
  int64_t in = product(t->x_shape, t->rank), out = product(t->y_shape, t->rank), at = 0;
  float *x = integers(random, in), *v = integers(random, out), *y = apply(t, x);
  double left = 0, right = 0;
  for (int64_t i = 0; i < out; i++) left += (double)y[i] * (double)v[i];
  upconv_tensor view =
      upconv_tensor_dense(x, UPCONV_F32, t->rank, t->x_shape, UPCONV_CHANNELS_FIRST);
  int64_t index[RANK] = {0};
  if (in > 0) do
      right += (double)x[at++] * forward_element(t, v, index);
    while (random_tensor_next(&view, index));
  CHECK_NEAR(left, right, 0);
  free(x);
  free(v);
  free(y);
}

/* ---- all problems, all candidates ---- */

typedef void property(const transform *t, uint64_t *random);

static void check_shifts(const transform *t, uint64_t *random) {
  for (int axis = 0; axis < t->desc.spatial_dims; axis++) check_shift(t, random, axis);
}

static void check_candidate(transform *t, const upconv_problem *problem, const char *candidate,
                            property *holds, uint64_t seed) {
  uint64_t random = seed;
  t->weight = integers(&random, product(t->w_shape, t->rank));
  if (plan(t, problem, candidate)) holds(t, &random);
  CHECK_FREE(t->packed);
  upconv_plan_destroy(t->plan);
  free(t->weight);
  t->packed = NULL;
  t->plan = NULL;
}

static void check_problem(uint64_t seed, property *holds) {
  char text[RANDOM_TEXT];
  transform t = {.packed = NULL};
  upconv_problem *problem;
  upconv_plan *any;
  random_problem_text(seed, text);
  text[strcspn(text, "|")] = '\0';
  check_context("%s", text);
  if (!describe(text, &t) || !CHECK_STATUS(upconv_problem_create(&t.desc, &problem), UPCONV_OK))
    return;
  CHECK_STATUS(upconv_problem_conv_shape(problem, t.y_shape), UPCONV_OK);
  if (CHECK_STATUS(upconv_plan_create(context, problem, NULL, NULL, &any), UPCONV_OK)) {
    for (int i = 0; upconv_plan_candidate_name(any, i); i++)
      check_candidate(&t, problem, upconv_plan_candidate_name(any, i), holds, seed);
    upconv_plan_destroy(any);
  }
  upconv_problem_destroy(problem);
  check_context(NULL);
}

static void check_problems(property *holds) {
  upconv_context_options options = {.threads = 2};
  if (!CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK)) return;
  for (uint64_t i = 0; i < PROBLEMS; i++) check_problem(FIRST_SEED + i, holds);
  upconv_context_destroy(context);
}

static void is_linear(void) { check_problems(check_linear); }
static void moves_with_its_input(void) { check_problems(check_shifts); }
static void is_the_adjoint_of_a_convolution(void) { check_problems(check_adjoint); }

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"is_linear", is_linear},
      {"moves_with_its_input", moves_with_its_input},
      {"is_the_adjoint_of_a_convolution", is_the_adjoint_of_a_convolution},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
