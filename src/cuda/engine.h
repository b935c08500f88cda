/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend: every pass of the program (program.h) becomes one generated kernel.
 *
 *   shape.c     plan time: cells, tiles, taps, threads and shared memory of a pass; shape_mma.c, shape_gemm.c,
 *               shape_phase.c, shape_panel.c, shape_depthwise.c, shape_flat.c, shape_scatter.c what is an inner product's own
 *   work.c      plan time: what a pass has to do, counted
 *   cost.c      plan time: seconds that it would take
 *   codegen.c   plan time: defines + tables + kernels/(name).cu + the pass's operators -> source text
 *   emit.c      operators as CUDA expressions; emit_finish.c, emit_tiled.c what follows the convolution;
 *               emit_mma.c, emit_gemm.c, emit_phase.c, emit_panel.c, emit_flat.c, emit_scatter.c tables that one
 *               inner product alone has; emit_wgmma.c the instruction of four warps
 *   pack.c      source of the packing kernel, packed layout
 *   module.c    source -> loaded function, through the cache
 *   launch.c    run time: arguments and launches; arguments.c writes them, rows.c those for x as rows
 *
 * A cell is the unit of work: per axis, R neighbouring outputs of the convolution (its residues), R a multiple of the
 * stride. Cell j covers outputs R j + base + (0 .. R - 1), and tap k of residue rho reads input I j + delta with
 * I = R / s and delta = (base + rho + p - d k) / s where that is whole. So every cell runs the same code.
 */
#ifndef UPCONV_CUDA_ENGINE_H
#define UPCONV_CUDA_ENGINE_H

#include "../plan.h"
#include "../program.h"
#include "driver.h"

/* What code is generated for. */
typedef struct uc_cuda_target {
  char arch[16]; /* "sm_90a" */
  int major, minor;
  int64_t shared_bytes; /* that a block may have */
  int sm_count;
} uc_cuda_target;

/* One tap of one residue. */
typedef struct uc_cuda_tap {
  int32_t residue; /* (r0 * R1 + r1) * R2 + r2 */
  int32_t kernel;  /* (k0 * K1 + k1) * K2 + k2 */
  int32_t delta[UC_AXES];
} uc_cuda_tap;

/* Box of a step for the tile at target element t: [mult * t + off, mult * t + off + size). */
typedef struct uc_cuda_box {
  int64_t mult[UC_AXES], off[UC_AXES], size[UC_AXES];
} uc_cuda_box;

/* A tensor that a kernel reads besides x: an extra tensor or a kept value. */
typedef struct uc_cuda_view {
  bool tensor;
  int index;
} uc_cuda_view;

enum { UC_CUDA_MAX_VIEWS = 24, UC_CUDA_MAX_VALUES = 96 };

enum { UC_CUDA_QUAD = 4, UC_CUDA_MAX_PATTERNS = 24 };

/* Flattened depth: four products of one residue, of which a lane of a quarter warp takes each its own. */
typedef struct uc_cuda_quad {
  int32_t residue, live;           /* of the four */
  int32_t channel, delta[UC_AXES]; /* of the first */
  int32_t pattern;                 /* where the others lie from it */
  int32_t window;                  /* in strips: of which row of the input */
  int32_t weight[UC_CUDA_QUAD];    /* channel * kernel size + kernel element; -1: none */
} uc_cuda_quad;

typedef struct uc_cuda_flat {
  int64_t row, plane, channel; /* words of the input tile from one to the next */
  int64_t quad_count, step_count;
  uc_cuda_quad *quad;
  int64_t pattern_count;
  int32_t pattern[UC_CUDA_MAX_PATTERNS][UC_CUDA_QUAD][1 + UC_AXES]; /* channel, delta */
  bool held;                                                        /* weights in registers */
  bool strips; /* a lane's rows are four cells side by side, whose words are read together */
  int64_t window_count; /* rows of the input that a strip reads a window of, of all residues */
  int64_t vx;           /* neighbours along W of the input that are fetched at once */
  bool prefetch;        /* the next tile's input is under way while one is computed */
  bool bulk; /* runs of the result are long enough to be copied as a whole, from sm_90 on */
  int64_t weight_words, y_floats;
  double reads;       /* instructions that read the input for 16 cells */
  double store_slots; /* slots of the schedulers, for the stores of a tile */
} uc_cuda_flat;

enum { UC_CUDA_PANEL_PAIRS = 4, UC_CUDA_NOTES_BYTES = 256 };

/* A product of a panel: 64 rows, for each half of a step's depth where the cells read the input tile, and which element of the
   kernel serves each residue, by place along D and H and by the two of a pair; -1: none. */
typedef struct uc_cuda_product {
  int32_t panel;
  int32_t delta[2][UC_AXES];
  int32_t kernel[2][UC_CUDA_PANEL_PAIRS][2];
} uc_cuda_product;

/* Which rows panels have, and all products. */
typedef struct uc_cuda_layout {
  int64_t fragments, slots; /* of a panel: blocks of 8 channels; places along D and H */
  int64_t panels, held;     /* for all residues; blocks of channels whose sums a thread holds */
  int64_t rounds;           /* whose sums are made one after the other; 0: not used */
  int64_t product_count;    /* of a step */
  uc_cuda_product *product;
} uc_cuda_layout;

/* Residues and channels as rows, cells as columns. */
typedef struct uc_cuda_phase {
  uc_cuda_layout main, rest; /* rest: of the last channels, which would fill main's in part */
  int64_t pairs;             /* of residues along W */
  int64_t blocks;            /* of channels, of a group */
  int64_t groups;            /* of eight cells, of a part */
  int group_axis;            /* along which they follow each other */
  int64_t part[UC_AXES];     /* cells */
  int64_t quads, steps;      /* units of 16 bytes of a position; products' depths that they make */
  int64_t stage_bytes; /* where what warps have is put together before it is stored, of all warps */
  int64_t
      row_pitch; /* elements from row to row where finished rows meet in shared memory first, or 0 */
  bool gaps;     /* a product has rows whose residue has no tap there */
  double clocks; /* that a multiprocessor should take for all of its tiles */
} uc_cuda_phase;

enum { UC_CUDA_PANEL_PARTS = 4 };

/* Many channels, as rows: positions of the halo tile as columns, in runs of eight. */
typedef struct uc_cuda_panel {
  int64_t groups, group_step; /* runs of a team; positions from one to the next */
  bool whole_runs;            /* all of a run are cells of one row, or none is */
  int64_t teams_m, blocks;    /* teams along the channels; blocks of channels, of a group */
  int64_t crews;              /* that have jobs of their own, in turns */
  int64_t round_runs,
      row_pitch; /* where finished rows meet in shared memory first: runs at once, elements of a channel; or 0 */
  int64_t quads; /* units of 16 bytes of a position in a chunk */
  double clocks; /* that a multiprocessor should take for all of its jobs */
  int64_t part_count, part_position[UC_CUDA_PANEL_PARTS]; /* where teams' runs begin */
} uc_cuda_panel;

/* Few output channels: sums of every tap, position by position. */
typedef struct uc_cuda_scatter {
  int64_t rows,
      parts; /* residues along D x channels x taps of a plane; of their fragments: a warp takes one */
  int64_t open;       /* layers of cells whose sums a warp holds */
  int64_t terms;      /* sums that a cell adds */
  int64_t row, pitch; /* sums from one row of positions to the next; from one row of taps */
  int64_t lead;       /* positions of a row before the first that a tap reads */
  bool wide;          /* x is laid out so that several elements can be loaded at once */
  int64_t items;      /* of a plane of the input tile, 32 positions of a part each */
  double planes;      /* that a tile has to make, on the average */
} uc_cuda_scatter;

typedef struct uc_cuda_kernel {
  const uc_pass *pass;
  bool fused; /* cells are finished in registers; else values of a tile lie in shared memory */
  bool mma, gemm, phase, panel, depthwise, flat, scatter;
  int pool; /* fused: the step of the pooling operator that reduces a cell, or -1 */
  bool
      sums_pooled; /* tensor cores: maxima are taken of bare sums, whose weights have an extreme_pool's sign; then the bias */

  /* cells; fused: the target's elements (pool) or R of them */
  int64_t residues[UC_AXES], step[UC_AXES], base[UC_AXES]; /* R, I, base */
  int64_t cells[UC_AXES];                                  /* of a tile */
  int64_t tile[UC_AXES];                                   /* of the target */
  int64_t cell_step[UC_AXES];                              /* cells from one tile to the next */
  int64_t
      cell_parts[UC_AXES]; /* tile buffers: how many times `cells` cover the convolution's box */
  int64_t x_base[UC_AXES], x_size[UC_AXES]; /* input tile: least delta, extents */
  int64_t span[UC_AXES];                    /* greatest delta less the least */
  int64_t rt, residue_groups;               /* residues held at once, rounds */
  int64_t tap_count;
  uc_cuda_tap *tap;
  bool static_taps, shared_weights;
  bool resident;      /* fused: all weights of a block's channels stay in shared memory */
  int64_t min_blocks; /* that registers are rationed for */
  int blocks_per_sm;  /* as loaded */

  int64_t channels; /* of the target while a block works on it: BM, or all */
  int64_t mc, thread_cells, bm, threads, chunk;
  /* ffma: the axis along which a thread's cells follow each other; threads of a tile along each axis; words from row to row
     of the input tile (x_plane: from plane to plane); where its positions are kept in shared memory, in floats, or 0 */
  int thread_axis;
  int64_t lanes[UC_AXES], x_row, positions_at;
  /* ffma: x is not staged, a thread loads what its cells read of a channel, which are a tile; where inverses to divide its number
     by are kept in shared memory, in floats; clocks of all tiles of a multiprocessor */
  bool direct;
  int64_t inverse_at;
  double direct_clocks;
  int64_t mt, nt, warps_m, rounds; /* gemm: teams of warps */
  int64_t
      teams; /* of `threads` each in a block: they share its resident weights, each has its own tile */
  int64_t samples; /* gemm: of a tile; else 1 */
  /* mma, gemm: four warps make products together; gemm: teams of warps along the channels; fragments of columns that are finished at
     once; where tables and barriers lie in shared memory; parts of the depth; copies under way; halo tiles */
  bool wgmma;
  int64_t registers_kept,
      registers_taken; /* gemm, phase: of a warp that copies, that multiplies; taken: 0: as launched */
  int64_t product_taps; /* mma: of one product; 1 unless four warps make it together */
  bool wide;            /* gemm: residues are columns too */
  int64_t held,
      shifts; /* gemm: residues with sums of their own; taps, or distinct shifts where residues are columns */
  int64_t copiers, teams_n, round, located_at, barriers_at, sums_at, chunks, stages, x_buffers;
  int64_t
      steps_ahead; /* gemm without wgmma: whose operands are loaded together; phase: units of x that a thread loads together */
  int64_t strip;   /* neighbouring cells along W that a thread finishes together */
  /* tensor cores: positions of the input loaded together, and by one instruction; words of a plane and of a step of the
     input tile, and by how much planes are shifted */
  bool pairs; /* words of two positions lie beside those of the other half of the step */
  int64_t window, vector, x_plane, x_step_words, skew_odd, skew_high;
  bool channels_fast; /* depthwise: neighbouring threads take neighbouring channels */
  int64_t x_channels; /* depthwise: of a tile */
  int64_t x_vector;   /* inputs along W that are read together; depthwise, and where prefetched */
  bool prefetch;      /* tensor cores: the next tile's input comes while this one is multiplied */
  int64_t
      lead; /* tensor cores: inputs of the tile before the first tap's, so that reads are aligned */
  int64_t x_floats, team_floats,
      staging_floats; /* of one tile; of a team; of a block, with the weights */
  uc_cuda_flat flattened;
  uc_cuda_phase phases;
  uc_cuda_panel panels;
  uc_cuda_scatter scattered;

  /* tile buffers */
  uc_cuda_box *box; /* per step */
  int64_t *slot_at; /* floats */
  int64_t slot_floats;

  int view_count;
  uc_cuda_view view[UC_CUDA_MAX_VIEWS];
  int64_t shared_floats;
  char name[32];
  char *source;
  uc_cuda_module module; /* NULL when only planned */
  uc_cuda_function function, combine, rows;
} uc_cuda_kernel;

typedef struct uc_cuda_engine {
  const upconv_context *context;
  const uc_lowered *lowered;
  uc_cuda_target target;
  bool mma, depthwise, flat; /* mma: weights in the order of the tensor cores */
  bool gemm;                 /* with mma: many channels */
  bool phase;                /* with mma: residues and channels are rows */
  bool panel;                /* with mma: many channels, as rows */
  bool scatter;              /* few output channels */
  bool scales_sums;          /* a folded scale multiplies the sums, not the weights */
  bool core_order;           /* mma: weights as wgmma wants them */
  upconv_dtype word;         /* mma: F32 (TF32 words), F16 or BF16 (pairs) */
  int64_t parts;             /* flat: TF32 words that a weight is the sum of */
  int64_t scatter_channels,
      scatter_fragments; /* of a block; of 16 rows, channels x taps of a plane */
  uc_program program;
  int kernel_count;
  uc_cuda_kernel *kernel;
  int64_t group_in, group_out, kernel_size;
  int64_t co_pad, ci_steps;
  int64_t weight_taps; /* of the packed weights: the kernel's elements, or a gemm's shifts */
  int64_t step_words;  /* mma: words of the depth that one instruction takes, 4 or 8 */
  /* packed buffer, in floats */
  int64_t scale_at, factor_at, bias_at, weights_at, weight_floats, packed_floats;
  int64_t *param_at; /* per uc_lowered.param */
  char *pack_source;
  uc_cuda_module module;
  uc_cuda_function pack_params, pack_weights;
} uc_cuda_engine;

/* Whether an operand of an operator lies in memory: a tensor, or a value that is kept there. */
static inline bool uc_cuda_in_memory(const uc_cuda_engine *e, const upconv_operand *o) {
  return o->kind == UPCONV_OPERAND_TENSOR ||
         (o->kind == UPCONV_OPERAND_VALUE && e->program.kept[o->index]);
}

/* Outputs that the first cell of a fused pass has before the first that there is. */
static inline int64_t uc_cuda_before_first(const uc_cuda_kernel *k, int axis) {
  return k->fused && k->pool < 0 ? -k->base[axis] : 0;
}

/* Whether x is copied tile by tile by what describes it as rows of words: a map, which comes with the arguments. */
static inline bool uc_cuda_maps_x(const uc_cuda_kernel *k) {
  return (k->gemm && k->wgmma) || k->panel;
}

/* Whether blocks are of one group of residues each, and x comes in an order of their own, from a kernel before. */
static inline bool uc_cuda_many_channels(const uc_cuda_kernel *k) { return k->gemm || k->panel; }

#endif
