/* SPDX-License-Identifier: Apache-2.0
 *
 * Random problems through the public API: every candidate, with and without rewriting, for 1, 2, 3
 * and 7 threads, against the oracle, element by element.
 *
 *   test_random                            300 problems
 *   test_random --count 2000 --seed 7      more; from 2000 on, under 50 cases of anything is wrong
 *   test_random --seed S --replay "TEXT"   one problem: what a failure prints
 */
// timeout: 600
// labels: parallel

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device.h"
#include "random_corners.h"
#include "random_data.h"
#include "random_problem.h"
#include "tally.h"

enum { COUNTS = 4, ENOUGH_CASES = 50, COUNT_FOR_ENOUGH = 2000 };

static const int threads[COUNTS] = {1, 2, 3, 7};
static upconv_context *context[COUNTS]; /* of so many threads */
static bool on_device;                  /* then they are alike, and repeat each other's work */

/* A problem with its data and what the oracle says. */
typedef struct test_case {
  const char *text;
  uint64_t seed, random;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_problem_desc desc;
  int rank;
  random_inputs inputs;
  int64_t x_shape[UPCONV_MAX_RANK], y_shape[UPCONV_MAX_RANK];
  double *value, *bound;
  bool finite; /* all inputs are */
  bool passed;
} test_case;

static bool one_in(test_case *c, int n) { return check_random_range(&c->random, 1, n) == 1; }

/* Wraps every check of a case. */
static bool expect(test_case *c, bool held) {
  c->passed = c->passed && held;
  return held;
}

static int64_t product(const int64_t *shape, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= shape[i];
  return p;
}

/* ---- oracle ---- */

static bool run_oracle(test_case *c, const upconv_problem *problem, const random_inputs *inputs,
                       int64_t count, double **value, double **bound) {
  upconv_error_model model = {0, on_device};
  if (on_device && c->desc.math == UPCONV_MATH_TF32 &&
      (c->desc.x_dtype == UPCONV_F32 || c->desc.w_dtype == UPCONV_F32))
    model.operand_rounding = 0x1p-11;
  *value = malloc(((size_t)count + 1) * sizeof **value);
  *bound = malloc(((size_t)count + 1) * sizeof **bound);
  upconv_arguments arguments = {.x = inputs->x.view,
                                .y = {.dtype = c->desc.y_dtype},
                                .tensors = inputs->tensor_view,
                                .tensor_count = inputs->tensor_count};
  return expect(c, CHECK_STATUS(upconv_reference(problem, c->epilogue, &c->inputs.parameters,
                                                 &arguments, &model, *value, *bound),
                                UPCONV_OK));
}

static void describe_mismatch(const upconv_tensor *y, const double *value, const double *bound,
                              int64_t where) {
  int64_t index[UPCONV_MAX_RANK], rest = where;
  for (int a = y->rank - 1; a >= 0; a--) {
    index[a] = rest % y->shape[a];
    rest /= y->shape[a];
  }
  upconv_tensor one = *y;
  double exact[] = {0, 1}, zero[] = {1, 1}, got = 0;
  for (int a = 0; a < y->rank; a++) one.shape[a] = 1;
  one.data = random_tensor_at(y, index);
  upconv_compare(&one, exact, zero, &got, NULL); /* |y| */
  printf("  element [");
  for (int a = 0; a < y->rank; a++) printf("%s%lld", a ? ", " : "", (long long)index[a]);
  printf("]: |y| = %.9g, the oracle has %.9g within %.3g\n", got, value[where], bound[where]);
}

static void compare(test_case *c, const char *what, const upconv_tensor *y, const double *value,
                    const double *bound) {
  double worst = INFINITY;
  int64_t where = 0;
  expect(c, CHECK_STATUS(upconv_compare(y, value, bound, &worst, &where), UPCONV_OK));
  if (!expect(c, CHECK_MSG(worst <= 1, "%s is off by %g bounds at element %lld", what, worst,
                           (long long)where)))
    describe_mismatch(y, value, bound, where);
}

/* ---- one execution ---- */

static void free_output(test_case *c, random_tensor *y) {
  if (!y->buffer) return; /* never made: the plan failed */
  expect(c, CHECK_MSG(random_tensor_gaps_untouched(y), "elements beside y were written"));
  expect(c, CHECK_GUARDS(y->buffer));
  random_tensor_free(y);
}

/* y's strides depend on the seed alone. */
static void make_output(test_case *c, const int64_t *shape, random_tensor *y) {
  uint64_t random = c->seed ^ 0x5eed;
  random_tensor_create(&random, c->desc.y_dtype, c->rank, shape, c->desc.y_layout,
                       check_random_range(&random, 0, 1), false, y);
}

static bool pack(test_case *c, const upconv_plan *plan, unsigned char **packed) {
  size_t bytes = upconv_plan_packed_size(plan);
  *packed = check_alloc(bytes, 0);
  bool held = expect(
      c, CHECK_STATUS(on_device ? device_pack(plan, &c->inputs.parameters, *packed)
                                : upconv_plan_pack(plan, &c->inputs.parameters, *packed, NULL),
                      UPCONV_OK));
  return expect(c, CHECK_GUARDS(*packed)) && held;
}

/* Poisoned workspace of the size asked for. */
static bool execute(test_case *c, const upconv_plan *plan, const unsigned char *packed,
                    const int64_t *x_shape, upconv_arguments *arguments) {
  size_t bytes = 0;
  if (!expect(c, CHECK_STATUS(upconv_plan_workspace_size(plan, x_shape, &bytes), UPCONV_OK)))
    return false;
  void *workspace = check_alloc(bytes, 0);
  arguments->packed = packed;
  arguments->workspace = workspace;
  arguments->workspace_size = bytes;
  bool held = expect(
      c, CHECK_STATUS(on_device ? device_execute(plan, arguments) : upconv_execute(plan, arguments),
                      UPCONV_OK));
  expect(c, CHECK_GUARDS(workspace));
  if (on_device) expect(c, CHECK(device_guards_intact()));
  CHECK_FREE(workspace);
  return held;
}

/* The elements of `part`, which starts at `offset` in `whole`, have the same bits there. */
static bool bits_equal(const upconv_tensor *whole, const upconv_tensor *part,
                       const int64_t *offset) {
  int64_t index[UPCONV_MAX_RANK] = {0}, there[UPCONV_MAX_RANK];
  if (random_tensor_count(part) == 0) return true;
  do {
    for (int a = 0; a < part->rank; a++) there[a] = index[a] + offset[a];
    if (memcmp(random_tensor_at(whole, there), random_tensor_at(part, index),
               upconv_dtype_size(part->dtype)) != 0)
      return false;
  } while (random_tensor_next(part, index));
  return true;
}

/* ---- sub-volumes ---- */

static void copy_box(const upconv_tensor *whole, const int64_t *offset, upconv_tensor *box) {
  int64_t index[UPCONV_MAX_RANK] = {0}, there[UPCONV_MAX_RANK];
  memcpy(box->offset, offset, sizeof box->offset);
  if (random_tensor_count(box) == 0) return;
  do {
    for (int a = 0; a < box->rank; a++) there[a] = index[a] + offset[a];
    memcpy(random_tensor_at(box, index), random_tensor_at(whole, there),
           upconv_dtype_size(box->dtype));
  } while (random_tensor_next(box, index));
}

static void random_box(test_case *c, int64_t *offset, int64_t *shape) {
  for (int a = 0; a < c->rank; a++) {
    shape[a] = check_random_range(&c->random, one_in(c, 40) ? 0 : 1, c->y_shape[a]);
    offset[a] = check_random_range(&c->random, 0, c->y_shape[a] - shape[a]);
  }
}

/* Extra tensors of an elementwise program: no more than the box of y. */
static void crop_tensors(const test_case *c, const int64_t *offset, const int64_t *shape,
                         upconv_tensor *view) {
  for (int i = 0; i < c->inputs.tensor_count; i++) {
    view[i] = c->inputs.tensor_view[i];
    if (!random_corner_is_elementwise(c->text)) continue;
    int64_t start[UPCONV_MAX_RANK] = {0};
    for (int a = 0; a < c->rank; a++) {
      if (view[i].shape[a] != c->y_shape[a] || view[i].shape[a] == 1) continue;
      start[a] = view[i].offset[a] = offset[a];
      view[i].shape[a] = shape[a];
    }
    if (random_tensor_count(&view[i]) > 0)
      view[i].data = random_tensor_at(&c->inputs.tensor_view[i], start);
  }
}

/* A box of y from the part of x that it needs, and nothing else: the same bits as in the whole y.
 */
static void check_box(test_case *c, const upconv_plan *plan, const unsigned char *packed,
                      const upconv_tensor *whole) {
  int64_t offset[UPCONV_MAX_RANK] = {0}, shape[UPCONV_MAX_RANK] = {0};
  int64_t x_offset[UPCONV_MAX_RANK] = {0}, x_box[UPCONV_MAX_RANK] = {0};
  if (product(c->y_shape, c->rank) == 0) return;
  random_box(c, offset, shape);
  if (!expect(c,
              CHECK_STATUS(upconv_plan_input_box(plan, c->x_shape, offset, shape, x_offset, x_box),
                           UPCONV_OK)))
    return;
  random_tensor x, y;
  upconv_tensor tensors[MOST_DECLARED];
  random_tensor_create(&c->random, c->desc.x_dtype, c->rank, x_box, c->desc.x_layout, one_in(c, 2),
                       false, &x);
  copy_box(&c->inputs.x.view, x_offset, &x.view);
  make_output(c, shape, &y);
  memcpy(y.view.offset, offset, sizeof offset);
  crop_tensors(c, offset, shape, tensors);
  upconv_arguments arguments = {.x = x.view,
                                .y = y.view,
                                .tensors = tensors,
                                .tensor_count = c->inputs.tensor_count,
                                .x_shape = c->x_shape};
  if (execute(c, plan, packed, c->x_shape, &arguments))
    expect(c, CHECK_MSG(bits_equal(whole, &y.view, offset),
                        "a box of y differs from the same box of the whole"));
  tally("run", random_tensor_count(&x.view) ? "sub-volume" : "sub-volume of no input");
  free_output(c, &y);
  random_tensor_free(&x);
}

/* ---- other extents ---- */

static bool random_extents(test_case *c, upconv_problem **problem, int64_t *x_shape,
                           int64_t *y_shape) {
  enum { MOST_OUTPUTS = 20000 };
  upconv_problem_desc d = c->desc;
  d.batch = check_random_range(&c->random, 0, 3);
  for (int i = 0; i < d.spatial_dims; i++)
    d.in_size[i] = check_random_range(&c->random, 1, c->desc.in_size[i] + 3);
  if (upconv_problem_create(&d, problem)) return false;
  x_shape[0] = d.batch;
  x_shape[1] = d.in_channels;
  memcpy(x_shape + 2, d.in_size, sizeof d.in_size);
  if (!upconv_output_shape(*problem, c->epilogue, y_shape) &&
      product(y_shape, c->rank) <= MOST_OUTPUTS)
    return true;
  upconv_problem_destroy(*problem);
  return false;
}

static void check_other_extents(test_case *c, const upconv_plan *plan,
                                const unsigned char *packed) {
  upconv_problem *problem;
  int64_t x_shape[UPCONV_MAX_RANK], y_shape[UPCONV_MAX_RANK], plan_shape[UPCONV_MAX_RANK];
  if (!random_extents(c, &problem, x_shape, y_shape)) return;
  expect(c, CHECK_STATUS(upconv_plan_output_shape(plan, x_shape, plan_shape), UPCONV_OK));
  expect(c, CHECK(memcmp(plan_shape, y_shape, (size_t)c->rank * sizeof *y_shape) == 0));
  random_inputs inputs;
  random_tensor y;
  double *value, *bound;
  char what[64];
  snprintf(what, sizeof what, "y of another x (n%lld in%lldx%lldx%lld)", (long long)x_shape[0],
           (long long)x_shape[2], c->rank > 3 ? (long long)x_shape[3] : 1,
           c->rank > 4 ? (long long)x_shape[4] : 1);
  random_inputs_create(&c->random, problem, c->text, &inputs);
  make_output(c, y_shape, &y);
  upconv_arguments arguments = {.x = inputs.x.view,
                                .y = y.view,
                                .tensors = inputs.tensor_view,
                                .tensor_count = inputs.tensor_count};
  if (run_oracle(c, problem, &inputs, product(y_shape, c->rank), &value, &bound) &&
      execute(c, plan, packed, x_shape, &arguments))
    compare(c, what, &y.view, value, bound);
  tally("run", "other extents");
  free_output(c, &y);
  free(value);
  free(bound);
  random_inputs_free(&inputs);
  upconv_problem_destroy(problem);
}

/* ---- plans ---- */

static void tally_plan(const upconv_plan *plan, const upconv_plan_options *options) {
  tally("candidate", upconv_plan_candidate(plan));
  tally("run", options->no_fuse      ? "operator by operator"
               : options->no_rewrite ? "as written"
                                     : "rewritten");
  if (options->constants) tally("run", "constant parameters");
  for (int i = 0; upconv_plan_rule(plan, i); i++) {
    bool repeated = false;
    for (int k = 0; k < i; k++)
      repeated = repeated || strcmp(upconv_plan_rule(plan, k), upconv_plan_rule(plan, i)) == 0;
    if (!repeated) tally("rule", upconv_plan_rule(plan, i));
  }
}

static void check_plan_text(test_case *c, const upconv_plan *plan) {
  char text[200];
  size_t length = 0;
  expect(c, CHECK_STATUS(upconv_plan_print(plan, text, sizeof text, &length), UPCONV_OK));
  expect(c, CHECK(length > 0 && text[0]));
}

/* The whole y. */
static bool run_whole(test_case *c, const upconv_plan *plan, const unsigned char *packed,
                      random_tensor *y) {
  make_output(c, c->y_shape, y);
  if (y->traits.strided) tally("run", "y strided");
  if (y->traits.misaligned) tally("run", "y misaligned");
  upconv_arguments arguments = {.x = c->inputs.x.view,
                                .y = y->view,
                                .tensors = c->inputs.tensor_view,
                                .tensor_count = c->inputs.tensor_count};
  return execute(c, plan, packed, c->x_shape, &arguments);
}

static void run_options(test_case *c, const upconv_plan_options *options) {
  static const int64_t nowhere[UPCONV_MAX_RANK] = {0};
  random_tensor first = {.buffer = NULL};
  for (int t = 0; t < COUNTS; t++) {
    upconv_plan *plan;
    unsigned char *packed;
    random_tensor y = {.buffer = NULL};
    check_context("seed %llu, %s, %s, %d threads", (unsigned long long)c->seed,
                  options->candidate ? options->candidate : "the planner's choice",
                  options->no_fuse      ? "no_fuse"
                  : options->no_rewrite ? "no_rewrite"
                                        : "rewritten",
                  threads[t]);
    if (!expect(
            c, CHECK_STATUS(upconv_plan_create(context[t], c->problem, c->epilogue, options, &plan),
                            UPCONV_OK)))
      break;
    bool done = pack(c, plan, &packed) && run_whole(c, plan, packed, &y);
    if (t == 0) {
      first = y;
      tally_plan(plan, options);
      check_plan_text(c, plan);
      bool as_written = options->no_rewrite || options->no_fuse;
      if (done && (c->finite || as_written)) compare(c, "y", &y.view, c->value, c->bound);
      if (done) check_box(c, plan, packed, &y.view);
      if (done && one_in(c, 2)) check_other_extents(c, plan, packed);
    } else {
      expect(c, CHECK_MSG(done && bits_equal(&first.view, &y.view, nowhere),
                          "the bits depend on the number of threads"));
      free_output(c, &y);
    }
    expect(c, CHECK_FREE(packed));
    upconv_plan_destroy(plan);
  }
  free_output(c, &first);
}

/* Every candidate that applies, and the planner's choice. */
static void run_candidates(test_case *c, bool no_rewrite) {
  upconv_plan_options options = {.no_rewrite = no_rewrite};
  upconv_plan *plan;
  if (one_in(c, 4)) options.constants = &c->inputs.parameters;
  check_context("seed %llu", (unsigned long long)c->seed);
  if (!expect(c,
              CHECK_STATUS(upconv_plan_create(context[0], c->problem, c->epilogue, &options, &plan),
                           UPCONV_OK)))
    return;
  bool chosen_is_listed = false;
  for (int i = 0; upconv_plan_candidate_name(plan, i); i++) {
    options.candidate = upconv_plan_candidate_name(plan, i);
    if (strcmp(options.candidate, upconv_plan_candidate(plan)) == 0) chosen_is_listed = true;
    run_options(c, &options);
  }
  expect(c, CHECK(chosen_is_listed));
  upconv_plan_destroy(plan);
}

/* ---- a case ---- */

/* The text form is complete: it reads back to itself. */
static void check_text(test_case *c) {
  char printed[RANDOM_TEXT], again[RANDOM_TEXT];
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  expect(c,
         CHECK_STATUS(upconv_problem_print(c->problem, c->epilogue, printed, sizeof printed, NULL),
                      UPCONV_OK));
  if (!expect(c, CHECK_STATUS(upconv_problem_parse(printed, &problem, &epilogue), UPCONV_OK)))
    return;
  expect(c, CHECK_STATUS(upconv_problem_print(problem, epilogue, again, sizeof again, NULL),
                         UPCONV_OK));
  expect(c, CHECK_STR(again, printed));
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
}

/* NaN and infinities in a few elements of x. */
static void spoil(test_case *c) {
  static const double special[] = {NAN, INFINITY, -INFINITY};
  const upconv_tensor *x = &c->inputs.x.view;
  if (random_tensor_count(x) == 0 || !one_in(c, 7)) return;
  c->finite = false;
  for (int64_t n = check_random_range(&c->random, 1, 3); n > 0; n--) {
    int64_t index[UPCONV_MAX_RANK];
    for (int a = 0; a < x->rank; a++) index[a] = check_random_range(&c->random, 0, x->shape[a] - 1);
    random_tensor_store(x, index, special[check_random_range(&c->random, 0, 2)]);
  }
}

/* Elements where rounding decides are not tested; of finite inputs there must be few. */
static void count_undecided(const test_case *c, double share[2]) {
  int64_t count = product(c->y_shape, c->rank);
  for (int64_t i = 0; i < count && c->finite; i++) {
    share[0] += 1;
    share[1] += isinf(c->bound[i]) ? 1 : 0;
  }
}

static void run_case_parts(test_case *c, double undecided[2]) {
  random_inputs_create(&c->random, c->problem, c->text, &c->inputs);
  memcpy(c->x_shape, c->inputs.x.view.shape, sizeof c->x_shape);
  spoil(c);
  if (!run_oracle(c, c->problem, &c->inputs, product(c->y_shape, c->rank), &c->value, &c->bound))
    return;
  count_undecided(c, undecided);
  random_corners_tally(c->text, &c->desc, &c->inputs, c->y_shape, c->finite);
  check_text(c);
  run_candidates(c, false);
  run_candidates(c, true);
  if (one_in(c, 2)) run_options(c, &(upconv_plan_options){.no_fuse = true});
}

static bool run_case(const char *text, uint64_t seed, double undecided[2]) {
  test_case c = {
      .text = text, .seed = seed, .random = seed ^ 0xda7a, .finite = true, .passed = true};
  check_context("seed %llu", (unsigned long long)seed);
  if (expect(&c, CHECK_STATUS(upconv_problem_parse(text, &c.problem, &c.epilogue), UPCONV_OK)) &&
      expect(&c, CHECK_STATUS(upconv_problem_get_desc(c.problem, &c.desc), UPCONV_OK)) &&
      expect(&c, CHECK_STATUS(upconv_output_shape(c.problem, c.epilogue, c.y_shape), UPCONV_OK))) {
    c.rank = c.desc.spatial_dims + 2;
    run_case_parts(&c, undecided);
  }
  free(c.value);
  free(c.bound);
  random_inputs_free(&c.inputs);
  upconv_problem_destroy(c.problem);
  upconv_epilogue_destroy(c.epilogue);
  check_context(NULL);
  if (!c.passed)
    printf("  replay: test_random --seed %llu --replay \"%s\"\n", (unsigned long long)seed, text);
  fflush(stdout);
  return c.passed;
}

/* ---- main ---- */

/* A missing GPU is no failure: the test is skipped by name. */
static bool create_contexts(void) {
  if (on_device && device_open() != UPCONV_OK) {
    printf("SKIP test_random --device cuda: %s\n0 passed, 0 failed, 1 skipped\n",
           upconv_last_error());
    exit(77);
  }
  for (int t = 0; t < COUNTS; t++) {
    upconv_context_options options = {.device = on_device ? "cuda" : "cpu", .threads = threads[t]};
    if (!CHECK_STATUS(upconv_context_create(&options, &context[t]), UPCONV_OK)) return false;
  }
  printf("%s\n", upconv_context_describe(context[0]));
  return true;
}

static int run_all(uint64_t seed, long count) {
  enum { SEEDS_APART = 1000003 };
  double undecided[2] = {1, 0};
  long failed = 0, rare;
  for (long i = 0; i < count; i++) {
    char text[RANDOM_TEXT];
    uint64_t own = seed * SEEDS_APART + (uint64_t)i;
    (on_device && own % 2 == 1 ? random_dense_text : random_problem_text)(own, text);
    failed += !run_case(text, own, undecided);
  }
  rare = tally_print(count >= COUNT_FOR_ENOUGH ? ENOUGH_CASES : 0);
  double share = undecided[1] / undecided[0];
  printf("rounding decides %.4f %% of the elements\n", 100 * share);
  if (share > 0.01) printf("that is too much: at most 1 %% wanted\n");
  printf("%ld passed, %ld failed\n", count - failed, failed + (rare > 0) + (share > 0.01));
  return failed || rare || share > 0.01;
}

int main(int argc, char **argv) {
  uint64_t seed = 1;
  long count = 300;
  const char *replay = NULL;
  for (int i = 1; i < argc; i += 2) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (value && strcmp(argv[i], "--count") == 0)
      count = strtol(value, NULL, 10);
    else if (value && strcmp(argv[i], "--seed") == 0)
      seed = strtoull(value, NULL, 10);
    else if (value && strcmp(argv[i], "--replay") == 0)
      replay = value;
    else if (value && strcmp(argv[i], "--device") == 0)
      on_device = strncmp(value, "cuda", 4) == 0;
    else {
      fprintf(stderr,
              "usage: test_random [--count N] [--seed S] [--replay TEXT] [--device cuda]\n");
      return 2;
    }
  }
  if (!create_contexts()) return 1;
  int failed;
  if (replay) {
    double undecided[2] = {0, 0};
    failed = !run_case(replay, seed, undecided);
    printf("%d passed, %d failed\n", !failed, failed);
  } else {
    if (!on_device) random_corners_expect();
    failed = run_all(seed, count);
  }
  for (int t = 0; t < COUNTS; t++) upconv_context_destroy(context[t]);
  tally_free();
  return failed;
}
