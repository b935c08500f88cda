// SPDX-License-Identifier: Apache-2.0
// Where finish puts its results: into y.

// MOVES_Y: the inner product moves tile.y from channel to channel.
__device__ __forceinline__ char *output_of(const Args &a, const Tile &tile, int c) {
  if (MOVES_Y) return tile.y;
  return tile.y + c * a.y.stride[1] * size_of(Y_TYPE);
}

// Offset of an output, in coordinates of the tile; from one to the next along W.
__device__ __forceinline__ int output_at(const Args &a, const Tile &, int d, int h, int w) {
  return d * a.y_step[0] + h * a.y_step[1] + w * a.y_step[2];
}

__device__ __forceinline__ int output_step(const Args &a) { return a.y_step[2]; }

#if LANES_MEET
// Runs of neighbouring lanes lie side by side, but each is aligned to half of its size only. Two of four lanes give their second
// half for the first of the other two: then the lanes' first halves lie side by side, and so do the second ones. By whole warps.
__device__ __forceinline__ int first_half_of(int t) { return t % 2 * 2 + t / 2; } // the other one lies four further

// live: a bit for each of the halves that the lane stores.
__device__ __forceinline__ void store_meeting(u32 live, char *y, int at, const float (&run)[4]) {
  const int t = threadIdx.x % 4, shift = first_half_of(t) - 2 * t; // halves that the first one lies beyond the lane's own
  enum { WORDS = size_of(Y_TYPE) / 2, BYTES = 2 * size_of(Y_TYPE) };
  u32 half[2][WORDS];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float *v = run + 2 * i;
    if (Y_TYPE == F32) half[i][0] = (u32)__float_as_int(v[0]), half[i][WORDS - 1] = (u32)__float_as_int(v[1]);
    else half[i][0] = to_pair<Y_TYPE>(v[0], v[1]);
  }
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    const u32 other = __shfl_xor_sync(0xffffffff, t < 2 ? half[1][w] : half[0][w], 2);
    if (t < 2) half[1][w] = other;
    else half[0][w] = other;
  }
  char *const to = y + (i64)at * size_of(Y_TYPE) + shift * BYTES;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (!(live >> i & 1)) continue;
    if (WORDS == 2) *(uint2 *)(to + 4 * i * BYTES) = make_uint2(half[i][0], half[i][WORDS - 1]);
    else *(u32 *)(to + 4 * i * BYTES) = half[i][0];
  }
}
#endif

// run: neighbours along W from element `first` of a strip on, ROW of each cell.
#if LANES_MEET
template <int ROW, int N>
__device__ __forceinline__ void store_finished(const Args &, const Tile &, Live live, int, char *y, int at, const float (&run)[N]) {
  store_meeting(live >> 2, y, at, run);
}
#elif CELLS_LIVE
template <int ROW, int N>
__device__ __forceinline__ void store_finished(const Args &a, const Tile &tile, Live live, int first, char *y, int at,
                                               const float (&run)[N]) {
  enum { PIECE = WIDTH == WHOLE ? N : WIDTH == HALVES && N > 1 ? N / 2 : 1 };
#pragma unroll
  for (int i = 0; i < N; i += PIECE) {
    float piece[PIECE];
#pragma unroll
    for (int k = 0; k < PIECE; k++) piece[k] = run[i + k];
    if (lives(live, (first + i) / ROW)) store_run<Y_TYPE, PIECE>(y, at + i * output_step(a), output_step(a), WHOLE, piece);
  }
}
#else
template <int ROW, int N>
__device__ __forceinline__ void store_finished(const Args &a, const Tile &tile, Live live, int, char *y, int at,
                                               const float (&run)[N]) {
  if (live) store_run<Y_TYPE, N>(y, at, output_step(a), tile.width, run);
}
#endif

// A run that y holds whole, or elements of one of which y holds a part.
template <int N>
__device__ __forceinline__ void store_either(const Args &a, const Tile &tile, bool whole, const bool (&held)[N], char *y, int at,
                                             const float (&run)[N]) {
  if (whole) {
    if (held[0]) store_run<Y_TYPE, N>(y, at, output_step(a), tile.width, run);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; i++)
    if (held[i]) store_at<Y_TYPE>(y, at + i * output_step(a), run[i]);
}

// Whether channel c of an element is stored. CHANNELS_TOO: what is inside is so in all channels.
template <bool INSIDE>
__device__ __forceinline__ bool channel_stored(const Args &a, int c) {
  return (CHANNELS_TOO && INSIDE) | ((c >= a.y_begin[1]) & (c < a.y_end[1]));
}
