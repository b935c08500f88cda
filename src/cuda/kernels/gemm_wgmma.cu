// SPDX-License-Identifier: Apache-2.0
// A tile of many channels on sm_90a. Four warps multiply together: rows come from registers, weights from shared memory, which
// is read once for 64 cells. Two more warps copy, one the weights, one the rows; barriers in shared memory tell when a
// stage is full and when it is free again, so that teams need not wait for each other. Each kind of warp goes over the
// block's tiles for itself: the next tile's first stages come while sums are finished.

// The four kinds, 8 bytes each.
struct Barriers {
  u32 full, free, rows_full, rows_free;
};

__device__ __forceinline__ Barriers barriers_at(u32 at) {
  Barriers b = {at, at + 8 * STAGES, at + 16 * STAGES, at + 16 * STAGES + 8 * X_BUFFERS};
  return b;
}

enum { MULTIPLYING_WARPS = MULTIPLIERS / 32 };

__device__ __forceinline__ void init_barriers(const Barriers &b) {
  for (int i = 0; i < STAGES; i++) {
    init_barrier(b.full + 8 * i, 1);
    init_barrier(b.free + 8 * i, MULTIPLYING_WARPS);
  }
  for (int i = 0; i < X_BUFFERS; i++) {
    init_barrier(b.rows_full + 8 * i, 1);
    init_barrier(b.rows_free + 8 * i, MULTIPLYING_WARPS);
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- copying ----

__device__ __forceinline__ void copy_weights(const Args &a, const Tile &tile, int rg, const Barriers &b, u32 ws, Turn &turn) {
  enum { COLUMNS = WARPS_N * NT * 8, LAST = CO_PAD % COLUMNS == 0 ? COLUMNS : CO_PAD % COLUMNS };
  const u32 bytes = (tile.c0 + COLUMNS > CO_PAD ? LAST : COLUMNS) / 8 * BLOCK_UNITS * 16;
  const int first = tap_begin[rg * HELD], end = tap_begin[(rg + 1) * HELD];
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const int steps = CI_STEPS - chunk * STEPS < STEPS ? CI_STEPS - chunk * STEPS : STEPS;
#pragma unroll 1
    for (int tap = first; tap < end; tap++) {
      const uint4 *from = weights_of(a, tile, chunk, tap_kernel[tap]);
      wait(b.free + 8 * turn.at, turn.parity);
      arrive_expecting(b.full + 8 * turn.at, steps * bytes);
#pragma unroll
      for (int q = 0; q < STEPS; q++)
        if (q < steps)
          copy_bulk(ws + turn.at * W_BYTES + q * STEP_UNITS * 16, from + q * WEIGHT_TAPS * PACKED_ROW, bytes, b.full + 8 * turn.at);
      step<STAGES>(turn);
    }
  }
}

// A halo tile is one copy: the map knows where x ends, and zeros lie beyond.
__device__ __forceinline__ void copy_rows(const Args &a, const Tile &tile, int rg, const Barriers &b, u32 xs, Turn &turn) {
  const int d = tile.qd + first_delta[rg][0] - a.x.begin[1], h = tile.qh + first_delta[rg][1] - a.x.begin[2],
            w = tile.qw + first_delta[rg][2] - a.x.begin[3], n = tile.n - (int)a.first_sample;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const u32 full = b.rows_full + 8 * turn.at;
    wait(b.rows_free + 8 * turn.at, turn.parity);
    arrive_expecting(full, X_ROWS * ROW_BYTES);
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
        ::"r"(xs + turn.at * X_BYTES), "l"(&a.map), "r"((tile.group * CHUNKS + chunk) * 32), "r"(w), "r"(h), "r"(d), "r"(n), "r"(full)
        : "memory");
    step<X_BUFFERS>(turn);
  }
}

// ---- multiplying ----

typedef u32 Rows[STEPS][MT][4];

__device__ __forceinline__ void load_rows(const Place &p, int tap, u32 x, Rows &rows) {
  u32 address[MT];
  addresses_of(p, tap, x, address);
#pragma unroll
  for (int q = 0; q < STEPS; q++)
#pragma unroll
    for (int i = 0; i < MT; i++) load_matrices(address[i] ^ (q * 32), rows[q][i]);
}

// w: the weights of one tap.
__device__ __forceinline__ void multiply(const Place &p, int chunk, const Rows &rows, u32 w, float (&sums)[MT][NT][4]) {
  const u64 first = matrix_at(w + p.w); // its low bits count 16 bytes
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int q = 0; q < STEPS; q++) {
    // the last chunk may be shorter: what lies behind it is not even zero
    if (CI_STEPS % STEPS != 0 && chunk * STEPS + q >= CI_STEPS) continue;
#pragma unroll
    for (int i = 0; i < MT; i++) wgmma(sums[i], rows[q][i], first + q * STEP_UNITS);
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Whether a tap reads the same rows as another, for a residue held.
__device__ __forceinline__ bool serves(int tap, int end, int offset, int held) {
#if HELD == 1
  return true;
#else
  return tap < end && tap_offset[tap] == offset && tap_held[tap] == held;
#endif
}

// Taps stand in the order of what they read, so that rows are loaded once for all residues that they serve.
__device__ __forceinline__ void multiply_all(int rg, const Barriers &b, u32 xs, u32 ws, Turn &turn, Turn &rows_turn, Sums &sums) {
  const Place p = place_of(threadIdx.x);
  const bool first_lane = threadIdx.x % 32 == 0;
  const int first = tap_begin[rg * HELD], end = tap_begin[(rg + 1) * HELD];
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    wait(b.rows_full + 8 * rows_turn.at, rows_turn.parity);
#pragma unroll 1
    for (int tap = first; tap < end;) {
      Rows rows;
      load_rows(p, tap, xs + rows_turn.at * X_BYTES, rows);
      const int offset = tap_offset[tap];
#pragma unroll
      for (int r = 0; r < HELD; r++) {
        if (!serves(tap, end, offset, r)) continue;
        wait(b.full + 8 * turn.at, turn.parity);
        multiply(p, chunk, rows, ws + turn.at * W_BYTES, sums[r]);
        if (first_lane) arrive(b.free + 8 * turn.at);
        step<STAGES>(turn);
        tap++;
      }
    }
    if (first_lane) arrive(b.rows_free + 8 * rows_turn.at);
    step<X_BUFFERS>(rows_turn);
  }
}

// The block's tiles, and in each its groups of residues.
struct Job {
  Tile tile;
  i64 i, tiles, workers;
  int rg;
};

__device__ __forceinline__ bool begin_job(const Args &a, Job &r) {
  r.rg = blockIdx.x / CHANNEL_BLOCKS % RESIDUE_BLOCKS;
  if (r.i < r.tiles) go_to(a, r.i, r.tile);
  return r.i < r.tiles;
}
__device__ __forceinline__ bool next_job(const Args &a, Job &r) {
  r.rg += RESIDUE_BLOCKS;
  if (r.rg < RESIDUE_GROUPS) return true;
  r.i += r.workers;
  return begin_job(a, r);
}

// One warp copies weights, the next one rows.
__device__ __forceinline__ void copy_all(const Args &a, Job r, const Barriers &b, u32 xs, u32 ws) {
  const bool weights = threadIdx.x == MULTIPLIERS;
  if (!weights && threadIdx.x != MULTIPLIERS + 32) return;
  Turn turn = {0, 1};
  for (bool more = begin_job(a, r); more; more = next_job(a, r)) {
    if (tap_begin[r.rg * HELD] == tap_begin[(r.rg + 1) * HELD]) continue;
    if (weights) copy_weights(a, r.tile, r.rg, b, ws, turn);
    else copy_rows(a, r.tile, r.rg, b, xs, turn);
  }
}

__device__ __forceinline__ void compute_all(const Args &a, Job r, const Barriers &b, u32 xs, u32 ws, float *out) {
  Turn turn = {0, 0}, rows_turn = {0, 0};
#pragma unroll 1
  for (bool more = begin_job(a, r); more; more = next_job(a, r)) {
    Sums sums;
    clear(sums);
    if (tap_begin[r.rg * HELD] < tap_begin[(r.rg + 1) * HELD]) multiply_all(r.rg, b, xs, ws, turn, rows_turn, sums);
    aim(a, r.tile);
    finish_sums(a, r.tile, r.rg, out, sums);
  }
}

__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  const u32 xs = (u32)__cvta_generic_to_shared(smem), ws = xs + X_BUFFERS * X_BYTES;
  const Barriers b = barriers_at(xs + BARRIERS_AT * 4);
  const Job job = {tile, i, tiles, workers, 0};
  if (threadIdx.x == 0) init_barriers(b);
  __syncthreads();
  if (threadIdx.x >= MULTIPLIERS) {
    give_registers();
    copy_all(a, job, b, xs, ws);
  } else {
    take_registers();
    compute_all(a, job, b, xs, ws, smem + SUMS_AT);
  }
}
