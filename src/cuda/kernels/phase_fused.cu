// SPDX-License-Identifier: Apache-2.0
// Who does what: two teams of four warps multiply and finish parts in turns; the other warps bring the input of the next tile,
// rounded, into the order in which products read it. Barriers in shared memory tell when a buffer is full and when it is free.

enum { COPYING_WARPS = COPIERS / 32, TOGETHER_QUADS = QUADS < 4 ? QUADS : 4, TOGETHER = 8 / TOGETHER_QUADS };

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

// All units of the tile; a thread loads 32 words before it stores them. Returns whether all were finite.
__device__ __forceinline__ bool copy_input(const Args &a, const Tile &tile, char *buffer) {
  const char *const origin = input_origin(a, tile);
  u32 worst[2] = {0, 0};
#pragma unroll 1
  for (int first = threadIdx.x - MULTIPLIERS; first < X_CHANNEL; first += COPIERS * TOGETHER) {
    int offset[TOGETHER];
    bool in[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) in[i] = input_offset(a, tile, first + i * COPIERS, offset[i]);
#pragma unroll 1
    for (int quad = 0; quad < QUADS; quad += TOGETHER_QUADS) {
      u32 word[TOGETHER][TOGETHER_QUADS * 4];
#pragma unroll
      for (int i = 0; i < TOGETHER; i++)
#pragma unroll
        for (int e = 0; e < TOGETHER_QUADS * 4; e++)
          word[i][e] = word_at(a, in[i] & (first + i * COPIERS < X_CHANNEL), origin, offset[i], quad * 4 + e);
#pragma unroll
      for (int i = 0; i < TOGETHER; i++)
#pragma unroll
        for (int q = 0; q < TOGETHER_QUADS; q++) {
          const u32 *w = word[i] + q * 4;
          if ((first + i * COPIERS < X_CHANNEL) & (QUADS % TOGETHER_QUADS == 0 || quad + q < QUADS))
            ((uint4 *)buffer)[(quad + q) * X_CHANNEL + first + i * COPIERS] = make_uint4(w[0], w[1], w[2], w[3]);
        }
#if GAPS
#pragma unroll
      for (int i = 0; i < TOGETHER * TOGETHER_QUADS * 4; i++)
        look_at(word[i / (TOGETHER_QUADS * 4)][i % (TOGETHER_QUADS * 4)], worst);
#endif
    }
  }
  return !not_finite(worst);
}

__device__ __forceinline__ void copy_all(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, const Barriers &b, float *smem) {
  if (threadIdx.x == MULTIPLIERS && i < tiles) copy_weights(a, tile, b, smem);
  Turn turn = {0, 1};
  for (int count = 1; i < tiles; i += workers, count++) {
    go_to(a, i, tile);
    wait(b.free + 8 * turn.at, turn.parity);
    const bool finite = copy_input(a, tile, (char *)smem + WEIGHT_BYTES + turn.at * X_BYTES);
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
