// SPDX-License-Identifier: Apache-2.0
// The kernel: every block takes tiles of cells, convolves, and finishes its cells in registers (finish is generated).

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) float smem[];
  for (i64 i = blockIdx.x; i < a.tiles; i += gridDim.x) {
    Tile tile;
    i64 rest = i;
    int block = (int)(rest % CHANNEL_BLOCKS);
    rest /= CHANNEL_BLOCKS;
    tile.qw = ((int)(rest % a.grid[2]) + a.grid_begin[2]) * TW;
    rest /= a.grid[2];
    tile.qh = ((int)(rest % a.grid[1]) + a.grid_begin[1]) * TH;
    rest /= a.grid[1];
    tile.qd = ((int)(rest % a.grid[0]) + a.grid_begin[0]) * TD;
    tile.n = (int)(rest / a.grid[0]) + a.n0;
    tile.group = block / BLOCKS_PER_GROUP;
    tile.c0 = block % BLOCKS_PER_GROUP * BM;
#pragma unroll 1
    for (int rg = 0; rg < RESIDUE_GROUPS; rg++) convolve(a, tile, rg, smem);
  }
}
