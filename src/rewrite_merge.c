/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge-activations: two neighbours that are linear on either side of 0 are one such function. With
 * slopes p, n of the first and P, N of the second, z = p x for x > 0 is on the positive side iff p
 * > 0, so
 *
 *   slope for x > 0:  p (p > 0 ? P : N)        slope for x < 0:  n (n > 0 ? N : P)
 *
 * and 0 goes to 0 on either side. Where p (or n) is 0 the product is 0 whichever is chosen.
 */
#include <math.h>

#include "rewrite.h"

bool uc_rewrite_slopes(uc_rewrite *rewrite, const upconv_op *op, uc_slopes *slopes) {
  int position;
  if (!uc_rewrite_reads_one_value(op, &position)) return false;
  uc_ref one = uc_ref_constant(1), minus_one = uc_ref_constant(-1);
  slopes->positive = one;
  switch (op->kind) {
  case UPCONV_OP_RELU:
    slopes->negative = uc_ref_constant(0);
    break;
  case UPCONV_OP_LEAKY_RELU:
    slopes->negative = uc_ref_constant(op->attr[0]);
    break;
  case UPCONV_OP_PRELU:
    slopes->negative = uc_rewrite_ref(rewrite, op->operand[1]);
    break;
  case UPCONV_OP_ABS:
    slopes->negative = minus_one;
    break;
  case UPCONV_OP_NEG:
    slopes->positive = slopes->negative = minus_one;
    break;
  case UPCONV_OP_MUL:
    slopes->positive = slopes->negative = uc_rewrite_ref(rewrite, op->operand[1 - position]);
    break;
  case UPCONV_OP_DIV:
    if (position == 1) return false;
    slopes->positive = slopes->negative =
        uc_rewrite_div(rewrite, one, uc_rewrite_ref(rewrite, op->operand[1]));
    break;
  case UPCONV_OP_TWO_SLOPE:
    slopes->positive = uc_rewrite_ref(rewrite, op->operand[1]);
    slopes->negative = uc_rewrite_ref(rewrite, op->operand[2]);
    break;
  default:
    return false;
  }
  return isfinite(slopes->positive.constant) && isfinite(slopes->negative.constant);
}

static bool compose(uc_rewrite *rewrite, const uc_slopes *first, const uc_slopes *second,
                    uc_slopes *both) {
  uc_ref p = first->positive, n = first->negative;
  uc_ref after_p = uc_rewrite_select(rewrite, p, second->positive, second->negative);
  uc_ref after_n = uc_rewrite_select(rewrite, n, second->negative, second->positive);
  both->positive = uc_rewrite_mul(rewrite, p, after_p);
  both->negative = uc_rewrite_mul(rewrite, n, after_n);
  return isfinite(both->positive.constant) && isfinite(both->negative.constant);
}

/* The simplest operator with these slopes, reading value. */
static upconv_op write_slopes(uc_rewrite *rewrite, const uc_slopes *slopes, int value) {
  upconv_op op = {.kind = UPCONV_OP_TWO_SLOPE,
                  .operand[0] = {.kind = UPCONV_OPERAND_VALUE, .index = value}};
  if (uc_ref_equal(slopes->positive, slopes->negative)) {
    op.kind = uc_ref_is(slopes->positive, -1) ? UPCONV_OP_NEG : UPCONV_OP_MUL;
    if (op.kind == UPCONV_OP_MUL) op.operand[1] = uc_rewrite_operand(rewrite, slopes->positive);
  } else if (!uc_ref_is(slopes->positive, 1)) {
    op.operand[1] = uc_rewrite_operand(rewrite, slopes->positive);
    op.operand[2] = uc_rewrite_operand(rewrite, slopes->negative);
  } else if (slopes->negative.param >= 0) {
    op.kind = UPCONV_OP_PRELU;
    op.operand[1] = uc_rewrite_operand(rewrite, slopes->negative);
  } else if (uc_ref_is(slopes->negative, 0)) {
    op.kind = UPCONV_OP_RELU;
  } else if (uc_ref_is(slopes->negative, -1)) {
    op.kind = UPCONV_OP_ABS;
  } else {
    op.kind = UPCONV_OP_LEAKY_RELU;
    op.attr[0] = slopes->negative.constant;
  }
  return op;
}

/* Precondition: both operators are linear on either side of 0 with finite slopes, and the second is
   the only reader of the first one's result. */
bool uc_rule_merge_activations(uc_rewrite *rewrite) {
  upconv_epilogue *tail = rewrite->lowered->tail;
  for (int i = 0; i < tail->op_count; i++) {
    int position, source;
    uc_slopes first, second, both;
    if (!uc_rewrite_slopes(rewrite, &tail->op[i], &second)) continue;
    uc_rewrite_reads_one_value(&tail->op[i], &position);
    int value = tail->op[i].operand[position].index;
    if (value == 0 || rewrite->uses[value] != 1) continue;
    const upconv_op *before = &tail->op[value - 1];
    if (!uc_rewrite_slopes(rewrite, before, &first)) continue;
    if (!compose(rewrite, &first, &second, &both)) continue;
    uc_rewrite_reads_one_value(before, &position);
    source = before->operand[position].index;
    uc_rewrite_note(rewrite, i);
    tail->op[i] = write_slopes(rewrite, &both, value);
    uc_rewrite_remove(rewrite, value - 1, source);
    return true;
  }
  return false;
}
