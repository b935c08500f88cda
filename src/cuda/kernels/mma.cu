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
typedef float Sums[RT][MT][NT][4];

enum {
  X_CHANNEL = XD * XH * XW,
  LANE_WORDS = STEP_WORDS / 4,
  LANE_CELLS = 2 * MT,
  STRIPS = LANE_CELLS / STRIP,
  STRIP_GAP = 8 * STRIP, // cells from one strip of a lane to the next
  BLOCK_WORDS = 32 * LANE_WORDS, // weights of 8 output channels
  STEPS = EC / STEP_WORDS
};

// Global to shared memory without a register between, or zeros where there is nothing; under way until wait_copies.
template <int BYTES>
__device__ __forceinline__ void copy_async(u32 to, const void *from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               ::"r"(to), "l"(from), "n"(BYTES), "r"(there ? BYTES : 0) : "memory");
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The input tile: for every step, a plane for each t: words t of all positions, then words t + 4. With PAIRS it holds
// pairs of positions instead, word t of both, then word t + 4 of both: what a fragment wants in four registers in a row.
// Planes begin in different banks, so that the lanes of a load meet no bank twice.
__device__ __forceinline__ int plane_at(int t) { return t * X_PLANE + t % 2 * SKEW_ODD + t / 2 * SKEW_HIGH; }

__device__ __forceinline__ int position_at(int position, int half) {
  return PAIRS ? position / 2 * 4 + half * 2 + position % 2 : position + half * (X_PLANE / 2);
}

// Where word first + e goes; first is a multiple of the step.
__device__ __forceinline__ int slot_of(int first, int e, int position) {
  return first / STEP_WORDS * X_STEP + e / STEP_WORDS * X_STEP + plane_at(e % 4) + position_at(position, e % STEP_WORDS / 4);
}

struct Place {
  int x;        // the lane's first cell in the input tile, in the plane of its t
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
  return p;
}

// VECTOR positions of a window, from the i-th on.
__device__ __forceinline__ void load_positions(const u32 *x, int at, int i, int b, u32 (&window)[WINDOW]) {
  if (VECTOR == 1) {
    window[i] = x[position_at(at + cell_offset(i), b)];
  } else if (VECTOR == 4) {
    const uint4 v = *(const uint4 *)(x + position_at(at + i, b));
    window[i] = v.x, window[(i + 1) % WINDOW] = v.y;
    window[(i + 2) % WINDOW] = v.z, window[(i + 3) % WINDOW] = v.w;
  } else {
    const uint2 v = *(const uint2 *)(x + position_at(at + i, b));
    window[i] = v.x, window[(i + 1) % WINDOW] = v.y;
  }
}

// Inputs of a row of taps for one strip: WINDOW positions from x on, which is aligned to VECTOR of them; without windows
// (VECTOR 1), those of its cells.
__device__ __forceinline__ void load_window(const u32 *x, int at, u32 (&window)[LANE_WORDS][WINDOW]) {
#pragma unroll
  for (int i = 0; i < WINDOW; i += VECTOR)
    if (PAIRS) {
      const uint4 v = *(const uint4 *)(x + (at + i) * 2);
      window[0][i] = v.x, window[0][(i + 1) % WINDOW] = v.y;
      window[LANE_WORDS - 1][i] = v.z, window[LANE_WORDS - 1][(i + 1) % WINDOW] = v.w;
    } else {
#pragma unroll
      for (int b = 0; b < LANE_WORDS; b++) load_positions(x, at, i, b, window[b]);
    }
}

typedef u32 Windows[STRIPS][LANE_WORDS][WINDOW];

// Those of all strips of a lane, for a row of taps.
__device__ __forceinline__ void load_windows(const u32 *x, int row, Windows &windows) {
#pragma unroll
  for (int s = 0; s < STRIPS; s++) load_window(x, row_at[row] + cell_offset(s * STRIP_GAP), windows[s]);
}

// Word t + 4 b that a lane's cell q reads, where a tap begins at `at` in the windows.
__device__ __forceinline__ u32 word_of_cell(const Windows &windows, int at, int q, int b) {
  return windows[q / STRIP][b][at + q % STRIP * WINDOW_CELL];
}
