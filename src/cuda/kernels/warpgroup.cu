// SPDX-License-Identifier: Apache-2.0
// What products by four warps (wgmma) read from shared memory.

typedef unsigned long long u64;

// The descriptor of a matrix of weights: 8 columns of 16 bytes in a row, the other half of a step 128 bytes on, the next 8
// columns 256 bytes on (PTX ISA, matrix descriptor, no swizzling).
__device__ __forceinline__ u64 matrix_at(u32 address) {
  return (u64)(address >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
}
