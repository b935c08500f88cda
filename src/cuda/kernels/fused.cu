// SPDX-License-Identifier: Apache-2.0
// The kernel: a block keeps to one block of channels and takes tiles of cells, convolves, and finishes its cells in
// registers (finish is generated). Where all weights of its channels fit shared memory they are loaded once.

// Whether outputs [first, first + count) of axis i, after N and C, are all to be stored.
__device__ __forceinline__ bool stored(const Args &a, int i, int first, int count) {
  return first >= a.y_begin[i] && first + count <= a.y_end[i];
}

__device__ __forceinline__ bool aligned_runs(const Args &a) {
  const i64 strides = a.y.stride[0] | a.y.stride[1] | a.y.stride[2] | a.y.stride[3];
  return a.y_step[2] == 1 && ((i64)a.y.origin | strides * size_of(Y_TYPE)) % (RUN * size_of(Y_TYPE)) == 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) float smem[];
  enum { KINDS = CHANNEL_BLOCKS * RESIDUE_BLOCKS };
  const int block = blockIdx.x % CHANNEL_BLOCKS, workers = gridDim.x / KINDS;
  const i64 tiles = a.tiles / KINDS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
  tile.wide = aligned_runs(a);
#if RESIDENT_WEIGHTS
  stage_weights(a, tile, 0, (WeightWord *)(smem + X_FLOATS));
#endif
  for (i64 i = blockIdx.x / KINDS; i < tiles; i += workers) {
    i64 rest = i;
    tile.qw = ((int)(rest % a.grid[2]) + a.grid_begin[2]) * TW;
    rest /= a.grid[2];
    tile.qh = ((int)(rest % a.grid[1]) + a.grid_begin[1]) * TH;
    rest /= a.grid[1];
    tile.qd = ((int)(rest % a.grid[0]) + a.grid_begin[0]) * TD;
    tile.n = (int)(rest / a.grid[0]) * SAMPLES + a.n0;
    const int d = tile.qd * Y_CELL0 + Y_BASE0, h = tile.qh * Y_CELL1 + Y_BASE1, w = tile.qw * Y_CELL2 + Y_BASE2;
    tile.y = a.y.origin + view_index(a.y, tile.n, 0, d, h, w) * size_of(Y_TYPE);
    tile.inside = stored(a, 2, d, TD * Y_CELL0) & stored(a, 3, h, TH * Y_CELL1) & stored(a, 4, w, TW * Y_CELL2) &
                  (tile.n + SAMPLES <= a.n0 + a.batch);
#pragma unroll 1
    for (int rg = blockIdx.x / CHANNEL_BLOCKS % RESIDUE_BLOCKS; rg < RESIDUE_GROUPS; rg += RESIDUE_BLOCKS)
      convolve(a, tile, rg, RESIDENT_WEIGHTS, smem);
  }
}
