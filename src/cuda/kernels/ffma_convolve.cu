// SPDX-License-Identifier: Apache-2.0
// A tile on the FP32 units: chunks of channels, then every cell is finished.

// A thread's cells of one tile.
struct Cells {
  int y[CELLS];     // offset of the first output within the tile, in elements
  bool live[CELLS]; // whether a cell of one output is stored: coordinates are compared once for all channels
};

#if FUSED
enum { ONE_OUTPUT = Y_CELL0 * Y_CELL1 * Y_CELL2 == 1 };

__device__ __forceinline__ Cells cells_of(const Args &a, const Tile &tile, const Place &p) {
  Cells cells;
  const int first = kept(output_at(a, tile, p.jd * Y_CELL0, p.jh * Y_CELL1, p.jw * Y_CELL2));
  const int next = kept(output_at(a, tile, NEXT0 * Y_CELL0, NEXT1 * Y_CELL1, NEXT2 * Y_CELL2));
#pragma unroll
  for (int i = 0; i < CELLS; i++) {
    cells.y[i] = first + i * next;
    cells.live[i] = !ONE_OUTPUT || (stored(a, 2, tile.qd + p.jd + i * NEXT0 + Y_BASE0, 1) &
                                    stored(a, 3, tile.qh + p.jh + i * NEXT1 + Y_BASE1, 1) &
                                    stored(a, 4, tile.qw + p.jw + i * NEXT2 + Y_BASE2, 1));
  }
  return cells;
}
#else
enum { ONE_OUTPUT = 0 };
__device__ __forceinline__ Cells cells_of(const Args &, const Tile &, const Place &) {
  Cells cells;
#pragma unroll
  for (int i = 0; i < CELLS; i++) cells.y[i] = 0, cells.live[i] = true;
  return cells;
}
#endif

// Channel m of a thread's cells. y: the channel's first output of the tile.
template <bool INSIDE>
__device__ __forceinline__ void finish_channel(const Args &a, const Tile &tile, int rg, const Place &p, int m, char *y,
                                               const Cells &cells, const float (&sums)[CELLS][RT][MC]) {
  enum { WHOLE_BLOCKS = CO % BM == 0 };
  const int first = tile.c0 + p.m, c = first + m, at = WHOLE_BLOCKS || c < CO ? m : CO - 1 - first;
  const int channel = tile.group * CO + first + at;
  const float *const biases = a.packed + BIAS_AT + (tile.group * CO + first);
  const float bias = __ldg(biases + at); // last: it may be far larger than the products
#pragma unroll
  for (int i = 0; i < CELLS; i++) {
    float cell[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) cell[r] = sums[i][r][m] + bias;
    Tile here = tile; // as if the cell were its first
    here.qd += p.jd + i * NEXT0, here.qh += p.jh + i * NEXT1, here.qw += p.jw + i * NEXT2;
    here.od += p.jd + i * NEXT0, here.oh += p.jh + i * NEXT1, here.ow += p.jw + i * NEXT2;
    here.y = y + (i64)cells.y[i] * size_of(Y_TYPE);
    finish<INSIDE>(a, here, rg, cells.live[i] & (WHOLE_BLOCKS | (c < CO)), channel, 0, 0, 0, cell);
  }
}

// resident: the weights are in shared memory already.
__device__ __forceinline__ void convolve(const Args &a, const Tile &tile, int rg, bool resident, float *smem) {
  float *xs = smem, *ws = smem + X_FLOATS;
  const Place p = place_of(threadIdx.x);
  float sums[CELLS][RT][MC];
#pragma unroll
  for (int m = 0; m < MC; m++)
#pragma unroll
    for (int i = 0; i < CELLS; i++)
#pragma unroll
      for (int r = 0; r < RT; r++) sums[i][r][m] = 0.0f;
#pragma unroll 1
  for (int e0 = 0; e0 < CI; e0 += EC) {
    __syncthreads();
    stage_input(a, tile, e0, xs);
    if (SHARED_WEIGHTS && !resident) stage_weights(a, tile, e0, ws);
    __syncthreads();
    const int channels = CI - e0 < EC ? CI - e0 : EC;
    const float *w = ws + p.m;
    // without shared weights a thread beyond the last channel reads those of channel 0: its sums are dropped
    if (!SHARED_WEIGHTS) w = packed_weights(a, tile) + (i64)e0 * KERNEL * CO_PAD + (tile.c0 + p.m < CO_PAD ? p.m : -tile.c0);
    multiply(p, rg, channels, xs, w, sums);
  }
  const Cells cells = cells_of(a, tile, p);
  const i64 y_channel = a.y.stride[1] * size_of(Y_TYPE);
  char *y = FUSED ? kept(tile.y + (tile.group * CO + tile.c0 + p.m) * y_channel) : (char *)0;
  // a branch a channel: with one for all of them the compiler holds more at once than there are registers
#pragma unroll
  for (int m = 0; m < MC; m++) {
    if (ONE_OUTPUT || tile.inside) finish_channel<true>(a, tile, rg, p, m, y, cells, sums);
    else finish_channel<false>(a, tile, rg, p, m, y, cells, sums);
    y += y_channel;
  }
}
