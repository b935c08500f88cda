/* SPDX-License-Identifier: Apache-2.0 */
/* fold-norm, fold-scale, fold-bias: operators that are affine per channel, right after the
   convolution, go into its weights and bias. */
#include <math.h>

#include "rewrite.h"

/* The operator that alone reads value 0 and is a function of it per channel; -1: none. *position is
   value 0's operand. */
static int affine_candidate(const uc_rewrite *rewrite, int *position) {
  int reader = uc_rewrite_only_reader(rewrite, 0);
  if (reader < 0) return -1;
  return uc_rewrite_reads_one_value(&rewrite->lowered->tail->op[reader], position) ? reader : -1;
}

/* y -> y * scale + shift, in place of operator op. */
static void fold_affine(uc_rewrite *rewrite, int op, uc_ref scale, uc_ref shift) {
  uc_rewrite_note(rewrite, op);
  if (!uc_ref_is(scale, 1)) uc_rewrite_fold(rewrite, UC_FOLD_SCALE, scale);
  if (!uc_ref_is(shift, 0)) {
    uc_rewrite_fold(rewrite, UC_FOLD_SHIFT, shift);
    rewrite->lowered->conv.bias = true;
  }
  uc_rewrite_remove(rewrite, op, 0);
}

/* Precondition: batch_norm is the only reader of value 0; v + eps > 0. */
bool uc_rule_fold_norm(uc_rewrite *rewrite) {
  int position, op = affine_candidate(rewrite, &position);
  if (op < 0 || rewrite->lowered->tail->op[op].kind != UPCONV_OP_BATCH_NORM) return false;
  const upconv_op *norm = &rewrite->lowered->tail->op[op];
  const upconv_operand *operand = norm->operand;
  bool has_weight = operand[1].kind != UPCONV_OPERAND_NONE;
  bool has_bias = operand[2].kind != UPCONV_OPERAND_NONE;
  uc_ref weight = has_weight ? uc_rewrite_ref(rewrite, operand[1]) : uc_ref_constant(1);
  uc_ref bias = has_bias ? uc_rewrite_ref(rewrite, operand[2]) : uc_ref_constant(0);
  uc_ref mean = uc_rewrite_ref(rewrite, operand[3]);
  uc_ref none = uc_ref_constant(0);
  uc_ref variance = uc_rewrite_formula(rewrite, UC_PARAM_ADD, uc_rewrite_ref(rewrite, operand[4]),
                                       uc_ref_constant(norm->attr[0]), none);
  uc_ref deviation = uc_rewrite_formula(rewrite, UC_PARAM_SQRT, variance, none, none);
  uc_ref scale = uc_rewrite_div(rewrite, weight, deviation);
  uc_ref shift = uc_rewrite_sub(rewrite, bias, uc_rewrite_mul(rewrite, mean, scale));
  fold_affine(rewrite, op, scale, shift);
  return true;
}

/* Precondition: the only reader of value 0 is y * c, c * y, y / c or -y; c a finite constant or a
   parameter, for the quotient not 0. (c / y is not linear.) */
bool uc_rule_fold_scale(uc_rewrite *rewrite) {
  int position, op = affine_candidate(rewrite, &position);
  if (op < 0) return false;
  const upconv_op *scale = &rewrite->lowered->tail->op[op];
  uc_ref by = uc_ref_constant(-1);
  if (scale->kind == UPCONV_OP_MUL)
    by = uc_rewrite_ref(rewrite, scale->operand[1 - position]);
  else if (scale->kind == UPCONV_OP_DIV && position == 0)
    by = uc_rewrite_div(rewrite, uc_ref_constant(1), uc_rewrite_ref(rewrite, scale->operand[1]));
  else if (scale->kind != UPCONV_OP_NEG)
    return false;
  if (by.param < 0 && !isfinite(by.constant)) return false;
  fold_affine(rewrite, op, by, uc_ref_constant(0));
  return true;
}

/* Precondition: the only reader of value 0 is y + c, c + y, y - c or c - y; c a finite constant or
   a parameter. */
bool uc_rule_fold_bias(uc_rewrite *rewrite) {
  int position, op = affine_candidate(rewrite, &position);
  if (op < 0) return false;
  const upconv_op *add = &rewrite->lowered->tail->op[op];
  if (add->kind != UPCONV_OP_ADD && add->kind != UPCONV_OP_SUB) return false;
  uc_ref shift = uc_rewrite_ref(rewrite, add->operand[1 - position]);
  bool subtract = add->kind == UPCONV_OP_SUB;
  if (subtract && position == 0) shift = uc_rewrite_sub(rewrite, uc_ref_constant(0), shift);
  fold_affine(rewrite, op, uc_ref_constant(subtract && position == 1 ? -1 : 1), shift);
  return true;
}
