/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

#include <string.h>

#include "checked.h"

bool uc_region_empty(const uc_region *region) {
  for (int i = 0; i < UC_RANK; i++)
    if (region->axis[i].begin >= region->axis[i].end) return true;
  return false;
}

static void unite(uc_region *a, const uc_region *b) {
  if (uc_region_empty(b)) return;
  if (uc_region_empty(a)) {
    *a = *b;
    return;
  }
  for (int i = 0; i < UC_RANK; i++) {
    a->axis[i].begin = uc_min(a->axis[i].begin, b->axis[i].begin);
    a->axis[i].end = uc_max(a->axis[i].end, b->axis[i].end);
  }
}

/* What an operator needs of an operand of the given shape, for a region of its result. */
static uc_region operand_region(const upconv_op *op, const int64_t shape[UC_RANK],
                                const uc_region *result) {
  uc_region need = *result;
  uc_op_class class = uc_op_classify(op->kind);
  for (int a = 0; a < UC_AXES; a++) {
    if (class == UC_CLASS_POOL)
      need.axis[a + 2] = uc_window_input(&op->window, a, result->axis[a + 2], shape[a + 2]);
    if (class == UC_CLASS_REDUCE && (op->axes >> (1 + a) & 1))
      need.axis[a + 2] = (uc_range){0, shape[a + 2]};
  }
  if (class == UC_CLASS_CHANNELS || (class == UC_CLASS_REDUCE && (op->axes & UC_AXES_CHANNEL)))
    need.axis[1] = (uc_range){0, shape[1]};
  for (int i = 0; i < UC_RANK && class == UC_CLASS_ELEMENTWISE; i++)
    if (shape[i] == 1) need.axis[i] = (uc_range){0, 1};
  return need;
}

void uc_regions(const uc_lowered *lowered, const int64_t (*shape)[UC_RANK], uc_region *region) {
  const upconv_epilogue *tail = lowered->tail;
  memset(region, 0, (size_t)tail->op_count * sizeof *region);
  for (int k = tail->op_count - 1; k >= 0; k--) {
    if (uc_region_empty(&region[k + 1])) continue;
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      const upconv_operand *o = &tail->op[k].operand[i];
      if (o->kind != UPCONV_OPERAND_VALUE) continue;
      uc_region need = operand_region(&tail->op[k], shape[o->index], &region[k + 1]);
      unite(&region[o->index], &need);
    }
  }
}

uc_region uc_region_input(const upconv_problem *conv, const int64_t x_shape[UC_RANK],
                          const uc_region *conv_region) {
  uc_region x = {{{0, 0}}};
  if (uc_region_empty(conv_region)) return x;
  x.axis[0] = conv_region->axis[0];
  x.axis[1] = (uc_range){0, x_shape[1]};
  for (int a = 0; a < UC_AXES; a++)
    x.axis[a + 2] = uc_axis_input(&conv->axis[a], conv_region->axis[a + 2], x_shape[a + 2]);
  if (uc_region_empty(&x)) memset(&x, 0, sizeof x);
  return x;
}
