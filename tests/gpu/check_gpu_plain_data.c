/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/cuda/memory.h"
#include "../../src/cuda/plain_parts.h"
#include "../../src/tensor.h"
#include "check_gpu_plain.h"

uc_plain_set *plain_set_make(void) {
  uc_plain_set *set = NULL;
  CHECK_STATUS(uc_cuda_plain_set_create(gpu_context, &set), UPCONV_OK);
  return set;
}

/* ---------------------------------------------------------------- elements */

static double decode(uc_plain_dtype dtype, const unsigned char *from) {
  union {
    uint64_t bits;
    float f32;
    double f64;
    uint16_t u16;
    int16_t i16;
    uint8_t u8;
    int8_t i8;
    uint32_t u32;
    int32_t i32;
    int64_t i64;
  } v = {0};
  memcpy(&v, from, uc_plain_dtype_size(dtype));
  switch (dtype) {
  case UC_PLAIN_F32:
    return (double)v.f32;
  case UC_PLAIN_F16:
    return (double)uc_f16_to_f32(v.u16);
  case UC_PLAIN_BF16:
    return (double)uc_bf16_to_f32(v.u16);
  case UC_PLAIN_F64:
    return v.f64;
  case UC_PLAIN_I8:
    return v.i8;
  case UC_PLAIN_U8:
    return v.u8;
  case UC_PLAIN_I16:
    return v.i16;
  case UC_PLAIN_U16:
    return v.u16;
  case UC_PLAIN_I32:
    return v.i32;
  case UC_PLAIN_U32:
    return v.u32;
  case UC_PLAIN_I64:
    return (double)v.i64;
  case UC_PLAIN_U64:
    return (double)v.bits;
  case UC_PLAIN_BOOL:
    return v.u8 != 0;
  case UC_PLAIN_NONE:
  case UC_PLAIN_DTYPES:
    break;
  }
  return 0;
}

static unsigned char *place(const plain_tensor *t, const int64_t *index, int count) {
  int64_t at = 0;
  for (int i = 0; i < t->view.rank; i++) {
    int64_t own = index[count - t->view.rank + i];
    at += (t->view.shape[i] == 1 ? 0 : own) * t->view.stride[i];
  }
  return t->bytes + (int64_t)t->first + at * (int64_t)uc_plain_dtype_size(t->view.dtype);
}

double plain_get(const plain_tensor *t, const int64_t *index, int count) {
  return decode(t->view.dtype, place(t, index, count));
}

double plain_at(const plain_tensor *t, const int64_t *index) {
  return plain_get(t, index, t->view.rank);
}

int64_t plain_get_int(const plain_tensor *t, const int64_t *index, int count) {
  int64_t value;
  if (uc_plain_dtype_size(t->view.dtype) < 8) return (int64_t)plain_get(t, index, count);
  memcpy(&value, place(t, index, count), sizeof value);
  return value;
}

bool plain_next(int rank, const int64_t *shape, int64_t *index) {
  for (int i = rank - 1; i >= 0; i--) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

/* ---------------------------------------------------------------- tensors */

void plain_shape(plain_case *c, int rank, int64_t most, int64_t *shape) {
  for (int i = 0; i < rank; i++) shape[i] = check_random_range(&c->random, 1, most);
}

/* Axes in a random order, with gaps now and then; of inputs also backwards or repeated. Returns the elements from the lowest
   to the highest, and where element (0, 0, ...) lies. */
static int64_t choose_strides(uint64_t *random, uc_plain_view *v, bool plain, bool input,
                              int64_t *first) {
  int order[UC_PLAIN_RANK];
  bool gaps = !plain && check_random_range(random, 0, 2) == 0;
  int64_t stride = gaps && check_random_range(random, 0, 1) ? 2 : 1, span = 1;
  for (int i = 0; i < v->rank; i++) order[i] = i;
  for (int i = 0; i < v->rank && !plain && check_random_range(random, 0, 1); i++) {
    int j = (int)check_random_range(random, 0, v->rank - 1), k = order[i];
    order[i] = order[j];
    order[j] = k;
  }
  *first = 0;
  for (int i = v->rank - 1; i >= 0; i--) {
    int axis = order[i];
    int64_t extent = v->shape[axis] > 0 ? v->shape[axis] : 1;
    int64_t choice = plain || !input ? 9 : check_random_range(random, 0, 9);
    v->stride[axis] = choice == 0 ? 0 : choice == 1 ? -stride : stride;
    if (choice == 0) continue;
    if (choice == 1) *first += (extent - 1) * stride;
    span += (extent - 1) * stride;
    stride *= extent + (gaps ? check_random_range(random, 0, 2) : 0);
  }
  return span;
}

static double number(uint64_t *random, uc_plain_dtype dtype, plain_fill fill) {
  static const double wild[] = {0,    -0.0, INFINITY, -INFINITY, NAN,  1e300, -1e300,       3e38,
                                -7e4, 1e-3, 0.5,      1.5,       -2.5, 2e-40, 2147483648.0, -129};
  if (fill == PLAIN_WILD && check_random_range(random, 0, 5) == 0)
    return wild[check_random_range(random, 0, (int64_t)CHECK_COUNT(wild) - 1)];
  if (fill == PLAIN_POSITIVE) return 0.5 + 1.5 * check_random_unit(random);
  if (!uc_plain_is_int(dtype)) return 8 * check_random_unit(random) - 4;
  return (double)check_random_range(random, dtype == UC_PLAIN_BOOL ? 0 : -9,
                                    dtype == UC_PLAIN_BOOL ? 1 : 9);
}

static void fill_elements(uint64_t *random, plain_tensor *t, plain_fill fill) {
  int64_t index[UC_PLAIN_RANK] = {0};
  size_t size = uc_plain_dtype_size(t->view.dtype);
  if (uc_plain_count(&t->view) == 0) return;
  do {
    uint64_t bits = uc_plain_encode(t->view.dtype, number(random, t->view.dtype, fill));
    if (fill == PLAIN_WILD && uc_plain_is_int(t->view.dtype) && t->view.dtype != UC_PLAIN_BOOL &&
        check_random_range(random, 0, 3) == 0)
      bits = check_random(random);
    memcpy(place(t, index, t->view.rank), &bits, size);
  } while (plain_next(t->view.rank, t->view.shape, index));
}

static void make(plain_case *c, plain_tensor *t, uc_plain_dtype dtype, int rank,
                 const int64_t *shape, bool plain, bool input) {
  int64_t first;
  size_t size = uc_plain_dtype_size(dtype);
  *t = (plain_tensor){.view = {.dtype = dtype, .rank = rank}};
  for (int i = 0; i < rank; i++) t->view.shape[i] = shape[i];
  int64_t span = choose_strides(&c->random, &t->view, plain, input, &first);
  t->byte_count = (size_t)span * size;
  t->first = (size_t)first * size;
  t->bytes = check_alloc(t->byte_count, 0);
}

void plain_input(plain_case *c, int k, uc_plain_dtype dtype, int rank, const int64_t *shape,
                 plain_fill fill, bool plain) {
  make(c, &c->in[k], dtype, rank, shape, plain, true);
  fill_elements(&c->random, &c->in[k], fill);
  c->op.in[k] = c->in[k].view;
}

void plain_output(plain_case *c, uc_plain_dtype dtype, int rank, const int64_t *shape, bool plain) {
  make(c, &c->out, dtype, rank, shape, plain, false);
  c->op.out = c->out.view;
}

static void free_tensor(plain_tensor *t) {
  gpu_free(&t->buffer);
  CHECK_FREE(t->bytes);
  *t = (plain_tensor){.bytes = NULL};
}

void plain_free(plain_case *c) {
  for (int k = 0; k < UC_PLAIN_INPUTS; k++) free_tensor(&c->in[k]);
  free_tensor(&c->out);
}

/* ---------------------------------------------------------------- runs */

/* In device memory, now and then at a multiple of no more than the element's size. */
static bool send(plain_case *c, plain_tensor *t) {
  size_t shift = check_random_range(&c->random, 0, 3) ? 0 : uc_plain_dtype_size(t->view.dtype);
  void *memory = gpu_alloc(&t->buffer, t->byte_count, shift);
  return memory && gpu_write(memory, t->bytes, t->byte_count);
}

static void *element_0(const plain_tensor *t) {
  return t->bytes ? (char *)gpu_address(&t->buffer) + t->first : NULL;
}

/* The bytes of elements are the device's; all others are untouched. */
static bool fetch(plain_tensor *t, const char *what) {
  unsigned char *got = check_alloc(t->byte_count, 0), *old = t->bytes;
  bool done = gpu_read(got, gpu_address(&t->buffer), t->byte_count);
  int64_t index[UC_PLAIN_RANK] = {0};
  size_t size = uc_plain_dtype_size(t->view.dtype);
  t->bytes = got;
  if (done && uc_plain_count(&t->view) > 0) do
      memcpy(old + (place(t, index, t->view.rank) - got), place(t, index, t->view.rank), size);
    while (plain_next(t->view.rank, t->view.shape, index));
  if (done) CHECK_MSG(memcmp(got, old, t->byte_count) == 0, "%s: wrote beside its elements", what);
  CHECK_FREE(old);
  return done;
}

static bool launch(const plain_case *c, const uc_plain *plain, const char *what) {
  const void *in[UC_PLAIN_INPUTS];
  gpu_buffer workspace = {0, 0, 0};
  for (int k = 0; k < UC_PLAIN_INPUTS; k++) in[k] = element_0(&c->in[k]);
  size_t bytes = uc_cuda_plain_workspace(plain);
  void *room = bytes ? gpu_alloc_scratch(&workspace, bytes) : NULL;
  bool done = CHECK_STATUS(uc_cuda_plain_run(plain, in, element_0(&c->out), room, NULL), UPCONV_OK);
  if (!done) check_message(false, what, __FILE__, __LINE__, "did not run");
  done = gpu_run_sync(NULL) && done;
  gpu_free(&workspace);
  return done;
}

bool plain_run(plain_case *c, const char *what) {
  uc_plain *plain = NULL;
  uc_plain_set *set = plain_set_make();
  bool done = set != NULL;
  for (int k = 0; k < UC_PLAIN_INPUTS; k++)
    if (c->in[k].bytes) done = send(c, &c->in[k]) && done;
  done = send(c, &c->out) && done;
  if (done && uc_cuda_plain_prepare(set, &c->op, &plain) != UPCONV_OK)
    done = CHECK_MSG(false, "%s: %s", what, upconv_last_error());
  done = done && launch(c, plain, what);
  uc_cuda_plain_destroy(plain);
  uc_cuda_plain_set_destroy(set);
  return done && fetch(&c->out, what);
}

/* ---------------------------------------------------------------- comparison */

static double rounded(uc_plain_dtype dtype, double value) {
  uint64_t bits = uc_plain_encode(dtype, value);
  return decode(dtype, (const unsigned char *)&bits);
}

static bool is_right(const plain_case *c, double got, double wanted) {
  uc_plain_dtype dtype = c->out.view.dtype;
  double error = c->tolerance * fabs(wanted) + c->floor;
  if (isnan(wanted) && !uc_plain_is_int(dtype)) return isnan(got);
  if (!(error > 0) || isinf(wanted) || isnan(wanted)) return got == rounded(dtype, wanted);
  return got >= rounded(dtype, wanted - error) && got <= rounded(dtype, wanted + error);
}

void plain_compare(const plain_case *c, const char *what, plain_expect expect) {
  const uc_plain_view *v = &c->out.view;
  int64_t index[UC_PLAIN_RANK] = {0};
  int wrong = 0;
  if (uc_plain_count(v) == 0) return;
  do {
    double wanted = expect(c, index), got = plain_at(&c->out, index);
    if (is_right(c, got, wanted)) continue;
    if (wrong++ < 3)
      CHECK_MSG(false, "%s of %s: [%d %d %d %d %d] is %.17g, expected %.17g", what,
                uc_plain_dtype_name(v->dtype), (int)index[0], (int)index[1], (int)index[2],
                (int)index[3], (int)index[4], got, wanted);
  } while (plain_next(v->rank, v->shape, index));
  CHECK_INT(wrong, 0);
}

void plain_check(plain_case *c, const char *what, plain_expect expect) {
  if (plain_run(c, what)) plain_compare(c, what, expect);
  plain_free(c);
}
