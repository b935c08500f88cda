/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <string.h>

#include "checked.h"
#include "status.h"

size_t upconv_dtype_size(upconv_dtype dtype) {
  switch (dtype) {
  case UPCONV_F32:
    return 4;
  case UPCONV_F16:
  case UPCONV_BF16:
    return 2;
  }
  return 0;
}

const char *upconv_dtype_name(upconv_dtype dtype) {
  switch (dtype) {
  case UPCONV_F32:
    return "f32";
  case UPCONV_F16:
    return "f16";
  case UPCONV_BF16:
    return "bf16";
  }
  return "unknown";
}

/* ---- views ---- */

/* There is no way to report an error here: an impossible rank is kept, and a stride that does not
   fit becomes INT64_MAX; uc_tensor_canonical refuses both. */
upconv_tensor upconv_tensor_dense(void *data, upconv_dtype dtype, int rank, const int64_t *shape,
                                  upconv_layout layout) {
  upconv_tensor tensor = {.data = data, .dtype = dtype, .rank = rank};
  if (rank < 0 || rank > UPCONV_MAX_RANK) return tensor;
  bool channels_last = layout == UPCONV_CHANNELS_LAST && rank >= 3;
  int64_t stride = 1;
  for (int i = 0; i < rank; i++) {
    /* Innermost first: W ... D, C, N; or C, W ... D, N. */
    int axis = rank - 1 - i;
    if (channels_last && i < rank - 1) axis = i == 0 ? 1 : rank - i;
    tensor.shape[axis] = shape[axis];
    tensor.stride[axis] = stride;
    /* An empty axis counts as 1, so that the strides of an empty tensor are sensible too. */
    if (!uc_mul(stride, uc_max(shape[axis], 1), &stride)) stride = INT64_MAX;
  }
  return tensor;
}

/* Whether all element offsets, in bytes of the widest type, fit int64_t. */
static bool reach_fits(const upconv_tensor *tensor) {
  enum { WIDEST = 8 };
  int64_t low = 0, high = 0, step, unused;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] == 0) return true;
    if (!uc_mul(tensor->shape[i] - 1, tensor->stride[i], &step)) return false;
    if (!uc_add(step < 0 ? low : high, step, step < 0 ? &low : &high)) return false;
  }
  return uc_mul(low, WIDEST, &unused) && uc_mul(high, WIDEST, &unused);
}

static upconv_status check_view(const upconv_tensor *tensor, const char *name, int rank) {
  if (!upconv_dtype_size(tensor->dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "%s: dtype is %d; allowed: f32, f16, bf16", name,
                   (int)tensor->dtype);
  if (tensor->rank != rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: rank is %d; the problem needs %d (N, C, spatial)",
                   name, tensor->rank, rank);
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    int64_t end;
    if (tensor->shape[i] < 0 || tensor->offset[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: %s[%d] is %lld; it must not be negative", name,
                     tensor->shape[i] < 0 ? "shape" : "offset", i,
                     (long long)uc_min(tensor->shape[i], tensor->offset[i]));
    if (!uc_add(tensor->shape[i], tensor->offset[i], &end))
      return uc_fail(UPCONV_OVERFLOW, "%s: offset[%d] + shape[%d] does not fit 64 bits", name, i,
                     i);
    empty = empty || tensor->shape[i] == 0;
  }
  if (!empty && !tensor->data)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: data is NULL and the tensor is not empty", name);
  if (!reach_fits(tensor))
    return uc_fail(UPCONV_OVERFLOW, "%s: shape times stride does not fit 64 bits", name);
  return UPCONV_OK;
}

upconv_status uc_tensor_canonical(const upconv_tensor *tensor, const char *name, int nd,
                                  upconv_tensor *canonical) {
  upconv_status status = check_view(tensor, name, nd + 2);
  if (status) return status;
  upconv_tensor result = {.data = tensor->data, .dtype = tensor->dtype, .rank = UC_RANK};
  for (int i = 0; i < UC_RANK; i++) {
    int from = i < 2 ? i : i - (UC_AXES - nd);
    bool real = i < 2 || from >= 2;
    result.shape[i] = real ? tensor->shape[from] : 1;
    result.stride[i] = real ? tensor->stride[from] : 0;
    result.offset[i] = real ? tensor->offset[from] : 0;
  }
  *canonical = result;
  return UPCONV_OK;
}

/* ---- element conversion ---- */

/* A 16-bit format: sign, exponent, mantissa. */
typedef struct half_format {
  int exponent_bits, mantissa_bits;
} half_format;

static const half_format f16_format = {5, 10};
static const half_format bf16_format = {8, 7};

/* Rounds once, to nearest even. A carry out of the mantissa runs into the exponent: the next
   binade, the smallest normal number and infinity all come out right by plain addition. */
static uint16_t narrow(double value, half_format format) {
  enum { MANTISSA = 52, BIAS = 1023, SPECIAL = 0x7ff };
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  unsigned sign = (unsigned)(bits >> 63) << 15;
  int exponent = (int)(bits >> MANTISSA & SPECIAL);
  uint64_t mantissa = bits & ((UINT64_C(1) << MANTISSA) - 1);

  int special = (1 << format.exponent_bits) - 1;
  unsigned infinity = (unsigned)special << format.mantissa_bits;
  int shift = MANTISSA - format.mantissa_bits;
  if (exponent == SPECIAL && mantissa) {
    unsigned quiet = 1u << (format.mantissa_bits - 1);
    return (uint16_t)(sign | infinity | quiet | (unsigned)(mantissa >> shift));
  }
  int e = exponent - BIAS + special / 2;
  if (exponent == SPECIAL || e >= special) return (uint16_t)(sign | infinity);
  if (e <= 0) shift += 1 - e;
  /* Less than half the smallest subnormal; every float64 subnormal is. */
  if (shift > MANTISSA + 1) return (uint16_t)sign;
  uint64_t significand = mantissa | UINT64_C(1) << MANTISSA;
  uint64_t kept = significand >> shift;
  uint64_t rest = significand & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  unsigned binade = e > 0 ? (unsigned)(e - 1) << format.mantissa_bits : 0;
  return (uint16_t)(sign | (binade + (unsigned)kept));
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float uc_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
  if (exponent == 0x1f)
    return float_of_bits(sign | 0x7f800000u | (mantissa ? 0x400000u : 0) | mantissa << 13);
  if (exponent == 0) {
    float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

float uc_bf16_to_f32(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }

uint16_t uc_f64_to_f16(double value) { return narrow(value, f16_format); }
uint16_t uc_f64_to_bf16(double value) { return narrow(value, bf16_format); }
uint16_t uc_f32_to_f16(float value) { return narrow((double)value, f16_format); }
uint16_t uc_f32_to_bf16(float value) { return narrow((double)value, bf16_format); }

/* memcpy, because a caller's pointer may be less aligned than its type. */
double uc_load(const void *data, upconv_dtype dtype, int64_t index) {
  const char *at = (const char *)data + index * (int64_t)upconv_dtype_size(dtype);
  float f32;
  uint16_t bits;
  switch (dtype) {
  case UPCONV_F32:
    memcpy(&f32, at, sizeof f32);
    return (double)f32;
  case UPCONV_F16:
    memcpy(&bits, at, sizeof bits);
    return (double)uc_f16_to_f32(bits);
  case UPCONV_BF16:
    memcpy(&bits, at, sizeof bits);
    return (double)uc_bf16_to_f32(bits);
  }
  return 0;
}

void uc_store(void *data, upconv_dtype dtype, int64_t index, double value) {
  char *at = (char *)data + index * (int64_t)upconv_dtype_size(dtype);
  float f32 = (float)value;
  uint16_t bits = dtype == UPCONV_BF16 ? uc_f64_to_bf16(value) : uc_f64_to_f16(value);
  if (dtype == UPCONV_F32)
    memcpy(at, &f32, sizeof f32);
  else
    memcpy(at, &bits, sizeof bits);
}
