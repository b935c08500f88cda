/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_SHAPE_H
#define UPCONV_CUDA_SHAPE_H

#include "engine.h"

/*
 * Chooses tiles for a pass; shape: of every value at the nominal sizes. On UPCONV_OK either the kernel is shaped, or
 * *refusal says why the candidate cannot run this pass, or *keep >= 0 is a value that must be kept in memory so that
 * the pass fits: the caller then builds the program anew.
 */
upconv_status uc_cuda_shape(const uc_cuda_engine *engine, const uc_pass *pass,
                            const int64_t (*shape)[UC_RANK], uc_cuda_kernel *kernel,
                            const char **refusal, int *keep);
/* How long parts take that are done side by side; overlap 1: one after the other, infinity: as long as the slowest. */
double uc_cuda_together(const double *part, int count, double overlap);
/* Fills in k->tap, x_base, span and x_size, for k->cells cells with residues, step and base. */
upconv_status uc_cuda_find_taps(const upconv_problem *problem, uc_cuda_kernel *kernel);
/* Offset by offset, in each by residue. */
void uc_cuda_sort_taps(uc_cuda_kernel *kernel);
/* Within each group of residues held together, in the order of what taps read. */
void uc_cuda_sort_held_taps(uc_cuda_kernel *kernel);
/* Of sorted taps: whether one has the offset of the one before, and the next residue. */
bool uc_cuda_tap_goes_on(const uc_cuda_kernel *kernel, int64_t tap);
/* A fused pass of the depthwise candidate; extent: in cells of the residues so far, which it may widen. */
upconv_status uc_cuda_shape_depthwise(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                      int64_t extent[UC_AXES], const char **refusal);

/* A fused pass of the candidate with a flattened depth; taps are known, extent is in cells. */
upconv_status uc_cuda_shape_flat(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                 const int64_t extent[UC_AXES], const char **refusal);

/* ---- shape_direct.c: few input channels on the FP32 units ---- */

/* Cells, threads, channels, blocks and shared memory of a fused pass; taps are known, extent is in cells. false: a thread cannot
   load what it reads by itself. */
bool uc_cuda_shape_direct(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                          const int64_t extent[UC_AXES]);

/* ---- shape_mma.c: the tensor cores' part of a fused pass ---- */

/* Cells and warps; residues, step and span are known. width: of the result, along W. Returns why it cannot be, or NULL. */
const char *uc_cuda_choose_mma(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                               const int64_t extent[UC_AXES], int64_t width);
/* Shared memory; x_size is known. */
const char *uc_cuda_stage_mma(const uc_cuda_engine *engine, uc_cuda_kernel *kernel);

/* ---- shape_gemm.c: the same for many channels ---- */

/* All of a fused pass; residues, base and taps are known, extent is in cells. Returns why it cannot be, or NULL. */
const char *uc_cuda_shape_gemm(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                               const int64_t extent[UC_AXES]);
/* Whether no earlier tap shifts the cells as this one does. */
bool uc_cuda_new_shift(const uc_cuda_kernel *kernel, int64_t tap);
/* Which element of the kernel serves a residue when the cells are shifted as that tap does; -1: none. */
int64_t uc_cuda_column_kernel(const uc_cuda_kernel *kernel, int64_t tap, int64_t residue);
/* Taps of a group of `held` residues, and the least and greatest shift of the cells that they read. */
void uc_cuda_group_taps(const uc_cuda_kernel *kernel, int64_t held, int64_t group, int64_t *taps,
                        int64_t low[UC_AXES], int64_t high[UC_AXES]);
/* The least shift of the cells that taps of a group of residues read. */
void uc_cuda_gemm_base(const uc_cuda_kernel *kernel, int64_t group, int64_t base[UC_AXES]);

/* ---- shape_phase.c: residues and channels as rows ---- */

/* All of a fused pass; residues, base and taps are known, extent is in cells, width: of the result, along W. Returns why it
   cannot be, or NULL. */
const char *uc_cuda_shape_phase(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                const int64_t extent[UC_AXES], int64_t width);
/* The panel that has a residue's row. */
int64_t uc_cuda_phase_panel(const uc_cuda_kernel *kernel, const uc_cuda_layout *layout,
                            int64_t residue);
/* Bytes of the weights of a block of channels. */
int64_t uc_cuda_phase_weights(const uc_cuda_phase *phase);

/* ---- shape_panel.c: many channels, as rows ---- */

/* All of a fused pass; residues, base and taps are known, extent is in cells, width: of the result, along W. Returns why it
   cannot be, or NULL. */
const char *uc_cuda_shape_panel(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                const int64_t extent[UC_AXES], int64_t width);

/* ---- shape_scatter.c: few output channels ---- */

/* Elements of the kernel in one plane along D. */
static inline int64_t uc_cuda_plane_taps(const uc_cuda_engine *e) {
  return e->kernel_size / e->lowered->conv.axis[0].kernel;
}

/* Blocks of channels, and how their weights are laid out; ci_steps is known. */
void uc_cuda_plan_scatter(uc_cuda_engine *engine);
/* Where cells of one stride begin so that they read the fewest inputs: 0, or before it. */
int64_t uc_cuda_scatter_base(const uc_axis *axis);
/* All of a fused pass; residues, base and taps are known, extent is in cells. Returns why it cannot be, or NULL. */
const char *uc_cuda_shape_scatter(const uc_cuda_engine *engine, uc_cuda_kernel *kernel,
                                  const int64_t extent[UC_AXES]);

/* ---- shared by them ---- */

enum {
  UC_CUDA_SHARED_OF_SM = 227 * 1024,  /* bytes; architectures that have less refuse larger blocks */
  UC_CUDA_SHARED_OF_BLOCK = 1024,     /* bytes that the driver takes of each block's */
  UC_CUDA_STAGING_FLOATS = 10 * 1024, /* wanted size of a tile's input and weights */
  UC_CUDA_RESIDENT_FLOATS = 24 * 1024 /* the same when it holds the weights of all input channels */
};

/* Extent of the input that `cells` cells along an axis read. */
int64_t uc_cuda_input_size(const uc_cuda_kernel *kernel, int axis, int64_t cells);
/* Residues that a thread holds at once: all, or what is left of the innermost axes. */
int64_t uc_cuda_held_residues(const int64_t residues[UC_AXES]);
/* The greatest common divisor. */
int64_t uc_cuda_common_divisor(int64_t a, int64_t b);
/* Cells of a box, each extent rounded up to a power of two. */
int64_t uc_cuda_cell_count(const int64_t extent[UC_AXES]);

static inline int64_t uc_power_of_two(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

static inline int64_t uc_volume(const int64_t v[UC_AXES]) { return v[0] * v[1] * v[2]; }

void uc_cuda_shape_free(uc_cuda_kernel *kernel);

#endif
