// SPDX-License-Identifier: Apache-2.0
// A tile of a flattened convolution, from its staged input to the finished tile in shared memory.

// Cells of a tile are counted through along its rows, or strips of them, and rounded up to whole fragments: what is beyond the last one
// is that cell again. A table holds where each lies in the input tile and within a channel of the finished tile, in bytes.
enum {
  FRAGMENT_ENTRIES = 16 * MT / STRIP_CELLS,
  TILE_ENTRIES = TD * TH * ROW_STRIPS,
  TABLE_ENTRIES = (TILE_ENTRIES + FRAGMENT_ENTRIES - 1) / FRAGMENT_ENTRIES * FRAGMENT_ENTRIES
};

// Cell of the tile: d, h, w of its entry's first one.
__device__ __forceinline__ int4 cell_of(int entry) {
  const u32 i = entry < TILE_ENTRIES ? entry : TILE_ENTRIES - 1;
  return make_int4((int)(i / ROW_STRIPS / TH), (int)(i / ROW_STRIPS % TH), (int)(i % ROW_STRIPS) * STRIP_CELLS, 0);
}

__device__ __forceinline__ void list_cells(const Tile &tile, uint2 *cells) {
  for (int i = threadIdx.x; i < TABLE_ENTRIES; i += THREADS) {
    const int4 at = cell_of(i);
    const int x = at.x * I0 * X_PLANE + at.y * I1 * X_ROW + at.z * I2;
    const int y = at.x * Y_CELL0 * tile.y_step[0] + at.y * Y_CELL1 * tile.y_step[1] + at.z * Y_CELL2;
    cells[i] = make_uint2((u32)x * 4, (u32)y * size_of(Y_TYPE));
  }
}

__device__ __forceinline__ void clear(Sums &sums) {
#pragma unroll
  for (int i = 0; i < RT * MT * NT * PARTS * 4; i++)
    sums[i / (MT * NT * PARTS * 4)][i / (NT * PARTS * 4) % MT][i / (PARTS * 4) % NT][i / 4 % PARTS][i % 4] = 0.0f;
}

// The sum of all parts. Where an input is infinite that of the second parts may be anything.
__device__ __forceinline__ float whole(const float (&parts)[PARTS][4], int i) {
  const float first = parts[0][i];
  return PARTS == 1 || !(fabsf(first) < INF) ? first : first + parts[PARTS - 1][i];
}

// The lane's rows of a fragment.
struct Rows {
  int entry;     // the first one's number in the table
  u32 to[MT][2]; // where in the finished tile
};

// One channel of a cell, or of a strip if all of its cells are in the tile; k: which of the two columns of fragment j that the lane has.
template <bool INSIDE>
__device__ __forceinline__ void finish_cells(const Args &a, const Tile &tile, int rg, const Rows &rows, int i, int row, int j, int k,
                                             float bias, const Sums &sums) {
  const int c = tile.c0 + channel_of(threadIdx.x % 4, j, k), nth = STRIPS ? strip_cell(i, row) : 2 * i + row;
  int4 at = cell_of(rows.entry + (STRIPS ? 0 : 8 * nth));
  if (STRIPS) at.z += nth;
  if (TW % STRIP_CELLS && at.z >= TW) return;
  const bool live = CO % BM == 0 || c < CO;
  float strip[STRIP * RT];
#pragma unroll
  for (int q = 0; q < STRIP; q++)
#pragma unroll
    for (int r = 0; r < RT; r++) // the bias last: it may be far larger
      strip[q * RT + r] = whole(sums[r][i + q % 2][j], 2 * (row + q / 2) + k) + bias;
  Tile own = tile; // of these cells alone
  own.qd += at.x, own.qh += at.y, own.qw += at.z;
  own.y += rows.to[i][row] + threadIdx.x % 4 * tile.y_skew * size_of(Y_TYPE);
  finish<INSIDE>(a, own, rg, live, tile.group * CO + (c < CO ? c : CO - 1), 0, 0, 0, strip);
}

template <bool INSIDE>
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Rows &rows, const float (&bias)[NT][2],
                                            const Sums &sums) {
  enum { TOGETHER = STRIP == 1 ? 1 : 2 }; // rows and fragments
#pragma unroll
  for (int i = 0; i < MT; i += TOGETHER)
#pragma unroll
    for (int row = 0; row < 2; row += TOGETHER)
#pragma unroll
      for (int j = 0; j < NT; j++)
#pragma unroll
        for (int k = 0; k < 2; k++) finish_cells<INSIDE>(a, tile, rg, rows, i, row, j, k, bias[j][k], sums);
}

// Warps take fragments in turn. Where nothing but x is read there is no need to tell which cells are stored: there is room
// for all of them.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, const u32 *xs, const uint2 *cells,
                                         const int (&pattern)[PATTERNS], const Weights &weights, const float (&bias)[NT][2]) {
#pragma unroll 1
  for (int first = threadIdx.x / 32 * FRAGMENT_ENTRIES; first < TABLE_ENTRIES; first += THREADS / 32 * FRAGMENT_ENTRIES) {
    Rows rows;
    int at[MT][2];
    rows.entry = first + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
      const uint2 places = cells[rows.entry + (STRIPS ? 0 : i * 8)];
      at[i / 2][i % 2] = (int)places.x;
      rows.to[i / 2][i % 2] = places.y + (STRIPS ? strip_cell(i / 2, i % 2) * Y_CELL2 * size_of(Y_TYPE) : 0);
    }
#pragma unroll
    for (int rg = 0; rg < RESIDUE_GROUPS; rg++) {
      Sums sums;
      clear(sums);
      multiply(xs, at, pattern, rg, weights, sums);
      if (!READS_TENSORS || tile.inside) finish_sums<true>(a, tile, rg, rows, bias, sums);
      else finish_sums<false>(a, tile, rg, rows, bias, sums);
    }
  }
}
