/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <stdlib.h>

#include "checked.h"
#include "status.h"

/*
 * Bounds that keep every expression of problem.h within int64_t: parameters of an axis are at most
 * LARGEST, and the two parts of a position along it, i * s and d * k, at most FARTHEST each. Then
 * o + p and all sums of these fit.
 */
static const int64_t LARGEST = INT32_MAX;
static const int64_t FARTHEST = INT64_MAX / 4;
enum { WIDEST_ELEMENT = 8 }; /* bytes: tensors fit also as float64 */

static const char *axis_name(int axis) {
  static const char *const name[UC_AXES] = {"depth", "height", "width"};
  return name[axis];
}

/* ---- checks ---- */

static upconv_status check_between(const char *what, int axis, int64_t value, int64_t low,
                                   int64_t high) {
  if (value >= low && value <= high) return UPCONV_OK;
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s%s%s is %lld; allowed: %lld to %lld", what,
                 axis >= 0 ? " along " : "", axis >= 0 ? axis_name(axis) : "", (long long)value,
                 (long long)low, (long long)high);
}

upconv_status uc_axis_check(const uc_axis *axis, int index) {
  const struct {
    const char *name;
    int64_t value, low, high;
  } field[] = {
      {"in_size", axis->in_size, 0, INT64_MAX},
      {"kernel", axis->kernel, 1, LARGEST},
      {"stride", axis->stride, 1, LARGEST},
      {"dilation", axis->dilation, 1, LARGEST},
      {"pad_begin", axis->pad_begin, -LARGEST, LARGEST},
      {"pad_end", axis->pad_end, -LARGEST, LARGEST},
      {"output_padding", axis->output_padding, -LARGEST, LARGEST},
  };
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    upconv_status status =
        check_between(field[i].name, index, field[i].value, field[i].low, field[i].high);
    if (status) return status;
  }
  return UPCONV_OK;
}

static bool axis_is_trivial(const uc_axis *axis) {
  return axis->in_size == 1 && axis->kernel == 1 && axis->stride == 1 && axis->dilation == 1 &&
         axis->pad_begin == 0 && axis->pad_end == 0 && axis->output_padding == 0;
}

static upconv_status check_spatial_dims(int nd) {
  if (nd >= 1 && nd <= UPCONV_MAX_SPATIAL) return UPCONV_OK;
  return uc_fail(nd > UPCONV_MAX_SPATIAL ? UPCONV_UNSUPPORTED : UPCONV_INVALID_ARGUMENT,
                 "spatial_dims is %d; allowed: 1, 2, 3", nd);
}

static upconv_status check_dtype(const char *what, upconv_dtype dtype) {
  if (upconv_dtype_size(dtype)) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED, "%s is %d; allowed: f32, f16, bf16", what, (int)dtype);
}

static upconv_status check_layout(const char *what, upconv_layout layout) {
  if (layout == UPCONV_CHANNELS_FIRST || layout == UPCONV_CHANNELS_LAST) return UPCONV_OK;
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is %d; allowed: ncdhw, ndhwc", what, (int)layout);
}

static upconv_status check_formats(const upconv_problem *problem) {
  upconv_status status = check_dtype("x_dtype", problem->x_dtype);
  if (!status) status = check_dtype("w_dtype", problem->w_dtype);
  if (!status) status = check_dtype("y_dtype", problem->y_dtype);
  if (!status) status = check_layout("x_layout", problem->x_layout);
  if (!status) status = check_layout("y_layout", problem->y_layout);
  if (status) return status;
  if (problem->math != UPCONV_MATH_IEEE && problem->math != UPCONV_MATH_TF32)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "math is %d; allowed: ieee, tf32", (int)problem->math);
  return UPCONV_OK;
}

static upconv_status check_channels(const upconv_problem *problem) {
  upconv_status status = check_between("batch", -1, problem->batch, 0, INT64_MAX);
  if (!status) status = check_between("in_channels", -1, problem->in_channels, 1, INT64_MAX);
  if (!status) status = check_between("out_channels", -1, problem->out_channels, 1, INT64_MAX);
  if (!status) status = check_between("groups", -1, problem->groups, 1, INT64_MAX);
  if (status) return status;
  if (problem->in_channels % problem->groups || problem->out_channels % problem->groups)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "groups is %lld; it must divide in_channels (%lld) and out_channels (%lld)",
                   (long long)problem->groups, (long long)problem->in_channels,
                   (long long)problem->out_channels);
  return UPCONV_OK;
}

static upconv_status check_elements(const char *what, const int64_t *shape, int rank) {
  int64_t count;
  if (uc_product(shape, rank, &count) && uc_mul(count, WIDEST_ELEMENT, &count)) return UPCONV_OK;
  return uc_fail(UPCONV_OVERFLOW, "%s: the number of elements does not fit 64 bits", what);
}

upconv_status uc_problem_check_rewritten(const upconv_problem *problem) {
  upconv_status status = check_spatial_dims(problem->nd);
  if (!status) status = check_channels(problem);
  if (!status) status = check_formats(problem);
  int64_t weight[UC_RANK], in_size[UC_AXES], shape[UC_RANK];
  for (int a = 0; a < UC_AXES && !status; a++) {
    status = uc_axis_check(&problem->axis[a], a);
    if (!status && a < UC_AXES - problem->nd && !axis_is_trivial(&problem->axis[a]))
      status = uc_fail(UPCONV_INVALID_ARGUMENT, "the %s axis of a %d-D problem is not trivial",
                       axis_name(a), problem->nd);
    weight[2 + a] = problem->axis[a].kernel;
    in_size[a] = problem->axis[a].in_size;
  }
  if (status) return status;
  weight[0] = problem->in_channels;
  weight[1] = problem->out_channels / problem->groups;
  status = check_elements("weight", weight, UC_RANK);
  if (!status) status = uc_problem_conv_shape(problem, problem->batch, in_size, shape);
  return status;
}

upconv_status uc_problem_check(const upconv_problem *problem) {
  upconv_status status = check_spatial_dims(problem->nd);
  for (int a = UC_AXES - problem->nd; a < UC_AXES && !status; a++) {
    const uc_axis *axis = &problem->axis[a];
    /* Stride and dilation first: a stride of 0 is named as what it is. */
    status = uc_axis_check(axis, a);
    if (!status)
      status = check_between("output_padding", a, axis->output_padding, 0,
                             uc_max(axis->stride, axis->dilation) - 1);
  }
  return status ? status : uc_problem_check_rewritten(problem);
}

/* ---- sizes ---- */

bool uc_axis_output(const uc_axis *axis, int64_t in_size, int64_t *out_size) {
  int64_t positions, reach, size;
  if (!uc_add(in_size, -1, &positions) || !uc_mul(positions, axis->stride, &positions))
    return false;
  if (!uc_mul(axis->dilation, axis->kernel - 1, &reach)) return false;
  if (positions > FARTHEST || reach > FARTHEST) return false;
  /* The rest cannot overflow: two numbers up to a quarter of the range and four of 32 bits. */
  size = positions + reach - axis->pad_begin - axis->pad_end + axis->output_padding + 1;
  *out_size = size;
  return true;
}

upconv_status uc_problem_conv_shape(const upconv_problem *problem, int64_t batch,
                                    const int64_t *in_size, int64_t *shape) {
  int64_t x[UC_RANK] = {batch, problem->in_channels};
  int64_t y[UC_RANK] = {batch, problem->out_channels};
  upconv_status status = check_between("batch", -1, batch, 0, INT64_MAX);
  for (int a = 0; a < UC_AXES && !status; a++) {
    status = check_between("in_size", a, in_size[a], 0, INT64_MAX);
    if (status) return status;
    x[2 + a] = in_size[a];
    if (!uc_axis_output(&problem->axis[a], in_size[a], &y[2 + a]))
      return uc_fail(UPCONV_OVERFLOW,
                     "the output size along %s for an input of %lld does not fit 64 bits",
                     axis_name(a), (long long)in_size[a]);
    if (y[2 + a] < 0)
      return uc_fail(
          UPCONV_INVALID_ARGUMENT,
          "the output size along %s would be %lld; in_size is %lld, the padding %lld and %lld",
          axis_name(a), (long long)y[2 + a], (long long)in_size[a],
          (long long)problem->axis[a].pad_begin, (long long)problem->axis[a].pad_end);
  }
  if (!status) status = check_elements("x", x, UC_RANK);
  if (!status) status = check_elements("the convolution's output", y, UC_RANK);
  for (int i = 0; i < UC_RANK && !status; i++) shape[i] = y[i];
  return status;
}

int64_t uc_problem_kernel_size(const upconv_problem *problem) {
  return problem->axis[0].kernel * problem->axis[1].kernel * problem->axis[2].kernel;
}

/* ---- phases and ranges ---- */

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The number in [0, m) whose product with a is 1 modulo m, for coprime a and m (0 for m = 1):
   extended Euclid. */
static int64_t modular_inverse(int64_t a, int64_t m) {
  int64_t r0 = m, r1 = a % m, t0 = 0, t1 = 1;
  while (r1) {
    int64_t quotient = r0 / r1, r2 = r0 - quotient * r1, t2 = t0 - quotient * t1;
    r0 = r1, r1 = r2;
    t0 = t1, t1 = t2;
  }
  return uc_mod(t0, m);
}

uc_phase uc_axis_phase(const uc_axis *axis, int64_t phi) {
  int64_t s = axis->stride, d = axis->dilation;
  int64_t g = greatest_common_divisor(s, d);
  uc_phase phase = {.step = s / g, .shift_step = d / g};
  if (phi % g) return phase;
  int64_t first = (phi / g) * modular_inverse(d / g, s / g) % (s / g);
  if (first >= axis->kernel) return phase;
  phase.first = first;
  phase.count = (axis->kernel - 1 - first) / phase.step + 1;
  phase.shift = (d * first - phi) / s;
  return phase;
}

uc_range uc_axis_input(const uc_axis *axis, uc_range out, int64_t in_size) {
  uc_range none = {0, 0}, in;
  if (out.begin >= out.end) return none;
  int64_t reach = axis->dilation * (axis->kernel - 1);
  in.begin = uc_max(0, uc_ceil_div(out.begin + axis->pad_begin - reach, axis->stride));
  in.end = uc_min(in_size, uc_floor_div(out.end - 1 + axis->pad_begin, axis->stride) + 1);
  return in.begin < in.end ? in : none;
}

/* Pairs (i, k) along one axis whose output lies in [0, O). */
static double count_pairs(const uc_axis *axis, int64_t in_size) {
  int64_t out_size;
  double pairs = 0;
  if (!uc_axis_output(axis, in_size, &out_size)) return 0;
  for (int64_t k = 0; k < axis->kernel; k++) {
    int64_t zero = axis->pad_begin - axis->dilation * k; /* i * s for o = 0 */
    int64_t first = uc_max(0, uc_ceil_div(zero, axis->stride));
    int64_t last = uc_min(in_size - 1, uc_floor_div(out_size - 1 + zero, axis->stride));
    if (first <= last) pairs += (double)(last - first + 1);
  }
  return pairs;
}

double uc_problem_macs(const upconv_problem *problem, int64_t batch, const int64_t *in_size) {
  double macs = (double)batch * (double)problem->in_channels *
                (double)(problem->out_channels / problem->groups);
  for (int a = 0; a < UC_AXES; a++) macs *= count_pairs(&problem->axis[a], in_size[a]);
  return macs;
}

/* ---- the public object ---- */

static const uc_axis trivial_axis = {.in_size = 1, .kernel = 1, .stride = 1, .dilation = 1};

upconv_status upconv_problem_desc_init(upconv_problem_desc *desc, int spatial_dims) {
  if (!desc) return uc_fail(UPCONV_INVALID_ARGUMENT, "desc is NULL");
  upconv_status status = check_spatial_dims(spatial_dims);
  if (status) return status;
  upconv_problem_desc d = {
      .spatial_dims = spatial_dims, .batch = 1, .in_channels = 1, .out_channels = 1, .groups = 1};
  for (int i = 0; i < UPCONV_MAX_SPATIAL; i++)
    d.in_size[i] = d.kernel[i] = d.stride[i] = d.dilation[i] = 1;
  *desc = d;
  return UPCONV_OK;
}

static upconv_problem from_desc(const upconv_problem_desc *desc) {
  upconv_problem problem = {
      .nd = desc->spatial_dims,
      .batch = desc->batch,
      .in_channels = desc->in_channels,
      .out_channels = desc->out_channels,
      .groups = desc->groups,
      .bias = desc->bias,
      .x_dtype = desc->x_dtype,
      .w_dtype = desc->w_dtype,
      .y_dtype = desc->y_dtype,
      .x_layout = desc->x_layout,
      .y_layout = desc->y_layout,
      .math = desc->math,
  };
  for (int a = 0; a < UC_AXES; a++) {
    int i = a - (UC_AXES - desc->spatial_dims);
    problem.axis[a] = trivial_axis;
    if (i >= 0)
      problem.axis[a] =
          (uc_axis){desc->in_size[i],   desc->kernel[i],  desc->stride[i],        desc->dilation[i],
                    desc->pad_begin[i], desc->pad_end[i], desc->output_padding[i]};
  }
  return problem;
}

upconv_status upconv_problem_create(const upconv_problem_desc *desc, upconv_problem **problem) {
  if (!desc || !problem)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", desc ? "problem" : "desc");
  upconv_status status = check_spatial_dims(desc->spatial_dims);
  if (status) return status;
  upconv_problem candidate = from_desc(desc);
  status = uc_problem_check(&candidate);
  if (status) return status;
  upconv_problem *created = malloc(sizeof *created);
  if (!created) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a problem");
  *created = candidate;
  *problem = created;
  return UPCONV_OK;
}

void upconv_problem_destroy(upconv_problem *problem) { free(problem); }

upconv_status upconv_problem_get_desc(const upconv_problem *problem, upconv_problem_desc *desc) {
  if (!problem || !desc)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", problem ? "desc" : "problem");
  upconv_problem_desc d;
  upconv_status status = upconv_problem_desc_init(&d, problem->nd);
  if (status) return status;
  d.batch = problem->batch;
  d.in_channels = problem->in_channels;
  d.out_channels = problem->out_channels;
  d.groups = problem->groups;
  for (int i = 0; i < problem->nd; i++) {
    const uc_axis *axis = &problem->axis[UC_AXES - problem->nd + i];
    d.in_size[i] = axis->in_size;
    d.kernel[i] = axis->kernel;
    d.stride[i] = axis->stride;
    d.dilation[i] = axis->dilation;
    d.pad_begin[i] = axis->pad_begin;
    d.pad_end[i] = axis->pad_end;
    d.output_padding[i] = axis->output_padding;
  }
  d.bias = problem->bias;
  d.x_dtype = problem->x_dtype;
  d.w_dtype = problem->w_dtype;
  d.y_dtype = problem->y_dtype;
  d.x_layout = problem->x_layout;
  d.y_layout = problem->y_layout;
  d.math = problem->math;
  *desc = d;
  return UPCONV_OK;
}

upconv_status upconv_problem_conv_shape(const upconv_problem *problem, int64_t *shape) {
  if (!problem || !shape)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", problem ? "shape" : "problem");
  int64_t in_size[UC_AXES], full[UC_RANK];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = problem->axis[a].in_size;
  upconv_status status = uc_problem_conv_shape(problem, problem->batch, in_size, full);
  if (status) return status;
  shape[0] = full[0];
  shape[1] = full[1];
  for (int i = 0; i < problem->nd; i++) shape[2 + i] = full[UC_RANK - problem->nd + i];
  return UPCONV_OK;
}
