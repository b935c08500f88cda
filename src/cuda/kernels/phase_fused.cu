// SPDX-License-Identifier: Apache-2.0
// Who does what: two teams of four warps multiply and finish parts in turns; the other warps bring the input of the next tile,
// rounded, into the order in which products read it. Barriers in shared memory tell when a buffer is full and when it is free.

enum { COPYING_WARPS = COPIERS / 32 };

// Which tile a buffer holds, as those who bring it tell those who multiply.
struct __align__(16) Note {
  int4 at;       // sample and first cell
  int more;      // false: there is none any more
  int unbounded; // the tile's number, from 1 on, if one of its inputs is not finite; positions of those are marked by it
};

struct Barriers {
  u32 weights, full, free;
  u32 multiplied; // one of each team
  Note *note;
};

__device__ __forceinline__ Barriers barriers_of(float *smem) {
  char *const at = (char *)smem + WEIGHT_BYTES + X_BUFFERS * X_BYTES;
  const u32 first = (u32)__cvta_generic_to_shared(at);
  Barriers b = {first, first + 8, first + 8 + 8 * X_BUFFERS, first + 8 + 16 * X_BUFFERS, (Note *)(at + NOTES_AT)};
  return b;
}

__device__ __forceinline__ void init_barriers(const Barriers &b) {
  init_barrier(b.weights, 1);
  for (int i = 0; i < TEAMS_OF_FOUR; i++) init_barrier(b.multiplied + 8 * i, 4);
  for (int i = 0; i < X_BUFFERS; i++) {
    init_barrier(b.full + 8 * i, COPYING_WARPS);
    init_barrier(b.free + 8 * i, MULTIPLIERS / 32);
    b.note[i].unbounded = 0;
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- copying ----

// Packed in the order in which they lie here: [group][block of channels][round][step][product][held], and the rest's likewise.
__device__ __forceinline__ void copy_weights(const Args &a, const Tile &tile, const Barriers &b, float *smem) {
  enum { PIECE = 16384 };
  const i64 block = (i64)tile.group * BLOCKS_PER_GROUP + tile.c0 / BM;
  const char *from = (const char *)(a.packed + WEIGHTS_AT) + block * WEIGHT_BYTES;
  const u32 to = (u32)__cvta_generic_to_shared(smem);
  arrive_expecting(b.weights, WEIGHT_BYTES);
#pragma unroll 1
  for (int at = 0; at < WEIGHT_BYTES; at += PIECE)
    copy_bulk(to + at, from + at, WEIGHT_BYTES - at < PIECE ? WEIGHT_BYTES - at : PIECE, b.weights);
}

// What a thread copies together: UNITS units of SPOT positions that are neighbours along W, UNITS_AHEAD in all.
enum {
  SPOT = PAIRED ? 2 : 1,
  SPOTS = X_CHANNEL / SPOT,
  MOST_UNITS = UNITS_AHEAD > 1 ? UNITS_AHEAD / 2 : 1,
  UNITS = QUADS < MOST_UNITS ? QUADS : MOST_UNITS,
  BATCHES = (QUADS + UNITS - 1) / UNITS,
  ITEMS = SPOTS * BATCHES,
  TOGETHER = UNITS_AHEAD / UNITS / SPOT > 1 ? UNITS_AHEAD / UNITS / SPOT : 1,
#ifdef WORD_IS_F32
  WORD_CHANNELS = 1,
#else
  WORD_CHANNELS = 2,
#endif
  WORDS = (CI + WORD_CHANNELS - 1) / WORD_CHANNELS
};

typedef uint4 Units[TOGETHER][UNITS][SPOT];

// Neighbouring threads take neighbours along W or, channels-last, batches of one position.
__device__ __forceinline__ int spot_of(int item) { return X_LAST ? item / BATCHES : item % SPOTS; }
__device__ __forceinline__ int batch_of(int item) { return X_LAST ? item % BATCHES : item / SPOTS; }

// Words e, e + 1, ... of a position; from: its first one's channel, which moves on. All lie in `in` positions; beyond the last
// channel there are zeros.
__device__ __forceinline__ u32 load_word(const Args &a, bool in, const char *&from, int e) {
  const bool live = WORDS % (UNITS * 4) == 0 || e < WORDS;
  const i64 next = a.x.stride[1] * size_of(X_TYPE);
#ifdef WORD_IS_F32
  const u32 word = to_tf32(load_if<X_TYPE>(in & live, from, 0));
  from += next;
#else
  const bool both = CI % 2 == 0 || 2 * e + 1 < CI;
  const u32 word = load_bits_if(in & live, (const u16 *)from) | load_bits_if(in & live & both, (const u16 *)(from + next)) << 16;
  from += 2 * next;
#endif
  return word;
}

#if PAIRED
// Whether two positions, from an even one on, are dense and aligned, and both inside x or both outside.
__device__ __forceinline__ bool aligned_pairs(const Args &a) {
  const i64 strides = a.x.stride[0] | a.x.stride[1] | a.x.stride[2] | a.x.stride[3];
  return (a.x_step[2] == 1) & ((((i64)a.x.origin | strides * 2) & 3) == 0) & (((a.x.begin[3] | a.x.end[3]) & 1) == 0);
}

// Channels 2 j and 2 j + 1 of both positions become word j of each; first: the first channel.
__device__ __forceinline__ void load_pairs(const Args &a, bool in, const char *&from, int first, uint4 (&to)[SPOT]) {
  u32 low[4], high[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    u32 pair[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      pair[i] = (u32)__float_as_int(load_if<F32>(in & (CI % (UNITS * 8) == 0 || first + 2 * j + i < CI), from, 0));
      from += a.x.stride[1] * 2;
    }
    low[j] = (pair[0] & 0xffff) | pair[1] << 16;
    high[j] = pair[0] >> 16 | (pair[1] & 0xffff0000);
  }
  to[0] = make_uint4(low[0], low[1], low[2], low[3]);
  to[1] = make_uint4(high[0], high[1], high[2], high[3]);
}
#endif

// pairs: SPOT positions at once.
__device__ __forceinline__ void load_item(const Args &a, const Tile &tile, const char *origin, bool pairs, int item,
                                          uint4 (&to)[UNITS][SPOT]) {
  const int first = spot_of(item) * SPOT, word = batch_of(item) * UNITS * 4;
  const i64 channel = (i64)word * WORD_CHANNELS * a.x.stride[1];
  int offset;
  const bool in = input_offset(a, tile, first, offset) & (item < ITEMS);
#if PAIRED
  if (pairs) {
    const char *from = origin + (offset + channel) * 2;
#pragma unroll
    for (int q = 0; q < UNITS; q++) load_pairs(a, in, from, word * 2 + q * 8, to[q]);
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < SPOT; i++) {
    const bool there = i == 0 ? in : input_offset(a, tile, first + i, offset) & (item < ITEMS);
    const char *from = origin + (offset + channel) * size_of(X_TYPE);
#pragma unroll
    for (int q = 0; q < UNITS; q++) {
      u32 w[4];
#pragma unroll
      for (int e = 0; e < 4; e++) w[e] = load_word(a, there, from, word + q * 4 + e);
      to[q][i] = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
}

__device__ __forceinline__ void store_item(int item, const uint4 (&units)[UNITS][SPOT], uint4 *buffer) {
  if (item >= ITEMS) return;
  uint4 *const to = buffer + batch_of(item) * UNITS * X_CHANNEL + spot_of(item) * SPOT;
#pragma unroll
  for (int q = 0; q < UNITS; q++)
#pragma unroll
    for (int i = 0; i < SPOT; i++)
      if (QUADS % UNITS == 0 || batch_of(item) * UNITS + q < QUADS) to[q * X_CHANNEL + i] = units[q][i];
}

#if GAPS
__device__ __forceinline__ u8 *marks_of(float *smem, int buffer) { return (u8 *)smem + MARKS_AT + buffer * X_CHANNEL; }

// Inputs that are not finite become zeros, and items that have such are marked.
__device__ __forceinline__ void bound_items(int first, Note *note, int count, u8 *marks, Units &units) {
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < TOGETHER * UNITS * SPOT; i++)
    most = greatest_of(most, units[i / (UNITS * SPOT)][i / SPOT % UNITS][i % SPOT]);
  if (!unbounded_bits(most)) return;
  note->unbounded = count;
#pragma unroll
  for (int item = 0; item < TOGETHER; item++) {
    u32 of_item = 0;
#pragma unroll
    for (int i = 0; i < UNITS * SPOT; i++) {
      of_item = greatest_of(of_item, units[item][i / SPOT][i % SPOT]);
      bound(units[item][i / SPOT][i % SPOT]);
    }
    if (!unbounded_bits(of_item)) continue;
#pragma unroll
    for (int i = 0; i < SPOT; i++) marks[spot_of(first + item * COPIERS) * SPOT + i] = (u8)count;
  }
}
#endif

// All units of the tile, which is the block's count-th.
__device__ __forceinline__ void copy_input(const Args &a, const Tile &tile, bool pairs, Note *note, int count, int buffer, float *smem) {
  const char *const origin = input_origin(a, tile);
#pragma unroll 1
  for (int first = threadIdx.x - MULTIPLIERS; first < ITEMS; first += COPIERS * TOGETHER) {
    Units units;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) load_item(a, tile, origin, pairs, first + i * COPIERS, units[i]);
#if GAPS
    bound_items(first, note, count, marks_of(smem, buffer), units);
#endif
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
      store_item(first + i * COPIERS, units[i], (uint4 *)((char *)smem + WEIGHT_BYTES + buffer * X_BYTES));
  }
}

__device__ __forceinline__ void copy_all(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, const Barriers &b, float *smem) {
#if PAIRED
  const bool pairs = aligned_pairs(a);
#else
  const bool pairs = false;
#endif
  Turn turn = {0, 1};
  for (int count = 1;; i += workers, count++) {
    Note *const note = b.note + turn.at;
    wait(b.free + 8 * turn.at, turn.parity);
    if (i < tiles) {
      go_to(a, i, tile);
      copy_input(a, tile, pairs, note, count, turn.at, smem);
    }
    if (threadIdx.x == MULTIPLIERS) note->at = make_int4(tile.n, tile.qd, tile.qh, tile.qw), note->more = i < tiles;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(b.full + 8 * turn.at);
    if (i >= tiles) return;
    step<X_BUFFERS>(turn);
  }
}

// ---- computing ----

__device__ __forceinline__ void free_buffer(const Barriers &b, int at) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(b.free + 8 * at);
}

// Teams multiply in turns, so that one finishes while the other keeps the tensor cores busy; left to themselves they would
// multiply at the same time, each at half the speed, and then finish at the same time.
struct Team {
  int number, turns; // turns: that it has had
};

__device__ __forceinline__ void wait_turn(const Barriers &b, const Team &team) {
  wait(b.multiplied + 8 * (1 - team.number), (team.turns + 1 - team.number) & 1);
}

// last: nothing else reads the buffer then; mark: of inputs that are not finite, 0: there are none.
template <typename L>
__device__ __forceinline__ void compute_rounds(const Args &a, const Tile &tile, const Barriers &b, const Place &p, Team &team,
                                               const Part &here, bool last, int at, int mark, float *smem) {
  const char *const x = (const char *)smem + WEIGHT_BYTES + at * X_BYTES + position_of_part(here) * 16;
#pragma unroll 1
  for (int round = 0; round < L::ROUNDS; round++, team.turns++) {
    Sums<L> sums;
    const char *const weights = (const char *)smem + L::FIRST_BYTE + round * (STEPS * L::PRODUCTS * L::HELD * PANEL_BYTES);
    wait_turn(b, team);
    multiply<L>((u32)__cvta_generic_to_shared(weights), (u32)__cvta_generic_to_shared(x), b.multiplied + 8 * team.number, sums);
#if GAPS
    if (mark) add_all_marked<L>(a, tile, p, weights, marks_of(smem, at), (u8)mark, position_of_part(here), sums);
#endif
    if (last & (round == L::ROUNDS - 1)) free_buffer(b, at);
    finish_part<L>(a, tile, p, here, round, sums, smem);
  }
}

// last: of the team's parts of this tile.
__device__ __forceinline__ void compute_part(const Args &a, const Tile &tile, const Barriers &b, const Place &p, Team &team, int part,
                                             bool last, int at, int mark, float *smem) {
  const Part here = part_at(part);
#if REST
  compute_rounds<Main>(a, tile, b, p, team, here, false, at, mark, smem);
  compute_rounds<Rest>(a, tile, b, place_of<Rest>(threadIdx.x), team, here, last, at, mark, smem);
#else
  compute_rounds<Main>(a, tile, b, p, team, here, last, at, mark, smem);
#endif
}

// Parts of all tiles are counted through, and teams take them in turns.
__device__ __forceinline__ void compute_all(const Args &a, Tile tile, const Barriers &b, float *smem) {
  const Place p = place_of<Main>(threadIdx.x);
  // the same for all threads of a warp, and the compiler shall know
  Team team = {(int)__shfl_sync(0xffffffff, threadIdx.x / 128, 0), 0};
  int part = team.number;
  Turn turn = {0, 0};
  wait(b.weights, 0);
#pragma unroll 1
  for (int count = 1;; count++) {
    wait(b.full + 8 * turn.at, turn.parity);
    const Note &note = b.note[turn.at];
    if (!note.more) break;
    const int4 at = note.at;
    tile.n = at.x, tile.qd = at.y, tile.qh = at.z, tile.qw = at.w;
    aim(a, tile);
    tile.inside = __shfl_sync(0xffffffff, (int)tile.inside, 0); // of course, but the compiler cannot know
    const int mark = GAPS && note.unbounded == count ? count : 0;
    if (part >= PARTS) free_buffer(b, turn.at);
#pragma unroll 1
    for (; part < PARTS; part += TEAMS_OF_FOUR)
      compute_part(a, tile, b, p, team, part, part + TEAMS_OF_FOUR >= PARTS, turn.at, mark, smem);
    part -= PARTS;
    step<X_BUFFERS>(turn);
  }
  // the other team has had one part more: it waits for as many turns
  if (team.number == 1 && part == 0)
    for (int round = 0; round < ALL_ROUNDS; round++, team.turns++) {
      wait_turn(b, team);
      if (threadIdx.x % 32 == 0) arrive(b.multiplied + 8);
    }
}

__device__ __forceinline__ void work(const Args &a, Tile tile, i64 i, i64 tiles, i64 workers, float *smem) {
  const Barriers b = barriers_of(smem);
  watch_borders(a, tile);
  if (threadIdx.x == 0) init_barriers(b), copy_weights(a, tile, b, smem);
  __syncthreads();
  if (threadIdx.x >= MULTIPLIERS) {
    give_registers();
    copy_all(a, tile, i, tiles, workers, b, smem);
  } else {
    take_registers();
    compute_all(a, tile, b, smem);
  }
}
