/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* ---- wire format ---- */

static void put(onnx_bytes *b, const void *data, size_t size) {
  if (b->size + size > b->capacity) {
    b->capacity = 2 * (b->size + size) + 64;
    b->data = realloc(b->data, b->capacity);
    if (!b->data) abort();
  }
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
}

void onnx_put_varint(onnx_bytes *b, uint64_t value) {
  unsigned char byte;
  do {
    byte = (unsigned char)(value & 0x7f);
    value >>= 7;
    if (value) byte |= 0x80;
    put(b, &byte, 1);
  } while (value);
}

void onnx_put_bytes(onnx_bytes *b, int field, const void *data, size_t size) {
  onnx_put_varint(b, (uint64_t)field << 3 | 2);
  onnx_put_varint(b, size);
  put(b, data, size);
}

void onnx_put_int(onnx_bytes *b, int field, int64_t value) {
  onnx_put_varint(b, (uint64_t)field << 3);
  onnx_put_varint(b, (uint64_t)value);
}

static void put_text(onnx_bytes *b, int field, const char *text) {
  onnx_put_bytes(b, field, text, strlen(text));
}

static void put_message(onnx_bytes *b, int field, onnx_bytes *message) {
  onnx_put_bytes(b, field, message->data, message->size);
  free(message->data);
  *message = (onnx_bytes){0};
}

/* The next part of a list; false at its end. An empty list has no parts; "a,,b" has an empty
   one. */
static bool next_part(const char **list, char *part, size_t size) {
  if (!*list || !**list) return false;
  size_t n = strcspn(*list, ",");
  snprintf(part, size, "%.*s", (int)n, *list);
  *list += n + ((*list)[n] == ',');
  return true;
}

/* ---- nodes ---- */

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALISER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

static void flush_node(onnx_build *b) {
  if (b->node.size) put_message(&b->graph, GRAPH_NODE, &b->node);
}

void onnx_node(onnx_build *b, const char *op, const char *inputs, const char *outputs) {
  char part[128];
  flush_node(b);
  while (next_part(&inputs, part, sizeof part)) put_text(&b->node, NODE_INPUT, part);
  while (next_part(&outputs, part, sizeof part)) put_text(&b->node, NODE_OUTPUT, part);
  snprintf(part, sizeof part, "%s_%d", op, b->node_count++);
  put_text(&b->node, NODE_NAME, part);
  put_text(&b->node, NODE_OP, op);
}

enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };

static onnx_bytes attribute(const char *name, int type) {
  onnx_bytes a = {0};
  put_text(&a, ATTR_NAME, name);
  onnx_put_int(&a, ATTR_TYPE, type);
  return a;
}

void onnx_int(onnx_build *b, const char *name, int64_t value) {
  onnx_bytes a = attribute(name, TYPE_INT);
  onnx_put_int(&a, ATTR_I, value);
  put_message(&b->node, NODE_ATTRIBUTE, &a);
}

void onnx_float(onnx_build *b, const char *name, double value) {
  onnx_bytes a = attribute(name, TYPE_FLOAT);
  float f = (float)value;
  onnx_put_varint(&a, ATTR_F << 3 | 5);
  put(&a, &f, sizeof f);
  put_message(&b->node, NODE_ATTRIBUTE, &a);
}

void onnx_string(onnx_build *b, const char *name, const char *value) {
  onnx_bytes a = attribute(name, TYPE_STRING);
  put_text(&a, ATTR_S, value);
  put_message(&b->node, NODE_ATTRIBUTE, &a);
}

void onnx_ints(onnx_build *b, const char *name, const char *values) {
  onnx_bytes a = attribute(name, TYPE_INTS);
  char part[32];
  while (next_part(&values, part, sizeof part)) onnx_put_int(&a, ATTR_INTS, atoll(part));
  put_message(&b->node, NODE_ATTRIBUTE, &a);
}

/* ---- inputs and outputs ---- */

static void value_info(onnx_build *b, int field, const char *name, int dtype, const char *dims) {
  onnx_bytes info = {0}, type = {0}, tensor = {0}, shape = {0};
  char part[64];
  flush_node(b);
  put_text(&info, 1, name);
  if (dtype) {
    onnx_put_int(&tensor, 1, dtype);
    while (next_part(&dims, part, sizeof part)) {
      onnx_bytes dim = {0};
      char *end;
      long long size = strtoll(part, &end, 10);
      if (*end)
        put_text(&dim, 2, part);
      else
        onnx_put_int(&dim, 1, size);
      put_message(&shape, 1, &dim);
    }
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_message(&info, 2, &type);
  }
  put_message(&b->graph, field, &info);
}

void onnx_input(onnx_build *b, const char *name, int dtype, const char *dims) {
  value_info(b, GRAPH_INPUT, name, dtype, dims);
}

void onnx_output(onnx_build *b, const char *name) { value_info(b, GRAPH_OUTPUT, name, 0, ""); }

/* ---- initialisers ---- */

enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };

void onnx_tensor_begin(onnx_build *b, const char *name, int dtype) {
  flush_node(b);
  put_text(&b->tensor, TENSOR_NAME, name);
  onnx_put_int(&b->tensor, TENSOR_TYPE, dtype);
}

void onnx_tensor_dims(onnx_build *b, const char *dims) {
  char part[32];
  while (next_part(&dims, part, sizeof part)) onnx_put_int(&b->tensor, TENSOR_DIMS, atoll(part));
}

void onnx_tensor_raw(onnx_build *b, const void *data, size_t size) {
  onnx_put_bytes(&b->tensor, TENSOR_RAW, data, size);
}

void onnx_tensor_external(onnx_build *b, const char *key, const char *value) {
  onnx_bytes entry = {0};
  put_text(&entry, 1, key);
  put_text(&entry, 2, value);
  put_message(&b->tensor, TENSOR_EXTERNAL, &entry);
  onnx_put_int(&b->tensor, TENSOR_LOCATION, 1);
}

void onnx_tensor_end(onnx_build *b) { put_message(&b->graph, GRAPH_INITIALISER, &b->tensor); }

static size_t count_elements(const char *dims) {
  char part[32];
  size_t count = 1;
  while (next_part(&dims, part, sizeof part)) count *= (size_t)atoll(part);
  return count;
}

void onnx_floats(onnx_build *b, const char *name, const char *dims, const float *values) {
  onnx_tensor_begin(b, name, ONNX_FLOAT);
  onnx_tensor_dims(b, dims);
  onnx_tensor_raw(b, values, count_elements(dims) * sizeof *values);
  onnx_tensor_end(b);
}

void onnx_number(onnx_build *b, const char *name, double value) {
  float f = (float)value;
  onnx_floats(b, name, "", &f);
}

void onnx_random(onnx_build *b, const char *name, const char *dims, uint64_t seed) {
  size_t count = count_elements(dims);
  float *values = malloc((count + 1) * sizeof *values);
  if (!values) abort();
  for (size_t i = 0; i < count; i++) values[i] = (float)(2 * check_random_unit(&seed) - 1);
  onnx_floats(b, name, dims, values);
  free(values);
}

/* Bits of numbers of a magnitude between 1/16 and 1, of either sign. */
void onnx_half_random(onnx_build *b, const char *name, int dtype, const char *dims, uint64_t seed) {
  size_t count = count_elements(dims);
  uint16_t *values = malloc((count + 1) * sizeof *values);
  if (!values) abort();
  int digits = dtype == ONNX_FLOAT16 ? 10 : 7, bias = dtype == ONNX_FLOAT16 ? 15 : 127;
  for (size_t i = 0; i < count; i++) {
    int64_t exponent = bias - 1 - check_random_range(&seed, 0, 3);
    int64_t fraction = check_random_range(&seed, 0, (1 << digits) - 1);
    values[i] = (uint16_t)(check_random_range(&seed, 0, 1) << 15 | exponent << digits | fraction);
  }
  onnx_tensor_begin(b, name, dtype);
  onnx_tensor_dims(b, dims);
  onnx_tensor_raw(b, values, count * sizeof *values);
  onnx_tensor_end(b);
  free(values);
}

void onnx_int64s(onnx_build *b, const char *name, const char *values) {
  int64_t data[64];
  char part[32], dims[16];
  int count = 0;
  while (count < 64 && next_part(&values, part, sizeof part)) data[count++] = atoll(part);
  snprintf(dims, sizeof dims, "%d", count);
  onnx_tensor_begin(b, name, ONNX_INT64);
  onnx_tensor_dims(b, dims);
  onnx_tensor_raw(b, data, (size_t)count * sizeof *data);
  onnx_tensor_end(b);
}

/* ---- the model ---- */

onnx_build onnx_begin(int64_t opset) {
  onnx_build b = {.opset = opset};
  put_text(&b.graph, GRAPH_NAME, "test");
  return b;
}

void onnx_end(onnx_build *b) {
  onnx_bytes model = {0}, opset = {0};
  flush_node(b);
  onnx_put_int(&model, 1, 8);
  onnx_put_int(&opset, 2, b->opset);
  put_message(&model, 8, &opset);
  put_message(&model, 7, &b->graph);
  b->data = model.data;
  b->size = model.size;
}

void onnx_free(onnx_build *b) {
  free(b->data);
  free(b->graph.data);
  free(b->node.data);
  free(b->tensor.data);
  *b = (onnx_build){0};
}
