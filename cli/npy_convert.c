/* SPDX-License-Identifier: Apache-2.0 */
/* The array of an .npy file: from what lies in the file to what a caller wants. */
#include <inttypes.h>
#include <string.h>

#include "npy.h"
#include "tensor.h"

static bool is_real(npy_type type) {
  return type == NPY_F32 || type == NPY_F16 || type == NPY_BF16 || type == NPY_F64;
}

bool npy_convertible(const npy_header *header, npy_type to, cli_error *error) {
  npy_type from = header->type;
  bool possible = from == NPY_VOID2 ? to == NPY_BF16 : is_real(to) || !is_real(from);
  if (possible) return true;
  return cli_error_set(error, "array of %s given where %s is wanted%s", npy_type_name(from),
                       npy_type_name(to),
                       from == NPY_VOID2 ? "; V2 is read as bfloat16, where that is wanted" : "");
}

uint64_t npy_load_bits(const uint8_t *bytes, size_t size, bool swapped) {
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

/* A double close enough to the magnitude that rounding it again, to fewer digits, goes as it would for the magnitude: what
   does not fit is folded into the last bit. */
static double round_to_odd(uint64_t magnitude) {
  if (magnitude < UINT64_C(1) << 53) return (double)magnitude;
  return 0x1p11 * (double)(magnitude >> 11 | ((magnitude & 0x7FF) != 0));
}

static void store_whole_as_real(npy_type type, whole value, void *element) {
  double d = type == NPY_F64 ? (double)value.magnitude : round_to_odd(value.magnitude);
  store_real(type, value.negative ? -d : d, element);
}

static bool is_signed(npy_type type) { return type >= NPY_I8 && type <= NPY_I64; }

static bool store_whole(npy_type type, whole value, void *element) {
  size_t size = npy_type_size(type);
  if (value.negative && !is_signed(type)) return false;
  uint64_t limit = type == NPY_BOOL ? 1 : UINT64_MAX >> (64 - 8 * size);
  if (is_signed(type)) limit = limit / 2 + value.negative;
  if (value.magnitude > limit) return false;
  uint64_t bits = value.negative ? 0 - value.magnitude : value.magnitude;
  uint8_t u8 = (uint8_t)bits;
  uint16_t u16 = (uint16_t)bits;
  uint32_t u32 = (uint32_t)bits;
  switch (size) {
  case 1:
    memcpy(element, &u8, 1);
    break;
  case 2:
    memcpy(element, &u16, 2);
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
  uint64_t bits = npy_load_bits(from, npy_type_size(type), header->swapped);
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

bool npy_is_plain(const npy_header *header, npy_type to) {
  bool same = header->type == to || (header->type == NPY_VOID2 && to == NPY_BF16);
  bool one_order = !header->fortran_order || header->rank < 2;
  return same && !header->swapped && one_order && to != NPY_BOOL;
}

bool npy_convert(const npy_header *header, const void *raw, npy_type to, void *converted,
                 cli_error *error) {
  if (!npy_convertible(header, to, error)) return false;
  if (header->count == 0) return true;
  if (npy_is_plain(header, to)) {
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
