/* SPDX-License-Identifier: Apache-2.0 */
// timeout: 300
/*
 * Random graphs of what decoders contain, with branches, skips and several outputs, against the
 * oracle: segments that end in the wrong place, memory that is used again too early, and strides
 * that are not respected all show here. Each failure names its seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "onnx_case.h"

enum { MOST_VALUES = 24, MOST_ELEMENTS = 6000 };

typedef struct node_value {
  int64_t shape[4];
} node_value;

typedef struct maker {
  onnx_build b;
  uint64_t seed;
  int count, constants;
  node_value value[MOST_VALUES];
} maker;

static int64_t pick(maker *m, int64_t low, int64_t high) {
  return check_random_range(&m->seed, low, high);
}

/* Text that lives until the eighth call after this one. */
static const char *text(const char *format, long long a, long long b, long long c, long long d) {
  static char ring[8][64];
  static int turn;
  turn = (turn + 1) % 8;
  snprintf(ring[turn], sizeof ring[turn], format, a, b, c, d);
  return ring[turn];
}

static const char *name_of(int value) { return text("v%lld", value, 0, 0, 0); }

static const char *constant(maker *m, const char *dims) {
  const char *name = text("k%lld", m->constants++, 0, 0, 0);
  onnx_random(&m->b, name, dims, check_random(&m->seed));
  return name;
}

/* Adds the operator's node; its attributes follow. The result is the next value. */
static void node(maker *m, const char *op, const char *inputs, int64_t n, int64_t c, int64_t h,
                 int64_t w) {
  m->value[m->count] = (node_value){{n, c, h, w}};
  onnx_node(&m->b, op, inputs, name_of(m->count++));
}

static void same_shape(maker *m, const char *op, const char *inputs, int from) {
  const int64_t *s = m->value[from].shape;
  node(m, op, inputs, s[0], s[1], s[2], s[3]);
}

/* "a,b" */
static const char *pair(const char *a, const char *b) {
  static char ring[4][140];
  static int turn;
  char joined[sizeof ring[0]]; /* a or b may lie in the ring */
  turn = (turn + 1) % 4;
  snprintf(joined, sizeof joined, "%s,%s", a, b);
  return memcpy(ring[turn], joined, sizeof joined);
}

/* ---- operators: each returns false when the value does not suit it ---- */

static bool add_transposed(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  int64_t group = s[1] % 2 == 0 ? pick(m, 1, 2) : 1, out = pick(m, 1, 3) * group;
  int64_t k = pick(m, 1, 4), stride = pick(m, 1, 3), pad = pick(m, 0, (k - 1) / 2);
  int64_t h = (s[2] - 1) * stride - 2 * pad + k, w = (s[3] - 1) * stride - 2 * pad + k;
  if (h < 1 || w < 1 || s[0] * out * h * w > MOST_ELEMENTS) return false;
  const char *weight = constant(m, text("%lld,%lld,%lld,%lld", s[1], out / group, k, k));
  node(m, "ConvTranspose", pair(name_of(from), weight), s[0], out, h, w);
  onnx_int(&m->b, "group", group);
  onnx_ints(&m->b, "strides", text("%lld,%lld", stride, stride, 0, 0));
  onnx_ints(&m->b, "pads", text("%lld,%lld,%lld,%lld", pad, pad, pad, pad));
  return true;
}

static bool add_conv(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  int64_t out = pick(m, 1, 4), k = pick(m, 1, 3), pad = pick(m, 0, 1), stride = pick(m, 1, 2);
  int64_t h = s[2] + 2 * pad - k, w = s[3] + 2 * pad - k;
  if (h < 0 || w < 0) return false;
  const char *weight = constant(m, text("%lld,%lld,%lld,%lld", out, s[1], k, k));
  node(m, "Conv", pair(name_of(from), weight), s[0], out, h / stride + 1, w / stride + 1);
  onnx_ints(&m->b, "strides", text("%lld,%lld", stride, stride, 0, 0));
  onnx_ints(&m->b, "pads", text("%lld,%lld,%lld,%lld", pad, pad, pad, pad));
  return true;
}

static bool add_unary(maker *m, int from) {
  static const char *const ops[] = {"Relu", "LeakyRelu", "Tanh",      "Sigmoid",
                                    "Abs",  "Neg",       "Elu",       "Softplus",
                                    "Mish", "Identity",  "HardSwish", "Softsign"};
  same_shape(m, ops[pick(m, 0, (int64_t)CHECK_COUNT(ops) - 1)], name_of(from), from);
  return true;
}

static bool add_parameter(maker *m, int from) {
  static const char *const ops[] = {"Add", "Mul", "Sub"};
  const int64_t *s = m->value[from].shape;
  const char *dims = pick(m, 0, 1) ? text("%lld,1,1", s[1], 0, 0, 0) : "1";
  const char *k = constant(m, dims);
  bool first = pick(m, 0, 1);
  same_shape(m, ops[pick(m, 0, 2)], first ? pair(k, name_of(from)) : pair(name_of(from), k), from);
  return true;
}

static bool add_two(maker *m, int from) {
  static const char *const ops[] = {"Add", "Mul", "Sub"};
  int other = (int)pick(m, 0, m->count - 1);
  const int64_t *a = m->value[from].shape, *b = m->value[other].shape;
  int64_t shape[4];
  for (int i = 0; i < 4; i++) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return false;
    shape[i] = a[i] == 1 ? b[i] : a[i];
  }
  node(m, ops[pick(m, 0, 2)], pair(name_of(from), name_of(other)), shape[0], shape[1], shape[2],
       shape[3]);
  return true;
}

static bool fits_beside(const int64_t *a, const int64_t *b, int axis) {
  for (int i = 0; i < 4; i++)
    if (i != axis && a[i] != b[i]) return false;
  return true;
}

static bool add_concat(maker *m, int from) {
  int other = (int)pick(m, 0, m->count - 1), axis = (int)pick(m, 1, 3), tries = 0;
  const int64_t *a = m->value[from].shape;
  int64_t shape[4];
  /* Few values fit: all are looked at. */
  while (tries < m->count && !fits_beside(a, m->value[other].shape, axis)) {
    other = (other + 1) % m->count;
    tries++;
  }
  if (tries == m->count) return false;
  memcpy(shape, a, sizeof shape);
  shape[axis] += m->value[other].shape[axis];
  if (shape[1] > 8 || shape[2] * shape[3] > 400) return false;
  node(m, "Concat", pair(name_of(from), name_of(other)), shape[0], shape[1], shape[2], shape[3]);
  onnx_int(&m->b, "axis", axis);
  return true;
}

/* PyTorch's and ONNX's size of a pooled axis; 0 where the window does not fit. */
static int64_t pooled(int64_t size, int64_t kernel, int64_t stride, int64_t begin, int64_t end,
                      bool up) {
  int64_t room = size + begin + end - kernel;
  if (room < 0) return 0;
  int64_t count = (room + (up ? stride - 1 : 0)) / stride + 1;
  return up && (count - 1) * stride >= size + begin ? count - 1 : count;
}

static bool add_pool(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  int64_t k = pick(m, 1, 3), stride = pick(m, 1, 3), begin = pick(m, 0, k - 1),
          end = pick(m, 0, k - 1);
  bool up = pick(m, 0, 1), average = pick(m, 0, 1);
  int64_t h = pooled(s[2], k, stride, begin, end, up), w = pooled(s[3], k, stride, begin, end, up);
  if (h < 1 || w < 1) return false;
  node(m, average ? "AveragePool" : "MaxPool", name_of(from), s[0], s[1], h, w);
  onnx_ints(&m->b, "kernel_shape", text("%lld,%lld", k, k, 0, 0));
  onnx_ints(&m->b, "strides", text("%lld,%lld", stride, stride, 0, 0));
  onnx_ints(&m->b, "pads", text("%lld,%lld,%lld,%lld", begin, begin, end, end));
  onnx_int(&m->b, "ceil_mode", up);
  if (average) onnx_int(&m->b, "count_include_pad", pick(m, 0, 1));
  return true;
}

static bool add_reduce(maker *m, int from) {
  static const char *const ops[] = {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"};
  const int64_t *s = m->value[from].shape;
  bool channels = pick(m, 0, 1);
  node(m, ops[pick(m, 0, channels ? 3 : 2)], name_of(from), s[0], channels ? 1 : s[1],
       channels ? s[2] : 1, channels ? s[3] : 1);
  onnx_ints(&m->b, "axes", channels ? "1" : "2,3");
  return true;
}

static bool add_softmax(maker *m, int from) {
  same_shape(m, pick(m, 0, 1) ? "Softmax" : "LogSoftmax", name_of(from), from);
  onnx_int(&m->b, "axis", pick(m, 1, 3));
  return true;
}

static bool add_transpose(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  if (s[1] > 8 || s[3] > 8) return false;
  node(m, "Transpose", name_of(from), s[0], s[3], s[2], s[1]);
  onnx_ints(&m->b, "perm", "0,3,2,1");
  return true;
}

/* Rows become channels: a view of a dense value, a copy of a transposed one. */
static bool add_reshape(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  const char *k = text("k%lld", m->constants++, 0, 0, 0);
  if (s[1] * s[2] > 8) return false;
  onnx_int64s(&m->b, k, text("%lld,%lld,1,%lld", s[0], s[1] * s[2], s[3], 0));
  node(m, "Reshape", pair(name_of(from), k), s[0], s[1] * s[2], 1, s[3]);
  return true;
}

static bool add_resize(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  if (s[0] * s[1] * s[2] * s[3] * 2 > MOST_ELEMENTS) return false;
  const char *k = text("k%lld", m->constants++, 0, 0, 0);
  onnx_floats(&m->b, k, "4", (const float[]){1, 1, 1, 2});
  node(m, "Resize", pair(name_of(from), pair("", k)), s[0], s[1], s[2], 2 * s[3]);
  onnx_string(&m->b, "coordinate_transformation_mode", "asymmetric");
  onnx_string(&m->b, "nearest_mode", "floor");
  return true;
}

/* All but the first channel, or every other row. */
static bool add_slice(maker *m, int from) {
  const int64_t *s = m->value[from].shape;
  bool channels = pick(m, 0, 1);
  const char *k[3];
  if (s[1] < 2) return false;
  for (int i = 0; i < 3; i++) {
    k[i] = text("k%lld", m->constants++, 0, 0, 0);
    onnx_int64s(&m->b, k[i],
                i == 0     ? (channels ? "1" : "0")
                : i == 1   ? "100"
                : channels ? "1"
                           : "2");
  }
  const char *inputs = pair(name_of(from), pair(k[0], pair(k[1], k[2])));
  if (channels) {
    node(m, "Slice", inputs, s[0], s[1] - 1, s[2], s[3]);
  } else {
    const char *two = text("k%lld", m->constants++, 0, 0, 0);
    onnx_int64s(&m->b, two, "2");
    node(m, "Slice", pair(inputs, two), s[0], s[1], (s[2] + 1) / 2, s[3]);
  }
  return true;
}

static bool add_one(maker *m) {
  static bool (*const adders[])(maker *, int) = {
      add_transposed, add_transposed, add_conv,      add_conv,      add_unary,   add_unary,
      add_unary,      add_parameter,  add_parameter, add_two,       add_two,     add_concat,
      add_concat,     add_concat,     add_pool,      add_reduce,    add_softmax, add_resize,
      add_slice,      add_slice,      add_transpose, add_transpose, add_reshape, add_reshape,
  };
  /* Recent values are read more often than old ones. */
  int from = (int)pick(m, 0, 2) ? m->count - 1 : (int)pick(m, 0, m->count - 1);
  return adders[pick(m, 0, (int64_t)CHECK_COUNT(adders) - 1)](m, from);
}

static onnx_build make_graph(uint64_t seed) {
  maker m = {.seed = seed, .b = onnx_begin(12)};
  int wanted = (int)pick(&m, 2, MOST_VALUES);
  m.value[0] = (node_value){{pick(&m, 1, 2), pick(&m, 1, 4), pick(&m, 1, 6), pick(&m, 1, 6)}};
  const int64_t *s = m.value[0].shape;
  onnx_input(&m.b, "v0", ONNX_FLOAT, text("%lld,%lld,%lld,%lld", s[0], s[1], s[2], s[3]));
  m.count = 1;
  while (m.count < wanted) (void)add_one(&m);
  onnx_output(&m.b, name_of(m.count - 1));
  for (int64_t more = pick(&m, 0, 2); more > 0; more--)
    onnx_output(&m.b, name_of((int)pick(&m, 0, m.count - 1)));
  return m.b;
}

static void graphs(void) {
  int segments = 0, plain = 0, fused = 0, tried = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    onnx_build b = make_graph(seed);
    onnx_case c;
    int s, p;
    check_context("seed %llu", (unsigned long long)seed);
    if (onnx_case_open(&c, &b, 1, NULL) &&
        CHECK_STATUS(uc_onnx_step_counts(c.session, c.input, c.input_count, &s, &p), UPCONV_OK)) {
      tried++;
      segments += s;
      plain += p;
      fused += strstr(c.text, " | ") != NULL;
      if (!onnx_case_run(&c) || !onnx_case_run_plain(&c)) printf("%s", c.text);
    }
    onnx_case_close(&c);
  }
  check_context(NULL);
  printf("     %d graphs: %d segments, %d plain steps, %d with an epilogue\n", tried, segments,
         plain, fused);
  CHECK(tried == 400 && segments > 400 && plain > 500 && fused > 120);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {{"graphs", graphs}};
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
