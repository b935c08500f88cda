// SPDX-License-Identifier: Apache-2.0
// Global memory to shared memory: the input's halo tile for one chunk of input channels. Elements outside the input become
// zeros. word_at and slot_of are the inner product's: what a word of the tile is, and where it goes.

// Where channel 0 of a position lies, in elements from the tile's first position; whether x holds it.
__device__ __forceinline__ bool input_offset(const Args &a, const Tile &tile, int position, int &offset) {
  const u32 at = position; // never negative, and the compiler divides unsigned numbers faster
  const int w = at % XW, h = at / XW % XH, d = at / (XW * XH);
  offset = d * a.x_step[0] + h * a.x_step[1] + w * a.x_step[2];
  const int gd = tile.qd * I0 + X_BASE0 + d, gh = tile.qh * I1 + X_BASE1 + h, gw = tile.qw * I2 + X_BASE2 + w;
  return holds(a.x, a.x.begin[0], gd, gh, gw);
}

__device__ __forceinline__ const char *input_origin(const Args &a, const Tile &tile) {
  const i64 first = view_index(a.x, tile.n, tile.group * CI, tile.qd * I0 + X_BASE0, tile.qh * I1 + X_BASE1,
                               tile.qw * I2 + X_BASE2);
  return a.x.origin + first * size_of(X_TYPE);
}

// A thread loads several words of a position, so that its address is found once and they are under way together. In channels-last memory neighbouring
// threads take neighbouring words instead.
template <typename Word>
__device__ __forceinline__ void stage_input(const Args &a, const Tile &tile, int e0, Word *xs) {
  const char *origin = input_origin(a, tile);
  if (X_LAST) {
    for (int i = team_thread(); i < X_CHANNEL * EC; i += THREADS) {
      int offset;
      const int e = i % EC, position = i / EC;
      const bool in = input_offset(a, tile, position, offset);
      xs[slot_of(0, e, position)] = word_at(a, in, origin, offset, e0 + e);
    }
    return;
  }
  enum { BATCH = EC < 8 ? EC : 8, BATCHES = (EC + BATCH - 1) / BATCH };
#pragma unroll 2
  for (int item = team_thread(); item < X_CHANNEL * BATCHES; item += THREADS) {
    int offset;
    const int position = BATCHES == 1 ? item : item % X_CHANNEL, first = BATCHES == 1 ? 0 : item / X_CHANNEL * BATCH;
    const bool in = input_offset(a, tile, position, offset);
    Word word[BATCH];
#pragma unroll
    for (int e = 0; e < BATCH; e++) word[e] = word_at(a, in, origin, offset, e0 + first + e);
#pragma unroll
    for (int e = 0; e < BATCH; e++)
      if (BATCHES * BATCH == EC || first + e < EC) xs[slot_of(first, e, position)] = word[e];
  }
}
