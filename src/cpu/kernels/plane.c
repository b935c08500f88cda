/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a plane into a tile and out of one, all in one call: rows are short, and calls for each took as long as the
 * convolution's products. What a vector holds beyond a row's end is written where the next row comes to lie.
 */
#include "drain.h"
#include "table.h"

/* By way of a register: a loop of plain copies would become a call of memcpy, which is longer than most rows. */
UC_INLINE void copy_vector(float *dst, const float *src) {
  vf v = vf_load(src);
  vf_keep(&v);
  vf_store(dst, v);
}

/* n floats and no more; the last vector overlaps the one before. */
UC_INLINE void copy_exact(float *dst, const float *src, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) copy_vector(dst + i, src + i);
  if (i == n) return;
  if (n > VL)
    vf_store(dst + n - VL, vf_load(src + n - VL));
  else
    copy_pieces(dst, src, n, sizeof *dst);
}

UC_INLINE void clear_over(float *dst, int64_t n) {
  vf zero = vf_set(0.0F);
  vf_keep(&zero);
  for (int64_t i = 0; i < n; i += VL) vf_store(dst + i, zero);
}

/* Up to VL - 1 floats beyond n are written, none is read. */
UC_INLINE void load_over(float *dst, const float *src, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) copy_vector(dst + i, src + i);
  if (i < n) vf_store(dst + i, vf_load_n(src + i, n - i));
}

void uc_name(load_plane)(const uc_plane_load *p) {
  for (int64_t r = 0; r < p->rows; r++) {
    float *dst = p->dst + r * p->dst_row;
    clear_over(dst, p->begin);
    if (p->end > p->begin) load_over(dst + p->begin, p->src + r * p->src_row, p->end - p->begin);
    clear_over(dst + p->end, p->n - p->end);
  }
}

/* ---- rows that follow each other in memory without gaps ---- */

/* Up to VL - 1 floats beyond n are read and written. */
UC_INLINE void copy_over(float *dst, const float *src, int64_t n) {
  for (int64_t i = 0; i < n; i += VL) copy_vector(dst + i, src + i);
}

static void store_dense(const uc_plane_store *p) {
  int64_t left = p->planes * p->rows * p->n;
  float *dst = p->dst;
  for (int64_t d = 0; d < p->planes; d++) {
    const float *src = p->src + d * p->plane;
    for (int64_t r = 0; r < p->rows; r++, src += p->row, dst += p->n, left -= p->n)
      if (left >= p->n + VL)
        copy_over(dst, src, p->n);
      else
        copy_exact(dst, src, p->n);
  }
}

/* Elements [begin, end) of all rows put together. */
static void store_part(const uc_plane_store *p, int64_t begin, int64_t end) {
  while (begin < end) {
    int64_t r = begin / p->n, i = begin % p->n, count = p->n - i;
    if (count > end - begin) count = end - begin;
    copy_exact(p->dst + begin, p->src + r / p->rows * p->plane + r % p->rows * p->row + i, count);
    begin += count;
  }
}

/* n >= VL: parts of lines at both ends are stored, the lines between are the run. */
static uc_line_run list_dense(const uc_plane_store *p) {
  int64_t total = p->planes * p->rows * p->n;
  int64_t head = to_line(p->dst);
  if (head > total) head = total;
  int64_t lines = (total - head) / LINE, r = head / p->n;
  store_part(p, 0, head);
  store_part(p, head + lines * LINE, total);
  return (uc_line_run){.dst = p->dst + head,
                       .src = p->src + r / p->rows * p->plane + r % p->rows * p->row,
                       .i = head % p->n,
                       .h = r % p->rows,
                       .lines = lines};
}

static void stream_dense(const uc_plane_store *p) {
  uc_drain d = {.now = list_dense(p), .n = p->n, .row = p->row, .rows = p->rows, .plane = p->plane};
  drain_lines(&d, d.now.lines);
}

/* ---- rows of two residues ---- */

/* `left` elements of a row, fewer than both vectors. */
UC_INLINE void zip_end(float *dst, vf first, vf second, int64_t left) {
  if (left >= VL) {
    vf_store(dst, first);
    dst += VL;
    left -= VL;
    first = second;
  }
  if (left > 0) vf_store_n(dst, first, left);
}

UC_INLINE void zip_row(float *dst, const float *even, const float *odd, int64_t n,
                       void (*store)(float *dst, vf v)) {
  for (int64_t j = 0; 2 * j < n; j += VL) {
    vf a = vf_load(even + j), b = vf_load(odd + j);
    vf first = vf_zip_first(a, b), second = vf_zip_second(a, b);
    if (2 * (j + VL) > n) {
      zip_end(dst + 2 * j, first, second, n - 2 * j);
      return;
    }
    store(dst + 2 * j, first);
    store(dst + 2 * j + VL, second);
  }
}

static void store_rows(const uc_plane_store *p, float *dst, const float *src) {
  for (int64_t r = 0; r < p->rows; r++, dst += p->dst_row, src += p->row) {
    bool stream = p->stream && (uintptr_t)dst % (LINE * sizeof *dst) == 0;
    if (p->split == 1 && p->stream)
      uc_name(stream_row)(dst, src, p->n);
    else if (p->split == 1)
      copy_exact(dst, src, p->n);
    else if (stream)
      zip_row(dst, src, src + p->residue, p->n, vf_stream);
    else
      zip_row(dst, src, src + p->residue, p->n, vf_store);
  }
}

/* Rows of one residue without gaps in memory. */
static bool is_dense(const uc_plane_store *p) {
  return p->split == 1 && p->dst_row == p->n && (p->planes == 1 || p->dst_plane == p->rows * p->n);
}

static bool whole_elements(const uc_plane_store *p) {
  return (uintptr_t)p->dst % sizeof *p->dst == 0; /* they do not lie across lines */
}

void uc_name(store_planes)(const uc_plane_store *p) {
  if (is_dense(p)) {
    if (p->stream && whole_elements(p) && p->n >= VL)
      stream_dense(p);
    else
      store_dense(p);
    return;
  }
  for (int64_t d = 0; d < p->planes; d++) {
    uc_plane_store one = *p;
    one.planes = 1;
    one.dst += d * p->dst_plane;
    one.src += d * p->plane;
    if (is_dense(&one))
      uc_name(store_planes)(&one);
    else
      store_rows(p, one.dst, one.src);
  }
}

bool uc_name(drains)(const uc_plane_store *p) {
  if (p->split == 1) return is_dense(p) && whole_elements(p) && p->n >= VL;
  bool lines = (uintptr_t)p->dst % (LINE * sizeof *p->dst) == 0 && p->dst_row % LINE == 0 &&
               p->dst_plane % LINE == 0;
  return lines && p->n % (2 * LINE) == 0;
}

int64_t uc_name(list_lines)(const uc_plane_store *p, uc_line_run *run) {
  if (p->split == 1) {
    *run = list_dense(p);
    return run->lines > 0;
  }
  uc_line_run *next = run;
  for (int64_t d = 0; d < p->planes; d++)
    for (int64_t r = 0; r < p->rows; r++)
      *next++ = (uc_line_run){.dst = p->dst + d * p->dst_plane + r * p->dst_row,
                              .src = p->src + d * p->plane + r * p->row,
                              .lines = p->n / LINE};
  return next - run;
}

void uc_name(drain)(uc_drain *d, int64_t lines) { drain_lines(d, lines); }
