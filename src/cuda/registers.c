/* SPDX-License-Identifier: Apache-2.0 */
/* What is expected was read off some thousand kernels of random problems, compiled by NVRTC 13.0 for seven architectures. */
#include "registers.h"

#include "../checked.h"
#include "work.h"

enum { OF_MULTIPROCESSOR = 65536, MOST = 255, UNIT = 8 };

/* That a thread may have when a multiprocessor holds so many blocks. */
static int64_t registers(const uc_cuda_kernel *k, int64_t blocks) {
  return uc_min(MOST, OF_MULTIPROCESSOR / (blocks * k->threads * k->teams) / UNIT * UNIT);
}

/* No more blocks than leave a thread so many registers. */
static void ration(uc_cuda_kernel *k, int64_t enough) {
  while (k->min_blocks > 1 && registers(k, k->min_blocks) < enough) k->min_blocks--;
}

/* ---- what is lacking ---- */

enum { LEAST_KEPT = 40 };

void uc_cuda_load_less(uc_cuda_kernel *k) {
  enum { SAVED = 24 };
  int64_t saved = uc_min(SAVED, k->registers_kept - LEAST_KEPT);
  k->steps_ahead /= 2;
  k->registers_kept -= saved;
  k->registers_taken += saved;
}

/* Until `count` registers are saved. */
static void load_less(uc_cuda_kernel *k, int64_t count) {
  int64_t target = uc_max(LEAST_KEPT, k->registers_kept - count);
  do uc_cuda_load_less(k);
  while (k->steps_ahead > 1 && k->registers_kept > target);
}

/* Fewer blocks help a thread that may have all registers as it is less than fewer operands do. */
static bool fewer_blocks_help(const uc_cuda_kernel *k) {
  return k->min_blocks > 1 &&
         (!k->gemm || k->steps_ahead <= 1 || registers(k, k->min_blocks) < MOST);
}

bool uc_cuda_give_registers(uc_cuda_kernel *k, int64_t lacking) {
  if (fewer_blocks_help(k)) {
    int64_t enough = registers(k, k->min_blocks) + uc_ceil_div(lacking, UNIT) * UNIT;
    k->min_blocks--;
    ration(k, enough);
  } else if (k->teams > 1) {
    k->teams--;
    k->shared_floats -= k->team_floats;
  } else if (k->phase && k->steps_ahead > 1) {
    load_less(k, lacking);
  } else if (k->steps_ahead > 1) {
    k->steps_ahead /= 2;
  } else {
    return false;
  }
  return true;
}

/* ---- what is expected ---- */

/* From sm_100 on the compiler gets along with fewer. */
static bool needs_more(const uc_cuda_engine *e) { return e->target.major < 10; }

/* 32 sums of a thread, for which 64 registers are wanted, always lack some: those of one channel, all of whose weights stay, most
   where words of x are halves. */
static void expect_ffma(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  enum { SUMS = 32, ONE_CHANNEL = 72, HALVES = 96, FEW_TAPS = 72, MANY_TAPS = 80, IN_CHUNKS = 80 };
  if (!needs_more(e) || k->pool >= 0 || k->rt * k->mc * k->thread_cells != SUMS) return;
  bool halves = e->lowered->conv.x_dtype != UPCONV_F32;
  if (k->mc == 1 && k->resident)
    ration(k, halves ? HALVES : ONE_CHANNEL);
  else if (k->mc == 2 && k->resident)
    ration(k, k->tap_count > 16 ? MANY_TAPS : FEW_TAPS);
  else if (k->mc == 4 && !k->resident)
    ration(k, IN_CHUNKS);
}

/* 64 sums of a warp that multiplies for itself, with 128 registers: windows of TF32 words, more than two fragments of two
   residues, and what many taps have the compiler load ahead. */
static void expect_mma(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  enum { SUMS = 64, ENOUGH = 160, OF_MANY = 200, MANY = 128, MOST_TAPS = 250, WINDOWS = 16 };
  if (k->wgmma || k->prefetch || k->rt * k->mt * k->nt * 4 != SUMS) return;
  int64_t products = k->tap_count * k->mt * k->nt;
  int64_t words = 2 * k->mt / k->strip * (e->step_words / 4) * k->window;
  bool tf32 = e->word == UPCONV_F32;
  if (!tf32 && e->step_words == 8 && products >= MANY && k->rt == 8)
    ration(k, products >= MOST_TAPS ? OF_MANY : ENOUGH);
  else if (needs_more(e) && (tf32 ? words >= WINDOWS : k->rt == 2 && k->rounds == 1))
    ration(k, ENOUGH);
  else if (e->target.major == 8 && k->rounds == 1 && uc_cuda_long_tail(e, k))
    ration(k, ENOUGH);
}

/* Without wgmma: rows and columns of each of the steps that are loaded together, and addresses, of which there are more before
   sm_90. */
static void expect_gemm(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  enum { ADDRESSES = 40, OTHERS = 72 };
  if (k->wgmma || e->target.major != 8) return;
  int64_t sums = k->held * k->mt * k->nt * 4, operands = k->mt * 4 + uc_ceil_div(k->nt, 2) * 4;
  while (k->steps_ahead > 1 && sums + k->steps_ahead * operands + ADDRESSES > MOST)
    k->steps_ahead /= 2;
  ration(k, sums + 2 * operands + OTHERS);
}

void uc_cuda_expect_registers(const uc_cuda_engine *e, uc_cuda_kernel *k) {
  if (!k->fused) return;
  if (k->gemm)
    expect_gemm(e, k);
  else if (k->mma)
    expect_mma(e, k);
  else if (!k->phase && !k->panel && !k->depthwise && !k->flat && !k->scatter)
    expect_ffma(e, k);
}
