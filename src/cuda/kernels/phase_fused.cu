// SPDX-License-Identifier: Apache-2.0
// Who does what: two teams of four warps multiply and finish parts in turns; the other warps bring the input of the next tile,
// rounded, into the order in which products read it. Barriers in shared memory tell when a buffer is full and when it is free.

enum { COPYING_WARPS = COPIERS / 32 };

struct Barriers {
  u32 weights, full, free;
  int *note; // which of the block's tiles, from 1 on, had an input that is not finite
};

__device__ __forceinline__ Barriers barriers_of(float *smem) {
  char *const at = (char *)smem + WEIGHT_BYTES + X_BUFFERS * X_BYTES;
  const u32 first = (u32)__cvta_generic_to_shared(at);
  Barriers b = {first, first + 8, first + 8 + 8 * X_BUFFERS, (int *)(at + PAD_BYTES)};
  return b;
}

__device__ __forceinline__ void init_barriers(const Barriers &b) {
  init_barrier(b.weights, 1);
  for (int i = 0; i < X_BUFFERS; i++) {
    init_barrier(b.full + 8 * i, COPYING_WARPS);
    init_barrier(b.free + 8 * i, PARTS * 4);
    b.note[i] = 0;
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- copying ----

// Packed in the order in which they lie here: [group][block of channels][round][step][product][held].
__device__ __forceinline__ void copy_weights(const Args &a, const Tile &tile, const Barriers &b, float *smem) {
  enum { PIECE = 16384 };
  const i64 block = (i64)tile.group * BLOCKS_PER_GROUP + tile.c0 / BM;
  const char *from = (const char *)(a.packed + WEIGHTS_AT) + block * WEIGHT_BYTES;
  const u32 to = (u32)__cvta_generic_to_shared(smem);
  arrive_expecting(b.weights, WEIGHT_BYTES);
#pragma unroll 1
  for (int at = 0; at < WEIGHT_BYTES; at += PIECE)
    copy_bulk(to + at, from + at, WEIGHT_BYTES - at < PIECE ? WEIGHT_BYTES - at : PIECE, b.weights);
}

__device__ __forceinline__ u32 greater(u32 a, u32 b) { return a > b ? a : b; }

// The greatest magnitude of words, or of each half of them.
__device__ __forceinline__ void look_at(u32 word, u32 (&worst)[2]) {
#ifdef WORD_IS_F32
  worst[0] = greater(worst[0], word & 0x7fffffff);
#else
  worst[0] = greater(worst[0], word & 0x7fff);
  worst[1] = greater(worst[1], word & 0x7fff0000);
#endif
}

__device__ __forceinline__ bool not_finite(const u32 (&worst)[2]) {
#if defined(WORD_IS_F32)
  return worst[0] >= 0x7f800000;
#elif defined(WORD_IS_F16)
  return (worst[0] >= 0x7c00) | (worst[1] >= 0x7c000000);
#else
  return (worst[0] >= 0x7f80) | (worst[1] >= 0x7f800000);
#endif
}

// What a thread copies together: UNITS units of SPOT positions that are neighbours along W, 32 loads in all.
enum {
  SPOT = PAIRED ? 2 : 1,
  SPOTS = X_CHANNEL / SPOT,
  UNITS = QUADS < 4 ? QUADS : 4,
  BATCHES = (QUADS + UNITS - 1) / UNITS,
  ITEMS = SPOTS * BATCHES,
  TOGETHER = 8 / UNITS / SPOT > 1 ? 8 / UNITS / SPOT : 1
};

typedef uint4 Units[TOGETHER][UNITS][SPOT];

// Neighbouring threads take neighbours along W or, channels-last, batches of one position.
__device__ __forceinline__ int spot_of(int item) { return X_LAST ? item / BATCHES : item % SPOTS; }
__device__ __forceinline__ int batch_of(int item) { return X_LAST ? item % BATCHES : item / SPOTS; }

__device__ __forceinline__ uint4 load_unit(const Args &a, bool in, const char *origin, int offset, int first) {
  return make_uint4(word_at(a, in, origin, offset, first), word_at(a, in, origin, offset, first + 1),
                    word_at(a, in, origin, offset, first + 2), word_at(a, in, origin, offset, first + 3));
}

#if PAIRED
// Whether two positions, from an even one on, are dense and aligned, and both inside x or both outside.
__device__ __forceinline__ bool aligned_pairs(const Args &a) {
  const i64 strides = a.x.stride[0] | a.x.stride[1] | a.x.stride[2] | a.x.stride[3];
  return (a.x_step[2] == 1) & ((((i64)a.x.origin | strides * 2) & 3) == 0) & (((a.x.begin[3] | a.x.end[3]) & 1) == 0);
}

// One channel of two positions.
__device__ __forceinline__ u32 load_pair(bool there, const char *from) {
  return (u32)__float_as_int(load_if<F32>(there, from, 0));
}

// Channels 2 j and 2 j + 1 of both positions become word j of each.
__device__ __forceinline__ void load_units(const Args &a, bool in, const char *origin, int offset, int unit, uint4 (&to)[SPOT]) {
  u32 pair[8];
#pragma unroll
  for (int e = 0; e < 8; e++) pair[e] = load_pair(in & (unit * 8 + e < CI), origin + ((i64)offset + (unit * 8 + e) * a.x.stride[1]) * 2);
  u32 low[4], high[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    low[j] = (pair[2 * j] & 0xffff) | pair[2 * j + 1] << 16;
    high[j] = pair[2 * j] >> 16 | (pair[2 * j + 1] & 0xffff0000);
  }
  to[0] = make_uint4(low[0], low[1], low[2], low[3]);
  to[1] = make_uint4(high[0], high[1], high[2], high[3]);
}
#endif

// pairs: SPOT positions at once.
__device__ __forceinline__ void load_item(const Args &a, const Tile &tile, const char *origin, bool pairs, int item,
                                          uint4 (&to)[UNITS][SPOT]) {
  const int first = spot_of(item) * SPOT, unit = batch_of(item) * UNITS;
  int offset;
  const bool in = input_offset(a, tile, first, offset) & (item < ITEMS);
#if PAIRED
  if (pairs) {
#pragma unroll
    for (int q = 0; q < UNITS; q++) load_units(a, in, origin, offset, unit + q, to[q]);
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < SPOT; i++) {
    int at = offset;
    const bool there = i == 0 ? in : input_offset(a, tile, first + i, at) & (item < ITEMS);
#pragma unroll
    for (int q = 0; q < UNITS; q++) to[q][i] = load_unit(a, there, origin, at, (unit + q) * 4);
  }
}

__device__ __forceinline__ void store_item(int item, const uint4 (&units)[UNITS][SPOT], uint4 *buffer) {
  if (item >= ITEMS) return;
  uint4 *const to = buffer + batch_of(item) * UNITS * X_CHANNEL + spot_of(item) * SPOT;
#pragma unroll
  for (int q = 0; q < UNITS; q++)
#pragma unroll
    for (int i = 0; i < SPOT; i++)
      if (QUADS % UNITS == 0 || batch_of(item) * UNITS + q < QUADS) to[q * X_CHANNEL + i] = units[q][i];
}

// All units of the tile. Returns whether all were finite, of those that this thread copied.
__device__ __forceinline__ bool copy_input(const Args &a, const Tile &tile, bool pairs, uint4 *buffer) {
  const char *const origin = input_origin(a, tile);
  u32 worst[2] = {0, 0};
#pragma unroll 1
  for (int first = threadIdx.x - MULTIPLIERS; first < ITEMS; first += COPIERS * TOGETHER) {
    Units units;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) load_item(a, tile, origin, pairs, first + i * COPIERS, units[i]);
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) store_item(first + i * COPIERS, units[i], buffer);
#if GAPS
#pragma unroll
    for (int i = 0; i < TOGETHER * UNITS * SPOT; i++) {
      const uint4 &u = units[i / (UNITS * SPOT)][i / SPOT % UNITS][i % SPOT];
      look_at(u.x, worst), look_at(u.y, worst), look_at(u.z, worst), look_at(u.w, worst);
    }
#endif
  }
  return !not_finite(worst);
}

__device__ __forceinline__ void copy_all(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, const Barriers &b, float *smem) {
  if (threadIdx.x == MULTIPLIERS && i < tiles) copy_weights(a, tile, b, smem);
#if PAIRED
  const bool pairs = aligned_pairs(a);
#else
  const bool pairs = false;
#endif
  Turn turn = {0, 1};
  for (int count = 1; i < tiles; i += workers, count++) {
    go_to(a, i, tile);
    wait(b.free + 8 * turn.at, turn.parity);
    const bool finite = copy_input(a, tile, pairs, (uint4 *)((char *)smem + WEIGHT_BYTES + turn.at * X_BYTES));
    if (!finite) b.note[turn.at] = count;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(b.full + 8 * turn.at);
    step<X_BUFFERS>(turn);
  }
}

// ---- computing ----

__device__ __forceinline__ void compute_part(const Args &a, const Tile &tile, const Barriers &b, const Place &p, int part, int at,
                                             bool again, float *smem) {
  const Part here = part_at(part);
  const char *const x = (const char *)smem + WEIGHT_BYTES + at * X_BYTES + position_of_part(here) * 16;
#pragma unroll 1
  for (int round = 0; round < ROUNDS; round++) {
    Sums sums;
    const char *const weights = (const char *)smem + round * ROUND_BYTES;
    multiply((u32)__cvta_generic_to_shared(weights), (u32)__cvta_generic_to_shared(x), sums);
#if GAPS
    if (again) sum_again(p, weights, x, sums);
#endif
    if (round == ROUNDS - 1) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(b.free + 8 * at);
    }
    finish_part(a, tile, p, here, round, sums);
  }
}

__device__ __forceinline__ void compute_all(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, const Barriers &b, float *smem) {
  const Place p = place_of(threadIdx.x);
  // the same for all threads of a warp, and the compiler shall know
  const int team = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  Turn turn = {0, 0};
  int first = team, count = 1;
  if (i < tiles) wait(b.weights, 0);
#pragma unroll 1
  for (; i < tiles; i += workers, count++) {
    if (first < PARTS) {
      go_to(a, i, tile);
      aim(a, tile);
      wait(b.full + 8 * turn.at, turn.parity);
    }
    const bool again = GAPS && first < PARTS && b.note[turn.at] == count;
    int part = first;
#pragma unroll 1
    for (; part < PARTS; part += TEAMS_OF_FOUR) compute_part(a, tile, b, p, part, turn.at, again, smem);
    first = part - PARTS; // parts of all tiles are counted through
    step<X_BUFFERS>(turn);
  }
}

__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  const Barriers b = barriers_of(smem);
  if (threadIdx.x == 0) init_barriers(b);
  __syncthreads();
  if (threadIdx.x >= MULTIPLIERS) {
    give_registers();
    copy_all(a, tile, i, tiles, workers, b, smem);
  } else {
    take_registers();
    compute_all(a, tile, i, tiles, workers, b, smem);
  }
}
