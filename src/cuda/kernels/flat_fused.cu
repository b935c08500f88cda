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

// What a thread fetches of every tile. A word holds the three coordinates of a position in the tile, nine bits each and a
// tenth that is set, so that one subtraction compares all of them with limits: it clears the tenth bit of those below.
// A spot is VX positions side by side.
enum {
  ROW_SPOTS = (XW + VX - 1) / VX,
  SPOTS = XD * XH * ROW_SPOTS,
  FETCHED = (SPOTS + THREADS - 1) / THREADS,
  SPOT_WORDS = VX == 1 ? 1 : VX * size_of(X_TYPE) / 4
};
enum { AXIS_BITS = 10, MOST_COORDINATE = 511, TENTH_BITS = 0x20080200 };

struct Spots {
  u32 coordinates[FETCHED];
  int offset[FETCHED]; // in x
};

__device__ __forceinline__ u32 in_one_word(int d, int h, int w) { return (u32)d << 2 * AXIS_BITS | (u32)h << AXIS_BITS | (u32)w; }

__device__ __forceinline__ void find_spots(const Args &a, Spots &spots) {
#pragma unroll
  for (int i = 0; i < FETCHED; i++) {
    const int spot = threadIdx.x + i * THREADS;
    const int w = spot % ROW_SPOTS * VX, h = spot / ROW_SPOTS % XH, d = spot / (ROW_SPOTS * XH);
    spots.offset[i] = d * a.x_step[0] + h * a.x_step[1] + w * a.x_step[2];
    spots.coordinates[i] = TENTH_BITS | (spot < SPOTS ? in_one_word(d, h, w) : in_one_word(MOST_COORDINATE, 0, 0)); // never inside
    // kept, not found anew for every tile: the assembler looks through anything but an exchange of lanes
    spots.coordinates[i] = __shfl_xor_sync(~0u, spots.coordinates[i], 0);
    spots.offset[i] = __shfl_xor_sync(~0u, spots.offset[i], 0);
  }
}

__device__ __forceinline__ int limit(int at) { return at < 0 ? 0 : at > MOST_COORDINATE ? MOST_COORDINATE : at; }

// Those of the tile's positions that x holds begin at `begin` along each axis and end before `end`.
__device__ __forceinline__ void find_limits(const Args &a, const Tile &tile, u32 &begin, u32 &end) {
  const int first[] = {tile.qd * I0 + X_BASE0, tile.qh * I1 + X_BASE1, tile.qw * I2 + X_BASE2};
  begin = in_one_word(limit(a.x.begin[1] - first[0]), limit(a.x.begin[2] - first[1]), limit(a.x.begin[3] - first[2]));
  end = in_one_word(limit(a.x.end[1] - first[0]), limit(a.x.end[2] - first[1]), limit(a.x.end[3] - first[2]));
}

struct Fetched {
  u32 bits[FETCHED][CI][SPOT_WORDS]; // converted when they have arrived
};

__device__ __forceinline__ bool holds_spot(u32 coordinates, u32 begin, u32 end) {
  const u32 not_below = coordinates - begin, beyond = coordinates - end;
  return (not_below & ~beyond & TENTH_BITS) == TENTH_BITS;
}

// A spot that x holds whole or not at all, aligned.
__device__ __forceinline__ void load_spot(bool in, const char *from, u32 (&bits)[SPOT_WORDS]) {
  if (SPOT_WORDS == 4)
    asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %5, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
        "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "=r"(bits[0]), "=r"(bits[1 % SPOT_WORDS]), "=r"(bits[2 % SPOT_WORDS]), "=r"(bits[3 % SPOT_WORDS])
        : "l"(from), "r"((int)in));
  else
    asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %3, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\t@p ld.global.nc.v2.u32 {%0, %1}, [%2];\n\t}"
        : "=r"(bits[0]), "=r"(bits[1 % SPOT_WORDS])
        : "l"(from), "r"((int)in));
}

// The same position by position.
__device__ __forceinline__ void load_positions(const char *origin, i64 offset, int step, u32 coordinates, u32 begin, u32 end,
                                               u32 (&bits)[SPOT_WORDS]) {
#pragma unroll
  for (int v = 0; v < VX; v++) {
    const u32 one = bits_at(holds_spot(coordinates + v, begin, end), origin, offset + v * step);
    enum { EACH = VX / SPOT_WORDS };
    bits[v / EACH] = v % EACH ? bits[v / EACH] | one << 16 : one;
  }
}

// Whether spots are as load_spot wants them: none begins in x and ends beyond it.
__device__ __forceinline__ bool whole_spots(const Args &a, const char *origin, u32 begin, u32 end) {
  if (VX == 1) return false;
  const i64 strides = a.x.stride[1] | a.x_step[0] | a.x_step[1];
  const bool limits = ((begin | end) & (VX - 1)) == 0 || ((end & MOST_COORDINATE) >= ROW_SPOTS * VX && (begin & (VX - 1)) == 0);
  return limits & (a.x_step[2] == 1) & ((((i64)origin | strides * size_of(X_TYPE)) & (VX * size_of(X_TYPE) - 1)) == 0);
}

__device__ __forceinline__ void fetch(const Args &a, const Tile &tile, const Spots &spots, Fetched &fetched) {
  const char *origin = input_origin(a, tile);
  u32 begin, end;
  find_limits(a, tile, begin, end);
  const i64 channel = a.x.stride[1] * size_of(X_TYPE);
  if (whole_spots(a, origin, begin, end)) {
#pragma unroll
    for (int i = 0; i < FETCHED; i++) {
      const bool in = holds_spot(spots.coordinates[i], begin, end);
#pragma unroll
      for (int e = 0; e < CI; e++)
        load_spot(in, origin + e * channel + (i64)spots.offset[i] * size_of(X_TYPE), fetched.bits[i][e]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < FETCHED; i++)
#pragma unroll
    for (int e = 0; e < CI; e++)
      load_positions(origin + e * channel, spots.offset[i], a.x_step[2], spots.coordinates[i], begin, end, fetched.bits[i][e]);
}

__device__ __forceinline__ void put(const Fetched &fetched, const Spots &spots, u32 *xs) {
#pragma unroll
  for (int i = 0; i < FETCHED; i++) {
    const int spot = threadIdx.x + i * THREADS;
    const int h = spots.coordinates[i] >> AXIS_BITS & MOST_COORDINATE, d = spots.coordinates[i] >> 2 * AXIS_BITS & MOST_COORDINATE;
    const int slot = spot * VX + d * (X_PLANE - XH * ROW_SPOTS * VX) + h * (X_ROW - ROW_SPOTS * VX);
    const int w = spots.coordinates[i] & MOST_COORDINATE, moved = VX == 1 ? place_of(w) - w : 0;
    if ((i + 1) * THREADS > SPOTS && spot >= SPOTS) continue;
#pragma unroll
    for (int e = 0; e < CI; e++) {
      u32 word[VX];
#pragma unroll
      for (int v = 0; v < VX; v++) {
        enum { EACH = VX / SPOT_WORDS };
        const u32 bits = fetched.bits[i][e][v / EACH];
        word[v] = word_of(EACH == 1 ? bits : v % EACH ? bits >> 16 : bits & 0xffff);
      }
      u32 *const to = xs + e * X_PITCH + slot + moved;
      if (VX == 1) *to = word[0];
      else *(uint4 *)to = make_uint4(word[0], word[2 % VX], word[1 % VX], word[3 % VX]);
    }
  }
}

// ---- all ----

__device__ __forceinline__ void load_bias(const Args &a, const Tile &tile, float (&bias)[NT][2]) {
#pragma unroll
  for (int i = 0; i < 2 * NT; i++) {
    const int c = tile.c0 + channel_of(threadIdx.x % 4, i / 2, i % 2);
    bias[i / 2][i % 2] = __ldg(a.packed + BIAS_AT + tile.group * CO + (c < CO ? c : CO - 1));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) float smem[];
  u32 *const xs = (u32 *)smem, *const ws = xs + X_FLOATS;
  uint2 *const cells = (uint2 *)(ws + WEIGHT_WORDS);
  char *const ys = (char *)(cells + TABLE_ENTRIES);
  const int block = blockIdx.x % CHANNEL_BLOCKS, workers = gridDim.x / CHANNEL_BLOCKS;
  const i64 tiles = a.tiles / CHANNEL_BLOCKS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
  tile.width = width_of_runs(a);
  lay_out(a, tile);
  list_cells(tile, cells);
  Weights weights;
  load_weights(a, tile, ws, weights);
  float bias[NT][2];
  load_bias(a, tile, bias);
  int pattern[PATTERNS];
#pragma unroll
  for (int p = 0; p < PATTERNS; p++) pattern[p] = pattern_offset[4 * p + threadIdx.x % 4] * 4;
  const int channels = CO - tile.c0 < BM ? CO - tile.c0 : BM;
  const bool all_channels = stored(a, 1, tile.group * CO + tile.c0, channels);
  const i64 channel = (i64)(tile.group * CO + tile.c0) * a.y.stride[1] * size_of(Y_TYPE);

  i64 i = blockIdx.x / CHANNEL_BLOCKS;
  if (i >= tiles) return;
  Walk walk;
  digits(a, i, walk.at);
  digits(a, workers, walk.step);
  place(a, walk, tile);
#if PREFETCH
  Spots spots;
  find_spots(a, spots);
  Fetched fetched;
  fetch(a, tile, spots, fetched);
#endif
#pragma unroll 1
  for (; i < tiles; i += workers) {
#if PREFETCH
    put(fetched, spots, xs);
#else
    stage_input(a, tile, 0, xs);
#endif
    Tile now = tile;
    char *const to = now.y + channel;
    const int lead = lead_of(to) * size_of(Y_TYPE);
    now.y = ys + lead;
    now.inside &= all_channels;
    advance(a, walk);
    place(a, walk, tile);
    wait_for_copies();
    __syncthreads();
#if PREFETCH
    if (i + workers < tiles) fetch(a, tile, spots, fetched);
#endif
    convolve(a, now, xs, cells, pattern, weights, bias);
    publish();
    __syncthreads();
    store_tile(a, now, to, ys + lead);
  }
  wait_for_copies();
}
