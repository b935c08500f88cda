// SPDX-License-Identifier: Apache-2.0
// The kernel: a block keeps to one block of channels, whose weights it loads once, and takes tile after tile: its input to
// shared memory, products, finished cells to shared memory, from there to y. While a tile is computed, the input of the
// next one is on its way into registers.

// Which tile: (n, d, h, w), digits of a number, so that the next one is found by adding digits.
struct Walk {
  int at[4], step[4];
};

__device__ __forceinline__ void digits(const Args &a, i64 i, int (&at)[4]) {
#pragma unroll
  for (int axis = 3; axis > 0; axis--) {
    at[axis] = (int)(i % a.grid[axis - 1]);
    i /= a.grid[axis - 1];
  }
  at[0] = (int)i;
}

__device__ __forceinline__ void advance(const Args &a, Walk &walk) {
  int carry = 0;
#pragma unroll
  for (int axis = 3; axis > 0; axis--) {
    walk.at[axis] += walk.step[axis] + carry;
    carry = walk.at[axis] >= a.grid[axis - 1];
    if (carry) walk.at[axis] -= a.grid[axis - 1];
  }
  walk.at[0] += walk.step[0] + carry;
}

__device__ __forceinline__ void place(const Args &a, const Walk &walk, Tile &tile) {
  place_tile(a, walk.at[0], walk.at[1], walk.at[2], walk.at[3], tile);
}

// ---- a tile's input on its way ----

enum { FETCHED = (X_CHANNEL + THREADS - 1) / THREADS };

struct Fetched {
  u32 bits[FETCHED][CI]; // converted when they have arrived
};

__device__ __forceinline__ void fetch(const Args &a, const Tile &tile, Fetched &fetched) {
  const char *origin = input_origin(a, tile);
#pragma unroll
  for (int i = 0; i < FETCHED; i++) {
    const int position = threadIdx.x + i * THREADS;
    int offset;
    const bool in = input_offset(a, tile, position, offset) & (X_CHANNEL % THREADS == 0 || position < X_CHANNEL);
#pragma unroll
    for (int e = 0; e < CI; e++) fetched.bits[i][e] = bits_at(a, in, origin, offset, e);
  }
}

__device__ __forceinline__ void put(const Fetched &fetched, u32 *xs) {
#pragma unroll
  for (int i = 0; i < FETCHED; i++) {
    const int position = threadIdx.x + i * THREADS;
#pragma unroll
    for (int e = 0; e < CI; e++)
      if (X_CHANNEL % THREADS == 0 || position < X_CHANNEL) xs[slot_of(0, e, position)] = word_of(fetched.bits[i][e]);
  }
}

// ---- all ----

__device__ __forceinline__ void load_bias(const Args &a, const Tile &tile, float (&bias)[NT][2]) {
#pragma unroll
  for (int i = 0; i < 2 * NT; i++) {
    const int c = tile.c0 + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
    bias[i / 2][i % 2] = __ldg(a.packed + BIAS_AT + tile.group * CO + (c < CO ? c : CO - 1));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) float smem[];
  u32 *const xs = (u32 *)smem, *const ws = xs + X_FLOATS;
  char *const ys = (char *)(ws + WEIGHT_WORDS);
  const int block = blockIdx.x % CHANNEL_BLOCKS, workers = gridDim.x / CHANNEL_BLOCKS;
  const i64 tiles = a.tiles / CHANNEL_BLOCKS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
  tile.wide = aligned_runs(a);
  lay_out(a, tile);
  Weights weights;
  load_weights(a, tile, ws, weights);
  float bias[NT][2];
  load_bias(a, tile, bias);
  int pattern[PATTERNS];
#pragma unroll
  for (int p = 0; p < PATTERNS; p++) pattern[p] = pattern_offset[4 * p + threadIdx.x % 4];
  const i64 channel = (tile.group * CO + tile.c0) * a.y.stride[1] * size_of(Y_TYPE);

  i64 i = blockIdx.x / CHANNEL_BLOCKS;
  if (i >= tiles) return;
  Walk walk;
  digits(a, i, walk.at);
  digits(a, workers, walk.step);
  place(a, walk, tile);
#if PREFETCH
  Fetched fetched;
  fetch(a, tile, fetched);
#endif
#pragma unroll 1
  for (; i < tiles; i += workers) {
#if PREFETCH
    put(fetched, xs);
#else
    stage_input(a, tile, 0, xs);
#endif
    Tile now = tile;
    char *const to = now.y + channel;
    const int lead = lead_of(to) * size_of(Y_TYPE);
    now.y = ys + lead;
    advance(a, walk);
    place(a, walk, tile);
    __syncthreads();
#if PREFETCH
    if (i + workers < tiles) fetch(a, tile, fetched);
#endif
    convolve(a, now, xs, pattern, weights, bias);
    __syncthreads();
    store_tile(a, now, to, ys + lead);
  }
}
