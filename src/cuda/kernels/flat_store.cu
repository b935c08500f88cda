// SPDX-License-Identifier: Apache-2.0
// The finished tile, from shared memory to y in long runs. It lies in shared memory as in y modulo 16 bytes: whatever y's
// strides are, those of the tile differ from them by multiples of 16 bytes, so that runs that begin anywhere are copied 16
// bytes at once. Where the tile's rows are whole rows of y and these follow each other, a plane is one run.

// The least number >= least that is `like` modulo unit, a power of two.
__device__ __forceinline__ int congruent(int least, i64 like, int unit) { return least + (((int)like - least) & (unit - 1)); }

// How the tile lies in shared memory. The channels of each lane are skewed, so that lanes meet different banks.
__device__ __forceinline__ void lay_out(const Args &a, Tile &tile) {
  tile.y_step[1] = a.y_step[1] == TARGET2 ? TARGET2 : congruent(TARGET2, a.y_step[1], VECTOR);
  tile.y_step[0] = congruent(TARGET1 * tile.y_step[1], a.y_step[0], VECTOR);
  tile.y_channel = congruent(TARGET0 * tile.y_step[0], a.y.stride[1], VECTOR);
  if (STRIPS) {
    // Whole strips: every channel a quarter of all banks further. Cell by cell: half of them, and by what y's stride is more or less than a
    // multiple of 16 bytes.
    const int apart = ((int)a.y.stride[1] + VECTOR / 2 & VECTOR - 1) - VECTOR / 2;
    const int further = STRIP > 1 && tile.width == WHOLE ? 2 * VECTOR : 4 * VECTOR;
    tile.y_channel = congruent(TARGET0 * tile.y_step[0], further + apart, 8 * VECTOR);
    tile.y_skew = 0;
    return;
  }
  const int least = LANE_CHANNELS * tile.y_channel, odd = LANE_CHANNELS * (int)a.y.stride[1] & (VECTOR - 1);
  tile.y_skew = congruent(least, odd ? VECTOR + odd : 2 * VECTOR, 8 * VECTOR) - least;
}

// Where a channel of the block begins in it.
__device__ __forceinline__ int channel_at(const Tile &tile, int c) {
  return c * tile.y_channel + (int)((u32)c / LANE_CHANNELS) * tile.y_skew;
}

// The part of the tile that is stored, in its own coordinates: channel, then position.
struct Part {
  int begin[4], end[4];
};

__device__ __forceinline__ Part stored_part(const Args &a, const Tile &tile) {
  const int first[] = {tile.group * CO + tile.c0, tile.qd * Y_CELL0 + Y_BASE0, tile.qh * Y_CELL1 + Y_BASE1,
                       tile.qw * Y_CELL2 + Y_BASE2};
  const int size[] = {CO - tile.c0 < BM ? CO - tile.c0 : BM, TARGET0, TARGET1, TARGET2};
  Part part;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    part.begin[i] = a.y_begin[i + 1] > first[i] ? a.y_begin[i + 1] - first[i] : 0;
    part.end[i] = a.y_end[i + 1] - first[i] < size[i] ? a.y_end[i + 1] - first[i] : size[i];
  }
  return part;
}

__device__ __forceinline__ bool in_part(const Part &part, int axis, int at) {
  return at >= part.begin[axis] && at < part.end[axis];
}

// Threads that share a run of so many elements.
__device__ constexpr int lanes_for(int elements) {
  int lanes = 1;
  while (lanes < 32 && lanes * VECTOR < elements) lanes *= 2;
  return lanes;
}

// from, to: channel 0 of the tile's first element. PLANES: rows of a plane are one run. Teams of threads take channels in
// turn, and rows where there are more teams than channels.
template <bool PLANES>
__device__ __forceinline__ void store_runs(const Args &a, const Tile &tile, const Part &part, char *to, const char *from) {
  enum {
    ROWS = PLANES ? 1 : TARGET1,
    LANES = lanes_for(PLANES ? TARGET1 * TARGET2 : TARGET2),
    TEAMS_ALL = THREADS / LANES,
    TEAMS_C = TEAMS_ALL < 8 ? TEAMS_ALL : 8, // BM is a multiple of it
    TEAMS_R = TEAMS_ALL / TEAMS_C
  };
  const int length = (part.end[3] - part.begin[3]) * (PLANES ? part.end[2] - part.begin[2] : 1);
  const int lane = threadIdx.x % LANES, member = threadIdx.x / LANES;
#pragma unroll 1
  for (int c = member % TEAMS_C; c < part.end[0]; c += TEAMS_C) {
    if (c < part.begin[0]) continue;
    const int at = channel_at(tile, c) + part.begin[3];
    const i64 out = c * a.y.stride[1] + part.begin[3];
#pragma unroll 1
    for (int row = member / TEAMS_C; row < TARGET0 * ROWS; row += TEAMS_R) {
      const int d = row / ROWS, h = PLANES ? part.begin[2] : row % ROWS;
      if (!in_part(part, 1, d) || !in_part(part, 2, h)) continue;
      copy_run<LANES>(to + (out + d * a.y_step[0] + h * a.y_step[1]) * size_of(Y_TYPE),
                      from + (at + d * tile.y_step[0] + h * tile.y_step[1]) * size_of(Y_TYPE), length, lane);
    }
  }
  commit_copies();
}

// y is not dense along W: neighbouring threads take neighbouring channels.
__device__ __forceinline__ void store_elements(const Args &a, const Tile &tile, const Part &part, char *to, const char *from) {
  for (int i = threadIdx.x; i < BM * TARGET0 * TARGET1 * TARGET2; i += THREADS) {
    const int c = i % BM, w = i / BM % TARGET2, h = i / (BM * TARGET2) % TARGET1, d = i / (BM * TARGET2 * TARGET1);
    if (!in_part(part, 0, c) || !in_part(part, 1, d) || !in_part(part, 2, h) || !in_part(part, 3, w)) continue;
    const int at = channel_at(tile, c) + d * tile.y_step[0] + h * tile.y_step[1] + w;
    const i64 out = c * a.y.stride[1] + d * a.y_step[0] + h * a.y_step[1] + w * a.y_step[2];
    copy_element(to + out * size_of(Y_TYPE), from + at * size_of(Y_TYPE), 0);
  }
}

// to: where the tile's first element lies in y, ys: where in shared memory.
__device__ __forceinline__ void store_tile(const Args &a, const Tile &tile, char *to, const char *ys) {
  const Part part = stored_part(a, tile);
  const bool whole_rows = a.y_step[1] == TARGET2 && part.begin[3] == 0 && part.end[3] == TARGET2;
  if (a.y_step[2] != 1) store_elements(a, tile, part, to, ys);
  else if (whole_rows && TARGET1 > 1) store_runs<true>(a, tile, part, to, ys);
  else store_runs<false>(a, tile, part, to, ys);
}
