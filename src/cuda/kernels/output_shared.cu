// SPDX-License-Identifier: Apache-2.0
// Results that are put into shared memory first: neighbours along W lie side by side.

__device__ __forceinline__ int output_step(const Args &) { return 1; }

template <int ROW, int N>
__device__ __forceinline__ void store_finished(const Args &, const Tile &tile, Live live, int, char *y, int at, const float (&run)[N]) {
  if (live) store_run<Y_TYPE, N>(y, at, 1, tile.width, run);
}
