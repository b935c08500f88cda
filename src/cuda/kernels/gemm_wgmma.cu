// SPDX-License-Identifier: Apache-2.0
// Products of one tap, four warps together: sm_90a. Rows come from registers, weights from shared memory, which is read once
// for 64 cells. They are under way while the next stage is copied.

// The matrix of weights at an address: 8 columns of 16 bytes in a row, the other half of a step 128 bytes on, the next 8
// columns 256 bytes on.
__device__ __forceinline__ unsigned long long weights_at(u32 address) {
  return (unsigned long long)(address >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
}

// Products that have begun are done.
__device__ __forceinline__ void finish_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// What this thread has copied can be seen by them.
__device__ __forceinline__ void show_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// x, w: the halo tile and the weights of one tap.
__device__ __forceinline__ void multiply(const Place &p, int tap, u32 x, u32 w, float (&sums)[MT][NT][4]) {
  u32 address[MT], rows[STEPS][MT][4];
  addresses_of(p, tap, x, address);
#pragma unroll
  for (int q = 0; q < STEPS; q++)
#pragma unroll
    for (int i = 0; i < MT; i++) load_matrices(address[i] ^ (q * 32), rows[q][i]);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int q = 0; q < STEPS; q++)
#pragma unroll
    for (int i = 0; i < MT; i++) wgmma(sums[i], rows[q][i], weights_at(w + p.w + q * STEP_UNITS * 16));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
