// SPDX-License-Identifier: Apache-2.0
// Global memory to shared memory: the input's halo tile and the weights of the block's channels, for one chunk of input
// channels. Elements outside the input become zeros.

__device__ __forceinline__ float input_at(const Args &a, const Tile &tile, int e, int d, int h, int w) {
  bool inside = (unsigned)d < (unsigned)a.in_size[0] && (unsigned)h < (unsigned)a.in_size[1] &&
                (unsigned)w < (unsigned)a.in_size[2] && e < CI;
  return inside ? load_at<X_TYPE>(a.x.origin, view_index(a.x, tile.n, tile.group * CI + e, d, h, w)) : 0.0f;
}

// Coordinates of element i of a chunk's tile: channels innermost when the input is channels-last, so that neighbouring
// threads read neighbouring addresses.
__device__ __forceinline__ void stage_index(int i, int channels, int &e, int &d, int &h, int &w) {
  if (X_LAST) {
    e = i % channels;
    i /= channels;
  }
  w = i % XW;
  i /= XW;
  h = i % XH;
  i /= XH;
  d = i % XD;
  if (!X_LAST) e = i / XD;
}
