// SPDX-License-Identifier: Apache-2.0
// What a block works on. A tile of TD x TH x TW cells reads inputs [x0, x0 + XD) and so on.
struct Tile {
  int n, group, c0;        // sample; group; first output channel of the block, within its group
  int qd, qh, qw;          // first cell
  int od, oh, ow;          // cells before it in the tile buffers
  char *y;                 // fused: channel 0 of the first cell's first output
  bool inside;             // fused: all of it is stored
  int width;               // fused: how RUN outputs along W can be stored together
  int y_channel, y_step[2]; // a finished tile in shared memory: from a channel, plane, row to the next
  int y_skew;               // what channels that another lane finishes lie further apart
  int first, end;          // channels, of all, that tile buffers hold: never another group's
};

// Which outputs of a strip of cells y holds: all or none, or for two cells a bit each. Where lanes exchange halves of runs, two more bits
// are for the halves that the lane stores.
#if CELLS_LIVE
typedef u32 Live;
__device__ __forceinline__ bool lives(Live live, int cell) { return live >> cell & 1; }
#else
typedef bool Live;
__device__ __forceinline__ bool lives(Live live, int) { return live; }
#endif

// The convolution from its sum of products. The bias comes last: it may be far larger than the products.
__device__ __forceinline__ float with_bias(float sum, float factor, float bias) {
  return SCALES_SUMS ? fmaf(sum, factor, bias) : sum + bias;
}

// A block is one team of THREADS threads or, where they share its weights, several: each works on tiles of its own.
// The thread's number is read anew wherever it is needed: what follows from it would be kept in registers from tile to tile
// otherwise, which the sums need.
__device__ __forceinline__ u32 thread_number() {
  u32 number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
}

__device__ __forceinline__ int team() { return TEAMS == 1 ? 0 : thread_number() / THREADS; }
__device__ __forceinline__ int team_thread() { return TEAMS == 1 ? threadIdx.x : thread_number() % THREADS; }
__device__ __forceinline__ void sync_team() {
  if (TEAMS == 1) __syncthreads();
  else asm volatile("bar.sync %0, %1;" ::"r"(team() + 1), "n"(THREADS) : "memory");
}

__device__ __forceinline__ bool inside(const int (&size)[3], int d, int h, int w) {
  return (unsigned)d < (unsigned)size[0] && (unsigned)h < (unsigned)size[1] && (unsigned)w < (unsigned)size[2];
}
