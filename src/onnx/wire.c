/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking protobuf from strangers. protobuf-c recurses once a nested message without a limit, and
 * turns two bytes of input into a struct of hundreds; so the bytes are first walked along the
 * schema with a bounded depth, and unpacking allocates from a budget that grows with the size of
 * the input.
 */
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>

#include "../status.h"
#include "graph.h"

/* As protobuf's own C++ parser. */
enum { MAX_DEPTH = 100 };

typedef struct reader {
  const unsigned char *at, *end;
} reader;

static bool read_varint(reader *r, uint64_t *value) {
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    unsigned char byte = *r->at++;
    result |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *value = result;
      return true;
    }
  }
  return false;
}

static bool skip(reader *r, uint64_t count) {
  if (count > (uint64_t)(r->end - r->at)) return false;
  r->at += count;
  return true;
}

/* True when every nested message is well formed and none lies deeper than MAX_DEPTH. */
static bool walk(const ProtobufCMessageDescriptor *descriptor, reader r, int depth) {
  if (depth > MAX_DEPTH) return false;
  while (r.at < r.end) {
    uint64_t tag, length;
    if (!read_varint(&r, &tag)) return false;
    if ((tag >> 3) == 0 || (tag >> 3) > UINT32_MAX) return false;
    switch (tag & 7) {
    case 0:
      if (!read_varint(&r, &length)) return false;
      break;
    case 1:
      if (!skip(&r, 8)) return false;
      break;
    case 2: {
      if (!read_varint(&r, &length)) return false;
      reader inner = {r.at, r.at};
      if (!skip(&r, length)) return false;
      inner.end = r.at;
      const ProtobufCFieldDescriptor *field =
          protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3));
      if (field && field->type == PROTOBUF_C_TYPE_MESSAGE &&
          !walk(field->descriptor, inner, depth + 1))
        return false;
      break;
    }
    case 5:
      if (!skip(&r, 4)) return false;
      break;
    default: /* groups were never part of ONNX */
      return false;
    }
  }
  return true;
}

/* What is freed is not given back to the budget, so that plain malloc serves and results can
   outlive the allocator. */
static void *budget_alloc(void *data, size_t size) {
  size_t *left = data;
  if (size > *left) return NULL;
  *left -= size;
  return malloc(size ? size : 1);
}

static void budget_free(void *data, void *memory) {
  (void)data;
  free(memory);
}

static size_t budget_of(size_t size) {
  /* An integer of one byte takes 48 while it is unpacked; messages of real models take less. */
  const size_t factor = 64, base = (size_t)1 << 20;
  size_t most = uc_onnx_machine_memory();
  if (size > (most - base) / factor) return most;
  return base + size * factor;
}

upconv_status uc_onnx_proto_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
                                   size_t size, void **message) {
  reader r = {data, (const unsigned char *)data + size};
  if (!walk(descriptor, r, 1))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%zu bytes are not a complete ONNX %s (protobuf)", size,
                   descriptor->short_name);
  size_t left = budget_of(size);
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &left};
  *message = protobuf_c_message_unpack(descriptor, &allocator, size, data);
  if (!*message)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "%zu bytes do not unpack as an ONNX %s (damaged, or larger than memory allows)",
                   size, descriptor->short_name);
  return UPCONV_OK;
}

void uc_onnx_proto_free(void *message) {
  if (message) protobuf_c_message_free_unpacked(message, NULL);
}
