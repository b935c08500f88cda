// SPDX-License-Identifier: Apache-2.0
// Where a tile of a fused pass lies.

// Whether outputs [first, first + count) of axis i, after N and C, are all to be stored.
__device__ __forceinline__ bool stored(const Args &a, int i, int first, int count) {
  return first >= a.y_begin[i] && first + count <= a.y_end[i];
}

// 2: outputs [first, first + count) of axis i, after N and C, are all stored; 1: some of them; 0: none.
__device__ __forceinline__ int stored_of(const Args &a, int i, int first, int count) {
  return ((first >= a.y_begin[i]) & (first + count <= a.y_end[i])) + ((first + count > a.y_begin[i]) & (first < a.y_end[i]));
}

// How RUN neighbours along W can be stored together.
__device__ __forceinline__ int width_of_runs(const Args &a) {
  const i64 strides = a.y.stride[0] | a.y.stride[1] | a.y.stride[2] | a.y.stride[3];
  const i64 bytes = (i64)a.y.origin | strides * size_of(Y_TYPE), run = RUN * size_of(Y_TYPE);
  if (a.y_step[2] != 1) return APART;
  return bytes % run == 0 ? WHOLE : bytes % (run / 2) == 0 ? HALVES : APART;
}

// Where a tile's results go.
__device__ __forceinline__ void aim(const Args &a, Tile &tile) {
  const int d = tile.qd * Y_CELL0 + Y_BASE0, h = tile.qh * Y_CELL1 + Y_BASE1, w = tile.qw * Y_CELL2 + Y_BASE2;
  tile.y = a.y.origin + view_index(a.y, tile.n, 0, d, h, w) * size_of(Y_TYPE);
  tile.inside = stored(a, 2, d, TD * Y_CELL0) & stored(a, 3, h, TH * Y_CELL1) & stored(a, 4, w, TW * Y_CELL2) &
                (tile.n + SAMPLES <= a.n0 + a.batch);
}

// The first cell of tile i.
__device__ __forceinline__ void go_to(const Args &a, i64 i, Tile &tile) {
  const i64 rows = i / a.grid[2], planes = rows / a.grid[1], samples = planes / a.grid[0];
  tile.qw = ((int)(i - rows * a.grid[2]) + a.grid_begin[2]) * TW;
  tile.qh = ((int)(rows - planes * a.grid[1]) + a.grid_begin[1]) * TH;
  tile.qd = ((int)(planes - samples * a.grid[0]) + a.grid_begin[0]) * TD;
  tile.n = (int)samples * SAMPLES + a.n0;
}

// Tile (d, h, w) of the grid, of sample n of this run.
__device__ __forceinline__ void place_tile(const Args &a, int n, int d, int h, int w, Tile &tile) {
  tile.qw = (w + a.grid_begin[2]) * TW;
  tile.qh = (h + a.grid_begin[1]) * TH;
  tile.qd = (d + a.grid_begin[0]) * TD;
  tile.n = n + a.n0;
  aim(a, tile);
}

// Sums of residues, fragments of rows and of columns, as a tensor core leaves them to a lane.
template <int RESIDUES, int ROWS, int COLUMNS>
__device__ __forceinline__ void clear(float (&sums)[RESIDUES][ROWS][COLUMNS][4]) {
#pragma unroll
  for (int r = 0; r < RESIDUES; r++)
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[r][i][j][k] = 0.0f;
}
