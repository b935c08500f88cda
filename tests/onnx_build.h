/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds ONNX models in memory, straight in protobuf's wire format: also models that no library
 * would write.
 *
 *     onnx_build b = onnx_begin(13);
 *     onnx_input(&b, "x", ONNX_FLOAT, "N,3,8,8");
 *     onnx_random(&b, "w", "3,4,3,3", 1);
 *     onnx_node(&b, "ConvTranspose", "x,w", "y");
 *     onnx_ints(&b, "strides", "2,2");
 *     onnx_output(&b, "y");
 *     onnx_end(&b);                    b.data, b.size; free with onnx_free
 *
 * Lists are text, separated by commas; a dimension that is no number is a symbol.
 */
#ifndef UPCONV_TESTS_ONNX_BUILD_H
#define UPCONV_TESTS_ONNX_BUILD_H

#include <stddef.h>
#include <stdint.h>

enum { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_BOOL = 9, ONNX_FLOAT16 = 10, ONNX_BFLOAT16 = 16 };

typedef struct onnx_bytes {
  unsigned char *data;
  size_t size, capacity;
} onnx_bytes;

typedef struct onnx_build {
  unsigned char *data; /* the model, after onnx_end */
  size_t size;
  int64_t opset;
  onnx_bytes graph, node, tensor;
  int node_count;
} onnx_build;

onnx_build onnx_begin(int64_t opset);
void onnx_end(onnx_build *b);
void onnx_free(onnx_build *b);

void onnx_input(onnx_build *b, const char *name, int dtype, const char *dims);
void onnx_output(onnx_build *b, const char *name);

/* A node; attributes that follow belong to it. It is named after its operator and number:
   "Relu_3". */
void onnx_node(onnx_build *b, const char *op, const char *inputs, const char *outputs);
void onnx_int(onnx_build *b, const char *name, int64_t value);
void onnx_float(onnx_build *b, const char *name, double value);
void onnx_string(onnx_build *b, const char *name, const char *value);
void onnx_ints(onnx_build *b, const char *name, const char *values);

/* Initialisers. */
void onnx_floats(onnx_build *b, const char *name, const char *dims, const float *values);
void onnx_number(onnx_build *b, const char *name, double value);                    /* a scalar */
void onnx_random(onnx_build *b, const char *name, const char *dims, uint64_t seed); /* in [-1, 1) */
void onnx_int64s(onnx_build *b, const char *name, const char *values);              /* rank 1 */
void onnx_half_random(onnx_build *b, const char *name, int dtype, const char *dims, uint64_t seed);

/* Raw parts, for what is wrong on purpose: a TensorProto written field by field, then added as
   an initialiser. */
void onnx_tensor_begin(onnx_build *b, const char *name, int dtype);
void onnx_tensor_dims(onnx_build *b, const char *dims); /* negative ones too */
void onnx_tensor_raw(onnx_build *b, const void *data, size_t size);
void onnx_tensor_external(onnx_build *b, const char *key, const char *value);
void onnx_tensor_end(onnx_build *b);

void onnx_put_varint(onnx_bytes *bytes, uint64_t value);
void onnx_put_bytes(onnx_bytes *bytes, int field, const void *data, size_t size);
void onnx_put_int(onnx_bytes *bytes, int field, int64_t value);

#endif
