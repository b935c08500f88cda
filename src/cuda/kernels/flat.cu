// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores for few input channels: the depth of the product is flattened over channels and taps,
// so that it is full where channels alone would not fill it. 16 cells are the rows of a fragment, 8 output channels its
// columns; each residue has a depth of its own, in steps of eight words (tables above). Everything is TF32, which holds f16
// and bf16 numbers exactly; a weight that is neither is the sum of PARTS words, and the second parts' sums are kept apart.
//
// Fragment layout (PTX, mma.m16n8k*): lane = 4 g + t holds rows g and g + 8, words t (and t + 4) of the input, column g of
// the weights, and columns 2 t, 2 t + 1 of the sums. A word of the input is read from the halo tile at the lane's cell plus
// what the pattern adds for t plus a constant: neighbouring lanes g are neighbouring cells.

enum { X_CHANNEL = XD * XH * XW, TILE_CELLS = TD * TH * TW };

// Strips: rows g and g + 8 of two fragments are four cells side by side, of which neighbouring lanes g have neighbours. What such a
// strip reads in a row of the input is a window of WINDOW words, loaded four at once. Rows g and g + 8 of a fragment are cells two
// apart, and of every four inputs the second and third have changed places: where both halves of a step are neighbours along W,
// what is loaded together are a fragment's registers, in their order.
enum { STRIP_CELLS = STRIPS ? 4 : 1, ROW_STRIPS = (TW + STRIP_CELLS - 1) / STRIP_CELLS, WINDOW = STRIP_CELLS + XW - TW };

__device__ __forceinline__ constexpr int place_of(int w) { return STRIPS ? (w & ~3) | (w & 1) << 1 | (w >> 1 & 1) : w; }

// Which of its four cells a lane has in a row of fragment i; row: 0 for g, 1 for g + 8.
__device__ __forceinline__ constexpr int strip_cell(int i, int row) { return i + 2 * row; }

// An element's bits, 0 outside the input; as a word.
__device__ __forceinline__ u32 bits_at(bool in, const char *origin, i64 index) {
  if (X_TYPE == F32) return (u32)__float_as_int(load_if<F32>(in, origin, index));
  return load_bits_if(in, (const u16 *)origin + index);
}

__device__ __forceinline__ u32 word_of(u32 bits) {
  if (X_TYPE == F32) return to_tf32(__int_as_float((int)bits));
  return (u32)__float_as_int(X_TYPE == F16 ? from_f16((u16)bits) : from_bf16((u16)bits));
}

// Channel e of the position at origin + offset.
__device__ __forceinline__ u32 word_at(const Args &a, bool in, const char *origin, int offset, int e) {
  return word_of(bits_at(in, origin, offset + e * a.x.stride[1]));
}

__device__ __forceinline__ int slot_of(int first, int e, int position) {
  const int w = position % XW, h = position / XW % XH, d = position / (XW * XH);
  return (first + e) * X_PITCH + d * X_PLANE + h * X_ROW + place_of(w);
}

// d += a b, eight words deep, or four.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[2][2], const u32 (&b)[2], bool wide) {
  if (wide)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0][0]), "r"(a[1][0]), "r"(a[0][1]), "r"(a[1][1]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0][0]), "r"(a[1][0]), "r"(b[0]));
}

// ---- weights ----

// A lane finishes columns 2 t and 2 t + 1 of every fragment: neighbouring channels, so that those of the four t are far
// enough apart in the finished tile to be in different banks. In strips, where lanes g store four cells apart, channels of the four t
// are neighbours, and all channels skewed.
enum { LANE_CHANNELS = 2 * NT };

// The channel, within a block, of column 2 t + k of fragment j.
__device__ __forceinline__ int channel_of(int t, int j, int k) {
  return STRIPS ? t + 4 * (2 * j + k) : t * LANE_CHANNELS + 2 * j + k;
}

// packed: [part][group][CI][KERNEL][CO_PAD], TF32 numbers. Word t of half `half` of a step, for column g of fragment j.
__device__ __forceinline__ u32 packed_word(const Args &a, const Tile &tile, int step, int half, int j, int part, int lane) {
  const int weight = word_weight[step * 8 + half * 4 + lane % 4];
  const int column = tile.c0 + channel_of(lane / 8, j, lane / 4 % 2);
  if (weight < 0 || column >= CO_PAD) return 0;
  const i64 row = (i64)(part * GROUPS + tile.group) * CI * KERNEL + weight;
  return ((const u32 *)a.packed)[WEIGHTS_AT + row * CO_PAD + column];
}

// All weights of a block's channels: in registers where they are few, else in shared memory as [step][j][part][lane][half].
struct Weights {
#if HELD_WEIGHTS
  u32 word[STEPS][NT][PARTS][2];
#else
  const uint2 *word;
#endif
};

__device__ __forceinline__ void load_weights(const Args &a, const Tile &tile, u32 *ws, Weights &weights) {
#if HELD_WEIGHTS
#pragma unroll
  for (int i = 0; i < STEPS * NT * PARTS * 2; i++)
    weights.word[i / (NT * PARTS * 2)][i / (PARTS * 2) % NT][i / 2 % PARTS][i % 2] =
        packed_word(a, tile, i / (NT * PARTS * 2), i % 2, i / (PARTS * 2) % NT, i / 2 % PARTS, threadIdx.x % 32);
#else
  for (int i = threadIdx.x; i < WEIGHT_WORDS; i += THREADS) {
    const int lane = i / 2 % 32, part = i / 64 % PARTS, j = i / (64 * PARTS) % NT, step = i / (64 * PARTS * NT);
    ws[i] = packed_word(a, tile, step, i % 2, j, part, lane);
  }
  weights.word = (const uint2 *)ws + threadIdx.x % 32;
#endif
}

__device__ __forceinline__ void weight_words(const Weights &weights, int step, int j, int part, u32 (&w)[2]) {
#if HELD_WEIGHTS
  w[0] = weights.word[step][j][part][0], w[1] = weights.word[step][j][part][1];
#else
  const uint2 pair = weights.word[((step * NT + j) * PARTS + part) * 32];
  w[0] = pair.x, w[1] = pair.y;
#endif
}

// ---- products ----

typedef float Sums[RT][MT][NT][PARTS][4];

// A strip's window of a row of the input.
__device__ __forceinline__ void load_window(const char *row, u32 (&window)[WINDOW]) {
#pragma unroll
  for (int v = 0; v + 4 <= WINDOW; v += 4) {
    const uint4 four = *(const uint4 *)(row + v * 4);
    window[v] = four.x, window[v + 2] = four.y, window[v + 1] = four.z, window[v + 3] = four.w;
  }
#pragma unroll
  for (int v = WINDOW / 4 * 4; v < WINDOW; v++) window[v] = *(const u32 *)(row + place_of(v) * 4);
}

// at: of a lane's cells in the input tile; pattern: its part of each pattern; both in bytes.
__device__ __forceinline__ void load_half(const u32 *xs, const int (&at)[MT][2], const int (&pattern)[PATTERNS], int half,
                                          u32 (&window)[WINDOW], u32 (&x)[MT][2][2]) {
  const int live = half_live[half], place = STRIPS ? half_place[half] : 0;
  const char *const first = (const char *)(xs + half_base[half] - place) + pattern[half_pattern[half]];
  if (STRIPS && (half == 0 || half_window[half] != half_window[half - 1])) load_window(first + at[0][0], window);
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int row = 0; row < 2; row++) {
      u32 word = !live ? 0 : STRIPS ? window[(place + strip_cell(i, row)) % WINDOW] : *(const u32 *)(first + at[i][row]);
      if (live < 4 && (int)(threadIdx.x % 4) >= live) word = 0; // it has no weight, but may be infinite
      x[i][row][half % 2] = word;
    }
}

__device__ __forceinline__ void multiply(const u32 *xs, const int (&at)[MT][2], const int (&pattern)[PATTERNS], int rg,
                                         const Weights &weights, Sums &sums) {
  u32 window[WINDOW];
  // by a constant count: a loop from one table entry to the next is not unrolled for every architecture
#pragma unroll
  for (int u = 0; u < MOST_STEPS; u++) {
    const int s = step_begin[rg] + u;
    if (s >= step_begin[rg + 1]) continue;
    u32 x[MT][2][2];
    load_half(xs, at, pattern, 2 * s, window, x);
    load_half(xs, at, pattern, 2 * s + 1, window, x);
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        u32 w[2];
        weight_words(weights, s, j, part, w);
#pragma unroll
        for (int i = 0; i < MT; i++) mma(sums[step_residue[s] - rg * RT][i][j][part], x[i], w, half_live[2 * s + 1] > 0);
      }
  }
}
