// SPDX-License-Identifier: Apache-2.0
// Inputs that are not finite. A product has zeros for weights where a residue has no tap, and those times an infinite input would
// be NaN. So such inputs are copied as zeros, their positions are marked, and what they really contribute is added afterwards,
// tap by tap. Sums that none of them belongs to have the same bits whatever lies beside their inputs.

#if GAPS
// The greatest magnitude so far, NaN if there was one, of TF32 numbers or of pairs.
#ifdef WORD_IS_F32
__device__ __forceinline__ u32 greatest(u32 so_far, u32 word) {
  return (u32)__float_as_int(max_nan(__int_as_float((int)so_far), fabsf(__int_as_float((int)word))));
}
// All bits of what is not finite.
__device__ __forceinline__ u32 unbounded_bits(u32 word) { return (word & 0x7fffffff) >= 0x7f800000 ? 0xffffffff : 0; }
#else
__device__ __forceinline__ u32 greatest(u32 so_far, u32 word) {
  u32 larger;
#ifdef WORD_IS_F16
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(so_far), "r"(word & 0x7fff7fff));
#else
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(so_far), "r"(word & 0x7fff7fff));
#endif
  return larger;
}
__device__ __forceinline__ u32 unbounded_bits(u32 word) {
#ifdef WORD_IS_F16
  const u32 infinite = 0x7c00;
#else
  const u32 infinite = 0x7f80;
#endif
  return ((word & 0x7fff) >= infinite ? 0xffff : 0) | ((word >> 16 & 0x7fff) >= infinite ? 0xffff0000 : 0);
}
#endif

__device__ __forceinline__ u32 greatest_of(u32 so_far, const uint4 &unit) {
  return greatest(greatest(greatest(greatest(so_far, unit.x), unit.y), unit.z), unit.w);
}

__device__ __forceinline__ void bound(uint4 &unit) {
  unit.x &= ~unbounded_bits(unit.x), unit.y &= ~unbounded_bits(unit.y);
  unit.z &= ~unbounded_bits(unit.z), unit.w &= ~unbounded_bits(unit.w);
}

// What one word of x adds to a sum, if it is not finite.
__device__ __forceinline__ float add_unbounded(u32 w, u32 x, float sum) {
  const u32 bits = unbounded_bits(x);
#if defined(WORD_IS_F32)
  return bits ? fmaf(__int_as_float((int)w), __int_as_float((int)x), sum) : sum;
#else
  float low[2], high[2];
#ifdef WORD_IS_F16
  low[0] = from_f16((u16)w), low[1] = from_f16((u16)x), high[0] = from_f16((u16)(w >> 16)), high[1] = from_f16((u16)(x >> 16));
#else
  low[0] = from_bf16((u16)w), low[1] = from_bf16((u16)x), high[0] = from_bf16((u16)(w >> 16)), high[1] = from_bf16((u16)(x >> 16));
#endif
  if (bits & 0xffff) sum = fmaf(low[0], low[1], sum);
  return bits >> 16 ? fmaf(high[0], high[1], sum) : sum;
#endif
}

// weights: of a row, of the round. position: of the cell in the input tile.
template <typename L>
__device__ __noinline__ float add_marked(const Args &a, int n, int group, int qd, int qh, int qw, const char *weights, const u8 *marks,
                                         u8 mark, int position, int residue, float sum) {
  Tile tile; // by its numbers: a reference would keep it in memory
  tile.n = n, tile.group = group, tile.qd = qd, tile.qh = qh, tile.qw = qw;
#pragma unroll 1
  for (int tap = tap_begin[residue]; tap < tap_begin[residue + 1]; tap++) {
    const int at = position + tap_offset[tap];
    if (marks[at] != mark) continue;
    int offset;
    const bool in = input_offset(a, tile, at, offset);
#pragma unroll 1
    for (int e = 0; e < QUADS * 4; e++) {
      const int quad = e / 4, half = STEPS * 2 == QUADS ? quad % 2 : L::tap_half(tap);
      const char *w =
          weights + (quad / 2 * L::PRODUCTS + L::tap_product(tap)) * L::HELD * PANEL_BYTES + half * (PANEL_BYTES / 2) + e % 4 * 4;
      sum = add_unbounded(*(const u32 *)w, word_at(a, in, input_origin(a, tile), offset, e), sum);
    }
  }
  return sum;
}

// marks: of the buffer's positions; position: of the part's first cell. The code exists once, and the sums move past it: it is
// seldom run, and its calls, unrolled, took registers that what is run always lacked.
template <typename L>
__device__ __forceinline__ void add_all_marked(const Args &a, const Tile &tile, const Place &p, const char *weights, const u8 *marks,
                                               u8 mark, int position, Sums<L> &sums) {
#pragma unroll 1
  for (int i = 0; i < L::HELD * L::PANELS; i++) {
    const int panel = i % L::PANELS, place = panel / PAIRS_W * L::SLOTS + p.slot;
#pragma unroll 1
    for (int group = 0; group < GROUPS; group++) {
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const int rw = panel % PAIRS_W * 2 + k / 2, row = threadIdx.x / 32 % 4 * 2 + k / 2;
        if (place >= R0 * R1 || rw >= R2) continue;
        sums[0][k] = add_marked<L>(a, tile.n, tile.group, tile.qd, tile.qh, tile.qw,
                                   weights + i / L::PANELS * PANEL_BYTES + row * 128 + threadIdx.x % 32 / 4 * 16, marks, mark,
                                   position + group * GROUP_POSITIONS + p.cell + k % 2, place * R2 + rw, sums[0][k]);
      }
      roll(sums, 0, 1);
    }
    roll_rows(sums, 1);
  }
}
#endif
