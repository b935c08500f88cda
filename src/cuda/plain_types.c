/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "../tensor.h"
#include "plain_parts.h"

static const struct {
  const char *name, *define;
  size_t size;
} types[UC_PLAIN_DTYPES] = {
    {"none", "P_NONE", 0},     {"float32", "P_F32", 4}, {"float16", "P_F16", 2},
    {"bfloat16", "P_BF16", 2}, {"float64", "P_F64", 8}, {"int8", "P_I8", 1},
    {"uint8", "P_U8", 1},      {"int16", "P_I16", 2},   {"uint16", "P_U16", 2},
    {"int32", "P_I32", 4},     {"uint32", "P_U32", 4},  {"int64", "P_I64", 8},
    {"uint64", "P_U64", 8},    {"bool", "P_BOOL", 1},
};

static unsigned index_of(uc_plain_dtype dtype) {
  unsigned index = (unsigned)dtype;
  return index < UC_PLAIN_DTYPES ? index : UC_PLAIN_NONE;
}

size_t uc_plain_dtype_size(uc_plain_dtype dtype) { return types[index_of(dtype)].size; }
const char *uc_plain_dtype_name(uc_plain_dtype dtype) { return types[index_of(dtype)].name; }
const char *uc_plain_dtype_define(uc_plain_dtype dtype) { return types[index_of(dtype)].define; }

bool uc_plain_is_int(uc_plain_dtype dtype) {
  return dtype >= UC_PLAIN_I8 && dtype <= UC_PLAIN_BOOL;
}

bool uc_plain_is_narrow(uc_plain_dtype dtype) {
  return dtype == UC_PLAIN_F32 || dtype == UC_PLAIN_F16 || dtype == UC_PLAIN_BF16 ||
         dtype == UC_PLAIN_BOOL;
}

/* ---- functions ---- */

static const char *const functions[UC_PLAIN_FNS] = {
    "FN_NONE",    "FN_ADD",      "FN_SUB",           "FN_MUL",         "FN_DIV",
    "FN_POW",     "FN_MAX",      "FN_MIN",           "FN_PRELU",       "FN_EQUAL",
    "FN_GREATER", "FN_LESS",     "FN_GREATER_EQUAL", "FN_LESS_EQUAL",  "FN_AND",
    "FN_OR",      "FN_XOR",      "FN_WHERE",         "FN_CLIP",        "FN_CAST",
    "FN_NOT",     "FN_RELU",     "FN_LEAKY_RELU",    "FN_ELU",         "FN_SELU",
    "FN_CELU",    "FN_SOFTPLUS", "FN_SOFTSIGN",      "FN_GELU",        "FN_GELU_TANH",
    "FN_SILU",    "FN_MISH",     "FN_HARDSWISH",     "FN_HARDSIGMOID", "FN_SIGMOID",
    "FN_TANH",    "FN_ABS",      "FN_NEG",           "FN_SQRT",        "FN_EXP",
    "FN_LOG",     "FN_ERF",      "FN_RECIPROCAL",    "FN_FLOOR",       "FN_CEIL",
    "FN_ROUND",   "FN_SIGN",     "FN_SIN",           "FN_COS",
};

const char *uc_plain_fn_define(uc_plain_fn fn) { return functions[fn]; }

int uc_plain_fn_operands(uc_plain_fn fn) {
  if (fn <= UC_PLAIN_FN_NONE || fn >= UC_PLAIN_FNS) return 0;
  if (fn <= UC_PLAIN_XOR) return 2;
  return fn <= UC_PLAIN_CLIP ? 3 : 1;
}

bool uc_plain_fn_has_int(uc_plain_fn fn) {
  switch (fn) {
  case UC_PLAIN_CAST:
  case UC_PLAIN_NOT:
  case UC_PLAIN_RELU:
  case UC_PLAIN_ABS:
  case UC_PLAIN_NEG:
  case UC_PLAIN_SIGN:
    return true;
  default:
    return uc_plain_fn_operands(fn) > 1 && fn != UC_PLAIN_PRELU;
  }
}

/* ---- numbers ---- */

/* high is least + 2^bits, which float64 holds where the largest integer may not. */
static uint64_t to_signed(double value, double high) {
  if (isnan(value)) return 0;
  if (value <= -high) return (uint64_t)(high >= 0x1p63 ? INT64_MIN : -(int64_t)high);
  if (value >= high) return (uint64_t)(high >= 0x1p63 ? INT64_MAX : (int64_t)high - 1);
  return (uint64_t)(int64_t)value;
}

static uint64_t to_unsigned(double value, double high) {
  if (!(value > 0)) return 0;
  if (value >= high) return high >= 0x1p64 ? UINT64_MAX : (uint64_t)high - 1;
  return (uint64_t)value;
}

static uint64_t float_bits(double value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint64_t uc_plain_encode(uc_plain_dtype dtype, double value) {
  switch (dtype) {
  case UC_PLAIN_F32:
    return float_bits(value);
  case UC_PLAIN_F16:
    return uc_f64_to_f16(value);
  case UC_PLAIN_BF16:
    return uc_f64_to_bf16(value);
  case UC_PLAIN_F64:
    return double_bits(value);
  case UC_PLAIN_I8:
    return to_signed(value, 0x1p7);
  case UC_PLAIN_I16:
    return to_signed(value, 0x1p15);
  case UC_PLAIN_I32:
    return to_signed(value, 0x1p31);
  case UC_PLAIN_I64:
    return to_signed(value, 0x1p63);
  case UC_PLAIN_U8:
    return to_unsigned(value, 0x1p8);
  case UC_PLAIN_U16:
    return to_unsigned(value, 0x1p16);
  case UC_PLAIN_U32:
    return to_unsigned(value, 0x1p32);
  case UC_PLAIN_U64:
    return to_unsigned(value, 0x1p64);
  case UC_PLAIN_BOOL:
    return value != 0;
  case UC_PLAIN_NONE:
  case UC_PLAIN_DTYPES:
    break;
  }
  return 0;
}
