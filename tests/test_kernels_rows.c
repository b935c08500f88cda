/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that reduce: rows into rows, rows into numbers, channels, and the convolution, for every
 * instruction set that this machine runs, against plain loops.
 */
// labels: valgrind

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/isa.h"
#include "edge.h"

static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 100, 257};

static size_t padded(int64_t n) { return (size_t)((n + UC_PAD - 1) / UC_PAD * UC_PAD); }

/* Two NaNs are equal whatever their payload. */
static bool same_bits(float a, float b) {
  return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static float random_float(uint64_t *seed) { return (float)(check_random_unit(seed) * 20 - 10); }

/* Every fourth or so is NaN, an infinity or a zero. */
static float random_special(uint64_t *seed) {
  static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
  int64_t i = check_random_range(seed, 0, 19);
  return i < 5 ? special[i] : random_float(seed);
}

static void fill(float *x, int64_t n, bool special, uint64_t *seed) {
  for (int64_t i = 0; i < n; i++) x[i] = special ? random_special(seed) : random_float(seed);
}

/* ---- formulas ---- */

typedef float (*pair_formula)(float a, float b);

static float larger(float a, float b) { return a != a || b != b ? NAN : a > b ? a : b; }
static float smaller(float a, float b) { return a != a || b != b ? NAN : a < b ? a : b; }
static float sum(float a, float b) { return a + b; }

/* max(0, -0) may be either. */
static bool same_number(float a, float b) { return a == b || same_bits(a, b); }

/* ---- accumulate ---- */

typedef void (*accumulate)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                           int64_t stride, int64_t n, bool first);

static void check_accumulate(accumulate kernel, pair_formula formula, const char *name,
                             int64_t stride, int64_t n, int64_t taps, bool first) {
  uint64_t seed = (uint64_t)(n * 100 + stride);
  static const int64_t tap[] = {3, 0, 5};
  size_t src_floats = (stride == 1 ? padded(n) : (size_t)((n - 1) * stride + 1)) + 5;
  float *src = edge_alloc(src_floats * sizeof *src);
  float *dst = check_alloc(padded(n) * sizeof *dst, 0),
        *wanted = malloc((size_t)n * sizeof *wanted);
  fill(src, (int64_t)src_floats, true, &seed);
  fill(dst, (int64_t)padded(n), true, &seed);
  for (int64_t i = 0; i < n; i++) {
    wanted[i] = first ? src[tap[0] + i * stride] : formula(dst[i], src[tap[0] + i * stride]);
    for (int64_t t = 1; t < taps; t++) wanted[i] = formula(wanted[i], src[tap[t] + i * stride]);
  }
  kernel(dst, src, tap, taps, stride, n, first);
  for (int64_t i = 0; i < n; i++)
    CHECK_MSG(same_number(dst[i], wanted[i]), "%s, stride %d: element %d of %d is %g, not %g", name,
              (int)stride, (int)i, (int)n, (double)dst[i], (double)wanted[i]);
  free(wanted);
  CHECK_FREE(dst);
  edge_free(src, src_floats * sizeof *src);
}

static void accumulating(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t stride = 1; stride <= 5; stride++)
      for (size_t l = 0; l < CHECK_COUNT(lengths); l++)
        for (int64_t taps = 1; taps <= 3; taps++) {
          bool first = taps % 2 == 1;
          check_accumulate(isa->accumulate_max, larger, isa->name, stride, lengths[l], taps, first);
          check_accumulate(isa->accumulate_min, smaller, isa->name, stride, lengths[l], taps,
                           !first);
          check_accumulate(isa->accumulate_add, sum, isa->name, stride, lengths[l], taps, first);
          check_accumulate(isa->accumulate_add, sum, isa->name, stride, lengths[l], taps, !first);
        }
}

/* ---- a row into a number ---- */

/* The order that isa.h promises: 16 lanes, then a tree. */
static double sum_of_row(const float *x, int64_t n) {
  enum { LANES = 16 };
  double lane[LANES] = {0};
  for (int64_t i = 0; i < n; i++) lane[i % LANES] += (double)x[i];
  for (int step = LANES / 2; step; step /= 2)
    for (int j = 0; j < step; j++) lane[j] += lane[j + step];
  return lane[0];
}

static float extreme_of_row(const float *x, int64_t n, pair_formula formula, float identity) {
  for (int64_t i = 0; i < n; i++) identity = formula(identity, x[i]);
  return identity;
}

static void check_row(const uc_isa *isa, const float *x, int64_t n) {
  check_context("%s, n %d", isa->name, (int)n);
  double right = sum_of_row(x, n), got = isa->row_sum(x, n);
  CHECK(got == right || (got != got && right != right));
  CHECK(same_number(isa->row_max(x, n), extreme_of_row(x, n, larger, -INFINITY)));
  CHECK(same_number(isa->row_min(x, n), extreme_of_row(x, n, smaller, INFINITY)));
}

static void rows_into_numbers(void) {
  uint64_t seed = 4;
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t n = 0; n <= 100; n++) {
      float *x = edge_alloc((size_t)n * sizeof *x);
      fill(x, n, false, &seed);
      check_row(isa, x, n);
      static const float special[] = {NAN, INFINITY, -INFINITY};
      for (int64_t at = 0; at < n; at++)
        for (int s = 0; s < 3; s++) {
          float kept = x[at];
          x[at] = special[s];
          check_row(isa, x, n);
          x[at] = kept;
        }
      edge_free(x, (size_t)n * sizeof *x);
    }
}

/* ---- channels ---- */

/* One position: the exact results, and a bound for float32 arithmetic in channel order. */
typedef struct column {
  int64_t channels;
  const double *x;
  double max, min, sum, magnitude, exp_sum;
} column;

static column column_of(const double *x, int64_t channels) {
  column c = {channels, x, -INFINITY, INFINITY, 0, 0, 0};
  bool nan = false;
  for (int64_t i = 0; i < channels; i++) {
    nan = nan || isnan(x[i]);
    c.max = fmax(c.max, x[i]);
    c.min = fmin(c.min, x[i]);
    c.sum += x[i];
    c.magnitude += fabs(x[i]);
  }
  if (nan) c.max = c.min = NAN;
  for (int64_t i = 0; i < channels; i++) c.exp_sum += exp(x[i] - c.max);
  return c;
}

static double right_of(upconv_op_kind kind, const column *c, int64_t channel, double *bound) {
  const double u = 0x1p-24;
  double roundings = (double)c->channels + 8, away = c->x[channel] - c->max;
  switch ((int)kind) {
  case UPCONV_OP_SOFTMAX:
    *bound = exp(away) / c->exp_sum * u * (2 * roundings + fmin(fabs(away), 110)) + 0x1p-149;
    return exp(away) / c->exp_sum;
  case UPCONV_OP_LOG_SOFTMAX:
    *bound = u * (roundings + 2 * fabs(away) + 4 * log(c->exp_sum));
    return away - log(c->exp_sum);
  case UPCONV_OP_LOGSUMEXP:
    *bound = u * (2 * roundings + fabs(c->max) + 4 * log(c->exp_sum));
    return isinf(c->max) ? c->max : c->max + log(c->exp_sum);
  case UPCONV_OP_SUM:
    *bound = u * roundings * c->magnitude;
    return c->sum;
  case UPCONV_OP_MEAN:
    *bound = u * roundings * c->magnitude / (double)c->channels;
    return c->sum / (double)c->channels;
  case UPCONV_OP_MAX:
    *bound = 0;
    return c->max;
  default:
    *bound = 0;
    return c->min;
  }
}

static bool keeps_channels(upconv_op_kind kind) {
  return kind == UPCONV_OP_SOFTMAX || kind == UPCONV_OP_LOG_SOFTMAX;
}

static bool is_close(double got, double right, double bound) {
  if (isnan(right) || isinf(right)) return isnan(right) ? isnan(got) : got == right;
  return fabs(got - right) <= bound;
}

static void check_channels(const uc_isa *isa, upconv_op_kind kind, int64_t channels, int64_t n,
                           bool special) {
  uint64_t seed = (uint64_t)(channels * 1000 + n);
  int64_t src_stride = (int64_t)padded(n) + 16, dst_stride = (int64_t)padded(n) + 32;
  int64_t results = keeps_channels(kind) ? channels : 1;
  size_t row = padded(n), src_floats = (size_t)((channels - 1) * src_stride) + row;
  float *src = edge_alloc(src_floats * sizeof *src);
  float *dst = check_alloc(((size_t)((results - 1) * dst_stride) + row) * sizeof *dst, 0);
  float *scratch = check_alloc(2 * row * sizeof *scratch, 0);
  double *x = malloc((size_t)channels * sizeof *x);
  fill(src, (int64_t)src_floats, special, &seed);
  isa->channels(kind, dst, dst_stride, src, src_stride, channels, n, scratch);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t c = 0; c < channels; c++) x[c] = (double)src[c * src_stride + i];
    column all = column_of(x, channels);
    for (int64_t c = 0; c < results; c++) {
      double bound, right = right_of(kind, &all, c, &bound), got = (double)dst[c * dst_stride + i];
      CHECK_MSG(is_close(got, right, bound), "channel %d of position %d is %.9g, not %.9g", (int)c,
                (int)i, got, right);
    }
  }
  free(x);
  CHECK_FREE(scratch);
  CHECK_FREE(dst);
  edge_free(src, src_floats * sizeof *src);
}

static void channels(void) {
  static const upconv_op_kind kinds[] = {
      UPCONV_OP_SOFTMAX, UPCONV_OP_LOG_SOFTMAX, UPCONV_OP_LOGSUMEXP, UPCONV_OP_SUM,
      UPCONV_OP_MEAN,    UPCONV_OP_MAX,         UPCONV_OP_MIN};
  static const int64_t counts[] = {1, 2, 3, 16, 33};
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t kind = 0; kind < CHECK_COUNT(kinds); kind++)
      for (size_t c = 0; c < CHECK_COUNT(counts); c++)
        for (size_t l = 0; l < CHECK_COUNT(lengths); l++)
          for (int special = 0; special < 2; special++) {
            check_context("%s, kind %d, %d channels, n %d, special %d", isa->name, (int)kinds[kind],
                          (int)counts[c], (int)lengths[l], special);
            check_channels(isa, kinds[kind], counts[c], lengths[l], special);
          }
}

/* ---- the convolution ---- */

enum { MAX_TAPS = 5, MAX_CHANNELS = 9, MAX_SPAN = 40 };

typedef struct conv_case {
  int mc;
  int64_t taps, channels, n;
  bool first, bias, pools;
} conv_case;

/* The definition, in float64; *magnitude is the sum of the terms without their signs. */
static double conv_at(const uc_conv_block *b, const float *before, int m, int64_t i,
                      double *magnitude) {
  double old = (double)before[m * b->dst_stride + i], value = b->first || b->least ? 0 : old;
  *magnitude = fabs(value);
  for (int64_t t = 0; t < b->taps; t++)
    for (int64_t e = 0; e < b->channels; e++) {
      double w = (double)b->weight[(b->weight_row[t] + e) * b->mc + m];
      double term = w * (double)b->x[b->offset[t] + e * b->x_stride + i];
      value += term;
      *magnitude += fabs(term);
    }
  if (b->bias) *magnitude += fabs((double)b->bias[m]);
  if (b->bias) value += (double)b->bias[m];
  if (!b->least || b->first) return value;
  return b->least[m] ? fmin(old, value) : fmax(old, value);
}

static void check_conv_values(const uc_isa *isa, const uc_conv_block *b, const float *before) {
  for (int m = 0; m < b->mc; m++)
    for (int64_t i = 0; i < b->n; i++) {
      double magnitude, right = conv_at(b, before, m, i, &magnitude);
      double bound = 0x1p-24 * (double)(b->taps * b->channels + 2) * magnitude;
      float got = b->dst[m * b->dst_stride + i];
      CHECK_MSG(fabs((double)got - right) <= bound, "%s: channel %d, position %d is %.9g, not %.9g",
                isa->name, m, (int)i, (double)got, right);
    }
}

/* Position i of a run that starts `shift` later has the bits of position i + shift. */
static void check_conv_shift(const uc_isa *isa, const uc_conv_block *b, const float *before) {
  size_t floats = (size_t)b->mc * (size_t)b->dst_stride;
  for (int64_t shift = 1; shift < b->n && shift < 20; shift++) {
    float *dst = check_alloc(floats * sizeof *dst, 0);
    for (int m = 0; m < b->mc; m++)
      memcpy(dst + m * b->dst_stride, before + m * b->dst_stride + shift,
             (size_t)(b->n - shift) * sizeof *dst);
    uc_conv_block later = *b;
    later.x += shift;
    later.n -= shift;
    later.dst = dst;
    isa->conv(&later);
    for (int m = 0; m < b->mc; m++)
      CHECK_MSG(memcmp(dst + m * b->dst_stride, b->dst + m * b->dst_stride + shift,
                       (size_t)later.n * sizeof *dst) == 0,
                "%s: channel %d, shifted by %d", isa->name, m, (int)shift);
    CHECK_FREE(dst);
  }
}

static void check_conv(const uc_isa *isa, conv_case c) {
  uint64_t seed = (uint64_t)(c.mc * 1000 + c.n);
  int64_t offset[MAX_TAPS], weight_row[MAX_TAPS], x_stride = c.n + MAX_SPAN;
  for (int64_t t = 0; t < c.taps; t++) {
    offset[t] = check_random_range(&seed, 0, MAX_SPAN);
    weight_row[t] = check_random_range(&seed, 0, MAX_TAPS - 1) * MAX_CHANNELS;
  }
  size_t x_floats = (size_t)(MAX_CHANNELS * x_stride) + UC_PAD + MAX_SPAN;
  float weight[MAX_TAPS * MAX_CHANNELS * UC_MAX_MC], bias[UC_MAX_MC];
  bool least[UC_MAX_MC];
  for (int m = 0; m < UC_MAX_MC; m++) least[m] = check_random_range(&seed, 0, 1);
  float *x = edge_alloc(x_floats * sizeof *x);
  size_t row = padded(c.n), dst_floats = row * (size_t)c.mc;
  float *dst = check_alloc(dst_floats * sizeof *dst, 0);
  float *before = malloc(dst_floats * sizeof *before);
  fill(x, (int64_t)x_floats, false, &seed);
  fill(weight, MAX_TAPS * MAX_CHANNELS * UC_MAX_MC, false, &seed);
  fill(bias, UC_MAX_MC, false, &seed);
  fill(dst, (int64_t)dst_floats, false, &seed);
  memcpy(before, dst, dst_floats * sizeof *dst);
  uc_conv_block b = {.mc = c.mc,
                     .taps = c.taps,
                     .channels = c.channels,
                     .offset = offset,
                     .weight_row = weight_row,
                     .weight = weight,
                     .x = x,
                     .x_stride = x_stride,
                     .first = c.first,
                     .bias = c.bias ? bias : NULL,
                     .least = c.pools ? least : NULL,
                     .dst = dst,
                     .dst_stride = (int64_t)row,
                     .n = c.n};
  isa->conv(&b);
  check_conv_values(isa, &b, before);
  check_conv_shift(isa, &b, before);
  free(before);
  CHECK_FREE(dst);
  edge_free(x, x_floats * sizeof *x);
}

static void convolution(void) {
  static const int64_t sizes[] = {1, 7, 16, 33, 100, 131};
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int mc = 1; mc <= UC_MAX_MC; mc++)
      for (size_t n = 0; n < CHECK_COUNT(sizes); n++)
        for (int way = 0; way < 8; way++) {
          bool first = way & 1, bias = way & 2, pools = way & 4;
          check_conv(isa, (conv_case){mc, 0, 1, sizes[n], first, bias, pools});
          check_conv(isa, (conv_case){mc, 1, 1, sizes[n], first, bias, pools});
          check_conv(isa, (conv_case){mc, 3, 4, sizes[n], first, bias, pools});
          check_conv(isa, (conv_case){mc, MAX_TAPS, MAX_CHANNELS, sizes[n], first, bias, pools});
        }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"accumulating", accumulating},
      {"rows_into_numbers", rows_into_numbers},
      {"channels", channels},
      {"convolution", convolution},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
