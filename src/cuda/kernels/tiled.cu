// SPDX-License-Identifier: Apache-2.0
// The kernel of a pass whose operators need each other's neighbours or all channels: values of a tile lie in shared
// memory, and steps (generated) makes one after the other.

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) float smem[];
  for (i64 i = blockIdx.x; i < a.tiles; i += gridDim.x) {
    i64 rest = i;
    int block = (int)(rest % (ALL_CHANNELS ? 1 : CHANNEL_BLOCKS));
    rest /= ALL_CHANNELS ? 1 : CHANNEL_BLOCKS;
    int tw = (int)(rest % a.grid[2]) + a.grid_begin[2];
    rest /= a.grid[2];
    int th = (int)(rest % a.grid[1]) + a.grid_begin[1];
    rest /= a.grid[1];
    int td = (int)(rest % a.grid[0]) + a.grid_begin[0];
    Tile tile;
    tile.inside = false; // nothing is stored before the steps
    tile.width = APART;
    tile.n = (int)(rest / a.grid[0]) + a.n0;
    const int in_group = block % BLOCKS_PER_GROUP * BM, group_first = block / BLOCKS_PER_GROUP * CO;
    tile.first = ALL_CHANNELS ? 0 : group_first + in_group;
    tile.end = ALL_CHANNELS ? CHANNELS : group_first + (in_group + BM < CO ? in_group + BM : CO);
#if HAS_CONV
    for (int b = ALL_CHANNELS ? 0 : block; b <= (ALL_CHANNELS ? CHANNEL_BLOCKS - 1 : block); b++) {
      tile.group = b / BLOCKS_PER_GROUP;
      tile.c0 = b % BLOCKS_PER_GROUP * BM;
      for (int part = 0; part < CELL_PARTS0 * CELL_PARTS1 * CELL_PARTS2; part++) {
        tile.ow = part % CELL_PARTS2 * TW;
        tile.oh = part / CELL_PARTS2 % CELL_PARTS1 * TH;
        tile.od = part / CELL_PARTS2 / CELL_PARTS1 * TD;
        tile.qw = tw * CELL_STEP2 + tile.ow;
        tile.qh = th * CELL_STEP1 + tile.oh;
        tile.qd = td * CELL_STEP0 + tile.od;
#pragma unroll 1
        for (int rg = 0; rg < RESIDUE_GROUPS; rg++) convolve(a, tile, rg, false, smem + TILE_FLOATS);
      }
    }
#endif
    __syncthreads();
    steps(a, tile, td * TARGET0, th * TARGET1, tw * TARGET2, td, th, tw, smem);
    __syncthreads();
  }
}
