// SPDX-License-Identifier: Apache-2.0
// Products of one tap, each warp for itself: sm_80 and later.

#ifdef WORD_IS_F32
#define GEMM_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif defined(WORD_IS_F16)
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define GEMM_MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// d += a b; a: rows g and g + 8 of words t, then of words t + 4; b0, b1: words t and t + 4 of column g.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm(GEMM_MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void finish_products() {}
__device__ __forceinline__ void show_copies() {}

// x, w: the halo tile and the weights of one tap.
__device__ __forceinline__ void multiply(const Place &p, int tap, u32 x, u32 w, float (&sums)[MT][NT][4]) {
  enum { PAIRS = (NT + 1) / 2 };
  u32 address[MT];
  addresses_of(p, tap, x, address);
#pragma unroll
  for (int q = 0; q < STEPS; q++) {
    u32 rows[MT][4], columns[PAIRS][4];
#pragma unroll
    for (int i = 0; i < MT; i++) load_matrices(address[i] ^ (q * 32), rows[i]);
    // two fragments are four matrices in a row; of a last single one, the second half is not used
#pragma unroll
    for (int j = 0; j < PAIRS; j++)
      load_matrices(w + p.w + (q * STEP_UNITS + j * 2 * BLOCK_UNITS + (NT == 1 ? threadIdx.x % 16 : threadIdx.x % 32)) * 16, columns[j]);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) mma(sums[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
  }
}
