// SPDX-License-Identifier: Apache-2.0
// Finishing where rows of y are no whole sectors: written lane by lane, every sector would be written in pieces. A warp puts what it
// has of eight channels, ROUND_RUNS runs of positions at once, into shared memory, and copies row after row from there.

enum {
  OF_CELL = Y_CELL2, // outputs of a cell along W
  ROUND_POSITIONS = ROUND_RUNS * 8,
  ROUNDS = (GROUPS + ROUND_RUNS - 1) / ROUND_RUNS,
  WARP_BYTES = 8 * ROW_PITCH * size_of(Y_TYPE)
};

// A row of the tile: of which sample, whether it has cells and y holds it, and how far its first output lies from channel and tile.
struct RowOfTile {
  int sample;
  bool live;
  i64 at; // in elements
};

__device__ __forceinline__ RowOfTile row_of_tile(const Args &a, const Tile &tile, int rg, u32 row) {
  const Cell cell = cell_at(a, tile, row * XW);
  const int residue = Y_CELL2 == R2 && RESIDUE_GROUPS > 1 ? rg * RT : 0;
  const int d = cell.d * Y_CELL0 + residue / (R1 * R2), h = cell.h * Y_CELL1 + residue / R2 % R1;
  const int y_d = tile.qd * Y_CELL0 + Y_BASE0 + d, y_h = tile.qh * Y_CELL1 + Y_BASE1 + h;
  RowOfTile r = {cell.sample, false, cell.sample * a.y.stride[0] + d * a.y_step[0] + h * a.y_step[1]};
  r.live = cell.live & (y_d >= a.y_begin[2]) & (y_d < a.y_end[2]) & (y_h >= a.y_begin[3]) & (y_h < a.y_end[3]);
  return r;
}

// Where output 0 of a row lies in the warp's memory for its channel, in elements, if a round begins at this position: rows follow each
// other, each as far beyond a vector as `to`, where it begins in y.
__device__ __forceinline__ int place_of_row(int position, u32 row, const char *to) {
  const int place = ((int)row * XW - position) * OF_CELL + ((int)row - position / XW) * VECTOR;
  return place + (lead_of(to) - place & (VECTOR - 1));
}

// Of `count` positions from one on. Eight lanes take a row of one channel, four channels at once.
__device__ __forceinline__ void copy_rows(const Args &a, const Tile &tile, int rg, int first_channel, int position, int count,
                                          const char *stage) {
  const int lane = threadIdx.x % 8, w = tile.qw * Y_CELL2 + Y_BASE2;
#pragma unroll 1
  for (u32 row = position / XW; row * XW < position + count; row++) {
    const RowOfTile r = row_of_tile(a, tile, rg, row);
    const int before = position - (int)row * XW, behind = before + count;
    int begin = before > 0 ? before * OF_CELL : 0, end = (behind < TW ? behind : TW) * OF_CELL;
    if (begin < a.y_begin[4] - w) begin = a.y_begin[4] - w;
    if (end > a.y_end[4] - w) end = a.y_end[4] - w;
    if (!r.live | (end <= begin)) continue;
#pragma unroll
    for (int slot = threadIdx.x % 32 / 8; slot < 8; slot += 4) {
      const int c = first_channel + slot, channel = tile.group * CO + c;
      if ((c >= CO) | (channel < a.y_begin[1]) | (channel >= a.y_end[1])) continue;
      char *const to = channel_of_y(a, tile, channel) + r.at * size_of(Y_TYPE);
      const char *const from = stage + (slot * ROW_PITCH + place_of_row(position, row, to) + begin) * size_of(Y_TYPE);
      if (a.y_step[2] == 1) {
        copy_run<8>(to + begin * size_of(Y_TYPE), from, end - begin, lane);
      } else {
        for (int i = lane; i < end - begin; i += 8)
          copy_element(to + (i64)(begin + i) * a.y_step[2] * size_of(Y_TYPE) - i * size_of(Y_TYPE), from, i);
      }
    }
  }
}

// Where tensors are read, a lane's rows are finished one after the other, by code that exists once: what both have in common would
// be kept in more registers than there are.
enum { ROW_BY_ROW = EXTRA_FLOATS > 0, ROWS_AT_ONCE = ROW_BY_ROW ? 1 : 2 };

// The sums of a lane's other row come to the place of the first one's.
__device__ __forceinline__ void swap_rows(Sums &sums) {
#pragma unroll
  for (int i = 0; i < HELD * GROUPS * 4; i++) {
    const int held = i / (GROUPS * 4), at = i % (GROUPS * 4);
    if (at % 4 >= 2) continue;
    const float first = sums[held][at];
    sums[held][at] = sums[held][at + 2];
    sums[held][at + 2] = first;
  }
}

// smem: where the warps' memory begins. Cells that y does not hold are finished too: they have room, and read nothing of tensors.
__device__ __forceinline__ void finish_sums(const Args &a, const Tile &tile, int rg, const Team &team, Sums &sums, float *smem) {
  enum { AT_ONCE = ROLLED ? 1 : ALL_AT_ONCE, AHEAD = ROLLED ? 0 : MOST_AHEAD > 1 ? 1 : 0 };
  char *const stage = (char *)smem + threadIdx.x / 32 * WARP_BYTES;
  const int lane = threadIdx.x % 32, own = first_row(tile, team);
  int first = team.position;
  asm volatile("" : "+r"(first)); // what follows from it is not to be kept in registers meanwhile
#pragma unroll ROWS_AT_ONCE
  for (int half = 0; half < 2; half++) {
    if (ROW_BY_ROW) asm volatile("" : "+r"(first)); // nor from row to row
    const Finish f = finish_of(a, tile, own + half * 8);
    const char *const y = channel_of_y(a, tile, f.channel);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
      const int position = first + round * ROUND_POSITIONS, left = GROUPS - round * ROUND_RUNS;
      Extra extra[AHEAD + 1];
      const auto cell_of = [&](int run) { return cell_at(a, tile, position + run * 8 + lane % 4 * 2); };
      const auto load = [&](int run) {
        const Cell cell = cell_of(run);
        Tile of_cell = tile;
        of_cell.n += cell.sample;
        load_extra<false>(a, of_cell, rg, f.live & cell.live ? BOTH : 0, f.channel, cell.d, cell.h, cell.w, extra[run % (AHEAD + 1)]);
      };
#pragma unroll
      for (int run = 0; run < AHEAD && run < left; run++) load(run);
#pragma unroll AT_ONCE
      for (int run = 0; run < ROUND_RUNS; run++) {
        if (run >= left) break;
        if (run + AHEAD < ROUND_RUNS && run + AHEAD < left) load(run + AHEAD);
        const Cell cell = cell_of(run);
        const int row = (position + run * 8 + lane % 4 * 2) / XW;
        const RowOfTile r = row_of_tile(a, tile, rg, row);
        Tile here = tile;
        here.n += cell.sample;
        here.y = stage + (lane / 4 * ROW_PITCH + place_of_row(position, row, y + r.at * size_of(Y_TYPE))) * size_of(Y_TYPE);
        here.width = width_at(here.y);
        finish_pair<true, true>(a, here, f, cell, rg, sums, (ROLLED ? 0 : round * ROUND_RUNS + run) * 4 + (ROW_BY_ROW ? 0 : half * 2),
                                BOTH, extra[run % (AHEAD + 1)]);
        if (ROLLED) roll(sums, 0, HELD);
      }
      __syncwarp();
      copy_rows(a, tile, rg, own - lane / 4 + half * 8, position, (left < ROUND_RUNS ? left : ROUND_RUNS) * 8, stage);
      __syncwarp();
    }
    if (ROW_BY_ROW) swap_rows(sums);
  }
}
