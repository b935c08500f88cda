/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry against brute force over the definition; checks; auto_pad. */
// labels: valgrind
#include <string.h>

#include "check.h"
#include "checked.h"
#include "problem.h"
#include "upconv/upconv.h"

/* ---- helpers ---- */

static upconv_problem_desc desc_1d(int64_t in_size, int64_t kernel, int64_t stride) {
  upconv_problem_desc d;
  CHECK_STATUS(upconv_problem_desc_init(&d, 1), UPCONV_OK);
  d.in_size[0] = in_size;
  d.kernel[0] = kernel;
  d.stride[0] = stride;
  return d;
}

static bool says(const char *part) { return strstr(upconv_last_error(), part) != NULL; }

/* Creating it fails with the status and a message that holds both parts. */
static void refuses(const upconv_problem_desc *d, upconv_status status, const char *part,
                    const char *other) {
  upconv_problem *problem = (upconv_problem *)&problem;
  const void *before = problem;
  CHECK_STATUS(upconv_problem_create(d, &problem), status);
  CHECK_MSG(says(part) && says(other), "'%s' lacks '%s' or '%s'", upconv_last_error(), part, other);
  CHECK(problem == before);
}

static uc_axis random_axis(uint64_t *seed, int64_t most) {
  return (uc_axis){.in_size = check_random_range(seed, 0, 9),
                   .kernel = check_random_range(seed, 1, most),
                   .stride = check_random_range(seed, 1, most),
                   .dilation = check_random_range(seed, 1, most),
                   .pad_begin = check_random_range(seed, -5, 9),
                   .pad_end = check_random_range(seed, -5, 9),
                   .output_padding = check_random_range(seed, -2, most)};
}

/* ---- phases and ranges ---- */

enum { FROM = -16, OUTPUTS = 64, MOST = 7, INPUTS = 5 };

/* Which input each (output, tap) pair reads, 1 + i; 0 where none. Outputs start at FROM. */
typedef struct reads {
  int input[OUTPUTS][MOST];
} reads;

static void by_definition(const uc_axis *axis, reads *r) {
  memset(r, 0, sizeof *r);
  for (int i = 0; i < INPUTS; i++)
    for (int k = 0; k < axis->kernel; k++) {
      int64_t o = i * axis->stride - axis->pad_begin + axis->dilation * k;
      if (o >= FROM && o < FROM + OUTPUTS) r->input[o - FROM][k] = 1 + i;
    }
}

static void by_phases(const uc_axis *axis, reads *r) {
  memset(r, 0, sizeof *r);
  for (int64_t o = FROM; o < FROM + OUTPUTS; o++) {
    int64_t phi = uc_mod(o + axis->pad_begin, axis->stride);
    int64_t q = uc_floor_div(o + axis->pad_begin, axis->stride);
    uc_phase phase = uc_axis_phase(axis, phi);
    for (int64_t t = 0; t < phase.count; t++) {
      int64_t k = phase.first + t * phase.step, i = q - phase.shift - t * phase.shift_step;
      if (!CHECK_MSG(k >= 0 && k < axis->kernel, "tap %lld", (long long)k)) return;
      if (i >= 0 && i < INPUTS) r->input[o - FROM][k] = (int)(1 + i);
    }
  }
}

static void phases_are_the_definition(void) {
  reads wanted, got;
  uc_axis axis = {.in_size = INPUTS};
  for (axis.stride = 1; axis.stride <= MOST; axis.stride++)
    for (axis.dilation = 1; axis.dilation <= MOST; axis.dilation++)
      for (axis.kernel = 1; axis.kernel <= MOST; axis.kernel++)
        for (axis.pad_begin = -5; axis.pad_begin <= 9; axis.pad_begin++) {
          by_definition(&axis, &wanted);
          by_phases(&axis, &got);
          CHECK_MSG(memcmp(&wanted, &got, sizeof got) == 0, "s %lld d %lld k %lld p %lld",
                    (long long)axis.stride, (long long)axis.dilation, (long long)axis.kernel,
                    (long long)axis.pad_begin);
        }
}

/* Each tap belongs to exactly one phase, also where numbers are large. */
static void phases_partition_the_taps(void) {
  uint64_t seed = 2;
  for (int n = 0; n < 300; n++) {
    uc_axis axis = {.kernel = check_random_range(&seed, 1, 40),
                    .stride = check_random_range(&seed, 1, 60),
                    .dilation = check_random_range(&seed, 1, INT32_MAX)};
    int64_t taps = 0;
    for (int64_t phi = 0; phi < axis.stride; phi++) {
      uc_phase phase = uc_axis_phase(&axis, phi);
      taps += phase.count;
      for (int64_t t = 0; t < phase.count; t++) {
        int64_t k = phase.first + t * phase.step;
        CHECK(axis.dilation * k - phi == (phase.shift + t * phase.shift_step) * axis.stride);
      }
    }
    CHECK_INT(taps, axis.kernel);
  }
  const uc_axis large = {.kernel = 1000, .stride = INT32_MAX, .dilation = INT32_MAX - 1};
  uc_phase phase = uc_axis_phase(&large, INT32_MAX - 7);
  CHECK_INT(phase.count, 1);
  CHECK_INT(phase.first, 7);
  CHECK_INT(phase.shift, 6);
}

/* The document's example: 8 phases of 6, 8, 9, 12, 12, 16, 18, 24 taps. */
static void phases_of_an_example(void) {
  static const int64_t kernel[] = {3, 5, 7}, pad[] = {1, 2, 3};
  int64_t count[3][2], sum = 0, largest = 0;
  for (int a = 0; a < 3; a++)
    for (int phi = 0; phi < 2; phi++) {
      uc_axis axis = {.kernel = kernel[a], .stride = 2, .dilation = 1, .pad_begin = pad[a]};
      count[a][phi] = uc_axis_phase(&axis, phi).count;
    }
  for (int i = 0; i < 8; i++) {
    int64_t taps = count[0][i & 1] * count[1][i >> 1 & 1] * count[2][i >> 2];
    sum += taps;
    largest = uc_max(largest, taps);
  }
  CHECK_INT(sum, 105);
  CHECK_INT(largest, 24);
}

/* ceil((o0 + p - d (K - 1)) / s) and floor((o1 - 1 + p) / s), clipped, by counting. */
static void input_ranges(void) {
  uint64_t seed = 3;
  for (int n = 0; n < 20000; n++) {
    uc_axis axis = random_axis(&seed, 6);
    int64_t begin = check_random_range(&seed, 0, 20), end = begin + check_random_range(&seed, 0, 6);
    uc_range got = uc_axis_input(&axis, (uc_range){begin, end}, axis.in_size);
    int64_t first = -1, last = -2;
    for (int64_t i = 0; i < axis.in_size && begin < end; i++) {
      bool reaches =
          i * axis.stride >= begin + axis.pad_begin - axis.dilation * (axis.kernel - 1) &&
          i * axis.stride <= end - 1 + axis.pad_begin;
      if (reaches && first < 0) first = i;
      if (reaches) last = i;
    }
    if (first < 0) first = last = 0, last--;
    CHECK_INT(got.begin, first);
    CHECK_INT(got.end, last + 1);
    for (int64_t i = 0; i < axis.in_size; i++)
      for (int64_t k = 0; k < axis.kernel; k++) {
        int64_t o = i * axis.stride - axis.pad_begin + axis.dilation * k;
        if (o >= begin && o < end) CHECK(i >= got.begin && i < got.end);
      }
  }
}

static void counts_multiply_adds(void) {
  uint64_t seed = 4;
  for (int n = 0; n < 500; n++) {
    upconv_problem p = {.nd = 3, .in_channels = 6, .out_channels = 4, .groups = 2};
    double pairs = 1;
    int64_t in_size[UC_AXES];
    for (int a = 0; a < UC_AXES; a++) {
      uc_axis axis = p.axis[a] = random_axis(&seed, 5);
      in_size[a] = check_random_range(&seed, 0, 7);
      int64_t out_size = (in_size[a] - 1) * axis.stride - axis.pad_begin - axis.pad_end +
                         axis.dilation * (axis.kernel - 1) + axis.output_padding + 1;
      int count = 0;
      for (int64_t i = 0; i < in_size[a]; i++)
        for (int64_t k = 0; k < axis.kernel; k++) {
          int64_t o = i * axis.stride - axis.pad_begin + axis.dilation * k;
          count += o >= 0 && o < out_size;
        }
      pairs *= count;
    }
    CHECK_NEAR(uc_problem_macs(&p, 3, in_size), 3 * 6 * 2 * pairs, 0);
  }
}

/* ---- sizes and checks ---- */

static void conv_shapes(void) {
  static const struct {
    const char *text;
    int rank;
    int64_t shape[UPCONV_MAX_RANK];
  } cases[] = {
      {"n128 ci3 co16 in16x32x32 k3 s2 p1", 5, {128, 16, 31, 63, 63}},
      {"n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1", 5, {8, 32, 24, 48, 96}},
      {"n16 ci16 co32 in16x32x32 k3 s2 p1 op1", 5, {16, 32, 32, 64, 64}},
      {"ci1 co2 in5 k3 s2 d3 p-1 pe4 op2", 3, {1, 2, 14}},
      {"n0 ci1 co2 in5x6 k3", 4, {0, 2, 7, 8}},
      {"ci1 co1 in0x4 k3x1 s2x1", 4, {1, 1, 1, 4}},
      {"ci1 co1 in3 k2 p2", 3, {1, 1, 0}},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem *problem = NULL;
    int64_t shape[UPCONV_MAX_RANK] = {0};
    check_context("%s", cases[n].text);
    if (!CHECK_STATUS(upconv_problem_parse(cases[n].text, &problem, NULL), UPCONV_OK)) continue;
    CHECK_STATUS(upconv_problem_conv_shape(problem, shape), UPCONV_OK);
    for (int i = 0; i < cases[n].rank; i++) CHECK_INT(shape[i], cases[n].shape[i]);
    upconv_problem_destroy(problem);
  }
}

static void defaults_of_desc(void) {
  upconv_problem_desc d;
  for (int nd = 1; nd <= 3; nd++) {
    memset(&d, 0xff, sizeof d);
    CHECK_STATUS(upconv_problem_desc_init(&d, nd), UPCONV_OK);
    CHECK_INT(d.spatial_dims, nd);
    CHECK(d.batch == 1 && d.in_channels == 1 && d.out_channels == 1 && d.groups == 1 && !d.bias);
    for (int i = 0; i < nd; i++) {
      CHECK(d.in_size[i] == 1 && d.kernel[i] == 1 && d.stride[i] == 1 && d.dilation[i] == 1);
      CHECK(d.pad_begin[i] == 0 && d.pad_end[i] == 0 && d.output_padding[i] == 0);
    }
    CHECK(d.x_dtype == UPCONV_F32 && d.w_dtype == UPCONV_F32 && d.y_dtype == UPCONV_F32);
    CHECK(d.x_layout == UPCONV_CHANNELS_FIRST && d.y_layout == UPCONV_CHANNELS_FIRST);
    CHECK(d.math == UPCONV_MATH_IEEE);
  }
  CHECK_STATUS(upconv_problem_desc_init(&d, 0), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_desc_init(&d, 4), UPCONV_UNSUPPORTED);
  CHECK_STATUS(upconv_problem_desc_init(NULL, 1), UPCONV_INVALID_ARGUMENT);
}

static void null_arguments_are_refused(void) {
  upconv_problem_desc d = desc_1d(4, 3, 2);
  upconv_problem *problem = NULL;
  int64_t shape[3];
  CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK);
  CHECK_STATUS(upconv_problem_get_desc(NULL, &d), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_get_desc(problem, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_conv_shape(NULL, shape), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_conv_shape(problem, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_output_shape(NULL, NULL, shape), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_output_shape(problem, NULL, NULL), UPCONV_INVALID_ARGUMENT);
  upconv_problem_destroy(problem);
  upconv_problem_destroy(NULL);
}

static void output_size_is_the_formula(void) {
  uint64_t seed = 5;
  for (int n = 0; n < 2000; n++) {
    uc_axis axis = random_axis(&seed, 9);
    int64_t in_size = check_random_range(&seed, 0, 50), size = -99;
    CHECK(uc_axis_output(&axis, in_size, &size));
    CHECK_INT(size, (in_size - 1) * axis.stride - axis.pad_begin - axis.pad_end +
                        axis.dilation * (axis.kernel - 1) + axis.output_padding + 1);
  }
}

static void refuses_bad_values(void) {
  upconv_problem_desc d;
  const upconv_problem_desc good = desc_1d(4, 3, 2);
  d = good, d.stride[0] = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "stride along width", "is 0");
  d = good, d.dilation[0] = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "dilation", "is 0");
  d = good, d.kernel[0] = -1, refuses(&d, UPCONV_INVALID_ARGUMENT, "kernel", "is -1");
  d = good, d.in_size[0] = -4, refuses(&d, UPCONV_INVALID_ARGUMENT, "in_size", "is -4");
  d = good, d.batch = -1, refuses(&d, UPCONV_INVALID_ARGUMENT, "batch", "is -1");
  d = good, d.groups = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "groups", "is 0");
  d = good, d.in_channels = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "in_channels", "is 0");
  d = good, d.out_channels = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "out_channels", "is 0");
  d = good, d.in_channels = 4, d.out_channels = 6, d.groups = 4;
  refuses(&d, UPCONV_INVALID_ARGUMENT, "groups is 4", "out_channels (6)");
  d = good, d.in_channels = 6, d.out_channels = 4, d.groups = 4;
  refuses(&d, UPCONV_INVALID_ARGUMENT, "groups is 4", "in_channels (6)");
  d = good, d.output_padding[0] = 2;
  refuses(&d, UPCONV_INVALID_ARGUMENT, "output_padding along width is 2", "0 to 1");
  d = good, d.output_padding[0] = -1, refuses(&d, UPCONV_INVALID_ARGUMENT, "output_padding", "-1");
  d = good, d.pad_begin[0] = d.pad_end[0] = 5;
  refuses(&d, UPCONV_INVALID_ARGUMENT, "output size along width would be -1", "5 and 5");
  d = good, d.spatial_dims = 4, refuses(&d, UPCONV_UNSUPPORTED, "spatial_dims is 4", "1, 2, 3");
  d = good, d.spatial_dims = 0, refuses(&d, UPCONV_INVALID_ARGUMENT, "spatial_dims is 0", "");
  d = good, d.w_dtype = (upconv_dtype)3, refuses(&d, UPCONV_UNSUPPORTED, "w_dtype is 3", "bf16");
  d = good, d.x_layout = (upconv_layout)2;
  refuses(&d, UPCONV_INVALID_ARGUMENT, "x_layout is 2", "ndhwc");
  d = good, d.math = (upconv_math)5, refuses(&d, UPCONV_INVALID_ARGUMENT, "math is 5", "tf32");
  refuses(NULL, UPCONV_INVALID_ARGUMENT, "desc", "NULL");
  CHECK_STATUS(upconv_problem_create(&good, NULL), UPCONV_INVALID_ARGUMENT);
}

static void accepts_limits_of_output_padding(void) {
  upconv_problem *problem = NULL;
  upconv_problem_desc d = desc_1d(4, 3, 2);
  d.dilation[0] = 5;
  d.output_padding[0] = 4;
  CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK);
  uc_axis *axis = &problem->axis[2];
  axis->output_padding = 5;
  CHECK_STATUS(uc_problem_check(problem), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(uc_problem_check_rewritten(problem), UPCONV_OK);
  axis->output_padding = -3;
  CHECK_STATUS(uc_problem_check_rewritten(problem), UPCONV_OK);
  axis->stride = 0;
  CHECK_STATUS(uc_problem_check_rewritten(problem), UPCONV_INVALID_ARGUMENT);
  axis->stride = 1;
  problem->axis[0].kernel = 2;
  CHECK_STATUS(uc_problem_check_rewritten(problem), UPCONV_INVALID_ARGUMENT);
  upconv_problem_destroy(problem);
}

static void refuses_what_overflows(void) {
  upconv_problem_desc d;
  const upconv_problem_desc good = desc_1d(4, 3, 2);
  d = good, d.in_size[0] = INT64_MAX, refuses(&d, UPCONV_OVERFLOW, "along width", "");
  d = good, d.in_size[0] = INT64_MAX / 2, refuses(&d, UPCONV_OVERFLOW, "along width", "");
  d = good, d.batch = INT64_MAX / 4, refuses(&d, UPCONV_OVERFLOW, "elements", "");
  d = good, d.in_channels = INT64_MAX / 8, refuses(&d, UPCONV_OVERFLOW, "elements", "");
  d = good, d.out_channels = INT64_MAX / 8, refuses(&d, UPCONV_OVERFLOW, "elements", "");
  d = good, d.in_channels = d.out_channels = INT64_C(1) << 29, d.kernel[0] = 4;
  refuses(&d, UPCONV_OVERFLOW, "weight", "");
  d = good, d.stride[0] = INT64_C(1) << 31, refuses(&d, UPCONV_INVALID_ARGUMENT, "stride", "");
  d = good, d.pad_begin[0] = INT64_MIN, refuses(&d, UPCONV_INVALID_ARGUMENT, "pad_begin", "");
  d = good, d.pad_end[0] = INT64_MAX, refuses(&d, UPCONV_INVALID_ARGUMENT, "pad_end", "");
  d = good, d.kernel[0] = INT32_MAX, d.dilation[0] = INT32_MAX;
  refuses(&d, UPCONV_OVERFLOW, "", "");
}

/* A batch of 0 makes the tensors empty, but positions along an axis must fit all the same. */
static void extreme_axes_stay_in_range(void) {
  upconv_problem_desc d = desc_1d(INT64_C(1) << 30, INT32_MAX, INT32_MAX);
  d.batch = 0;
  d.dilation[0] = 1 << 29;
  d.pad_begin[0] = -INT32_MAX;
  d.pad_end[0] = -INT32_MAX;
  upconv_problem *problem = NULL;
  CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK);
  int64_t shape[3];
  CHECK_STATUS(upconv_problem_conv_shape(problem, shape), UPCONV_OK);
  const uc_axis *axis = &problem->axis[2];
  uc_range all = uc_axis_input(axis, (uc_range){0, shape[2]}, axis->in_size);
  CHECK_INT(all.begin, 0);
  CHECK_INT(all.end, axis->in_size);
  CHECK(uc_axis_phase(axis, INT32_MAX - 1).count > 0);
  upconv_problem_destroy(problem);
}

static void checks_run_time_sizes(void) {
  upconv_problem_desc d = desc_1d(4, 3, 2);
  upconv_problem *problem = NULL;
  int64_t in_size[UC_AXES] = {1, 1, 9}, shape[UC_RANK] = {-1};
  CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK);
  CHECK_STATUS(uc_problem_conv_shape(problem, 7, in_size, shape), UPCONV_OK);
  CHECK_INT(shape[0], 7);
  CHECK_INT(shape[2], 1);
  CHECK_INT(shape[4], 19);
  CHECK_STATUS(uc_problem_conv_shape(problem, -1, in_size, shape), UPCONV_INVALID_ARGUMENT);
  in_size[2] = -1;
  CHECK_STATUS(uc_problem_conv_shape(problem, 1, in_size, shape), UPCONV_INVALID_ARGUMENT);
  in_size[2] = INT64_MAX / 3;
  CHECK_STATUS(uc_problem_conv_shape(problem, 1, in_size, shape), UPCONV_OVERFLOW);
  CHECK_INT(shape[4], 19);
  upconv_problem_destroy(problem);
}

/* ---- auto_pad ---- */

/* Outputs and pads as ONNX Runtime 1.32 computes them for an input of 4; -1: it refuses. */
static void auto_pad_follows_onnx(void) {
  static const struct {
    int64_t kernel, stride, dilation, op, output_shape; /* -1: none */
    upconv_auto_pad mode;
    int64_t size, begin;
  } cases[] = {
      {4, 1, 1, 0, -1, UPCONV_PAD_SAME_UPPER, 4, 1},
      {4, 1, 1, 0, -1, UPCONV_PAD_SAME_LOWER, 4, 2},
      {3, 2, 1, 0, -1, UPCONV_PAD_SAME_UPPER, 8, 0},
      {3, 2, 1, 0, -1, UPCONV_PAD_SAME_LOWER, 8, 1},
      {3, 2, 1, 1, -1, UPCONV_PAD_SAME_UPPER, 8, 1},
      {3, 2, 1, 1, -1, UPCONV_PAD_SAME_LOWER, 8, 1},
      {3, 2, 2, 0, -1, UPCONV_PAD_SAME_UPPER, 8, 1},
      {3, 2, 2, 0, -1, UPCONV_PAD_SAME_LOWER, 8, 2},
      {1, 3, 1, 0, -1, UPCONV_PAD_SAME_UPPER, 10, 0},
      {1, 2, 1, 0, -1, UPCONV_PAD_SAME_LOWER, 7, 0},
      {3, 2, 1, 0, -1, UPCONV_PAD_VALID, 9, 0},
      {3, 2, 1, 1, -1, UPCONV_PAD_VALID, 10, 0},
      {3, 2, 1, 0, 6, UPCONV_PAD_NOTSET, 6, 2},
      {3, 2, 1, 0, 6, UPCONV_PAD_VALID, 6, 2},
      {3, 2, 1, 0, 6, UPCONV_PAD_SAME_LOWER, 6, 2},
      {3, 2, 1, 0, 6, UPCONV_PAD_SAME_UPPER, 6, 1},
      {3, 2, 1, 1, 5, UPCONV_PAD_NOTSET, 5, 3},
      {3, 2, 1, 1, 5, UPCONV_PAD_SAME_UPPER, 5, 2},
      {3, 2, 1, 0, 9, UPCONV_PAD_NOTSET, 9, 0},
      {3, 2, 1, 0, 10, UPCONV_PAD_NOTSET, 10, 0},
      {3, 2, 1, 0, 10, UPCONV_PAD_SAME_UPPER, 10, 0},
      {3, 3, 1, 0, 14, UPCONV_PAD_SAME_LOWER, 14, 0},
      {3, 3, 1, 1, 14, UPCONV_PAD_NOTSET, 14, 0},
      {3, 2, 1, 0, 11, UPCONV_PAD_NOTSET, -1, 0},
      {3, 3, 1, 0, 15, UPCONV_PAD_NOTSET, -1, 0},
      {3, 2, 3, 0, 15, UPCONV_PAD_NOTSET, -1, 0},
      {3, 2, 1, 0, -2, UPCONV_PAD_NOTSET, -1, 0},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem_desc d = desc_1d(4, cases[n].kernel, cases[n].stride);
    d.dilation[0] = cases[n].dilation;
    d.output_padding[0] = cases[n].op;
    d.pad_begin[0] = 1; /* ignored */
    const int64_t *shape = cases[n].output_shape == -1 ? NULL : &cases[n].output_shape;
    check_context("case %zu", n);
    if (cases[n].size < 0) {
      CHECK_STATUS(upconv_problem_desc_auto_pad(&d, cases[n].mode, shape), UPCONV_INVALID_ARGUMENT);
      CHECK(says("output_shape along width"));
      CHECK_INT(d.pad_begin[0], 1);
      continue;
    }
    CHECK_STATUS(upconv_problem_desc_auto_pad(&d, cases[n].mode, shape), UPCONV_OK);
    upconv_problem *problem = NULL;
    int64_t y[3] = {0};
    if (!CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK)) continue;
    CHECK_STATUS(upconv_problem_conv_shape(problem, y), UPCONV_OK);
    CHECK_INT(y[2], cases[n].size);
    CHECK_INT(d.pad_begin[0], cases[n].begin);
    upconv_problem_destroy(problem);
  }
}

static void auto_pad_by_axis(void) {
  upconv_problem_desc d;
  upconv_problem_desc_init(&d, 2);
  for (int i = 0; i < 2; i++) d.in_size[i] = d.kernel[i] = 3;
  d.stride[0] = 3, d.stride[1] = 2;
  /* The operator's own node test: 10 x 8 from 3 x 3. */
  const int64_t shape[] = {10, 8};
  CHECK_STATUS(upconv_problem_desc_auto_pad(&d, UPCONV_PAD_NOTSET, shape), UPCONV_OK);
  CHECK_INT(d.pad_begin[0], 0);
  CHECK_INT(d.pad_begin[1], 0);
  CHECK_INT(d.pad_end[0], -1);
  CHECK_INT(d.pad_end[1], -1);
  d.pad_begin[0] = 5;
  CHECK_STATUS(upconv_problem_desc_auto_pad(&d, UPCONV_PAD_NOTSET, NULL), UPCONV_OK);
  CHECK_INT(d.pad_begin[0], 5);
  CHECK_STATUS(upconv_problem_desc_auto_pad(&d, (upconv_auto_pad)9, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_desc_auto_pad(NULL, UPCONV_PAD_VALID, NULL), UPCONV_INVALID_ARGUMENT);
  for (d.spatial_dims = 0; d.spatial_dims <= 4; d.spatial_dims += 4)
    CHECK_STATUS(upconv_problem_desc_auto_pad(&d, UPCONV_PAD_VALID, NULL), UPCONV_INVALID_ARGUMENT);
  d.spatial_dims = 2;
  d.stride[1] = 0;
  CHECK_STATUS(upconv_problem_desc_auto_pad(&d, UPCONV_PAD_SAME_UPPER, NULL),
               UPCONV_INVALID_ARGUMENT);
  CHECK(says("stride along width is 0"));
  d.stride[1] = INT32_MAX, d.in_size[1] = INT64_MAX / 2;
  CHECK_STATUS(upconv_problem_desc_auto_pad(&d, UPCONV_PAD_SAME_UPPER, NULL), UPCONV_OVERFLOW);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"phases_are_the_definition", phases_are_the_definition},
      {"phases_partition_the_taps", phases_partition_the_taps},
      {"phases_of_an_example", phases_of_an_example},
      {"input_ranges", input_ranges},
      {"counts_multiply_adds", counts_multiply_adds},
      {"conv_shapes", conv_shapes},
      {"defaults_of_desc", defaults_of_desc},
      {"null_arguments_are_refused", null_arguments_are_refused},
      {"output_size_is_the_formula", output_size_is_the_formula},
      {"refuses_bad_values", refuses_bad_values},
      {"accepts_limits_of_output_padding", accepts_limits_of_output_padding},
      {"refuses_what_overflows", refuses_what_overflows},
      {"extreme_axes_stay_in_range", extreme_axes_stay_in_range},
      {"checks_run_time_sizes", checks_run_time_sizes},
      {"auto_pad_follows_onnx", auto_pad_follows_onnx},
      {"auto_pad_by_axis", auto_pad_by_axis},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
