// SPDX-License-Identifier: Apache-2.0
// Inner product for many channels on the tensor cores of sm_90a (wgmma): output channels are rows of the product, 64 a team of four
// warps; cells are its columns; input channels are its depth. A block works on one group of residues, HELD neighbours along W or
// all of a pool's cell: each has its own taps, so that no product has a zero for a weight.
//
// Both operands are read from shared memory, where a unit is 16 bytes: 4 words of the depth. Units of neighbouring positions lie
// side by side, so that a tap is another address. The halo tile of a chunk of channels, QUADS units a position, is staged once for
// all taps; weights stream past it, one tap a stage. Columns are positions of the halo tile: runs of eight neighbours, GROUP_STEP
// from one to the next, whatever lies between. Those that are no cell of the tile are multiplied like any other and never stored.
//
// Fragment layout (PTX, wgmma): lane 4 g + t of warp w holds rows 16 w + g and 16 w + g + 8, columns 2 t and 2 t + 1 of every
// run.

typedef float Sums[HELD][GROUPS * 4];

enum {
  X_CHANNEL = SAMPLES * XD * XH * XW, // positions of the halo tile
  X_BYTES = (QUADS * X_CHANNEL * 16 + 127) / 128 * 128,
  STAGE_BYTES = QUADS * BM * 16,
  STEPS = QUADS / 2, // products of a stage
  MULTIPLIERS = THREADS - COPIERS,
  CREW_WARPS = MULTIPLIERS / 32 / CREWS
};

// Four warps: 64 channels, and GROUPS runs of positions from one on. A crew is the teams that work on one job together.
struct Team {
  int crew, rows, position;
};

__device__ __forceinline__ Team team_of_four() {
  // the same for all threads of a warp, which the compiler is to know
  const int number = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), in_crew = number % (CREW_WARPS / 4);
  Team t = {number / (CREW_WARPS / 4), in_crew % TEAMS_M * 64, part_position[in_crew / TEAMS_M]};
  return t;
}

// Taps of residue group rg, all and those of one of its residues.
__device__ __forceinline__ int taps_of(int rg) { return tap_begin[(rg + 1) * HELD] - tap_begin[rg * HELD]; }

// ---- finishing ----

// Where a cell of the halo tile lies, and whether it is one of the tile's.
struct Cell {
  int sample, d, h, w;
  bool live; // and so is its neighbour along W: a tile is an even number of cells wide
};

__device__ __forceinline__ Cell cell_at(const Args &a, const Tile &tile, u32 position) {
  const u32 rows = position / XW, planes = rows / XH;
  Cell c = {(int)(planes / XD), (int)(planes % XD), (int)(rows % XH), (int)(position % XW), false};
  c.live = (c.w < TW) & (c.h < TH) & (c.d < TD) & (c.sample < SAMPLES);
  if (SAMPLES > 1) c.live = c.live & (tile.n + c.sample < a.n0 + a.batch);
  return c;
}

// Two cells of one channel. INSIDE, RUNS, live: as finish.
template <bool INSIDE, bool RUNS>
__device__ __forceinline__ void finish_pair(const Args &a, const Tile &tile, const Finish &f, const Cell &cell, int rg, const Sums &sums,
                                            int first, Live live, const Extra &extra) {
  float strip[2 * RT];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int r = 0; r < RT; r++) strip[i * RT + r] = SUMS_POOLED ? sums[r][first + i] : with_bias(sums[r][first + i], f.factor, f.bias);
  finish<INSIDE, RUNS>(a, tile, rg, f.live & cell.live ? live : 0, f.channel, cell.d, cell.h, cell.w, strip, extra);
}

// Where channel c of all begins in y, for the tile's first cell.
__device__ __forceinline__ char *channel_of_y(const Args &a, const Tile &tile, int channel) {
  return tile.y + channel * a.y.stride[1] * size_of(Y_TYPE);
}

// The rows of a lane: two channels, eight apart.
__device__ __forceinline__ int first_row(const Tile &tile, const Team &team) {
  return tile.c0 + team.rows + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
}
