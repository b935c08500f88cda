// SPDX-License-Identifier: Apache-2.0
// A tile of many channels where each warp multiplies for itself: sm_80 and later. All threads copy and multiply in turn.

#ifdef WORD_IS_F32
#define GEMM_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif defined(WORD_IS_F16)
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// d += a b; a: rows g and g + 8 of words t, then of words t + 4; b0, b1: words t and t + 4 of column g.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm(GEMM_MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes to shared memory, or zeros.
__device__ __forceinline__ void copy_unit(u32 to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// The tile's first row, which need not exist.
__device__ __forceinline__ const char *rows_of(const Args &a, const Tile &tile, int rg) {
  return a.rows.origin + tile.n * a.rows.stride[0] + tile.group * a.rows.stride[1] +
         (tile.qd + first_delta[rg][0] - a.x.begin[1]) * a.rows.stride[3] +
         (tile.qh + first_delta[rg][1] - a.x.begin[2]) * a.rows.stride[4] +
         (tile.qw + first_delta[rg][2] - a.x.begin[3]) * a.rows.stride[5];
}

// Where row `row` of the input tile lies, the same for all chunks: in units of 16 bytes from the tile's first; -1: outside x.
__device__ __forceinline__ int locate_row(const Args &a, const Tile &tile, int rg, int row) {
  const int w = row % XW, h = row / XW % XH, d = row / (XW * XH) % XD, sample = row / (XW * XH * XD);
  const int gd = tile.qd + first_delta[rg][0] + d, gh = tile.qh + first_delta[rg][1] + h,
            gw = tile.qw + first_delta[rg][2] + w;
  const i64 bytes = sample * a.rows.stride[0] + d * a.rows.stride[3] + h * a.rows.stride[4] + w * a.rows.stride[5];
  return holds(a.x, a.x.begin[0], gd, gh, gw) & (tile.n + sample < a.n0 + a.batch) ? (int)(bytes / 16) : -1;
}

__device__ __forceinline__ void stage_rows(const Args &a, const char *rows, int chunk, const int *located, u32 to) {
  const char *from = rows + chunk * a.rows.stride[2];
#pragma unroll 4
  for (int i = threadIdx.x; i < X_ROWS * UNITS; i += THREADS) {
    const int unit = i % UNITS, row = i / UNITS, at = located[row];
    const bool there = at >= 0 && chunk * STEPS + unit / 2 < CI_STEPS;
    copy_unit(to + row * ROW_BYTES + (unit ^ row % 8) * 16, there ? from + (i64)at * 16 + unit * 16 : a.rows.origin, there);
  }
}

__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int chunk, int kernel, u32 to) {
  const uint4 *from = weights_of(a, tile, chunk, kernel);
  for (int i = threadIdx.x; i < STEPS * STEP_UNITS; i += THREADS) {
    const int in_row = i % STEP_UNITS, step = i / STEP_UNITS;
    const bool there = chunk * STEPS + step < CI_STEPS && tile.c0 / 8 * BLOCK_UNITS + in_row < PACKED_ROW;
    copy_unit(to + i * 16, there ? from + step * WEIGHT_TAPS * PACKED_ROW + in_row : (const uint4 *)(a.packed + WEIGHTS_AT), there);
  }
}

// What is copied next.
struct Feed {
  int chunk, tap, stage;
};

__device__ __forceinline__ void feed(const Args &a, const Tile &tile, int rg, const char *rows, const int *located, u32 xs, u32 ws,
                                     Feed &next) {
  const int first = tap_begin[rg * HELD], end = tap_begin[(rg + 1) * HELD];
  if (next.chunk < CHUNKS) {
    if (next.tap == first) stage_rows(a, rows, next.chunk, located, xs + next.chunk % X_BUFFERS * X_BYTES);
    stage_weights(a, tile, next.chunk, tap_kernel[next.tap], ws + next.stage * W_BYTES);
    next.stage = next.stage + 1 == STAGES ? 0 : next.stage + 1;
    if (++next.tap == end) next.tap = first, next.chunk++;
  }
  asm volatile("cp.async.commit_group;" ::: "memory"); // also an empty one: what is waited for is counted
}

// x, w: the halo tile and the weights of one tap.
__device__ __forceinline__ void multiply(const Place &p, int tap, u32 x, u32 w, float (&sums)[MT][NT][4]) {
  enum { PAIRS = (NT + 1) / 2 };
  u32 address[MT];
  addresses_of(p, tap, x, address);
#pragma unroll (STEPS_AHEAD) // whose operands may be loaded before the first is multiplied
  for (int q = 0; q < STEPS; q++) {
    u32 rows[MT][4], columns[PAIRS][4];
#pragma unroll
    for (int i = 0; i < MT; i++) load_matrices(address[i] ^ (q * 32), rows[i]);
    // two fragments are four matrices in a row; of a last single one, the second half is not used
#pragma unroll
    for (int j = 0; j < PAIRS; j++)
      load_matrices(w + p.w + (q * STEP_UNITS + j * 2 * BLOCK_UNITS + threadIdx.x % (NT == 1 ? 16 : 32)) * 16, columns[j]);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) mma(sums[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
  }
}

__device__ __forceinline__ void multiply_all(const Args &a, const Tile &tile, int rg, float *smem, Sums &sums) {
  const u32 xs = (u32)__cvta_generic_to_shared(smem), ws = xs + X_BUFFERS * X_BYTES;
  int *located = (int *)smem + LOCATED_AT;
  const Place p = place_of(threadIdx.x);
  for (int row = threadIdx.x; row < X_ROWS; row += THREADS) located[row] = locate_row(a, tile, rg, row);
  __syncthreads();
  const char *rows = rows_of(a, tile, rg);
  Feed next = {0, tap_begin[rg * HELD], 0};
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) feed(a, tile, rg, rows, located, xs, ws, next);
  int stage = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const u32 x = xs + chunk % X_BUFFERS * X_BYTES;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
      const int end = tap_begin[rg * HELD + r + 1];
#pragma unroll 1
      for (int tap = tap_begin[rg * HELD + r]; tap < end; tap++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads(); // this stage is there for all; the one before has been read by all
        feed(a, tile, rg, rows, located, xs, ws, next);
        multiply(p, tap, x, ws + stage * W_BYTES, sums[r]);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
      }
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  (void)resident;
  Sums sums;
  clear(sums);
  __syncthreads(); // the last tile's sums have been read
  if (tap_begin[rg * HELD] < tap_begin[(rg + 1) * HELD]) multiply_all(a, tile, rg, smem, sums);
  finish_sums(a, tile, rg, smem, sums);
}
