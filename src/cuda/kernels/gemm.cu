// SPDX-License-Identifier: Apache-2.0
// Inner product for many channels, on the tensor cores: cells are the rows of the product (16 a fragment), output channels
// its columns (8 a fragment), input channels its depth (steps of 8 words: TF32 numbers, or pairs of 16-bit channels).
//
// A block works on one group of residues: all along W, or a few of them, of one place along D and H. It reads x as rows:
// EC words of one position in a row of 128 bytes, so that any shift of the cells by a tap is another row, never another
// alignment. The halo tile of a chunk of channels is staged once for all taps; weights stream past it, one tap a stage.
// Copies run STAGES - 1 stages ahead of the products.
//
// Rows of a fragment are neighbouring cells. TEAM warps make products together: 4, with wgmma, else each for itself; a team has
// MT fragments of 16 rows a warp, and NT of 8 columns. Lane 4 g + t holds rows g and g + 8, words t and t + 4 of x, and
// columns 2 t and 2 t + 1 of the sums (PTX, mma.m16n8k* and wgmma.m64n*k*).

enum {
  STEPS = EC / 8,                              // of a chunk
  CHUNKS = (CI_STEPS + STEPS - 1) / STEPS,
  UNITS = EC / 4,                              // 16 bytes each, of a row
  ROW_BYTES = 128,
  TEAM = WGMMA ? 4 : 1,
  VOLUME = TD * TH * TW,                       // cells of one sample in a tile
  X_ROWS = SAMPLES * XD * XH * XW,
  X_BYTES = X_ROWS * ROW_BYTES,
  BLOCK_UNITS = 16,                            // weights of 8 output channels and one step
  STEP_UNITS = BM / 8 * BLOCK_UNITS,
  W_BYTES = STEPS * STEP_UNITS * 16
};

// Four 8 x 16-byte matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 address, u32 (&a)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address) : "memory");
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

// Where a row of the input tile comes from, the same for all chunks: in units of 16 bytes from the tile's first, times 8, and the permutation of its units in the lower bits. OUTSIDE: zeros.
enum { OUTSIDE = -8 };

__device__ __forceinline__ void locate_rows(const Args &a, const Tile &tile, int rg, int *located) {
  for (int row = threadIdx.x; row < X_ROWS; row += THREADS) {
    const int w = row % XW, h = row / XW % XH, d = row / (XW * XH) % XD, sample = row / (XW * XH * XD);
    const int gd = tile.qd + first_delta[rg][0] + d, gh = tile.qh + first_delta[rg][1] + h,
              gw = tile.qw + first_delta[rg][2] + w;
    const bool in = holds(a.x, a.x.begin[0], gd, gh, gw) & (tile.n + sample < a.n0 + a.batch);
    const i64 bytes = sample * a.rows.stride[0] + d * a.rows.stride[3] + h * a.rows.stride[4] + w * a.rows.stride[5];
    located[row] = (in ? (int)(bytes / 16) * 8 : OUTSIDE) | ((place_among_cells(d, h, w) + VOLUME * sample) & 7);
  }
}

// The tile's first row, which need not exist.
__device__ __forceinline__ const char *rows_of(const Args &a, const Tile &tile, int rg) {
  return a.rows.origin + tile.n * a.rows.stride[0] + tile.group * a.rows.stride[1] +
         (tile.qd + first_delta[rg][0] - a.x.begin[1]) * a.rows.stride[3] +
         (tile.qh + first_delta[rg][1] - a.x.begin[2]) * a.rows.stride[4] +
         (tile.qw + first_delta[rg][2] - a.x.begin[3]) * a.rows.stride[5];
}

__device__ __forceinline__ void stage_rows(const Args &a, const char *rows, int chunk, const int *located, u32 to) {
  const char *from = rows + chunk * a.rows.stride[2];
  const int words = a.rows.words - chunk * EC; // of a row from this chunk on
#pragma unroll 4
  for (int i = threadIdx.x; i < X_ROWS * UNITS; i += THREADS) {
    const int unit = i % UNITS, row = i / UNITS, at = located[row], left = (words - unit * 4) * 4;
    const bool in = (at >> 3) != OUTSIDE >> 3 && left > 0;
    copy_unit(to + row * ROW_BYTES + (unit ^ (at & 7)) * 16, in ? from + (i64)(at >> 3) * 16 + unit * 16 : a.rows.origin,
              !in ? 0 : left < 16 ? left : 16);
  }
}

// packed: [group][step][KERNEL][CO_PAD / 8][half][column][4 words]: what ldmatrix and wgmma read
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
  u32 w;                 // the team's first weights, in bytes
};

// Cells beyond the tile's are computed from its first one and never stored.
__device__ __forceinline__ int row_of(int cell) {
  if (cell >= VOLUME * SAMPLES) return 0;
  const int in_sample = cell % VOLUME;
  return ((cell / VOLUME * XD + in_sample / (TW * TH)) * XH + in_sample / TW % TH) * XW + in_sample % TW;
}

// The first cell of a warp's fragment i.
__device__ __forceinline__ int fragment_cell(int warp, int i) {
  return ((warp / TEAM % WARPS_M * MT + i) * TEAM + warp % TEAM) * 16;
}
// The first channel of its team, in the block.
__device__ __forceinline__ int team_channel(int warp) { return warp / TEAM / WARPS_M * 8 * NT; }

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
#pragma unroll
  for (int i = 0; i < MT; i++) {
    p.cell[i] = fragment_cell(thread / 32, i) + thread % 16;
    p.row[i] = row_of(p.cell[i]);
  }
  p.w = team_channel(thread / 32) / 8 * BLOCK_UNITS * 16;
  return p;
}

typedef float Sums[RT][MT][NT][4];

// Where the lane's row of each fragment lies for a tap; step q is at address ^ (32 q).
__device__ __forceinline__ void addresses_of(const Place &p, int tap, u32 x, u32 (&address)[MT]) {
#pragma unroll
  for (int i = 0; i < MT; i++) {
    const int unit = (threadIdx.x % 32 / 16) ^ ((p.cell[i] + tap_swizzle[tap]) & 7);
    address[i] = x + (p.row[i] + tap_offset[tap]) * ROW_BYTES + unit * 16;
  }
}
