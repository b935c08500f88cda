// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores: positions are the rows of the product (16 cells a fragment), output channels its
// columns (8 a fragment), input channels its depth. A word is one TF32 number or a pair of 16-bit channels; a step of
// the depth is STEP_WORDS of them, 8, or 4 where there are few channels.
//
// Fragment layout (PTX, mma.m16n8k*): lane = 4 g + t holds rows g and g + 8, words t (and t + 4) of the input, column g of
// the weights, and columns 2 t, 2 t + 1 of the sums. Which cell is which row is free: a lane's rows are strips of
// neighbours along W, as long as one store is wide, so that the inputs of a row of taps are a window a strip, loaded once
// for all of them. Neighbouring lanes take neighbouring strips, whose stores meet in memory; a lane's own lie eight
// apart. Where rows of the result are not aligned there are no wide stores, and a strip is one cell.

typedef u32 WeightWord;

enum {
  X_CHANNEL = XD * XH * XW,
  LANE_WORDS = STEP_WORDS / 4,
  LANE_CELLS = 2 * MT,
  STRIPS = LANE_CELLS / STRIP,
  STRIP_GAP = 8 * STRIP, // cells from one strip of a lane to the next
  BLOCK_WORDS = 32 * LANE_WORDS, // weights of 8 output channels
  STEPS = EC / STEP_WORDS
};

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

__device__ __forceinline__ u32 to_tf32(float value) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// Word e of the position at origin + offset; 0 outside the input.
__device__ __forceinline__ u32 word_at(const Args &a, bool in, const char *origin, int offset, int e) {
#ifdef WORD_IS_F32
  return to_tf32(load_if<X_TYPE>(in && e < CI, origin, offset + e * a.x.stride[1]));
#else
  const u16 *x = (const u16 *)origin + offset + 2 * e * a.x.stride[1];
  return load_bits_if(in && 2 * e < CI, x) | load_bits_if(in && 2 * e + 1 < CI, x + a.x.stride[1]) << 16;
#endif
}

// Global to shared memory without a register between, or zeros where there is nothing; under way until wait_copies.
template <int BYTES>
__device__ __forceinline__ void copy_async(u32 to, const void *from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               ::"r"(to), "l"(from), "n"(BYTES), "r"(there ? BYTES : 0) : "memory");
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// packed: [group][step][KERNEL][CO_PAD / 8][BLOCK_WORDS]. By all teams; wait_copies follows.
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

__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int e0, u32 *ws) {
  fetch_weights(a, tile, e0, ws);
  wait_copies();
}

// The input tile: for every step, a plane for each t. With two words a lane and windows, a plane holds pairs of positions, word t of
// both, then word t + 4 of both: what a fragment wants in four registers in a row. Planes begin in different banks, so that
// the lanes of a load meet no bank twice.
__device__ __forceinline__ int plane_at(int t) { return t * X_PLANE + t % 2 * SKEW_ODD + t / 2 * SKEW_HIGH; }

// Without windows (VECTOR 1) words t of all positions, then words t + 4: a lane may begin at an odd position.
enum { PAIRS = LANE_WORDS == 2 && VECTOR > 1 };
__device__ __forceinline__ int position_at(int position, int half) {
  return PAIRS ? position / 2 * 4 + half * 2 + position % 2 : position + half * (X_PLANE / 2);
}

// Where word first + e goes; first is a multiple of the step.
__device__ __forceinline__ int slot_of(int first, int e, int position) {
  return first / STEP_WORDS * X_STEP + e / STEP_WORDS * X_STEP + plane_at(e % 4) + position_at(position, e % STEP_WORDS / 4);
}

struct Place {
  int x;        // the lane's first cell in the input tile, in the plane of its t
  int w;        // the lane's first weights
  int cell, m;  // the lane's first cell, the warp's first channel
};

__device__ __forceinline__ int cell_offset(int cell) {
  const int jw = cell % TW, jh = cell / TW % TH, jd = cell / TW / TH;
  return (jd * I0 * XH + jh * I1) * XW + jw * I2;
}

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  const int lane = thread % 32, warp = thread / 32;
  p.cell = warp % WARPS_M * 8 * LANE_CELLS + lane / 4 * STRIP;
  p.m = warp / WARPS_M * 8 * NT;
  p.x = plane_at(lane % 4) + cell_offset(p.cell) * (PAIRS ? 2 : 1);
  p.w = p.m / 8 * BLOCK_WORDS + lane * LANE_WORDS;
  return p;
}

// Inputs of a row of taps for one strip: WINDOW positions from x on, which is aligned to VECTOR of them; without windows
// (VECTOR 1), those of its cells.
__device__ __forceinline__ void load_window(const u32 *x, int at, u32 (&window)[LANE_WORDS][WINDOW]) {
#pragma unroll
  for (int i = 0; i < WINDOW; i += VECTOR)
    if (VECTOR == 1) {
#pragma unroll
      for (int b = 0; b < LANE_WORDS; b++) window[b][i] = x[position_at(at + cell_offset(i), b)];
    } else if (LANE_WORDS == 2) {
      const uint4 v = *(const uint4 *)(x + (at + i) * 2);
      window[0][i] = v.x, window[0][(i + 1) % WINDOW] = v.y;
      window[LANE_WORDS - 1][i] = v.z, window[LANE_WORDS - 1][(i + 1) % WINDOW] = v.w;
    } else if (VECTOR == 4) {
      const uint4 v = *(const uint4 *)(x + at + i);
      window[0][i] = v.x, window[0][(i + 1) % WINDOW] = v.y;
      window[0][(i + 2) % WINDOW] = v.z, window[0][(i + 3) % WINDOW] = v.w;
    } else {
      const uint2 v = *(const uint2 *)(x + at + i);
      window[0][i] = v.x, window[0][(i + 1) % WINDOW] = v.y;
    }
}

__device__ __forceinline__ void load_weights(const u32 *ws, u32 (&w)[LANE_WORDS]) {
#if STEP_WORDS == 8
  const uint2 pair = *(const uint2 *)ws;
  w[0] = pair.x, w[1] = pair.y;
#else
  w[0] = *ws;
#endif
}

__device__ __forceinline__ void multiply(const Place &p, const u32 *xs, const u32 *ws,
                                         float (&sums)[RT][MT][NT][4]) {
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
#pragma unroll
    for (int row = 0; row < TAP_ROWS; row++) {
      u32 window[STRIPS][LANE_WORDS][WINDOW];
#pragma unroll
      for (int s = 0; s < STRIPS; s++) load_window(xs + p.x, row_at[row] + cell_offset(s * STRIP_GAP), window[s]);
      // by a constant count: a loop from one table entry to the next is not unrolled for every architecture
#pragma unroll
      for (int u = 0; u < MOST_ROW_TAPS; u++)
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
              for (int b = 0; b < LANE_WORDS; b++) {
                const int q = 2 * i + half;
                x[half][b] = window[q / STRIP][b][tap_window[t] + q % STRIP * WINDOW_CELL];
              }
            mma(sums[tap_residue[t]][i][j], x, w);
          }
        }
    }
    xs += X_STEP;
    ws += KERNEL * (BM / 8) * BLOCK_WORDS;
  }
}
