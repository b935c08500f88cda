// SPDX-License-Identifier: Apache-2.0
// x as rows: [sample][position][group][chunk][32 words], zeros beyond the last channel. A block turns 32 positions of a chunk
// around in shared memory, so that both sides are read and written along what is dense.

struct RowsArgs {
  View x;
  u32 *rows;
  i64 items;          // blocks of 32 positions, of all chunks, groups and samples
  int n0, begin[3];   // the first sample and position that x holds
  int size[3];        // positions of x
};

__device__ __forceinline__ u32 row_word(const RowsArgs &a, i64 at, int group, int e) {
#ifdef WORD_IS_F32
  return to_tf32(load_if<X_TYPE>(e < CI, a.x.origin, at + (group * CI + e) * a.x.stride[1]));
#else
  const u16 *x = (const u16 *)a.x.origin + at + (i64)(group * CI + 2 * e) * a.x.stride[1];
  return load_bits_if(2 * e < CI, x) | load_bits_if(2 * e + 1 < CI, x + a.x.stride[1]) << 16;
#endif
}

extern "C" __global__ void __launch_bounds__(256) ROWS_NAME(const __grid_constant__ RowsArgs a) {
  __shared__ u32 turned[32][33];
  const int positions = a.size[0] * a.size[1] * a.size[2], blocks = (positions + 31) / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 item = blockIdx.x; item < a.items; item += gridDim.x) {
    const int first = (int)(item % blocks) * 32, chunk = (int)(item / blocks % CHUNKS), group = (int)(item / blocks / CHUNKS % GROUPS);
    const i64 sample = item / blocks / CHUNKS / GROUPS;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int position = X_LAST ? warp + 8 * i : lane, e = X_LAST ? lane : warp + 8 * i;
      const int all = first + position < positions ? first + position : positions - 1;
      const int w = all % a.size[2], h = all / a.size[2] % a.size[1], d = all / a.size[2] / a.size[1];
      if (e < EC)
        turned[position][e] = row_word(a, view_index(a.x, a.n0 + (int)sample, 0, a.begin[0] + d, a.begin[1] + h, a.begin[2] + w),
                                       group, chunk * EC + e);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int position = warp + 8 * i;
      if (first + position < positions)
        a.rows[(((sample * positions + first + position) * GROUPS + group) * CHUNKS + chunk) * 32 + lane] =
            lane < EC ? turned[position][lane] : 0;
    }
  }
}
