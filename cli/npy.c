/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files: reading and writing. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
  if (!read_header(fd, &header, error) || !npy_convertible(&header, to, error)) return false;
  uint8_t *raw = read_raw(fd, &header, error);
  if (!raw) return false;
  *array = (npy_array){.type = to, .rank = header.rank, .count = header.count};
  memcpy(array->shape, header.shape, sizeof array->shape);
  if (npy_is_plain(&header, to)) {
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
  const char *code = npy_type_code(type == NPY_BF16 ? NPY_F32 : type);
  char order = npy_type_size(type) == 1 ? '|' : '<';
  size_t length = (size_t)snprintf(
      text, size, "\x93NUMPY%c%c__{'descr': '%c%s', 'fortran_order': False, 'shape': (", 1, 0,
      order, code);
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
      uint64_t bits = npy_load_bits(from, size, false);
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
