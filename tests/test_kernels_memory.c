/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that move data, every instruction set that this machine runs: exact element sets,
 * strides, data types.
 */
// labels: valgrind

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/isa.h"
#include "edge.h"
#include "tensor.h"

static const upconv_dtype dtypes[] = {UPCONV_F32, UPCONV_F16, UPCONV_BF16};

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Two NaNs are equal whatever their payload. */
static bool same_bits(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }

static size_t padded(int64_t n) { return (size_t)((n + UC_PAD - 1) / UC_PAD * UC_PAD); }

static size_t bytes_of(upconv_dtype dtype, int64_t n) {
  return (size_t)n * upconv_dtype_size(dtype);
}

/* A number that every data type holds, different for neighbours; no 0, so that a byte left 0 is
   noticed. */
static float number(int64_t i) { return (float)(i % 127 + 1) * (i & 64 ? -1.0f : 1.0f); }

static void fill_typed(void *data, upconv_dtype dtype, int64_t n) {
  for (int64_t i = 0; i < n; i++) uc_store(data, dtype, i, (double)number(i));
}

/* Values of a row of memory of one data type that ends at a forbidden page. */
typedef struct memory {
  void *data;
  upconv_dtype dtype;
  int64_t n;
} memory;

static memory memory_new(upconv_dtype dtype, int64_t n) {
  return (memory){edge_alloc(bytes_of(dtype, n)), dtype, n};
}

static void memory_free(memory m) { edge_free(m.data, bytes_of(m.dtype, m.n)); }

/* ---- conversions ---- */

static void every_f16_and_bf16_to_float(void) {
  enum { ALL = 65536 };
  static uint16_t half[ALL];
  static float got[ALL];
  for (int i = 0; i < ALL; i++) half[i] = (uint16_t)i;
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++) {
    isa->load_row(got, half, UPCONV_F16, 1, ALL);
    for (int i = 0; i < ALL; i++) CHECK(same_bits(got[i], uc_f16_to_f32((uint16_t)i)));
    isa->load_row(got, half, UPCONV_BF16, 1, ALL);
    for (int i = 0; i < ALL; i++) CHECK(same_bits(got[i], uc_bf16_to_f32((uint16_t)i)));
  }
}

enum { BLOCK = 4096 };

static void check_store(const float *x, upconv_dtype dtype, uint16_t (*right)(float)) {
  static uint16_t wanted[BLOCK], got[BLOCK];
  for (int i = 0; i < BLOCK; i++) wanted[i] = right(x[i]);
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++) {
    isa->store_row(got, dtype, 1, x, BLOCK);
    if (CHECK(memcmp(got, wanted, sizeof got) == 0)) continue;
    for (int i = 0; i < BLOCK; i++)
      CHECK_MSG(got[i] == wanted[i], "%s, %s: %08x gives %04x, not %04x", isa->name,
                upconv_dtype_name(dtype), bits_of(x[i]), got[i], wanted[i]);
  }
}

/* Every place where the rounding changes: around each 16-bit number, and around the middle between
   it and the next. */
static void every_rounding(upconv_dtype dtype, float (*widen)(uint16_t), uint16_t (*right)(float)) {
  static float x[BLOCK];
  int n = 0;
  for (uint32_t h = 0; h < 65536; h++) {
    uint32_t here = bits_of(widen((uint16_t)h)), next = bits_of(widen((uint16_t)(h + 1)));
    uint32_t middle = here + (next - here) / 2;
    if ((int32_t)(next - here) < 0) middle = here + 0x1000;
    for (uint32_t d = 0; d < 3; d++) {
      x[n++] = float_of(here + d - 1);
      x[n++] = float_of(middle + d - 1);
    }
    if (n + 6 <= BLOCK && h < 65535) continue;
    while (n < BLOCK) x[n++] = 0;
    check_store(x, dtype, right);
    n = 0;
  }
}

static void every_float_to_f16_and_bf16(void) {
  every_rounding(UPCONV_F16, uc_f16_to_f32, uc_f32_to_f16);
  every_rounding(UPCONV_BF16, uc_bf16_to_f32, uc_f32_to_bf16);
  static float x[BLOCK];
  for (uint64_t bits = 0; bits >> 32 == 0;) {
    for (int i = 0; i < BLOCK; i++, bits += 2053) x[i] = float_of((uint32_t)bits);
    check_store(x, UPCONV_F16, uc_f32_to_f16);
    check_store(x, UPCONV_BF16, uc_f32_to_bf16);
  }
}

/* ---- rows ---- */

static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 100};
static const int64_t strides[] = {1, 2, 3, 5, -1, -2, 0};

/* Elements from the lowest to the highest that a row reaches, and where its first lies. */
static int64_t reach(int64_t n, int64_t stride) { return (n - 1) * llabs(stride) + 1; }
static int64_t first_of(int64_t n, int64_t stride) { return stride < 0 ? (n - 1) * -stride : 0; }

static void check_load_row(const uc_isa *isa, upconv_dtype dtype, int64_t stride, int64_t n) {
  memory m = memory_new(dtype, reach(n, stride));
  fill_typed(m.data, dtype, m.n);
  float *dst = check_alloc(padded(n) * sizeof *dst, 0);
  int64_t first = first_of(n, stride);
  isa->load_row(dst, (char *)m.data + bytes_of(dtype, first), dtype, stride, n);
  for (int64_t i = 0; i < n; i++)
    CHECK_MSG(dst[i] == number(first + i * stride), "%s, %s, stride %d: element %d of %d",
              isa->name, upconv_dtype_name(dtype), (int)stride, (int)i, (int)n);
  CHECK_FREE(dst);
  memory_free(m);
}

/* Written elements are right, and all others keep their bytes. */
static void check_store_row(const uc_isa *isa, upconv_dtype dtype, int64_t stride, int64_t n) {
  memory m = memory_new(dtype, reach(n, stride)), wanted = memory_new(dtype, reach(n, stride));
  memset(m.data, CHECK_POISON, bytes_of(dtype, m.n));
  memset(wanted.data, CHECK_POISON, bytes_of(dtype, m.n));
  float *src = edge_alloc(padded(n) * sizeof *src);
  int64_t first = first_of(n, stride);
  for (int64_t i = 0; i < n; i++) {
    src[i] = number(i);
    uc_store(wanted.data, dtype, first + i * stride, (double)number(i));
  }
  isa->store_row((char *)m.data + bytes_of(dtype, first), dtype, stride, src, n);
  CHECK_MSG(memcmp(m.data, wanted.data, bytes_of(dtype, m.n)) == 0, "%s, %s, stride %d, n %d",
            isa->name, upconv_dtype_name(dtype), (int)stride, (int)n);
  edge_free(src, padded(n) * sizeof *src);
  memory_free(m);
  memory_free(wanted);
}

/* Past the caches: the same, from any element of a line on. */
static void check_stream_row(const uc_isa *isa, int64_t before, int64_t n) {
  memory m = memory_new(UPCONV_F32, before + n), wanted = memory_new(UPCONV_F32, before + n);
  memset(m.data, CHECK_POISON, bytes_of(UPCONV_F32, m.n));
  memset(wanted.data, CHECK_POISON, bytes_of(UPCONV_F32, m.n));
  float *src = edge_alloc(padded(n) * sizeof *src);
  for (int64_t i = 0; i < n; i++) {
    src[i] = number(i);
    uc_store(wanted.data, UPCONV_F32, before + i, (double)number(i));
  }
  isa->stream_row((float *)(void *)m.data + before, src, n);
  isa->stream_end();
  CHECK_MSG(memcmp(m.data, wanted.data, bytes_of(UPCONV_F32, m.n)) == 0, "%s, n %d from %d on",
            isa->name, (int)n, (int)before);
  edge_free(src, padded(n) * sizeof *src);
  memory_free(m);
  memory_free(wanted);
}

static void rows_past_the_caches(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t before = 0; before < 20; before += before < 3 ? 1 : 4)
      for (size_t l = 0; l < CHECK_COUNT(lengths); l++) check_stream_row(isa, before, lengths[l]);
}

/* ---- planes ---- */

static const int64_t plane_lengths[] = {1, 2, 5, 8, 15, 16, 17, 31, 33, 48, 96, 100};

/* Zeros around what is read, which ends where memory ends; what may be junk lies beyond the last row alone. */
static void check_load_plane(const uc_isa *isa, int64_t n, int64_t begin, int64_t end,
                             int64_t gap) {
  enum { ROWS = 3 };
  int64_t dst_row = n + gap, count = end - begin, src_row = count + 3;
  size_t src_bytes = (size_t)((ROWS - 1) * src_row + count) * sizeof(float);
  float *src = edge_alloc(src_bytes);
  for (size_t i = 0; i < src_bytes / sizeof *src; i++) src[i] = number((int64_t)i);
  float *dst = check_alloc((size_t)(ROWS * dst_row + UC_PAD) * sizeof *dst, 0);
  isa->load_plane(&(uc_plane_load){dst, src, dst_row, src_row, ROWS, begin, end, n});
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t i = 0; i < n; i++)
      CHECK_MSG(dst[r * dst_row + i] ==
                    (i >= begin && i < end ? number(r * src_row + i - begin) : 0.0F),
                "%s: element %d of row %d, [%d, %d) of %d", isa->name, (int)i, (int)r, (int)begin,
                (int)end, (int)n);
  CHECK_FREE(dst);
  edge_free(src, src_bytes);
}

static void loading_planes(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t l = 0; l < CHECK_COUNT(plane_lengths); l++)
      for (int64_t begin = 0; begin < 3; begin++)
        for (int64_t end = plane_lengths[l]; end > plane_lengths[l] - 3 && end > begin; end--)
          for (int64_t gap = 0; gap < 30; gap += 13)
            check_load_plane(isa, plane_lengths[l], begin, end, gap);
}

/* As store_planes past the caches, but lines a few at a time. */
static void store_by_lines(const uc_isa *isa, const uc_plane_store *p) {
  uc_line_run run[64];
  uc_drain drain = {.next = run,
                    .end = run + isa->list_lines(p, run),
                    .n = p->n,
                    .row = p->row,
                    .rows = p->rows,
                    .plane = p->plane,
                    .residue = p->split == 2 ? p->residue : 0};
  for (int64_t lines = 0; drain.now.lines > 0 || drain.next != drain.end; lines = lines % 3 + 1)
    isa->drain(&drain, lines);
}

/* The rows are right, what lies before, between and behind them keeps its bytes; p: all but where they lie. */
static bool check_store_planes(const uc_isa *isa, uc_plane_store p, int64_t before, bool lines) {
  int64_t positions = (p.n + p.split - 1) / p.split;
  p.row = positions + 3;
  p.plane = p.rows * p.row + 2;
  p.residue = p.planes * p.plane + 7;
  size_t src_bytes = (size_t)(p.split * p.residue + UC_PAD) * sizeof(float);
  float *src = edge_alloc(src_bytes);
  for (size_t i = 0; i < src_bytes / sizeof *src; i++) src[i] = number((int64_t)i);
  int64_t size = (before + p.planes * p.dst_plane + 35) / 16 *
                 16; /* it begins at a line, as it ends at a page */
  memory m = memory_new(UPCONV_F32, size), wanted = memory_new(UPCONV_F32, size);
  memset(m.data, CHECK_POISON, bytes_of(UPCONV_F32, size));
  memset(wanted.data, CHECK_POISON, bytes_of(UPCONV_F32, size));
  for (int64_t d = 0; d < p.planes; d++)
    for (int64_t r = 0; r < p.rows; r++)
      for (int64_t i = 0; i < p.n; i++)
        uc_store(wanted.data, UPCONV_F32, before + d * p.dst_plane + r * p.dst_row + i,
                 (double)src[d * p.plane + r * p.row + i % p.split * p.residue + i / p.split]);
  p.src = src;
  p.dst = (float *)(void *)m.data + before;
  lines = lines && isa->drains(&p);
  if (lines)
    store_by_lines(isa, &p);
  else
    isa->store_planes(&p);
  isa->stream_end();
  CHECK_MSG(memcmp(m.data, wanted.data, bytes_of(UPCONV_F32, size)) == 0,
            "%s, %d planes, %d apart, of %d rows of %d, %d apart, split %d, from %d on%s",
            isa->name, (int)p.planes, (int)p.dst_plane, (int)p.rows, (int)p.n, (int)p.dst_row,
            (int)p.split, (int)before,
            lines      ? ", line by line"
            : p.stream ? ", past the caches"
                       : "");
  edge_free(src, src_bytes);
  memory_free(m);
  memory_free(wanted);
  return lines;
}

static void storing_planes(void) {
  const uc_isa *isa;
  int by_lines = 0;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t l = 0; l < CHECK_COUNT(plane_lengths); l++)
      for (int64_t gap = 0; gap < 40; gap = gap < 16 ? gap + 16 : gap + 13)
        for (int64_t before = 0; before < 20; before = before ? before * 2 : 1)
          for (int choice = 0; choice < 36; choice++) {
            uc_plane_store p = {.rows = choice / 2 % 3 * 2 + 1, .split = choice / 6 % 2 + 1};
            p.n = plane_lengths[l];
            p.dst_row = p.n + gap;
            p.stream = choice % 2;
            p.planes = choice / 12 ? 2 : 1; /* without a gap, and with one */
            p.dst_plane = p.rows * p.dst_row + (choice / 12 == 2 ? 5 : 0);
            check_store_planes(isa, p, before, false);
            if (p.stream) by_lines += check_store_planes(isa, p, before, true);
          }
  CHECK(by_lines > 100);
}

static void rows_of_any_stride(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t d = 0; d < CHECK_COUNT(dtypes); d++)
      for (size_t s = 0; s < CHECK_COUNT(strides); s++)
        for (size_t l = 0; l < CHECK_COUNT(lengths); l++) {
          check_load_row(isa, dtypes[d], strides[s], lengths[l]);
          if (strides[s]) check_store_row(isa, dtypes[d], strides[s], lengths[l]);
        }
}

/* Rows end where memory ends; what lies between the rows written keeps its bytes. */
static void check_copy_pieces(const uc_isa *isa, int64_t rows, int64_t n) {
  int64_t dst_stride = n + 5, src_stride = n + 2;
  size_t src_bytes = (size_t)((rows - 1) * src_stride + n) * sizeof(float);
  size_t dst_bytes = (size_t)((rows - 1) * dst_stride + n) * sizeof(float);
  float *src = edge_alloc(src_bytes), *dst = edge_alloc(dst_bytes), *wanted = malloc(dst_bytes);
  memset(dst, CHECK_POISON, dst_bytes);
  memset(wanted, CHECK_POISON, dst_bytes);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++)
      wanted[r * dst_stride + i] = src[r * src_stride + i] = number(r * n + i);
  int64_t half = n / 2, zero = n - 1;
  for (int64_t r = 0; r < rows; r++) wanted[r * dst_stride + zero] = 0;
  uc_piece piece[] = {
      {dst, src, half}, {dst + half, src + half, zero - half}, {dst + zero, NULL, 1}};
  isa->copy_pieces(piece, 3, rows, dst_stride, src_stride);
  CHECK_MSG(memcmp(dst, wanted, dst_bytes) == 0, "%s, %d rows of %d", isa->name, (int)rows, (int)n);
  edge_free(src, src_bytes);
  edge_free(dst, dst_bytes);
  free(wanted);
}

static void copying_pieces(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t rows = 1; rows < 4; rows++)
      for (size_t l = 0; l < CHECK_COUNT(lengths); l++) check_copy_pieces(isa, rows, lengths[l]);
}

/* Rows end where memory ends; what no span names keeps its bytes. */
static void check_add_spans(const uc_isa *isa, int64_t rows, int64_t n) {
  int64_t dst_stride = n + 5, src_stride = n + 2, half = n / 2;
  size_t src_bytes = (size_t)((rows - 1) * src_stride + n) * sizeof(float);
  size_t dst_bytes = (size_t)((rows - 1) * dst_stride + n) * sizeof(float);
  float *src = edge_alloc(src_bytes), *dst = edge_alloc(dst_bytes), *wanted = malloc(dst_bytes);
  for (size_t i = 0; i < dst_bytes / sizeof *dst; i++) wanted[i] = dst[i] = number((int64_t)i + 7);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      src[r * src_stride + i] = number(r * n + i);
      if (i != half) wanted[r * dst_stride + i] += src[r * src_stride + i];
    }
  uc_span span[] = {{0, 0, half}, {half + 1, half + 1, n - half - 1}};
  isa->add_spans(dst, src, span, 2, rows, dst_stride, src_stride);
  CHECK_MSG(memcmp(dst, wanted, dst_bytes) == 0, "%s, %d rows of %d", isa->name, (int)rows, (int)n);
  edge_free(src, src_bytes);
  edge_free(dst, dst_bytes);
  free(wanted);
}

static void adding_spans(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t rows = 1; rows < 4; rows++)
      for (size_t l = 0; l < CHECK_COUNT(lengths); l++) check_add_spans(isa, rows, lengths[l]);
}

/* ---- interleave ---- */

enum { MOST_ROWS = 17 };

static void check_interleave(const uc_isa *isa, int64_t rows, int64_t total) {
  float *src[MOST_ROWS];
  size_t row_bytes[MOST_ROWS];
  for (int64_t r = 0; r < rows; r++) {
    int64_t n = total > r ? (total - r - 1) / rows + 1 : 0;
    row_bytes[r] = (size_t)n * sizeof(float);
    src[r] = edge_alloc(row_bytes[r]);
    for (int64_t j = 0; j < n; j++) src[r][j] = number(j * rows + r);
  }
  float *dst = check_alloc(padded(total) * sizeof *dst, 0);
  isa->interleave(dst, (const float *const *)src, rows, total);
  for (int64_t i = 0; i < total; i++)
    CHECK_MSG(dst[i] == number(i), "%s, %d rows: element %d of %d", isa->name, (int)rows, (int)i,
              (int)total);
  CHECK_FREE(dst);
  for (int64_t r = 0; r < rows; r++) edge_free(src[r], row_bytes[r]);
}

static void interleaving(void) {
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (int64_t rows = 2; rows <= MOST_ROWS; rows++) {
      for (int64_t total = 1; total <= 70; total++) check_interleave(isa, rows, total);
      for (int64_t total = 150; total <= 700; total += 61) check_interleave(isa, rows, total);
    }
}

/* ---- transposes ---- */

typedef struct shape {
  int64_t channels, n;
  int64_t rows_gap; /* floats between the channel rows, beyond the padded n */
  int64_t gap;      /* elements between the positions, beyond the channels */
} shape;

/* number() of channel c at position i. */
static float number_at(int64_t c, int64_t i) { return number(c * 11 + i); }

static void check_load_transposed(const uc_isa *isa, upconv_dtype dtype, shape s) {
  int64_t src_stride = s.channels + s.gap, dst_stride = (int64_t)padded(s.n) + s.rows_gap;
  memory m = memory_new(dtype, (s.n - 1) * src_stride + s.channels);
  memset(m.data, CHECK_POISON, bytes_of(dtype, m.n));
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t c = 0; c < s.channels; c++)
      uc_store(m.data, dtype, i * src_stride + c, (double)number_at(c, i));
  size_t floats = (size_t)((s.channels - 1) * dst_stride) + padded(s.n);
  float *dst = check_alloc(floats * sizeof *dst, 0);
  isa->load_transposed(dst, dst_stride, m.data, dtype, src_stride, s.channels, s.n);
  for (int64_t c = 0; c < s.channels; c++) {
    const float *row = dst + c * dst_stride;
    for (int64_t i = 0; i < s.n; i++)
      CHECK_MSG(row[i] == number_at(c, i), "%s, %s, %d x %d, gap %d: channel %d, position %d",
                isa->name, upconv_dtype_name(dtype), (int)s.channels, (int)s.n, (int)s.gap, (int)c,
                (int)i);
    if (c + 1 < s.channels)
      CHECK(check_is_poison(row + padded(s.n), (size_t)s.rows_gap * sizeof *row));
  }
  CHECK_FREE(dst);
  memory_free(m);
}

static void check_store_transposed(const uc_isa *isa, upconv_dtype dtype, shape s) {
  int64_t dst_stride = s.channels + s.gap, src_stride = (int64_t)padded(s.n) + s.rows_gap;
  int64_t elements = (s.n - 1) * dst_stride + s.channels;
  memory m = memory_new(dtype, elements), wanted = memory_new(dtype, elements);
  memset(m.data, CHECK_POISON, bytes_of(dtype, elements));
  memset(wanted.data, CHECK_POISON, bytes_of(dtype, elements));
  size_t floats = (size_t)((s.channels - 1) * src_stride) + padded(s.n);
  float *src = edge_alloc(floats * sizeof *src);
  for (int64_t c = 0; c < s.channels; c++)
    for (int64_t i = 0; i < s.n; i++) {
      src[c * src_stride + i] = number_at(c, i);
      uc_store(wanted.data, dtype, i * dst_stride + c, (double)number_at(c, i));
    }
  isa->store_transposed(m.data, dtype, dst_stride, src, src_stride, s.channels, s.n);
  CHECK_MSG(memcmp(m.data, wanted.data, bytes_of(dtype, elements)) == 0, "%s, %s, %d x %d, gap %d",
            isa->name, upconv_dtype_name(dtype), (int)s.channels, (int)s.n, (int)s.gap);
  edge_free(src, floats * sizeof *src);
  memory_free(m);
  memory_free(wanted);
}

static void transposing(void) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 24, 33, 64};
  const uc_isa *isa;
  for (int k = 0; (isa = uc_isa_available(k)); k++)
    for (size_t d = 0; d < CHECK_COUNT(dtypes); d++)
      for (size_t c = 0; c < CHECK_COUNT(sizes); c++)
        for (size_t n = 0; n < CHECK_COUNT(lengths); n++)
          for (int64_t gap = 0; gap < 2; gap++) {
            shape s = {sizes[c], lengths[n], 16 * gap, 3 * gap};
            check_load_transposed(isa, dtypes[d], s);
            check_store_transposed(isa, dtypes[d], s);
          }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"every_f16_and_bf16_to_float", every_f16_and_bf16_to_float},
      {"every_float_to_f16_and_bf16", every_float_to_f16_and_bf16},
      {"rows_past_the_caches", rows_past_the_caches},
      {"loading_planes", loading_planes},
      {"storing_planes", storing_planes},
      {"rows_of_any_stride", rows_of_any_stride},
      {"copying_pieces", copying_pieces},
      {"adding_spans", adding_spans},
      {"interleaving", interleaving},
      {"transposing", transposing},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
