// SPDX-License-Identifier: Apache-2.0
// A tile of a flattened convolution, from its staged input to the finished tile in shared memory.

// Cells of a tile are counted through along its rows, and rounded up to whole fragments: what is beyond the last one is that
// cell again. A table holds where each lies in the input tile and within a channel of the finished tile, in bytes.
enum { FRAGMENT_CELLS = 16 * MT, TABLE_CELLS = (TILE_CELLS + FRAGMENT_CELLS - 1) / FRAGMENT_CELLS * FRAGMENT_CELLS };

__device__ __forceinline__ void list_cells(const Tile &tile, uint2 *cells) {
  for (int i = threadIdx.x; i < TABLE_CELLS; i += THREADS) {
    const int cell = i < TILE_CELLS ? i : TILE_CELLS - 1, jw = cell % TW, jh = cell / TW % TH, jd = cell / TW / TH;
    const int x = jd * I0 * X_PLANE + jh * I1 * X_ROW + jw * I2;
    const int y = jd * Y_CELL0 * tile.y_step[0] + jh * Y_CELL1 * tile.y_step[1] + jw * Y_CELL2;
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
  int cell;      // the first one's number
  u32 to[MT][2]; // where in the finished tile
};

// One channel of one cell; k: which of the two columns of fragment j that the lane has.
template <bool INSIDE>
__device__ __forceinline__ void finish_cell(const Args &a, const Tile &tile, int rg, const Rows &rows, int i, int row, int j, int k,
                                            float bias, const Sums &sums) {
  const int c = tile.c0 + channel_of(threadIdx.x % 4, j, k), next = rows.cell + i * 16 + row * 8;
  const int cell = next < TILE_CELLS ? next : TILE_CELLS - 1;
  const bool live = CO % BM == 0 || c < CO;
  float strip[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) strip[r] = whole(sums[r][i][j], 2 * row + k) + bias; // last: it may be far larger
  Tile own = tile; // of this cell alone
  own.qd += cell / TW / TH, own.qh += cell / TW % TH, own.qw += cell % TW;
  own.y += rows.to[i][row] + threadIdx.x % 4 * tile.y_skew * size_of(Y_TYPE);
  finish<INSIDE>(a, own, rg, live, tile.group * CO + (c < CO ? c : CO - 1), 0, 0, 0, strip);
}

template <bool INSIDE>
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Rows &rows, const float (&bias)[NT][2],
                                            const Sums &sums) {
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int row = 0; row < 2; row++)
#pragma unroll
      for (int j = 0; j < NT; j++)
#pragma unroll
        for (int k = 0; k < 2; k++) finish_cell<INSIDE>(a, tile, rg, rows, i, row, j, k, bias[j][k], sums);
}

// Warps take fragments in turn. Where nothing but x is read there is no need to tell which cells are stored: there is room
// for all of them.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, const u32 *xs, const uint2 *cells,
                                         const int (&pattern)[PATTERNS], const Weights &weights, const float (&bias)[NT][2]) {
#pragma unroll 1
  for (int first = threadIdx.x / 32 * FRAGMENT_CELLS; first < TABLE_CELLS; first += THREADS / 32 * FRAGMENT_CELLS) {
    Rows rows;
    int at[MT][2];
    rows.cell = first + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
      const uint2 places = cells[rows.cell + i * 8];
      at[i / 2][i % 2] = (int)places.x;
      rows.to[i / 2][i % 2] = places.y;
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
