/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <string.h>

#include "../checked.h"

bool uc_box_equal(const uc_box *a, const uc_box *b) {
  for (int i = 0; i < UC_AXES; i++)
    if (a->begin[i] != b->begin[i] || a->size[i] != b->size[i]) return false;
  return true;
}

void uc_box_unite(uc_box *a, const uc_box *b) {
  for (int i = 0; i < UC_AXES; i++) {
    int64_t begin = uc_min(a->begin[i], b->begin[i]);
    int64_t end = uc_max(a->begin[i] + a->size[i], b->begin[i] + b->size[i]);
    a->begin[i] = begin;
    a->size[i] = end - begin;
  }
}

static bool natural(const uc_layout *l) {
  return l->split[0] == 1 && l->split[1] == 1 && l->split[2] == 1;
}

static int64_t padded(int64_t n) { return (n + UC_PAD - 1) / UC_PAD * UC_PAD; }

void uc_layout_init(uc_layout *l, const uc_box *box, const int64_t *split, int64_t row_pitch) {
  l->box = *box;
  int64_t residues = 1;
  for (int i = 0; i < UC_AXES; i++) {
    l->split[i] = split[i];
    l->count[i] = (box->size[i] + split[i] - 1) / split[i];
    residues *= split[i];
  }
  bool dense = row_pitch == 0 && l->count[2] < UC_PAD;
  l->row = row_pitch ? row_pitch : dense ? l->count[2] : padded(l->count[2]);
  /* the vector that ends the last row may run beyond it, but not into another plane */
  l->plane = l->count[1] > 0 ? padded((l->count[1] - 1) * l->row + padded(l->count[2])) : 0;
  l->volume = l->count[0] * l->plane;
  l->channel = residues * l->volume + UC_PAD;
}

/* Copies local elements w0 .. w0 + n of a source row to a row of the destination's residue: w advances by `step`. */
static void copy_strided(float *dst, const uc_layout *from, const float *row0, int64_t w0,
                         int64_t step, int64_t n) {
  int64_t s = from->split[2];
  for (int64_t j = 0; j < n; j++) {
    int64_t w = w0 + j * step;
    dst[j] = row0[w % s * from->volume + w / s];
  }
}

void uc_layout_copy(const uc_isa *isa, const uc_layout *to, float *dst, const uc_layout *from,
                    const float *src, int64_t channels, float *scratch) {
  int64_t shift[UC_AXES];
  for (int i = 0; i < UC_AXES; i++) shift[i] = to->box.begin[i] - from->box.begin[i];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t d = 0; d < to->box.size[0]; d++)
      for (int64_t h = 0; h < to->box.size[1]; h++) {
        const float *channel = src + c * from->channel;
        if (to->split[2] == 1) {
          const float *row =
              uc_layout_natural_row(isa, from, channel, d + shift[0], h + shift[1], scratch);
          float *out = dst + c * to->channel + uc_layout_row(to, d, h, 0);
          memcpy(out, row + shift[2], (size_t)to->box.size[2] * sizeof *out);
          continue;
        }
        const float *row0 = channel + uc_layout_row(from, d + shift[0], h + shift[1], 0);
        for (int64_t r = 0; r < to->split[2] && r < to->box.size[2]; r++)
          copy_strided(dst + c * to->channel + uc_layout_row(to, d, h, r), from, row0, r + shift[2],
                       to->split[2], uc_layout_positions(to, 2, r));
      }
}

enum { MAX_INTERLEAVE = 64 }; /* rows that one call of the kernel takes */

static void interleave_many(const uc_layout *l, const float *row0, float *scratch) {
  int64_t s = l->split[2];
  for (int64_t r = 0; r < s && r < l->box.size[2]; r++)
    for (int64_t j = 0; j < uc_layout_positions(l, 2, r); j++)
      scratch[j * s + r] = row0[r * l->volume + j];
}

const float *uc_layout_natural_row(const uc_isa *isa, const uc_layout *l, const float *channel,
                                   int64_t d, int64_t h, float *scratch) {
  if (natural(l)) return channel + d * l->plane + h * l->row;
  const float *row0 = channel + uc_layout_row(l, d, h, 0);
  int64_t s = l->split[2];
  if (s == 1) return row0;
  if (s > MAX_INTERLEAVE) {
    interleave_many(l, row0, scratch);
    return scratch;
  }
  const float *row[MAX_INTERLEAVE];
  for (int64_t r = 0; r < s; r++) row[r] = row0 + r * l->volume;
  isa->interleave(scratch, row, s, l->box.size[2]);
  return scratch;
}

static const char *element(const upconv_tensor *t, int64_t n, int64_t c, int64_t d, int64_t h,
                           int64_t w) {
  int64_t at[UC_RANK] = {n, c, d, h, w}, index = 0;
  for (int i = 0; i < UC_RANK; i++)
    if (t->stride[i] != 0) index += (at[i] - t->offset[i]) * t->stride[i];
  return (const char *)t->data + index * (int64_t)upconv_dtype_size(t->dtype);
}

/* Loads exactly n floats: with residues, what a padded kernel writes beyond them may be another residue's first row. */
static void load_exact(const uc_isa *isa, float *dst, const char *from, upconv_dtype dtype,
                       int64_t stride, int64_t n) {
  enum { PIECE = 256 };
  float piece[PIECE];
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t count = uc_min(PIECE, n - i);
    isa->load_row(piece, from + i * stride * (int64_t)upconv_dtype_size(dtype), dtype, stride,
                  count);
    memcpy(dst + i, piece, (size_t)count * sizeof *dst);
  }
}

/* One row of one channel: positions of residue r, zero where the element lies outside the valid range. */
static void load_row(const uc_isa *isa, const uc_layout *to, float *dst, const upconv_tensor *t,
                     const int64_t at[4], int64_t r, uc_range valid) {
  int64_t s = to->split[2], n = uc_layout_positions(to, 2, r);
  int64_t w0 = to->box.begin[2] + r;
  int64_t j0 = uc_max(0, uc_ceil_div(valid.begin - w0, s)),
          j1 = uc_min(n, uc_ceil_div(valid.end - w0, s));
  if (j0 >= j1) {
    memset(dst, 0, (size_t)n * sizeof *dst);
    return;
  }
  const char *from = element(t, at[0], at[1], at[2], at[3], w0 + j0 * s);
  /* in natural order a padded kernel spills into what is written later: the zeros at the end, the next row */
  if (natural(to))
    isa->load_row(dst + j0, from, t->dtype, t->stride[4], j1 - j0);
  else
    load_exact(isa, dst + j0, from, t->dtype, t->stride[4] * s, j1 - j0);
  if (j0 > 0) memset(dst, 0, (size_t)j0 * sizeof *dst);
  if (j1 < n) memset(dst + j1, 0, (size_t)(n - j1) * sizeof *dst);
}

/* What is present along an axis: the view's part. */
static uc_range present(const upconv_tensor *t, int axis) {
  return (uc_range){t->offset[axis + 2], t->offset[axis + 2] + t->shape[axis + 2]};
}

void uc_layout_broadcast(upconv_tensor *view, int axis) {
  const int64_t far = INT64_C(1) << 61;
  view->offset[axis] = -far;
  view->shape[axis] = 2 * far;
  view->stride[axis] = 0;
}

static bool holds(uc_range range, int64_t i) { return i >= range.begin && i < range.end; }

/* Channels-last memory in natural order: a row of positions times channels is one transposition. */
static bool transposable(const uc_layout *l, const upconv_tensor *t, int64_t channels) {
  return t->stride[1] == 1 && t->stride[4] != 1 && channels > 1 && natural(l);
}

static void load_transposed_row(const uc_isa *isa, const uc_layout *to, float *dst,
                                const upconv_tensor *t, const int64_t at[4], int64_t channels,
                                uc_range valid) {
  int64_t n = to->box.size[2], w0 = to->box.begin[2];
  int64_t j0 = uc_min(n, uc_max(0, valid.begin - w0)), j1 = uc_max(j0, uc_min(n, valid.end - w0));
  if (j1 > j0)
    isa->load_transposed(dst + j0, to->channel, element(t, at[0], at[1], at[2], at[3], w0 + j0),
                         t->dtype, t->stride[4], channels, j1 - j0);
  for (int64_t c = 0; c < channels; c++) {
    memset(dst + c * to->channel, 0, (size_t)j0 * sizeof *dst);
    memset(dst + c * to->channel + j1, 0, (size_t)(n - j1) * sizeof *dst);
  }
}

static void load_channel_row(const uc_isa *isa, const uc_layout *to, float *dst,
                             const upconv_tensor *t, const int64_t at[4], int64_t d, int64_t h,
                             bool inside, uc_range valid) {
  for (int64_t r = 0; r < to->split[2] && r < to->box.size[2]; r++) {
    float *row = dst + uc_layout_row(to, d, h, r);
    if (inside)
      load_row(isa, to, row, t, at, r, valid);
    else
      memset(row, 0, (size_t)uc_layout_positions(to, 2, r) * sizeof *row);
  }
}

/* The part of [begin, begin + size) that is in `range`, counted from begin. */
static uc_range clip(uc_range range, int64_t begin, int64_t size) {
  int64_t first = uc_min(size, uc_max(0, range.begin - begin));
  return (uc_range){first, uc_max(first, uc_min(size, range.end - begin))};
}

/* One plane of one channel, from f32 memory whose rows are dense. */
static void load_plane(const uc_isa *isa, const uc_layout *to, float *dst, const upconv_tensor *t,
                       const int64_t at[3], bool inside, const uc_range valid[UC_AXES]) {
  const int64_t *begin = to->box.begin, *size = to->box.size;
  uc_range h = clip(valid[1], begin[1], size[1]), w = clip(valid[2], begin[2], size[2]);
  if (!inside || w.begin == w.end) h = (uc_range){0, 0};
  uc_plane_load rows = {.dst = dst, .dst_row = to->row, .rows = h.begin, .n = size[2]};
  isa->load_plane(&rows);
  rows.dst += h.begin * to->row;
  rows.rows = size[1] - h.begin;
  if (h.begin < h.end) {
    rows.src = (const float *)(const void *)element(t, at[0], at[1], at[2], begin[1] + h.begin,
                                                    begin[2] + w.begin);
    rows.src_row = t->stride[3];
    rows.rows = h.end - h.begin;
    rows.begin = w.begin;
    rows.end = w.end;
    isa->load_plane(&rows);
    rows = (uc_plane_load){
        .dst = dst + h.end * to->row, .dst_row = to->row, .rows = size[1] - h.end, .n = size[2]};
  }
  isa->load_plane(&rows);
}

/* Planes in ascending order: what a plane's last row spills is the next one's, or the padding between channels. */
static void load_planes(const uc_isa *isa, const uc_layout *to, float *dst, const upconv_tensor *t,
                        int64_t n, int64_t c0, int64_t channels, const uc_range valid[UC_AXES]) {
  for (int64_t c = 0; c < channels; c++)
    for (int64_t d = 0; d < to->box.size[0]; d++) {
      int64_t at[3] = {n, c0 + c, to->box.begin[0] + d};
      load_plane(isa, to, dst + c * to->channel + d * to->plane, t, at, holds(valid[0], at[2]),
                 valid);
    }
}

void uc_layout_load(const uc_isa *isa, const uc_layout *to, float *dst, const upconv_tensor *t,
                    int64_t n, int64_t c0, int64_t channels) {
  uc_range valid[UC_AXES];
  for (int i = 0; i < UC_AXES; i++) valid[i] = present(t, i);
  if (t->dtype == UPCONV_F32 && t->stride[4] == 1 && natural(to)) {
    load_planes(isa, to, dst, t, n, c0, channels, valid);
    return;
  }
  /* rows in ascending order: a padded row may spill into the next one, which is then written */
  for (int64_t d = 0; d < to->box.size[0]; d++)
    for (int64_t h = 0; h < to->box.size[1]; h++) {
      int64_t gd = to->box.begin[0] + d, gh = to->box.begin[1] + h;
      int64_t at[4] = {n, c0, gd, gh};
      bool inside = holds(valid[0], gd) && holds(valid[1], gh);
      if (inside && transposable(to, t, channels)) {
        load_transposed_row(isa, to, dst + uc_layout_row(to, d, h, 0), t, at, channels, valid[2]);
        continue;
      }
      for (int64_t c = 0; c < channels; c++) {
        at[1] = c0 + c;
        load_channel_row(isa, to, dst + c * to->channel, t, at, d, h, inside, valid[2]);
      }
    }
}

int64_t uc_layout_fetch(const uc_box *box, const upconv_tensor *t, int64_t n, int64_t c0,
                        int64_t channels, uc_fetch_run *run) {
  uc_range in[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) {
    uc_range part = clip(present(t, a), box->begin[a], box->size[a]);
    in[a] = (uc_range){box->begin[a] + part.begin, box->begin[a] + part.end};
    if (part.begin == part.end) return 0;
  }
  if (t->stride[4] != 1 || 2 * (in[2].end - in[2].begin) < t->stride[3]) return 0;
  uc_fetch_run *next = run;
  for (int64_t c = c0; c < c0 + channels; c++)
    for (int64_t d = in[0].begin; d < in[0].end; d++) {
      const char *first = element(t, n, c, d, in[1].begin, in[2].begin);
      const char *last = element(t, n, c, d, in[1].end - 1, in[2].end - 1);
      *next++ = (uc_fetch_run){first, (last - first) / UC_ALIGN + 1};
    }
  return next - run;
}

static void store_last(const uc_isa *isa, const uc_layout *l, const float *src, char *to,
                       const upconv_tensor *t, int64_t d, int64_t h, int64_t channels,
                       float *scratch) {
  if (l->split[2] == 1) {
    isa->store_transposed(to, t->dtype, t->stride[4], src + uc_layout_row(l, d, h, 0), l->channel,
                          channels, l->box.size[2]);
    return;
  }
  int64_t pitch = padded(l->box.size[2]);
  for (int64_t c = 0; c < channels; c++)
    uc_layout_natural_row(isa, l, src + c * l->channel, d, h, scratch + c * pitch);
  isa->store_transposed(to, t->dtype, t->stride[4], scratch, pitch, channels, l->box.size[2]);
}

/* Channels of f32 memory whose rows are dense, in one or two residues, go out in one call for each residue along D and H. What
   is interleaved past the caches must go there by lines. */
static bool planes_at_once(const uc_layout *l, const upconv_tensor *t, bool stream,
                           const char *to) {
  if (t->dtype != UPCONV_F32 || t->stride[4] != 1 || l->split[2] > 2) return false;
  const int64_t line = UC_ALIGN / (int64_t)sizeof(float);
  bool lines = (uintptr_t)to % UC_ALIGN == 0;
  for (int a = 1; a < 4; a++) lines = lines && t->stride[a] % line == 0;
  return l->split[2] == 1 || !stream || lines;
}

void uc_layout_touch(const uc_layout *l, const upconv_tensor *t, int64_t n) {
  const int64_t *begin = l->box.begin, *size = l->box.size;
  if (l->split[2] > 1) return;
  int64_t step = t->stride[1] * (int64_t)upconv_dtype_size(t->dtype);
  const char *first = element(t, n, t->offset[1], begin[0], begin[1], begin[2]);
  const char *last = element(t, n, t->offset[1], begin[0] + size[0] - 1, begin[1] + size[1] - 1,
                             begin[2] + size[2] - 1);
  for (int64_t c = 0; c < t->shape[1]; c++) {
    __builtin_prefetch(first + c * step, 1);
    __builtin_prefetch(last + c * step, 1);
  }
}

/* The part of a channel whose elements are of residues d and h along D and H; local element (0, 0, 0) goes to `to`. */
static uc_plane_store residue_planes(const uc_layout *l, const float *src, float *to,
                                     const upconv_tensor *t, int64_t d, int64_t h) {
  return (uc_plane_store){.dst = to + d * t->stride[2] + h * t->stride[3],
                          .src = src + uc_layout_row(l, d, h, 0),
                          .dst_row = l->split[1] * t->stride[3],
                          .row = l->row,
                          .rows = uc_layout_positions(l, 1, h),
                          .dst_plane = l->split[0] * t->stride[2],
                          .plane = l->plane,
                          .planes = uc_layout_positions(l, 0, d),
                          .split = l->split[2],
                          .residue = l->volume,
                          .n = l->box.size[2]};
}

static void store_planes(const uc_isa *isa, const uc_layout *l, const float *src, float *to,
                         const upconv_tensor *t, bool stream) {
  for (int64_t d = 0; d < l->split[0] && d < l->box.size[0]; d++)
    for (int64_t h = 0; h < l->split[1] && h < l->box.size[1]; h++) {
      uc_plane_store planes = residue_planes(l, src, to, t, d, h);
      planes.stream = stream;
      isa->store_planes(&planes);
    }
}

/* Not only of f32 memory. */
static float *first_element(const uc_layout *l, const upconv_tensor *t, int64_t n, int64_t c0) {
  return (float *)(uintptr_t)element(t, n, c0, l->box.begin[0], l->box.begin[1], l->box.begin[2]);
}

int64_t uc_layout_runs(const uc_layout *l, int64_t channels) {
  bool rows = l->split[2] > 1;
  return channels * (rows ? l->box.size[0] * l->box.size[1] : l->split[0] * l->split[1]);
}

bool uc_layout_drains(const uc_isa *isa, const uc_layout *l, const upconv_tensor *t, int64_t n,
                      int64_t c0) {
  float *to = first_element(l, t, n, c0);
  if (!planes_at_once(l, t, true, (const char *)to)) return false;
  uc_plane_store planes = residue_planes(l, NULL, to, t, 0, 0);
  return isa->drains(&planes);
}

void uc_layout_list(const uc_isa *isa, const uc_layout *l, const float *src, const upconv_tensor *t,
                    int64_t n, int64_t c0, int64_t channels, uc_line_run *run, uc_drain *drain) {
  float *to = first_element(l, t, n, c0);
  *drain = (uc_drain){.next = run,
                      .n = l->box.size[2],
                      .row = l->row,
                      .rows = l->box.size[1],
                      .plane = l->plane,
                      .residue = l->split[2] == 2 ? l->volume : 0};
  for (int64_t c = 0; c < channels; c++)
    for (int64_t d = 0; d < l->split[0] && d < l->box.size[0]; d++)
      for (int64_t h = 0; h < l->split[1] && h < l->box.size[1]; h++) {
        uc_plane_store planes =
            residue_planes(l, src + c * l->channel, to + c * t->stride[1], t, d, h);
        run += isa->list_lines(&planes, run);
      }
  drain->end = run;
}

/* Channels-last memory takes all channels of a row at once, other memory channel by channel. */
void uc_layout_store(const uc_isa *isa, const uc_layout *l, const float *src,
                     const upconv_tensor *t, int64_t n, int64_t c0, int64_t channels, bool stream,
                     float *scratch) {
  bool last = t->stride[1] == 1 && t->stride[4] != 1 && channels > 1;
  int64_t size = (int64_t)upconv_dtype_size(t->dtype);
  char *first = (char *)first_element(l, t, n, c0);
  if (!last && planes_at_once(l, t, stream, first)) {
    for (int64_t c = 0; c < channels; c++)
      store_planes(isa, l, src + c * l->channel, (float *)(void *)first + c * t->stride[1], t,
                   stream);
    return;
  }
  for (int64_t c = 0; c < (last ? 1 : channels); c++)
    for (int64_t d = 0; d < l->box.size[0]; d++) {
      char *to = first + (c * t->stride[1] + d * t->stride[2]) * size;
      for (int64_t h = 0; h < l->box.size[1]; h++, to += t->stride[3] * size)
        if (last) {
          store_last(isa, l, src, to, t, d, h, channels, scratch);
        } else {
          const float *row = uc_layout_natural_row(isa, l, src + c * l->channel, d, h, scratch);
          if (stream)
            isa->stream_row((float *)(void *)to, row, l->box.size[2]);
          else
            isa->store_row(to, t->dtype, t->stride[4], row, l->box.size[2]);
        }
    }
}
