/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto to tensor and back: raw, typed and external data. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "graph.h"
#include "onnx.pb-c.h"

/* protobuf itself ends there. */
static const size_t FILE_LIMIT = INT32_MAX;

static upconv_status read_header(const Onnx__TensorProto *proto, uc_onnx_tensor *tensor,
                                 int64_t *elements, size_t *bytes) {
  tensor->dtype = (uc_onnx_dtype)proto->data_type;
  if (uc_onnx_dtype_size(tensor->dtype) == 0)
    return uc_fail(UPCONV_UNSUPPORTED, "data type %d (%s) is not supported", (int)proto->data_type,
                   uc_onnx_dtype_name(tensor->dtype));
  if (proto->segment) return uc_fail(UPCONV_UNSUPPORTED, "segmented data are not supported");
  if (proto->n_dims > UC_ONNX_MAX_RANK)
    return uc_fail(UPCONV_UNSUPPORTED, "rank %zu; at most %d is supported", proto->n_dims,
                   UC_ONNX_MAX_RANK);
  tensor->rank = (int)proto->n_dims;
  for (int i = 0; i < tensor->rank; i++) {
    tensor->shape[i] = proto->dims[i];
    if (proto->dims[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "dims[%d] is %lld; it must not be negative", i,
                     (long long)proto->dims[i]);
  }
  if (!uc_onnx_tensor_elements(tensor, elements) || !uc_onnx_tensor_bytes(tensor, bytes))
    return uc_fail(UPCONV_OVERFLOW, "the product of dims does not fit 64 bits");
  return UPCONV_OK;
}

static bool parse_number(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno || end == text || *end || number < 0) return false;
  *value = number;
  return true;
}

static upconv_status read_external(const Onnx__TensorProto *proto, const char *directory,
                                   size_t bytes, uc_onnx_tensor *tensor) {
  const char *location = NULL;
  int64_t offset = 0, length = -1;
  for (size_t i = 0; i < proto->n_external_data; i++) {
    const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
    if (!key || !value) continue;
    if (strcmp(key, "location") == 0) location = value;
    bool is_offset = strcmp(key, "offset") == 0;
    if (!is_offset && strcmp(key, "length") != 0) continue;
    if (!parse_number(value, is_offset ? &offset : &length))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "external data: %s is '%.40s'; it must be a number",
                     key, value);
  }
  if (!location) return uc_fail(UPCONV_INVALID_ARGUMENT, "external data without a location");
  if (!directory)
    return uc_fail(UPCONV_UNSUPPORTED, "external data '%.200s' of a model that is not a file",
                   location);
  if (length >= 0 && (uint64_t)length != bytes)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "external data '%.200s': length is %lld; the shape needs %zu bytes", location,
                   (long long)length, bytes);
  uc_onnx_bytes read;
  upconv_status status = uc_onnx_external_read(directory, location, offset, (int64_t)bytes, &read);
  if (!status) tensor->data = read.data;
  return status;
}

static upconv_status take_raw(Onnx__TensorProto *proto, size_t bytes, uc_onnx_tensor *tensor) {
  if (proto->raw_data.len != bytes)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "raw_data holds %zu bytes; the shape needs %zu",
                   proto->raw_data.len, bytes);
  if (bytes == 0) {
    tensor->data = uc_onnx_new(1, 1);
    return tensor->data ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  }
  tensor->data = proto->raw_data.data; /* unpacked with malloc, see wire.c */
  proto->raw_data.data = NULL;
  proto->raw_data.len = 0;
  return UPCONV_OK;
}

/* The typed field that holds a data type, and how many items it has. */
typedef enum field { FIELD_FLOAT, FIELD_INT32, FIELD_INT64, FIELD_DOUBLE, FIELD_UINT64 } field;

static field field_of(uc_onnx_dtype dtype) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    return FIELD_FLOAT;
  case UC_ONNX_INT64:
    return FIELD_INT64;
  case UC_ONNX_DOUBLE:
    return FIELD_DOUBLE;
  case UC_ONNX_UINT32:
  case UC_ONNX_UINT64:
    return FIELD_UINT64;
  default:
    return FIELD_INT32;
  }
}

static size_t field_count(const Onnx__TensorProto *proto, field f) {
  const size_t counts[] = {proto->n_float_data, proto->n_int32_data, proto->n_int64_data,
                           proto->n_double_data, proto->n_uint64_data};
  return counts[f];
}

/* Small types are stored one to an int32: float16 and bfloat16 as their bits. */
static void copy_narrow(const int32_t *from, size_t count, size_t size, void *to) {
  for (size_t i = 0; i < count; i++) {
    if (size == 1)
      ((uint8_t *)to)[i] = (uint8_t)from[i];
    else if (size == 2)
      ((uint16_t *)to)[i] = (uint16_t)from[i];
    else
      ((int32_t *)to)[i] = from[i];
  }
}

static upconv_status copy_typed(const Onnx__TensorProto *proto, int64_t elements, size_t bytes,
                                uc_onnx_tensor *tensor) {
  field f = field_of(tensor->dtype);
  size_t count = field_count(proto, f);
  if (count != (size_t)elements)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "holds %zu numbers of type %s; the shape needs %lld",
                   count, uc_onnx_dtype_name(tensor->dtype), (long long)elements);
  tensor->data = uc_onnx_new((int64_t)bytes, 1);
  if (!tensor->data) return UPCONV_OUT_OF_MEMORY;
  if (count == 0) return UPCONV_OK;
  if (f == FIELD_INT32)
    copy_narrow(proto->int32_data, count, uc_onnx_dtype_size(tensor->dtype), tensor->data);
  else if (f == FIELD_FLOAT)
    memcpy(tensor->data, proto->float_data, bytes);
  else if (f == FIELD_INT64)
    memcpy(tensor->data, proto->int64_data, bytes);
  else if (f == FIELD_DOUBLE)
    memcpy(tensor->data, proto->double_data, bytes);
  else
    for (size_t i = 0; i < count; i++) {
      if (tensor->dtype == UC_ONNX_UINT32)
        ((uint32_t *)tensor->data)[i] = (uint32_t)proto->uint64_data[i];
      else
        ((uint64_t *)tensor->data)[i] = proto->uint64_data[i];
    }
  return UPCONV_OK;
}

upconv_status uc_onnx_tensor_from_proto(Onnx__TensorProto *proto, const char *what,
                                        const char *directory, uc_onnx_tensor *tensor) {
  int64_t elements;
  size_t bytes;
  *tensor = (uc_onnx_tensor){.owned = true};
  upconv_status status = read_header(proto, tensor, &elements, &bytes);
  if (!status && !(tensor->name = uc_onnx_copy_string(proto->name))) status = UPCONV_OUT_OF_MEMORY;
  if (!status) {
    if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
      status = read_external(proto, directory, bytes, tensor);
    else if (proto->has_raw_data)
      status = take_raw(proto, bytes, tensor);
    else
      status = copy_typed(proto, elements, bytes, tensor);
  }
  if (!status) return UPCONV_OK;
  uc_onnx_tensor_free(tensor);
  return uc_fail_in(status, "tensor '%.200s'", what);
}

upconv_status uc_onnx_tensor_read(const char *path, uc_onnx_tensor *tensor) {
  uc_onnx_bytes bytes;
  void *message = NULL;
  *tensor = (uc_onnx_tensor){0};
  upconv_status status = uc_onnx_file_read(path, FILE_LIMIT, &bytes);
  if (status) return status;
  status = uc_onnx_proto_unpack(&onnx__tensor_proto__descriptor, bytes.data, bytes.size, &message);
  free(bytes.data);
  if (!status) {
    Onnx__TensorProto *proto = message;
    status = uc_onnx_tensor_from_proto(proto, proto->name ? proto->name : "", NULL, tensor);
    uc_onnx_proto_free(message);
  }
  return status ? uc_fail_in(status, "%s", path) : UPCONV_OK;
}

static upconv_status write_file(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  bool written = file && fwrite(data, 1, size, file) == size;
  int error = errno;
  if (file && fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written) return UPCONV_OK;
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: cannot be written: %s", path, strerror(error));
}

upconv_status uc_onnx_tensor_write(const char *path, const uc_onnx_tensor *tensor) {
  size_t bytes, packed;
  if (!uc_onnx_tensor_bytes(tensor, &bytes))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: the tensor's type or shape is not valid", path);
  Onnx__TensorProto proto = ONNX__TENSOR_PROTO__INIT;
  int64_t dims[UC_ONNX_MAX_RANK];
  for (int i = 0; i < tensor->rank; i++) dims[i] = tensor->shape[i];
  proto.n_dims = (size_t)tensor->rank;
  proto.dims = dims;
  proto.has_data_type = 1;
  proto.data_type = (int32_t)tensor->dtype;
  proto.name = tensor->name;
  proto.has_raw_data = 1;
  proto.raw_data = (ProtobufCBinaryData){bytes, tensor->data};
  packed = onnx__tensor_proto__get_packed_size(&proto);
  if (packed > FILE_LIMIT)
    return uc_fail(UPCONV_UNSUPPORTED, "%s: %zu bytes are more than protobuf allows", path, packed);
  unsigned char *buffer = uc_onnx_new((int64_t)packed, 1);
  if (!buffer) return UPCONV_OUT_OF_MEMORY;
  onnx__tensor_proto__pack(&proto, buffer);
  upconv_status status = write_file(path, buffer, packed);
  free(buffer);
  return status;
}
