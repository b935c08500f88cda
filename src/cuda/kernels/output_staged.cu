// SPDX-License-Identifier: Apache-2.0
// Where finish puts its results: into a tile in shared memory, which is then stored in long runs.

__device__ __forceinline__ char *output_of(const Args &, const Tile &tile, int c) {
  return tile.y + (c - tile.group * CO - tile.c0) * tile.y_channel * size_of(Y_TYPE);
}

// Offset of an output, in coordinates of the tile.
__device__ __forceinline__ int output_at(const Args &, const Tile &tile, int d, int h, int w) {
  return d * tile.y_step[0] + h * tile.y_step[1] + w;
}


// Whether channel c of an element is stored. Tiles are inside only if all their channels are.
template <bool INSIDE>
__device__ __forceinline__ bool channel_stored(const Args &a, int c) {
  return INSIDE || ((c >= a.y_begin[1]) & (c < a.y_end[1]));
}
