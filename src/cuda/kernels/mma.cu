// SPDX-License-Identifier: Apache-2.0
// Inner product on the tensor cores: positions are the rows of the product (16 cells a fragment), output channels its
// columns (8 a fragment), input channels its depth. A word is one TF32 number or a pair of 16-bit channels; a step of
// the depth is 8 words. Offsets are outermost: an input fragment serves every residue whose tap reads it.
//
// Fragment layout (PTX, mma.m16n8k8 / m16n8k16): lane = 4 g + t holds rows g and g + 8, words t and t + 4 of the
// input, column g of the weights, and columns 2 t, 2 t + 1 of the sums.

typedef u32 WeightWord;

enum {
  X_CHANNEL = XD * XH * XW,
  X_PITCH = X_CHANNEL % 32 <= 8 ? X_CHANNEL - X_CHANNEL % 32 + 8 : X_CHANNEL - X_CHANNEL % 32 + 40, // 8 mod 32: no conflicts
  STEPS = EC / 8
};

__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef WORD_IS_F32
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#elif defined(WORD_IS_F16)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ u32 to_tf32(float value) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// Word e of the position at origin + offset; 0 outside the input.
__device__ __forceinline__ u32 word_at(const Args &a, bool in, const char *origin, int offset, int e) {
#ifdef WORD_IS_F32
  return to_tf32(load_if<X_TYPE>(in && e < CI, origin, offset + e * a.x.stride[1]));
#else
  const u16 *x = (const u16 *)origin + offset + 2 * e * a.x.stride[1];
  return load_bits_if(in && 2 * e < CI, x) | load_bits_if(in && 2 * e + 1 < CI, x + a.x.stride[1]) << 16;
#endif
}

// packed: [group][step][KERNEL][CO_PAD / 8][lane][2]
__device__ __forceinline__ void stage_weights(const Args &a, const Tile &tile, int e0, u32 *ws) {
  const uint4 *packed = (const uint4 *)(a.packed + WEIGHTS_AT) +
                        ((i64)tile.group * CI_STEPS + e0 / 8) * KERNEL * (CO_PAD / 8) * 16;
  uint4 *to = (uint4 *)ws;
  for (int i = threadIdx.x; i < STEPS * KERNEL * (BM / 8) * 16; i += THREADS) {
    const int in_block = i % (BM / 8 * 16), row = i / (BM / 8 * 16);
    const bool live = e0 / 8 + row / KERNEL < CI_STEPS && tile.c0 / 8 * 16 + in_block < CO_PAD / 8 * 16;
    to[i] = live ? packed[(i64)row * (CO_PAD / 8) * 16 + tile.c0 / 8 * 16 + in_block] : make_uint4(0, 0, 0, 0);
  }
}

struct Place {
  int x[MT][2];  // offsets of the lane's rows in the input tile, with its word t
  int w;         // the lane's first weights
  int cell, m;   // of the warp: first cell, first channel
};

__device__ __forceinline__ int cell_offset(int cell) {
  int jw = cell % TW, jh = cell / TW % TH, jd = cell / TW / TH;
  return (jd * I0 * XH + jh * I1) * XW + jw * I2;
}

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  int lane = thread % 32, warp = thread / 32;
  p.cell = warp % WARPS_M * 16 * MT;
  p.m = warp / WARPS_M * 8 * NT;
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) p.x[i][j] = cell_offset(p.cell + 16 * i + 8 * j + lane / 4) + lane % 4 * X_PITCH;
  p.w = p.m / 8 * 64 + lane * 2;
  return p;
}

__device__ __forceinline__ void multiply(const Place &p, const u32 *xs, const u32 *ws,
                                         float (&sums)[RT][MT][NT][4]) {
#pragma unroll 1
  for (int step = 0; step < STEPS; step++) {
#pragma unroll
    for (int o = 0; o < OFFSETS; o++) {
      u32 x[MT][4];
#pragma unroll
      for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) x[i][j] = xs[p.x[i][j % 2] + offset_at[o] + j / 2 * 4 * X_PITCH];
#pragma unroll
      for (int t = offset_begin[o]; t < offset_begin[o + 1]; t++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
          uint2 pair = *(const uint2 *)(ws + tap_kernel[t] * (BM / 8) * 64 + j * 64 + p.w);
          u32 w[2] = {pair.x, pair.y};
#pragma unroll
          for (int i = 0; i < MT; i++) mma(sums[tap_residue[t]][i][j], x[i], w);
        }
    }
    xs += 8 * X_PITCH;
    ws += KERNEL * (BM / 8) * 64;
  }
}
