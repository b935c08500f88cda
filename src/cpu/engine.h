/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU backend's parts and the data that flows through them:
 *
 *   program.c   (plan time)  passes and steps
 *   pack.c      (plan time)  weight blocks; (pack time) the packed buffer
 *   geometry.c  (run time)   extents -> shapes, tile sizes, scratch and workspace sizes
 *   run.c       (run time)   walks passes and tiles over the threads
 *   tile.c      (run time)   boxes, layouts and steps of one tile
 *   conv_tile.c, op_tile.c   what a step does
 *   panel.c                  the convolution of several samples at once where channels are deep
 *   product.c                products of all inputs and weights first, then their sums
 */
#ifndef UPCONV_CPU_ENGINE_H
#define UPCONV_CPU_ENGINE_H

#include "../epilogue.h"
#include "../plan.h"
#include "../program.h"
#include "../tensor.h"
#include "isa.h"
#include "layout.h"
#include "threads.h"

/* ---- packed weights ---- */

/* Up to UC_MAX_MC output channels of one group that are computed together. Packed are, for each group, for each chunk of
   input channels, for each phase (outermost axis first), for each block, for each tap, for each channel of the chunk:
   mc weights. So what a phase reads while it walks the blocks is one stream. product.c has no phases: for each group, for
   each chunk, for each tap_group kernel elements from the last one on, for each block, for each channel of the chunk, for
   each of these elements: mc weights. */
typedef struct uc_block {
  int64_t group, channel; /* channel: of all output channels */
  int mc;
} uc_block;

/* Per axis and phase: taps, and how many taps the phases before it have. */
typedef struct uc_axis_table {
  int64_t stride;
  uc_phase *phase;
  int64_t *before;
} uc_axis_table;

enum {
  UC_CHUNK = 128, /* input channels whose tile is held at once */
  UC_FLAT_CHUNK =
      16, /* where one block is all of a group's output channels: inputs that a tap has read are still in the
                         first-level cache when the next one reads them */
  UC_RUN = 256, /* positions whose products are computed together (product.c) */
  UC_PRODUCT_CHUNK = 256,
  UC_PANEL = 48 /* positions of a panel: what every instruction set's registers divide */
};

typedef struct uc_engine {
  const uc_isa *isa;
  uc_threads *threads;
  double stream_bytes; /* y is stored past the caches where x and y together have so many bytes */
  uc_lowered *lowered;
  uc_program program;
  bool panels;   /* candidates cpu-panels and cpu-products: sums of several samples at once */
  bool products; /* candidate cpu-products */
  bool scalar;   /* candidate cpu-direct: one element at a time, borders skipped */
  uc_axis_table table[UC_AXES];
  int64_t kernel_size; /* K0 * K1 * K2 */
  int64_t group_in, group_out;
  int64_t
      chunk; /* input channels per chunk: a property of the problem, so that sums keep their order */
  int64_t block_count;
  uc_block *block;
  int64_t max_taps;  /* of one phase */
  int64_t tap_group; /* kernel elements whose products are computed together (product.c) */
  /* the packed buffer, in floats */
  int64_t weight_at, bias_at, packed_floats;
  int64_t *param_at, *param_size; /* per parameter of the rewritten epilogue */
} uc_engine;

/* First part of the packed buffer. */
typedef struct uc_packed_header {
  uint64_t magic;
  int64_t floats;
  int64_t finite; /* 0: some weight is not, so that zero-filled borders would make NaN */
  int64_t reserved[5];
} uc_packed_header;

upconv_status uc_engine_plan_weights(uc_engine *engine);
upconv_status uc_engine_pack(const uc_engine *engine, const upconv_parameters *parameters,
                             void *packed);
upconv_status uc_engine_check_packed(const uc_engine *engine, const void *packed, bool *finite);

/* ---- extents ---- */

/* How one pass is tiled for given extents. */
typedef struct uc_tiling {
  int64_t extent[UC_AXES]; /* of the target */
  int64_t tile[UC_AXES], tiles[UC_AXES];
  bool flat;  /* rows of the convolution's tile follow the input tile's pitch */
  int pooled; /* the step whose pool the convolution's residues go to as they are computed, or 0; they have no tile then */
  int64_t x_size[UC_AXES]; /* input tile */
  int64_t x_channel;       /* pitch */
  int64_t x_channels;      /* channels held */
  int64_t block_channels;  /* output channels per round, about */
  /* panel.c: parts of the output channels and groups of samples are tasks as tiles are */
  bool panels;
  int64_t samples;                    /* of a tile */
  int64_t part_blocks;                /* blocks of output channels of a part */
  int64_t panel_taps;                 /* taps that a panel holds at once */
  int64_t positions;                  /* of a residue and sample, at most */
  int64_t sums_residue, sums_channel; /* pitches */
  int64_t segments; /* reductions: parts of the reduced extents, each with sums of its own */
  int64_t scratch;  /* floats per thread */
  bool drains; /* y may be stored while the next round is computed: its buffer is two, in turns */
  int64_t spare, drain_at, runs_at, fetch_at;
  int64_t x_at, taps_at, least_at, sums_at, panel_at, pieces_at, row_at, rows_at, channels_at,
      steps_at; /* offsets in the scratch, in floats */
} uc_tiling;

/* Everything about one execution. Arrays lie in the workspace. */
typedef struct uc_run {
  const uc_engine *engine;
  const uc_call *call;
  int64_t batch, n0;         /* samples of this run: [n0, n0 + batch) */
  int64_t in_size[UC_AXES];  /* of the whole x */
  int64_t (*shape)[UC_RANK]; /* per value, of the whole batch */
  upconv_tensor *kept;       /* per value: where it lives, if it is kept; y for the last */
  upconv_tensor *
      tensor; /* the caller's extra tensors, canonical; stride 0 on axes they are broadcast along */
  const float *packed;
  bool skip_borders;
  const uc_pass *pass; /* the pass under way */
  bool stream;         /* ... stores past the caches */
  bool drains;         /* ... while the next round is computed */
  uc_tiling tiling;
  int64_t *slot_at;             /* per slot: offset in the scratch */
  int64_t target_size[UC_AXES]; /* reductions: what is reduced */
  double *partial;              /* reductions: [segments][N][C][D][H][W] of the result */
  float *scratch;
  int64_t scratch_floats; /* per thread */
} uc_run;

/* Where the workspace's parts begin, in bytes. */
typedef struct uc_workspace {
  size_t shape_at, kept_at, tensor_at, slots_at, values_at, partial_at, scratch_at;
  size_t scratch; /* bytes per thread */
  size_t bytes;   /* in all */
} uc_workspace;

/* Tiles for a pass; shape: of every value, with the whole batch. panels: whether they may be used. slot_at (uc_engine_slots_bytes) receives
   offsets into the scratch. */
void uc_tiling_choose(const uc_engine *engine, const uc_pass *pass, const int64_t (*shape)[UC_RANK],
                      bool panels, int64_t *slot_at, uc_tiling *tiling);
/* Shapes of all values for an x of x_shape. */
upconv_status uc_engine_shapes(const uc_engine *engine, const int64_t x_shape[UC_RANK],
                               int64_t (*shape)[UC_RANK]);
/* Bytes of slot_at: the slots' offsets of any pass, and boxes and layouts of its steps behind them. */
size_t uc_engine_slots_bytes(const uc_engine *engine);
/* The parts before values_at, which depend on the plan alone. */
void uc_engine_bookkeeping(const uc_engine *engine, uc_workspace *workspace);
upconv_status uc_engine_workspace(const uc_engine *engine, const int64_t (*shape)[UC_RANK],
                                  int64_t *slot_at, uc_workspace *workspace);
upconv_status uc_engine_execute(const uc_engine *engine, const uc_call *call);

/* ---- one tile ---- */

/* What a thread has still to store and will read, while its tasks go on; in its scratch. */
typedef struct uc_pending {
  uc_beside beside;
  int64_t turn; /* 0 or 1: the buffer that the round under way fills */
} uc_pending;

typedef struct uc_tile {
  const uc_run *run;
  float *scratch;
  uc_pending *pending; /* NULL: rounds are stored at once */
  uc_box next;         /* pending: the convolution's, of the task that follows, if it has a size */
  int64_t next_n;
  int64_t n;                      /* sample; the first of them before the steps of panels */
  int64_t samples, part;          /* panels: samples held, and which channels */
  int64_t first_n, first_channel; /* panels: what the sums begin with */
  int64_t c0, c1; /* channels under way; a step with fewer channels has one, or all */
  uc_box *box;    /* per step */
  uc_layout *layout;
  int64_t x_first, x_count; /* channels that the input tile holds; count 0: none yet */
} uc_tile;

/* The convolution's step, or -1. */
int uc_conv_step(const uc_pass *pass);
/* Boxes of all steps for a tile of the target: what each must hold so that the later ones can be computed. */
void uc_tile_boxes(const uc_pass *pass, const upconv_epilogue *tail, const uc_box *target,
                   uc_box *box);
/* Layouts of all steps from their boxes. pooled, flat: the tiling's. */
void uc_tile_layouts(const uc_pass *pass, const upconv_epilogue *tail, const uc_box *box,
                     const uc_tiling *tiling, uc_layout *layout);
/* Computes the target's box for the tile's sample, then stores it or adds it to the sums of a segment. */
void uc_tile_run(uc_tile *tile, const uc_box *target, int64_t segment);

/* Input indices along an axis that the convolution's box [begin, begin + size) reads, borders not clipped: the first, and a
   count that does not depend on begin. */
int64_t uc_input_begin(const uc_axis *axis, int64_t begin);
int64_t uc_input_count(const uc_axis *axis, int64_t size);

/* Products of an output, on average over the phases. */
int64_t uc_average_products(const uc_engine *engine);
/* Channels [c0, c1) of the convolution, which begin at a block's first channel. dst: its tile buffer, or that of the pool to
   which they go, channel c0 first. */
void uc_conv_tile(uc_tile *tile, const uc_layout *layout, float *dst, int64_t c0, int64_t c1);
/* Where sums lie: of samples [n, n + samples), of channels from `channel` on. */
typedef struct uc_sums {
  float *data;
  const uc_layout *layout;
  int64_t channel, n, samples, sample_pitch;
} uc_sums;

/* Blocks [b0, b1), whole: products, then sums. */
void uc_product_sums(const uc_tile *tile, const uc_sums *to, int64_t b0, int64_t b1);
/* Sums of blocks [b0, b1) for the tile's samples, whole. */
void uc_panel_sums(const uc_tile *tile, const uc_layout *layout, int64_t b0, int64_t b1);
/* How they lie, where a channel of sample n begins, and a copy of the channels under way in a tile buffer. */
uc_layout uc_panel_layout(const uc_tile *tile, const uc_layout *layout);
const float *uc_panel_at(const uc_tile *tile, const uc_layout *layout, int64_t n, int64_t channel);
void uc_panel_take(const uc_tile *tile, const uc_layout *layout, float *dst);
/* Whether a pooling step keeps a channel's least element, and not the greatest. */
bool uc_pool_keeps_least(const uc_tile *tile, const uc_step *step, int64_t channel);
/* One operator step on the channels under way. */
void uc_op_tile(uc_tile *tile, int step);

float *uc_tile_slot(const uc_tile *tile, int slot);
/* Channels of a step's buffer while [c0, c1) are under way. */
int64_t uc_tile_channels(const uc_tile *tile, const uc_step *step);

#endif
