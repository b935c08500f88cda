/* SPDX-License-Identifier: Apache-2.0 */
/* The array of an .npy file: reading, conversion, writing. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor.h"

/* ---- elements */

static bool is_real(npy_type type) {
  return type == NPY_F32 || type == NPY_F16 || type == NPY_BF16 || type == NPY_F64;
}

bool npy_convertible(npy_type from, npy_type to) {
  if (from == NPY_VOID2) return to == NPY_BF16;
  return is_real(to) || !is_real(from);
}

static uint64_t load_bytes(const uint8_t *bytes, size_t size, bool swapped) {
  uint8_t b[8];
  for (size_t i = 0; i < size; i++) b[i] = bytes[swapped ? size - 1 - i : i];
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  switch (size) {
  case 1:
    return b[0];
  case 2:
    memcpy(&u16, b, 2);
    return u16;
  case 4:
    memcpy(&u32, b, 4);
    return u32;
  default:
    memcpy(&u64, b, 8);
    return u64;
  }
}

/* A whole number in 65 bits: a sign besides the 64 of uint64. */
typedef struct whole {
  bool negative;
  uint64_t magnitude;
} whole;

static whole make_whole(int64_t value) {
  return (whole){value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value};
}

static whole load_whole(npy_type type, uint64_t bits) {
  switch (type) {
  case NPY_BOOL:
    return (whole){false, bits != 0};
  case NPY_I8:
    return make_whole((int8_t)bits);
  case NPY_I16:
    return make_whole((int16_t)bits);
  case NPY_I32:
    return make_whole((int32_t)bits);
  case NPY_I64:
    return make_whole((int64_t)bits);
  default:
    return (whole){false, bits};
  }
}

static double load_real(npy_type type, uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  switch (type) {
  case NPY_F16:
    return uc_f16_to_f32((uint16_t)bits);
  case NPY_BF16:
  case NPY_VOID2:
    return uc_bf16_to_f32((uint16_t)bits);
  case NPY_F32:
    memcpy(&f, &low, 4);
    return f;
  default:
    memcpy(&d, &bits, 8);
    return d;
  }
}

static void store_real(npy_type type, double value, void *element) {
  float f = (float)value;
  uint16_t half = type == NPY_F16    ? uc_f64_to_f16(value)
                  : type == NPY_BF16 ? uc_f64_to_bf16(value)
                                     : 0;
  switch (type) {
  case NPY_F32:
    memcpy(element, &f, 4);
    break;
  case NPY_F64:
    memcpy(element, &value, 8);
    break;
  default:
    memcpy(element, &half, 2);
    break;
  }
}

/* float32 straight from the whole number: through a double it would be rounded twice. */
static void store_whole_as_real(npy_type type, whole value, void *element) {
  if (type == NPY_F32) {
    float f = (float)value.magnitude;
    if (value.negative) f = -f;
    memcpy(element, &f, 4);
  } else {
    double d = (double)value.magnitude;
    store_real(type, value.negative ? -d : d, element);
  }
}

/* Largest magnitudes of negative and other numbers. */
static bool store_whole(npy_type type, whole value, void *element) {
  uint64_t limit = type == NPY_BOOL  ? 1
                   : type == NPY_U8  ? UINT8_MAX
                   : type == NPY_I32 ? (uint64_t)INT32_MAX + value.negative
                                     : (uint64_t)INT64_MAX + value.negative;
  bool is_signed = type == NPY_I32 || type == NPY_I64;
  if (value.magnitude > limit || (value.negative && !is_signed)) return false;
  uint64_t bits = value.negative ? 0 - value.magnitude : value.magnitude;
  uint8_t u8 = (uint8_t)bits;
  uint32_t u32 = (uint32_t)bits;
  switch (npy_type_size(type)) {
  case 1:
    memcpy(element, &u8, 1);
    break;
  case 4:
    memcpy(element, &u32, 4);
    break;
  default:
    memcpy(element, &bits, 8);
    break;
  }
  return true;
}

static bool convert_element(const npy_header *header, const uint8_t *from, npy_type to,
                            void *element, cli_error *error) {
  npy_type type = header->type;
  uint64_t bits = load_bytes(from, npy_type_size(type), header->swapped);
  if (is_real(type) || type == NPY_VOID2) {
    store_real(to, load_real(type, bits), element);
    return true;
  }
  whole value = load_whole(type, bits);
  if (is_real(to)) {
    store_whole_as_real(to, value, element);
    return true;
  }
  if (store_whole(to, value, element)) return true;
  return cli_error_set(error, "the number %s%" PRIu64 " does not fit %s", value.negative ? "-" : "",
                       value.magnitude, npy_type_name(to));
}

/* ---- arrays */

/* True if the bytes are what is wanted as they lie. */
static bool is_plain(const npy_header *header, npy_type to) {
  bool same = header->type == to || (header->type == NPY_VOID2 && to == NPY_BF16);
  bool one_order = !header->fortran_order || header->rank < 2;
  return same && !header->swapped && one_order && to != NPY_BOOL;
}

bool npy_convert(const npy_header *header, const void *raw, npy_type to, void *converted,
                 cli_error *error) {
  if (!npy_convertible(header->type, to)) {
    const char *hint =
        header->type == NPY_VOID2 ? "; V2 is read as bfloat16, where that is wanted" : "";
    return cli_error_set(error, "array of %s given where %s is wanted%s",
                         npy_type_name(header->type), npy_type_name(to), hint);
  }
  if (header->count == 0) return true;
  if (is_plain(header, to)) {
    memcpy(converted, raw, (size_t)header->data_size);
    return true;
  }
  /* Walks in C order; `from` follows in the order of the file. */
  int64_t index[NPY_MAX_RANK] = {0}, step[NPY_MAX_RANK];
  int rank = header->rank;
  for (int64_t i = 0, size = 1; i < rank; i++) {
    int axis = header->fortran_order ? (int)i : rank - 1 - (int)i;
    step[axis] = size;
    size *= header->shape[axis];
  }
  const size_t size = npy_type_size(header->type), to_size = npy_type_size(to);
  const uint8_t *from = raw;
  uint8_t *out = converted;
  int64_t offset = 0;
  for (int64_t i = 0; i < header->count; i++, out += to_size) {
    if (!convert_element(header, from + (size_t)offset * size, to, out, error)) return false;
    for (int axis = rank - 1; axis >= 0; axis--) {
      offset += step[axis];
      if (++index[axis] < header->shape[axis]) break;
      offset -= step[axis] * header->shape[axis];
      index[axis] = 0;
    }
  }
  return true;
}

/* ---- files */

/* Reads until size bytes have come or the file ends; returns how many, or -1 with errno. */
static int64_t read_bytes(int fd, void *data, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(fd, (uint8_t *)data + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (int64_t)done;
}

static bool fail_errno(cli_error *error) { return cli_error_set(error, "%s", strerror(errno)); }

static bool read_header(int fd, npy_header *header, cli_error *error) {
  uint8_t prefix[NPY_PREFIX];
  int64_t got = read_bytes(fd, prefix, NPY_PREFIX);
  if (got < 0) return fail_errno(error);
  size_t end = npy_header_size(prefix, (size_t)got, error);
  if (end == 0) return false;
  if (end < NPY_PREFIX) return cli_error_set(error, "bad .npy header: it is too short");
  uint8_t *bytes = malloc(end);
  if (!bytes) return cli_error_set(error, "out of memory");
  memcpy(bytes, prefix, NPY_PREFIX);
  got = read_bytes(fd, bytes + NPY_PREFIX, end - NPY_PREFIX);
  bool good = got < 0 ? fail_errno(error)
                      : npy_parse_header(bytes, NPY_PREFIX + (size_t)got, header, error);
  free(bytes);
  return good;
}

static bool fail_cut_off(const npy_header *header, int64_t got, cli_error *error) {
  return cli_error_set(error,
                       ".npy file is cut off: its header promises %" PRId64
                       " bytes of array, %" PRId64 " are there",
                       header->data_size, got);
}

/* The array's bytes, or NULL. A pipe has no size to compare with, so memory grows only as bytes come. */
static uint8_t *read_raw(int fd, const npy_header *header, cli_error *error) {
  struct stat info;
  bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  int64_t there = regular ? (int64_t)info.st_size - header->data_offset : header->data_size;
  if (there < header->data_size) {
    fail_cut_off(header, there, error);
    return NULL;
  }
  const size_t size = (size_t)header->data_size, first = (size_t)1 << 20;
  size_t capacity = regular || size < first ? size : first, done = 0;
  uint8_t *raw = NULL;
  for (;;) {
    uint8_t *grown = realloc(raw, capacity ? capacity : 1);
    if (!grown) {
      cli_error_set(error, "out of memory: the array takes %" PRId64 " bytes", header->data_size);
      break;
    }
    raw = grown;
    int64_t got = read_bytes(fd, raw + done, capacity - done);
    if (got < 0) {
      fail_errno(error);
      break;
    }
    done += (size_t)got;
    if (done == size) return raw;
    if (done < capacity) {
      fail_cut_off(header, (int64_t)done, error);
      break;
    }
    capacity = capacity > size / 2 ? size : capacity * 2;
  }
  free(raw);
  return NULL;
}

static bool read_array(int fd, npy_type to, npy_array *array, cli_error *error) {
  npy_header header;
  if (!read_header(fd, &header, error)) return false;
  uint8_t *raw = read_raw(fd, &header, error);
  if (!raw) return false;
  *array = (npy_array){.type = to, .rank = header.rank, .count = header.count};
  memcpy(array->shape, header.shape, sizeof array->shape);
  if (is_plain(&header, to)) {
    array->data = raw;
    return true;
  }
  size_t size = npy_type_size(to);
  bool fits = header.count <= (int64_t)(PTRDIFF_MAX / (ptrdiff_t)size);
  array->data = fits ? malloc(header.count ? (size_t)header.count * size : 1) : NULL;
  bool good = array->data ? npy_convert(&header, raw, to, array->data, error)
                          : cli_error_set(error, "out of memory: %" PRId64 " elements of %s",
                                          header.count, npy_type_name(to));
  free(raw);
  if (!good) npy_free(array);
  return good;
}

bool npy_read(const char *path, npy_type to, npy_array *array, cli_error *error) {
  cli_error reason;
  bool good;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    good = fail_errno(&reason);
  } else {
    good = read_array(fd, to, array, &reason);
    close(fd);
  }
  return good || cli_error_set(error, "%s: %s", path, reason.text);
}

void npy_free(npy_array *array) {
  free(array->data);
  *array = (npy_array){0};
}

/* ---- writing */

/* The header ends in a line end and makes the array start at a multiple of 64. Returns its length. */
static size_t format_header(npy_type type, int rank, const int64_t *shape, char *text,
                            size_t size) {
  static const char *const descr[NPY_TYPE_COUNT] = {
      [NPY_F32] = "<f4", [NPY_F16] = "<f2", [NPY_BF16] = "<f4", [NPY_F64] = "<f8",
      [NPY_I32] = "<i4", [NPY_I64] = "<i8", [NPY_BOOL] = "|b1", [NPY_U8] = "|u1",
  };
  size_t length = (size_t)snprintf(
      text, size, "\x93NUMPY%c%c__{'descr': '%s', 'fortran_order': False, 'shape': (", 1, 0,
      descr[type]);
  for (int i = 0; i < rank; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%" PRId64 "%s", i ? " " : "",
                               shape[i], i + 1 < rank || rank == 1 ? "," : "");
  length += (size_t)snprintf(text + length, size - length, "), }");
  while (length % 64 != 63) text[length++] = ' ';
  text[length++] = '\n';
  text[8] = (char)((length - 10) & 0xFF);
  text[9] = (char)((length - 10) >> 8);
  return length;
}

/* Writes elements that need another form than they have in memory, a block at a time. */
static bool write_converted(output_file *file, npy_type type, const void *data, int64_t count,
                            cli_error *error) {
  enum { BLOCK = 4096 };
  uint8_t block[BLOCK * 8];
  const size_t size = npy_type_size(type);
  const uint8_t *from = data;
  for (int64_t done = 0; done < count;) {
    size_t n = 0, out_size = type == NPY_BF16 ? 4 : size;
    for (; n < BLOCK && done < count; n++, done++, from += size) {
      uint64_t bits = load_bytes(from, size, false);
      if (type == NPY_BF16) bits <<= 16; /* float32 of the same value */
      for (size_t b = 0; b < out_size; b++) block[n * out_size + b] = (uint8_t)(bits >> 8 * b);
    }
    if (!output_write(file, block, n * out_size, error)) return false;
  }
  return true;
}

bool npy_write(output_file *file, npy_type type, int rank, const int64_t *shape, const void *data,
               cli_error *error) {
  char header[NPY_MAX_RANK * 24 + 192];
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  size_t length = format_header(type, rank, shape, header, sizeof header);
  if (!output_write(file, header, length, error)) return false;
  const uint16_t one = 1;
  bool little = *(const uint8_t *)&one == 1;
  if (!little || type == NPY_BF16) return write_converted(file, type, data, count, error);
  return output_write(file, data, (size_t)count * npy_type_size(type), error);
}
