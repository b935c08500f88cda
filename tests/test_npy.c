/* SPDX-License-Identifier: Apache-2.0
 * labels: valgrind
 */
/* .npy files: what is accepted, what is refused and how, conversions, and writing whole or not at all. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "npy.h"
#include "output.h"
#include "upconv/upconv.h"

/* ---- files made here */

enum { MAX_FILE = 4096 };

typedef struct image {
  uint8_t bytes[MAX_FILE];
  size_t size;
} image;

/* An .npy file of the version, with this dictionary and data. */
static image make_image(int major, const char *dictionary, const void *data, size_t size) {
  image file = {.size = 0};
  size_t text = strlen(dictionary), prefix = major == 1 ? 10 : 12;
  memcpy(file.bytes, "\x93NUMPY", 6);
  file.bytes[6] = (uint8_t)major;
  for (size_t i = 8; i < prefix; i++) file.bytes[i] = (uint8_t)(text >> 8 * (i - 8));
  memcpy(file.bytes + prefix, dictionary, text);
  if (size) memcpy(file.bytes + prefix + text, data, size);
  file.size = prefix + text + size;
  return file;
}

static bool parse(int major, const char *dictionary, npy_header *header, cli_error *error) {
  image file = make_image(major, dictionary, NULL, 0);
  return npy_parse_header(file.bytes, file.size, header, error);
}

/* A folder of its own for each test that writes. */
static char folder[64];

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/upconv-test-npy-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
}

static const char *in_folder(const char *name) {
  static char path[2][128];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

/* Names in the folder, "." and ".." excepted. */
static int count_files(void) {
  DIR *dir = opendir(folder);
  int count = 0;
  if (!CHECK(dir != NULL)) return -1;
  for (struct dirent *entry; (entry = readdir(dir));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(dir);
  return count;
}

static void remove_folder(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK_INT(system(command), 0);
}

static void write_file(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!CHECK(file != NULL)) return;
  CHECK_INT(fwrite(data, 1, size, file), size);
  CHECK_INT(fclose(file), 0);
}

static size_t read_file(const char *path, void *data, size_t capacity) {
  FILE *file = fopen(path, "rb");
  if (!CHECK(file != NULL)) return 0;
  size_t size = fread(data, 1, capacity, file);
  fclose(file);
  return size;
}

/* ---- headers */

static void accepts_headers(void) {
  static const struct {
    const char *text;
    npy_type type;
    bool fortran;
    int rank;
    int64_t shape[3];
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
       NPY_F32,
       false,
       2,
       {2, 3}},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", NPY_F32, true, 2, {2, 3}},
      {"{'shape': (7,), 'fortran_order': False, 'descr': '<f2'}", NPY_F16, false, 1, {7}},
      {"{ \"descr\" :\"|u1\" ,\"fortran_order\":False,\t\"shape\":( 1 , 2,\n3,)}",
       NPY_U8,
       false,
       3,
       {1, 2, 3}},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", NPY_F64, false, 0, {0}},
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5)}", NPY_I64, false, 2, {0, 5}},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (10L, 20L)}",
       NPY_I32,
       false,
       2,
       {10, 20}},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", NPY_BOOL, false, 1, {4}},
      {"{'descr': 'f4', 'fortran_order': False, 'shape': (4,)}", NPY_F32, false, 1, {4}},
      {"{'descr': '=i2', 'fortran_order': False, 'shape': (4,)}", NPY_I16, false, 1, {4}},
      {"{'descr': '<u8', 'fortran_order': False, 'shape': (4,)}", NPY_U64, false, 1, {4}},
      {"{'descr': 'bfloat16', 'fortran_order': False, 'shape': (4,)}", NPY_BF16, false, 1, {4}},
      {"{'descr': '<V2', 'fortran_order': False, 'shape': (4,)}", NPY_VOID2, false, 1, {4}},
      /* Empty, so that the other sizes may be anything. */
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9, 0)}",
       NPY_F32,
       false,
       3,
       {INT64_MAX, 9, 0}},
  };
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    for (int major = 1; major <= 3; major++) {
      npy_header header;
      cli_error error = {""};
      check_context("%s, version %d.0", cases[i].text, major);
      if (!CHECK_MSG(parse(major, cases[i].text, &header, &error), "%s", error.text)) continue;
      CHECK_INT(header.type, cases[i].type);
      CHECK_INT(header.fortran_order, cases[i].fortran);
      CHECK_INT(header.rank, cases[i].rank);
      CHECK(!header.swapped);
      int64_t count = 1;
      for (int axis = 0; axis < header.rank; axis++) {
        CHECK_INT(header.shape[axis], cases[i].shape[axis]);
        count = header.shape[axis] && count ? count * header.shape[axis] % INT64_MAX : 0;
      }
      CHECK_INT(header.count, count);
      CHECK_INT(header.data_size, header.count * (int64_t)npy_type_size(header.type));
      CHECK_INT(header.data_offset, (major == 1 ? 10 : 12) + (int64_t)strlen(cases[i].text));
    }
  }
}

#define DICTIONARY(descr, order, shape) \
  "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"

static void refuses_headers(void) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"  \n", "not a dictionary"},
      {"[]", "not a dictionary"},
      {"{}", "'descr' is missing"},
      {"{'descr': '<f4'}", "'fortran_order' is missing"},
      {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "missing behind a value"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "missing behind a value"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", "':' is missing"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "follows the dictionary"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}",
       "unknown key 'extra'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "occurs twice"},
      {"{1: '<f4'}", "string keys"},
      {"{'descr", "string keys"},
      {DICTIONARY("'<f4", "False", "(1,)"), "unknown descr"},
      {DICTIONARY("'\\x3cf4'", "False", "(1,)"), "descr is not a string"},
      {DICTIONARY("4", "False", "(1,)"), "descr is not a string"},
      {DICTIONARY("[('a', '<f4')]", "False", "(1,)"), "structured"},
      {DICTIONARY("'<c8'", "False", "(1,)"), "complex"},
      {DICTIONARY("'<c16'", "False", "(1,)"), "complex"},
      {DICTIONARY("'|O'", "False", "(1,)"), "Python objects"},
      {DICTIONARY("'|S5'", "False", "(1,)"), "strings"},
      {DICTIONARY("'<U5'", "False", "(1,)"), "strings"},
      {DICTIONARY("'<M8[ns]'", "False", "(1,)"), "dates"},
      {DICTIONARY("'<m8[s]'", "False", "(1,)"), "dates"},
      {DICTIONARY("'|V8'", "False", "(1,)"), "raw bytes"},
      {DICTIONARY("'<f16'", "False", "(1,)"), "long double"},
      {DICTIONARY("'<f3'", "False", "(1,)"), "unknown descr '<f3'"},
      {DICTIONARY("''", "False", "(1,)"), "unknown descr"},
      {DICTIONARY("'<'", "False", "(1,)"), "unknown descr"},
      {DICTIONARY("'<f4'", "false", "(1,)"), "True or False"},
      {DICTIONARY("'<f4'", "0", "(1,)"), "True or False"},
      {DICTIONARY("'<f4'", "False", "[1]"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(1)"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "1"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(1,,2)"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(,)"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(1 2)"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(1.5,)"), "not a tuple"},
      {DICTIONARY("'<f4'", "False", "(-1,)"), "negative"},
      {DICTIONARY("'<f4'", "False", "(007,)"), "starts with 0"},
      {DICTIONARY("'<f4'", "False", "(9223372036854775808,)"), "does not fit"},
      {DICTIONARY("'<f4'", "False", "(99999999999999999999999,)"), "does not fit"},
      {DICTIONARY("'<f4'", "False", "(4294967296, 4294967296)"), "multiply to more"},
      {DICTIONARY("'<f8'", "False", "(2305843009213693952,)"), "multiply to more"},
  };
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    npy_header header;
    cli_error error = {""};
    check_context("%s", cases[i].text);
    CHECK(!parse(1, cases[i].text, &header, &error));
    CHECK_MSG(strstr(error.text, cases[i].why), "says: %s", error.text);
  }
}

static void refuses_too_many_dimensions(void) {
  for (int rank = NPY_MAX_RANK; rank <= NPY_MAX_RANK + 1; rank++) {
    char shape[4 * NPY_MAX_RANK] = "", text[8 * NPY_MAX_RANK];
    for (int i = 0; i < rank; i++) memcpy(shape + 2 * i, "1,", 3);
    snprintf(text, sizeof text, DICTIONARY("'|u1'", "False", "(%s)"), shape);
    npy_header header;
    cli_error error = {""};
    bool parsed = parse(1, text, &header, &error);
    CHECK_INT(parsed, rank == NPY_MAX_RANK);
    if (parsed)
      CHECK_INT(header.rank, rank);
    else
      CHECK_MSG(strstr(error.text, "more than 64 sizes"), "says: %s", error.text);
  }
}

static void refuses_other_files(void) {
  npy_header header;
  cli_error error;
  CHECK(!npy_parse_header("", 0, &header, &error));
  CHECK_MSG(strstr(error.text, "not an .npy file"), "says: %s", error.text);
  CHECK(!npy_parse_header("PK\x03\x04 a zip file of some sort", 24, &header, &error));
  CHECK_MSG(strstr(error.text, "not an .npy file"), "says: %s", error.text);
  image file = make_image(1, DICTIONARY("'<f4'", "False", "(1,)"), NULL, 0);
  for (size_t size = 0; size < file.size; size++) /* cut off anywhere */
    CHECK(!npy_parse_header(file.bytes, size, &header, &error));
  file.bytes[6] = 4;
  CHECK(!npy_parse_header(file.bytes, file.size, &header, &error));
  CHECK_MSG(strstr(error.text, "version 4.0"), "says: %s", error.text);
  file = make_image(2, "{}", NULL, 0);
  memset(file.bytes + 8, 0xFF, 4);
  CHECK(!npy_parse_header(file.bytes, file.size, &header, &error));
  CHECK_MSG(strstr(error.text, "4294967295 bytes long"), "says: %s", error.text);
}

/* ---- conversions */

static void reverse(uint8_t *bytes, size_t size, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t b = 0; b < size / 2; b++) {
      uint8_t *x = &bytes[i * size + b], *y = &bytes[i * size + size - 1 - b], t = *x;
      *x = *y;
      *y = t;
    }
}

/* The raw bytes, in both byte orders, become `wanted`. */
static void check_conversion(npy_type from, const void *raw, npy_type to, const void *wanted,
                             int64_t count) {
  check_context("%s to %s", npy_type_name(from), npy_type_name(to));
  size_t size = npy_type_size(from);
  for (int swapped = 0; swapped < 2; swapped++) {
    npy_header header = {.type = from,
                         .swapped = swapped && size > 1,
                         .rank = 1,
                         .shape = {count},
                         .count = count,
                         .data_size = count * (int64_t)size};
    uint8_t bytes[256], got[256];
    cli_error error = {""};
    memcpy(bytes, raw, (size_t)header.data_size);
    if (header.swapped) reverse(bytes, size, (size_t)count);
    if (!CHECK_MSG(npy_convert(&header, bytes, to, got, &error), "%s", error.text)) continue;
    CHECK_INT(memcmp(got, wanted, (size_t)count * npy_type_size(to)), 0);
  }
}

static void converts_to_float(void) {
  const float f32[] = {0, -0.0f, 1, -2.5f, INFINITY, 3.4028234664e38f};
  check_conversion(NPY_F32, f32, NPY_F32, f32, 6);
  const double f64[] = {0, -0.0, 1, -2.5, 1e300, 3.4028234664e38};
  check_conversion(NPY_F64, f64, NPY_F32, f32, 6);
  const uint16_t f16[] = {0, 0x8000, 0x3C00, 0xC100, 0x7C00};
  check_conversion(NPY_F16, f16, NPY_F32, f32, 5);
  const uint16_t bf16[] = {0, 0x8000, 0x3F80, 0xC020, 0x7F80};
  check_conversion(NPY_BF16, bf16, NPY_F32, f32, 5);
  check_conversion(NPY_VOID2, bf16, NPY_BF16, bf16, 5);
  check_conversion(NPY_F32, f32, NPY_BF16, bf16, 5);
  check_conversion(NPY_F32, f32, NPY_F16, f16, 5);
  check_conversion(NPY_F64, f64, NPY_F16, f16, 5);
  const uint8_t truth[] = {0, 1, 2, 255};
  const float truth_f32[] = {0, 1, 1, 1};
  check_conversion(NPY_BOOL, truth, NPY_F32, truth_f32, 4);
}

static void converts_whole_numbers(void) {
  const int8_t i8[] = {0, 1, -1, 127, -128};
  const float small[] = {0, 1, -1, 127, -128};
  check_conversion(NPY_I8, i8, NPY_F32, small, 5);
  const int16_t i16[] = {0, 1, -1, 127, -128};
  check_conversion(NPY_I16, i16, NPY_F32, small, 5);
  const int32_t i32[] = {0, 1, -1, 127, -128};
  check_conversion(NPY_I32, i32, NPY_F32, small, 5);
  const int64_t i64[] = {0, 1, -1, 127, -128};
  check_conversion(NPY_I64, i64, NPY_F32, small, 5);
  check_conversion(NPY_I8, i8, NPY_I64, i64, 5);
  check_conversion(NPY_I64, i64, NPY_I8, i8, 5);
  check_conversion(NPY_I64, i64, NPY_I32, i32, 5);
  check_conversion(NPY_I32, i32, NPY_I16, i16, 5);
  const int64_t ends[] = {INT64_MIN, INT64_MAX};
  check_conversion(NPY_I64, ends, NPY_I64, ends, 2);
  const uint64_t large[] = {UINT64_MAX, 1};
  const float large_f32[] = {18446744073709551615.0f, 1};
  check_conversion(NPY_U64, large, NPY_F32, large_f32, 2);
  check_conversion(NPY_U64, large, NPY_U64, large, 2);
  /* Just above the middle between two floats; by way of a double it would land on the middle and go to even. */
  const int64_t tie[] = {(INT64_C(1) << 60) + (INT64_C(1) << 36) + 1};
  const float up[] = {0x1.000002p60f};
  check_conversion(NPY_I64, tie, NPY_F32, up, 1);
}

static void refuses_conversions(void) {
  static const struct {
    npy_type from, to;
    int64_t value;
    const char *why;
  } cases[] = {
      {NPY_F32, NPY_I64, 0, "float32 given where int64 is wanted"},
      {NPY_VOID2, NPY_F32, 0, "V2 is read as bfloat16"},
      {NPY_I64, NPY_I32, INT64_C(1) << 31, "2147483648 does not fit int32"},
      {NPY_I64, NPY_I32, -(INT64_C(1) << 31) - 1, "-2147483649 does not fit int32"},
      {NPY_I64, NPY_U8, 256, "256 does not fit uint8"},
      {NPY_I64, NPY_U8, -1, "-1 does not fit uint8"},
      {NPY_I64, NPY_BOOL, 2, "2 does not fit bool"},
      {NPY_U64, NPY_I64, -1, "18446744073709551615 does not fit int64"},
      {NPY_I64, NPY_I8, 128, "128 does not fit int8"},
  };
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    npy_header header = {.type = cases[i].from,
                         .rank = 0,
                         .count = 1,
                         .data_size = (int64_t)npy_type_size(cases[i].from)};
    uint8_t got[8];
    cli_error error = {""};
    check_context("%s", cases[i].why);
    CHECK(!npy_convert(&header, &cases[i].value, cases[i].to, got, &error));
    CHECK_MSG(strstr(error.text, cases[i].why), "says: %s", error.text);
  }
}

/* Element (a, b, c) holds 100 a + 10 b + c; in Fortran order the first axis is the fastest. */
static void turns_fortran_order(void) {
  enum { A = 2, B = 3, C = 4 };
  float raw[A * B * C], got[A * B * C];
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++)
      for (int c = 0; c < C; c++) raw[a + A * (b + B * c)] = (float)(100 * a + 10 * b + c);
  npy_header header = {.type = NPY_F32,
                       .fortran_order = true,
                       .rank = 3,
                       .shape = {A, B, C},
                       .count = A * B * C,
                       .data_size = sizeof raw};
  cli_error error;
  CHECK(npy_convert(&header, raw, NPY_F32, got, &error));
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++)
      for (int c = 0; c < C; c++) CHECK_INT(got[(a * B + b) * C + c], 100 * a + 10 * b + c);
}

/* ---- files */

static void reads_files(void) {
  make_folder();
  const float values[] = {1, 2, 3, 4, 5, 6};
  image file = make_image(1, DICTIONARY("'<f4'", "True", "(2, 3)"), values, sizeof values);
  memcpy(file.bytes + file.size, "behind", 6); /* ignored, as NumPy does */
  write_file(in_folder("x.npy"), file.bytes, file.size + 6);
  npy_array array;
  cli_error error = {""};
  if (CHECK_MSG(npy_read(in_folder("x.npy"), NPY_F32, &array, &error), "%s", error.text)) {
    const float wanted[] = {1, 3, 5, 2, 4, 6};
    CHECK_INT(array.rank, 2);
    CHECK_INT(array.shape[0], 2);
    CHECK_INT(array.shape[1], 3);
    const float *got = array.data;
    for (int i = 0; i < 6; i++) CHECK_NEAR(got[i], wanted[i], 0);
    npy_free(&array);
  }
  for (size_t size = 0; size < file.size; size++) { /* cut off anywhere */
    write_file(in_folder("cut.npy"), file.bytes, size);
    bool read = npy_read(in_folder("cut.npy"), NPY_F32, &array, &error);
    if (!CHECK_MSG(!read, "%zu bytes of %zu", size, file.size)) npy_free(&array);
    CHECK(strncmp(error.text, folder, strlen(folder)) == 0);
  }
  CHECK_MSG(strstr(error.text, "24 bytes of array, 23 are there"), "says: %s", error.text);
  CHECK(!npy_read(in_folder("missing.npy"), NPY_F32, &array, &error));
  CHECK_MSG(strstr(error.text, "missing.npy: No such file"), "says: %s", error.text);
  CHECK(!npy_read(folder, NPY_F32, &array, &error));
  CHECK_MSG(strstr(error.text, "Is a directory"), "says: %s", error.text);
  remove_folder();
}

/* A header that promises far more than the machine has must not make us ask for it. */
static void refuses_huge_files(void) {
  make_folder();
  image file = make_image(1, DICTIONARY("'<f4'", "False", "(1099511627776, 1048575)"), NULL, 0);
  write_file(in_folder("huge.npy"), file.bytes, file.size);
  npy_array array;
  cli_error error = {""};
  CHECK(!npy_read(in_folder("huge.npy"), NPY_F32, &array, &error));
  CHECK_MSG(strstr(error.text, "is cut off"), "says: %s", error.text);
  int fds[2];
  if (CHECK_INT(pipe(fds), 0)) { /* a pipe has no size to compare with */
    CHECK_INT(write(fds[1], file.bytes, file.size), file.size);
    close(fds[1]);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
    CHECK(!npy_read(path, NPY_F32, &array, &error));
    CHECK_MSG(strstr(error.text, "is cut off"), "says: %s", error.text);
    close(fds[0]);
  }
  remove_folder();
}

static void reads_a_large_pipe(void) {
  enum { COUNT = 3 << 20 }; /* past the first steps of the growing buffer */
  int fds[2];
  if (!CHECK_INT(pipe(fds), 0)) return;
  pid_t child = fork();
  if (child == 0) {
    image head = make_image(1, DICTIONARY("'|u1'", "False", "(3145728,)"), NULL, 0);
    bool good = write(fds[1], head.bytes, head.size) == (ssize_t)head.size;
    uint8_t block[1 << 12];
    for (int i = 0; i < COUNT / (int)sizeof block && good; i++) {
      memset(block, i & 0xFF, sizeof block);
      good = write(fds[1], block, sizeof block) == (ssize_t)sizeof block;
    }
    _exit(good ? 0 : 1);
  }
  close(fds[1]);
  char path[32];
  snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
  npy_array array;
  cli_error error = {""};
  if (CHECK_MSG(npy_read(path, NPY_U8, &array, &error), "%s", error.text)) {
    CHECK_INT(array.count, COUNT);
    bool right = true;
    for (int i = 0; i < COUNT; i++) right = right && ((uint8_t *)array.data)[i] == (i >> 12 & 0xFF);
    CHECK(right);
    npy_free(&array);
  }
  close(fds[0]);
  int status;
  CHECK_INT(waitpid(child, &status, 0), child);
}

/* ---- writing */

static bool write_array(const char *path, npy_type type, int rank, const int64_t *shape,
                        const void *data, cli_error *error) {
  output_file file;
  if (!output_open(&file, path, error)) return false;
  bool good = npy_write(&file, type, rank, shape, data, error) && output_flush(&file, error) &&
              output_commit(&file, error);
  output_discard(&file);
  return good;
}

static void writes_what_it_reads(void) {
  make_folder();
  const char *path = in_folder("y.npy");
  static const npy_type types[] = {NPY_F32, NPY_F16, NPY_F64, NPY_BOOL, NPY_I8,  NPY_I16,
                                   NPY_I32, NPY_I64, NPY_U8,  NPY_U16,  NPY_U32, NPY_U64};
  static const int64_t shapes[][3] = {{2, 3, 4}, {0, 3, 1}, {24, 1, 1}};
  uint8_t data[24 * 8];
  for (size_t i = 0; i < sizeof data; i++) data[i] = i % 3 == 0; /* right for bool too */
  for (size_t t = 0; t < CHECK_COUNT(types); t++) {
    for (int rank = 0; rank <= 3; rank++) {
      for (size_t s = 0; s < CHECK_COUNT(shapes); s++) {
        check_context("%s of rank %d", npy_type_name(types[t]), rank);
        cli_error error = {""};
        npy_array array;
        int64_t count = 1;
        for (int i = 0; i < rank; i++) count *= shapes[s][i];
        if (!CHECK_MSG(write_array(path, types[t], rank, shapes[s], data, &error) &&
                           npy_read(path, types[t], &array, &error),
                       "%s", error.text))
          continue;
        CHECK_INT(array.rank, rank);
        CHECK_INT(array.count, count);
        CHECK_INT(memcmp(array.data, data, (size_t)count * npy_type_size(types[t])), 0);
        npy_free(&array);
      }
    }
  }
  CHECK_INT(count_files(), 1);
  remove_folder();
}

static void writes_numpy_s_bytes(void) {
  make_folder();
  const char *path = in_folder("y.npy");
  const uint16_t bf16[] = {0x3F80, 0xC020};
  const int64_t shape[] = {1, 2};
  cli_error error = {""};
  CHECK_MSG(write_array(path, NPY_BF16, 2, shape, bf16, &error), "%s", error.text);
  uint8_t got[256] = {0};
  CHECK_INT(read_file(path, got, sizeof got), 128 + 8);
  const char *head = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                     "'shape': (1, 2), }";
  CHECK_INT(memcmp(got, head, 10), 0); /* the text behind it has zeros in front of it */
  CHECK_INT(memcmp(got + 10, head + 10, strlen(head + 10)), 0);
  for (size_t i = 10 + strlen(head + 10); i < 127; i++) CHECK_INT(got[i], ' ');
  CHECK_INT(got[127], '\n');
  const uint8_t floats[] = {0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0};
  CHECK_INT(memcmp(got + 128, floats, 8), 0);
  remove_folder();
}

static void replaces_files(void) {
  make_folder();
  const char *path = in_folder("y.npy"), *link = in_folder("link.npy");
  const float value = 1;
  cli_error error = {""};
  write_file(path, "old", 3);
  CHECK_INT(chmod(path, 0640), 0);
  CHECK_INT(symlink("y.npy", link), 0);
  CHECK_MSG(write_array(link, NPY_F32, 0, NULL, &value, &error), "%s", error.text);
  struct stat info;
  CHECK_INT(lstat(link, &info), 0);
  CHECK(S_ISLNK(info.st_mode)); /* the file behind the link is what changed */
  CHECK_INT(stat(path, &info), 0);
  CHECK_INT(info.st_mode & 07777, 0640);
  CHECK_INT(info.st_size, 128 + 4);
  CHECK_INT(count_files(), 2);
  remove_folder();
}

static void leaves_nothing_behind(void) {
  make_folder();
  const char *path = in_folder("y.npy");
  output_file file;
  cli_error error = {""};
  write_file(path, "old", 3);
  CHECK_MSG(output_open(&file, path, &error), "%s", error.text);
  CHECK(output_write(&file, "new", 3, &error));
  CHECK_INT(count_files(), 2);
  output_discard(&file);
  CHECK_INT(count_files(), 1);
  char got[8];
  CHECK_INT(read_file(path, got, sizeof got), 3);
  CHECK_INT(memcmp(got, "old", 3), 0);
  output_discard(&file); /* twice does no harm */
  CHECK(!output_open(&file, folder, &error));
  CHECK_MSG(strstr(error.text, "Is a directory"), "says: %s", error.text);
  CHECK(!output_open(&file, in_folder("no/such/y.npy"), &error));
  CHECK_MSG(strstr(error.text, "No such file"), "says: %s", error.text);
  CHECK(!output_open(&file, in_folder("y.npy/y.npy"), &error));
  CHECK_MSG(strstr(error.text, "Not a directory"), "says: %s", error.text);
  CHECK_INT(count_files(), 1);
  remove_folder();
}

static void says_when_the_disk_is_full(void) {
  const float values[4096] = {0};
  cli_error error = {""};
  CHECK(!write_array("/dev/full", NPY_F32, 1, (const int64_t[]){4096}, values, &error));
  CHECK_MSG(strstr(error.text, "/dev/full: No space left"), "says: %s", error.text);
  struct stat info;
  CHECK_INT(stat("/dev/full", &info), 0);
  CHECK(S_ISCHR(info.st_mode)); /* not replaced by a file */
  CHECK_MSG(write_array("/dev/null", NPY_F32, 1, (const int64_t[]){4096}, values, &error), "%s",
            error.text);
  CHECK_INT(stat("/dev/null", &info), 0);
  CHECK(S_ISCHR(info.st_mode));
}

static void stops_at_a_file_size_limit(void) {
  make_folder();
  struct rlimit old, small;
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = (struct rlimit){4096, old.rlim_max};
  const float values[4096] = {0};
  cli_error error = {""};
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool written =
      write_array(in_folder("y.npy"), NPY_F32, 1, (const int64_t[]){4096}, values, &error);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), 0);
  CHECK(!written);
  CHECK_MSG(strstr(error.text, "y.npy: File too large"), "says: %s", error.text);
  CHECK_INT(count_files(), 0);
  remove_folder();
}

static void cleans_up_after_a_signal(void) {
  make_folder();
  const char *path = in_folder("y.npy");
  int ready[2];
  if (!CHECK_INT(pipe(ready), 0)) return;
  pid_t child = fork();
  if (child == 0) {
    output_file file;
    cli_error error;
    bool open = output_open(&file, path, &error) && output_write(&file, "new", 3, &error);
    if (write(ready[1], open ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 0;
  CHECK_INT(read(ready[0], &answer, 1), 1);
  CHECK_INT(answer, 'y');
  CHECK_INT(count_files(), 1);
  CHECK_INT(kill(child, SIGTERM), 0);
  int status = 0;
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK_INT(count_files(), 0);
  close(ready[0]);
  close(ready[1]);
  remove_folder();
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"accepts_headers", accepts_headers},
      {"refuses_headers", refuses_headers},
      {"refuses_too_many_dimensions", refuses_too_many_dimensions},
      {"refuses_other_files", refuses_other_files},
      {"converts_to_float", converts_to_float},
      {"converts_whole_numbers", converts_whole_numbers},
      {"refuses_conversions", refuses_conversions},
      {"turns_fortran_order", turns_fortran_order},
      {"reads_files", reads_files},
      {"refuses_huge_files", refuses_huge_files},
      {"reads_a_large_pipe", reads_a_large_pipe},
      {"writes_what_it_reads", writes_what_it_reads},
      {"writes_numpy_s_bytes", writes_numpy_s_bytes},
      {"replaces_files", replaces_files},
      {"leaves_nothing_behind", leaves_nothing_behind},
      {"says_when_the_disk_is_full", says_when_the_disk_is_full},
      {"stops_at_a_file_size_limit", stops_at_a_file_size_limit},
      {"cleans_up_after_a_signal", cleans_up_after_a_signal},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
