// SPDX-License-Identifier: Apache-2.0
// Products by four warps together (wgmma, sm_90a): 64 cells come from their registers, weights from shared memory, which is
// read once for all of them. Taps of one offset that serve neighbouring residues are one product: their weights lie side by
// side, and the sums of those residues are its columns. It goes on while the next row of taps is loaded.

enum { STEP_ROW = TAPS * NT * BLOCK_WORDS }; // weights of one step of a round

// packed: [group][step][KERNEL][CO_PAD / 8][BLOCK_WORDS]; in shared memory: [round][step][tap][NT][BLOCK_WORDS]. By all
// teams; wait_weights follows.
__device__ __forceinline__ void fetch_weights(const Args &a, const Tile &tile, int e0, u32 *ws) {
  enum { BLOCK = BLOCK_WORDS / 4, ROW = CO_PAD / 8 * BLOCK, PIECE = NT * BLOCK };
  const int step0 = e0 / STEP_WORDS, first = tile.c0 / 8 * BLOCK;
  const uint4 *packed = (const uint4 *)(a.packed + WEIGHTS_AT) + ((i64)tile.group * CI_STEPS + step0) * KERNEL * ROW;
  const u32 to = (u32)__cvta_generic_to_shared(ws);
  for (int i = threadIdx.x; i < ROUNDS * STEPS * TAPS * PIECE; i += THREADS * TEAMS) {
    const int tap = i / PIECE % TAPS, step = i / (PIECE * TAPS) % STEPS, round = i / (PIECE * TAPS * STEPS);
    const int in_row = first + round * PIECE + i % PIECE;
    const bool live = step0 + step < CI_STEPS && in_row < ROW;
    copy_async<16>(to + 16 * i, packed + ((i64)step * KERNEL + tap_kernel[tap]) * ROW + in_row, live);
  }
}

// Products read through another proxy than the copies write.
__device__ __forceinline__ void wait_weights() {
  wait_copies();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ const u32 *weights_of(const Place &, const u32 *ws, int round) {
  return ws + round * STEPS * STEP_ROW;
}

// All products that read one window.
__device__ __forceinline__ void multiply_row(int row, const Windows &windows, u32 ws, Sums &sums) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int u = 0; u < MOST_OF_ROW; u++) {
    const int product = row_begin[row] + u;
    if (product >= row_begin[row + 1]) continue;
#pragma unroll
    for (int i = 0; i < MT; i++) {
      u32 x[4]; // rows g and g + 8 of words t, then of words t + 4
#pragma unroll
      for (int k = 0; k < 4; k++) x[k] = word_of_cell(windows, in_window[product], 2 * i + k % 2, k / 2);
      wgmma(sums, first_residue[product], i, x, matrix_at(ws + first_tap[product] * NT * BLOCK_WORDS * 4));
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most ROWS windows are still being multiplied.
template <int ROWS>
__device__ __forceinline__ void wait_rows() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(ROWS) : "memory");
}

// Sums are whole now: no use of them may move to before this.
__device__ __forceinline__ void wait_products(Sums &sums) {
  wait_rows<0>();
#pragma unroll
  for (int i = 0; i < RT * MT * NT * 4; i++)
    asm volatile("" : "+f"(sums[i / 4 / NT / MT][i / 4 / NT % MT][i / 4 % NT][i % 4])::"memory");
}

__device__ __forceinline__ void multiply(const Place &p, const u32 *xs, const u32 *weights, Sums &sums) {
  u32 ws = (u32)__cvta_generic_to_shared(weights);
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
#pragma unroll
    for (int row = 0; row < TAP_ROWS; row++) {
      Windows windows;
      load_windows(xs + p.x, row, windows);
      multiply_row(row, windows, ws, sums);
      wait_rows<(TAP_ROWS > 1)>(); // what is loaded next takes the registers of another window: its products are done
    }
    xs += X_STEP;
    ws += STEP_ROW * 4;
  }
  wait_products(sums);
}
