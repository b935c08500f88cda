// SPDX-License-Identifier: Apache-2.0
// Inner product for many channels, on the tensor cores: cells are the rows of the product (16 a fragment), output channels
// its columns (8 a fragment), input channels its depth (steps of 8 words: TF32 numbers, or pairs of 16-bit channels).
//
// A block works on one group of residues: all along W, or a few of them, of one place along D and H. It reads x as rows:
// EC words of one position in a row of 128 bytes, so that any shift of the cells by a tap is another row, never another
// alignment. The halo tile of a chunk of channels is staged once for all taps; weights stream past it, one tap a stage.
// Copies run STAGES - 1 stages ahead of the products.

#ifdef WORD_IS_F32
#define GEMM_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif defined(WORD_IS_F16)
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

enum {
  STEPS = EC / 8,                              // of a chunk
  CHUNKS = (CI_STEPS + STEPS - 1) / STEPS,
  UNITS = EC / 4,                              // 16 bytes each, of a row
  ROW_BYTES = 128,
  VOLUME = TD * TH * TW,                       // cells of one sample in a tile
  X_ROWS = SAMPLES * XD * XH * XW,
  X_BYTES = X_ROWS * ROW_BYTES,
  BLOCK_UNITS = 16,                            // weights of 8 output channels and one step
  STEP_UNITS = BM / 8 * BLOCK_UNITS,
  W_BYTES = STEPS * STEP_UNITS * 16
};

// d += a b; a: rows g and g + 8 of words t, then of words t + 4; b: words t and t + 4 of column g (lane = 4 g + t).
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], const uint2 &b) {
  asm(GEMM_MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// Four 8 x 16-byte matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 address, u32 (&a)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ uint2 load_pair(u32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}

// 16 bytes to shared memory; those beyond `bytes` become zeros.
__device__ __forceinline__ void copy_unit(u32 to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most N groups are under way.
template <int N>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Units of a row are permuted by where it lies among the cells, so that the eight rows of a matrix, neighbouring cells
// whatever the tap, meet eight different sets of banks.
__device__ __forceinline__ int place_among_cells(int d, int h, int w) { return w + TW * (h + TH * d); }

__device__ __forceinline__ void stage_rows(const Args &a, const Tile &tile, int rg, int chunk, u32 to) {
  const char *origin = a.rows.origin + tile.n * a.rows.stride[0] + tile.group * a.rows.stride[1] + chunk * a.rows.stride[2];
  const int left = (a.rows.words - chunk * EC) * 4; // bytes of a row from this chunk on
  for (int i = threadIdx.x; i < X_ROWS * UNITS; i += THREADS) {
    const int unit = i % UNITS, row = i / UNITS;
    const int w = row % XW, h = row / XW % XH, d = row / (XW * XH) % XD, sample = row / (XW * XH * XD);
    const int gd = tile.qd + first_delta[rg][0] + d, gh = tile.qh + first_delta[rg][1] + h,
              gw = tile.qw + first_delta[rg][2] + w;
    const bool in = holds(a.x, a.x.begin[0], gd, gh, gw) & (tile.n + sample < a.n0 + a.batch);
    const int bytes = left - unit * 16;
    const int swizzle = place_among_cells(d, h, w) + VOLUME * sample;
    copy_unit(to + row * ROW_BYTES + (unit ^ (swizzle & 7)) * 16,
              origin + (in ? sample * a.rows.stride[0] + gd * a.rows.stride[3] + gh * a.rows.stride[4] +
                                 gw * a.rows.stride[5] + unit * 16
                           : 0),
              !in || bytes <= 0 ? 0 : bytes < 16 ? bytes : 16);
  }
}

// packed: [group][step][KERNEL][CO_PAD / 8][lane][2 words]
__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int chunk, int kernel, u32 to) {
  enum { ROW = CO_PAD / 8 * BLOCK_UNITS };
  const uint4 *packed = (const uint4 *)(a.packed + WEIGHTS_AT) + ((i64)tile.group * CI_STEPS * KERNEL + kernel) * ROW;
  const int first = tile.c0 / 8 * BLOCK_UNITS;
  for (int i = threadIdx.x; i < STEPS * STEP_UNITS; i += THREADS) {
    const int in_row = first + i % STEP_UNITS, step = chunk * STEPS + i / STEP_UNITS;
    const bool live = step < CI_STEPS && in_row < ROW;
    copy_unit(to + i * 16, packed + (live ? (i64)step * KERNEL * ROW + in_row : 0), live ? 16 : 0);
  }
}

struct Place {
  int row[MT], cell[MT]; // whose address the lane gives for each fragment: row of the input tile, cell
  u32 w;                 // the lane's first weights, in bytes
};

// Cells beyond the tile's are computed from its first one and never stored.
__device__ __forceinline__ int row_of(int cell) {
  if (cell >= VOLUME * SAMPLES) return 0;
  const int in_sample = cell % VOLUME;
  return ((cell / VOLUME * XD + in_sample / (TW * TH)) * XH + in_sample / TW % TH) * XW + in_sample % TW;
}

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  const int lane = thread % 32, warp = thread / 32, warp_m = warp % WARPS_M;
#pragma unroll
  for (int i = 0; i < MT; i++) {
    p.cell[i] = (warp_m * MT + i) * 16 + lane % 16;
    p.row[i] = row_of(p.cell[i]);
  }
  p.w = warp / WARPS_M * NT * BLOCK_UNITS * 16 + lane * 8;
  return p;
}

typedef float Sums[RT][MT][NT][4];

// One tap: x, w: its halo tile and its weights.
__device__ __forceinline__ void multiply(const Place &p, int tap, u32 x, u32 w, float (&sums)[MT][NT][4]) {
  u32 address[MT];
#pragma unroll
  for (int i = 0; i < MT; i++) {
    const int unit = (threadIdx.x % 32 / 16) ^ ((p.cell[i] + tap_swizzle[tap]) & 7);
    address[i] = x + (p.row[i] + tap_offset[tap]) * ROW_BYTES + unit * 16;
  }
#pragma unroll
  for (int q = 0; q < STEPS; q++) {
    u32 rows[MT][4];
    uint2 columns[NT];
#pragma unroll
    for (int i = 0; i < MT; i++) load_matrices(address[i] ^ (q * 32), rows[i]);
#pragma unroll
    for (int j = 0; j < NT; j++) columns[j] = load_pair(w + p.w + (q * STEP_UNITS + j * BLOCK_UNITS) * 16);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) mma(sums[i][j], rows[i], columns[j]);
  }
}
