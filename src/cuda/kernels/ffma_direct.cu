// SPDX-License-Identifier: Apache-2.0
// The FP32 units where a group has few input channels: what a thread's cells read of one is its window, which it loads from global
// memory into registers. Windows of neighbours meet in the first-level cache: nothing of x is staged, and nobody waits for others.
// A tile is what one thread has; those of all samples are counted through, so that no lane is beyond the end of a row. Output
// channels are taken MC at a time.

enum { SPAN0 = XD - 1 - (TD - 1) * I0, SPAN1 = XH - 1 - (TH - 1) * I1, SPAN2 = XW - 1 - (TW - 1) * I2, WINDOW = XD * XH * XW };
enum { ONE_OUTPUT = Y_CELL0 * Y_CELL1 * Y_CELL2 == 1 };

// Inputs along an axis that cells with an output to store read: [low, high]. Where only other cells would, a thread reads one of
// these instead, so that what lies beyond y's last cell is no border of x.
struct Reach {
  int low, high;
};

__device__ __forceinline__ Reach reach_of(const Args &a, int axis, int cell, int base, int step, int first, int span) {
  Reach r;
  r.low = (int)((u32)(a.y_begin[2 + axis] - base) / cell) * step + first;
  r.high = (int)((u32)(a.y_end[2 + axis] - base - 1) / cell) * step + first + span;
  return r;
}

struct Reaches {
  Reach d, h, w;
};

__device__ __forceinline__ Reaches reaches_of(const Args &a) {
  Reaches r;
  r.d = reach_of(a, 0, Y_CELL0, Y_BASE0, I0, X_BASE0, SPAN0);
  r.h = reach_of(a, 1, Y_CELL1, Y_BASE1, I1, X_BASE1, SPAN1);
  r.w = reach_of(a, 2, Y_CELL2, Y_BASE2, I2, X_BASE2, SPAN2);
  return r;
}

// Whether x holds all of [first, last] that is in reach.
__device__ __forceinline__ bool held(const View &x, int axis, const Reach &r, int first, int last) {
  return (max(first, r.low) >= x.begin[1 + axis]) & (min(last, r.high) < x.end[1 + axis]);
}

__device__ __forceinline__ int within(const Reach &r, int at) { return min(max(at, r.low), r.high); }

// A thread's window: where its planes and rows lie from its first input, in elements; a bit for each position that x holds.
struct Window {
  int plane[XD], row[XH];
  u32 in;
};

// Whether x holds a position of an axis.
__device__ __forceinline__ bool held(const View &x, int axis, int at) {
  return (at >= x.begin[1 + axis]) & (at < x.end[1 + axis]);
}

__device__ __forceinline__ Window window_of(const Args &a, const Tile &tile, const Reaches &reach, bool whole) {
  const int d0 = tile.qd * I0 + X_BASE0, h0 = tile.qh * I1 + X_BASE1, w0 = tile.qw * I2 + X_BASE2;
  const int w = max(min(w0, reach.w.high - SPAN2), reach.w.low);
  int d[XD], h[XH];
  Window window;
#pragma unroll
  for (int i = 0; i < XD; i++) {
    d[i] = within(reach.d, d0 + i);
    window.plane[i] = kept((d[i] - d0) * a.x_step[0] + (w - w0) * a.x_step[2]);
  }
#pragma unroll
  for (int i = 0; i < XH; i++) {
    h[i] = within(reach.h, h0 + i);
    window.row[i] = kept((h[i] - h0) * a.x_step[1]);
  }
  window.in = 0;
  if (whole) return window;
#pragma unroll
  for (int k = WINDOW - 1; k >= 0; k--)
    window.in = 2 * window.in +
                (held(a.x, 0, d[k / (XH * XW)]) & held(a.x, 1, h[k / XW % XH]) & held(a.x, 2, w + k % XW));
  return window;
}

// WHOLE_X: x holds all of it, and has neighbours along W side by side.
template <bool WHOLE_X>
__device__ __forceinline__ void load_window(const Args &a, const Window &window, const char *origin, float (&x)[WINDOW]) {
  const u32 in = WHOLE_X ? 0 : kept((int)window.in);
#pragma unroll
  for (int i = 0; i < XD; i++) {
    const char *plane = kept((char *)origin + (i64)kept(window.plane[i]) * size_of(X_TYPE));
#pragma unroll
    for (int j = 0; j < XH; j++) {
      const char *row = plane + (i64)kept(window.row[j]) * size_of(X_TYPE);
#pragma unroll
      for (int k = 0; k < XW; k++) {
        const int at = i * XH * XW + j * XW + k;
        x[at] = WHOLE_X ? load_at<X_TYPE>(row, k) : load_if<X_TYPE>(in >> at & 1, row, k * a.x_step[2]);
      }
    }
  }
}

// Sums of one vector of channels.
template <bool WHOLE_X>
__device__ __forceinline__ void multiply(const Args &a, const Window &window, const char *origin, const float *ws,
                                         float (&sums)[CELLS][RT][MC]) {
#pragma unroll 1
  for (int e = 0; e < CI; e++) {
    float x[WINDOW];
    load_window<WHOLE_X>(a, window, origin, x);
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      float w[MC];
      read_weights(ws + tap_kernel[t] * WEIGHT_ROW, w);
#pragma unroll
      for (int i = 0; i < CELLS; i++)
#pragma unroll
        for (int m = 0; m < MC; m++)
          sums[i][tap_residue[t]][m] = fmaf(w[m], x[tap_offset[t] + i * NEXT_X], sums[i][tap_residue[t]][m]);
    }
    origin += a.x.stride[1] * size_of(X_TYPE);
    ws += KERNEL * WEIGHT_ROW;
  }
}

// Outputs [first, first + count) of a thread's cells, along an axis.
struct Outputs {
  int first, count;
};

__device__ __forceinline__ Outputs outputs_of(int cell, int next, int y_cell, int y_base) {
  Outputs o;
  o.first = cell * y_cell + y_base;
  o.count = ((CELLS - 1) * next + 1) * y_cell;
  return o;
}

// What y holds of a thread's cells: 2: all outputs, and all channels of the block; 1: maybe some; 0: none.
__device__ __forceinline__ int cells_stored(const Args &a, const Tile &tile) {
  const Outputs d = outputs_of(tile.qd, NEXT0, Y_CELL0, Y_BASE0), h = outputs_of(tile.qh, NEXT1, Y_CELL1, Y_BASE1),
                w = outputs_of(tile.qw, NEXT2, Y_CELL2, Y_BASE2);
  const bool none = (d.first >= a.y_end[2]) | (h.first >= a.y_end[3]) | (w.first >= a.y_end[4]);
  const bool whole = stored(a, 2, d.first, d.count) & stored(a, 3, h.first, h.count) & stored(a, 4, w.first, w.count) &
                     stored(a, 1, tile.group * CO + tile.c0, min(BM, CO - tile.c0));
  return none ? 0 : 1 + whole;
}

// A bit for each of a thread's cells of which y holds some output.
__device__ __forceinline__ u32 live_cells(const Args &a, const Tile &tile) {
  const int d = tile.qd * Y_CELL0 + Y_BASE0, h = tile.qh * Y_CELL1 + Y_BASE1, w = tile.qw * Y_CELL2 + Y_BASE2;
  u32 live = 0;
#pragma unroll
  for (int i = 0; i < CELLS; i++)
    live |= (u32)((stored_of(a, 2, d + i * NEXT0 * Y_CELL0, Y_CELL0) > 0) & (stored_of(a, 3, h + i * NEXT1 * Y_CELL1, Y_CELL1) > 0) &
                  (stored_of(a, 4, w + i * NEXT2 * Y_CELL2, Y_CELL2) > 0)) << i;
  return live;
}

// Channels [first, first + MC) of the group.
template <bool WHOLE_CELLS>
__device__ __forceinline__ void finish_cells(const Args &a, const Tile &tile, int first, const float (&sums)[CELLS][RT][MC]) {
  const i64 y_channel = a.y.stride[1] * size_of(Y_TYPE);
  const int next = kept(output_at(a, tile, NEXT0 * Y_CELL0, NEXT1 * Y_CELL1, NEXT2 * Y_CELL2));
  const float *const biases = a.packed + BIAS_AT + (tile.group * CO + first);
  const u32 live_bits = WHOLE_CELLS ? 0 : live_cells(a, tile);
  char *y = kept(tile.y + (tile.group * CO + first) * y_channel);
#pragma unroll
  for (int m = 0; m < MC; m++) {
    const bool there = CO % MC == 0 || first + m < CO;
    const int channel = tile.group * CO + (there ? first + m : CO - 1);
    const float bias = __ldg(biases + (there ? m : CO - 1 - first)); // last: it may be far larger than the products
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
      float cell[RT];
#pragma unroll
      for (int r = 0; r < RT; r++) cell[r] = sums[i][r][m] + bias;
      Tile here = tile; // as if the cell were its first
      here.qd += i * NEXT0, here.qh += i * NEXT1, here.qw += i * NEXT2;
      here.y = y + (i64)kept(i * next) * size_of(Y_TYPE);
      const bool live = WHOLE_CELLS | ((live_bits >> i & 1) & (channel >= a.y_begin[1]) & (channel < a.y_end[1]));
      finish<(WHOLE_CELLS || ONE_OUTPUT)>(a, here, 0, there & live, channel, 0, 0, 0, cell);
    }
    y = kept(y + y_channel);
  }
}

// Whether x holds all that a thread's cells read and that is in reach, with neighbours along W side by side.
__device__ __forceinline__ bool window_whole(const Args &a, const Tile &tile, const Reaches &reach) {
  const int d = tile.qd * I0 + X_BASE0, h = tile.qh * I1 + X_BASE1, w = tile.qw * I2 + X_BASE2;
  return (a.x_step[2] == 1) & held(a.x, 0, reach.d, d, d + XD - 1) & held(a.x, 1, reach.h, h, h + XH - 1) &
         held(a.x, 2, reach.w, w, w + XW - 1);
}

// A thread's cells.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, const float *ws) {
  const int in_y = cells_stored(a, tile);
  if (in_y == 0) return;
  const Reaches reach = reaches_of(a);
  const bool whole = __all_sync(__activemask(), window_whole(a, tile, reach));
  const Window window = window_of(a, tile, reach, whole);
  const char *x = a.x.origin + view_index(a.x, tile.n, tile.group * CI, tile.qd * I0 + X_BASE0, tile.qh * I1 + X_BASE1,
                                          tile.qw * I2 + X_BASE2) * size_of(X_TYPE);
#pragma unroll 1
  for (int m0 = 0; m0 < BM && (CO % BM == 0 || tile.c0 + m0 < CO); m0 += MC) {
    float sums[CELLS][RT][MC];
#pragma unroll
    for (int m = 0; m < MC; m++)
#pragma unroll
      for (int i = 0; i < CELLS; i++)
#pragma unroll
        for (int r = 0; r < RT; r++) sums[i][r][m] = 0.0f;
    if (whole) multiply<true>(a, window, x, ws + m0, sums);
    else multiply<false>(a, window, x, ws + m0, sums);
    if (in_y == 2) finish_cells<true>(a, tile, tile.c0 + m0, sums);
    else finish_cells<false>(a, tile, tile.c0 + m0, sums);
  }
}

__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  uint4 *const inverse = (uint4 *)(smem + INVERSE_AT);
  if (threadIdx.x == 0) *inverse = inverses_of(a);
  stage_weights(a, tile, 0, smem);
  __syncthreads();
#pragma unroll 1
  for (i = i * THREADS + threadIdx.x; i < tiles; i += workers * THREADS) {
    if (tiles <= 0xffffffff) go_by(a, *inverse, (u32)i, tile);
    else go_to(a, i, tile);
    aim(a, tile);
    convolve(a, tile, smem);
  }
}
