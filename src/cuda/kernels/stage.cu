// SPDX-License-Identifier: Apache-2.0
// Global memory to shared memory: the input's halo tile for one chunk of input channels. Elements outside the input become
// zeros. word_at and slot_of are the inner product's: what a word of the tile is, and where it goes.

// A thread loads several words of a position, so that its address is found once and they are under way together. In
// channels-last memory neighbouring threads take neighbouring words instead.
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
  enum { BATCH = EC < 8 ? EC : 8, BATCHES = (EC + BATCH - 1) / BATCH, ITEMS = X_CHANNEL * BATCHES };
  // as many positions together as make sixteen words, in equal parts
  enum { EACH = (ITEMS + THREADS - 1) / THREADS, FETCHES = (EACH + 16 / BATCH - 1) / (16 / BATCH) };
  enum { TOGETHER = (EACH + FETCHES - 1) / FETCHES };
#pragma unroll 1
  for (int fetch = 0; fetch < FETCHES; fetch++) {
    const int item0 = team_thread() + fetch * TOGETHER * THREADS;
    Word word[TOGETHER][BATCH];
#pragma unroll
    for (int j = 0; j < TOGETHER; j++) {
      const int item = item0 + j * THREADS, first = BATCHES == 1 ? 0 : item / X_CHANNEL * BATCH;
      const bool there = (FETCHES == 1 && (j + 1) * THREADS <= ITEMS) || item < ITEMS;
      const int position = BATCHES > 1 ? item % X_CHANNEL : there ? item : 0;
      int offset;
      const bool in = there & input_offset(a, tile, position, offset);
#pragma unroll
      for (int e = 0; e < BATCH; e++) word[j][e] = word_at(a, in, origin, offset, e0 + first + e);
    }
#pragma unroll
    for (int j = 0; j < TOGETHER; j++) {
      const int item = item0 + j * THREADS, first = BATCHES == 1 ? 0 : item / X_CHANNEL * BATCH;
      const bool there = (FETCHES == 1 && (j + 1) * THREADS <= ITEMS) || item < ITEMS;
      const int position = BATCHES == 1 ? item : item % X_CHANNEL;
#pragma unroll
      for (int e = 0; e < BATCH; e++)
        if (there && (BATCHES * BATCH == EC || first + e < EC)) xs[slot_of(first, e, position)] = word[j][e];
    }
  }
}
