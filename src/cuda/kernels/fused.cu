// SPDX-License-Identifier: Apache-2.0
// The kernel: a block keeps to one block of channels and takes tiles of cells, convolves, and finishes its cells in
// registers (finish is generated). Where all weights of its channels fit shared memory they are loaded once.

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) float smem[];
  const int block = blockIdx.x % CHANNEL_BLOCKS, workers = gridDim.x / CHANNEL_BLOCKS;
  const i64 tiles = a.tiles / CHANNEL_BLOCKS;
  Tile tile;
  tile.group = block / BLOCKS_PER_GROUP;
  tile.c0 = block % BLOCKS_PER_GROUP * BM;
#if RESIDENT_WEIGHTS
  stage_weights(a, tile, 0, (WeightWord *)(smem + X_FLOATS));
#endif
  for (i64 i = blockIdx.x / CHANNEL_BLOCKS; i < tiles; i += workers) {
    i64 rest = i;
    tile.qw = ((int)(rest % a.grid[2]) + a.grid_begin[2]) * TW;
    rest /= a.grid[2];
    tile.qh = ((int)(rest % a.grid[1]) + a.grid_begin[1]) * TH;
    rest /= a.grid[1];
    tile.qd = ((int)(rest % a.grid[0]) + a.grid_begin[0]) * TD;
    tile.n = (int)(rest / a.grid[0]) + a.n0;
    tile.y = a.y.origin + view_index(a.y, tile.n, 0, tile.qd * Y_CELL0 + Y_BASE0, tile.qh * Y_CELL1 + Y_BASE1,
                                     tile.qw * Y_CELL2 + Y_BASE2) * size_of(Y_TYPE);
#pragma unroll 1
    for (int rg = 0; rg < RESIDUE_GROUPS; rg++) convolve(a, tile, rg, RESIDENT_WEIGHTS, smem);
  }
}
