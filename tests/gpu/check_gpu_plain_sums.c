/* SPDX-License-Identifier: Apache-2.0 */
/* Plain operations that add up: windows, reductions, softmax, products, norms. */
#include <math.h>
#include <string.h>

#include "../../src/cuda/plain_parts.h"
#include "check_gpu_plain.h"

static const uc_plain_dtype floats[] = {UC_PLAIN_F32, UC_PLAIN_F16, UC_PLAIN_BF16, UC_PLAIN_F64};
static const double HALF_ULP = 0x1p-24;

/* Sums in float64, and a few roundings. */
static void set_tolerance(plain_case *c, double roundings) {
  bool wide = c->out.view.dtype == UC_PLAIN_F64;
  c->tolerance = wide ? 0x1p-44 : roundings * HALF_ULP;
  c->floor = wide ? 0x1p-44 : 0x1p-140;
}

/* ---------------------------------------------------------------- windows */

static double expect_pool(const plain_case *c, const int64_t *index) {
  const upconv_window *w = &c->op.window;
  const uc_plain_view *x = &c->op.in[0];
  int nd = x->rank - 2;
  int64_t t[3] = {0, 0, 0}, kernel[3] = {1, 1, 1}, from[UC_PLAIN_RANK] = {index[0], index[1]};
  double sum = 0, most = -INFINITY, counted = 0;
  for (int i = 0; i < nd; i++) kernel[i] = w->kernel[i];
  do {
    bool inside = true, padded = true;
    for (int i = 0; i < nd; i++) {
      int64_t at = index[2 + i] * w->stride[i] - w->pad_begin[i] + t[i] * w->dilation[i];
      inside = inside && at >= 0 && at < x->shape[2 + i];
      padded = padded && at < x->shape[2 + i] + w->pad_end[i];
      from[2 + i] = at;
    }
    counted += w->count_include_pad ? padded : inside;
    if (!inside) continue;
    double value = plain_at(&c->in[0], from);
    sum += value;
    most = isnan(most) || isnan(value) ? NAN : fmax(most, value);
  } while (plain_next(3, kernel, t));
  return c->op.average ? sum / (w->divisor ? (double)w->divisor : counted) : most;
}

static int64_t window_size(const upconv_window *w, int i, int64_t size) {
  int64_t room = size + w->pad_begin[i] + w->pad_end[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
  int64_t n = room / w->stride[i] + 1;
  if (w->ceil_mode && room % w->stride[i] != 0 && n * w->stride[i] < size + w->pad_begin[i]) n++;
  return n;
}

static void pools(void) {
  static const uc_plain_dtype types[] = {UC_PLAIN_F32, UC_PLAIN_F16, UC_PLAIN_BF16, UC_PLAIN_F64,
                                         UC_PLAIN_I8,  UC_PLAIN_U8,  UC_PLAIN_I32};
  for (uint64_t seed = 0; seed < 42; seed++) {
    plain_case c = {.random = seed, .op = {.kind = UC_PLAIN_POOL, .average = seed % 2}};
    upconv_window *w = &c.op.window;
    uc_plain_dtype dtype = types[seed % CHECK_COUNT(types)];
    int nd = (int)check_random_range(&c.random, 1, 3);
    int64_t x[5] = {2, 3}, y[5] = {2, 3};
    w->ceil_mode = seed % 3 == 0;
    w->count_include_pad = seed % 5 < 2;
    if (seed % 11 == 5) w->divisor = 3;
    for (int i = 0; i < nd; i++) {
      w->kernel[i] = check_random_range(&c.random, 1, 4);
      w->stride[i] = check_random_range(&c.random, 1, 4);
      w->dilation[i] = check_random_range(&c.random, 1, 2);
      w->pad_begin[i] = check_random_range(&c.random, 0, w->kernel[i] - 1);
      w->pad_end[i] = check_random_range(&c.random, 0, w->kernel[i] - 1);
      x[2 + i] = check_random_range(&c.random, 8, 11);
      y[2 + i] = window_size(w, i, x[2 + i]);
    }
    plain_input(&c, 0, dtype, 2 + nd, x, seed % 7 == 3 ? PLAIN_WILD : PLAIN_TAME, seed % 2);
    plain_output(&c, dtype, 2 + nd, y, seed % 3);
    set_tolerance(&c, c.op.average ? 2 : 0);
    if (!c.op.average || uc_plain_is_int(dtype)) c.tolerance = c.floor = 0;
    plain_check(&c, c.op.average ? "average pool" : "max pool", expect_pool);
  }
}

/* ---------------------------------------------------------------- reductions */

static double start_of(uc_plain_reduce kind) {
  if (kind == UC_PLAIN_REDUCE_MAX) return -INFINITY;
  if (kind == UC_PLAIN_REDUCE_MIN) return INFINITY;
  return kind == UC_PLAIN_REDUCE_PROD ? 1 : 0;
}

static double add_one(uc_plain_reduce kind, double sum, double x) {
  switch (kind) {
  case UC_PLAIN_REDUCE_MAX:
    return isnan(sum) || isnan(x) ? NAN : fmax(sum, x);
  case UC_PLAIN_REDUCE_MIN:
    return isnan(sum) || isnan(x) ? NAN : fmin(sum, x);
  case UC_PLAIN_REDUCE_LOG_SUM_EXP: /* of tame numbers */
    return sum + exp(x);
  case UC_PLAIN_REDUCE_SUM_SQUARE:
  case UC_PLAIN_REDUCE_L2:
    return sum + x * x;
  case UC_PLAIN_REDUCE_L1:
    return sum + fabs(x);
  case UC_PLAIN_REDUCE_PROD:
    return sum * x;
  default:
    return sum + x;
  }
}

/* The elements of the input that share this element of a result without the axes. */
static int64_t extents(const plain_case *c, int64_t *extent) {
  int64_t count = 1;
  for (int i = 0; i < c->op.in[0].rank; i++) {
    extent[i] = c->op.axes >> i & 1 ? c->op.in[0].shape[i] : 1;
    count *= extent[i];
  }
  return count;
}

static double input_at(const plain_case *c, const int64_t *index, const int64_t *inner) {
  int64_t at[UC_PLAIN_RANK];
  for (int i = 0; i < c->op.in[0].rank; i++) at[i] = c->op.axes >> i & 1 ? inner[i] : index[i];
  return plain_at(&c->in[0], at);
}

static double expect_reduce(const plain_case *c, const int64_t *index) {
  int64_t extent[UC_PLAIN_RANK], inner[UC_PLAIN_RANK] = {0}, count = extents(c, extent);
  double sum = start_of(c->op.reduce);
  if (count > 0) do
      sum = add_one(c->op.reduce, sum, input_at(c, index, inner));
    while (plain_next(c->op.in[0].rank, extent, inner));
  switch (c->op.reduce) {
  case UC_PLAIN_REDUCE_MEAN:
    return sum / (double)count;
  case UC_PLAIN_REDUCE_L2:
    return sqrt(sum);
  case UC_PLAIN_REDUCE_LOG_SUM_EXP:
  case UC_PLAIN_REDUCE_LOG_SUM:
    return log(sum);
  default:
    return sum;
  }
}

/* axes: those that are reduced. */
static void make_reduce(plain_case *c, uc_plain_reduce kind, uc_plain_dtype dtype, int rank,
                        const int64_t *shape, plain_fill fill, bool plain) {
  int64_t out[UC_PLAIN_RANK];
  c->op.kind = UC_PLAIN_REDUCE;
  c->op.reduce = kind;
  for (int i = 0; i < rank; i++) out[i] = c->op.axes >> i & 1 ? 1 : shape[i];
  plain_input(c, 0, dtype, rank, shape, fill, plain);
  plain_output(c, dtype, rank, out, plain);
  set_tolerance(c, 4);
  c->floor = dtype == UC_PLAIN_F64 ? 0x1p-40 : 0x1p-30; /* sums that cancel */
  if (uc_plain_is_int(dtype)) c->tolerance = c->floor = 0;
}

static void reductions(void) {
  static const uc_plain_dtype types[] = {UC_PLAIN_F32, UC_PLAIN_BF16, UC_PLAIN_I32,
                                         UC_PLAIN_F64, UC_PLAIN_F16,  UC_PLAIN_U8};
  for (int kind = 0; kind < UC_PLAIN_REDUCES; kind++)
    for (uint64_t seed = 0; seed < 6; seed++) {
      plain_case c = {.random = seed * 100 + (uint64_t)kind};
      int64_t shape[UC_PLAIN_RANK];
      int rank = (int)check_random_range(&c.random, 1, 6);
      bool logarithm = kind == UC_PLAIN_REDUCE_LOG_SUM || kind == UC_PLAIN_REDUCE_LOG_SUM_EXP;
      uc_plain_dtype dtype = logarithm ? floats[seed % 4] : types[seed];
      plain_shape(&c, rank, rank > 4 ? 4 : 9, shape);
      c.op.axes = (uint32_t)check_random_range(&c.random, 0, (1 << rank) - 1);
      make_reduce(&c, (uc_plain_reduce)kind, dtype, rank, shape,
                  kind == UC_PLAIN_REDUCE_LOG_SUM ? PLAIN_POSITIVE : PLAIN_TAME, seed % 2);
      plain_check(&c, "reduce", expect_reduce);
    }
}

/* Enough elements for groups of every size and for several blocks an output; NaN; of nothing at all. */
static void reductions_of_many(void) {
  static const struct {
    int64_t shape[3];
    uint32_t axes;
  } sizes[] = {{{1, 1, 70001}, 7}, {{3, 9001, 1}, 2}, {{2, 40, 300}, 4}, {{2, 3000, 37}, 2},
               {{40, 6, 11}, 5},   {{300, 2, 40}, 2}, {{5, 0, 3}, 2}};
  static const uc_plain_reduce kinds[] = {UC_PLAIN_REDUCE_SUM, UC_PLAIN_REDUCE_MAX,
                                          UC_PLAIN_REDUCE_LOG_SUM_EXP};
  for (size_t s = 0; s < CHECK_COUNT(sizes); s++)
    for (size_t k = 0; k < CHECK_COUNT(kinds); k++) {
      plain_case c = {.random = s, .op = {.axes = sizes[s].axes}};
      bool wild = kinds[k] == UC_PLAIN_REDUCE_MAX;
      make_reduce(&c, kinds[k], UC_PLAIN_F32, 3, sizes[s].shape, wild ? PLAIN_WILD : PLAIN_TAME,
                  true);
      plain_check(&c, "reduce many", expect_reduce);
    }
}

/* What overflows by itself does not; infinities and NaN are what they are. */
static void log_sum_exp_of_special_numbers(void) {
  static const struct {
    float x[3];
    double wanted;
  } rows[] = {{{1000, 1000, 999}, 1000.86199480435},
              {{-1000, -1001, -1002}, -999.592393999496},
              {{-INFINITY, 2, -INFINITY}, 2},
              {{INFINITY, 1, 2}, INFINITY},
              {{-INFINITY, -INFINITY, -INFINITY}, -INFINITY},
              {{1, NAN, 2}, NAN},
              {{INFINITY, NAN, 2}, NAN}};
  for (size_t i = 0; i < CHECK_COUNT(rows); i++) {
    const int64_t shape[] = {3};
    plain_case c = {.op = {.axes = 1}};
    make_reduce(&c, UC_PLAIN_REDUCE_LOG_SUM_EXP, UC_PLAIN_F32, 1, shape, PLAIN_TAME, true);
    memcpy(c.in[0].bytes, rows[i].x, sizeof rows[i].x);
    if (plain_run(&c, "log_sum_exp")) {
      const int64_t zero[] = {0};
      double got = plain_at(&c.out, zero), wanted = rows[i].wanted;
      CHECK_MSG(isnan(wanted) ? isnan(got)
                              : got == wanted || fabs(got - wanted) <= 2 * HALF_ULP * fabs(wanted),
                "row %zu: %.9g, expected %.9g", i, got, wanted);
    }
    plain_free(&c);
  }
}

/* ---------------------------------------------------------------- softmax */

static double expect_softmax(const plain_case *c, const int64_t *index) {
  int64_t extent[UC_PLAIN_RANK], inner[UC_PLAIN_RANK] = {0};
  double most = -INFINITY, sum = 0, own = plain_at(&c->in[0], index);
  extents(c, extent);
  do {
    double x = input_at(c, index, inner);
    most = isnan(most) || isnan(x) ? NAN : fmax(most, x);
  } while (plain_next(c->op.in[0].rank, extent, inner));
  do sum += exp(input_at(c, index, inner) - most);
  while (plain_next(c->op.in[0].rank, extent, inner));
  return c->op.log ? own - most - log(sum) : exp(own - most) / sum;
}

static void softmax(void) {
  for (uint64_t seed = 0; seed < 24; seed++) {
    plain_case c = {.random = seed, .op = {.kind = UC_PLAIN_SOFTMAX, .log = seed % 2}};
    int64_t shape[UC_PLAIN_RANK];
    bool plain = seed % 4 > 1;
    int rank = (int)check_random_range(&c.random, 1, 4);
    plain_shape(&c, rank, 8, shape);
    if (plain) shape[rank - 1] = 8;
    c.op.axes = (uint32_t)check_random_range(&c.random, 0, (1 << rank) - 1);
    plain_input(&c, 0, floats[seed / 2 % 4], rank, shape, seed % 8 == 5 ? PLAIN_WILD : PLAIN_TAME,
                plain);
    plain_output(&c, floats[seed / 2 % 4], rank, shape, plain);
    set_tolerance(&c, 8);
    if (c.op.log && c.floor < 0x1p-50) c.floor = 0x1p-50;
    plain_check(&c, "softmax", expect_softmax);
  }
}

/* Differences that float32 rounds: the result is still right to a few bits. */
static void softmax_of_large_numbers(void) {
  for (int log_of = 0; log_of < 2; log_of++) {
    const int64_t shape[] = {3, 5000};
    plain_case c = {.random = 3, .op = {.kind = UC_PLAIN_SOFTMAX, .log = log_of, .axes = 2}};
    plain_input(&c, 0, UC_PLAIN_F32, 2, shape, PLAIN_TAME, true);
    plain_output(&c, UC_PLAIN_F32, 2, shape, true);
    float *x = (float *)(void *)c.in[0].bytes;
    for (int64_t i = 0; i < 15000; i++)
      x[i] = i < 5000 ? x[i] * 20 : i < 10000 ? 1e6f + x[i] : (float)i * 1e-3f;
    set_tolerance(&c, 8);
    plain_check(&c, "softmax of large numbers", expect_softmax);
  }
}

/* ---------------------------------------------------------------- products */

static double expect_matmul(const plain_case *c, const int64_t *index) {
  const uc_plain_view *a = &c->op.in[0], *b = &c->op.in[1];
  int rank = c->out.view.rank, matrix = (a->rank > 1) + (b->rank > 1), outer = rank - matrix;
  int64_t left[UC_PLAIN_RANK + 2], right[UC_PLAIN_RANK + 2], depth = a->shape[a->rank - 1];
  int lefts = outer + (a->rank > 1) + 1, rights = outer + 1 + (b->rank > 1);
  double sum = 0;
  memcpy(left, index, (size_t)(lefts - 1) * sizeof *left);
  memcpy(right, index, (size_t)outer * sizeof *right);
  if (b->rank > 1) right[rights - 1] = index[rank - 1];
  for (int64_t k = 0; k < depth; k++) {
    left[lefts - 1] = right[outer] = k;
    sum += plain_get(&c->in[0], left, lefts) * plain_get(&c->in[1], right, rights);
  }
  return sum;
}

static void matmul(void) {
  static const struct {
    int rank[2];
    int64_t a[4], b[4], out[5];
  } sizes[] = {{{2, 2}, {5, 7}, {7, 6}, {2, 5, 6}},
               {{2, 2}, {70, 33}, {33, 130}, {2, 70, 130}},
               {{2, 2}, {65, 16}, {16, 64}, {2, 65, 64}},
               {{3, 2}, {3, 9, 17}, {17, 5}, {3, 3, 9, 5}},
               {{4, 3}, {2, 1, 10, 4}, {3, 4, 8}, {4, 2, 3, 10, 8}},
               {{1, 1}, {40}, {40}, {0}},
               {{1, 2}, {19}, {19, 70}, {1, 70}},
               {{2, 1}, {70, 19}, {19}, {1, 70}},
               {{3, 1}, {3, 6, 5}, {5}, {2, 3, 6}},
               {{1, 3}, {5}, {4, 5, 6}, {2, 4, 6}},
               {{2, 2}, {3, 0}, {0, 4}, {2, 3, 4}}};
  static const uc_plain_dtype types[] = {UC_PLAIN_F32, UC_PLAIN_F16, UC_PLAIN_I32, UC_PLAIN_F64,
                                         UC_PLAIN_BF16};
  for (uint64_t seed = 0; seed < 22; seed++) {
    size_t s = seed % CHECK_COUNT(sizes);
    plain_case c = {.random = seed, .op = {.kind = UC_PLAIN_MATMUL}};
    uc_plain_dtype dtype = types[seed % CHECK_COUNT(types)];
    plain_input(&c, 0, dtype, sizes[s].rank[0], sizes[s].a, PLAIN_TAME, seed % 2);
    plain_input(&c, 1, dtype, sizes[s].rank[1], sizes[s].b, PLAIN_TAME, seed % 3 == 0);
    plain_output(&c, dtype, (int)sizes[s].out[0], sizes[s].out + 1, seed % 2);
    set_tolerance(&c, 2);
    c.floor = dtype == UC_PLAIN_F64 ? 0x1p-40 : 0x1p-40;
    if (uc_plain_is_int(dtype)) c.tolerance = c.floor = 0;
    plain_check(&c, "matmul", expect_matmul);
  }
}

static double expect_gemm(const plain_case *c, const int64_t *index) {
  bool ta = c->op.transpose[0], tb = c->op.transpose[1];
  double sum = 0;
  for (int64_t k = 0, depth = c->op.in[0].shape[!ta]; k < depth; k++) {
    const int64_t a[] = {ta ? k : index[0], ta ? index[0] : k},
                  b[] = {tb ? index[1] : k, tb ? k : index[1]};
    sum += plain_at(&c->in[0], a) * plain_at(&c->in[1], b);
  }
  sum *= c->op.attr[0];
  return c->op.in[2].dtype ? sum + c->op.attr[1] * plain_get(&c->in[2], index, 2) : sum;
}

static void gemm(void) {
  for (uint64_t seed = 0; seed < 24; seed++) {
    plain_case c = {.random = seed, .op = {.kind = UC_PLAIN_GEMM, .attr = {0.5, -2}}};
    bool ta = seed & 1, tb = seed >> 1 & 1;
    int64_t m = check_random_range(&c.random, 1, seed % 3 ? 5 : 70),
            n = check_random_range(&c.random, 1, 100);
    int64_t k = check_random_range(&c.random, 1, 40);
    const int64_t a[] = {ta ? k : m, ta ? m : k}, b[] = {tb ? n : k, tb ? k : n}, y[] = {m, n};
    const int64_t added[][2] = {{m, n}, {1, n}, {m, 1}, {n, 0}};
    uc_plain_dtype dtype = floats[seed / 4 % 4];
    c.op.transpose[0] = ta;
    c.op.transpose[1] = tb;
    plain_input(&c, 0, dtype, 2, a, PLAIN_TAME, seed % 5 == 0);
    plain_input(&c, 1, dtype, 2, b, PLAIN_TAME, seed % 5 < 2);
    if (seed % 5)
      plain_input(&c, 2, dtype, seed % 4 == 3 ? 1 : 2, added[seed % 4], PLAIN_TAME, false);
    plain_output(&c, dtype, 2, y, seed % 3);
    set_tolerance(&c, 2);
    c.floor = 0x1p-40;
    plain_check(&c, "gemm", expect_gemm);
  }
}

/* ---------------------------------------------------------------- norms */

static double expect_batch_norm(const plain_case *c, const int64_t *index) {
  double v[4];
  for (int k = 0; k < 4; k++) v[k] = plain_at(&c->in[1 + k], index + 1);
  return (plain_at(&c->in[0], index) - v[2]) / sqrt(v[3] + c->op.attr[0]) * v[0] + v[1];
}

/* axes names the spatial ones, for the walk over a channel. */
static double expect_instance_norm(const plain_case *c, const int64_t *index) {
  int64_t extent[UC_PLAIN_RANK], inner[UC_PLAIN_RANK] = {0}, count = extents(c, extent);
  int rank = c->op.in[0].rank;
  double mean = 0, square = 0;
  do mean += input_at(c, index, inner) / (double)count;
  while (plain_next(rank, extent, inner));
  do {
    double x = input_at(c, index, inner) - mean;
    square += x * x / (double)count;
  } while (plain_next(rank, extent, inner));
  double scale = plain_at(&c->in[1], index + 1), bias = plain_at(&c->in[2], index + 1);
  return (plain_at(&c->in[0], index) - mean) / sqrt(square + c->op.attr[0]) * scale + bias;
}

static void norms(void) {
  for (uint64_t seed = 0; seed < 24; seed++) {
    bool batch = seed % 2;
    plain_case c = {.random = seed, .op = {.attr = {1e-5, 0}}};
    c.op.kind = batch ? UC_PLAIN_BATCH_NORM : UC_PLAIN_INSTANCE_NORM;
    int64_t shape[UC_PLAIN_RANK];
    int rank = (int)check_random_range(&c.random, batch ? 2 : 3, 5);
    plain_shape(&c, rank, 6, shape);
    if (seed % 3 == 0) shape[rank - 1] = 64;
    if (seed == 12) shape[2] = 3000; /* several blocks a channel */
    c.op.axes = ((UINT32_C(1) << rank) - 1) & ~UINT32_C(3);
    plain_input(&c, 0, floats[seed / 2 % 4], rank, shape, PLAIN_TAME, seed % 3 == 0);
    for (int k = 1; k <= (batch ? 4 : 2); k++)
      plain_input(&c, k, floats[(seed + (uint64_t)k) % 4], 1, shape + 1, PLAIN_POSITIVE, false);
    plain_output(&c, floats[seed / 2 % 4], rank, shape, seed % 3 == 0);
    set_tolerance(&c, 2);
    c.floor = c.out.view.dtype == UC_PLAIN_F64 ? 0x1p-40 : 0x1p-40;
    plain_check(&c, batch ? "batch norm" : "instance norm",
                batch ? expect_batch_norm : expect_instance_norm);
  }
}

/* ---------------------------------------------------------------- the same bits, in a graph too */

static bool capture(uc_cuda_stream stream, const uc_plain *plain, const void *const *in, void *out,
                    void *room, uc_cuda_graph_exec *exec) {
  uc_cuda_graph graph = NULL;
  if (!GPU_CHECK(gpu->cuStreamBeginCapture(stream, UC_CAPTURE_RELAXED))) return false;
  bool done = CHECK_STATUS(uc_cuda_plain_run(plain, in, out, room, stream), UPCONV_OK);
  done = GPU_CHECK(gpu->cuStreamEndCapture(stream, &graph)) && done;
  done = done && GPU_CHECK(gpu->cuGraphInstantiate(exec, graph, 0));
  if (graph) GPU_CHECK(gpu->cuGraphDestroy(graph));
  return done;
}

static void in_a_graph(void) {
  const int64_t shape[] = {2, 3, 20000};
  plain_case c = {.random = 9, .op = {.kind = UC_PLAIN_SOFTMAX, .axes = 4}};
  plain_input(&c, 0, UC_PLAIN_F32, 3, shape, PLAIN_TAME, true);
  plain_output(&c, UC_PLAIN_F32, 3, shape, true);
  uc_plain_set *set = plain_set_make();
  uc_plain *plain = NULL;
  uc_cuda_stream stream = NULL;
  uc_cuda_graph_exec exec = NULL;
  size_t bytes = c.out.byte_count;
  gpu_buffer x, room, y[2];
  const void *in[UC_PLAIN_INPUTS] = {gpu_alloc(&x, bytes, 0)};
  bool done = set && CHECK_STATUS(uc_cuda_plain_prepare(set, &c.op, &plain), UPCONV_OK);
  void *workspace = gpu_alloc_scratch(&room, done ? uc_cuda_plain_workspace(plain) : 1);
  void *out[2] = {gpu_alloc(&y[0], bytes, 0), gpu_alloc(&y[1], bytes, 0)};
  done = done && workspace && out[0] && out[1] &&
         gpu_write((void *)(uintptr_t)in[0], c.in[0].bytes, bytes) &&
         GPU_CHECK(gpu->cuStreamCreate(&stream, UC_STREAM_NON_BLOCKING)) &&
         CHECK_STATUS(uc_cuda_plain_run(plain, in, out[0], workspace, stream), UPCONV_OK) &&
         gpu_run_sync(stream) && capture(stream, plain, in, out[1], workspace, &exec) &&
         GPU_CHECK(gpu->cuGraphLaunch(exec, stream)) && gpu_run_sync(stream) &&
         gpu_read(c.in[0].bytes, out[0], bytes) && gpu_read(c.out.bytes, out[1], bytes);
  if (done) CHECK(memcmp(c.in[0].bytes, c.out.bytes, bytes) == 0);
  if (exec) GPU_CHECK(gpu->cuGraphExecDestroy(exec));
  if (stream) GPU_CHECK(gpu->cuStreamDestroy(stream));
  gpu_free(&x);
  gpu_free(&room);
  gpu_free(&y[0]);
  gpu_free(&y[1]);
  uc_cuda_plain_destroy(plain);
  uc_cuda_plain_set_destroy(set);
  plain_free(&c);
}

static const check_test tests[] = {
    {"plain_pools", pools},
    {"plain_reductions", reductions},
    {"plain_reductions_of_many", reductions_of_many},
    {"plain_log_sum_exp_of_special_numbers", log_sum_exp_of_special_numbers},
    {"plain_softmax", softmax},
    {"plain_softmax_of_large_numbers", softmax_of_large_numbers},
    {"plain_matmul", matmul},
    {"plain_gemm", gemm},
    {"plain_norms", norms},
    {"plain_in_a_graph", in_a_graph},
};
const gpu_tests gpu_plain_sum_tests = {tests, CHECK_COUNT(tests)};
