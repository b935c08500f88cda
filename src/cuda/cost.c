/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seconds of a kernel, from the work that was counted (work.h). A multiprocessor with the most tiles is either busy, by what its
 * units can do, or waits for the tiles that it holds at once, each as slow as if it were alone; the device may have to
 * wait for memory. Constants were fitted to an H200 (docs/DECISIONS.md).
 */
#include "cost.h"

#include <math.h>

#include "shape.h"
#include "work.h"

/* Seconds of an empty kernel, of another after it, and of one that begins before the other has ended. */
static const double START = 4.3e-6, NEXT = 2.5e-6, EARLY = 6e-7;
/* A second, of one multiprocessor: clocks, bytes of memory, bytes of the kernels that make rows or units of x. */
static const double CLOCK = 1.7e9, FAR_BYTES = 3.2e10, ROWS_BYTES = 1.44e10, UNITS_BYTES = 2.1e10;
/* Bytes of the second-level cache a clock and multiprocessor. */
static const double NEAR_BYTES = 36;
/* Clocks: a round trip to memory; an instruction of a warp that has a scheduler to itself; one that is met for the first time. */
static const double WAIT = 665, ALONE = 2.4, COLD = 3.6;
/* Clocks of cuda-gemm: a stage, besides its products; the end of a cell of a channel; to begin. */
static const double STAGE = 450, CALL = 210, BEGIN = 2200;
/* By how much more schedulers take than was counted: slots lost. */
static const double ISSUE = 1.2;
/* How well units work side by side: 1 is one after the other, infinity as long as the slowest. */
static const double OVERLAP = 3;
enum { WARP = 32, SCHEDULERS = 4 };

static double finishing_factor(const uc_cuda_kernel *k) {
  if (!k->fused) return 1;
  if (k->gemm) return 1.03;
  if (k->mma) return 3;
  return k->flat ? 2 : 0.7;
}

/* By how much more shared memory takes than was counted: conflicts. Where rows lie apart so that lanes meet no bank twice, none. */
static double conflicts(const uc_cuda_kernel *k) {
  if (k->mma) return 1.75;
  if (k->flat) return 1.15;
  if (k->gemm) return 1.1;
  return 1;
}

static double together(const double *part, int count) {
  return uc_cuda_together(part, count, OVERLAP);
}

/* Slots that cuda-scatter loses besides, where it waits for x: measured times over those of its instructions (H200). */
static double waiting_factor(const uc_cuda_kernel *k) { return k->fused && k->scatter ? 2 : 1; }

/* Instructions of all threads, and those for a tile's outputs as much dearer as they were measured to be. */
static double warp_instructions(const uc_cuda_kernel *k, const uc_cuda_work *w) {
  return (w->instructions * waiting_factor(k) + finishing_factor(k) * w->finishing) / WARP;
}

/* Clocks of a tile on a multiprocessor that has others to go on with. */
static double busy_clocks(const uc_cuda_kernel *k, const uc_cuda_work *w, double instructions) {
  const double unit[] = {instructions / SCHEDULERS * ISSUE, w->tensor, w->shared * conflicts(k),
                         w->near_bytes / NEAR_BYTES};
  return together(unit, 4);
}

/* Clocks of a tile that is alone. A warp has but one of the tensor cores, a stage either multiplies or waits. */
static double alone_clocks(const uc_cuda_work *w, double instructions) {
  const double depth[] = {w->stages * STAGE, w->tensor * SCHEDULERS / fmin(SCHEDULERS, w->warps)};
  double slots = instructions + w->serial / WARP; /* those take twice as long */
  return slots / w->warps * ALONE + w->waits * WAIT + w->calls * CALL + together(depth, 2);
}

/* Clocks before a block's first tile. */
static double first_clocks(const uc_cuda_work *w) {
  return (w->code + w->finishing_code) * COLD + w->first_waits * WAIT +
         w->first_bytes / NEAR_BYTES + (w->stages > 0 ? BEGIN : 0);
}

/* Of the kernel before, which makes rows of x. */
static double rows_seconds(const uc_cuda_work *w, double multiprocessors, double next,
                           double rate) {
  return w->rows_bytes > 0 ? next + w->rows_bytes / (rate * multiprocessors) : 0;
}

static double pass_seconds(const uc_cuda_target *target, const uc_cuda_kernel *k,
                           const uc_cuda_work *w) {
  double multiprocessors = fmax(1, target->sm_count);
  if (w->clocks > 0) {
    const double all[] = {w->clocks / CLOCK, w->far_bytes / (FAR_BYTES * multiprocessors)};
    return together(all, 2) + rows_seconds(w, multiprocessors, EARLY, UNITS_BYTES);
  }
  double instructions = warp_instructions(k, w);
  double tiles = ceil(w->tiles / multiprocessors), turns = ceil(tiles / w->teams);
  double waiting = turns * alone_clocks(w, instructions) + first_clocks(w);
  const double part[] = {tiles * busy_clocks(k, w, instructions) / CLOCK, waiting / CLOCK,
                         w->far_bytes / (FAR_BYTES * multiprocessors)};
  return together(part, 3) + rows_seconds(w, multiprocessors, NEXT, ROWS_BYTES);
}

double uc_cuda_cost(const uc_cuda_engine *e) {
  int64_t shape[UC_CUDA_MAX_VALUES + 1][UC_RANK];
  if (uc_lowered_nominal_shapes(e->lowered, shape) != UPCONV_OK) return 0;
  double seconds = START - NEXT;
  for (int i = 0; i < e->kernel_count; i++) {
    uc_cuda_work work;
    uc_cuda_count_work(e, &e->kernel[i], (const int64_t(*)[UC_RANK])shape, &work);
    seconds += NEXT + pass_seconds(&e->target, &e->kernel[i], &work);
  }
  return seconds;
}
