// SPDX-License-Identifier: Apache-2.0
// Runs of finished elements, from shared memory to y. A run lies in shared memory as in y modulo 16 bytes, so that it is copied
// 16 bytes at once wherever it begins, and only its ends element by element.

enum { VECTOR = 16 / size_of(Y_TYPE) };

// Elements by which an address lies beyond a multiple of 16 bytes.
__device__ __forceinline__ int lead_of(const char *to) { return (u32)(i64)to / size_of(Y_TYPE) & (VECTOR - 1); }

__device__ __forceinline__ void copy_element(char *to, const char *from, int i) {
  if (Y_TYPE == F32) ((float *)to)[i] = ((const float *)from)[i];
  else ((u16 *)to)[i] = ((const u16 *)from)[i];
}

// A run's parts: elements before the first multiple of 16 bytes, vectors, elements behind them.
struct Run {
  int head, body, single; // single: those before and behind
};

__device__ __forceinline__ Run parts_of(const char *to, int length) {
  const int missing = -lead_of(to) & (VECTOR - 1);
  Run run;
  run.head = missing < length ? missing : length;
  run.body = (u32)(length - run.head) / VECTOR;
  run.single = length - run.body * VECTOR;
  return run;
}

// From sm_90 on the vectors of a long run are copied by one asynchronous instruction, which has the rest of the loop
// over tiles to read shared memory. Not of short ones: copies of 496 bytes left a multiprocessor one in 52 clocks.
#if BULK && __CUDA_ARCH__ >= 900
enum { BULK_RUNS = 1 };

__device__ __forceinline__ void copy_bulk(char *to, const char *from, int vectors) {
  const u32 source = (u32)__cvta_generic_to_shared(from);
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(source), "r"(vectors * 16)
               : "memory");
}

// What this thread has written to shared memory is seen by such copies, after the next barrier.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Those of this thread have read shared memory.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
#else
enum { BULK_RUNS = 0 };
__device__ __forceinline__ void copy_bulk(char *, const char *, int) {}
__device__ __forceinline__ void publish() {}
__device__ __forceinline__ void commit_copies() {}
__device__ __forceinline__ void wait_for_copies() {}
#endif

// LANES neighbouring threads copy the vectors; two of a thread are on their way at once.
template <int LANES>
__device__ __forceinline__ void copy_vectors(char *to, const char *from, int vectors, int lane) {
  const uint4 *source = (const uint4 *)from + lane;
  uint4 *target = (uint4 *)to + lane;
#pragma unroll 1
  for (int left = vectors - lane; left > 0; left -= 2 * LANES) {
    const uint4 first = *source;
    if (left > LANES) {
      const uint4 second = source[LANES];
      target[LANES] = second;
    }
    *target = first;
    source += 2 * LANES, target += 2 * LANES;
  }
}

// LANES neighbouring threads copy `length` elements.
template <int LANES>
__device__ __forceinline__ void copy_run(char *to, const char *from, int length, int lane) {
  enum { MOST_SINGLE = 2 * (VECTOR - 1) };
  const Run run = parts_of(to, length);
  const int head = run.head * size_of(Y_TYPE);
#pragma unroll
  for (int i = 0; i < MOST_SINGLE; i += LANES)
    if (i + lane < run.single) {
      const int at = i + lane < run.head ? i + lane : i + lane + run.body * VECTOR;
      copy_element(to, from, at);
    }
  if (!BULK_RUNS) copy_vectors<LANES>(to + head, from + head, run.body, lane);
  else if (lane == 0 && run.body > 0) copy_bulk(to + head, from + head, run.body);
}
