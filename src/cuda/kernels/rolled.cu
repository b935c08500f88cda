// SPDX-License-Identifier: Apache-2.0
// Finishing sums that lie in registers, whose numbers must be known when they are compiled: so a loop over groups of them is unrolled,
// or, where what follows the convolution is long (ROLLED) or is seldom run, its code exists once and the sums move past it.

enum {
  ALL_AT_ONCE = 1024,                                          // iterations of a loop that is unrolled
  MOST_AHEAD = EXTRA_FLOATS > 8 ? 0 : EXTRA_FLOATS > 4 ? 1 : 2 // pairs whose extra elements are under way while one is finished
};

// As roll, for rows: the next ones come to the place of the first `count`.
template <int ROWS>
__device__ __forceinline__ void roll_rows(float (&sums)[ROWS][GROUPS * 4], int count) {
#pragma unroll
  for (int i = 0; i < GROUPS * 4; i++) {
    float all[ROWS];
#pragma unroll
    for (int p = 0; p < ROWS; p++) all[p] = sums[p][i];
#pragma unroll
    for (int p = 0; p < ROWS; p++) sums[p][i] = all[(p + count) % ROWS];
  }
}

// The next group's sums come to the place of the first, all others follow, and the first come last.
template <int ROWS>
__device__ __forceinline__ void roll(float (&sums)[ROWS][GROUPS * 4], int first_row, int rows) {
#pragma unroll
  for (int p = 0; p < ROWS; p++) {
    if (p < first_row || p >= first_row + rows) continue;
    float first[4];
#pragma unroll
    for (int i = 0; i < 4; i++) first[i] = sums[p][i];
#pragma unroll
    for (int i = 0; i + 4 < GROUPS * 4; i++) sums[p][i] = sums[p][i + 4];
#pragma unroll
    for (int i = 0; i < 4; i++) sums[p][GROUPS * 4 - 4 + i] = first[i];
  }
}
