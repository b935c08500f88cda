// SPDX-License-Identifier: Apache-2.0
// Finishing what a lane has: of every channel, strips of cells.

// Strips of a lane, one bit each: those all of whose outputs are stored, and those of whose outputs some are.
struct Stored {
  u32 whole, part;
};

// at: the lane's first cell. Few strips are cut by a border, and only those compare coordinates of every output. Unrolled code
// does not ask for those of a tile that is inside.
__device__ __forceinline__ Stored stored_strips(const Args &a, const Tile &tile, int at) {
  Stored strips = {ROLLED && tile.inside ? ~0u : 0, 0};
  if (tile.inside) return strips;
#pragma unroll
  for (int s = 0; s < STRIPS; s++) {
    const int first = at + s * STRIP_GAP;
    const int d = (tile.qd + first / TW / TH) * Y_CELL0 + Y_BASE0, h = (tile.qh + first / TW % TH) * Y_CELL1 + Y_BASE1;
    const int w = (tile.qw + first % TW) * Y_CELL2 + Y_BASE2;
    const int in_d = stored_of(a, 2, d, Y_CELL0), in_h = stored_of(a, 3, h, Y_CELL1), in_w = stored_of(a, 4, w, STRIP * Y_CELL2);
    const bool some = (in_d > 0) & (in_h > 0) & (in_w > 0), all = (in_d == 2) & (in_h == 2) & (in_w == 2);
    strips.whole |= (u32)all << s;
    strips.part |= (u32)(some & !all) << s;
  }
  return strips;
}

#if ROLLED
// Sums lie in registers, whose numbers must be known when they are compiled: where what follows the convolution is long its code
// exists once, for the first strip of the first channel, and all sums move past it.
enum { LANE_CHANNELS = 2 * NT };

// The sum of a lane's cell q, of the c-th of its channels: two columns of every block of eight.
__device__ __forceinline__ float &sum_at(Sums &sums, int r, int q, int c) { return sums[r][q / 2][c / 2][q % 2 * 2 + c % 2]; }

// Of the first channel, the sums of the next strip come to the place of the first, and those behind follow.
__device__ __forceinline__ void move_strips(Sums &sums) {
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int q = STRIP; q < LANE_CELLS; q++) sum_at(sums, r, q - STRIP, 0) = sum_at(sums, r, q, 0);
}

// The same for channels.
__device__ __forceinline__ void move_channels(Sums &sums) {
#pragma unroll
  for (int i = 0; i < RT * LANE_CELLS; i++)
#pragma unroll
    for (int c = 1; c < LANE_CHANNELS; c++) sum_at(sums, i % RT, i / RT, c - 1) = sum_at(sums, i % RT, i / RT, c);
}

// One channel of a lane's cells, whose sums are those of the first.
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, int at, Stored strips, int c, Sums &sums) {
  const int channel = tile.group * CO + (c < CO ? c : CO - 1);
  const float bias = __ldg(a.packed + BIAS_AT + channel), factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + channel) : 1.0f;
#pragma unroll 1
  for (int s = 0; s < STRIPS; s++) {
    int first = at + s * STRIP_GAP;
    asm volatile("" : "+r"(first)); // what follows from it is not to be kept in registers from channel to channel
    float strip[STRIP * RT];
#pragma unroll
    for (int i = 0; i < STRIP * RT; i++) {
      const float sum = sum_at(sums, i % RT, i / RT, 0);
      strip[i] = SUMS_POOLED ? sum : with_bias(sum, factor, bias);
    }
    const int d = first / TW / TH, h = first / TW % TH, w = first % TW;
    const bool whole = strips.whole >> s & 1;
    if (whole | (strips.part >> s & 1)) finish(a, tile, rg, c < CO, channel, d, h, w, strip, whole);
    move_strips(sums);
  }
}

// m: the warp's first channel of this round.
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Place &p, int m, Sums &sums) {
  const Stored strips = stored_strips(a, tile, p.cell);
#pragma unroll 1
  for (int i = 0; i < LANE_CHANNELS; i++) {
    finish_channel(a, tile, rg, p.cell, strips, tile.c0 + m + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2, sums);
    move_channels(sums);
  }
}
#else
// One channel of a lane's cells; k: which of the two columns of block j that the lane has. INSIDE: all strips are stored whole.
template <bool INSIDE>
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, int at, Stored strips, int c,
                                               const Sums &sums, int j, int k) {
  const int channel = tile.group * CO + (c < CO ? c : CO - 1);
  const float bias = __ldg(a.packed + BIAS_AT + channel), factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + channel) : 1.0f;
#pragma unroll
  for (int q0 = 0; q0 < LANE_CELLS; q0 += STRIP) {
    const int first = at + q0 / STRIP * STRIP_GAP;
    float strip[STRIP * RT];
#pragma unroll
    for (int i = 0; i < STRIP; i++)
#pragma unroll
      for (int r = 0; r < RT; r++) {
        const float sum = sums[r][(q0 + i) / 2][j][(q0 + i) % 2 * 2 + k];
        strip[i * RT + r] = SUMS_POOLED ? sum : with_bias(sum, factor, bias);
      }
    const int d = first / TW / TH, h = first / TW % TH, w = first % TW;
    if (INSIDE || strips.whole >> q0 / STRIP & 1) finish<true>(a, tile, rg, c < CO, channel, d, h, w, strip);
    else if (strips.part >> q0 / STRIP & 1) finish<false>(a, tile, rg, c < CO, channel, d, h, w, strip);
  }
}

// m: the warp's first channel of this round. A branch a channel: with one for all of them the compiler holds more at once
// than there are registers.
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Place &p, int m, const Sums &sums) {
  const Stored strips = stored_strips(a, tile, p.cell);
#pragma unroll
  for (int j = 0; j < NT; j++)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int c = tile.c0 + m + 8 * j + threadIdx.x % 4 * 2 + k;
      if (tile.inside) finish_channel<true>(a, tile, rg, p.cell, strips, c, sums, j, k);
      else finish_channel<false>(a, tile, rg, p.cell, strips, c, sums, j, k);
    }
}
#endif
