/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the oracle's values, derived here once more, so that a slip elsewhere shows as a
 * difference. */
#include "reference_parts.h"
#include "status.h"

void uc_reference_conv_shape(const upconv_problem *problem, const uc_reference_inputs *inputs,
                             int64_t shape[UC_RANK]) {
  shape[0] = inputs->batch;
  shape[1] = problem->out_channels;
  for (int a = 0; a < UC_AXES; a++) {
    const uc_axis *x = &problem->axis[a];
    shape[2 + a] = (inputs->in_size[a] - 1) * x->stride - x->pad_begin - x->pad_end +
                   x->dilation * (x->kernel - 1) + x->output_padding + 1;
  }
}

/* Windows are made as long as they end inside the input or its padding. With ceil_mode: as long as
   the one before did not reach the end yet, and the new one does not start in the padding there. */
static int64_t pooled_size(const upconv_window *w, int a, int64_t size) {
  int64_t end = size + w->pad_end[a];
  for (int64_t count = 0;; count++) {
    int64_t start = count * w->stride[a] - w->pad_begin[a];
    int64_t last = start + (w->kernel[a] - 1) * w->dilation[a];
    bool made = w->ceil_mode ? last - w->stride[a] < end - 1 && start < size : last < end;
    if (!made) return count;
  }
}

static void broadcast_shape(const uc_reference_state *run, const upconv_op *op,
                            int64_t shape[UC_RANK]) {
  for (int i = 1; i < UC_RANK; i++) {
    shape[i] = 1;
    for (int k = 0; k < UPCONV_MAX_OPERANDS; k++) {
      if (op->operand[k].kind != UPCONV_OPERAND_VALUE) continue;
      int64_t extent = run->values[op->operand[k].index].shape[i];
      if (extent != 1) shape[i] = extent;
    }
  }
}

void uc_reference_op_shape(const uc_reference_state *run, const upconv_op *op,
                           int64_t shape[UC_RANK]) {
  shape[0] = 1;
  uc_op_class class = uc_op_classify(op->kind);
  if (class == UC_CLASS_ELEMENTWISE) {
    broadcast_shape(run, op, shape);
    return;
  }
  const int64_t *from = run->values[op->operand[0].index].shape;
  for (int i = 1; i < UC_RANK; i++) {
    shape[i] = from[i];
    if (class == UC_CLASS_POOL && i >= 2) shape[i] = pooled_size(&op->window, i - 2, from[i]);
    if (class == UC_CLASS_REDUCE && (op->axes >> (i - 1) & 1)) shape[i] = 1;
  }
}
