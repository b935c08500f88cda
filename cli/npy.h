/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy files, format versions 1.0, 2.0 and 3.0: arrays of numbers and bool, either byte order, C or Fortran order.
 *
 * Reading is strict: the header must be a Python dictionary of exactly the keys descr, fortran_order and shape; what it
 * promises is compared with the size of the file before anything is allocated. Bytes behind the array are ignored, as
 * NumPy does. bfloat16, which NumPy does not know, is read from the descr 'bfloat16', and from the two raw bytes 'V2'
 * that ml_dtypes writes if bfloat16 is what the caller asks for. Complex, object, string, date, float128 and structured
 * arrays are refused by name.
 */
#ifndef UPCONV_CLI_NPY_H
#define UPCONV_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "output.h"

typedef enum npy_type {
  NPY_F32 = 0,
  NPY_F16,
  NPY_BF16,
  NPY_F64,
  NPY_BOOL,
  NPY_I8,
  NPY_I16,
  NPY_I32,
  NPY_I64,
  NPY_U8,
  NPY_U16,
  NPY_U32,
  NPY_U64,
  NPY_VOID2, /* two bytes of something: bfloat16, if that is what is wanted */
  NPY_TYPE_COUNT
} npy_type;

enum { NPY_MAX_RANK = 64 };

typedef struct npy_header {
  npy_type type;
  bool swapped; /* the other byte order than this machine's */
  bool fortran_order;
  int rank;
  int64_t shape[NPY_MAX_RANK];
  int64_t count;       /* of elements */
  int64_t data_offset; /* bytes before the array */
  int64_t data_size;   /* bytes of the array */
} npy_header;

size_t npy_type_size(npy_type type);
const char *npy_type_name(npy_type type); /* NumPy's: "float32" */
const char *
npy_type_code(npy_type type); /* of a descr, without the byte order: "f4"; "" for BF16 */

/* Bytes from the start of a file that hold its header. 0 and a message when it is no .npy file of a known version, or
   when fewer than NPY_PREFIX bytes of it, or of the file, are given. */
enum { NPY_PREFIX = 12 };
size_t npy_header_size(const void *bytes, size_t size, cli_error *error);

/* Parses the header; size >= npy_header_size(bytes). The array itself need not follow. */
bool npy_parse_header(const void *bytes, size_t size, npy_header *header, cli_error *error);

/* True if npy_convert can make `to` of it: any number becomes a floating point number, whole numbers and bool also
   become whole numbers. Else a message says what is wrong. */
bool npy_convertible(const npy_header *header, npy_type to, cli_error *error);

/*
 * Converts the raw array to type `to`, any but VOID2, in C order and this machine's byte order.
 * Floating point numbers are rounded to the nearest, ties to even. A whole number that `to` cannot hold is an error.
 */
bool npy_convert(const npy_header *header, const void *raw, npy_type to, void *converted,
                 cli_error *error);

/* True if the raw array is what npy_convert would make of it. */
bool npy_is_plain(const npy_header *header, npy_type to);

/* An element of 1, 2, 4 or 8 bytes as the bits of a whole number. */
uint64_t npy_load_bits(const uint8_t *bytes, size_t size, bool swapped);

/* An array in memory, C order. data is freed by npy_free. */
typedef struct npy_array {
  npy_type type;
  int rank;
  int64_t shape[NPY_MAX_RANK];
  int64_t count;
  void *data;
} npy_array;

/* Reads a file and converts to `to`. The message names the file. */
bool npy_read(const char *path, npy_type to, npy_array *array, cli_error *error);
void npy_free(npy_array *array);

/* Writes header and data, version 1.0, in C order and little endian. bfloat16 is written as float32. */
bool npy_write(output_file *file, npy_type type, int rank, const int64_t *shape, const void *data,
               cli_error *error);

#endif
