// SPDX-License-Identifier: Apache-2.0
// Global memory to shared memory: the input's halo tile for one chunk of input channels. Elements outside the input become
// zeros. word_at and put are the inner product's: what a word of the tile is, and where it goes.

__device__ __forceinline__ bool input_index(const Args &a, const Tile &tile, int position, i64 &index) {
  const int w = tile.qw * I2 + X_BASE2 + position % XW, h = tile.qh * I1 + X_BASE1 + position / XW % XH;
  const int d = tile.qd * I0 + X_BASE0 + position / (XW * XH);
  index = view_index(a.x, tile.n, tile.group * CI, d, h, w);
  return inside(a.in_size, d, h, w);
}

// A thread loads all words of a position, so that its address is found once. In channels-last memory neighbouring
// threads take neighbouring words instead.
template <typename Word>
__device__ __forceinline__ void stage_input(const Args &a, const Tile &tile, int e0, Word *xs) {
  if (X_LAST) {
    for (int i = threadIdx.x; i < X_CHANNEL * EC; i += THREADS) {
      i64 index;
      const int e = i % EC, position = i / EC;
      const bool in = input_index(a, tile, position, index);
      xs[e * X_PITCH + position] = in ? word_at(a, index, e0 + e) : Word(0);
    }
    return;
  }
  for (int position = threadIdx.x; position < X_CHANNEL; position += THREADS) {
    i64 index;
    const bool in = input_index(a, tile, position, index);
#pragma unroll 8
    for (int e = 0; e < EC; e++) xs[e * X_PITCH + position] = in ? word_at(a, index, e0 + e) : Word(0);
  }
}
