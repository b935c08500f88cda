// SPDX-License-Identifier: Apache-2.0
// A tile of a flattened convolution, from its staged input to the finished tile in shared memory.

__device__ __forceinline__ int cell_offset(int cell) {
  const int jw = cell % TW, jh = cell / TW % TH, jd = cell / TW / TH;
  return jd * I0 * X_PLANE + jh * I1 * X_ROW + jw * I2;
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

// One channel of one cell; k: which of the two columns of fragment j that the lane has.
template <bool INSIDE>
__device__ __forceinline__ void finish_cell(const Args &a, const Tile &tile, int rg, int cell, int i, int row, int j, int k, float bias,
                                            const Sums &sums) {
  const int c = tile.c0 + 8 * j + threadIdx.x % 4 * 2 + k;
  const bool live = (CO % 8 == 0 || c < CO) & (TILE_CELLS % (16 * MT) == 0 || cell < TILE_CELLS);
  float strip[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) strip[r] = whole(sums[r][i][j], 2 * row + k) + bias; // last: it may be far larger
  finish<INSIDE>(a, tile, rg, live, tile.group * CO + (c < CO ? c : CO - 1), cell / TW / TH, cell / TW % TH, cell % TW, strip);
}

template <bool INSIDE>
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, int first, const float (&bias)[NT][2],
                                            const Sums &sums) {
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int row = 0; row < 2; row++)
#pragma unroll
      for (int j = 0; j < NT; j++)
#pragma unroll
        for (int k = 0; k < 2; k++)
          finish_cell<INSIDE>(a, tile, rg, first + i * 16 + row * 8, i, row, j, k, bias[j][k], sums);
}

// Warps take fragments of cells in turn; cells are counted through, along rows of the tile.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, const u32 *xs, const int (&pattern)[PATTERNS],
                                         const Weights &weights, const float (&bias)[NT][2]) {
#pragma unroll 1
  for (int first = threadIdx.x / 32 * 16 * MT; first < TILE_CELLS; first += THREADS / 32 * 16 * MT) {
    int at[MT][2];
    const int cell = first + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
      const int own = cell + i * 8; // a row beyond the tile computes the last cell once more
      at[i / 2][i % 2] = cell_offset(TILE_CELLS % (16 * MT) == 0 || own < TILE_CELLS ? own : TILE_CELLS - 1);
    }
#pragma unroll
    for (int rg = 0; rg < RESIDUE_GROUPS; rg++) {
      Sums sums;
      clear(sums);
      multiply(xs, at, pattern, rg, weights, sums);
      if (tile.inside) finish_sums<true>(a, tile, rg, cell, bias, sums);
      else finish_sums<false>(a, tile, rg, cell, bias, sums);
    }
  }
}
