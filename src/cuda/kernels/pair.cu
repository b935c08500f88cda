// SPDX-License-Identifier: Apache-2.0
// Two neighbouring cells of one channel, which a lane has of a product by four warps whose columns are cells.

enum : Live { BOTH = 15 };                                      // cells, and halves of runs
enum { SHARED_RUNS = WIDTH == WHOLE && RUN > Y_CELL2 ? 2 : 1 }; // cells of which a run that is stored at once has outputs

// Whether y holds the outputs of axis i, after N and C, that begin with `first`: those of one cell, of which it never holds a part.
__device__ __forceinline__ bool holds_cell(const Args &a, int i, int first) {
  return (u32)(first - a.y_begin[i]) < (u32)(a.y_end[i] - a.y_begin[i]);
}

// Which of two neighbouring cells y holds, if it cuts none (cuts_cells).
__device__ __forceinline__ Live held_cells(const Args &a, const Tile &tile, int d, int h, int w) {
  const bool in_d = holds_cell(a, 2, (tile.qd + d) * Y_CELL0 + Y_BASE0), in_h = holds_cell(a, 3, (tile.qh + h) * Y_CELL1 + Y_BASE1);
  const auto holds_w = [&](int at) { return (Live)holds_cell(a, 4, (tile.qw + at) * Y_CELL2 + Y_BASE2); };
  if (SHARED_RUNS == 2) return in_d & in_h & holds_w(w) ? BOTH : 0;
  Live live = holds_w(w) | holds_w(w + 1) << 1;
#if LANES_MEET
  const int t = threadIdx.x % 4, half = w - 2 * t + first_half_of(t);
  live |= holds_w(half) << 2 | holds_w(half + 4) << 3;
#endif
  return in_d & in_h ? live : 0;
}

// Whether y holds a part of a cell only, or one of two cells that are stored together.
__device__ __forceinline__ bool cuts_cells(const Args &a) {
  enum { STORED = SHARED_RUNS * Y_CELL2 };
  const int d = (a.y_begin[2] - Y_BASE0) % Y_CELL0 | (a.y_end[2] - Y_BASE0) % Y_CELL0,
            h = (a.y_begin[3] - Y_BASE1) % Y_CELL1 | (a.y_end[3] - Y_BASE1) % Y_CELL1,
            w = (a.y_begin[4] - Y_BASE2) % STORED | (a.y_end[4] - Y_BASE2) % STORED;
  return (d | h | w) != 0;
}

// How results of tiles are stored: BORDERS, some tiles lie beyond y in part, and what they have of it is as fast to store as others if
// no cell is cut.
__device__ __forceinline__ void watch_borders(const Args &a, Tile &tile) {
  if (BORDERS && cuts_cells(a)) tile.width = APART;
}

// Whether a tile's outputs are stored by WIDTH, and which are is known cell by cell.
__device__ __forceinline__ bool stores_runs(const Tile &tile) { return WIDTH != APART && (BORDERS | tile.inside) & tile.width >= WIDTH; }

// A lane's channel of a panel.
struct Finish {
  int channel;
  bool live;
  float factor, bias;
};

__device__ __forceinline__ Finish finish_of(const Args &a, const Tile &tile, int c) {
  Finish f;
  f.live = c < CO;
  f.channel = tile.group * CO + (c < CO ? c : CO - 1);
  f.bias = __ldg(a.packed + BIAS_AT + f.channel);
  f.factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + f.channel) : 1.0f;
  return f;
}
