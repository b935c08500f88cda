/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder define for table.c, each once per instruction set. isa.h says what
   they do. */
#ifndef UPCONV_CPU_TABLE_H
#define UPCONV_CPU_TABLE_H

#include "../isa.h"
#include "simd.h"

void uc_name(conv)(const uc_conv_block *block);

void uc_name(elementwise)(const uc_elementwise *e);

void uc_name(accumulate_max)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first);
void uc_name(accumulate_min)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first);
void uc_name(accumulate_add)(float *dst, const float *src, const int64_t *tap, int64_t taps,
                             int64_t stride, int64_t n, bool first);
double uc_name(row_sum)(const float *src, int64_t n);
float uc_name(row_max)(const float *src, int64_t n);
float uc_name(row_min)(const float *src, int64_t n);

void uc_name(channels)(upconv_op_kind kind, float *dst, int64_t dst_stride, const float *src,
                       int64_t src_stride, int64_t channels, int64_t n, float *scratch);

void uc_name(load_row)(float *dst, const void *src, upconv_dtype dtype, int64_t stride, int64_t n);
void uc_name(store_row)(void *dst, upconv_dtype dtype, int64_t stride, const float *src, int64_t n);
void uc_name(stream_row)(float *dst, const float *src, int64_t n);
void uc_name(stream_end)(void);
void uc_name(load_plane)(const uc_plane_load *p);
void uc_name(store_planes)(const uc_plane_store *p);
bool uc_name(drains)(const uc_plane_store *p);
int64_t uc_name(list_lines)(const uc_plane_store *p, uc_line_run *run);
void uc_name(drain)(uc_drain *d, int64_t lines);

void uc_name(copy_pieces)(const uc_piece *piece, int64_t count, int64_t rows, int64_t dst_stride,
                          int64_t src_stride);
void uc_name(add_spans)(float *dst, const float *src, const uc_span *span, int64_t count,
                        int64_t rows, int64_t dst_stride, int64_t src_stride);
void uc_name(interleave)(float *dst, const float *const *src, int64_t rows, int64_t total);
void uc_name(store_transposed)(void *dst, upconv_dtype dtype, int64_t dst_stride, const float *src,
                               int64_t src_stride, int64_t channels, int64_t n);
void uc_name(load_transposed)(float *dst, int64_t dst_stride, const void *src, upconv_dtype dtype,
                              int64_t src_stride, int64_t channels, int64_t n);

#endif
