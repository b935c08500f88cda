// SPDX-License-Identifier: Apache-2.0
// One input channel a group: nothing to share but x, so all is about memory. A thread makes one cell of one output channel
// at a time, wide enough along W that its outputs are stored 16 bytes at once; an input it loads serves every residue
// whose tap reads it. Blocks count output channels through, across groups: BM of them, which read at most XC channels of x.
//
// Channels-first: neighbouring threads take neighbouring cells along W, xs is [channel][position], and a thread reads
// vectors of VX inputs and of four weights. Channels-last (CHANNELS_FAST): neighbouring threads take neighbouring channels,
// and the channel is the innermost index of xs and ws.

enum {
  POSITIONS = XD * XH * XW,
  CELLS_OF_TILE = TD * TH * TW,
  ITEMS = CELLS_OF_TILE * BM,
  WEIGHT_ROW = (KERNEL + 3) / 4 * 4
};

struct Place {
  int m;          // channel within the block
  int jd, jh, jw; // cell, local
};

__device__ __forceinline__ Place place_of(int item) {
  Place p;
  const int cell = CHANNELS_FAST ? item / BM : item % CELLS_OF_TILE;
  p.m = CHANNELS_FAST ? item % BM : item / CELLS_OF_TILE;
  p.jw = cell % TW;
  p.jh = cell / TW % TH;
  p.jd = cell / TW / TH;
  return p;
}

// The input channel of output channel c, counted from the block's first.
__device__ __forceinline__ int input_channel(const Tile &tile, int c) {
  return BM == 1 ? 0 : c / GROUP_OUT - tile.c0 / GROUP_OUT;
}

// Element i of an array of vectors of N floats, of which neighbours are loaded together.
template <int N>
__device__ __forceinline__ float element(const float *from, int i) {
  if (N == 4) {
    const float4 v = *(const float4 *)(from + i / 4 * 4);
    return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
  }
  if (N == 2) {
    const float2 v = *(const float2 *)(from + i / 2 * 2);
    return i % 2 == 0 ? v.x : v.y;
  }
  return from[i];
}

// packed: [output channel in groups][KERNEL][CO_PAD]
__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, float *ws) {
  for (int i = threadIdx.x; i < BM * KERNEL; i += THREADS) {
    const int m = CHANNELS_FAST ? i % BM : i / KERNEL, k = CHANNELS_FAST ? i / BM : i % KERNEL, c = tile.c0 + m;
    const float *from = a.packed + WEIGHTS_AT + ((i64)(c / GROUP_OUT) * KERNEL + k) * CO_PAD + c % GROUP_OUT;
    ws[CHANNELS_FAST ? i : m * WEIGHT_ROW + k] = c < CO ? __ldg(from) : 0.0f;
  }
}

// xs, ws: of the thread's channel, xs at its cell.
__device__ __forceinline__ void multiply(const float *xs, const float *ws, float (&cell)[RT]) {
#pragma unroll
  for (int t = 0; t < TAPS; t++) {
    const float x = CHANNELS_FAST ? xs[tap_offset[t] * XC] : element<VX>(xs, tap_offset[t]);
    const float w = CHANNELS_FAST ? ws[tap_kernel[t] * BM] : element<4>(ws, tap_kernel[t]);
    cell[tap_residue[t]] = fmaf(w, x, cell[tap_residue[t]]);
  }
}
