// SPDX-License-Identifier: Apache-2.0
// Who does what: crews of four or eight warps multiply and finish, job after job in turns; one more warp copies weights, another one
// the input. Barriers in shared memory tell when a stage or a halo tile is full and when it is free again. Each kind of warp goes
// over the block's jobs for itself: the next job's first stages come while sums are finished, and where there are two crews, one
// finishes while the other one multiplies.

struct Barriers {
  u32 full, free, rows_full, rows_free;
  u32 multiplied; // one of each crew: its job's products are all on their way
};

__device__ __forceinline__ Barriers barriers_at(u32 at) {
  Barriers b = {at, at + 8 * STAGES, at + 16 * STAGES, at + 16 * STAGES + 8 * X_BUFFERS, at + 16 * (STAGES + X_BUFFERS)};
  return b;
}

__device__ __forceinline__ void init_barriers(const Barriers &b) {
  for (int i = 0; i < STAGES; i++) {
    init_barrier(b.full + 8 * i, 1);
    init_barrier(b.free + 8 * i, CREW_WARPS);
  }
  for (int i = 0; i < X_BUFFERS; i++) {
    init_barrier(b.rows_full + 8 * i, 1);
    init_barrier(b.rows_free + 8 * i, CREW_WARPS);
  }
  for (int i = 0; i < CREWS; i++) init_barrier(b.multiplied + 8 * i, CREW_WARPS);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// A tile, some output channels, and a group of residues. Jobs with the most taps come first.
struct Job {
  Tile tile;
  i64 i;
  int rg;
};

__device__ __forceinline__ bool take(const Args &a, i64 i, Job &job) {
  job.i = i;
  if (i >= a.tiles) return false;
  const i64 tiles = a.tiles / (CHANNEL_BLOCKS * RESIDUE_BLOCKS);
  const int kind = (int)(i / tiles), block = kind % CHANNEL_BLOCKS;
  job.rg = heavy_first[kind / CHANNEL_BLOCKS];
  job.tile.group = block / BLOCKS_PER_GROUP;
  job.tile.c0 = block % BLOCKS_PER_GROUP * BM;
  go_to(a, i % tiles, job.tile);
  return true;
}

__device__ __forceinline__ bool take_next(const Args &a, Job &job) { return take(a, job.i + gridDim.x, job); }

// ---- copying ----

// packed: [group][block of BM channels][group of residues][chunk][tap][unit of the chunk][row][4 words]
__device__ __forceinline__ void copy_weights(const Args &a, const Job &job, const Barriers &b, u32 ws, Turn &turn) {
  const int count = taps_of(job.rg) * CHUNKS;
  const i64 block = (i64)job.tile.group * BLOCKS_PER_GROUP + job.tile.c0 / BM;
  const char *from = (const char *)(a.packed + WEIGHTS_AT) + (block * TAPS + tap_begin[job.rg * HELD]) * CHUNKS * STAGE_BYTES;
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    wait(b.free + 8 * turn.at, turn.parity);
    arrive_expecting(b.full + 8 * turn.at, STAGE_BYTES);
    copy_bulk(ws + turn.at * STAGE_BYTES, from, STAGE_BYTES, b.full + 8 * turn.at);
    from += STAGE_BYTES;
    step<STAGES>(turn);
  }
}

// A halo tile is one copy: the map knows where x ends, and zeros lie beyond.
__device__ __forceinline__ void copy_input(const Args &a, const Job &job, const Barriers &b, u32 xs, Turn &turn) {
  const int d = job.tile.qd + first_delta[job.rg][0] - a.x.begin[1], h = job.tile.qh + first_delta[job.rg][1] - a.x.begin[2],
            w = job.tile.qw + first_delta[job.rg][2] - a.x.begin[3], n = job.tile.n - (int)a.first_sample;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const u32 full = b.rows_full + 8 * turn.at;
    wait(b.rows_free + 8 * turn.at, turn.parity);
    arrive_expecting(full, QUADS * X_CHANNEL * 16);
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
        ::"r"(xs + turn.at * X_BYTES), "l"(&a.map), "r"(2 * w), "r"(h), "r"(d), "r"(n), "r"((job.tile.group * CHUNKS + chunk) * QUADS),
          "r"(full)
        : "memory");
    step<X_BUFFERS>(turn);
  }
}

__device__ __forceinline__ void copy_all(const Args &a, Job job, const Barriers &b, u32 xs, u32 ws) {
  const bool weights = threadIdx.x == MULTIPLIERS;
  if (!weights && threadIdx.x != MULTIPLIERS + 32) return;
  if (!weights) asm volatile("griddepcontrol.wait;" ::: "memory"); // for the kernel that makes units of x
  Turn turn = {0, 1};
  for (bool more = take(a, job.i, job); more; more = take_next(a, job)) {
    if (taps_of(job.rg) == 0) continue;
    if (weights) copy_weights(a, job, b, ws, turn);
    else copy_input(a, job, b, xs, turn);
  }
}

// ---- multiplying ----

// One lane of the warp arrives at a barrier, if there is one (0: none). No branch: around one, the compiler would make products wait
// for each other.
__device__ __forceinline__ void arrive_if(u32 barrier) {
  asm volatile("{\n.reg .pred ours;\nsetp.ne.u32 ours, %0, 0;\n@ours mbarrier.arrive.shared::cta.b64 _, [%0];\n}"
               ::"r"(threadIdx.x % 32 == 0 ? barrier : 0) : "memory");
}

// What products under way still read: the barriers of a stage and of a halo tile, or 0. They are given back once these are through.
struct Held {
  u32 stage, rows;
};

__device__ __forceinline__ void give_back(Held &held) {
  arrive_if(held.stage);
  arrive_if(held.rows);
  held.stage = held.rows = 0;
}

__device__ __forceinline__ void pass_turn(const Barriers &b, const Team &team) {
  __syncwarp(); // all lanes have seen that it was their turn
  arrive_if(b.multiplied + 8 * team.crew);
}

__device__ __forceinline__ void multiply_all(int rg, const Team &team, const Barriers &b, u32 xs, u32 ws, Turn &turn, Turn &rows_turn,
                                             Sums &sums) {
  Held held = {0, 0};
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    wait(b.rows_full + 8 * rows_turn.at, rows_turn.parity);
    const u64 columns = matrix_at(xs + rows_turn.at * X_BYTES, GROUP_STEP) + team.position + X_CHANNEL * FAR;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
      const int end = tap_begin[rg * HELD + r + 1];
#pragma unroll 1
      for (int tap = tap_begin[rg * HELD + r]; tap < end; tap++) {
        wait(b.full + 8 * turn.at, turn.parity);
        const u64 channels = matrix_at(ws + turn.at * STAGE_BYTES, 8) + team.rows + BM * FAR;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STEPS; s++)
          wgmma(sums[r], channels + s * 2 * BM, columns + tap_offset[tap] + s * 2 * X_CHANNEL, true);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
        give_back(held);
        held.stage = b.free + 8 * turn.at;
        step<STAGES>(turn);
      }
    }
    held.rows = b.rows_free + 8 * rows_turn.at;
    step<X_BUFFERS>(rows_turn);
  }
  if (CREWS > 1) pass_turn(b, team);
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  // sums are whole now: no use of them may move to before this
#pragma unroll
  for (int i = 0; i < HELD * GROUPS * 4; i++) asm volatile("" : "+f"(sums[i / (GROUPS * 4)][i % (GROUPS * 4)])::"memory");
  give_back(held);
}

// Past what another crew takes of a ring.
template <int LENGTH>
__device__ __forceinline__ void pass(Turn &turn, int count) {
  turn.at += count;
  turn.parity ^= turn.at / LENGTH & 1;
  turn.at %= LENGTH;
}

// The crew's turn is when the products of the job before are all on their way. Until then it must not look at the rings either:
// their barriers tell apart but two turns that follow each other.
__device__ __forceinline__ void wait_turn(const Barriers &b, int number) {
  if (CREWS > 1 && number > 0) wait(b.multiplied + 8 * ((number - 1) % CREWS), (number - 1) / CREWS & 1);
}

__device__ __forceinline__ void compute_all(const Args &a, Job job, const Barriers &b, u32 xs, u32 ws, float *stage) {
  const Team team = team_of_four();
  Turn turn = {0, 0}, rows_turn = {0, 0};
  int number = 0; // of the block's jobs
#pragma unroll 1
  for (bool more = take(a, job.i, job); more; more = take_next(a, job), number++) {
    const int taps = taps_of(job.rg);
    if (number % CREWS != team.crew) {
      pass<STAGES>(turn, taps * CHUNKS);
      pass<X_BUFFERS>(rows_turn, taps > 0 ? CHUNKS : 0);
      continue;
    }
    Sums sums;
#pragma unroll
    for (int i = 0; i < HELD * GROUPS * 4; i++) {
      sums[i / (GROUPS * 4)][i % (GROUPS * 4)] = 0.0f;
      asm volatile("" : "+f"(sums[i / (GROUPS * 4)][i % (GROUPS * 4)])); // here, not between products under way
    }
    wait_turn(b, number);
    if (taps > 0) multiply_all(job.rg, team, b, xs, ws, turn, rows_turn, sums);
    else if (CREWS > 1) pass_turn(b, team);
    aim(a, job.tile);
    job.tile.inside = __shfl_sync(0xffffffff, (int)job.tile.inside, 0); // of course, but the compiler cannot know
    finish_sums(a, job.tile, job.rg, team, sums, stage);
  }
}

__device__ __forceinline__ void work(const Args &a, Tile tile, i64, i64, i64, float *smem) {
  const u32 xs = (u32)__cvta_generic_to_shared(smem), ws = xs + X_BUFFERS * X_BYTES;
  const Barriers b = barriers_at(ws + STAGES * STAGE_BYTES);
  watch_borders(a, tile);
  const Job job = {tile, blockIdx.x, 0};
  if (threadIdx.x == 0) init_barriers(b);
  __syncthreads();
  if (threadIdx.x >= MULTIPLIERS) {
    give_registers();
    copy_all(a, job, b, xs, ws);
  } else {
    take_registers();
    compute_all(a, job, b, xs, ws, smem + ROWS_AT);
  }
}
