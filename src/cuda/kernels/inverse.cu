// SPDX-License-Identifier: Apache-2.0
// Where a tile lies, by few instructions.

// n / d by an inverse, (2^32 - 1) / d, which makes at most one too few; a real division takes four times the instructions.
__device__ __forceinline__ u32 divide(u32 n, u32 d, u32 inverse, u32 &rest) {
  u32 quotient = (u32)((unsigned long long)n * inverse >> 32);
  rest = n - quotient * d;
  if (rest >= d) rest -= d, quotient++;
  return quotient;
}

__device__ __forceinline__ uint4 inverses_of(const Args &a) {
  return make_uint4(~0u / a.grid[0], ~0u / a.grid[1], ~0u / a.grid[2], 0);
}

// go_to, by inverses of the grid's extents.
__device__ __forceinline__ void go_by(const Args &a, uint4 inverse, u32 i, Tile &tile) {
  u32 d, h, w;
  const u32 rows = divide(i, a.grid[2], inverse.z, w), planes = divide(rows, a.grid[1], inverse.y, h);
  tile.n = (int)divide(planes, a.grid[0], inverse.x, d) * SAMPLES + a.n0;
  tile.qw = ((int)w + a.grid_begin[2]) * TW;
  tile.qh = ((int)h + a.grid_begin[1]) * TH;
  tile.qd = ((int)d + a.grid_begin[0]) * TD;
}
