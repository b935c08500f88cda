// SPDX-License-Identifier: Apache-2.0
// x as units: [group][unit of its channels][sample][position][16 bytes], zeros beyond the last channel. Neighbouring threads take
// neighbouring positions.

struct RowsArgs {
  View x;
  u32 *rows;
  i64 items;          // units
  int n0, begin[3];   // the first sample and position that x holds
  int size[3];        // positions of x
};

enum {
  UNITS = CHUNKS * QUADS, // of a group's channels
#ifdef WORD_IS_F32
  UNIT_CHANNELS = 4
#else
  UNIT_CHANNELS = 8
#endif
};

// Word e of a unit whose first channel lies at `from`; channel: that one's number in its group.
__device__ __forceinline__ u32 unit_word(const RowsArgs &a, const char *from, int channel, int e) {
  const i64 next = a.x.stride[1] * size_of(X_TYPE);
#ifdef WORD_IS_F32
  return to_tf32(load_if<X_TYPE>(channel + e < CI, from + e * next, 0));
#else
  return load_bits_if(channel + 2 * e < CI, (const u16 *)(from + 2 * e * next)) |
         load_bits_if(channel + 2 * e + 1 < CI, (const u16 *)(from + (2 * e + 1) * next)) << 16;
#endif
}

// A unit of all channels, and a position or two neighbours: 2 p and 2 p + 1.
struct Item {
  int unit, sample;
  u32 position;
};

// 32-bit divisions take a fifth of the instructions.
__device__ __forceinline__ Item item_of(i64 i, i64 items, u32 positions, i64 samples) {
  const bool narrow = items <= 0xffffffff;
  const i64 rest = narrow ? (u32)i / positions : i / positions;
  Item item = {(int)(narrow ? (u32)rest / (u32)samples : rest / samples), 0, (u32)(i - rest * positions)};
  item.sample = (int)(rest - item.unit * samples);
  return item;
}

// Channel `channel` of a sample, at its first position.
__device__ __forceinline__ const char *first_of(const RowsArgs &a, const Item &item, int channel) {
  return a.x.origin + view_index(a.x, a.n0 + item.sample, item.unit / UNITS * CI + channel, a.begin[0], a.begin[1], a.begin[2]) *
                          size_of(X_TYPE);
}

// Whether positions are neighbours in memory, an even number of them, and aligned by two.
__device__ __forceinline__ bool dense_pairs(const RowsArgs &a, u32 positions) {
  const i64 *s = a.x.stride, first = (i64)a.x.origin / size_of(X_TYPE) + a.begin[0] * s[2] + a.begin[1] * s[3] + a.begin[2] * s[4];
  const bool dense = ((s[4] == 1) | (a.size[2] == 1)) & ((s[3] == a.size[2]) | (a.size[1] == 1)) &
                     ((s[2] == (i64)a.size[1] * a.size[2]) | (a.size[0] == 1));
  return dense & (s[4] == 1) & (((first | s[0] | s[1]) & 1) == 0) & (((i64)a.x.origin & (size_of(X_TYPE) - 1)) == 0) & (positions % 2 == 0);
}

// Both positions' words e: of two numbers, or two pairs of channels.
__device__ __forceinline__ uint2 pair_of_words(const RowsArgs &a, const char *from, int channel, int e) {
  const i64 next = a.x.stride[1] * size_of(X_TYPE);
#ifdef WORD_IS_F32
  if (channel + e >= CI) return make_uint2(0, 0);
  if (X_TYPE == F32) {
    const float2 v = __ldg((const float2 *)(from + e * next));
    return make_uint2(to_tf32(v.x), to_tf32(v.y));
  }
  const u32 v = __ldg((const u32 *)(from + e * next));
  const u16 low = (u16)v, high = (u16)(v >> 16);
  return X_TYPE == F16 ? make_uint2(to_tf32(from_f16(low)), to_tf32(from_f16(high)))
                       : make_uint2(to_tf32(from_bf16(low)), to_tf32(from_bf16(high)));
#else
  const u32 low = channel + 2 * e < CI ? __ldg((const u32 *)(from + 2 * e * next)) : 0;
  const u32 high = channel + 2 * e + 1 < CI ? __ldg((const u32 *)(from + (2 * e + 1) * next)) : 0;
  return make_uint2((low & 0xffff) | high << 16, low >> 16 | (high & 0xffff0000));
#endif
}

__device__ __forceinline__ void make_pairs(const RowsArgs &a, u32 positions, i64 samples) {
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < a.items / 2; i += (i64)gridDim.x * 256) {
    const Item item = item_of(i, a.items, positions / 2, samples);
    const int channel = item.unit % UNITS * UNIT_CHANNELS;
    const char *const from = first_of(a, item, channel) + (i64)item.position * 2 * size_of(X_TYPE);
    uint2 w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) w[e] = pair_of_words(a, from, channel, e);
    ((uint4 *)a.rows)[2 * i] = make_uint4(w[0].x, w[1].x, w[2].x, w[3].x);
    ((uint4 *)a.rows)[2 * i + 1] = make_uint4(w[0].y, w[1].y, w[2].y, w[3].y);
  }
}

__device__ __forceinline__ void make_units(const RowsArgs &a, u32 positions, i64 samples) {
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < a.items; i += (i64)gridDim.x * 256) {
    const Item item = item_of(i, a.items, positions, samples);
    const u32 plane = a.size[1] * a.size[2];
    const int d = item.position / plane, h = item.position % plane / a.size[2], w = item.position % a.size[2];
    const int channel = item.unit % UNITS * UNIT_CHANNELS;
    const char *const from = first_of(a, item, channel) + (d * a.x.stride[2] + h * a.x.stride[3] + w * a.x.stride[4]) * size_of(X_TYPE);
    ((uint4 *)a.rows)[i] = make_uint4(unit_word(a, from, channel, 0), unit_word(a, from, channel, 1), unit_word(a, from, channel, 2),
                                      unit_word(a, from, channel, 3));
  }
}

extern "C" __global__ void __launch_bounds__(256) ROWS_NAME(const __grid_constant__ RowsArgs a) {
  asm volatile("griddepcontrol.launch_dependents;"); // who waits for this kernel may get ready meanwhile
  const u32 positions = a.size[0] * a.size[1] * a.size[2];
  const i64 samples = a.items / positions / (UNITS * GROUPS_OF_X);
  if (dense_pairs(a, positions)) make_pairs(a, positions, samples);
  else make_units(a, positions, samples);
}
