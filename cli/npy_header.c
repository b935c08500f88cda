/* SPDX-License-Identifier: Apache-2.0 */
/* The header of an .npy file: a prefix of fixed bytes, then a Python dictionary as text. */
#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "npy.h"

static const struct {
  const char *name, *code; /* code: the descr without its byte order */
  size_t size;
} types[NPY_TYPE_COUNT] = {
    [NPY_F32] = {"float32", "f4", 4}, [NPY_F16] = {"float16", "f2", 2},
    [NPY_BF16] = {"bfloat16", "", 2}, [NPY_F64] = {"float64", "f8", 8},
    [NPY_BOOL] = {"bool", "b1", 1},   [NPY_I8] = {"int8", "i1", 1},
    [NPY_I16] = {"int16", "i2", 2},   [NPY_I32] = {"int32", "i4", 4},
    [NPY_I64] = {"int64", "i8", 8},   [NPY_U8] = {"uint8", "u1", 1},
    [NPY_U16] = {"uint16", "u2", 2},  [NPY_U32] = {"uint32", "u4", 4},
    [NPY_U64] = {"uint64", "u8", 8},  [NPY_VOID2] = {"2 raw bytes (V2)", "V2", 2},
};

size_t npy_type_size(npy_type type) { return types[type].size; }
const char *npy_type_name(npy_type type) { return types[type].name; }
const char *npy_type_code(npy_type type) { return types[type].code; }

static bool host_is_little_endian(void) {
  const uint16_t one = 1;
  uint8_t first;
  memcpy(&first, &one, 1);
  return first == 1;
}

/* ---- the text: a cursor over the dictionary */

typedef struct cursor {
  const char *at, *end;
  cli_error *error;
} cursor;

static bool fail(cursor *c, const char *what) {
  return cli_error_set(c->error, "bad .npy header: %s", what);
}

static void skip_blanks(cursor *c) {
  while (c->at < c->end && *c->at && strchr(" \t\r\n\f", *c->at)) c->at++;
}

/* Takes the character if it comes next, after blanks. */
static bool take(cursor *c, char wanted) {
  skip_blanks(c);
  if (c->at >= c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

/* A string without escapes; NumPy needs none. */
static bool read_string(cursor *c, const char **start, size_t *length) {
  skip_blanks(c);
  char quote = c->at < c->end ? *c->at : 0;
  if (quote != '\'' && quote != '"') return false;
  *start = ++c->at;
  while (c->at < c->end && *c->at != quote) {
    if (*c->at == '\\' || *c->at == '\n') return false;
    c->at++;
  }
  if (c->at >= c->end) return false;
  *length = (size_t)(c->at++ - *start);
  return true;
}

/* A size: digits, and the L that Python 2 wrote behind them. */
static bool read_size(cursor *c, int64_t *size) {
  skip_blanks(c);
  const char *start = c->at;
  int64_t value = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    if (!uc_mul(value, 10, &value) || !uc_add(value, *c->at - '0', &value))
      return fail(c, "a size in shape does not fit 64 bits");
  }
  if (c->at == start) {
    if (c->at < c->end && *c->at == '-') return fail(c, "a size in shape is negative");
    return fail(c, "shape is not a tuple of whole numbers");
  }
  if (*start == '0' && c->at - start > 1) return fail(c, "a size in shape starts with 0");
  if (c->at < c->end && *c->at == 'L') c->at++;
  *size = value;
  return true;
}

/* "()" or "(3,)" or "(3, 4)" or "(3, 4,)"; "(3)" is no tuple. */
static bool read_shape(cursor *c, npy_header *header) {
  if (!take(c, '(')) return fail(c, "shape is not a tuple of whole numbers");
  header->rank = 0;
  bool comma = true;
  while (!take(c, ')')) {
    if (!comma) return fail(c, "shape is not a tuple of whole numbers");
    if (header->rank == NPY_MAX_RANK)
      return cli_error_set(c->error, "bad .npy header: shape has more than %d sizes", NPY_MAX_RANK);
    if (!read_size(c, &header->shape[header->rank++])) return false;
    comma = take(c, ',');
  }
  if (header->rank == 1 && !comma) return fail(c, "shape is a number, not a tuple");
  return true;
}

static bool read_bool(cursor *c, bool *value) {
  static const char *const words[] = {"False", "True"};
  skip_blanks(c);
  for (int i = 0; i < 2; i++) {
    size_t length = strlen(words[i]);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, words[i], length) != 0) continue;
    c->at += length;
    *value = i == 1;
    return true;
  }
  return fail(c, "fortran_order is not True or False");
}

/* ---- descr */

/* What we refuse, in words. */
static const char *refused_kind(const char *code, size_t length) {
  switch (length ? code[0] : 0) {
  case 'c':
    return "complex numbers";
  case 'O':
    return "Python objects";
  case 'S':
  case 'a':
  case 'U':
    return "strings";
  case 'm':
  case 'M':
    return "dates and times";
  case 'V':
    return "raw bytes";
  case 'f':
    return length > 1 && code[1] == '1' ? "long double numbers" : NULL;
  default:
    return NULL;
  }
}

static bool has_text(const char *text, size_t length, const char *wanted) {
  return strlen(wanted) == length && memcmp(text, wanted, length) == 0;
}

static bool read_descr(cursor *c, npy_header *header) {
  if (take(c, '[')) return fail(c, "structured arrays (descr is a list) are not supported");
  const char *descr;
  size_t length;
  if (!read_string(c, &descr, &length)) return fail(c, "descr is not a string");
  int shown = length < 40 ? (int)length : 40;
  bool little = host_is_little_endian();
  if (has_text(descr, length, "bfloat16")) {
    header->type = NPY_BF16;
    header->swapped = !little;
    return true;
  }
  const char *code = descr;
  bool file_is_little = little; /* '=' and '|', and nothing: this machine's order, as in NumPy */
  if (length && strchr("<>=|", descr[0])) {
    if (descr[0] == '<' || descr[0] == '>') file_is_little = descr[0] == '<';
    code++;
    length--;
  }
  for (int i = 0; i < NPY_TYPE_COUNT; i++) {
    if (!*types[i].code || !has_text(code, length, types[i].code)) continue;
    header->type = (npy_type)i;
    header->swapped = types[i].size > 1 && file_is_little != little;
    return true;
  }
  const char *kind = refused_kind(code, length);
  if (kind)
    return cli_error_set(c->error, ".npy array of %s (descr '%.*s') is not supported", kind, shown,
                         descr);
  return cli_error_set(c->error, "bad .npy header: unknown descr '%.*s'", shown, descr);
}

/* ---- the dictionary */

static bool read_entry(cursor *c, npy_header *header, unsigned *seen) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  const char *key;
  size_t length;
  if (!read_string(c, &key, &length)) return fail(c, "it is not a dictionary with string keys");
  int which = 0;
  while (which < 3 && !has_text(key, length, keys[which])) which++;
  int shown = length < 40 ? (int)length : 40;
  if (which == 3) return cli_error_set(c->error, "bad .npy header: unknown key '%.*s'", shown, key);
  if (*seen & 1u << which)
    return cli_error_set(c->error, "bad .npy header: key '%s' occurs twice", keys[which]);
  *seen |= 1u << which;
  if (!take(c, ':')) return fail(c, "':' is missing behind a key");
  if (which == 0) return read_descr(c, header);
  if (which == 1) return read_bool(c, &header->fortran_order);
  return read_shape(c, header);
}

static bool read_dictionary(cursor *c, npy_header *header) {
  unsigned seen = 0;
  if (!take(c, '{')) return fail(c, "it is not a dictionary");
  bool comma = true;
  while (!take(c, '}')) {
    if (!comma) return fail(c, "',' or '}' is missing behind a value");
    if (!read_entry(c, header, &seen)) return false;
    comma = take(c, ',');
  }
  skip_blanks(c);
  if (c->at < c->end) return fail(c, "something follows the dictionary");
  if (!(seen & 1u)) return fail(c, "the key 'descr' is missing");
  if (!(seen & 2u)) return fail(c, "the key 'fortran_order' is missing");
  if (!(seen & 4u)) return fail(c, "the key 'shape' is missing");
  return true;
}

/* ---- the prefix */

size_t npy_header_size(const void *bytes, size_t size, cli_error *error) {
  enum { LONGEST = 1 << 20 }; /* a header of more than a few hundred bytes is no array of numbers */
  const uint8_t *b = bytes;
  if (size < NPY_PREFIX || memcmp(b, "\x93NUMPY", 6) != 0) {
    cli_error_set(error,
                  size < NPY_PREFIX && (size < 6 || memcmp(b, "\x93NUMPY", 6) == 0)
                      ? "not an .npy file, or cut off: it has only %zu bytes"
                      : "not an .npy file: it does not start with \\x93NUMPY",
                  size);
    return 0;
  }
  int major = b[6], minor = b[7];
  if (major < 1 || major > 3 || minor != 0) {
    cli_error_set(error, ".npy format version %d.%d is not supported (1.0, 2.0 and 3.0 are)", major,
                  minor);
    return 0;
  }
  size_t text = (size_t)b[8] | (size_t)b[9] << 8;
  if (major > 1) text |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  if (text > LONGEST) {
    cli_error_set(error, "bad .npy header: it is %zu bytes long", text);
    return 0;
  }
  return (major > 1 ? 12u : 10u) + text;
}

bool npy_parse_header(const void *bytes, size_t size, npy_header *header, cli_error *error) {
  size_t end = npy_header_size(bytes, size, error);
  if (end == 0) return false;
  if (size < end)
    return cli_error_set(error, ".npy file is cut off inside its header: %zu bytes of %zu", size,
                         end);
  *header = (npy_header){.data_offset = (int64_t)end};
  const uint8_t *b = bytes;
  const char *text = (const char *)bytes + (b[6] > 1 ? 12 : 10);
  cursor c = {text, (const char *)bytes + end, error};
  if (!read_dictionary(&c, header)) return false;
  if (!uc_product(header->shape, header->rank, &header->count) ||
      !uc_mul(header->count, (int64_t)npy_type_size(header->type), &header->data_size))
    return cli_error_set(error,
                         "bad .npy header: the sizes in shape multiply to more than 2^63 bytes");
  return true;
}
