// SPDX-License-Identifier: Apache-2.0
// Products whose inputs come from shared memory, where the input tile of a chunk of channels is staged.

// X_CHANNEL: positions of the input tile; X_WORDS: words of a channel in shared memory, where rows and planes lie further
// apart so that lanes in different rows load from different banks.
enum { X_CHANNEL = XD * XH * XW, X_WORDS = XD * X_PLANE };

// The input tile: channel after channel.
__device__ __forceinline__ int slot_of(int first, int e, int position) {
  const u32 at = position;
  return (first + e) * X_WORDS + at + at / XW * (X_ROW - XW) + at / (XW * XH) * (X_PLANE - XH * X_ROW);
}

// Channel e of the position at origin + offset; 0 outside the input.
__device__ __forceinline__ float word_at(const Args &a, bool in, const char *origin, int offset, int e) {
  return load_if<X_TYPE>(in && e < CI, origin, offset + e * a.x.stride[1]);
}

// The taps of residue group rg; its residues are RT neighbours from rg * RT on.
__device__ __forceinline__ void multiply(const Place &p, int rg, int channels, const float *xs, const float *ws,
                                         float (&sums)[CELLS][RT][MC]) {
  xs += p.x;
#pragma unroll 1
  for (int e = 0; e < channels; e++) {
#if STATIC_TAPS
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      float w[MC];
      read_weights(ws + tap_kernel[t] * WEIGHT_ROW, w);
#pragma unroll
      for (int i = 0; i < CELLS; i++) {
        const float x = xs[tap_offset[t] + i * NEXT_X];
#pragma unroll
        for (int m = 0; m < MC; m++) sums[i][tap_residue[t]][m] = fmaf(w[m], x, sums[i][tap_residue[t]][m]);
      }
    }
#else
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll 1
      for (int t = tap_begin[rg * RT + r]; t < tap_begin[rg * RT + r + 1]; t++) {
        const float *x = xs + tap_offset[t];
        float w[MC];
        read_weights(ws + tap_kernel[t] * WEIGHT_ROW, w);
#pragma unroll
        for (int i = 0; i < CELLS; i++)
#pragma unroll
          for (int m = 0; m < MC; m++) sums[i][r][m] = fmaf(w[m], x[i * NEXT_X], sums[i][r][m]);
      }
#endif
    xs += X_WORDS;
    ws += KERNEL * WEIGHT_ROW;
  }
}
