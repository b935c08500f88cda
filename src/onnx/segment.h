/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: a convolution and the operators behind it that become its epilogue. tail.c translates
 * operators one by one, segment.c decides how far a segment reaches.
 */
#ifndef UPCONV_ONNX_SEGMENT_H
#define UPCONV_ONNX_SEGMENT_H

#include "program.h"

/* A float type that the library computes with. */
bool uc_onnx_engine_dtype(uc_onnx_dtype dtype, upconv_dtype *result);

/* A value of the graph as the library sees it: which of its axes is N, C, or a spatial axis. */
typedef struct uc_onnx_source {
  int value;
  int dim[UPCONV_MAX_RANK]; /* -1: extent 1 */
  bool per_channel;         /* parameters */
} uc_onnx_source;

typedef struct uc_segment {
  int first, last; /* the convolution, and the task that makes y */
  int task_count;
  int *task; /* ascending */
  bool conv;
  upconv_problem_desc desc;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  int x, weight, bias; /* value numbers; bias -1: none */
  uc_onnx_source y;
  int64_t y_shape[UPCONV_MAX_RANK];
  int param_count, tensor_count;
  uc_onnx_source *param, *tensor; /* in the order of the epilogue's */
  struct uc_plan_entry *entry;
} uc_segment;

void uc_segment_free(uc_segment *segment);

/* ---- tail.c ---- */

/* A value inside the segment being made. */
typedef struct uc_inner {
  int value;
  upconv_operand operand;
  uc_onnx_dtype dtype;
  int rank;
  /* Of each dimension: 0 N, 1 C, 2... spatial; -1: of extent 1 and no axis. */
  int axis[UC_ONNX_MAX_RANK];
  bool rounded; /* rounded to a narrower type: nothing may follow */
} uc_inner;

enum { UC_MAX_TAIL = 96 };

typedef struct uc_tail {
  uc_onnx_program *program;
  int nd;
  upconv_epilogue *epilogue;
  int inner_count;
  uc_inner inner[UC_MAX_TAIL + 1];
  int param_count, tensor_count;
  uc_onnx_source param[2 * UC_MAX_TAIL], tensor[2 * UC_MAX_TAIL];
} uc_tail;

/* Starts with the convolution's task. */
upconv_status uc_tail_start(uc_tail *tail, uc_onnx_program *program, const uc_onnx_task *conv);
void uc_tail_free(uc_tail *tail);
/* Appends what the task does; false when it cannot be part of an epilogue, which is nothing
   unusual. */
bool uc_tail_add(uc_tail *tail, const uc_onnx_task *task);
const uc_inner *uc_tail_find(const uc_tail *tail, int value);

/* Parts of uc_tail_add: elementwise operators in tail.c, what works along axes in tail_axes.c. */
bool uc_tail_elementwise(uc_tail *tail, const uc_onnx_task *task);
/* The operator of an epilogue that a scalar function is, where there is one. */
bool uc_tail_kind(uc_fn fn, upconv_op_kind *kind);
/* The inner value that input k of the task is; NULL when it comes from outside, or nothing may
   read it any more. */
const uc_inner *uc_tail_input(const uc_tail *tail, const uc_onnx_task *task, int k);
/* The operand that stands for an outside value combined with the inner value a: a constant, a
   parameter or a tensor. */
bool uc_tail_outside(uc_tail *tail, const uc_inner *a, int value, upconv_operand *operand);
bool uc_tail_param(uc_tail *tail, const uc_onnx_source *source, upconv_operand *operand);
upconv_op uc_tail_op(upconv_op_kind kind, upconv_operand first);
/* Appends the operator; its value is the task's result, with the dimensions of `like`. */
bool uc_tail_finish(uc_tail *tail, const uc_onnx_task *task, const upconv_op *op,
                    const uc_inner *like);
bool uc_tail_put(uc_tail *tail, const uc_inner *inner);

#endif
