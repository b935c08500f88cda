// SPDX-License-Identifier: Apache-2.0
// Stores all outputs of one channel of one cell: what y holds of them is found once.

enum { VECTOR = R2 % (16 / size_of(Y_TYPE)) == 0 ? 16 / size_of(Y_TYPE) : R2 % 4 == 0 ? 4 : R2 % 2 == 0 ? 2 : 1 };

// Two neighbours in one word.
__device__ __forceinline__ u32 pair_of(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 pair;
  if (Y_TYPE == F16) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return Y_TYPE == F16 ? to_f16(low) | (u32)to_f16(high) << 16 : to_bf16(low) | (u32)to_bf16(high) << 16;
#endif
}

// VECTOR neighbours along W, from v[r] on; the address is a multiple of their size.
__device__ __forceinline__ void store_vector(char *to, const float (&v)[RT], int r) {
  const int i1 = (r + 1) % RT, i2 = (r + 2) % RT, i3 = (r + 3) % RT; // where there are fewer, they are not used
  if (Y_TYPE == F32) {
    if (VECTOR == 4) *(float4 *)to = make_float4(v[r], v[i1], v[i2], v[i3]);
    else if (VECTOR == 2) *(float2 *)to = make_float2(v[r], v[i1]);
    else *(float *)to = v[r];
  } else if (VECTOR == 8) {
    *(uint4 *)to = make_uint4(pair_of(v[r], v[i1]), pair_of(v[i2], v[i3]), pair_of(v[(r + 4) % RT], v[(r + 5) % RT]),
                              pair_of(v[(r + 6) % RT], v[(r + 7) % RT]));
  } else if (VECTOR == 4) {
    *(uint2 *)to = make_uint2(pair_of(v[r], v[i1]), pair_of(v[i2], v[i3]));
  } else if (VECTOR == 2) {
    *(u32 *)to = pair_of(v[r], v[i1]);
  } else {
    store_at<Y_TYPE>(to, 0, v[r]);
  }
}

__device__ __forceinline__ void store_cell(const Args &a, const Tile &tile, bool live, int c, int jd, int jh, int jw,
                                           const float (&v)[RT]) {
  const int d0 = (tile.qd + jd) * R0 + BASE0, h0 = (tile.qh + jh) * R1 + BASE1, w0 = (tile.qw + jw) * R2 + BASE2;
  const int at = jd * R0 * a.y_step[0] + jh * R1 * a.y_step[1] + jw * R2 * a.y_step[2];
  char *const y = tile.y + (c * a.y.stride[1] + at) * size_of(Y_TYPE);
  if (!(live & (c >= a.y_begin[1]) & (c < a.y_end[1]))) return;
  const bool whole = (d0 >= a.y_begin[2]) & (d0 + R0 <= a.y_end[2]) & (h0 >= a.y_begin[3]) & (h0 + R1 <= a.y_end[3]) &
                     (w0 >= a.y_begin[4]) & (w0 + R2 <= a.y_end[4]);
  const bool wide = ((int)(unsigned long long)y | a.y_step[0] * size_of(Y_TYPE) | a.y_step[1] * size_of(Y_TYPE)) %
                        (VECTOR * size_of(Y_TYPE)) == 0;
  if (whole & !CHANNELS_FAST & wide & (a.y_step[2] == 1)) {
#pragma unroll
    for (int r = 0; r < RT; r += VECTOR)
      store_vector(y + (r / (R1 * R2) * a.y_step[0] + r / R2 % R1 * a.y_step[1] + r % R2) * size_of(Y_TYPE), v, r);
  } else if (whole) {
#pragma unroll
    for (int r = 0; r < RT; r++)
      store_at<Y_TYPE>(y, r / (R1 * R2) * a.y_step[0] + r / R2 % R1 * a.y_step[1] + r % R2 * a.y_step[2], v[r]);
  } else {
#pragma unroll
    for (int r = 0; r < RT; r++) {
      const int rd = r / (R1 * R2), rh = r / R2 % R1, rw = r % R2;
      if ((d0 + rd >= a.y_begin[2]) & (d0 + rd < a.y_end[2]) & (h0 + rh >= a.y_begin[3]) & (h0 + rh < a.y_end[3]) &
          (w0 + rw >= a.y_begin[4]) & (w0 + rw < a.y_end[4]))
        store_at<Y_TYPE>(y, rd * a.y_step[0] + rh * a.y_step[1] + rw * a.y_step[2], v[r]);
    }
  }
}
