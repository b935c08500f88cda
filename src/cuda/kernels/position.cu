// SPDX-License-Identifier: Apache-2.0
// Positions of the input's halo tile.

// A position of the tile: d, h, w, and where its channel 0 lies, in elements from the tile's first position.
__device__ __forceinline__ int4 position_of(const Args &a, int position) {
  const u32 at = position; // never negative, and the compiler divides unsigned numbers faster
  const int w = at % XW, h = at / XW % XH, d = at / (XW * XH);
  return make_int4(d, h, w, d * a.x_step[0] + h * a.x_step[1] + w * a.x_step[2]);
}

#if POSITIONS_AT
// They are the same for all tiles: found once, and kept in shared memory, they take half the instructions.
__device__ __forceinline__ void keep_positions(const Args &a, float *smem) {
  for (int i = threadIdx.x; i < X_CHANNEL; i += THREADS) ((int4 *)(smem + POSITIONS_AT))[i] = position_of(a, i);
}

__device__ __forceinline__ int4 find_position(const Args &, int position) {
  extern __shared__ __align__(1024) float smem[];
  return ((const int4 *)(smem + POSITIONS_AT))[position];
}
#else
__device__ __forceinline__ int4 find_position(const Args &a, int position) { return position_of(a, position); }
#endif

// Where channel 0 of a position lies, in elements from the tile's first position; whether x holds it.
__device__ __forceinline__ bool input_offset(const Args &a, const Tile &tile, int position, int &offset) {
  const int4 at = find_position(a, position);
  offset = at.w;
  const int gd = tile.qd * I0 + X_BASE0 + at.x, gh = tile.qh * I1 + X_BASE1 + at.y, gw = tile.qw * I2 + X_BASE2 + at.z;
  return holds(a.x, a.x.begin[0], gd, gh, gw);
}

__device__ __forceinline__ const char *input_origin(const Args &a, const Tile &tile) {
  const i64 first = view_index(a.x, tile.n, tile.group * CI, tile.qd * I0 + X_BASE0, tile.qh * I1 + X_BASE1,
                               tile.qw * I2 + X_BASE2);
  return a.x.origin + first * size_of(X_TYPE);
}
