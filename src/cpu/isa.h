/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of kernels per instruction set. The bodies in src/cpu/kernels/ are compiled once per instruction set from
 * one source (simd.h is the only file that differs) and chosen at run time by uc_isa_choose.
 *
 * Buffers named "padded" may be read and written up to the next multiple of UC_PAD floats beyond n: the tile buffers
 * of the CPU backend are allocated so. Within a padded buffer the elements beyond n hold finite or non-finite junk.
 * Every element is computed by the same vector operations wherever it lies, so that results do not depend on tiles.
 */
#ifndef UPCONV_CPU_ISA_H
#define UPCONV_CPU_ISA_H

#include "../epilogue.h"

enum {
  UC_PAD = 16,   /* floats: the widest vector */
  UC_ALIGN = 64, /* bytes */
  UC_MAX_MC = 8  /* output channels of a convolution block */
};

/* An operand of an elementwise kernel: a padded vector of n floats, or (vector NULL) one number. */
typedef struct uc_source {
  const float *vector;
  float scalar;
} uc_source;

/* dst[i] = op(operand[0][i], ...), i < n; dst is padded and may be one of the operands. */
typedef struct uc_elementwise {
  upconv_op_kind kind; /* any kind of class UC_CLASS_ELEMENTWISE */
  float *dst;
  int64_t n;
  uc_source operand[UPCONV_MAX_OPERANDS]; /* BATCH_NORM without weight or bias: scalar 1 or 0 */
  float attr[UPCONV_MAX_ATTRS];
} uc_elementwise;

/* Lines that follow each other in memory. The first one begins with element i of the row at src, which is row h of its plane. */
typedef struct uc_line_run {
  float *dst;
  const float *src;
  int64_t i, h, lines;
} uc_line_run;

/* Rows of a tile on their way to memory, past the caches and line by line, while something else is computed: stores that wait
   for memory then keep nothing else waiting. All zero: there are none. */
typedef struct uc_drain {
  uc_line_run now;               /* under way */
  const uc_line_run *next, *end; /* those to come */
  int64_t n, row, rows, plane;   /* of uc_plane_store */
  int64_t residue;               /* ... where split is 2, else 0 */
} uc_drain;

/* Lines of memory, from the one that holds `at`, which will be read before long. */
typedef struct uc_fetch_run {
  const char *at;
  int64_t lines;
} uc_fetch_run;

typedef struct uc_fetch {
  uc_fetch_run now;
  const uc_fetch_run *next, *end;
} uc_fetch;

/* What goes on with memory while products are computed. */
typedef struct uc_beside {
  uc_drain drain;
  uc_fetch fetch;
} uc_beside;

/*
 * A dense stride-1 correlation of one phase: for mc output channels and n positions
 *   sum[m][i] = init + sum over t < taps, e < channels of
 *               weight[(weight_row[t] + e) * mc + m] * x[offset[t] + e * x_stride + i] + bias[m]
 * where init is 0 when first, else dst[m * dst_stride + i], which receives the sum. With `least` (else NULL) init is 0, and dst
 * receives the sum when first; else it keeps, of itself and the sum, the least where least[m], the greatest elsewhere, and NaN.
 * The bias (NULL: none) comes last: a folded one may be far larger than the products, and each of them would be rounded to its
 * scale. dst rows are padded; x may be read up to UC_PAD floats beyond.
 * The order of additions per element is t outer, e inner, whatever n and the address: same bits everywhere.
 */
typedef struct uc_conv_block {
  int mc; /* 1 to UC_MAX_MC */
  int64_t taps, channels;
  const int64_t *offset;
  const int64_t *weight_row; /* per tap: where its channels begin, in rows of mc weights */
  const float *weight;
  const float *x;
  int64_t x_stride;
  bool first;
  const float *bias;
  const bool *least;
  uc_beside *beside; /* what goes on meanwhile, or NULL */
  int64_t products;  /* ... for each output, about, until all lines must be stored */
  float *dst;
  int64_t dst_stride;
  int64_t n;
} uc_conv_block;

/* n floats from here to there. */
typedef struct uc_span {
  int64_t dst, src, n;
} uc_span;

/* Part of a row to copy; src NULL: zeros. */
typedef struct uc_piece {
  float *dst;
  const float *src;
  int64_t n;
} uc_piece;

/* Rows of a plane into a tile: element i of row r is src[r * src_row + i - begin] for i in [begin, end), else 0, i < n. */
typedef struct uc_plane_load {
  float *dst;
  const float *src;
  int64_t dst_row, src_row, rows; /* dst_row: n or more */
  int64_t begin, end, n;
} uc_plane_load;

/* Rows of n floats out of a tile: element i of row r of plane d is src[d * plane + r * row + i % split * residue + i / split],
   at dst[d * dst_plane + r * dst_row + i]. */
typedef struct uc_plane_store {
  float *dst;
  const float *src;
  int64_t dst_row, row, rows;
  int64_t dst_plane, plane, planes;
  int64_t split, residue; /* split: 1 or 2 */
  int64_t n;
  bool stream; /* whole lines past the caches where they can be had */
} uc_plane_store;

typedef struct uc_isa {
  const char *name; /* "avx512", "avx2", "base" */
  int width;        /* floats per vector */

  void (*conv)(const uc_conv_block *block);

  void (*elementwise)(const uc_elementwise *e);

  /* dst[i] = the greatest of src[tap[t] + i * stride], t < taps (1 or more), and unless first of dst[i]; NaN is kept; i < n.
     dst padded; src read only at the n elements of each tap when stride != 1, padded when stride is 1. Likewise the least,
     and the sum. */
  void (*accumulate_max)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                         int64_t stride, int64_t n, bool first);
  void (*accumulate_min)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                         int64_t stride, int64_t n, bool first);
  void (*accumulate_add)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                         int64_t stride, int64_t n, bool first);

  /* Over channels: kind is SOFTMAX, LOG_SOFTMAX, LOGSUMEXP, SUM, MEAN, MAX or MIN. Channel c of position i is
     src[c * src_stride + i]; dst likewise (one channel for the reductions). All rows padded. scratch: 2 * (n rounded up
     to UC_PAD) floats. Sums run in channel order. MAX and MIN keep NaN. */
  void (*channels)(upconv_op_kind kind, float *dst, int64_t dst_stride, const float *src,
                   int64_t src_stride, int64_t channels, int64_t n, float *scratch);

  /* Spatial reductions of one row of exactly n floats into a running value: SUM adds in float64 in index order by
     lane (fixed lanes, whatever the instruction set's width); MAX and MIN keep NaN. */
  double (*row_sum)(const float *src, int64_t n);
  float (*row_max)(const float *src, int64_t n);
  float (*row_min)(const float *src, int64_t n);

  /* dst[i] = (float) src[i * stride], i < n, src of the given dtype; exactly n elements are read, dst is padded. */
  void (*load_row)(float *dst, const void *src, upconv_dtype dtype, int64_t stride, int64_t n);
  /* dst[i * stride] = src[i] rounded to dtype (nearest even), exactly n elements are written. */
  void (*store_row)(void *dst, upconv_dtype dtype, int64_t stride, const float *src, int64_t n);
  /* store_row of f32 with stride 1 past the caches, where the output is larger than they are: whole lines are then written
     without being read first. stream_end must follow before another thread may read. */
  void (*stream_row)(float *dst, const float *src, int64_t n);
  void (*stream_end)(void);
  /* Exactly the elements of memory are read; up to UC_PAD floats beyond the last row of dst are written. */
  void (*load_plane)(const uc_plane_load *plane);
  /* Exactly the rows are written; src is padded. stream_end must follow where it streams. */
  void (*store_planes)(const uc_plane_store *planes);
  /* The same for planes that `drains` accepts, but whole lines are only listed: as many runs as there are rows at most, and
     their count is returned. */
  bool (*drains)(const uc_plane_store *planes);
  int64_t (*list_lines)(const uc_plane_store *planes, uc_line_run *run);
  /* Stores so many lines, or one more, or all there are. */
  void (*drain)(uc_drain *drain, int64_t lines);
  /* For each piece: dst[r * dst_stride + i] = src[r * src_stride + i], r < rows, i < n, or 0: exactly those are read and
     written. Rows are outside: the pieces of one often lie on the same page. */
  void (*copy_pieces)(const uc_piece *piece, int64_t count, int64_t rows, int64_t dst_stride,
                      int64_t src_stride);
  /* For each span: dst[r * dst_stride + span.dst + i] += src[r * src_stride + span.src + i], r < rows, i < n: exactly those
     are read and written. */
  void (*add_spans)(float *dst, const float *src, const uc_span *span, int64_t count, int64_t rows,
                    int64_t dst_stride, int64_t src_stride);
  /* dst[j * rows + r] = src[r][j] for the `total` elements j * rows + r < total; dst padded. rows >= 2. */
  void (*interleave)(float *dst, const float *const *src, int64_t rows, int64_t total);
  /* Transposes between [channels][n] (row stride src_stride) and [n][channels] in memory of dtype:
     dst[i * dst_stride + c] = src[c * src_stride + i]. */
  void (*store_transposed)(void *dst, upconv_dtype dtype, int64_t dst_stride, const float *src,
                           int64_t src_stride, int64_t channels, int64_t n);
  /* dst[c * dst_stride + i] = src[i * src_stride + c]; dst rows padded. */
  void (*load_transposed)(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                          int64_t src_stride, int64_t channels, int64_t n);
} uc_isa;

extern const uc_isa uc_isa_base;
#if defined(UPCONV_HAVE_X86_ISA)
extern const uc_isa uc_isa_avx2;
extern const uc_isa uc_isa_avx512;
#endif

/* The best one that this machine runs, or the one that the environment variable UPCONV_ISA names. NULL and a message when
   that name is unknown or the machine lacks it. */
const uc_isa *uc_isa_choose(void);
/* All that this machine runs, best first; NULL past the end. */
const uc_isa *uc_isa_available(int index);

/* What the processor calls itself, or the name of its architecture. */
void uc_cpu_name(char *name, size_t capacity);

#endif
