// SPDX-License-Identifier: Apache-2.0
// What a block works on. A tile of TD x TH x TW cells reads inputs [x0, x0 + XD) and so on.
struct Tile {
  int n, group, c0;        // sample; group; first output channel of the block, within its group
  int qd, qh, qw;          // first cell
  int od, oh, ow;          // cells before it in the tile buffers
  char *y;                 // fused: channel 0 of the first cell's first output
  bool inside, wide;       // fused: all of it is stored; RUN outputs along W are dense and aligned
  int y_channel, y_step[2]; // a finished tile in shared memory: from a channel, plane, row to the next
  int first, end;          // channels, of all, that tile buffers hold: never another group's
};

__device__ __forceinline__ bool inside(const int (&size)[3], int d, int h, int w) {
  return (unsigned)d < (unsigned)size[0] && (unsigned)h < (unsigned)size[1] && (unsigned)w < (unsigned)size[2];
}
