/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge-pools: a pool of a pool is one pool, if the windows of the first lie side by side without
 * gaps or overlap (r = R). Per axis, window q with stride Q of windows r covers q r elements, and
 *
 *   floor((floor((O - r) / r) + 1 - q) / Q) + 1 = floor((O - q r) / (Q r)) + 1
 *
 * so the sizes agree for every O. The maximum of maxima is the maximum; the average of averages is
 * the average, for the divisors multiply.
 */
#include "rewrite.h"

/* So that windows stay within what an operator may have. */
static const int64_t LARGEST_WINDOW = 1 << 20;

static bool is_bare(const upconv_window *window, int a) {
  return window->pad_begin[a] == 0 && window->pad_end[a] == 0 && window->dilation[a] == 1;
}

static bool merge_windows(const upconv_window *first, const upconv_window *second,
                          upconv_window *both) {
  *both = *second;
  if (first->ceil_mode || second->ceil_mode) return false;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t r = first->kernel[a];
    if (first->stride[a] != r || !is_bare(first, a) || !is_bare(second, a)) return false;
    if (r > LARGEST_WINDOW || second->kernel[a] > LARGEST_WINDOW / r ||
        second->stride[a] > LARGEST_WINDOW / r)
      return false;
    both->kernel[a] = r * second->kernel[a];
    both->stride[a] = r * second->stride[a];
  }
  return first->divisor == 0 && second->divisor == 0;
}

static bool same_kind(const upconv_op *first, const upconv_op *second) {
  const upconv_operand *a = &first->operand[1], *b = &second->operand[1];
  if (first->kind != second->kind) return false;
  return a->kind == b->kind && a->index == b->index && a->constant == b->constant;
}

/* Precondition: two pools of one kind (extreme_pool: of one direction), without padding, dilation,
   ceil mode and divisor of their own; the first has stride = window and only the second reads it.
   */
bool uc_rule_merge_pools(uc_rewrite *rewrite) {
  upconv_op *op = rewrite->lowered->tail->op;
  for (int i = 0; i < rewrite->lowered->tail->op_count; i++) {
    if (uc_op_classify(op[i].kind) != UC_CLASS_POOL) continue;
    int before = op[i].operand[0].index - 1;
    if (before < 0 || rewrite->uses[before + 1] != 1 || !same_kind(&op[before], &op[i])) continue;
    upconv_window both;
    if (!merge_windows(&op[before].window, &op[i].window, &both)) continue;
    uc_rewrite_note(rewrite, i);
    op[i].window = both;
    uc_rewrite_remove(rewrite, before, op[before].operand[0].index);
    return true;
  }
  return false;
}
