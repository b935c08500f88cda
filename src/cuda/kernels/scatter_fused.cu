// SPDX-License-Identifier: Apache-2.0
// The kernel: a tile is one layer of cells along D. A block takes neighbours along D one after the other; a warp keeps to its
// positions, so that only the last plane which a layer reads is new: the sums of those before are in its registers. Sums of a
// layer lie in shared memory twice: while the cells of one are finished the next one's products are made, by half of the
// warps before, by the others after. Of the next plane the first words are on their way.

// Of a row of the input tile: quads any of which x holds.
struct Row {
  int quads;
  u32 inverse; // of their number, times 2^32
};

// Where the window of a tile begins along W.
__device__ __forceinline__ int window_of(const Args &a, int grid_w) { return (grid_w + a.grid_begin[2]) * TW * I2 + X_BASE2 - LEAD; }

// The first position of the window that a quad has.
__device__ __forceinline__ int first_of(const Args &a, int window) {
  const int held = a.x.begin[3] - window;
  return held > 0 ? held / 4 * 4 : 0;
}

__device__ __forceinline__ Row row_of(const Args &a, int grid_w) {
  const int window = window_of(a, grid_w), end = a.x.end[3] - window;
  const int count = (end < X_ROW ? end : X_ROW) - first_of(a, window);
  Row row;
  row.quads = count > 0 ? (count + 3) / 4 : 0;
  row.inverse = row.quads > 1 ? ~0u / (u32)row.quads + 1 : 0;
  return row;
}

// What a warp does next: an item of a plane of a tile.
struct Job {
  int left;         // tiles of the block, this one included: there are fewer than elements of y
  int n, d, h, w;   // sample, place in the grid
  int item, plane;  // of the planes that a layer reads
  Row row;
};

__device__ __forceinline__ int items_of(const Row &row) { return (XH * row.quads + 7) / 8 * PARTS; }

__device__ __forceinline__ Job first_job(const Args &a, i64 tile, int left) {
  Job job;
  const i64 columns = tile / a.grid[0], rows = columns / a.grid[2], samples = rows / a.grid[1];
  job.left = left;
  job.d = (int)(tile - columns * a.grid[0]);
  job.w = (int)(columns - rows * a.grid[2]);
  job.h = (int)(rows - samples * a.grid[1]);
  job.n = (int)samples;
  job.plane = 0;
  job.item = threadIdx.x / 32;
  job.row = row_of(a, job.w);
  return job;
}

// The next tile; whether it is the neighbour along D.
__device__ __forceinline__ bool next_tile(const Args &a, Job &job) {
  job.left--;
  if (++job.d < a.grid[0]) return true;
  job.d = 0;
  if (++job.w == a.grid[2]) {
    job.w = 0;
    if (++job.h == a.grid[1]) job.h = 0, job.n++;
  }
  return false;
}

// Plane by plane, item by item, tile by tile. A warp has at least one item of every tile, if only to find that there is none for it.
__device__ __forceinline__ void advance(const Args &a, Job &job) {
  if (++job.plane < XD) return;
  const int items = items_of(job.row);
  job.item += WARPS;
  job.plane = 0;
  if (job.item < items) return;
  job.item = threadIdx.x / 32;
  if (next_tile(a, job)) {
    if (OPEN > 1 && items <= WARPS) job.plane = XD - 1; // with what is in registers
  } else {
    job.row = row_of(a, job.w);
  }
}

__device__ __forceinline__ int plane_of_x(const Args &a, const Job &job) {
  return (job.d + a.grid_begin[0]) * I0 + X_BASE0 + job.plane;
}

__device__ __forceinline__ bool within(int at, const View &v, int axis) { return (at >= v.begin[axis]) & (at < v.end[axis]); }

// Whether a layer needs that one of the planes from its first to its last: taps may lie apart.
__device__ __forceinline__ bool serves(int plane) {
  bool any = OPEN > 1 || XD == 1;
#pragma unroll
  for (int r = 0; r < R0; r++) any = any || depth_kernel[r * XD + plane] >= 0;
  return any;
}

// Whether anything of x is multiplied.
__device__ __forceinline__ bool is_live(const Args &a, const Job &job) {
  return (job.left > 0) & (job.item < items_of(job.row)) & within(plane_of_x(a, job), a.x, 1) && serves(job.plane);
}

// The lane's quad of an item: row, and position within the tile's window, where quads begin at `first`; false: there is none.
__device__ __forceinline__ bool find_quad(const Job &job, int first, int &h, int &w) {
  const u32 quad = job.item / PARTS * 8 + threadIdx.x % 32 / 4;
  h = job.row.inverse > 0 ? (int)((unsigned long long)quad * job.row.inverse >> 32) : (int)quad; // there are few thousand
  w = first + ((int)quad - h * job.row.quads) * 4;
  return (job.item < items_of(job.row)) & (h < XH);
}

__device__ __forceinline__ int find_slot(const Args &a, const Job &job) {
  int h, w;
  return find_quad(job, first_of(a, window_of(a, job.w)), h, w) ? h * X_ROW + w : -1;
}

__device__ __forceinline__ Lane find_lane(const Args &a, const Job &job, int group) {
  Lane lane;
  int h, w;
  const int h0 = (job.h + a.grid_begin[1]) * TH * I1 + X_BASE1, w0 = window_of(a, job.w);
  const bool live = find_quad(job, first_of(a, w0), h, w) & is_live(a, job) & within(h0 + h, a.x, 2);
  lane.channel = threadIdx.x % 4 * (X_LAST ? VECTOR : PAIR);
  lane.from = a.x.origin + view_index(a.x, job.n + a.n0, group * CI + lane.channel, plane_of_x(a, job), h0 + h, w0 + w) * X_SIZE;
  lane.live = 0;
#pragma unroll
  for (int j = 0; j < 4; j++) lane.live |= (u32)(live & within(w0 + w + j, a.x, 3)) << j;
  return lane;
}

// Positions of a row that x does not hold are of no item: their sums are zero.
__device__ __forceinline__ void clear_borders(const Args &a, const Job &job, float *sums) {
  const int w0 = window_of(a, job.w);
  const int begin = a.x.begin[3] - w0, end = a.x.end[3] - w0;
  if (begin <= 0 && end >= X_ROW) return;
  for (int i = threadIdx.x; i < SUM_ROWS * XH; i += THREADS) {
    float *row = sums + i / XH * PITCH + i % XH * X_ROW;
    for (int w = 0; w < X_ROW; w++)
      if (w < begin || w >= end) row[w] = 0.0f;
  }
}

// ---- cells ----

// Of a cell, all of whose sums lie from `sums` on.
template <bool INSIDE>
__device__ __forceinline__ void finish_cell(const Args &a, const Tile &tile, const float *sums, bool live, int c, int jh, int jw) {
  const float bias = __ldg(a.packed + BIAS_AT + c), factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + c) : 1.0f;
#pragma unroll
  for (int rg = 0; rg < RESIDUE_GROUPS; rg++) {
    float cell[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = 0.0f;
    // by a constant count: a loop from one table entry to the next is not unrolled for every architecture
#pragma unroll
    for (int u = 0; u < MOST_TERMS; u++) {
      const int i = terms_begin[rg] + u;
      if (i < terms_begin[rg + 1]) cell[term_residue[i] - rg * RT] += sums[term_row[i] * PITCH + term_place[i]];
    }
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = with_bias(cell[r], factor, bias); // last: it may be far larger than the products
    finish<INSIDE>(a, tile, rg, live, c, 0, jh, jw, cell);
  }
}

__device__ __forceinline__ void finish_layer(const Args &a, const Tile &tile, const float *sums) {
#pragma unroll 1
  for (int i = threadIdx.x; i < TH * TW * BM; i += THREADS) {
    const int jw = i % TW, jh = i / TW % TH, m = i / (TW * TH), c = tile.c0 + m;
    const float *from = sums + m * (KERNEL / KERNEL_DEPTH) * PITCH + jh * I1 * X_ROW + jw * I2;
    const int channel = tile.group * CO + (c < CO ? c : CO - 1);
    const bool whole = tile.inside || (stored(a, 2, tile.qd * Y_CELL0 + Y_BASE0, Y_CELL0) &
                                       stored(a, 3, (tile.qh + jh) * Y_CELL1 + Y_BASE1, Y_CELL1) &
                                       stored(a, 4, (tile.qw + jw) * Y_CELL2 + Y_BASE2, Y_CELL2));
    if (whole) finish_cell<true>(a, tile, from, c < CO, channel, jh, jw);
    else finish_cell<false>(a, tile, from, c < CO, channel, jh, jw);
  }
}

// ---- all tiles of a block ----

// Nothing is fetched ahead where x is not laid out as was planned, since there are more addresses to keep, nor where two elements
// that are loaded one by one make a word.
__device__ __forceinline__ constexpr bool ahead(bool wide) { return wide == WIDE_X && (wide || X_SIZE == 4); }

__device__ __forceinline__ void run_plainly(const Args &a, const uint4 *weights, const Needed &needed, Lane lane, Raw &raw,
                                            Sums &sums) {
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
    load_step(a, lane, raw);
    multiply_step(weights + step * WEIGHT_STEP, needed, 0, raw, sums);
    const int channels = PAIR * (!X_LAST ? 8 : step % 2 == 0 ? 2 : 14); // to the lane's next step
    lane.channel += channels;
    lane.from += channels * a.x.stride[1] * X_SIZE;
  }
}

__device__ __forceinline__ Lane go_on(const Args &a, const Tile &tile, Job &job) {
  advance(a, job);
  return find_lane(a, job, tile.group);
}

// What a warp has of x: two chunks that are under way.
struct Fetched {
  Lane lane;
  Raw even, odd;
};

// A plane of an item is multiplied while its next chunks are fetched, and at last the first two of the next job.
template <bool WIDE>
__device__ __forceinline__ void run_job(const Args &a, const Tile &tile, const uint4 *weights, const Needed &needed, Job &job,
                                        Fetched &x, Sums &sums) {
  if (!ahead(WIDE)) {
    if (is_live(a, job)) run_plainly(a, weights, needed, find_lane(a, job, tile.group), x.even, sums);
    advance(a, job);
    return;
  }
  if (!is_live(a, job)) {
    x.lane = go_on(a, tile, job);
    load_chunk<WIDE>(a, x.lane, x.even);
    load_chunk<WIDE>(a, x.lane, x.odd);
    return;
  }
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS_LOADED; chunk += 2) {
    if (chunk + 2 == CHUNKS_LOADED) x.lane = go_on(a, tile, job);
    multiply(weights, needed, chunk, x.even, sums);
    load_chunk<WIDE>(a, x.lane, x.even);
    if (CHUNKS % 2 == 0 || chunk + 1 < CHUNKS) multiply(weights, needed, chunk + 1, x.odd, sums);
    load_chunk<WIDE>(a, x.lane, x.odd);
  }
}

// All that a warp has to do of a tile.
template <bool WIDE>
__device__ __forceinline__ void run_tile(const Args &a, const Tile &tile, const uint4 *weights, Job &job, Fetched &x, Sums &sums,
                                         float *to) {
  const int left = job.left;
#pragma unroll 1
  while (job.left == left) {
    const int item = job.item, plane = job.plane, part = item % PARTS;
    const int slot = find_slot(a, job);
    if (plane == 0) clear(sums);
    run_job<WIDE>(a, tile, weights, needed_weights(part, plane), job, x, sums);
    if (plane == XD - 1) store_sums(to, part, slot, sums);
    if (OPEN > 1) go_deeper(sums);
  }
}

template <bool WIDE>
__device__ __forceinline__ void work(const Args &a, Tile tile, i64 first, int left, const uint4 *weights, float *sums_at) {
  enum { LAYER = (SUM_ROWS * PITCH + 3) / 4 * 4 };
  int4 *const notes = (int4 *)(sums_at + 2 * LAYER); // whose tile's each layer is: that needs no registers
  Job next = first_job(a, first, left);
  Fetched x;
  Sums sums;
  int layer = 0, border = 2; // which layer is made; in how many of them the borders are not those of the tile
  bool any = false;          // whether the other one is to be finished
  if (ahead(WIDE)) {
    x.lane = find_lane(a, next, tile.group);
    load_chunk<WIDE>(a, x.lane, x.even);
    load_chunk<WIDE>(a, x.lane, x.odd);
  }
#pragma unroll 1
  for (;;) {
    const bool more = next.left > 0;
    float *const making = sums_at + layer * LAYER;
    if (any && next.w != notes[1 - layer].w) border = 2;
    if (more && border > 0) clear_borders(a, next, making), border--;
    if (threadIdx.x == 0) notes[layer] = make_int4(next.n, next.d, next.h, next.w);
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
      if ((turn + threadIdx.x / 128) % 2 == 0) { // four warps, one of each scheduler, alike
        if (more) run_tile<WIDE>(a, tile, weights, next, x, sums, making);
      } else if (any) {
        const int4 done = notes[1 - layer];
        place_tile(a, done.x, done.y, done.z, done.w, tile);
        finish_layer(a, tile, sums_at + (1 - layer) * LAYER);
      }
    }
    if (!more) break;
    __syncthreads();
    any = true;
    layer = 1 - layer;
  }
}

// Whether x lies so that VECTOR elements can be loaded at once, and rows end with them.
__device__ __forceinline__ bool aligned_input(const Args &a) {
  const i64 others = a.x.stride[0] | a.x.stride[2] | a.x.stride[3] | (X_LAST ? a.x.stride[4] : a.x.stride[1]);
  const i64 edges = X_LAST ? 0 : a.x.begin[3] | a.x.end[3];
  return a.x.stride[X_LAST ? 1 : 4] == 1 && (others | edges) % VECTOR == 0 && (i64)a.x.origin % (VECTOR * X_SIZE) == 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) float smem[];
  const int block = blockIdx.x % CHANNEL_BLOCKS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
  tile.width = width_of_runs(a);
  const uint4 *weights = packed_weights(a, tile);
  if (SHARED_WEIGHTS) {
    for (int i = threadIdx.x; i < WEIGHT_VECTORS; i += THREADS) ((uint4 *)smem)[i] = __ldg(weights + i);
    weights = (const uint4 *)smem;
    __syncthreads();
  }
  const i64 tiles = a.tiles / CHANNEL_BLOCKS, blocks = gridDim.x / CHANNEL_BLOCKS, i = blockIdx.x / CHANNEL_BLOCKS;
  const i64 each = tiles / blocks, more = tiles % blocks, first = i * each + (i < more ? i : more);
  float *const sums = smem + SUMS_AT;
  const int count = (int)(each + (i < more));
  weights += threadIdx.x % 32;
  if (WIDE_X && aligned_input(a)) work<WIDE_X>(a, tile, first, count, weights, sums);
  else work<false>(a, tile, first, count, weights, sums);
}
