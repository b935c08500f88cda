// SPDX-License-Identifier: Apache-2.0
// Products by every warp for itself: inputs and weights come from shared memory to registers.

#ifdef WORD_IS_F32
#define MMA_WIDE "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#define MMA_NARROW "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"
#elif defined(WORD_IS_F16)
#define MMA_WIDE "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define MMA_NARROW "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
#else
#define MMA_WIDE "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define MMA_NARROW "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"
#endif

// a: rows g and g + 8 of words t (and t + 4).
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[2][LANE_WORDS], const u32 (&b)[LANE_WORDS]) {
#if STEP_WORDS == 8
  asm(MMA_WIDE " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0][0]), "r"(a[1][0]), "r"(a[0][1]), "r"(a[1][1]), "r"(b[0]), "r"(b[1]));
#else
  asm(MMA_NARROW " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0][0]), "r"(a[1][0]), "r"(b[0]));
#endif
}

// packed, and in shared memory: [group][step][KERNEL][channels / 8][BLOCK_WORDS]. By all teams; wait_weights follows.
__device__ __forceinline__ void fetch_weights(const Args &a, const Tile &tile, int e0, u32 *ws) {
  enum { BLOCK = BLOCK_WORDS / 4, ROW = CO_PAD / 8 * BLOCK, TILE_ROW = BM / 8 * BLOCK };
  const int step0 = e0 / STEP_WORDS, first = tile.c0 / 8 * BLOCK;
  const uint4 *packed = (const uint4 *)(a.packed + WEIGHTS_AT) + ((i64)tile.group * CI_STEPS + step0) * KERNEL * ROW;
  const u32 to = (u32)__cvta_generic_to_shared(ws);
  for (int i = threadIdx.x; i < STEPS * KERNEL * TILE_ROW; i += THREADS * TEAMS) {
    const int in_row = first + i % TILE_ROW, row = i / TILE_ROW;
    const bool live = step0 + row / KERNEL < CI_STEPS && in_row < ROW;
    copy_async<16>(to + 16 * i, packed + (i64)row * ROW + in_row, live);
  }
}

__device__ __forceinline__ void wait_weights() { wait_copies(); }

// A lane's weights of a round, where a channel and a step have begun.
__device__ __forceinline__ const u32 *weights_of(const Place &p, const u32 *ws, int round) {
  const int lane = threadIdx.x % 32;
  return ws + (p.m / 8 + round * (BM / ROUNDS / 8)) * BLOCK_WORDS + lane * (CORE_ORDER ? 1 : LANE_WORDS);
}

__device__ __forceinline__ void load_weights(const u32 *ws, u32 (&w)[LANE_WORDS]) {
#if STEP_WORDS == 8
  const uint2 pair = CORE_ORDER ? make_uint2(ws[0], ws[32]) : *(const uint2 *)ws;
  w[0] = pair.x, w[1] = pair.y;
#else
  w[0] = *ws;
#endif
}

__device__ __forceinline__ void multiply(const Place &p, const u32 *xs, const u32 *ws, Sums &sums) {
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
#pragma unroll
    for (int row = 0; row < TAP_ROWS; row++) {
      Windows windows;
      load_windows(xs + p.x, row, windows);
      // by a constant count: a loop from one table entry to the next is not unrolled for every architecture
#pragma unroll
      for (int u = 0; u < MOST_OF_ROW; u++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
          const int t = row_begin[row] + u;
          if (t >= row_begin[row + 1]) continue;
          u32 w[LANE_WORDS];
          load_weights(ws + (tap_kernel[t] * (BM / 8) + j) * BLOCK_WORDS, w);
#pragma unroll
          for (int i = 0; i < MT; i++) {
            u32 x[2][LANE_WORDS];
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
              for (int b = 0; b < LANE_WORDS; b++) x[half][b] = word_of_cell(windows, in_window[t], 2 * i + half, b);
            mma(sums[tap_residue[t]][i][j], x, w);
          }
        }
    }
    xs += X_STEP;
    ws += KERNEL * (BM / 8) * BLOCK_WORDS;
  }
}
