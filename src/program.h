/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowered form as backends run it: passes over tiles, decided once per plan. A pass walks the tiles of one value,
 * computes on each tile whatever that value needs, and either stores the tile or reduces it. Values that need the
 * whole extent of an axis (spatial reductions), and values that are broadcast along one, get a pass of their own and
 * are kept in memory; everything else lives in tile buffers only. A later pass that needs the convolution again
 * computes it again.
 */
#ifndef UPCONV_PROGRAM_H
#define UPCONV_PROGRAM_H

#include "lowered.h"

typedef enum uc_step_kind {
  UC_STEP_CONV, /* the convolution's tile */
  UC_STEP_LOAD, /* operand `operand` of operator `op`: an extra tensor or a kept value */
  UC_STEP_OP,   /* operator `op` */
} uc_step_kind;

typedef struct uc_step {
  uc_step_kind kind;
  int op, operand;
  int slot; /* tile buffer of the result */
  int source
      [UPCONV_MAX_OPERANDS]; /* UC_STEP_OP: the step that makes the operand in a tile buffer, or -1 */
  int copy
      [UPCONV_MAX_OPERANDS]; /* slot for the operand when its tile is larger or ordered otherwise, or -1 */
  int64_t split[UC_AXES];
  int64_t channels; /* of the whole value */
} uc_step;

typedef struct uc_pass {
  int target; /* the step whose tiles are walked: the last one */
  int result; /* the value that the pass makes */
  int reduce_op; /* operator that reduces the target over spatial axes, or -1: the target is the result */
  int step_count;
  uc_step *step;
  int slot_count;
  bool all_channels; /* some step needs every channel of its operand at once */
  bool conv;
} uc_pass;

typedef struct uc_program {
  const uc_lowered *lowered;
  int value_count;
  bool *kept; /* per value: has memory of its own (or is y) */
  int pass_count;
  uc_pass *pass;
  int max_steps;
} uc_program;

/* keep_all: every value gets a pass of its own, as an operator-by-operator library does. also_keep: further values, per
   value, that the backend wants in memory; NULL: none. */
upconv_status uc_program_build(const uc_lowered *lowered, bool keep_all, const bool *also_keep,
                               uc_program *program);
void uc_program_free(uc_program *program);

/* Whether an operand is one number per sample and channel, or fewer: read without a tile buffer. */
bool uc_program_is_scalar(const uc_program *program, const upconv_operand *operand);

#endif
