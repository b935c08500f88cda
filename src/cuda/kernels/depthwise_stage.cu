// SPDX-License-Identifier: Apache-2.0
// The halo tile of x, XC channels of it, from global to shared memory. Elements outside the input become zeros. What a row
// needs is found once for several of its elements, whose loads are then under way together.

// The tile against the input. Positions are those of the tile; x holds [begin, begin + size) of them.
struct Source {
  const char *origin; // channel 0 of the tile at its first position
  int begin[4];       // c, d, h, w
  unsigned size[4];
};

__device__ __forceinline__ Source source_of(const Args &a, const Tile &tile) {
  const int first[] = {tile.c0 / GROUP_OUT, tile.qd * I0 + X_BASE0, tile.qh * I1 + X_BASE1, tile.qw * I2 + X_BASE2};
  Source s;
  s.origin = a.x.origin + view_index(a.x, tile.n, first[0], first[1], first[2], first[3]) * size_of(X_TYPE);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    s.begin[i] = a.x.begin[i] - first[i];
    s.size[i] = a.x.end[i] - a.x.begin[i];
  }
  return s;
}

__device__ __forceinline__ bool within(const Source &s, int axis, int at) {
  return (unsigned)(at - s.begin[axis]) < s.size[axis];
}

struct Row {
  bool in;            // x holds it
  const char *origin; // its channel at the tile's first position
  int offset, to;     // where it begins: from there, and in the tile
};

__device__ __forceinline__ Row row_of(const Args &a, const Source &s, int e, int d, int h) {
  Row row;
  row.in = within(s, 0, e) & within(s, 1, d) & within(s, 2, h);
  row.origin = XC == 1 ? s.origin : s.origin + e * a.x.stride[1] * size_of(X_TYPE);
  row.offset = d * a.x_step[0] + h * a.x_step[1];
  row.to = CHANNELS_FAST ? (d * XH + h) * XW * XC + e : ((e * XD + d) * XH + h) * XW;
  return row;
}

enum { STAGED_STEP = CHANNELS_FAST ? XC : 1 }; // from an element of a row to the next

// Elements of a row that one thread takes: as many as keep the most threads busy, counting what a row and an element cost in
// instructions, and at least 16 threads side by side.
__device__ constexpr int columns_of_row() {
  int best = 1, most = 0;
  for (int columns = 1; columns <= 6; columns++) {
    const int lanes = (XW + columns - 1) / columns, rows = THREADS / lanes;
    const int busy = rows * XW * 100 / (13 + 6 * columns);
    if (rows > 0 && (lanes >= 16 || columns == 1) && busy > most) best = columns, most = busy;
  }
  return most > 0 ? best : (XW + THREADS - 1) / THREADS;
}

// Neighbouring threads take neighbouring elements of a row.
__device__ __forceinline__ void stage_rows(const Args &a, const Source &s, float *xs) {
  enum {
    COLUMNS = columns_of_row(),
    LANES = (XW + COLUMNS - 1) / COLUMNS,
    ROWS = XC * XD * XH,
    STEP = THREADS / LANES,
    ROUNDS = (ROWS + STEP - 1) / STEP, // rows that a thread takes part in, in batches of nearly equal size
    BATCHES = COLUMNS < 8 ? (ROUNDS + 16 / COLUMNS - 1) / (16 / COLUMNS) : ROUNDS,
    BATCH = (ROUNDS + BATCHES - 1) / BATCHES
  };
  if (threadIdx.x >= LANES * STEP) return;
  const int lane = threadIdx.x % LANES;
  // what would lie beyond a row, or the last row, is the last one once more: no condition is needed then
  const int last = lane + (COLUMNS - 1) * LANES < XW ? lane + (COLUMNS - 1) * LANES : XW - 1;
#pragma unroll 1
  for (int first = threadIdx.x / LANES; first < ROWS; first += STEP * BATCH) {
    float value[BATCH][COLUMNS];
    float *to[BATCH];
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const int i = ROWS % (STEP * BATCH) == 0 || first + b * STEP < ROWS ? first + b * STEP : ROWS - 1;
      const int e = XC == 1 ? 0 : i / (XD * XH), d = XD == 1 ? 0 : (i - e * (XD * XH)) / XH, h = i - (e * XD + d) * XH;
      const Row row = row_of(a, s, e, d, h);
      to[b] = xs + row.to;
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        const int w = j < COLUMNS - 1 ? lane + j * LANES : last;
        value[b][j] = load_if<X_TYPE>(row.in & within(s, 3, w), row.origin, row.offset + w * a.x_step[2]);
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
#pragma unroll
      for (int j = 0; j < COLUMNS - 1; j++) (to[b] + lane * STAGED_STEP)[j * LANES * STAGED_STEP] = value[b][j];
      to[b][last * STAGED_STEP] = value[b][COLUMNS - 1];
    }
  }
}

// Neighbouring threads take neighbouring channels; each goes along a row.
__device__ __forceinline__ void stage_channels(const Args &a, const Source &s, float *xs) {
  enum { BATCH = XW < 12 ? XW : 12, ROWS_AT_ONCE = XW <= 8 ? 2 : 1 };
#pragma unroll ROWS_AT_ONCE
  for (int i = threadIdx.x; i < XC * XD * XH; i += THREADS) {
    const Row row = row_of(a, s, i % XC, i / XC / XH, i / XC % XH);
#pragma unroll 1
    for (int w0 = 0; w0 < XW; w0 += BATCH) {
      float value[BATCH];
#pragma unroll
      for (int j = 0; j < BATCH; j++)
        value[j] = load_if<X_TYPE>(row.in & within(s, 3, w0 + j), row.origin, row.offset + (w0 + j) * a.x_step[2]);
#pragma unroll
      for (int j = 0; j < BATCH; j++)
        if (XW % BATCH == 0 || w0 + j < XW) xs[row.to + (w0 + j) * STAGED_STEP] = value[j];
    }
  }
}

__device__ __forceinline__ void stage_input(const Args &a, const Tile &tile, float *xs) {
  const Source s = source_of(a, tile);
  if (X_LAST) stage_channels(a, s, xs);
  else stage_rows(a, s, xs);
}

// Channel e of a position in the tile.
__device__ __forceinline__ const float *staged(const float *xs, int e, int position) {
  return CHANNELS_FAST ? xs + position * XC + e : xs + e * POSITIONS + position;
}
