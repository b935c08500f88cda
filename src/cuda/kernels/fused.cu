// SPDX-License-Identifier: Apache-2.0
// The kernel: a block keeps to one block of channels and takes tiles of cells, convolves, and finishes its cells in
// registers (finish is generated). Where all weights of its channels fit shared memory they are loaded once, for all its
// teams.

#if PREFETCH
// Shared memory of a team.
struct Desk {
  u32 *xs;
  char *buffer;
  int4 *note; // where the tile is whose input is under way: until that has come no register holds anything of it
};

__device__ __forceinline__ Desk desk_of(float *smem) {
  Desk desk;
  desk.xs = (u32 *)smem + team() * TEAM_FLOATS;
  desk.buffer = (char *)(desk.xs + X_FLOATS);
  desk.note = (int4 *)(desk.xs + TEAM_FLOATS) - 1;
  return desk;
}

__device__ __forceinline__ void begin(const Args &a, i64 i, Tile tile, bool wide_x, const Desk &desk) {
  go_to(a, i, tile);
  fetch(a, tile, wide_x, desk.buffer);
  if (team_thread() == 0) *desk.note = make_int4(tile.n, tile.qd, tile.qh, tile.qw);
}

__device__ __forceinline__ Tile noted(const Args &a, Tile tile, const int4 *note) {
  const int4 at = *note;
  tile.n = at.x, tile.qd = at.y, tile.qh = at.z, tile.qw = at.w;
  aim(a, tile);
  return tile;
}

// i: the team's first tile.
__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  u32 *const ws = (u32 *)smem + TEAMS * TEAM_FLOATS;
  const bool wide_x = aligned_input(a);
  if (i < tiles) begin(a, i, tile, wide_x, desk_of(smem));
  stage_weights(a, tile, 0, ws);
  __syncthreads();
  for (; i < tiles; i += workers) {
    const Desk desk = desk_of(smem);
    wait_copies();
    sync_team(); // all has come, and nobody multiplies the last tile any more
    settle_input(desk.buffer, desk.xs);
    const Tile here = noted(a, tile, desk.note);
    sync_team(); // all is settled: the buffer is free
    if (i + workers < tiles) begin(a, i + workers, tile, wide_x, desk);
    convolve_rounds(a, here, 0, place_of(team_thread()), desk.xs, ws);
  }
}
#elif POSITIONS_AT
__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  uint4 *const inverse = (uint4 *)(smem + POSITIONS_AT) - 1;
  if (threadIdx.x == 0) *inverse = inverses_of(a);
  stage_weights(a, tile, 0, (WeightWord *)(smem + TEAM_FLOATS));
  keep_positions(a, smem);
  __syncthreads();
#pragma unroll 1
  for (; i < tiles; i += workers) {
    if (tiles <= 0xffffffff) go_by(a, *inverse, (u32)i, tile);
    else go_to(a, i, tile);
    aim(a, tile);
    convolve(a, tile, 0, true, smem);
  }
}
#elif !COPIERS && !DIRECT // else the inner product goes over the tiles by itself
__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
#if RESIDENT_WEIGHTS
  stage_weights(a, tile, 0, (WeightWord *)(smem + TEAMS * TEAM_FLOATS));
  if (TEAMS > 1) __syncthreads();
#endif
  for (; i < tiles; i += workers) {
    go_to(a, i, tile);
    aim(a, tile);
#pragma unroll 1
    for (int rg = blockIdx.x / CHANNEL_BLOCKS % RESIDUE_BLOCKS; rg < RESIDUE_GROUPS; rg += RESIDUE_BLOCKS)
      convolve(a, tile, rg, RESIDENT_WEIGHTS, smem);
  }
}
#endif

// Tiles go to all blocks first and then to their next teams, so that few tiles spread over many multiprocessors.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) float smem[];
  enum { KINDS = CHANNEL_BLOCKS * RESIDUE_BLOCKS };
  const int block = blockIdx.x % CHANNEL_BLOCKS, blocks = gridDim.x / KINDS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
  tile.width = width_of_runs(a);
  work(a, tile, blockIdx.x / KINDS + team() * (i64)blocks, a.tiles / KINDS, (i64)blocks * TEAMS, smem);
}
