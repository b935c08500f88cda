/* SPDX-License-Identifier: Apache-2.0 */
#include "random_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "random_problem.h"
#include "tensor.h"

static int64_t any(uint64_t *r, int64_t low, int64_t high) {
  return check_random_range(r, low, high);
}

static bool one_in(uint64_t *r, int n) { return any(r, 1, n) == 1; }

/* ---- one tensor ---- */

int64_t random_tensor_count(const upconv_tensor *view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; i++) count *= view->shape[i];
  return count;
}

bool random_tensor_next(const upconv_tensor *view, int64_t *index) {
  for (int a = view->rank - 1; a >= 0; a--) {
    if (++index[a] < view->shape[a]) return true;
    index[a] = 0;
  }
  return false;
}

static int64_t element_offset(const upconv_tensor *view, const int64_t *index) {
  int64_t offset = 0;
  for (int a = 0; a < view->rank; a++) offset += index[a] * view->stride[a];
  return offset;
}

unsigned char *random_tensor_at(const upconv_tensor *view, const int64_t *index) {
  return (unsigned char *)view->data +
         element_offset(view, index) * (int64_t)upconv_dtype_size(view->dtype);
}

void random_tensor_store(const upconv_tensor *view, const int64_t *index, double value) {
  uc_store(random_tensor_at(view, index), view->dtype, 0, value);
}

/* Axes in a random order, with gaps between them. */
static void random_strides(uint64_t *r, upconv_tensor *view) {
  int order[UPCONV_MAX_RANK];
  int64_t stride = any(r, 1, 2);
  for (int i = 0; i < view->rank; i++) order[i] = i;
  for (int i = view->rank - 1; i > 0; i--) {
    int j = (int)any(r, 0, i), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int i = 0; i < view->rank; i++) {
    view->stride[order[i]] = stride;
    stride *= view->shape[order[i]] ? view->shape[order[i]] : 1;
    if (one_in(r, 3)) stride += any(r, 1, 5);
  }
}

/* Gaps alone: rows, planes or channels of a larger tensor in the layout's order. */
static void widened_strides(uint64_t *r, upconv_layout layout, upconv_tensor *view) {
  int64_t larger[UPCONV_MAX_RANK];
  for (int i = 0; i < view->rank; i++)
    larger[i] = view->shape[i] + (one_in(r, 2) ? any(r, 0, 3) : 0);
  upconv_tensor dense = upconv_tensor_dense(NULL, view->dtype, view->rank, larger, layout);
  memcpy(view->stride, dense.stride, sizeof view->stride);
}

static void choose_strides(uint64_t *r, upconv_layout layout, bool may_broadcast,
                           random_tensor *t) {
  int64_t kind = any(r, 0, 5);
  if (kind > 2) return;
  t->traits.strided = t->view.rank > 0;
  if (kind == 0)
    random_strides(r, &t->view);
  else
    widened_strides(r, layout, &t->view);
  if (!may_broadcast || !one_in(r, 3) || t->view.rank == 0) return;
  int a = (int)any(r, 0, t->view.rank - 1);
  t->traits.broadcast = t->view.shape[a] > 1;
  t->view.stride[a] = 0;
}

void random_tensor_create(uint64_t *r, upconv_dtype dtype, int rank, const int64_t *shape,
                          upconv_layout layout, bool plain, bool may_broadcast, random_tensor *t) {
  *t = (random_tensor){.view = upconv_tensor_dense(NULL, dtype, rank, shape, layout)};
  size_t size = upconv_dtype_size(dtype), misalign = 0;
  if (!plain) {
    choose_strides(r, layout, may_broadcast, t);
    if (one_in(r, 3)) misalign = (size_t)any(r, 1, 15) * size;
    t->traits.misaligned = misalign > 0;
  }
  int64_t last = 0;
  for (int a = 0; a < rank; a++)
    last += t->view.shape[a] ? (t->view.shape[a] - 1) * t->view.stride[a] : 0;
  t->bytes = random_tensor_count(&t->view) ? (size_t)(last + 1) * size : 0;
  t->buffer = check_alloc(t->bytes, misalign);
  t->view.data = t->buffer;
}

void random_tensor_free(random_tensor *t) {
  CHECK_FREE(t->buffer);
  t->buffer = NULL;
}

bool random_tensor_gaps_untouched(random_tensor *t) {
  int64_t index[UPCONV_MAX_RANK] = {0};
  if (random_tensor_count(&t->view) > 0) do
      check_poison(random_tensor_at(&t->view, index), upconv_dtype_size(t->view.dtype));
    while (random_tensor_next(&t->view, index));
  return check_is_poison(t->buffer, t->bytes);
}

/* ---- values ---- */

typedef enum value_kind { SIGNED, POSITIVE, AWAY_FROM_0 } value_kind;

static double random_value(uint64_t *r, value_kind kind, double scale) {
  double unit = check_random_unit(r);
  if (kind == POSITIVE) return scale * (0.25 + 2 * unit);
  double sign = one_in(r, 2) ? 1 : -1;
  if (kind == AWAY_FROM_0) return scale * sign * (0.5 + 1.5 * unit);
  return scale * sign * unit;
}

static void fill(uint64_t *r, value_kind kind, double scale, random_tensor *t) {
  int64_t index[UPCONV_MAX_RANK] = {0};
  if (random_tensor_count(&t->view) == 0) return;
  do random_tensor_store(&t->view, index, random_value(r, kind, scale));
  while (random_tensor_next(&t->view, index));
}

/* A dense tensor: of a large one the values repeat, by a prime number, so that few are the same along any axis. */
static void fill_plain(uint64_t *r, value_kind kind, double scale, random_tensor *t) {
  enum { MOST_DRAWN = 1000003 };
  int64_t count = random_tensor_count(&t->view), drawn = count < MOST_DRAWN ? count : MOST_DRAWN;
  size_t size = upconv_dtype_size(t->view.dtype);
  unsigned char *data = t->view.data;
  for (int64_t i = 0; i < drawn; i++)
    uc_store(data, t->view.dtype, i, random_value(r, kind, scale));
  for (int64_t at = drawn; at < count; at += drawn) {
    int64_t n = count - at < drawn ? count - at : drawn;
    memcpy(data + (size_t)at * size, data, (size_t)n * size);
  }
}

static value_kind kind_of_name(const char *name) {
  return name[0] == 'v' ? POSITIVE : name[0] == 'q' ? AWAY_FROM_0 : SIGNED;
}

/* ---- what an epilogue declares ---- */

const char *random_epilogue_text(const char *text) {
  const char *bar = strchr(text, '|');
  return bar ? bar + 1 : "";
}

/* Copies what starts at `from` and consists of letters, digits, '_' and '.'. */
static void read_name(const char *from, char *name, size_t capacity) {
  size_t n = strspn(from, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  snprintf(name, capacity, "%.*s", (int)n, from);
}

static int find_param(const upconv_epilogue *epilogue, const char *name) {
  for (int i = 0; upconv_epilogue_param_name(epilogue, i); i++)
    if (strcmp(upconv_epilogue_param_name(epilogue, i), name) == 0) return i;
  return -1;
}

static int find_tensor(const upconv_epilogue *epilogue, const char *name) {
  for (int i = 0; upconv_epilogue_tensor_name(epilogue, i); i++)
    if (strcmp(upconv_epilogue_tensor_name(epilogue, i), name) == 0) return i;
  return -1;
}

typedef struct declaration {
  char name[64];
  bool per_channel;
  bool axis[UPCONV_MAX_RANK];
  upconv_dtype dtype;
} declaration;

/* "@name", "@name[]" */
static void read_param(const char *at, declaration *d) {
  read_name(at + 1, d->name, sizeof d->name);
  d->per_channel = at[1 + strlen(d->name)] != '[';
}

/* "#name", "#name[axes]", "#name:dtype", "#name[axes]:dtype" */
static void read_tensor(const char *at, int nd, declaration *d) {
  static const char *const order[] = {"ncw", "nchw", "ncdhw"};
  read_name(at + 1, d->name, sizeof d->name);
  const char *p = at + 1 + strlen(d->name);
  for (int i = 0; i < nd + 2; i++) d->axis[i] = true;
  if (*p == '[') {
    size_t n = strcspn(++p, "]");
    for (int i = 0; i < nd + 2; i++) d->axis[i] = memchr(p, order[nd - 1][i], n) != NULL;
    p += n + 1;
  }
  d->dtype = UPCONV_F32;
  if (*p == ':') d->dtype = p[1] == 'b' ? UPCONV_BF16 : UPCONV_F16;
}

static void make_param(uint64_t *r, const declaration *d, int64_t channels, random_tensor *t) {
  static const double special[] = {0, 1, -1};
  int64_t n = d->per_channel ? channels : 1;
  int rank = n == 1 && one_in(r, 2) ? 0 : 1;
  upconv_dtype dtype = one_in(r, 3) ? (one_in(r, 2) ? UPCONV_F16 : UPCONV_BF16) : UPCONV_F32;
  random_tensor_create(r, dtype, rank, &n, UPCONV_CHANNELS_FIRST, false, false, t);
  fill(r, kind_of_name(d->name), kind_of_name(d->name) == SIGNED ? 1.5 : 1, t);
  if (kind_of_name(d->name) == SIGNED && one_in(r, 4)) {
    int64_t at[1] = {any(r, 0, n - 1)};
    random_tensor_store(&t->view, at, special[any(r, 0, 2)]);
  }
}

static void make_tensor(uint64_t *r, const declaration *d, int rank, const int64_t *result,
                        bool plain, random_tensor *t) {
  int64_t shape[UPCONV_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = d->axis[i] ? result[i] : 1;
  upconv_layout layout = plain || one_in(r, 2) ? UPCONV_CHANNELS_FIRST : UPCONV_CHANNELS_LAST;
  random_tensor_create(r, d->dtype, rank, shape, layout, plain, true, t);
  (plain ? fill_plain : fill)(r, kind_of_name(d->name), 1, t);
}

/* Makes what the operator that ends at `end` declares and nobody made yet; result: shape of its
 * value. */
static void make_declared(uint64_t *r, const upconv_epilogue *epilogue, int nd, const char *begin,
                          const char *end, const int64_t *result, bool plain,
                          random_inputs *inputs) {
  for (const char *at = begin; at < end; at++) {
    declaration d = {.name = ""};
    if (*at == '@') {
      read_param(at, &d);
      int i = find_param(epilogue, d.name);
      if (!CHECK(i >= 0 && i < MOST_DECLARED) || inputs->param[i].buffer) continue;
      make_param(r, &d, result[1], &inputs->param[i]);
    } else if (*at == '#') {
      read_tensor(at, nd, &d);
      int i = find_tensor(epilogue, d.name);
      if (!CHECK(i >= 0 && i < MOST_DECLARED) || inputs->tensor[i].buffer) continue;
      make_tensor(r, &d, nd + 2, result, plain, &inputs->tensor[i]);
    }
  }
}

static void make_all_declared(uint64_t *r, const upconv_problem *problem, int nd, const char *text,
                              bool plain, random_inputs *inputs) {
  upconv_epilogue *whole;
  if (!CHECK_STATUS(upconv_epilogue_parse(nd, text, &whole), UPCONV_OK)) return;
  inputs->param_count = upconv_epilogue_param_count(whole);
  inputs->tensor_count = upconv_epilogue_tensor_count(whole);
  for (const char *begin = text; *begin;) {
    const char *end = begin + strcspn(begin, "|");
    char prefix[RANDOM_TEXT];
    upconv_epilogue *part;
    int64_t result[UPCONV_MAX_RANK];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(end - text), text);
    if (!CHECK_STATUS(upconv_epilogue_parse(nd, prefix, &part), UPCONV_OK)) break;
    CHECK_STATUS(upconv_output_shape(problem, part, result), UPCONV_OK);
    upconv_epilogue_destroy(part);
    make_declared(r, whole, nd, begin, end, result, plain, inputs);
    begin = *end ? end + 1 : end;
  }
  upconv_epilogue_destroy(whole);
}

/* ---- all inputs ---- */

static void make_x(uint64_t *r, const upconv_problem_desc *d, bool plain, random_inputs *inputs) {
  int64_t shape[UPCONV_MAX_RANK] = {d->batch, d->in_channels};
  for (int i = 0; i < d->spatial_dims; i++) shape[2 + i] = d->in_size[i];
  random_tensor_create(r, d->x_dtype, d->spatial_dims + 2, shape, d->x_layout,
                       plain || one_in(r, 2), true, &inputs->x);
  value_kind kind = !plain && one_in(r, 4) ? POSITIVE : SIGNED;
  (plain ? fill_plain : fill)(r, kind, 1, &inputs->x);
}

/* Weights of such a size that outputs are of the order of 1. */
static void make_weights(uint64_t *r, const upconv_problem_desc *d, random_inputs *inputs) {
  int64_t shape[UPCONV_MAX_RANK] = {d->in_channels, d->out_channels / d->groups};
  double products = (double)(d->in_channels / d->groups);
  for (int i = 0; i < d->spatial_dims; i++) {
    shape[2 + i] = d->kernel[i];
    products *= ceil((double)d->kernel[i] / (double)d->stride[i]);
  }
  random_tensor_create(r, d->w_dtype, d->spatial_dims + 2, shape, UPCONV_CHANNELS_FIRST,
                       one_in(r, 2), false, &inputs->weight);
  fill(r, SIGNED, 2 / sqrt(products), &inputs->weight);
  inputs->parameters.weight = inputs->weight.view;
  if (!d->bias) return;
  upconv_dtype dtype = one_in(r, 3) ? d->w_dtype : UPCONV_F32;
  random_tensor_create(r, dtype, 1, &d->out_channels, UPCONV_CHANNELS_FIRST, false, false,
                       &inputs->bias);
  fill(r, SIGNED, 0.7, &inputs->bias);
  inputs->parameters.bias = inputs->bias.view;
}

static void take_views(random_inputs *inputs) {
  for (int i = 0; i < inputs->param_count; i++) inputs->param_view[i] = inputs->param[i].view;
  for (int i = 0; i < inputs->tensor_count; i++) inputs->tensor_view[i] = inputs->tensor[i].view;
  inputs->parameters.params = inputs->param_view;
  inputs->parameters.param_count = inputs->param_count;
}

static void create(uint64_t *r, const upconv_problem *problem, const char *text, bool plain,
                   random_inputs *inputs) {
  upconv_problem_desc d;
  memset(inputs, 0, sizeof *inputs);
  if (!CHECK_STATUS(upconv_problem_get_desc(problem, &d), UPCONV_OK)) return;
  make_x(r, &d, plain, inputs);
  make_weights(r, &d, inputs);
  make_all_declared(r, problem, d.spatial_dims, random_epilogue_text(text), plain, inputs);
  take_views(inputs);
}

void random_inputs_create(uint64_t *r, const upconv_problem *problem, const char *text,
                          random_inputs *inputs) {
  create(r, problem, text, false, inputs);
}

void random_inputs_create_plain(uint64_t *r, const upconv_problem *problem, const char *text,
                                random_inputs *inputs) {
  create(r, problem, text, true, inputs);
}

void random_inputs_free(random_inputs *inputs) {
  random_tensor_free(&inputs->x);
  random_tensor_free(&inputs->weight);
  random_tensor_free(&inputs->bias);
  for (int i = 0; i < MOST_DECLARED; i++) {
    random_tensor_free(&inputs->param[i]);
    random_tensor_free(&inputs->tensor[i]);
  }
}
