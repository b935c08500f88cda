// SPDX-License-Identifier: Apache-2.0
// Words of x for the tensor cores: a TF32 number, or a pair of 16-bit channels.

// Word e of the position at origin + offset; 0 outside the input.
__device__ __forceinline__ u32 word_at(const Args &a, bool in, const char *origin, int offset, int e) {
#ifdef WORD_IS_F32
  return to_tf32(load_if<X_TYPE>(in && e < CI, origin, offset + e * a.x.stride[1]));
#else
  const u16 *x = (const u16 *)origin + offset + 2 * e * a.x.stride[1];
  return load_bits_if(in && 2 * e < CI, x) | load_bits_if(in && 2 * e + 1 < CI, x + a.x.stride[1]) << 16;
#endif
}
