/* SPDX-License-Identifier: Apache-2.0 */
/* A program cut into steps, with memory for everything: what a session keeps for each set of
   input shapes. */
#ifndef UPCONV_ONNX_CUT_H
#define UPCONV_ONNX_CUT_H

#include "plans.h"

typedef enum uc_place_kind {
  UC_PLACE_NONE, /* no memory: inside a segment, or an alias of another value */
  UC_PLACE_CONSTANT,
  UC_PLACE_INPUT,  /* index: which graph input */
  UC_PLACE_OUTPUT, /* index: which graph output */
  UC_PLACE_ARENA,  /* offset: bytes */
} uc_place_kind;

typedef struct uc_place {
  uc_place_kind kind;
  int index;
  size_t offset;
} uc_place;

typedef struct uc_step {
  int task;                         /* a plain task, or -1 */
  int segment;                      /* a segment, or -1 */
  int output;                       /* a graph output that is copied from the value it is, or -1 */
  size_t workspace, workspace_size; /* offset in the arena */
  void *work;                       /* of the plain task, see uc_device_kind.prepare */
} uc_step;

typedef struct uc_cut {
  uc_onnx_program *program;
  int *owner; /* segment of each task, -1: plain */
  int segment_count;
  uc_segment *segment;
  int step_count;
  uc_step *step;
  uc_place *place; /* of each value that is its own root */
  size_t arena;    /* bytes */
  const uc_device *device;
  /* Where the data of constants lie on the device, of each value; and what of it is the cut's own.
     Known from the first run on. */
  const void **constant;
  void *constants;
} uc_cut;

/* Cuts a planned program. The cut owns the program from then on, also when it fails. Without
   places every value that is not a view stays dense: what the oracle needs. */
upconv_status uc_cut_make(uc_cut *cut, uc_onnx_program *program, uc_plans *plans, bool places);
void uc_cut_free(uc_cut *cut);

/* A value as tasks see it, without data; value -1: left out. */
uc_view uc_cut_view(const uc_cut *cut, int value);
/* The most inputs that a task has. */
int uc_cut_most_inputs(const uc_cut *cut);

/* Its parts: segment.c, place.c, prepare.c. */
upconv_status uc_cut_segments(uc_cut *cut, uc_plans *plans);
upconv_status uc_cut_places(uc_cut *cut);
upconv_status uc_cut_prepare(uc_cut *cut);
/* Brings the constants that its steps read to the device, once. initial: of each value of the
   model, an initialiser that is there already or is brought there now. */
upconv_status uc_cut_constants(uc_cut *cut, void **initial);

#endif
