/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hoist-max-pool: f(x) then a max_pool becomes the pool, then f. Where f rises, max f(x) = f(max
 * x); where it falls, max f(x) = f(min x). Which of the two holds may differ by channel and be
 * known only at pack time (f(x) = m x with a learned m): extreme_pool takes the sign as a
 * parameter. A maximum or minimum over whole spatial axes is treated likewise, if the sign is
 * known.
 *
 * f is applied to fewer elements, and what follows the pool can merge with it.
 */
#include <math.h>

#include "rewrite.h"

/* The sign of a factor, as a constant where it is known. A factor of 0 makes f constant: any sign
   will do. */
static uc_ref sign_of_factor(const uc_rewrite *rewrite, uc_ref factor) {
  double low, high;
  uc_rewrite_bounds(rewrite, factor, &low, &high);
  return low >= 0 ? uc_ref_constant(1) : high <= 0 ? uc_ref_constant(-1) : factor;
}

/* The direction of a pool or reduction, as a constant where it is known. Here 0 is on the side of
   max. */
static uc_ref direction_of_pool(const uc_rewrite *rewrite, const upconv_op *pool) {
  if (pool->kind != UPCONV_OP_EXTREME_POOL)
    return uc_ref_constant(pool->kind == UPCONV_OP_MIN ? -1 : 1);
  uc_ref dir = uc_rewrite_ref(rewrite, pool->operand[1]);
  double low, high;
  uc_rewrite_bounds(rewrite, dir, &low, &high);
  return low >= 0 ? uc_ref_constant(1) : high < 0 ? uc_ref_constant(-1) : dir;
}

/* Slopes on both sides have one sign, for sure. */
static bool slopes_agree(uc_rewrite *rewrite, const upconv_op *op, uc_ref *sign) {
  uc_slopes slopes;
  double low[2], high[2];
  if (!uc_rewrite_slopes(rewrite, op, &slopes)) return false;
  uc_rewrite_bounds(rewrite, slopes.positive, &low[0], &high[0]);
  uc_rewrite_bounds(rewrite, slopes.negative, &low[1], &high[1]);
  bool rises = low[0] >= 0 && low[1] >= 0, falls = high[0] <= 0 && high[1] <= 0;
  *sign = uc_ref_constant(rises ? 1 : -1);
  return rises || falls;
}

/*
 * Whether op, a function of one value per channel, is monotone and finite-valued for finite
 * parameters; *sign: it rises where this is > 0 and falls where it is < 0. Where a factor is 0, f
 * is constant and rises as well as it falls.
 */
static bool is_monotone(uc_rewrite *rewrite, const upconv_op *op, int position, uc_ref *sign) {
  /* Softplus steps down by less than exp(-threshold) / beta where it becomes linear, 1e-10 of its
     value at the usual threshold of 20. */
  const double usual_threshold = 20;
  *sign = uc_ref_constant(1);
  switch (op->kind) {
  case UPCONV_OP_RELU:
  case UPCONV_OP_SOFTSIGN:
  case UPCONV_OP_SIGMOID:
  case UPCONV_OP_TANH:
  case UPCONV_OP_ADD:
    return true;
  case UPCONV_OP_CLAMP:
    return op->attr[0] < INFINITY && op->attr[1] > -INFINITY;
  case UPCONV_OP_ELU:
    return op->attr[0] >= 0;
  case UPCONV_OP_SELU:
    return op->attr[0] >= 0 && op->attr[1] >= 0;
  case UPCONV_OP_CELU:
    return op->attr[0] > 0;
  case UPCONV_OP_HARDSIGMOID:
    return op->attr[0] >= 0;
  case UPCONV_OP_SOFTPLUS:
    return op->attr[0] > 0 && op->attr[1] >= usual_threshold;
  case UPCONV_OP_SUB:
    if (position == 1) *sign = uc_ref_constant(-1);
    return true;
  case UPCONV_OP_MUL:
    *sign = sign_of_factor(rewrite, uc_rewrite_ref(rewrite, op->operand[1 - position]));
    return true;
  case UPCONV_OP_DIV:
    if (position == 1) return false;
    *sign = sign_of_factor(rewrite, uc_rewrite_ref(rewrite, op->operand[1]));
    return !uc_ref_is(uc_rewrite_ref(rewrite, op->operand[1]), 0);
  case UPCONV_OP_BATCH_NORM:
    if (op->operand[1].kind != UPCONV_OPERAND_NONE)
      *sign = sign_of_factor(rewrite, uc_rewrite_ref(rewrite, op->operand[1]));
    return true;
  case UPCONV_OP_LEAKY_RELU:
  case UPCONV_OP_PRELU:
  case UPCONV_OP_NEG:
  case UPCONV_OP_TWO_SLOPE:
    return slopes_agree(rewrite, op, sign);
  default:
    return false;
  }
}

/* The pool's direction before f, when f rises where sign > 0 and falls where it is < 0. Signs are
   selected, never multiplied: a product of small numbers can be 0. */
static uc_ref turn(uc_rewrite *rewrite, uc_ref dir, uc_ref sign) {
  if (uc_ref_is(dir, 1) && sign.param >= 0) return sign;
  uc_ref zero = uc_ref_constant(0), plus = uc_ref_constant(1), minus = uc_ref_constant(-1);
  uc_ref is_min = uc_rewrite_sub(rewrite, zero, dir);
  uc_ref turned = uc_rewrite_select(rewrite, is_min, plus, minus);
  return uc_rewrite_select(rewrite, sign, dir, turned);
}

/* A pool or reduction that picks elements and makes fewer of them. Not over channels: f differs
   there. */
static bool picks_fewer(const upconv_op *op) {
  const int64_t *stride = op->window.stride;
  switch (op->kind) {
  case UPCONV_OP_MAX:
  case UPCONV_OP_MIN:
    return !(op->axes & UC_AXES_CHANNEL);
  case UPCONV_OP_MAX_POOL:
  case UPCONV_OP_EXTREME_POOL:
    return stride[0] > 1 || stride[1] > 1 || stride[2] > 1;
  default:
    return false;
  }
}

/* Gives the pool or reduction a direction. false: it cannot have one that is not known. */
static bool set_direction(uc_rewrite *rewrite, upconv_op *pool, uc_ref dir) {
  bool reduces = uc_op_classify(pool->kind) == UC_CLASS_REDUCE;
  bool always_max = dir.param < 0 && dir.constant >= 0;
  pool->operand[1] = (upconv_operand){.kind = UPCONV_OPERAND_NONE};
  if (reduces) {
    pool->kind = always_max ? UPCONV_OP_MAX : UPCONV_OP_MIN;
    return dir.param < 0;
  }
  pool->kind = always_max ? UPCONV_OP_MAX_POOL : UPCONV_OP_EXTREME_POOL;
  if (!always_max) pool->operand[1] = uc_rewrite_operand(rewrite, dir);
  return true;
}

/*
 * Swaps operator i and the one that makes its operand. Precondition: a max_pool, extreme_pool, max
 * or min that makes fewer elements is the only reader of a value made by a monotone function, per
 * channel, of one other value. A function of one value, constants and parameters does not
 * broadcast, so the pool sees the same shape. Its padding is never an element, and no window is all
 * padding (uc_epilogue_shapes), so padding needs no identity.
 */
static bool hoist(uc_rewrite *rewrite, int i, uc_text *text) {
  upconv_op *op = rewrite->lowered->tail->op;
  if (!picks_fewer(&op[i])) return false;
  int before = op[i].operand[0].index - 1, position = 0;
  if (before < 0 || rewrite->uses[before + 1] != 1) return false;
  upconv_op f = op[before], pool = op[i];
  uc_ref sign;
  if (!uc_rewrite_reads_one_value(&f, &position) || !is_monotone(rewrite, &f, position, &sign))
    return false;
  uc_ref dir = turn(rewrite, direction_of_pool(rewrite, &pool), sign);
  if (!set_direction(rewrite, &pool, dir)) return false;
  uc_text_add(text, text->length ? ", " : "");
  uc_op_print(rewrite->lowered->tail, before, text);
  pool.operand[0] = f.operand[position];
  f.operand[position] = (upconv_operand){.kind = UPCONV_OPERAND_VALUE, .index = before + 1};
  op[before] = pool;
  op[i] = f;
  return true;
}

/* Moves the first pool that can be moved, as far as it goes. The function that it passes is now the
   only reader of the pool's result, as the pool was of the function's. */
bool uc_rule_hoist_max_pool(uc_rewrite *rewrite) {
  const upconv_epilogue *tail = rewrite->lowered->tail;
  uc_text text;
  uc_text_init(&text, rewrite->detail, sizeof rewrite->detail);
  for (int i = 0; i < tail->op_count; i++) {
    /* The value that the pool reads is the one made where the pool will be. */
    for (int at = i; at >= 0;) {
      int before = tail->op[at].operand[0].index - 1;
      at = hoist(rewrite, at, &text) ? before : -1;
    }
    if (text.length) return true;
  }
  return false;
}
