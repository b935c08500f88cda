// SPDX-License-Identifier: Apache-2.0
// Finishing where rows of y are no whole sectors: written lane by lane, every sector would be written in pieces, for which an H200
// took three times as long as for all of a grouped layer otherwise. A warp has eight channels of a part, whose cells are
// neighbours along W: it puts their rows side by side in shared memory and copies row after row.

enum {
  ROW_OF_CELL = Y_CELL2, // outputs of a cell along W
  ROW_OUTPUTS = GROUPS * 8 * ROW_OF_CELL
};

// Of one place along D and H, in elements: where the first of its eight rows begins in y, and where what is stored of a row begins
// and ends.
struct RowsOfPlace {
  i64 at;
  int begin, end;
};

__device__ __forceinline__ RowsOfPlace rows_of(const Args &a, const Tile &tile, const Part &part, int place, int channel) {
  const int d = (tile.qd + part.d) * Y_CELL0 + Y_BASE0 + (PLACES > 1 ? place / R1 : 0);
  const int h = (tile.qh + part.h) * Y_CELL1 + Y_BASE1 + (PLACES > 1 ? place % R1 : 0);
  const int w = (tile.qw + part.w) * Y_CELL2 + Y_BASE2;
  const bool in = (d >= a.y_begin[2]) & (d < a.y_end[2]) & (h >= a.y_begin[3]) & (h < a.y_end[3]) & (place < PLACES);
  RowsOfPlace rows = {view_index(a.y, tile.n, channel, d, h, w), a.y_begin[4] - w, a.y_end[4] - w};
  if (rows.begin < 0) rows.begin = 0;
  if (rows.end > ROW_OUTPUTS) rows.end = ROW_OUTPUTS;
  if (!in | (rows.end < rows.begin)) rows.end = rows.begin;
  return rows;
}

// to: the row in y; where it lies in shared memory.
__device__ __forceinline__ char *row_at(char *stage, int row, const char *to) {
  return stage + (row * ROW_PITCH + lead_of(to)) * size_of(Y_TYPE);
}

// Eight neighbouring lanes copy what lies in whole sectors of a row 16 bytes at once, its ends element by element.
struct Row {
  char *to;
  const char *from;
  int head, vectors, behind, length; // elements before the first sector; of 16 bytes; elements before what follows them; all
};

__device__ __forceinline__ Row row_of(char *to, const char *from, int length) {
  enum { ELEMENTS = 32 / size_of(Y_TYPE) };
  const int missing = -((u32)(i64)to / size_of(Y_TYPE)) & (ELEMENTS - 1), head = missing < length ? missing : length;
  const int vectors = (length - head) / ELEMENTS * 2;
  Row row = {to, from, head, vectors, head + vectors * VECTOR, length};
  return row;
}

// What a lane copies of a row: all is loaded before any is stored.
struct Pieces {
  enum { ENDS = 32 / size_of(Y_TYPE) / 8, MOST = (ROW_OUTPUTS / VECTOR + 7) / 8 };
  uint4 vector[MOST];
  u32 head[ENDS], tail[ENDS];
};

__device__ __forceinline__ u32 element_at(const char *from, int i) {
  return Y_TYPE == F32 ? ((const u32 *)from)[i] : ((const u16 *)from)[i];
}
__device__ __forceinline__ void put_element(char *to, int i, u32 bits) {
  if (Y_TYPE == F32) ((u32 *)to)[i] = bits;
  else ((u16 *)to)[i] = (u16)bits;
}

__device__ __forceinline__ void load_pieces(const Row &row, int lane, Pieces &p) {
#pragma unroll
  for (int i = 0; i < Pieces::ENDS; i++) {
    if (i * 8 + lane < row.head) p.head[i] = element_at(row.from, i * 8 + lane);
    if (row.behind + i * 8 + lane < row.length) p.tail[i] = element_at(row.from, row.behind + i * 8 + lane);
  }
#pragma unroll
  for (int i = 0; i < Pieces::MOST; i++)
    if (i * 8 + lane < row.vectors) p.vector[i] = ((const uint4 *)(row.from + row.head * size_of(Y_TYPE)))[i * 8 + lane];
}

__device__ __forceinline__ void store_pieces(const Row &row, int lane, const Pieces &p) {
#pragma unroll
  for (int i = 0; i < Pieces::MOST; i++)
    if (i * 8 + lane < row.vectors) ((uint4 *)(row.to + row.head * size_of(Y_TYPE)))[i * 8 + lane] = p.vector[i];
#pragma unroll
  for (int i = 0; i < Pieces::ENDS; i++) {
    if (i * 8 + lane < row.head) put_element(row.to, i * 8 + lane, p.head[i]);
    if (row.behind + i * 8 + lane < row.length) put_element(row.to, row.behind + i * 8 + lane, p.tail[i]);
  }
}

// Rows that are not dense.
__device__ __forceinline__ void copy_apart(const Row &row, int lane, int step) {
  for (int i = lane; i < row.length; i += 8) put_element(row.to + (i64)i * step * size_of(Y_TYPE), 0, element_at(row.from, i));
}

// COUNT rows, four apart, from one on. first: the warp's first channel, of its group.
template <int COUNT>
__device__ __forceinline__ void copy_together(const Args &a, const Tile &tile, const RowsOfPlace &rows, int first, int from_row,
                                              char *stage) {
  const int lane = threadIdx.x % 8;
  Row row[COUNT];
  Pieces pieces[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int at = from_row + i * 4, channel = tile.group * CO + first + at;
    const bool live = (first + at < CO) & (channel >= a.y_begin[1]) & (channel < a.y_end[1]);
    char *const to = a.y.origin + (rows.at + at * a.y.stride[1]) * size_of(Y_TYPE), *const from = row_at(stage, at, to);
    row[i] = row_of(to + (i64)rows.begin * a.y_step[2] * size_of(Y_TYPE), from + rows.begin * size_of(Y_TYPE),
                    live ? rows.end - rows.begin : 0);
  }
  if (a.y_step[2] != 1) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) copy_apart(row[i], lane, a.y_step[2]);
    return;
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) load_pieces(row[i], lane, pieces[i]);
#pragma unroll
  for (int i = 0; i < COUNT; i++) store_pieces(row[i], lane, pieces[i]);
}

// Eight rows, four at once, each by eight lanes. A lane has two under way together, unless they are so long that there are too few
// registers.
__device__ __forceinline__ void copy_rows(const Args &a, const Tile &tile, const RowsOfPlace &rows, int first, char *stage) {
  enum { TOGETHER = Pieces::MOST > 2 ? 1 : 2 };
#pragma unroll 1
  for (int row = threadIdx.x % 32 / 8; row < 8; row += 4 * TOGETHER) copy_together<TOGETHER>(a, tile, rows, first, row, stage);
}

// Cells that y does not hold are finished too: there is room for them, and they read nothing of tensors. smem: of the block.
template <typename L>
__device__ __forceinline__ void finish_part(const Args &a, const Tile &tile, const Place &p, Part part, int round, Sums<L> &sums,
                                            float *smem) {
  char *const stage = (char *)smem + STAGE_AT + threadIdx.x / 32 * (8 * ROW_PITCH * size_of(Y_TYPE));
  hold_back(part);
  enum { AT_ONCE = ROLLED ? 1 : ALL_AT_ONCE, AHEAD = ROLLED ? 0 : MOST_AHEAD > 1 ? 1 : 0 };
  const Part own = {part.d, part.h, 0}; // rows begin where the part does
#pragma unroll AT_ONCE
  for (int held = 0; held < L::HELD; held++) {
    const int c = channel_of<L>(tile, p, round, held), first_channel = c - threadIdx.x % 32 / 4;
    const Finish f = finish_of(a, tile, c);
#pragma unroll AT_ONCE
    for (int first = 0; first < PLACES; first += L::SLOTS) {
      const int place = first + (PLACES > 1 ? p.slot : 0), row = threadIdx.x % 32 / 4;
      const RowsOfPlace rows = rows_of(a, tile, part, place, tile.group * CO + first_channel);
      Tile here = tile;
      here.qw = tile.qw + part.w;
      here.y = row_at(stage, row, a.y.origin + (rows.at + row * a.y.stride[1]) * size_of(Y_TYPE));
      here.width = width_at(here.y);
      if (rows.begin < rows.end) {
        const int panel = ROLLED ? 0 : held * L::PANELS + first / L::SLOTS * PAIRS_W;
        Extra extra[AHEAD + 1];
        const auto load = [&](int group) {
          const Pair at = pair_at(p, own, group);
          load_extra<false>(a, here, place, f.live ? BOTH : 0, f.channel, at.d, at.h, at.w, extra[group % (AHEAD + 1)]);
        };
#pragma unroll
        for (int group = 0; group < AHEAD && group < GROUPS; group++) load(group);
#pragma unroll AT_ONCE
        for (int group = 0; group < GROUPS; group++) {
          if (group + AHEAD < GROUPS) load(group + AHEAD);
          finish_pair<true, true>(a, here, f, sums, panel, ROLLED ? 0 : group, place, pair_at(p, own, group), BOTH,
                                  extra[group % (AHEAD + 1)]);
          if (ROLLED) roll(sums, panel, RT / R2 * PAIRS_W);
        }
      }
      __syncwarp();
      copy_rows(a, tile, rows, first_channel, stage);
      __syncwarp();
      if (ROLLED) roll_rows(sums, RT / R2 * PAIRS_W);
    }
  }
}
