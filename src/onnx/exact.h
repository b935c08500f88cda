/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of whole graphs: every value as numbers with the intervals in which good arithmetic
   may land. */
#ifndef UPCONV_ONNX_EXACT_H
#define UPCONV_ONNX_EXACT_H

#include "../reference_parts.h"
#include "cut.h"

/* Elements of a value; like uc_view, strides in elements. */
typedef struct uc_exact {
  uc_approx *at;
  uc_onnx_dtype dtype; /* in which the graph stores them; UC_ONNX_UNDEFINED: left out */
  int rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  int64_t stride[UC_ONNX_MAX_RANK];
} uc_exact;

/* One part of all elements as a view of doubles: what operators can be run on. */
typedef enum uc_part { UC_PART_VALUE, UC_PART_LOW, UC_PART_HIGH } uc_part;
uc_view uc_exact_view(const uc_exact *exact, uc_part part);

/* Rounds an interval to a type of the graph. */
uc_approx uc_approx_to_dtype(uc_approx a, uc_onnx_dtype dtype);

/* exact_fn.c: an elementwise function of intervals. */
uc_approx uc_exact_fn(const uc_onnx_task *task, const uc_approx *operand,
                      const uc_onnx_dtype *dtype);

/* exact_task.c: a plain task; in: all inputs, out: dense. */
upconv_status uc_exact_task(const uc_onnx_task *task, const uc_exact *in, const uc_exact *out);

/* exact_segment.c: a segment. get finds the elements of a value of the graph. */
typedef uc_exact (*uc_exact_function)(const void *context, int value);
upconv_status uc_exact_segment(const uc_onnx_program *program, const uc_segment *segment,
                               const upconv_error_model *model, uc_exact_function get,
                               const void *context, const uc_exact *out);

#endif
