// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores of sm_90a (wgmma) with phases and output channels as rows and cells as columns: a panel
// is 64 rows, pairs of residues that are neighbours along W, each for blocks of 8 channels. A part is GROUPS groups of eight
// cells that are neighbours along W; the groups follow each other along one axis. Both operands are read from shared memory,
// where a unit is 16 bytes: 4 words of the depth. Units of neighbouring positions lie side by side (no swizzling), so that a
// tap is another address, whatever the tile's width, and one product serves all rows whose residues have a tap there.
//
// Fragment layout (PTX, wgmma): lane 4 g + t of warp w holds rows 16 w + g and 16 w + g + 8, columns 2 t and 2 t + 1 of every
// group. Those rows are one channel of two neighbouring residues: what a lane has lies side by side in memory.

// L: Main or, of the last channels of a block, Rest: which rows a panel has, and its products.
template <typename L>
using Sums = float[L::HELD * L::PANELS][GROUPS * 4];

enum {
  X_CHANNEL = XD * XH * XW, // positions of the input tile
  X_BYTES = QUADS * X_CHANNEL * 16,
  PANEL_BYTES = 64 * 32, // weights of a product
  MOST_UNROLLED = 40,    // products: addresses of more take registers that sums need
  MULTIPLIERS = THREADS - COPIERS,
  TEAMS_OF_FOUR = MULTIPLIERS / 128,
  PAIRS_W = (R2 + 1) / 2,
  PLACES = R0 * R1 * R2 / RT, // 1 where a thread finishes all residues together
  PARTS_H = TH / PART_H,
  PARTS_W = TW / PART_W,
  PARTS = TD / PART_D * PARTS_H * PARTS_W,
  GROUP_POSITIONS = GROUP_AXIS == 2 ? 8 : GROUP_AXIS == 1 ? I1 * XW : I0 * XH * XW,
  STAGE_AT = WEIGHT_BYTES + X_BUFFERS * X_BYTES + NOTES_BYTES, // what warps put together before it is stored
  MARKS_AT = STAGE_AT + STAGE_BYTES,
  NOTES_AT = (8 * (2 * X_BUFFERS + 3) + 15) / 16 * 16 // after the barriers
};

// What a lane works on.
struct Place {
  int channel, slot; // within a block of L::FRAGMENTS * 8 channels; place along D and H
  int cell;          // along W, the first of two
};

template <typename L>
__device__ __forceinline__ Place place_of(int thread) {
  const int lane = thread % 32, warp = thread / 32 % 4;
  Place p = {warp % L::FRAGMENTS * 8 + lane / 4, warp / L::FRAGMENTS, lane % 4 * 2};
  return p;
}

// The first cell of a part.
struct Part {
  int d, h, w;
};

__device__ __forceinline__ Part part_at(int part) {
  Part p = {part / (PARTS_W * PARTS_H) * PART_D, part / PARTS_W % PARTS_H * PART_H, part % PARTS_W * PART_W};
  return p;
}

__device__ __forceinline__ int position_of_part(const Part &p) { return (p.d * I0 * XH + p.h * I1) * XW + p.w; }

// ---- multiplying ----

// weights: of the round; x: of the part's first position. The next may begin as soon as all products are on their way.
template <typename L>
__device__ __forceinline__ void multiply(u32 weights, u32 x, u32 next, Sums<L> &sums) {
  enum { PANEL = PANEL_BYTES / 16, AT_ONCE = STEPS * L::PRODUCTS * L::HELD <= MOST_UNROLLED ? STEPS : 1 };
  u64 rows = matrix_at(weights, 8) + PANEL / 2 * FAR, columns = matrix_at(x, GROUP_POSITIONS);
#pragma unroll AT_ONCE
  for (int step = 0; step < STEPS; step++) {
    // none where steps follow each other without a branch: each would make the compiler end a group of products
    if (AT_ONCE == 1 || step == 0) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < L::PRODUCTS; i++)
#pragma unroll
      for (int h = 0; h < L::HELD; h++)
        wgmma(sums[h * L::PANELS + L::panel(i)], rows + (i * L::HELD + h) * PANEL, columns + L::at(i) + L::far(i) * FAR,
              step > 0 || !L::begins(i));
    rows += L::PRODUCTS * L::HELD * PANEL;
    columns += 2 * X_CHANNEL;
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  __syncwarp(); // all lanes have seen that it was their turn
  arrive_once(next);
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
  // sums are whole now: no use of them may move to before this
#pragma unroll
  for (int i = 0; i < L::HELD * L::PANELS * GROUPS * 4; i++)
    asm volatile("" : "+f"(sums[i / (GROUPS * 4)][i % (GROUPS * 4)])::"memory");
#pragma unroll
  for (int i = 0; i < L::HELD * L::PANELS; i++)
    if (!L::lives(i % L::PANELS)) {
#pragma unroll
      for (int k = 0; k < GROUPS * 4; k++) sums[i][k] = 0.0f;
    }
}

// ---- finishing ----

template <typename L>
__device__ __forceinline__ int channel_of(const Tile &tile, const Place &p, int round, int held) {
  return tile.c0 + L::FIRST_CHANNEL + (round * L::HELD + held) * L::FRAGMENTS * 8 + p.channel;
}

// The first cell of a lane's pair of a group.
struct Pair {
  int d, h, w;
};

__device__ __forceinline__ Pair pair_at(const Place &p, const Part &part, int group) {
  Pair pair = {part.d + (GROUP_AXIS == 0 ? group : 0), part.h + (GROUP_AXIS == 1 ? group : 0),
               part.w + (GROUP_AXIS == 2 ? group * 8 : 0) + p.cell};
  return pair;
}

// Two cells of one channel, at one place along D and H or, pooled, at all. INSIDE, RUNS, live: as finish.
template <bool INSIDE, bool RUNS, int ROWS, int COLUMNS>
__device__ __forceinline__ void finish_pair(const Args &a, const Tile &tile, const Finish &f, const float (&sums)[ROWS][COLUMNS],
                                            int panel0, int group, int place, const Pair &at, Live live, const Extra &extra) {
  float strip[2 * RT];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int r = 0; r < RT; r++) {
      const float sum = sums[panel0 + r / R2 * PAIRS_W + r % R2 / 2][group * 4 + r % R2 % 2 * 2 + i];
      strip[i * RT + r] = SUMS_POOLED ? sum : with_bias(sum, f.factor, f.bias);
    }
  finish<INSIDE, RUNS>(a, tile, place, f.live ? live : 0, f.channel, at.d, at.h, at.w, strip, extra);
}

// Nothing of what follows from it is computed before the products and kept in registers that the sums need.
__device__ __forceinline__ void hold_back(Part &part) { asm volatile("" : "+r"(part.d), "+r"(part.h), "+r"(part.w)); }
