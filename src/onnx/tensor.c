/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in host memory: types, sizes, elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "../tensor.h"
#include "graph.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX's raw data are little-endian");

size_t uc_onnx_dtype_size(uc_onnx_dtype dtype) {
  switch (dtype) {
  case UC_ONNX_UINT8:
  case UC_ONNX_INT8:
  case UC_ONNX_BOOL:
    return 1;
  case UC_ONNX_UINT16:
  case UC_ONNX_INT16:
  case UC_ONNX_FLOAT16:
  case UC_ONNX_BFLOAT16:
    return 2;
  case UC_ONNX_FLOAT:
  case UC_ONNX_INT32:
  case UC_ONNX_UINT32:
    return 4;
  case UC_ONNX_INT64:
  case UC_ONNX_DOUBLE:
  case UC_ONNX_UINT64:
    return 8;
  case UC_ONNX_UNDEFINED:
  case UC_ONNX_STRING:
    break;
  }
  return 0;
}

const char *uc_onnx_dtype_name(uc_onnx_dtype dtype) {
  static const char *const names[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                      "int16",      "int32",   "int64",  "string", "bool",
                                      "float16",    "double",  "uint32", "uint64", "complex64",
                                      "complex128", "bfloat16"};
  unsigned index = (unsigned)dtype;
  return index < sizeof names / sizeof names[0] ? names[index] : "undefined";
}

bool uc_onnx_tensor_elements(const uc_onnx_tensor *tensor, int64_t *elements) {
  return tensor->rank >= 0 && tensor->rank <= UC_ONNX_MAX_RANK &&
         uc_product(tensor->shape, tensor->rank, elements);
}

bool uc_onnx_tensor_bytes(const uc_onnx_tensor *tensor, size_t *bytes) {
  int64_t count, size = (int64_t)uc_onnx_dtype_size(tensor->dtype);
  if (size == 0 || !uc_onnx_tensor_elements(tensor, &count) || !uc_mul(count, size, &count))
    return false;
  *bytes = (size_t)count;
  return true;
}

void uc_onnx_tensor_free(uc_onnx_tensor *tensor) {
  if (tensor->owned) {
    free(tensor->name);
    free(tensor->data);
  }
  *tensor = (uc_onnx_tensor){0};
}

double uc_onnx_get(const void *data, uc_onnx_dtype dtype, int64_t index) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    return ((const float *)data)[index];
  case UC_ONNX_DOUBLE:
    return ((const double *)data)[index];
  case UC_ONNX_FLOAT16:
    return uc_f16_to_f32(((const uint16_t *)data)[index]);
  case UC_ONNX_BFLOAT16:
    return uc_bf16_to_f32(((const uint16_t *)data)[index]);
  case UC_ONNX_UINT8:
    return ((const uint8_t *)data)[index];
  case UC_ONNX_INT8:
    return ((const int8_t *)data)[index];
  case UC_ONNX_UINT16:
    return ((const uint16_t *)data)[index];
  case UC_ONNX_INT16:
    return ((const int16_t *)data)[index];
  case UC_ONNX_INT32:
    return ((const int32_t *)data)[index];
  case UC_ONNX_UINT32:
    return ((const uint32_t *)data)[index];
  case UC_ONNX_INT64:
    return (double)((const int64_t *)data)[index];
  case UC_ONNX_UINT64:
    return (double)((const uint64_t *)data)[index];
  case UC_ONNX_BOOL:
    return ((const uint8_t *)data)[index] != 0;
  case UC_ONNX_UNDEFINED:
  case UC_ONNX_STRING:
    break;
  }
  return 0;
}

/* Truncation towards zero, saturated; NaN becomes 0. */
static int64_t to_int64(double value, int64_t low, int64_t high) {
  if (isnan(value)) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)value;
}

static uint64_t to_uint64(double value) {
  if (!(value > 0)) return 0;
  return value >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)value;
}

void uc_onnx_set(void *data, uc_onnx_dtype dtype, int64_t index, double value) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    ((float *)data)[index] = (float)value;
    break;
  case UC_ONNX_DOUBLE:
    ((double *)data)[index] = value;
    break;
  case UC_ONNX_FLOAT16:
    ((uint16_t *)data)[index] = uc_f64_to_f16(value);
    break;
  case UC_ONNX_BFLOAT16:
    ((uint16_t *)data)[index] = uc_f64_to_bf16(value);
    break;
  case UC_ONNX_UINT8:
    ((uint8_t *)data)[index] = (uint8_t)to_int64(value, 0, UINT8_MAX);
    break;
  case UC_ONNX_INT8:
    ((int8_t *)data)[index] = (int8_t)to_int64(value, INT8_MIN, INT8_MAX);
    break;
  case UC_ONNX_UINT16:
    ((uint16_t *)data)[index] = (uint16_t)to_int64(value, 0, UINT16_MAX);
    break;
  case UC_ONNX_INT16:
    ((int16_t *)data)[index] = (int16_t)to_int64(value, INT16_MIN, INT16_MAX);
    break;
  case UC_ONNX_INT32:
    ((int32_t *)data)[index] = (int32_t)to_int64(value, INT32_MIN, INT32_MAX);
    break;
  case UC_ONNX_UINT32:
    ((uint32_t *)data)[index] = (uint32_t)to_int64(value, 0, UINT32_MAX);
    break;
  case UC_ONNX_INT64:
    ((int64_t *)data)[index] = to_int64(value, INT64_MIN, INT64_MAX);
    break;
  case UC_ONNX_UINT64:
    ((uint64_t *)data)[index] = to_uint64(value);
    break;
  case UC_ONNX_BOOL:
    ((uint8_t *)data)[index] = value != 0;
    break;
  case UC_ONNX_UNDEFINED:
  case UC_ONNX_STRING:
    break;
  }
}

char *uc_onnx_copy_string(const char *text) {
  char *copy = strdup(text ? text : "");
  if (!copy) uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a name");
  return copy;
}

void *uc_onnx_new(int64_t count, size_t size) {
  size_t bytes;
  if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes)) {
    uc_fail(UPCONV_OUT_OF_MEMORY, "%lld items of %zu bytes do not fit in memory", (long long)count,
            size);
    return NULL;
  }
  void *memory = bytes <= uc_onnx_machine_memory() ? calloc(1, bytes ? bytes : 1) : NULL;
  if (!memory) uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
  return memory;
}
