/* SPDX-License-Identifier: Apache-2.0 */
/* Plain operations that take elements one by one, and corners of all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/cuda/plain_parts.h"
#include "check_gpu_plain.h"

static const uc_plain_dtype floats[] = {UC_PLAIN_F32, UC_PLAIN_F16, UC_PLAIN_BF16, UC_PLAIN_F64};
static const double HALF_ULP = 0x1p-24;

/* ---------------------------------------------------------------- functions */

static double of_one(uc_plain_fn fn, double x, const double *attr) {
  switch (fn) {
  case UC_PLAIN_NOT:
    return x == 0;
  case UC_PLAIN_RELU:
    return x < 0 ? 0 : x;
  case UC_PLAIN_LEAKY_RELU:
    return x < 0 ? attr[0] * x : x;
  case UC_PLAIN_ELU:
    return x > 0 ? x : attr[0] * expm1(x);
  case UC_PLAIN_SELU:
    return attr[1] * (x > 0 ? x : attr[0] * expm1(x));
  case UC_PLAIN_CELU:
    return x > 0 ? x : attr[0] * expm1(x / attr[0]);
  case UC_PLAIN_SOFTPLUS:
    return attr[0] * x > attr[1] ? x : log1p(exp(attr[0] * x)) / attr[0];
  case UC_PLAIN_SOFTSIGN:
    return x / (1 + fabs(x));
  case UC_PLAIN_GELU:
    return 0.5 * x * erfc(-x * sqrt(0.5));
  case UC_PLAIN_GELU_TANH:
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  case UC_PLAIN_SILU:
    return x / (1 + exp(-attr[0] * x));
  case UC_PLAIN_MISH:
    return x * tanh(log1p(exp(x)));
  case UC_PLAIN_HARDSWISH:
    return x * fmin(fmax(x + 3, 0), 6) / 6;
  case UC_PLAIN_HARDSIGMOID:
    return fmin(fmax(attr[0] * x + attr[1], 0), 1);
  case UC_PLAIN_SIGMOID:
    return 1 / (1 + exp(-x));
  case UC_PLAIN_TANH:
    return tanh(x);
  case UC_PLAIN_ABS:
    return fabs(x);
  case UC_PLAIN_NEG:
    return -x;
  case UC_PLAIN_SQRT:
    return sqrt(x);
  case UC_PLAIN_EXP:
    return exp(x);
  case UC_PLAIN_LOG:
    return log(x);
  case UC_PLAIN_ERF:
    return erf(x);
  case UC_PLAIN_RECIPROCAL:
    return 1 / x;
  case UC_PLAIN_FLOOR:
    return floor(x);
  case UC_PLAIN_CEIL:
    return ceil(x);
  case UC_PLAIN_ROUND:
    return nearbyint(x);
  case UC_PLAIN_SIGN:
    return isnan(x) ? x : (x > 0) - (x < 0);
  case UC_PLAIN_SIN:
    return sin(x);
  case UC_PLAIN_COS:
    return cos(x);
  default:
    return x;
  }
}

static double of_more(uc_plain_fn fn, double a, double b, double third) {
  switch (fn) {
  case UC_PLAIN_ADD:
    return a + b;
  case UC_PLAIN_SUB:
    return a - b;
  case UC_PLAIN_MUL:
    return a * b;
  case UC_PLAIN_DIV:
    return a / b;
  case UC_PLAIN_POW:
    return pow(a, b);
  case UC_PLAIN_MAX:
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
  case UC_PLAIN_MIN:
    return isnan(a) || isnan(b) ? NAN : fmin(a, b);
  case UC_PLAIN_PRELU:
    return a < 0 ? a * b : a;
  case UC_PLAIN_EQUAL:
    return a == b;
  case UC_PLAIN_GREATER:
    return a > b;
  case UC_PLAIN_LESS:
    return a < b;
  case UC_PLAIN_GREATER_EQUAL:
    return a >= b;
  case UC_PLAIN_LESS_EQUAL:
    return a <= b;
  case UC_PLAIN_AND:
    return a != 0 && b != 0;
  case UC_PLAIN_OR:
    return a != 0 || b != 0;
  case UC_PLAIN_XOR:
    return (a != 0) != (b != 0);
  case UC_PLAIN_WHERE:
    return a != 0 ? b : third;
  default: /* clip */
    a = a < b ? b : a;
    return a > third ? third : a;
  }
}

static double expect_fn(const plain_case *c, const int64_t *index) {
  double x[3] = {0};
  int operands = uc_plain_fn_operands(c->op.fn);
  for (int k = 0; k < operands; k++)
    x[k] = c->op.in[k].dtype ? plain_get(&c->in[k], index, c->out.view.rank) : c->op.attr[k - 1];
  if (operands == 1) return of_one(c->op.fn, x[0], c->op.attr);
  return of_more(c->op.fn, x[0], x[1], operands == 3 ? x[2] : 0);
}

/* Functions that are right to their last bit but for one rounding, and those that a formula in float32 approximates. */
static void set_tolerance(plain_case *c) {
  bool smooth =
      c->op.fn >= UC_PLAIN_ELU && c->op.fn <= UC_PLAIN_TANH && c->op.fn != UC_PLAIN_SOFTSIGN;
  bool wide = c->out.view.dtype == UC_PLAIN_F64;
  smooth = smooth || c->op.fn == UC_PLAIN_EXP;
  c->tolerance = smooth ? 64 * HALF_ULP : 2 * HALF_ULP;
  c->floor = smooth ? 0x1p-24 : 0x1p-148;
  if (c->op.fn == UC_PLAIN_CAST || uc_plain_is_int(c->out.view.dtype)) c->tolerance = c->floor = 0;
  if (wide && c->tolerance > 0) {
    c->tolerance = 0x1p-44;
    c->floor = 0x1p-44;
  }
}

static bool is_comparison(uc_plain_fn fn) {
  return fn >= UC_PLAIN_EQUAL && fn <= UC_PLAIN_LESS_EQUAL;
}

/* An operand's shape: some of its axes are broadcast, some of the outer ones are not there. */
static void add_operand(plain_case *c, int k, uc_plain_dtype dtype, int rank, const int64_t *shape,
                        plain_fill fill, bool plain) {
  int64_t own[UC_PLAIN_RANK];
  int dropped = plain ? 0 : (int)check_random_range(&c->random, -3, rank);
  if (dropped < 0) dropped = 0;
  for (int i = dropped; i < rank; i++)
    own[i - dropped] = !plain && check_random_range(&c->random, 0, 3) == 0 ? 1 : shape[i];
  plain_input(c, k, dtype, rank - dropped, own, fill, plain);
}

static void make_fn(plain_case *c, uc_plain_fn fn, uc_plain_dtype in, uc_plain_dtype out,
                    uint64_t seed, plain_fill fill) {
  static const struct {
    uc_plain_fn fn;
    double attr[2];
  } attrs[] = {{UC_PLAIN_LEAKY_RELU, {0.125, 0}},   {UC_PLAIN_ELU, {1.25, 0}},
               {UC_PLAIN_SELU, {1.75, 1.0625}},     {UC_PLAIN_CELU, {0.75, 0}},
               {UC_PLAIN_SOFTPLUS, {2, 6}},         {UC_PLAIN_SILU, {1.25, 0}},
               {UC_PLAIN_HARDSIGMOID, {0.25, 0.5}}, {UC_PLAIN_CLIP, {-INFINITY, INFINITY}}};
  int64_t shape[UC_PLAIN_RANK];
  bool plain = seed % 3 == 0;
  *c = (plain_case){.random = seed * 1000 + (uint64_t)fn};
  c->op.kind = UC_PLAIN_ELEMENTWISE;
  c->op.fn = fn;
  for (size_t i = 0; i < CHECK_COUNT(attrs); i++)
    if (attrs[i].fn == fn) memcpy(c->op.attr, attrs[i].attr, sizeof c->op.attr);
  int rank = (int)check_random_range(&c->random, plain ? 1 : 0, plain ? 3 : 6);
  plain_shape(c, rank, rank > 3 ? 4 : 9, shape);
  if (plain) shape[rank - 1] *= 4; /* groups of neighbours */
  plain_output(c, out, rank, shape, plain);
  for (int k = 0; k < uc_plain_fn_operands(fn); k++) {
    uc_plain_dtype dtype = fn == UC_PLAIN_WHERE && k == 0 ? UC_PLAIN_BOOL : in;
    if (fn == UC_PLAIN_CLIP && k == 1 + (int)(seed % 2)) continue;
    add_operand(c, k, dtype, rank, shape, fill, plain);
  }
  set_tolerance(c);
}

/* float32, and one of the others: every new kernel is compiled. */
static void functions_of_floats(void) {
  for (int fn = 1; fn < UC_PLAIN_FNS; fn++)
    for (size_t d = 0; d < CHECK_COUNT(floats); d++) {
      plain_case c;
      if (d > 0 && d != 1 + (size_t)fn % 3) continue;
      uc_plain_dtype out = is_comparison((uc_plain_fn)fn) ? UC_PLAIN_BOOL : floats[d];
      make_fn(&c, (uc_plain_fn)fn, floats[d], out, 3 + d, PLAIN_TAME);
      plain_check(&c, uc_plain_fn_define((uc_plain_fn)fn), expect_fn);
    }
}

/* NaN and infinities, where the formula is not a matter of taste. */
static void functions_of_special_numbers(void) {
  for (int fn = 1; fn < UC_PLAIN_FNS; fn++) {
    bool smooth = fn >= UC_PLAIN_ELU && fn <= UC_PLAIN_HARDSIGMOID;
    plain_case c;
    if (smooth) continue;
    uc_plain_dtype out = is_comparison((uc_plain_fn)fn) ? UC_PLAIN_BOOL : UC_PLAIN_F32;
    make_fn(&c, (uc_plain_fn)fn, UC_PLAIN_F32, out, 7, PLAIN_WILD);
    plain_check(&c, uc_plain_fn_define((uc_plain_fn)fn), expect_fn);
  }
}

static int64_t wrapped(uint64_t value) { return (int64_t)value; }

static int64_t power_int(int64_t a, int64_t b) {
  uint64_t result = 1;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (int64_t i = 0; i < b; i++) result *= (uint64_t)a;
  return wrapped(result);
}

static int64_t of_ints(uc_plain_fn fn, const int64_t *x) {
  uint64_t a = (uint64_t)x[0], b = (uint64_t)x[1];
  switch (fn) {
  case UC_PLAIN_ADD:
    return wrapped(a + b);
  case UC_PLAIN_SUB:
    return wrapped(a - b);
  case UC_PLAIN_MUL:
    return wrapped(a * b);
  case UC_PLAIN_DIV:
    return x[1] == 0 ? 0 : x[1] == -1 ? wrapped(0 - a) : x[0] / x[1];
  case UC_PLAIN_POW:
    return power_int(x[0], x[1]);
  case UC_PLAIN_MAX:
    return x[0] > x[1] ? x[0] : x[1];
  case UC_PLAIN_MIN:
    return x[0] < x[1] ? x[0] : x[1];
  case UC_PLAIN_EQUAL:
    return x[0] == x[1];
  case UC_PLAIN_GREATER:
    return x[0] > x[1];
  case UC_PLAIN_LESS:
    return x[0] < x[1];
  case UC_PLAIN_GREATER_EQUAL:
    return x[0] >= x[1];
  case UC_PLAIN_LESS_EQUAL:
    return x[0] <= x[1];
  case UC_PLAIN_AND:
    return a && b;
  case UC_PLAIN_OR:
    return a || b;
  case UC_PLAIN_XOR:
    return !a != !b;
  case UC_PLAIN_WHERE:
    return a ? x[1] : x[2];
  case UC_PLAIN_CLIP:
    return (x[0] < x[1] ? x[1] : x[0]) > x[2] ? x[2] : x[0] < x[1] ? x[1] : x[0];
  case UC_PLAIN_NOT:
    return !a;
  case UC_PLAIN_RELU:
    return x[0] < 0 ? 0 : x[0];
  case UC_PLAIN_ABS:
    return x[0] < 0 ? wrapped(0 - a) : x[0];
  case UC_PLAIN_NEG:
    return wrapped(0 - a);
  case UC_PLAIN_SIGN:
    return (x[0] > 0) - (x[0] < 0);
  default:
    return x[0];
  }
}

/* The low bits of what int64 says. */
static void compare_ints(const plain_case *c) {
  const uc_plain_view *v = &c->out.view;
  int64_t index[UC_PLAIN_RANK] = {0};
  int shift = 64 - 8 * (int)uc_plain_dtype_size(v->dtype);
  do {
    int64_t x[3] = {0}, got = plain_get_int(&c->out, index, v->rank);
    for (int k = 0; k < uc_plain_fn_operands(c->op.fn); k++)
      x[k] = c->op.in[k].dtype       ? plain_get_int(&c->in[k], index, v->rank)
             : c->op.attr[k - 1] < 0 ? INT64_MIN
                                     : INT64_MAX;
    int64_t wanted = of_ints(c->op.fn, x);
    if (v->dtype == UC_PLAIN_BOOL) wanted = wanted != 0;
    if (!CHECK_MSG((uint64_t)got << shift == (uint64_t)wanted << shift,
                   "%s of %s, %lld, %lld, %lld: %lld, expected %lld", uc_plain_fn_define(c->op.fn),
                   uc_plain_dtype_name(c->op.in[0].dtype), (long long)x[0], (long long)x[1],
                   (long long)x[2], (long long)got, (long long)wanted))
      return;
  } while (plain_next(v->rank, v->shape, index));
}

static void functions_of_integers(void) {
  for (int fn = 1; fn < UC_PLAIN_FNS; fn++) {
    if (!uc_plain_fn_has_int((uc_plain_fn)fn)) continue;
    for (int d = UC_PLAIN_I8; d <= UC_PLAIN_BOOL; d++) {
      /* every type for one function in four, and one for all */
      if (d != UC_PLAIN_I64 && (d + fn) % 4 != 0) continue;
      plain_case c;
      bool compares = is_comparison((uc_plain_fn)fn), tame = fn == UC_PLAIN_POW;
      make_fn(&c, (uc_plain_fn)fn, (uc_plain_dtype)d, compares ? UC_PLAIN_BOOL : (uc_plain_dtype)d,
              5 + (uint64_t)d, tame ? PLAIN_TAME : PLAIN_WILD);
      if (plain_run(&c, uc_plain_fn_define((uc_plain_fn)fn))) compare_ints(&c);
      plain_free(&c);
    }
  }
}

/* From and to every type; integers to integers wrap around. */
static void casts(void) {
  for (int from = UC_PLAIN_F32; from < UC_PLAIN_DTYPES; from++)
    for (int to = UC_PLAIN_F32; to < UC_PLAIN_DTYPES; to++) {
      plain_case c;
      if (from != UC_PLAIN_F32 && to != UC_PLAIN_F32 && (from + 5 * to) % 3) continue;
      bool ints = from >= UC_PLAIN_I8 && to >= UC_PLAIN_I8;
      make_fn(&c, UC_PLAIN_CAST, (uc_plain_dtype)from, (uc_plain_dtype)to,
              (uint64_t)(from * 16 + to), PLAIN_WILD);
      if (!ints) {
        plain_check(&c, uc_plain_dtype_name((uc_plain_dtype)from), expect_fn);
        continue;
      }
      if (plain_run(&c, "cast")) compare_ints(&c);
      plain_free(&c);
    }
}

/* Types that meet in one operation. */
static void mixed_types(void) {
  static const struct {
    uc_plain_fn fn;
    uc_plain_dtype in[2], out;
  } mixes[] = {{UC_PLAIN_POW, {UC_PLAIN_F32, UC_PLAIN_I64}, UC_PLAIN_F32},
               {UC_PLAIN_POW, {UC_PLAIN_F16, UC_PLAIN_F32}, UC_PLAIN_F16},
               {UC_PLAIN_POW, {UC_PLAIN_I32, UC_PLAIN_F32}, UC_PLAIN_I32},
               {UC_PLAIN_ADD, {UC_PLAIN_BF16, UC_PLAIN_F64}, UC_PLAIN_F64},
               {UC_PLAIN_LESS, {UC_PLAIN_I32, UC_PLAIN_F64}, UC_PLAIN_BOOL},
               {UC_PLAIN_PRELU, {UC_PLAIN_I32, UC_PLAIN_I32}, UC_PLAIN_I32}};
  for (size_t i = 0; i < CHECK_COUNT(mixes); i++) {
    plain_case c = {.random = 77 + i};
    int64_t shape[] = {3, 5, 8};
    c.op.kind = UC_PLAIN_ELEMENTWISE;
    c.op.fn = mixes[i].fn;
    plain_output(&c, mixes[i].out, 3, shape, true);
    plain_input(&c, 0, mixes[i].in[0], 3, shape, PLAIN_POSITIVE, true);
    plain_input(&c, 1, mixes[i].in[1], 1, shape + 2, PLAIN_TAME, true);
    set_tolerance(&c);
    plain_check(&c, uc_plain_fn_define(c.op.fn), expect_fn);
  }
}

static double expect_sum(const plain_case *c, const int64_t *index) {
  return plain_at(&c->in[0], index) + plain_at(&c->in[1], index);
}

/* The result replaces an operand. */
static void in_place(void) {
  for (uint64_t seed = 0; seed < 4; seed++) {
    plain_case c = {.random = seed, .tolerance = HALF_ULP};
    int64_t shape[] = {6, 7, 8};
    const void *in[UC_PLAIN_INPUTS] = {NULL};
    uc_plain *plain = NULL;
    uc_plain_set *set = plain_set_make();
    c.op = (uc_plain_op){.kind = UC_PLAIN_ELEMENTWISE, .fn = UC_PLAIN_ADD};
    plain_output(&c, UC_PLAIN_F32, 3, shape, seed % 2);
    plain_input(&c, 0, UC_PLAIN_F32, 3, shape, PLAIN_TAME, true);
    plain_input(&c, 1, UC_PLAIN_F32, 3, shape, PLAIN_TAME, true);
    c.op.in[0] = c.op.out = c.in[0].view;
    void *x = gpu_alloc(&c.in[0].buffer, c.in[0].byte_count, 0);
    void *y = gpu_alloc(&c.in[1].buffer, c.in[1].byte_count, 0);
    in[0] = x;
    in[1] = y;
    bool done = set && x && y && gpu_write(x, c.in[0].bytes, c.in[0].byte_count) &&
                gpu_write(y, c.in[1].bytes, c.in[1].byte_count) &&
                CHECK_STATUS(uc_cuda_plain_prepare(set, &c.op, &plain), UPCONV_OK) &&
                CHECK_STATUS(uc_cuda_plain_run(plain, in, x, NULL, NULL), UPCONV_OK);
    uc_cuda_plain_destroy(plain);
    uc_cuda_plain_set_destroy(set);
    CHECK_FREE(c.out.bytes);
    c.out = (plain_tensor){.view = c.in[0].view, .byte_count = c.in[0].byte_count};
    c.out.bytes = check_alloc(c.out.byte_count, 0);
    if (done && gpu_read(c.out.bytes, x, c.out.byte_count))
      plain_compare(&c, "in place", expect_sum);
    plain_free(&c);
  }
}

/* ---------------------------------------------------------------- corners */

/* Nothing to do is done. */
static void empty(void) {
  for (int kind = 0; kind < UC_PLAIN_KINDS; kind++) {
    const int64_t shape[] = {3, 0, 4}, channels[] = {0}, matrix[] = {0, 4};
    plain_case c = {.random = 1, .op = {.kind = (uc_plain_kind)kind, .fn = UC_PLAIN_EXP}};
    bool gemm = kind == UC_PLAIN_GEMM, product = gemm || kind == UC_PLAIN_MATMUL;
    c.op.window = (upconv_window){.kernel = {1}, .stride = {1}, .dilation = {1}};
    plain_input(&c, 0, UC_PLAIN_F32, product ? 2 : 3, product ? matrix : shape, PLAIN_TAME, true);
    plain_output(&c, UC_PLAIN_F32, product ? 2 : 3, product ? matrix : shape, true);
    for (int k = 1; k < 5 && kind >= UC_PLAIN_BATCH_NORM; k++)
      plain_input(&c, k, UC_PLAIN_F32, 1, channels, PLAIN_TAME, true);
    if (product) plain_input(&c, 1, UC_PLAIN_F32, 2, (const int64_t[]){4, 4}, PLAIN_TAME, true);
    if (plain_run(&c, "an empty result")) CHECK(check_is_poison(c.out.bytes, c.out.byte_count));
    plain_free(&c);
  }
}

/* More than 2^31 elements: where 32-bit offsets would go round. */
static void large(void) {
  const int64_t n = (INT64_C(1) << 31) + 1024;
  const uc_plain_view one = {.dtype = UC_PLAIN_I8, .rank = 0};
  const uc_plain_view all = {
      .dtype = UC_PLAIN_I8, .rank = 2, .shape = {2, n / 2}, .stride = {n / 2, 1}};
  uc_plain_op negate = {.kind = UC_PLAIN_ELEMENTWISE, .fn = UC_PLAIN_NEG, .out = all};
  uc_plain_op least = {.kind = UC_PLAIN_REDUCE, .reduce = UC_PLAIN_REDUCE_MIN, .axes = 3};
  gpu_buffer x, y, z, w = {0, 0, 0};
  uc_plain *first = NULL, *second = NULL;
  uc_plain_set *set = plain_set_make();
  signed char ends[4] = {5, 0, 0, 0}, found = 0;
  negate.in[0] = one;
  least.in[0] = all;
  least.out = (uc_plain_view){.dtype = UC_PLAIN_I8, .rank = 2, .shape = {1, 1}, .stride = {1, 1}};
  signed char *from = gpu_alloc(&x, 1, 0), *to = gpu_alloc(&y, (size_t)n, 0);
  void *result = gpu_alloc(&z, 1, 0);
  const void *in[UC_PLAIN_INPUTS] = {from}, *again[UC_PLAIN_INPUTS] = {to};
  if (set && from && to && result && gpu_write(from, ends, 1) &&
      CHECK_STATUS(uc_cuda_plain_prepare(set, &negate, &first), UPCONV_OK) &&
      CHECK_STATUS(uc_cuda_plain_prepare(set, &least, &second), UPCONV_OK)) {
    void *room = gpu_alloc_scratch(&w, uc_cuda_plain_workspace(second) + 1);
    CHECK_STATUS(uc_cuda_plain_run(first, in, to, NULL, NULL), UPCONV_OK);
    gpu_read(ends, to, 2);
    gpu_read(ends + 2, to + n - 2, 2);
    for (int i = 0; i < 4; i++) CHECK_INT(ends[i], -5);
    ends[0] = -9;
    gpu_write(to + n - 1, ends, 1);
    CHECK_STATUS(uc_cuda_plain_run(second, again, result, room, NULL), UPCONV_OK);
    gpu_read(&found, result, 1);
    CHECK_INT(found, -9);
  }
  uc_cuda_plain_destroy(first);
  uc_cuda_plain_destroy(second);
  uc_cuda_plain_set_destroy(set);
  gpu_free(&x);
  gpu_free(&y);
  gpu_free(&z);
  gpu_free(&w);
}

static const check_test tests[] = {
    {"plain_functions_of_floats", functions_of_floats},
    {"plain_functions_of_special_numbers", functions_of_special_numbers},
    {"plain_functions_of_integers", functions_of_integers},
    {"plain_casts", casts},
    {"plain_mixed_types", mixed_types},
    {"plain_in_place", in_place},
    {"plain_empty", empty},
    {"plain_large", large},
};
const gpu_tests gpu_plain_tests = {tests, CHECK_COUNT(tests)};
