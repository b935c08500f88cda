// SPDX-License-Identifier: Apache-2.0
// The input of a team's next tile comes while it multiplies this one: copied as it is into a buffer (fetch), from where
// it is put, rounded, into the order that fragments want (settle_input). A spot is VX neighbours along W; a thread fetches
// all channels of a spot, so that it is found once. Zeros where x holds nothing. x is of float32: shape_mma.c says why.

enum {
  ROW_SPOTS = XW / VX,
  SPOTS = XD * XH * ROW_SPOTS,
  ITEMS = SPOTS * STEPS * 4, // of the words of a lane
  PART_BYTES = VX * 4
};

// Where a channel of an item lies in the buffer. Neighbouring spots lie side by side.
__device__ __forceinline__ int part_at(int item, int part) { return (part * ITEMS + item) * PART_BYTES; }

// Channel c of a step: its word is of t = c % 4.
__device__ __forceinline__ int channel_at(int step, int c, int spot) {
  return part_at((step * 4 + c % 4) * SPOTS + spot, c / 4);
}

// Whether VX inputs along W, from a multiple of VX on, are dense and aligned, and all inside x or all outside.
__device__ __forceinline__ bool aligned_input(const Args &a) {
  if (VX == 1) return true;
  const i64 strides = a.x.stride[0] | a.x.stride[1] | a.x.stride[2] | a.x.stride[3];
  return a.x_step[2] == 1 && (((i64)a.x.origin | strides * 4) & (PART_BYTES - 1)) == 0 &&
         ((a.x.begin[3] | a.x.end[3]) & (VX - 1)) == 0;
}

__device__ __forceinline__ void fetch_spots(const Args &a, const Tile &tile, char *buffer) {
  const u32 to = (u32)__cvta_generic_to_shared(buffer);
  const char *origin = input_origin(a, tile);
  const i64 next = a.x.stride[1] * 4;
#pragma unroll 1
  for (int spot = team_thread(); spot < SPOTS; spot += THREADS) {
    int offset;
    const bool in = input_offset(a, tile, spot * VX, offset);
    const char *from = origin + (i64)offset * 4;
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
      for (int c = 0; c < STEP_WORDS; c++) {
        const bool live = CI % STEP_WORDS == 0 || step * STEP_WORDS + c < CI;
        copy_async<PART_BYTES>(to + channel_at(step, c, spot), from, in & live);
        from += next;
      }
  }
}

// The same element by element, where x is not aligned.
__device__ __forceinline__ void fetch_elements(const Args &a, const Tile &tile, char *buffer) {
  const char *origin = input_origin(a, tile);
#pragma unroll 1
  for (int i = team_thread(); i < X_CHANNEL; i += THREADS) {
    int offset;
    const bool in = input_offset(a, tile, i, offset);
    const char *from = origin + (i64)offset * 4;
#pragma unroll 4
    for (int c = 0; c < STEPS * STEP_WORDS; c++) {
      const char *const to = buffer + channel_at(c / STEP_WORDS, c % STEP_WORDS, i / VX) + i % VX * 4;
      copy_async<4>((u32)__cvta_generic_to_shared(to), from + c * a.x.stride[1] * 4, in & (c < CI));
    }
  }
}

__device__ __forceinline__ void fetch(const Args &a, const Tile &tile, bool aligned, char *buffer) {
  if (aligned) fetch_spots(a, tile, buffer);
  else fetch_elements(a, tile, buffer);
}

struct Part {
  u32 bits[PART_BYTES / 4];
};

__device__ __forceinline__ Part read_part(const char *from) {
  enum { WORDS = PART_BYTES / 4 };
  Part p;
  if (WORDS == 4) {
    const uint4 v = *(const uint4 *)from;
    p.bits[0] = v.x, p.bits[1 % WORDS] = v.y, p.bits[2 % WORDS] = v.z, p.bits[3 % WORDS] = v.w;
  } else if (WORDS == 2) {
    const uint2 v = *(const uint2 *)from;
    p.bits[0] = v.x, p.bits[1 % WORDS] = v.y;
  } else {
    p.bits[0] = *(const u32 *)from;
  }
  return p;
}

// Word b of the lane, of all positions of an item.
__device__ __forceinline__ void words_of(const char *buffer, int item, int b, u32 (&word)[VX]) {
  const Part part = read_part(buffer + part_at(item, b));
#pragma unroll
  for (int v = 0; v < VX; v++) word[v] = to_tf32(__int_as_float((int)part.bits[v]));
}

// to: the plane.
__device__ __forceinline__ void put_words(u32 *to, int position, const u32 (&word)[LANE_WORDS][VX]) {
  if (PAIRS && VX > 1) {
#pragma unroll
    for (int v = 0; v < VX; v += 2)
      *(uint4 *)(to + (position + v) * 2) = make_uint4(word[0][v], word[0][(v + 1) % VX], word[LANE_WORDS - 1][v],
                                                       word[LANE_WORDS - 1][(v + 1) % VX]);
    return;
  }
#pragma unroll
  for (int b = 0; b < LANE_WORDS; b++) {
    u32 *const at = to + position_at(position, b);
    if (VECTOR > 1 && VX == 4) {
      *(uint4 *)at = make_uint4(word[b][0], word[b][1 % VX], word[b][2 % VX], word[b][3 % VX]);
    } else if (VECTOR > 1 && VX == 2) {
      *(uint2 *)at = make_uint2(word[b][0], word[b][1 % VX]);
    } else {
#pragma unroll
      for (int v = 0; v < VX; v++) to[position_at(position + v, b)] = word[b][v];
    }
  }
}

// By spots, too: what lies apart is then at constant distances.
__device__ __forceinline__ void settle_input(const char *buffer, u32 *xs) {
#pragma unroll 1
  for (int spot = team_thread(); spot < SPOTS; spot += THREADS)
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
      for (int t = 0; t < 4; t++) {
        u32 word[LANE_WORDS][VX];
#pragma unroll
        for (int b = 0; b < LANE_WORDS; b++) words_of(buffer, (step * 4 + t) * SPOTS + spot, b, word[b]);
        put_words(xs + step * X_STEP + plane_at(t), spot * VX, word);
      }
}
