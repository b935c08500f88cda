/* SPDX-License-Identifier: Apache-2.0 */
/* drop-dead and drop-identity: what nobody reads, and what changes nothing. */
#include <math.h>

#include "checked.h"
#include "rewrite.h"

/* Precondition: no operator reads the value, and it is not the result. */
bool uc_rule_dead_operator(uc_rewrite *rewrite) {
  const upconv_epilogue *tail = rewrite->lowered->tail;
  for (int i = tail->op_count - 1; i >= 0; i--) {
    if (rewrite->uses[i + 1]) continue;
    uc_rewrite_note(rewrite, i);
    uc_rewrite_remove(rewrite, i, 0);
    return true;
  }
  return false;
}

/* ---- identities ---- */

static bool is_one(const uc_rewrite *rewrite, uc_ref ref) {
  double low, high;
  uc_rewrite_bounds(rewrite, ref, &low, &high);
  return low == 1 && high == 1;
}

static bool window_is_one_element(const upconv_window *window) {
  for (int a = 0; a < UC_AXES; a++)
    if (window->kernel[a] != 1 || window->stride[a] != 1) return false;
  return window->divisor == 0 || window->divisor == 1;
}

/* Bit for bit, for any input. Not so x + 0, which turns -0 into 0. A window of one element has no
   padding: that is less than the window. */
static bool is_identity(uc_rewrite *rewrite, const upconv_op *op, int *position) {
  if (!uc_rewrite_reads_one_value(op, position)) return false;
  uc_slopes slopes;
  switch (op->kind) {
  case UPCONV_OP_MAX_POOL:
  case UPCONV_OP_AVG_POOL:
  case UPCONV_OP_EXTREME_POOL:
    return window_is_one_element(&op->window);
  case UPCONV_OP_CLAMP:
    return op->attr[0] == -INFINITY && op->attr[1] == INFINITY;
  default:
    return uc_rewrite_slopes(rewrite, op, &slopes) && is_one(rewrite, slopes.positive) &&
           is_one(rewrite, slopes.negative);
  }
}

/* Precondition: the operator's result is its operand. (As the last operator it reads the value just
   before: what lies between would be dead.) */
bool uc_rule_identity(uc_rewrite *rewrite) {
  const upconv_epilogue *tail = rewrite->lowered->tail;
  for (int i = 0; i < tail->op_count; i++) {
    int position = 0;
    if (!is_identity(rewrite, &tail->op[i], &position)) continue;
    int value = tail->op[i].operand[position].index;
    uc_rewrite_note(rewrite, i);
    uc_rewrite_remove(rewrite, i, value);
    return true;
  }
  return false;
}

/* ---- unread planes ---- */

/*
 * Planes at the end of an axis that no window reads. With N = O + p - (d (r - 1) + 1), the room for
 * windows to move, the last window starts R floor(N / R) after the first, and N mod R planes are
 * left over.
 *
 * O = (I - 1) s + c. Where the pool's stride R divides s that is the same number for every input
 * size, and the convolution need not make these planes: its padding at the end grows by as much,
 * and N falls to a multiple of R, so the pool's output keeps its size.
 */
static int64_t unread(const uc_axis *axis, const upconv_window *window, int a, bool *every_size) {
  int64_t R = window->stride[a], out_size;
  int64_t reach = window->dilation[a] * (window->kernel[a] - 1) + 1 - window->pad_begin[a];
  *every_size = false;
  if (window->pad_end[a] || (window->ceil_mode && R > 1)) return 0;
  if (!uc_axis_output(axis, axis->in_size, &out_size) || out_size < reach) return 0;
  *every_size = axis->stride % R == 0 && axis->pad_end <= INT32_MAX - R;
  return (out_size - reach) % R;
}

/* Precondition: value 0 has one reader, a pool. Planes unread at every size are not computed; those
   unread at the nominal size are reported (execution computes only what its output needs). */
bool uc_rule_unread_planes(uc_rewrite *rewrite) {
  static const char axis_letter[UC_AXES] = {'d', 'h', 'w'};
  uc_lowered *lowered = rewrite->lowered;
  int reader = lowered->tail->op_count ? uc_rewrite_only_reader(rewrite, 0) : -1;
  if (reader < 0 || uc_op_classify(lowered->tail->op[reader].kind) != UC_CLASS_POOL) return false;
  uc_text text;
  uc_text_init(&text, rewrite->detail, sizeof rewrite->detail);
  uc_op_print(lowered->tail, reader, &text);
  bool found = false;
  for (int a = 0; a < UC_AXES; a++) {
    bool every_size;
    int64_t planes =
        unread(&lowered->conv.axis[a], &lowered->tail->op[reader].window, a, &every_size);
    if (!planes) continue;
    found = true;
    uc_text_add(&text, ", %lld unread at the end of %c", (long long)planes, axis_letter[a]);
    if (every_size)
      lowered->conv.axis[a].pad_end += planes;
    else
      uc_text_add(&text, " at this size");
  }
  return found;
}
