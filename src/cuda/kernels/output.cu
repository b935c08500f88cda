// SPDX-License-Identifier: Apache-2.0
// Where finish puts its results: into y.

// MOVES_Y: the inner product moves tile.y from channel to channel.
__device__ __forceinline__ char *output_of(const Args &a, const Tile &tile, int c) {
  if (MOVES_Y) return tile.y;
  return tile.y + c * a.y.stride[1] * size_of(Y_TYPE);
}

// Offset of an output, in coordinates of the tile; from one to the next along W.
__device__ __forceinline__ int output_at(const Args &a, const Tile &, int d, int h, int w) {
  return d * a.y_step[0] + h * a.y_step[1] + w * a.y_step[2];
}

__device__ __forceinline__ int output_step(const Args &a) { return a.y_step[2]; }

// Whether channel c of an element is stored. CHANNELS_TOO: what is inside is so in all channels.
template <bool INSIDE>
__device__ __forceinline__ bool channel_stored(const Args &a, int c) {
  return (CHANNELS_TOO && INSIDE) | ((c >= a.y_begin[1]) & (c < a.y_end[1]));
}
