/* SPDX-License-Identifier: Apache-2.0 */
/* A segment of the oracle: its inputs, with their errors, through the library's oracle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "exact.h"
#include "plans.h"
#include "rows.h"

/* A value in the library's types: what is lost by rounding counts as error. */
typedef struct typed {
  upconv_tensor tensor;
  void *data;
  double *error; /* laid out as the data */
} typed;

static void typed_free(typed *t) {
  free(t->data);
  free(t->error);
}

static double largest_error(uc_approx a, double stored) {
  if (uc_approx_is_undecided(a)) return INFINITY;
  if (uc_approx_is_special(a) || !isfinite(stored)) return 0;
  return fmax(fabs(a.high - stored), fabs(stored - a.low));
}

/* A dense copy of a value, seen as rank spatial_dims + 2. */
static upconv_status typed_make(const uc_onnx_source *source, int nd, const uc_exact *from,
                                typed *t) {
  uc_view view = {.dtype = from->dtype, .rank = from->rank}, exact;
  int64_t count = uc_shape_count(from->rank, from->shape);
  *t = (typed){.data = uc_onnx_new(count, uc_onnx_dtype_size(from->dtype)),
               .error = uc_onnx_new(count, sizeof *t->error)};
  if (!t->data || !t->error) return UPCONV_OUT_OF_MEMORY;
  view.data = t->data;
  memcpy(view.shape, from->shape, sizeof view.shape);
  uc_dense_strides(view.rank, view.shape, view.stride);
  exact = uc_exact_view(from, UC_PART_VALUE);
  const uc_view *walked[] = {&view, &exact};
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, walked); more; more = uc_walk_next(&walk))
    for (int64_t i = 0; i < walk.length; i++) {
      int64_t at = walk.at[0] + i * walk.step[0];
      const double *element = (const double *)exact.data + walk.at[1] + i * walk.step[1];
      uc_approx a = *(const uc_approx *)element;
      uc_onnx_set(t->data, view.dtype, at, a.value);
      t->error[at] = largest_error(a, uc_onnx_get(t->data, view.dtype, at));
    }
  t->tensor = uc_source_tensor(source, nd, &view);
  return UPCONV_OK;
}

/* ---- parameters: errors of computed ones cannot be told to the oracle ---- */

typedef struct parameter_context {
  const uc_onnx_program *program;
  uc_exact_function get;
  const void *context;
  int count;
  struct {
    int value;
    typed typed;
  } * made;
} parameter_context;

static uc_view parameter_view(const void *context, int value) {
  const parameter_context *c = context;
  const uc_value *v = &c->program->value[value];
  uc_view view = uc_constant_view(v);
  for (int i = 0; i < c->count; i++)
    if (c->made[i].value == value) view.data = c->made[i].typed.data;
  return view;
}

/* Data of what is not constant. */
static upconv_status make_parameter(parameter_context *c, int value) {
  static const uc_onnx_source straight = {.dim = {0, 1, 2, 3, 4}};
  if (value < 0 || c->program->value[value].data) return UPCONV_OK;
  uc_exact exact = c->get(c->context, value);
  c->made[c->count].value = value;
  uc_onnx_source source = straight;
  for (int i = 0; i < UPCONV_MAX_RANK; i++)
    if (i >= exact.rank) source.dim[i] = -1;
  return typed_make(&source, UPCONV_MAX_SPATIAL, &exact, &c->made[c->count++].typed);
}

static upconv_status make_parameters(parameter_context *c, const uc_segment *s,
                                     uc_parameters *parameters) {
  c->made = uc_onnx_new((int64_t)s->param_count + 2, sizeof *c->made);
  if (!c->made) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = make_parameter(c, s->weight);
  if (!status) status = make_parameter(c, s->bias);
  for (int i = 0; i < s->param_count && !status; i++) status = make_parameter(c, s->param[i].value);
  return status ? status
                : uc_parameters_make(s, uc_device_host(), parameter_view, c, NULL, parameters);
}

/* ---- result ---- */

/* The library's order is N, C, space; the graph's dimensions may be others. */
static void store_result(const uc_segment *s, const double *value, const double *bound,
                         const uc_exact *out) {
  int rank = s->desc.spatial_dims + 2;
  int64_t stride[UPCONV_MAX_RANK], index[UPCONV_MAX_RANK] = {0};
  for (int axis = 0; axis < rank; axis++)
    stride[axis] = s->y.dim[axis] < 0 ? 0 : out->stride[s->y.dim[axis]];
  int64_t count = uc_shape_count(rank, s->y_shape);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int axis = 0; axis < rank; axis++) at += index[axis] * stride[axis];
    uc_approx a = {value[i], value[i] - bound[i], value[i] + bound[i]};
    if (isinf(bound[i]))
      a = uc_approx_undecided(value[i]);
    else if (!isfinite(value[i]))
      a = uc_approx_exact(value[i]);
    out->at[at] = a;
    for (int axis = rank - 1; axis >= 0 && ++index[axis] == s->y_shape[axis]; axis--)
      index[axis] = 0;
  }
}

/* ---- the segment ---- */

typedef struct segment_run {
  typed x;
  int tensor_count;
  typed *tensor;
  upconv_tensor *tensors;
  const double **errors;
  double *value, *bound;
} segment_run;

static void run_free(segment_run *r) {
  typed_free(&r->x);
  for (int i = 0; i < r->tensor_count && r->tensor; i++) typed_free(&r->tensor[i]);
  free(r->tensor);
  free(r->tensors);
  free(r->errors);
  free(r->value);
  free(r->bound);
}

static upconv_status run_prepare(const uc_segment *s, uc_exact_function get, const void *context,
                                 segment_run *r) {
  static const uc_onnx_source straight = {.dim = {0, 1, 2, 3, 4}};
  int nd = s->desc.spatial_dims;
  int64_t count = uc_shape_count(nd + 2, s->y_shape);
  uc_exact x = get(context, s->x);
  upconv_status status = typed_make(&straight, nd, &x, &r->x);
  r->tensor_count = s->tensor_count;
  r->tensor = uc_onnx_new(s->tensor_count, sizeof *r->tensor);
  r->tensors = uc_onnx_new(s->tensor_count, sizeof *r->tensors);
  r->errors = uc_onnx_new(s->tensor_count, sizeof *r->errors);
  r->value = uc_onnx_new(count, sizeof *r->value);
  r->bound = uc_onnx_new(count, sizeof *r->bound);
  if (!r->tensor || !r->tensors || !r->errors || !r->value || !r->bound)
    return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < s->tensor_count && !status; i++) {
    uc_exact tensor = get(context, s->tensor[i].value);
    status = typed_make(&s->tensor[i], nd, &tensor, &r->tensor[i]);
    r->tensors[i] = r->tensor[i].tensor;
    r->errors[i] = r->tensor[i].error;
  }
  return status;
}

upconv_status uc_exact_segment(const uc_onnx_program *program, const uc_segment *s,
                               const upconv_error_model *model, uc_exact_function get,
                               const void *context, const uc_exact *out) {
  segment_run r = {.value = NULL};
  parameter_context c = {.program = program, .get = get, .context = context};
  uc_parameters parameters = {.params = NULL};
  upconv_status status = run_prepare(s, get, context, &r);
  if (!status) status = make_parameters(&c, s, &parameters);
  if (!status) {
    upconv_arguments arguments = {.x = r.x.tensor,
                                  .y = {.dtype = s->desc.y_dtype},
                                  .tensors = r.tensors,
                                  .tensor_count = s->tensor_count};
    status = uc_reference_with_errors(s->problem, s->epilogue, &parameters.given, &arguments,
                                      r.x.error, r.errors, model, r.value, r.bound);
  }
  if (!status) store_result(s, r.value, r.bound, out);
  uc_parameters_free(&parameters);
  for (int i = 0; i < c.count; i++) typed_free(&c.made[i].typed);
  free(c.made);
  run_free(&r);
  return status;
}
