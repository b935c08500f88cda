// SPDX-License-Identifier: Apache-2.0
// Elements that only move: as integers of their size, whatever they mean.

struct CopyArgs {
  char *to;
  const char *from;
  i64 same; // shapes are: `to` walks both
  Walk to_walk, from_walk;
};

template <class T>
__device__ __forceinline__ void copy(const CopyArgs &a) {
  for (i64 index = first_index(); index < a.to_walk.count; index += index_step()) {
    i64 to[2], from[1];
    locate(a.to_walk, index, to);
    from[0] = to[1];
    if (!a.same) locate(a.from_walk, index, from);
    ((T *)a.to)[to[0]] = ((const T *)a.from)[from[0]];
  }
}

extern "C" __global__ void __launch_bounds__(256) copy_1(const CopyArgs a) { copy<u8>(a); }
extern "C" __global__ void __launch_bounds__(256) copy_2(const CopyArgs a) { copy<u16>(a); }
extern "C" __global__ void __launch_bounds__(256) copy_4(const CopyArgs a) { copy<u32>(a); }
extern "C" __global__ void __launch_bounds__(256) copy_8(const CopyArgs a) { copy<u64>(a); }
extern "C" __global__ void __launch_bounds__(256) copy_16(const CopyArgs a) { copy<uint4>(a); }

// ---- transposed: each side is contiguous along an axis of its own ----

struct TransposeArgs {
  char *to;
  const char *from;
  i64 rows, columns;         // rows: neighbours in `from`; columns: neighbours in `to`
  i64 to_row, from_column;   // strides
  i64 row_tiles, column_tiles;
  Walk outer;                // to, from: the other axes
};

enum { SIDE = 32, LINES = 8 };

// A tile is read along one axis and written along the other. 256 threads: 32 along a line, 8 lines at a time.
template <class T>
__device__ __forceinline__ void transpose(const TransposeArgs &a) {
  __shared__ T tile[SIDE][SIDE + 1];
  const int lane = threadIdx.x % SIDE, line = threadIdx.x / SIDE;
  const i64 tiles = a.outer.count * a.row_tiles * a.column_tiles;
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 rest = divide(t, a.column_tiles), outer = divide(rest, a.row_tiles), at[2];
    const i64 column0 = (t - rest * a.column_tiles) * SIDE, row0 = (rest - outer * a.row_tiles) * SIDE;
    locate(a.outer, outer, at);
    for (int k = line; k < SIDE; k += LINES)
      if (row0 + lane < a.rows && column0 + k < a.columns)
        tile[k][lane] = ((const T *)a.from)[at[1] + (column0 + k) * a.from_column + row0 + lane];
    __syncthreads();
    for (int k = line; k < SIDE; k += LINES)
      if (row0 + k < a.rows && column0 + lane < a.columns)
        ((T *)a.to)[at[0] + (row0 + k) * a.to_row + column0 + lane] = tile[lane][k];
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256) transpose_1(const TransposeArgs a) { transpose<u8>(a); }
extern "C" __global__ void __launch_bounds__(256) transpose_2(const TransposeArgs a) { transpose<u16>(a); }
extern "C" __global__ void __launch_bounds__(256) transpose_4(const TransposeArgs a) { transpose<u32>(a); }
extern "C" __global__ void __launch_bounds__(256) transpose_8(const TransposeArgs a) { transpose<u64>(a); }

// ---- mapped ----

struct MapArgs {
  char *to;
  const char *from;
  u64 fill;
  i64 rank; // at least 1
  i64 count;
  i64 shape[RANK], to_stride[RANK], from_stride[RANK];
  const i64 *map[RANK]; // NULL: the index itself
};

template <class T>
__device__ __forceinline__ void map(const MapArgs &a) {
  for (i64 index = first_index(); index < a.count; index += index_step()) {
    i64 rest = index, to = 0, from = 0;
    bool outside = false;
#pragma unroll 1
    for (int k = (int)a.rank - 1; k >= 0; k--) {
      i64 quotient = k > 0 ? divide(rest, a.shape[k]) : 0, i = rest - quotient * a.shape[k];
      i64 source = a.map[k] ? a.map[k][i] : i;
      outside |= source < 0;
      to += i * a.to_stride[k];
      from += source * a.from_stride[k];
      rest = quotient;
    }
    ((T *)a.to)[to] = outside ? (T)a.fill : ((const T *)a.from)[from];
  }
}

extern "C" __global__ void __launch_bounds__(256) map_1(const MapArgs a) { map<u8>(a); }
extern "C" __global__ void __launch_bounds__(256) map_2(const MapArgs a) { map<u16>(a); }
extern "C" __global__ void __launch_bounds__(256) map_4(const MapArgs a) { map<u32>(a); }
extern "C" __global__ void __launch_bounds__(256) map_8(const MapArgs a) { map<u64>(a); }
