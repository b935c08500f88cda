// SPDX-License-Identifier: Apache-2.0
// Two neighbouring cells of one channel, which a lane has of a product by four warps whose columns are cells.

// Whether the outputs of two neighbouring cells are all stored: 2; some, 1; none, 0.
__device__ __forceinline__ int stored_pair(const Args &a, const Tile &tile, int d, int h, int w) {
  const int in_d = stored_of(a, 2, (tile.qd + d) * Y_CELL0 + Y_BASE0, Y_CELL0);
  const int in_h = stored_of(a, 3, (tile.qh + h) * Y_CELL1 + Y_BASE1, Y_CELL1);
  const int in_w = stored_of(a, 4, (tile.qw + w) * Y_CELL2 + Y_BASE2, 2 * Y_CELL2);
  if ((in_d == 2) & (in_h == 2) & (in_w == 2)) return 2;
  return (in_d > 0) & (in_h > 0) & (in_w > 0);
}

// A lane's channel of a panel.
struct Finish {
  int channel;
  bool live;
  float factor, bias;
};

__device__ __forceinline__ Finish finish_of(const Args &a, const Tile &tile, int c) {
  Finish f;
  f.live = c < CO;
  f.channel = tile.group * CO + (c < CO ? c : CO - 1);
  f.bias = __ldg(a.packed + BIAS_AT + f.channel);
  f.factor = SCALES_SUMS ? __ldg(a.packed + FACTOR_AT + f.channel) : 1.0f;
  return f;
}
