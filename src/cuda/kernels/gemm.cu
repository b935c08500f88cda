// SPDX-License-Identifier: Apache-2.0
// Inner product for many channels, on the tensor cores: cells are the rows of the product (16 a fragment), output channels
// its columns (8 a fragment), input channels its depth (steps of 8 words: TF32 numbers, or pairs of 16-bit channels).
//
// A block works on one group of residues: all along W, or a few of them, of one place along D and H. Where there are few
// channels (WIDE) it works on all residues, as columns of their own, and taps are shifts of the cells, with zeros for
// weights where a residue has none. It reads x as rows:
// EC words of one position, so that any shift of the cells by a tap is another row, never another alignment. The halo
// tile of a chunk of channels is staged once for all taps; weights stream past it, one tap a stage, STAGES of them under way.
// Unit u of row r, 16 bytes, lies where u ^ r % 8 would: so eight neighbouring rows meet eight different sets of banks.
//
// Rows of a fragment are neighbouring cells. TEAM warps make products together: 4, with wgmma, else each for itself; a team has
// MT fragments of 16 rows a warp, and NT of 8 columns. Lane 4 g + t holds rows g and g + 8, words t and t + 4 of x, and
// columns 2 t and 2 t + 1 of the sums (PTX, mma.m16n8k* and wgmma.m64n*k*).

enum {
  TEAM = WGMMA ? 4 : 1,
  MULTIPLIERS = 32 * TEAM * WARPS_M * WARPS_N, // threads; with wgmma, others copy
  STEPS = EC / 8,                              // of a chunk
  CHUNKS = (CI_STEPS + STEPS - 1) / STEPS,
  UNITS = EC / 4,                              // 16 bytes each, of a row
  ROW_BYTES = 128,
  VOLUME = TD * TH * TW,                       // cells of one sample in a tile
  X_ROWS = SAMPLES * XD * XH * XW,
  X_BYTES = (X_ROWS * ROW_BYTES + 1023) / 1024 * 1024,
  BLOCK_UNITS = 16,                            // weights of 8 output channels and one step
  STEP_UNITS = WARPS_N * NT * BLOCK_UNITS,
  W_BYTES = STEPS * STEP_UNITS * 16,
  PACKED_ROW = CO_PAD / 8 * BLOCK_UNITS        // weights of one step and tap, in units
};

// Four 8 x 16-byte matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 address, u32 (&a)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address) : "memory");
}

// packed: [group][step][KERNEL][CO_PAD / 8][half][column][4 words]: what ldmatrix and wgmma read
__device__ __forceinline__ const uint4 *weights_of(const Args &a, const Tile &tile, int chunk, int kernel) {
  return (const uint4 *)(a.packed + WEIGHTS_AT) +
         (((i64)tile.group * CI_STEPS + chunk * STEPS) * WEIGHT_TAPS + kernel) * PACKED_ROW + tile.c0 / 8 * BLOCK_UNITS;
}

// ---- which cells a lane multiplies ----

struct Place {
  int row[MT]; // of the input tile, whose address the lane gives for each fragment
  u32 w;       // the team's first weights, in bytes
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

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
#pragma unroll
  for (int i = 0; i < MT; i++) p.row[i] = row_of(fragment_cell(thread / 32, i) + thread % 16);
  // the same for a warp, which the compiler is to know
  p.w = WARPS_N == 1 ? 0 : __shfl_sync(0xffffffff, thread / 32 / TEAM / WARPS_M * NT * BLOCK_UNITS * 16, 0);
  return p;
}

// Where the lane's row of each fragment lies for a tap; step q is at address ^ (32 q).
__device__ __forceinline__ void addresses_of(const Place &p, int tap, u32 x, u32 (&address)[MT]) {
#pragma unroll
  for (int i = 0; i < MT; i++) {
    const int row = p.row[i] + tap_offset[tap];
    address[i] = x + row * ROW_BYTES + (threadIdx.x % 32 / 16 ^ row % 8) * 16;
  }
}

// ---- sums ----

typedef float Sums[HELD][MT][NT][4];

__device__ __forceinline__ void sync_multipliers() { asm volatile("bar.sync 1, %0;" ::"r"((int)MULTIPLIERS) : "memory"); }

// Sums go through shared memory, ROUND fragments of every warp at a time: so neighbouring lanes finish neighbours in memory,
// and the code that finishes exists once. A channel's cells are PITCH words apart from the next one's: lanes of a store,
// 8 cells of 4 pairs of channels, meet few banks twice.
enum {
  ROWS = WARPS_M * MT * 16 * TEAM,
  ROUND_CHANNELS = WIDE ? CO : WARPS_N * 8 * ROUND,
  PITCH = ROWS * HELD + 4,
  LANES = ROWS < MULTIPLIERS ? ROWS : MULTIPLIERS // threads that take different cells
};

__device__ __forceinline__ void put_sums(float *out, const Sums &sums, int round) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    if (j / ROUND != round) continue;
    float *to = out + (warp / TEAM / WARPS_M * 8 * ROUND + j % ROUND * 8 + lane % 4 * 2) * PITCH;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int k = 0; k < 4; k++)
#pragma unroll
        for (int r = 0; r < HELD; r++) to[k % 2 * PITCH + (fragment_cell(warp, i) + lane / 4 + k / 2 * 8) * HELD + r] = sums[r][i][j][k];
  }
}

// Row r of a round is this channel of the group.
__device__ __forceinline__ int channel_of(const Tile &tile, int round, int r) {
  return WIDE ? r : tile.c0 + r / (8 * ROUND) * 8 * NT + round * 8 * ROUND + r % (8 * ROUND);
}

struct Spot {
  Tile tile; // of the cell's sample
  bool live;
  int d, h, w;
};

__device__ __forceinline__ Spot spot_of(const Args &a, const Tile &tile, int cell) {
  Spot s = {tile, cell < VOLUME * SAMPLES, 0, 0, 0};
  const int sample = cell / VOLUME, in_sample = cell % VOLUME;
  s.d = in_sample / (TW * TH), s.h = in_sample / TW % TH, s.w = in_sample % TW;
  if (SAMPLES > 1) {
    s.live = s.live && tile.n + sample < a.n0 + a.batch;
    s.tile.n += sample;
    s.tile.y += sample * a.y.stride[0] * size_of(Y_TYPE);
  }
  return s;
}

#if WIDE
// Element e of the group's channels of x at a position, as the products take it.
__device__ __forceinline__ float factor_of(const Args &a, const Spot &s, int e, int d, int h, int w) {
  const float x = load_at<X_TYPE>(a.x.origin, view_index(a.x, s.tile.n, s.tile.group * CI + e, d, h, w));
#ifdef WORD_IS_F32
  return __int_as_float((int)to_tf32(x));
#else
  return x;
#endif
}

// The packed weight of channel e, a shift and a column.
__device__ __forceinline__ float weight_of(const Args &a, int group, int e, int shift, int column) {
#ifdef WORD_IS_F32
  const int word = e;
#else
  const int word = e / 2;
#endif
  const i64 block = (((i64)group * CI_STEPS + word / 8) * WEIGHT_TAPS + shift) * (CO_PAD / 8) + column / 8;
  const u32 bits = ((const u32 *)a.packed)[WEIGHTS_AT + block * 64 + word % 8 / 4 * 32 + column % 8 * 4 + word % 4];
#ifdef WORD_IS_F32
  return __int_as_float((int)bits);
#elif defined(WORD_IS_F16)
  return from_f16((u16)(bits >> e % 2 * 16));
#else
  return from_bf16((u16)(bits >> e % 2 * 16));
#endif
}

// The sum of a residue's own taps. Where it has none at a shift, x was multiplied by zero, which is wrong if x is no finite
// number there; so sums that are not finite are made again, one product after the other.
__device__ __forceinline__ float sum_of_taps(const Args &a, const Spot &s, int c, int r) {
  float sum = 0.0f;
#pragma unroll 1
  for (int u = 0; u < WEIGHT_TAPS; u++) {
    const int d = s.tile.qd + s.d + shift_delta[u][0], h = s.tile.qh + s.h + shift_delta[u][1], w = s.tile.qw + s.w + shift_delta[u][2];
    if (!column_live[u][r] || !holds(a.x, a.x.begin[0], d, h, w)) continue;
#pragma unroll 1
    for (int e = 0; e < CI; e++) sum = fmaf(factor_of(a, s, e, d, h, w), weight_of(a, s.tile.group, e, u, r * CO + c), sum);
  }
  return sum;
}

__device__ __forceinline__ void mend_sums(const Args &a, const Spot &s, float *sum, int c) {
  bool finite = true;
#pragma unroll
  for (int r = 0; r < RT; r++) finite = finite && fabsf(sum[r * CO * PITCH]) < INF;
  if (finite) return;
#pragma unroll 1
  for (int r = 0; r < RT; r++)
    if (!(fabsf(sum[r * CO * PITCH]) < INF)) sum[r * CO * PITCH] = sum_of_taps(a, s, c, r);
}
#endif

// ---- finishing ----

enum { SHARES = MULTIPLIERS / LANES }; // threads that take different channels of one cell

struct Channel {
  float bias, factor;
};

__device__ __forceinline__ Channel channel_at(const Args &a, int channel) {
  Channel c = {__ldg(a.packed + BIAS_AT + channel), SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + channel) : 1.0f};
  return c;
}

// Whether all outputs of the cell are stored, of all channels of the block.
__device__ __forceinline__ bool whole(const Args &a, const Spot &s) {
  const int first = s.tile.group * CO + s.tile.c0, left = CO - s.tile.c0;
  return stored(a, 1, first, left < BM ? left : BM) &
         (s.tile.inside | (stored(a, 2, (s.tile.qd + s.d) * Y_CELL0 + Y_BASE0, Y_CELL0) &
                           stored(a, 3, (s.tile.qh + s.h) * Y_CELL1 + Y_BASE1, Y_CELL1) &
                           stored(a, 4, (s.tile.qw + s.w) * Y_CELL2 + Y_BASE2, Y_CELL2)));
}

// All residues of one cell and channel, which begins in y, for the tile's first cell, at s.tile.y.
__device__ __forceinline__ void finish_cell(const Args &a, const Spot &s, int rg, bool inside, const float (&sum)[RT],
                                            const Channel &with, int channel) {
  float strip[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) strip[r] = with_bias(sum[r], with.factor, with.bias);
  if (inside) finish<true>(a, s.tile, rg, true, channel, s.d, s.h, s.w, strip);
  else finish<false>(a, s.tile, rg, true, channel, s.d, s.h, s.w, strip);
}

__device__ __forceinline__ void read_sums(const Args &a, const Spot &s, float *from, int c, float (&sum)[RT]) {
#if WIDE
  mend_sums(a, s, from, c);
#endif
#pragma unroll
  for (int r = 0; r < RT; r++) sum[r] = from[WIDE ? r * CO * PITCH : r];
}

// Where channel c of the group begins in y, for the tile's first cell.
__device__ __forceinline__ char *channel_of_y(const Args &a, const Tile &tile, int c) {
  return tile.y + (tile.group * CO + c) * a.y.stride[1] * size_of(Y_TYPE);
}

// Neighbouring threads take neighbouring channels, as they lie in channels-last memory.
__device__ __forceinline__ void finish_last(const Args &a, const Tile &tile, int rg, int round, float *out) {
#pragma unroll 1
  for (int item = threadIdx.x; item < ROWS * ROUND_CHANNELS; item += MULTIPLIERS) {
    const int cell = item / ROUND_CHANNELS, row = item % ROUND_CHANNELS, c = channel_of(tile, round, row);
    Spot s = spot_of(a, tile, cell);
    if (!s.live | (c >= CO)) continue;
    float sum[RT];
    s.tile.y = channel_of_y(a, s.tile, c);
    read_sums(a, s, out + row * PITCH + cell * HELD, c, sum);
    finish_cell(a, s, rg, whole(a, s), sum, channel_at(a, tile.group * CO + c), tile.group * CO + c);
  }
}

// Channels c, c + SHARES and so on, before `end`, of one cell, whose sums begin at `from`. What the next one needs is read
// before this one is finished; not where that is long (ROLLED): it has no registers left, and little would be gained.
template <bool INSIDE>
__device__ __forceinline__ void finish_channels(const Args &a, Spot s, int rg, float *from, int c, int end) {
  const i64 step = SHARES * a.y.stride[1] * size_of(Y_TYPE);
  const int first = s.tile.group * CO;
  s.tile.y = channel_of_y(a, s.tile, c);
#if ROLLED
#pragma unroll 1
  for (; c < end; c += SHARES, from += SHARES * PITCH, s.tile.y += step) {
    float sum[RT];
    read_sums(a, s, from, c, sum);
    finish_cell(a, s, rg, INSIDE, sum, channel_at(a, first + c), first + c);
  }
#else
  Channel next = channel_at(a, first + c);
  float next_sum[RT];
  read_sums(a, s, from, c, next_sum);
#pragma unroll 1
  for (; c < end; c += SHARES) {
    const Channel with = next;
    float sum[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) sum[r] = next_sum[r];
    if (c + SHARES < end) {
      from += SHARES * PITCH;
      next = channel_at(a, first + c + SHARES);
      read_sums(a, s, from, c + SHARES, next_sum);
    }
    finish_cell(a, s, rg, INSIDE, sum, with, first + c);
    s.tile.y += step;
  }
#endif
}

// Neighbouring threads take neighbouring cells.
__device__ __forceinline__ void finish_round(const Args &a, const Tile &tile, int rg, int round, float *out) {
  enum { TEAM_ROWS = WIDE ? CO : 8 * ROUND }; // channels of a team
#pragma unroll 1
  for (int cell = threadIdx.x % LANES; cell < ROWS; cell += LANES) {
    Spot s = spot_of(a, tile, cell);
    if (!s.live) continue;
    const bool inside = whole(a, s);
#pragma unroll 1
    for (int team = 0; team < ROUND_CHANNELS; team += TEAM_ROWS) {
      const int row = team + threadIdx.x / LANES, c = channel_of(tile, round, row), last = c - threadIdx.x / LANES + TEAM_ROWS,
                end = last < CO ? last : CO;
      float *const from = out + row * PITCH + cell * HELD;
      if (c >= end) continue;
      if (inside & (tile.width == WHOLE)) {
        s.tile.width = WHOLE; // which the compiler then knows
        finish_channels<true>(a, s, rg, from, c, end);
      } else if (inside) {
        s.tile.width = APART;
        finish_channels<true>(a, s, rg, from, c, end);
      } else {
        finish_channels<false>(a, s, rg, from, c, end);
      }
    }
  }
}

__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, float *out, const Sums &sums) {
#pragma unroll 1
  for (int round = 0; round < NT / ROUND; round++) {
    sync_multipliers();
    put_sums(out, sums, round);
    sync_multipliers();
    if (Y_LAST) finish_last(a, tile, rg, round, out);
    else finish_round(a, tile, rg, round, out);
  }
}
