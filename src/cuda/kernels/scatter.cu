// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores for few output channels. Gathering would leave most of a fragment empty; here taps times
// channels are its rows: what an input position adds to the output through every tap is one dense product over the input
// channels. It goes to shared memory, where each output of a cell adds what belongs to it.
//
// Fragment layout (PTX, mma.m16n8k*): lane = 4 g + t holds words t and t + 4 of column g of x, rows g and g + 8 of columns
// 2 t, 2 t + 1 of the sums. Which position is which column is free. An item is 32 positions of one plane of the input tile.
// Where x allows, a lane loads four neighbours along W at once, one of each of the four fragments (QUADS); else the columns of
// each fragment are neighbours. Which channel is which word is free as well, so in channels-last memory a lane takes
// neighbouring channels.

#if defined(WORD_IS_F32)
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
enum { PAIR = 1 };
#elif defined(WORD_IS_F16)
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
enum { PAIR = 2 };
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
enum { PAIR = 2 };
#endif

// A chunk is two steps of the depth, 16 words: four of each lane and position. They are converted when they are multiplied.
enum {
  X_SIZE = size_of(X_TYPE),
  VECTOR = X_LAST ? 4 * PAIR : 4,       // elements that a lane loads together, if it may
  LOADS = X_LAST ? 4 : 4 * PAIR,        // of so many, for a chunk
  LOAD_WORDS = VECTOR * X_SIZE / 4,
  RAW_WORDS = LOADS * LOAD_WORDS,
  CHUNK_CHANNELS = 16 * PAIR,
  CHUNKS = (STEPS + 1) / 2,
  CHUNKS_LOADED = (CHUNKS + 1) / 2 * 2, // two are under way
  WHOLE_CHUNKS = CI == CHUNKS_LOADED * CHUNK_CHANNELS,
  RING = XD,                            // planes of sums
  WARPS = THREADS / 32
};

typedef float Sums[MT][4][4];
typedef u32 Raw[RAW_WORDS];

// ---- x ----

// What a lane loads of an item.
template <bool QUADS>
struct Lane {
  const char *from;         // its first word of the next chunk, of the tile's first position
  int channel;              // which channel of the group that is
  int offset[QUADS ? 1 : 4]; // its positions, in elements from there
  u32 live;                 // those that x holds, a bit each
};

template <int WORDS>
__device__ __forceinline__ void load_words_if(bool there, const char *from, u32 *to) {
  if (WORDS == 4)
    asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %5, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
        "@p ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];\n\t}"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2 % WORDS]), "=r"(to[3 % WORDS]) : "l"(from), "r"((int)there));
  else
    asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %3, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\t@p ld.global.nc.v2.u32 {%0,%1}, [%2];\n\t}"
        : "=r"(to[0]), "=r"(to[1]) : "l"(from), "r"((int)there));
}

// Element i of VECTOR that lie `step` bytes apart, into the words of one load.
__device__ __forceinline__ void load_element_if(bool there, const char *from, int i, u32 *to) {
  if (X_SIZE == 4) to[i % LOAD_WORDS] = (u32)__float_as_int(load_if<F32>(there, from, 0));
  else to[i / 2 % LOAD_WORDS] = (i % 2 ? to[i / 2 % LOAD_WORDS] : 0) | load_bits_if(there, (const u16 *)from) << i % 2 * 16;
}

// The lane's next chunk.
template <bool WIDE, bool QUADS>
__device__ __forceinline__ void load_chunk(const Args &a, Lane<QUADS> &lane, Raw &raw) {
  const i64 next = a.x.stride[1] * X_SIZE;
#pragma unroll
  for (int i = 0; i < LOADS; i++) {
    u32 *const to = raw + i * LOAD_WORDS;
    if (X_LAST) {
      const char *from = lane.from + (i64)lane.offset[QUADS ? 0 : i % 4] * X_SIZE;
      const bool live = lane.live >> i & 1;
      if (WIDE) load_words_if<LOAD_WORDS>(live & (WHOLE_CHUNKS | (lane.channel < CI)), from, to);
      else
#pragma unroll
        for (int v = 0; v < VECTOR; v++) load_element_if(live & (lane.channel + v < CI), from + v * next, v, to);
      continue;
    }
    const bool there = WHOLE_CHUNKS || lane.channel + i / PAIR * 4 * PAIR + i % PAIR < CI;
    const char *from = lane.from + i % PAIR * next;
    if (QUADS) load_words_if<LOAD_WORDS>((lane.live != 0) & there, from + (i64)lane.offset[0] * X_SIZE, to);
    else
#pragma unroll
      for (int v = 0; v < VECTOR; v++)
        load_element_if((lane.live >> v & 1) & there, from + (i64)lane.offset[QUADS ? 0 : v] * X_SIZE, v, to);
    if (i % PAIR == PAIR - 1) lane.from += 4 * PAIR * next;
  }
  if (X_LAST) lane.from += CHUNK_CHANNELS * next;
  lane.channel += CHUNK_CHANNELS;
}

// The words of one step as if it were the chunk's first, element by element.
template <bool QUADS>
__device__ __forceinline__ void load_step(const Args &a, const Lane<QUADS> &lane, Raw &raw) {
  const i64 next = a.x.stride[1] * X_SIZE;
#pragma unroll
  for (int i = 0; i < 2 * PAIR; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int channel = X_LAST ? i : i / PAIR * 4 * PAIR + i % PAIR;
      const char *from = lane.from + channel * next + (i64)lane.offset[QUADS ? 0 : j] * X_SIZE;
      const bool there = (lane.live >> j & 1) & (lane.channel + channel < CI);
      load_element_if(there, from, X_LAST ? i : j, raw + (X_LAST ? j : i) * LOAD_WORDS);
    }
}

// Word `half` of a step of the chunk, of the lane's position j.
__device__ __forceinline__ u32 word_of(const Raw &raw, int step, int half, int j) {
  const int word = 2 * step + half, at = X_LAST ? 4 * j + word : 4 * word + j;
#ifdef WORD_IS_F32
  if (X_TYPE == F32) return to_tf32(__int_as_float((int)raw[at % RAW_WORDS]));
  const u16 bits = (u16)(raw[at / 2 % RAW_WORDS] >> at % 2 * 16); // is a TF32 number
  return (u32)__float_as_int(X_TYPE == F16 ? from_f16(bits) : from_bf16(bits));
#else
  if (X_LAST) return raw[at];
  return __byte_perm(raw[4 * word + j / 2], raw[4 * word + 2 + j / 2], j % 2 ? 0x7632 : 0x5410);
#endif
}

// ---- products ----

__device__ __forceinline__ void mma(float (&d)[4], const uint4 &w, u32 x0, u32 x1) {
  asm(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "r"(x0), "r"(x1));
}

// packed, and in shared memory: [step][fragment of rows][lane][4], of a block of channels.
enum { WEIGHT_STEP = FRAGMENTS * 32, WEIGHT_VECTORS = STEPS * WEIGHT_STEP };

__device__ __forceinline__ const uint4 *packed_weights(const Args &a, const Tile &tile) {
  return (const uint4 *)(a.packed + WEIGHTS_AT) + (i64)(tile.group * BLOCKS_PER_GROUP + tile.c0 / BM) * WEIGHT_VECTORS;
}

// A step of a chunk; weights: the lane's of the step's first fragment of rows.
__device__ __forceinline__ void multiply_step(const uint4 *weights, int step, const Raw &raw, Sums &sums) {
  u32 x[4][2];
#pragma unroll
  for (int j = 0; j < 4; j++) x[j][0] = word_of(raw, step, 0, j), x[j][1] = word_of(raw, step, 1, j);
#pragma unroll
  for (int i = 0; i < MT; i++) {
    const uint4 rows = SHARED_WEIGHTS ? weights[i * 32] : __ldg(weights + i * 32);
#pragma unroll
    for (int j = 0; j < 4; j++) mma(sums[i][j], rows, x[j][0], x[j][1]);
  }
}

__device__ __forceinline__ void multiply(const uint4 *weights, int chunk, const Raw &raw, Sums &sums) {
#pragma unroll
  for (int step = 0; step < 2; step++)
    if (STEPS % 2 == 0 || chunk * 2 + step < STEPS)
      multiply_step(weights + (chunk * 2 + step) * WEIGHT_STEP, step, raw, sums);
}

__device__ __forceinline__ void clear(Sums &sums) {
#pragma unroll
  for (int i = 0; i < MT * 16; i++) sums[i / 16][i / 4 % 4][i % 4] = 0.0f;
}

// ---- sums in shared memory: [row: channel, then kernel element][plane][h][w] ----

// Where the lane's positions of an item lie in their plane; -1: there is none.
template <bool QUADS>
struct Slots {
  int at[QUADS ? 1 : 4];
};

// The slot of column 2 t + i of fragment j.
template <bool QUADS>
__device__ __forceinline__ int slot_of(const Slots<QUADS> &slots, int j, int i) {
  return __shfl_sync(~0u, slots.at[QUADS ? 0 : j], threadIdx.x % 4 * 8 + i * 4);
}

__device__ __forceinline__ void put(float *to, int slot, int row, const Sums &sums, int i, int k) {
  if (slot < 0 || (SUM_ROWS != FRAGMENTS * 16 && row >= SUM_ROWS)) return;
  *(float4 *)(to + row * PITCH + slot) = make_float4(sums[i][0][k], sums[i][1][k], sums[i][2][k], sums[i][3][k]);
}

// to: the plane; row: the lane's first.
template <bool QUADS>
__device__ __forceinline__ void store_sums(float *to, int row, const Slots<QUADS> &slots, const Sums &sums) {
  if (QUADS) { // columns are quads, fragments their elements
    const int slot[2] = {slot_of(slots, 0, 0), slot_of(slots, 0, 1)};
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int k = 0; k < 4; k++) put(to, slot[k % 2], row + 16 * i + k / 2 * 8, sums, i, k);
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int slot = slot_of(slots, j, k);
#pragma unroll
      for (int i = 0; i < MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int r = row + 16 * i + 8 * half;
          if (slot >= 0 && (SUM_ROWS == FRAGMENTS * 16 || r < SUM_ROWS)) to[r * PITCH + slot] = sums[i][j][2 * half + k];
        }
    }
}
