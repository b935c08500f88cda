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
  tile.wide = aligned_runs(a);
#if RESIDENT_WEIGHTS
  stage_weights(a, tile, 0, (WeightWord *)(smem + X_FLOATS));
#endif
  for (i64 i = blockIdx.x / CHANNEL_BLOCKS; i < tiles; i += workers) {
    i64 rest = i;
    const int w = (int)(rest % a.grid[2]);
    rest /= a.grid[2];
    const int h = (int)(rest % a.grid[1]);
    rest /= a.grid[1];
    place_tile(a, (int)(rest / a.grid[0]), (int)(rest % a.grid[0]), h, w, tile);
#pragma unroll 1
    for (int rg = 0; rg < RESIDUE_GROUPS; rg++) convolve(a, tile, rg, RESIDENT_WEIGHTS, smem);
  }
}
