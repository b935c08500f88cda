// SPDX-License-Identifier: Apache-2.0
// Matrices in shared memory that products by four warps read (wgmma), without swizzling: a unit is 16 bytes of the depth, and units of
// eight neighbouring rows or columns lie side by side.

typedef unsigned long long u64;

// Of a matrix at an address of shared memory whose next eight rows or columns lie `next` units on (PTX ISA, matrix descriptor).
// Numbers of units are added to it: to begin further on, or, times FAR, for the other half of the depth to lie as far.
__device__ __forceinline__ u64 matrix_at(u32 address, u32 next) { return (u64)next << 32 | (address >> 4 & 0x3fff); }
static const u64 FAR = 1 << 16;
