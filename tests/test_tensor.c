/* SPDX-License-Identifier: Apache-2.0 */
/* Element conversion, exhaustively over 16-bit patterns and over the borders of rounding; views. */
// labels: valgrind
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "status.h"
#include "tensor.h"
#include "upconv/upconv.h"

enum { PATTERNS = 1 << 16, SIGN = 0x8000 };

/* ---- two 16-bit formats, decoded by arithmetic ---- */

typedef struct format {
  const char *name;
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*from_f32)(float);
  uint16_t (*from_f64)(double);
} format;

static const format formats[] = {
    {"f16", 5, 10, uc_f16_to_f32, uc_f32_to_f16, uc_f64_to_f16},
    {"bf16", 8, 7, uc_bf16_to_f32, uc_f32_to_bf16, uc_f64_to_bf16},
};

static uint16_t infinity_of(const format *f) {
  return (uint16_t)(((1 << f->exponent_bits) - 1) << f->mantissa_bits);
}

/* The value that a pattern stands for, from the definition of the format. */
static double decode(const format *f, uint16_t bits) {
  int special = (1 << f->exponent_bits) - 1, bias = special / 2;
  int exponent = bits >> f->mantissa_bits & special;
  int mantissa = bits & ((1 << f->mantissa_bits) - 1);
  double sign = bits & SIGN ? -1 : 1;
  if (exponent == special) return mantissa ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - f->mantissa_bits);
  return sign * ldexp(mantissa + (1 << f->mantissa_bits), exponent - bias - f->mantissa_bits);
}

static bool is_nan_pattern(const format *f, uint16_t bits) {
  return (bits & ~SIGN) > infinity_of(f);
}

static void widens_every_pattern(void) {
  for (size_t n = 0; n < CHECK_COUNT(formats); n++) {
    const format *f = &formats[n];
    for (int i = 0; i < PATTERNS; i++) {
      uint16_t bits = (uint16_t)i;
      double wanted = decode(f, bits), got = (double)f->widen(bits);
      bool same =
          isnan(wanted) ? isnan(got) != 0 : got == wanted && !signbit(got) == !signbit(wanted);
      CHECK_MSG(same, "%s 0x%04x is %a, not %a", f->name, bits, got, wanted);
      bool back = isnan(wanted) ? is_nan_pattern(f, f->from_f32(f->widen(bits)))
                                : f->from_f32(f->widen(bits)) == bits;
      CHECK_MSG(back, "%s 0x%04x does not come back from f32", f->name, bits);
      if (!isnan(wanted))
        CHECK_MSG(f->from_f64(wanted) == bits, "%s 0x%04x from f64", f->name, bits);
    }
  }
}

static void narrows_to(const format *f, double value, uint16_t wanted) {
  uint16_t got = f->from_f64(value);
  CHECK_MSG(got == wanted, "%s of %a is 0x%04x, not 0x%04x", f->name, value, got, wanted);
  got = f->from_f64(-value);
  wanted |= SIGN;
  CHECK_MSG(got == wanted, "%s of -%a is 0x%04x, not 0x%04x", f->name, value, got, wanted);
  if ((double)(float)value != value) return;
  got = f->from_f32((float)-value);
  CHECK_MSG(got == wanted, "%s of f32 -%a is 0x%04x, not 0x%04x", f->name, value, got, wanted);
}

/* Between each two neighbours: the lower one, just above it, just below the middle, the middle (to
   even), just above it, just below the upper one. Behind the largest number comes infinity, where
   the next binade would begin. */
static void rounds_to_nearest_even(void) {
  for (size_t n = 0; n < CHECK_COUNT(formats); n++) {
    const format *f = &formats[n];
    double beyond = ldexp(1, (1 << (f->exponent_bits - 1)));
    for (uint16_t low = 0; low < infinity_of(f); low++) {
      uint16_t high = (uint16_t)(low + 1);
      double a = decode(f, low), b = high == infinity_of(f) ? beyond : decode(f, high);
      double middle = a + (b - a) / 2;
      narrows_to(f, a, low);
      narrows_to(f, nextafter(a, b), low);
      narrows_to(f, nextafter(middle, a), low);
      narrows_to(f, middle, low & 1 ? high : low);
      narrows_to(f, nextafter(middle, b), high);
      narrows_to(f, nextafter(b, a), high);
      narrows_to(f, (double)nextafterf((float)middle, (float)a), low);
    }
  }
}

static void rounds_extremes(void) {
  for (size_t n = 0; n < CHECK_COUNT(formats); n++) {
    const format *f = &formats[n];
    narrows_to(f, 0, 0);
    narrows_to(f, 5e-324, 0);
    narrows_to(f, 2.2250738585072014e-308, 0);
    narrows_to(f, 1.7976931348623157e308, infinity_of(f));
    narrows_to(f, (double)INFINITY, infinity_of(f));
    double nans[] = {(double)NAN, -(double)NAN, 0};
    uint64_t signalling = UINT64_C(0x7ff0000000000001);
    memcpy(&nans[2], &signalling, sizeof signalling);
    for (size_t i = 0; i < CHECK_COUNT(nans); i++) {
      CHECK(is_nan_pattern(f, f->from_f64(nans[i])));
      CHECK(is_nan_pattern(f, f->from_f32((float)nans[i])));
    }
    CHECK_INT(f->from_f64(-(double)NAN) & SIGN, SIGN);
  }
}

/* The nearest of all finite values, found by search, for numbers of any size. */
static void rounds_random_numbers(void) {
  uint64_t seed = 1;
  for (size_t n = 0; n < CHECK_COUNT(formats); n++) {
    const format *f = &formats[n];
    for (int i = 0; i < 20000; i++) {
      double value = ldexp(1 + check_random_unit(&seed), (int)check_random_range(&seed, -150, 129));
      int low = 0, high = infinity_of(f);
      while (high - low > 1) {
        int middle = (low + high) / 2;
        if (decode(f, (uint16_t)middle) <= value)
          low = middle;
        else
          high = middle;
      }
      double a = decode(f, (uint16_t)low);
      double b = high == infinity_of(f) ? ldexp(1, 1 << (f->exponent_bits - 1))
                                        : decode(f, (uint16_t)high);
      if (value >= b)
        narrows_to(f, value, infinity_of(f));
      else if (value - a != b - value)
        narrows_to(f, value, (uint16_t)(value - a < b - value ? low : high));
    }
  }
}

/* ---- load and store ---- */

static void loads_and_stores_unaligned(void) {
  static const upconv_dtype dtypes[] = {UPCONV_F32, UPCONV_F16, UPCONV_BF16};
  for (size_t n = 0; n < CHECK_COUNT(dtypes); n++) {
    size_t size = upconv_dtype_size(dtypes[n]);
    unsigned char *data = check_alloc(5 * size, 1);
    for (int64_t i = 0; i < 5; i++) uc_store(data + 2 * size, dtypes[n], i - 2, 1.5 - (double)i);
    for (int64_t i = 0; i < 5; i++) CHECK_NEAR(uc_load(data, dtypes[n], i), 1.5 - (double)i, 0);
    CHECK_FREE(data);
  }
}

static void store_rounds_once(void) {
  uint16_t bits = 0;
  /* In float32 this is a tie between two neighbours, which would go to the even, lower one. */
  double value = 1 + 0x1p-11 + 0x1p-40;
  uc_store(&bits, UPCONV_F16, 0, value);
  CHECK_INT(bits, 0x3c01);
  uc_store(&bits, UPCONV_BF16, 0, 1 + 0x1p-8 + 0x1p-40);
  CHECK_INT(bits, 0x3f81);
  float f32 = 0;
  uc_store(&f32, UPCONV_F32, 0, 0.1);
  CHECK(f32 == 0.1f);
}

static void names_and_sizes(void) {
  CHECK_STR(upconv_dtype_name(UPCONV_F32), "f32");
  CHECK_STR(upconv_dtype_name(UPCONV_F16), "f16");
  CHECK_STR(upconv_dtype_name(UPCONV_BF16), "bf16");
  CHECK_INT(upconv_dtype_size(UPCONV_F32), 4);
  CHECK_INT(upconv_dtype_size(UPCONV_F16), 2);
  CHECK_INT(upconv_dtype_size(UPCONV_BF16), 2);
  CHECK_INT(upconv_dtype_size((upconv_dtype)77), 0);
}

/* ---- views ---- */

static void check_strides(int rank, upconv_layout layout, const int64_t *wanted) {
  static const int64_t shape[UPCONV_MAX_RANK] = {2, 3, 4, 5, 6};
  char data;
  upconv_tensor t = upconv_tensor_dense(&data, UPCONV_F16, rank, shape, layout);
  check_context("rank %d, layout %d", rank, (int)layout);
  CHECK(t.data == &data && t.dtype == UPCONV_F16);
  CHECK_INT(t.rank, rank);
  for (int i = 0; i < rank; i++) {
    CHECK_INT(t.shape[i], shape[i]);
    CHECK_INT(t.stride[i], wanted[i]);
    CHECK_INT(t.offset[i], 0);
  }
}

static void dense_strides(void) {
  check_strides(0, UPCONV_CHANNELS_FIRST, NULL);
  check_strides(1, UPCONV_CHANNELS_LAST, (const int64_t[]){1});
  check_strides(2, UPCONV_CHANNELS_LAST, (const int64_t[]){3, 1});
  check_strides(3, UPCONV_CHANNELS_FIRST, (const int64_t[]){12, 4, 1});
  check_strides(3, UPCONV_CHANNELS_LAST, (const int64_t[]){12, 1, 3});
  check_strides(4, UPCONV_CHANNELS_FIRST, (const int64_t[]){60, 20, 5, 1});
  check_strides(4, UPCONV_CHANNELS_LAST, (const int64_t[]){60, 1, 15, 3});
  check_strides(5, UPCONV_CHANNELS_FIRST, (const int64_t[]){360, 120, 30, 6, 1});
  check_strides(5, UPCONV_CHANNELS_LAST, (const int64_t[]){360, 1, 90, 18, 3});
}

static void dense_of_empty_and_huge(void) {
  const int64_t empty[] = {2, 0, 4}, huge[] = {1, INT64_MAX / 2, 8};
  upconv_tensor t = upconv_tensor_dense(NULL, UPCONV_F32, 3, empty, UPCONV_CHANNELS_FIRST), out;
  CHECK_INT(t.stride[0], 4);
  CHECK_INT(t.stride[1], 4);
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &out), UPCONV_OK);
  char data;
  t = upconv_tensor_dense(&data, UPCONV_F32, 3, huge, UPCONV_CHANNELS_FIRST);
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &out), UPCONV_OVERFLOW);
  t = upconv_tensor_dense(&data, UPCONV_F32, 9, huge, UPCONV_CHANNELS_FIRST);
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &out), UPCONV_INVALID_ARGUMENT);
}

static void canonical_is_right_aligned(void) {
  static const int64_t shape[] = {2, 3, 4, 5, 6};
  char data;
  for (int nd = 1; nd <= 3; nd++) {
    upconv_tensor t = upconv_tensor_dense(&data, UPCONV_F32, nd + 2, shape, UPCONV_CHANNELS_FIRST),
                  c;
    for (int i = 0; i < nd + 2; i++) t.offset[i] = 10 + i;
    CHECK_STATUS(uc_tensor_canonical(&t, "x", nd, &c), UPCONV_OK);
    CHECK_INT(c.rank, UC_RANK);
    for (int i = 0; i < UC_RANK; i++) {
      int from = i < 2 ? i : i - (3 - nd);
      bool real = i < 2 || from >= 2;
      CHECK_INT(c.shape[i], real ? t.shape[from] : 1);
      CHECK_INT(c.stride[i], real ? t.stride[from] : 0);
      CHECK_INT(c.offset[i], real ? t.offset[from] : 0);
    }
  }
}

static void canonical_refuses(void) {
  static const int64_t shape[] = {2, 3, 4};
  char data;
  const upconv_tensor good =
      upconv_tensor_dense(&data, UPCONV_F32, 3, shape, UPCONV_CHANNELS_FIRST);
  upconv_tensor t = good, c = {.rank = -7};
  t.shape[2] = -1;
  CHECK_STATUS(uc_tensor_canonical(&t, "the x", 1, &c), UPCONV_INVALID_ARGUMENT);
  CHECK(strstr(upconv_last_error(), "the x") && strstr(upconv_last_error(), "-1"));
  t = good;
  t.offset[1] = -3;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_INVALID_ARGUMENT);
  t = good;
  t.data = NULL;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_INVALID_ARGUMENT);
  t = good;
  t.dtype = (upconv_dtype)9;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_UNSUPPORTED);
  t = good;
  t.offset[0] = INT64_MAX;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_OVERFLOW);
  t = good;
  t.stride[0] = INT64_MIN / 8 - 1;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_OVERFLOW);
  t.stride[0] = INT64_MIN / 8;
  CHECK_STATUS(uc_tensor_canonical(&t, "x", 1, &c), UPCONV_OK);
  c.rank = -7;
  CHECK_STATUS(uc_tensor_canonical(&good, "x", 2, &c), UPCONV_INVALID_ARGUMENT);
  CHECK_INT(c.rank, -7);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"widens_every_pattern", widens_every_pattern},
      {"rounds_to_nearest_even", rounds_to_nearest_even},
      {"rounds_extremes", rounds_extremes},
      {"rounds_random_numbers", rounds_random_numbers},
      {"loads_and_stores_unaligned", loads_and_stores_unaligned},
      {"store_rounds_once", store_rounds_once},
      {"names_and_sizes", names_and_sizes},
      {"dense_strides", dense_strides},
      {"dense_of_empty_and_huge", dense_of_empty_and_huge},
      {"canonical_is_right_aligned", canonical_is_right_aligned},
      {"canonical_refuses", canonical_refuses},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
