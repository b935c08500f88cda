// SPDX-License-Identifier: Apache-2.0
// y = alpha a b + beta c, for a batch, in float64: what the CPU computes. Defined: TYPE.

struct MatrixArgs {
  char *y;
  const char *a, *b, *c;  // c NULL: none
  i64 rows, columns, depth;
  i64 y_row, y_column, a_row, a_column, b_row, b_column, c_row, c_column; // strides
  i64 row_tiles, column_tiles;
  double alpha, beta;
  Walk batch;             // y, a, b
};

enum { DEPTH = 16, THREADS = 256 };

// A tile of MAJOR x DEPTH elements, stored [DEPTH][MAJOR + 1]; neighbouring threads read along the axis that lies closer.
template <int MAJOR>
__device__ __forceinline__ void stage(double (&tile)[DEPTH][MAJOR + 1], const char *base, i64 at, i64 major_stride,
                                      i64 depth_stride, i64 majors, i64 depths) {
  const i64 across = major_stride < 0 ? -major_stride : major_stride, along = depth_stride < 0 ? -depth_stride : depth_stride;
  const bool depth_first = along < across;
  for (int e = threadIdx.x; e < MAJOR * DEPTH; e += THREADS) {
    const int k = depth_first ? e % DEPTH : e / MAJOR, m = depth_first ? e / DEPTH : e % MAJOR;
    tile[k][m] = m < majors && k < depths ? load<TYPE, double>(base, at + m * major_stride + k * depth_stride) : 0.0;
  }
}

// A block makes tiles of ROWS x COLUMNS, a thread every (ROWS / M)th row and (COLUMNS / N)th column of them.
template <int ROWS, int COLUMNS, int M, int N>
__device__ __forceinline__ void multiply(const MatrixArgs &a) {
  __shared__ double left[DEPTH][ROWS + 1], right[DEPTH][COLUMNS + 1];
  const int across = COLUMNS / N, down = ROWS / M, x = threadIdx.x % across, y = threadIdx.x / across;
  const i64 tiles = a.batch.count * a.row_tiles * a.column_tiles;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 rest = divide(tile, a.column_tiles), item = divide(rest, a.row_tiles);
    const i64 column0 = (tile - rest * a.column_tiles) * COLUMNS, row0 = (rest - item * a.row_tiles) * ROWS;
    double sum[M][N] = {};
    i64 at[3];
    locate(a.batch, item, at);
    for (i64 k0 = 0; k0 < a.depth; k0 += DEPTH) {
      __syncthreads();
      stage<ROWS>(left, a.a, at[1] + row0 * a.a_row + k0 * a.a_column, a.a_row, a.a_column, a.rows - row0, a.depth - k0);
      stage<COLUMNS>(right, a.b, at[2] + column0 * a.b_column + k0 * a.b_row, a.b_column, a.b_row, a.columns - column0,
                     a.depth - k0);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < DEPTH; k++) {
        double l[M], r[N];
#pragma unroll
        for (int i = 0; i < M; i++) l[i] = left[k][y + i * down];
#pragma unroll
        for (int j = 0; j < N; j++) r[j] = right[k][x + j * across];
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
          for (int j = 0; j < N; j++) sum[i][j] += l[i] * r[j];
      }
    }
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
      for (int j = 0; j < N; j++) {
        const i64 row = row0 + y + i * down, column = column0 + x + j * across;
        if (row >= a.rows || column >= a.columns) continue;
        double result = a.alpha * sum[i][j];
        if (a.c) result += a.beta * load<TYPE, double>(a.c, row * a.c_row + column * a.c_column);
        store<TYPE>(a.y, at[0] + row * a.y_row + column * a.y_column, result);
      }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) product_64(const MatrixArgs a) { multiply<64, 64, 4, 4>(a); }
// few rows
extern "C" __global__ void __launch_bounds__(THREADS) product_4(const MatrixArgs a) { multiply<4, 64, 1, 1>(a); }
