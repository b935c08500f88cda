// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores for few output channels. Gathering would leave most of a fragment empty; here taps times
// channels are its rows: what an input position adds to the output through every tap is one dense product over the input
// channels. Along D those that end at the same output are added in registers: rows are residues along D, times channels, times
// kernel elements of a plane. They go to shared memory, where each output of a cell adds what belongs to it.
//
// Fragment layout (PTX, mma.m16n8k*): lane = 4 g + t holds words t and t + 4 of column g of x, rows g and g + 8 of columns
// 2 t, 2 t + 1 of the sums. Which position is which column is free. An item is 32 positions of one plane of the input tile.
// A lane loads a quad, four neighbours along W, one of each of the four fragments: at once, where x allows (WIDE). Which channel is
// which word is free as well, so in channels-last memory a lane takes neighbouring channels.

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
  WARPS = THREADS / 32
};

// Of OPEN neighbouring layers of cells along D, which read the same plane of x; the first one's are complete with it.
typedef float Sums[OPEN][MT][4][4];
typedef u32 Raw[RAW_WORDS];

// ---- x ----

// What a lane loads of an item: a quad.
struct Lane {
  const char *from; // its first word of the next chunk, of the first position
  int channel;      // which channel of the group that is
  u32 live;         // positions that x holds, a bit each
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

// On its way into the second-level cache.
__device__ __forceinline__ void prefetch_if(bool there, const char *from) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %1, 0;\n\t@p prefetch.global.L2 [%0];\n\t}" ::"l"(from), "r"((int)there));
}

// The lane's next chunk; the one after the next follows it into the second-level cache, as long as it is of the same plane.
template <bool WIDE>
__device__ __forceinline__ void load_chunk(const Args &a, Lane &lane, Raw &raw) {
  const i64 next = a.x.stride[1] * X_SIZE, step = (i64)a.x_step[2] * X_SIZE;
#pragma unroll
  for (int i = 0; i < LOADS; i++) {
    u32 *const to = raw + i * LOAD_WORDS;
    if (X_LAST) { // position i
      const bool live = lane.live >> i & 1;
      const char *from = lane.from + i * step;
      if (WIDE) load_words_if<LOAD_WORDS>(live & (WHOLE_CHUNKS | (lane.channel < CI)), from, to);
      else
#pragma unroll
        for (int v = 0; v < VECTOR; v++) load_element_if(live & (lane.channel + v < CI), from + v * next, v, to);
      continue;
    }
    const bool there = WHOLE_CHUNKS || lane.channel + i / PAIR * 4 * PAIR + i % PAIR < CI;
    const char *from = lane.from + i % PAIR * next;
    if (WIDE) load_words_if<LOAD_WORDS>((lane.live != 0) & there, from, to);
    if (WIDE && CHUNKS > 2) prefetch_if((lane.live != 0) & (lane.channel + 2 * CHUNK_CHANNELS < CI), from + 2 * CHUNK_CHANNELS * next);
    if (!WIDE)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) load_element_if((lane.live >> v & 1) & there, from + v * step, v, to);
    if (i % PAIR == PAIR - 1) lane.from += 4 * PAIR * next;
  }
  if (X_LAST) lane.from += CHUNK_CHANNELS * next;
  lane.channel += CHUNK_CHANNELS;
}

// The words of one step as if it were the chunk's first, element by element.
__device__ __forceinline__ void load_step(const Args &a, const Lane &lane, Raw &raw) {
  const i64 next = a.x.stride[1] * X_SIZE, step = (i64)a.x_step[2] * X_SIZE;
#pragma unroll
  for (int i = 0; i < 2 * PAIR; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int channel = X_LAST ? i : i / PAIR * 4 * PAIR + i % PAIR;
      const bool there = (lane.live >> j & 1) & (lane.channel + channel < CI);
      load_element_if(there, lane.from + channel * next + j * step, X_LAST ? i : j, raw + (X_LAST ? j : i) * LOAD_WORDS);
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

// packed, and in shared memory, of a block of channels: [step][kernel element along D][fragment of rows][lane][4].
enum { WEIGHT_STEP = KERNEL_DEPTH * FRAGMENTS * 32, WEIGHT_VECTORS = STEPS * WEIGHT_STEP };

__device__ __forceinline__ const uint4 *packed_weights(const Args &a, const Tile &tile) {
  return (const uint4 *)(a.packed + WEIGHTS_AT) + (i64)(tile.group * BLOCKS_PER_GROUP + tile.c0 / BM) * WEIGHT_VECTORS;
}

// Which fragments of the weights a warp multiplies a plane with; -1: none.
struct Needed {
  int at[OPEN][MT];
};

// The first fragment of a part of the rows; how many of them are all residues'.
enum { ALL_FRAGMENTS = R0 * FRAGMENTS };
__device__ __forceinline__ int first_fragment(int part) { return PARTS == 1 ? 0 : part * MT; }

// plane: which one of those that a layer reads, if there is but one layer.
__device__ __forceinline__ Needed needed_weights(int part, int plane) {
  Needed needed;
#pragma unroll
  for (int o = 0; o < OPEN; o++)
#pragma unroll
    for (int i = 0; i < MT; i++) {
      const int fragment = first_fragment(part) + i, here = OPEN > 1 ? XD - 1 - o : XD == 1 ? 0 : plane;
      const int kernel = fragment < ALL_FRAGMENTS ? depth_kernel[fragment / FRAGMENTS * XD + here] : -1;
      needed.at[o][i] = kernel < 0 ? -1 : kernel * FRAGMENTS + fragment % FRAGMENTS;
    }
  return needed;
}

// A step of a chunk; weights: the lane's of the step's first fragment of rows.
__device__ __forceinline__ void multiply_step(const uint4 *weights, const Needed &needed, int step, const Raw &raw, Sums &sums) {
  u32 x[4][2];
#pragma unroll
  for (int j = 0; j < 4; j++) x[j][0] = word_of(raw, step, 0, j), x[j][1] = word_of(raw, step, 1, j);
#pragma unroll
  for (int o = 0; o < OPEN; o++)
#pragma unroll
    for (int i = 0; i < MT; i++) {
      if (needed.at[o][i] < 0) continue;
      const uint4 *from = weights + needed.at[o][i] * 32, rows = SHARED_WEIGHTS ? *from : __ldg(from);
#pragma unroll
      for (int j = 0; j < 4; j++) mma(sums[o][i][j], rows, x[j][0], x[j][1]);
    }
}

__device__ __forceinline__ void multiply(const uint4 *weights, const Needed &needed, int chunk, const Raw &raw, Sums &sums) {
#pragma unroll
  for (int step = 0; step < 2; step++)
    if (STEPS % 2 == 0 || chunk * 2 + step < STEPS)
      multiply_step(weights + (chunk * 2 + step) * WEIGHT_STEP, needed, step, raw, sums);
}

__device__ __forceinline__ void clear(Sums &sums) {
#pragma unroll
  for (int i = 0; i < OPEN * MT * 16; i++) sums[i / (MT * 16)][i / 16 % MT][i / 4 % 4][i % 4] = 0.0f;
}

// The next plane: each layer takes the place of the one before.
__device__ __forceinline__ void go_deeper(Sums &sums) {
#pragma unroll
  for (int i = 0; i < OPEN * MT * 16; i++) {
    const int o = i / (MT * 16), m = i / 16 % MT, j = i / 4 % 4, k = i % 4;
    sums[o][m][j][k] = o + 1 < OPEN ? sums[(o + 1) % OPEN][m][j][k] : 0.0f;
  }
}

// ---- sums of a layer in shared memory: [residue along D][channel][kernel element of a plane][h][w] ----

// The row that fragment i of a part has at the lane's row `half`; -1: there is none.
__device__ __forceinline__ int row_of_sums(int part, int i, int half) {
  const int fragment = first_fragment(part) + i, row = fragment % FRAGMENTS * 16 + half * 8 + threadIdx.x % 32 / 4;
  const bool there = (FRAGMENTS * 16 == RESIDUE_ROWS || row < RESIDUE_ROWS) & (fragment < ALL_FRAGMENTS);
  return there ? fragment / FRAGMENTS * RESIDUE_ROWS + row : -1;
}

// Those of the first layer. slot: where the lane's quad lies in a row of sums; -1: there is none. Columns are quads, fragments
// their elements.
__device__ __forceinline__ void store_sums(float *to, int part, int slot, const Sums &sums) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const int at = __shfl_sync(~0u, slot, threadIdx.x % 4 * 8 + k * 4); // of column 2 t + k
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = row_of_sums(part, i, half), e = 2 * half + k;
        if (row >= 0 && at >= 0)
          *(float4 *)(to + row * PITCH + at) = make_float4(sums[0][i][0][e], sums[0][i][1][e], sums[0][i][2][e], sums[0][i][3][e]);
      }
  }
}
