// SPDX-License-Identifier: Apache-2.0
// The finished tile, from shared memory to y in long runs. It lies in shared memory as in y modulo 16 bytes: whatever y's
// strides are, those of the tile differ from them by multiples of 16 bytes, so that runs that begin anywhere are copied 16
// bytes at once. Where the tile's rows are whole rows of y and these follow each other, a plane is one run.

enum { VECTOR = 16 / size_of(Y_TYPE) };

// The least number >= least that is `like` modulo unit, a power of two.
__device__ __forceinline__ int congruent(int least, i64 like, int unit) { return least + (((int)like - least) & (unit - 1)); }

// How the tile lies in shared memory. Channels are skewed, so that lanes with different channels meet different banks.
__device__ __forceinline__ void lay_out(const Args &a, Tile &tile) {
  tile.y_step[1] = a.y_step[1] == TARGET2 ? TARGET2 : congruent(TARGET2, a.y_step[1], VECTOR);
  tile.y_step[0] = congruent(TARGET1 * tile.y_step[1], a.y_step[0], VECTOR);
  tile.y_channel = congruent(TARGET0 * tile.y_step[0], VECTOR + (a.y.stride[1] & (VECTOR - 1)), 4 * VECTOR);
}

// Elements by which the tile's first one lies beyond a multiple of 16 bytes.
__device__ __forceinline__ int lead_of(const char *to) { return (int)((i64)to / size_of(Y_TYPE)) & (VECTOR - 1); }

__device__ __forceinline__ void copy_element(char *to, const char *from, int i) {
  if (Y_TYPE == F32) ((float *)to)[i] = ((const float *)from)[i];
  else ((u16 *)to)[i] = ((const u16 *)from)[i];
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

// A run's parts: elements before the first multiple of 16 bytes, vectors, elements behind them.
struct Run {
  int head, body, single; // single: those before and behind
};

__device__ __forceinline__ Run parts_of(const char *to, int length) {
  const int missing = -lead_of(to) & (VECTOR - 1);
  Run run;
  run.head = missing < length ? missing : length;
  run.body = (length - run.head) / VECTOR;
  run.single = length - run.body * VECTOR;
  return run;
}

__device__ __forceinline__ void copy_single(char *to, const char *from, const Run &run, int i) {
  copy_element(to, from, i < run.head ? i : i + run.body * VECTOR);
}

// LANES neighbouring threads copy `length` elements.
template <int LANES>
__device__ __forceinline__ void copy_run(char *to, const char *from, int length) {
  const int lane = threadIdx.x % LANES;
  const Run run = parts_of(to, length);
  const uint4 *source = (const uint4 *)(from + run.head * size_of(Y_TYPE));
  uint4 *target = (uint4 *)(to + run.head * size_of(Y_TYPE));
#pragma unroll 1
  for (int i = lane; i < run.body; i += LANES) target[i] = source[i];
#pragma unroll 1
  for (int i = lane; i < run.single; i += LANES) copy_single(to, from, run, i);
}

// From sm_90 on the vectors of a long run are copied by one asynchronous instruction, which has the rest of the loop
// over tiles to read shared memory.
#if BULK && __CUDA_ARCH__ >= 900
enum { BULK_RUNS = 1 };

template <int LANES>
__device__ __forceinline__ void copy_bulk(char *to, const char *from, int length) {
  const int lane = threadIdx.x % LANES;
  const Run run = parts_of(to, length);
  if (lane == 0 && run.body > 0) {
    const u32 source = (u32)__cvta_generic_to_shared(from + run.head * size_of(Y_TYPE));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + run.head * size_of(Y_TYPE)),
                 "r"(source), "r"(run.body * 16)
                 : "memory");
  }
#pragma unroll 1
  for (int i = lane; i < run.single; i += LANES) copy_single(to, from, run, i);
}

// What this thread has written to shared memory is seen by such copies, after the next barrier.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Those of this thread have read shared memory.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
#else
enum { BULK_RUNS = 0 };
template <int LANES>
__device__ __forceinline__ void copy_bulk(char *, const char *, int) {}
__device__ __forceinline__ void publish() {}
__device__ __forceinline__ void commit_copies() {}
__device__ __forceinline__ void wait_for_copies() {}
#endif

// Threads that share one of so many long runs: what is left to them is its ends.
__device__ constexpr int lanes_for_ends(int runs) { return runs * 4 <= THREADS ? 4 : runs * 2 <= THREADS ? 2 : 1; }

// Threads that share a run of so many elements.
__device__ constexpr int lanes_for(int elements) {
  int lanes = 1;
  while (lanes < 32 && lanes * VECTOR < elements) lanes *= 2;
  return lanes;
}

// from, to: channel 0 of the tile's first element. PLANES: rows of a plane are one run.
template <bool PLANES>
__device__ __forceinline__ void store_runs(const Args &a, const Tile &tile, const Part &part, char *to, const char *from) {
  enum {
    ROWS = PLANES ? 1 : TARGET1,
    CHANNEL = TARGET0 * ROWS,
    LANES = BULK_RUNS ? lanes_for_ends(BM * CHANNEL) : lanes_for(PLANES ? TARGET1 * TARGET2 : TARGET2)
  };
  const int length = (part.end[3] - part.begin[3]) * (PLANES ? part.end[2] - part.begin[2] : 1);
  // such copies are issued lane after lane: each warp takes its share
  const int first = BULK_RUNS ? threadIdx.x / 32 + threadIdx.x % 32 / LANES * (THREADS / 32) : threadIdx.x / LANES;
#pragma unroll 1
  for (int run = first; run < BM * CHANNEL; run += THREADS / LANES) {
    const int c = run / CHANNEL, d = run / ROWS % TARGET0, h = PLANES ? part.begin[2] : run % ROWS;
    if (!in_part(part, 0, c) || !in_part(part, 1, d) || !in_part(part, 2, h)) continue;
    const int at = c * tile.y_channel + d * tile.y_step[0] + h * tile.y_step[1] + part.begin[3];
    const i64 out = c * a.y.stride[1] + d * a.y_step[0] + h * a.y_step[1] + part.begin[3];
    if (BULK_RUNS) copy_bulk<LANES>(to + out * size_of(Y_TYPE), from + at * size_of(Y_TYPE), length);
    else copy_run<LANES>(to + out * size_of(Y_TYPE), from + at * size_of(Y_TYPE), length);
  }
  commit_copies();
}

// y is not dense along W: neighbouring threads take neighbouring channels.
__device__ __forceinline__ void store_elements(const Args &a, const Tile &tile, const Part &part, char *to, const char *from) {
  for (int i = threadIdx.x; i < BM * TARGET0 * TARGET1 * TARGET2; i += THREADS) {
    const int c = i % BM, w = i / BM % TARGET2, h = i / (BM * TARGET2) % TARGET1, d = i / (BM * TARGET2 * TARGET1);
    if (!in_part(part, 0, c) || !in_part(part, 1, d) || !in_part(part, 2, h) || !in_part(part, 3, w)) continue;
    const int at = c * tile.y_channel + d * tile.y_step[0] + h * tile.y_step[1] + w;
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
