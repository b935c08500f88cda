// SPDX-License-Identifier: Apache-2.0
// Where finish puts its results: into a row in shared memory, which is then copied as a whole.

__device__ __forceinline__ char *output_of(const Args &, const Tile &tile, int) { return tile.y; }

// Offset of an output in its row, in coordinates of the tile.
__device__ __forceinline__ int output_at(const Args &, const Tile &, int, int, int w) { return w; }

template <bool INSIDE>
__device__ __forceinline__ bool channel_stored(const Args &a, int c) {
  return (c >= a.y_begin[1]) & (c < a.y_end[1]);
}

// How outputs can be stored together of which some begins here.
__device__ __forceinline__ int width_at(const char *row) {
  const int bytes = (u32)(i64)row & 15, run = RUN * size_of(Y_TYPE);
  return bytes % run == 0 ? WHOLE : bytes % (run / 2) == 0 ? HALVES : APART;
}
