/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites: rules that make a lowered program cheaper and leave its results alone in real
 * arithmetic. Each rule is one function in a src/rewrite_*.c with its precondition above it;
 * rewrite.c holds the table and the driver, and the few steps that rules share.
 *
 * Preconditions hold for every batch, every input size and every value of the caller's parameters,
 * as far as these are finite (and not 0 where something is divided by them). A rule may use a
 * parameter's value only when the caller said that it never changes: uc_rewrite_bounds.
 */
#ifndef UPCONV_REWRITE_H
#define UPCONV_REWRITE_H

#include "lowered.h"

/* The value of a pack-time parameter: size numbers. number is NULL when it is unknown or unused. */
typedef struct uc_values {
  int64_t size;
  double *number;
} uc_values;

typedef struct uc_rewrite {
  uc_lowered *lowered;
  int *uses;     /* per value of the tail: how many operands read it, and 1 more for the result */
  bool constant; /* the caller's parameters never change ... */
  uc_values *known; /* ... and this is what each uc_lowered.param holds then */
  int known_count, capacity;
  char detail[sizeof((uc_fired *)NULL)->detail];
  upconv_status status; /* the first failure (of memory); makes the driver stop */
} uc_rewrite;

/* Looks for one place where the rule applies and rewrites it there. false: there is none (or
   rewrite->status is set). */
typedef bool uc_rule_function(uc_rewrite *rewrite);

/* rewrite_dead.c */
uc_rule_function uc_rule_dead_operator, uc_rule_identity, uc_rule_unread_planes;
/* rewrite_fold.c */
uc_rule_function uc_rule_fold_norm, uc_rule_fold_scale, uc_rule_fold_bias;
/* rewrite_avg_pool.c, rewrite_max_pool.c, rewrite_merge.c, rewrite_merge_pools.c */
uc_rule_function uc_rule_fold_avg_pool;
uc_rule_function uc_rule_hoist_max_pool;
uc_rule_function uc_rule_merge_activations;
uc_rule_function uc_rule_merge_pools;

/* Applies the table to lowered until no rule fires. constants may be NULL. */
upconv_status uc_rewrite_apply(uc_lowered *lowered, const upconv_parameters *constants);

/* ---- the program ---- */

/* Whether op reads exactly one value and otherwise only finite constants and parameters: a function
   of that value, channel by channel. *position is the value's operand. */
bool uc_rewrite_reads_one_value(const upconv_op *op, int *position);

/* The one operator that reads value, when it is read once and is not the result; else -1. */
int uc_rewrite_only_reader(const uc_rewrite *rewrite, int value);

/* Takes operator op out; whoever read its result reads value (an earlier one) instead. The last
   operator can only give way to the value before its own, which is the result then. */
void uc_rewrite_remove(uc_rewrite *rewrite, int op, int value);

/* Stores "name operands" of operator op as the detail of the rule that is firing, before it
   changes. */
void uc_rewrite_note(uc_rewrite *rewrite, int op);

/* ---- pack-time arithmetic ---- */

static inline uc_ref uc_ref_constant(double value) { return (uc_ref){-1, value}; }
static inline bool uc_ref_is(uc_ref ref, double value) {
  return ref.param < 0 && ref.constant == value;
}
static inline bool uc_ref_equal(uc_ref a, uc_ref b) {
  return a.param == b.param && (a.param >= 0 || a.constant == b.constant);
}

/* A constant or parameter operand as a reference, and back (declaring a parameter of the tail where
   there is none). */
uc_ref uc_rewrite_ref(const uc_rewrite *rewrite, upconv_operand operand);
upconv_operand uc_rewrite_operand(uc_rewrite *rewrite, uc_ref ref);

/* A formula over a, b, c (unused ones: anything): a constant, an operand where the formula reduces
   to it, an existing entry that is the same formula, or a new one. */
uc_ref uc_rewrite_formula(uc_rewrite *rewrite, uc_param_kind kind, uc_ref a, uc_ref b, uc_ref c);
static inline uc_ref uc_rewrite_mul(uc_rewrite *rewrite, uc_ref a, uc_ref b) {
  return uc_rewrite_formula(rewrite, UC_PARAM_MUL, a, b, uc_ref_constant(0));
}
static inline uc_ref uc_rewrite_sub(uc_rewrite *rewrite, uc_ref a, uc_ref b) {
  return uc_rewrite_formula(rewrite, UC_PARAM_SUB, a, b, uc_ref_constant(0));
}
static inline uc_ref uc_rewrite_div(uc_rewrite *rewrite, uc_ref a, uc_ref b) {
  return uc_rewrite_formula(rewrite, UC_PARAM_DIV, a, b, uc_ref_constant(0));
}
static inline uc_ref uc_rewrite_select(uc_rewrite *rewrite, uc_ref a, uc_ref b, uc_ref c) {
  return uc_rewrite_formula(rewrite, UC_PARAM_SELECT, a, b, c);
}

/* What is known about a reference: all its numbers lie in [*low, *high]. (-inf, inf) when nothing
   is. */
void uc_rewrite_bounds(const uc_rewrite *rewrite, uc_ref ref, double *low, double *high);

/* Appends a step to what happens to weights and bias; zero-filled but for kind and by. NULL: out of
   memory. */
uc_fold *uc_rewrite_fold(uc_rewrite *rewrite, uc_fold_kind kind, uc_ref by);

/* x -> positive * x where x > 0, else negative * x. */
typedef struct uc_slopes {
  uc_ref positive, negative;
} uc_slopes;

/* Whether op is such a function of one value (relu, leaky_relu, prelu, neg, abs, two_slope, and
   products and quotients with a constant or a parameter), and its slopes. */
bool uc_rewrite_slopes(uc_rewrite *rewrite, const upconv_op *op, uc_slopes *slopes);

/* ---- shared with fold.c ---- */

/* fold-avg-pool: taps k of axis that the folded tap u (in the coordinates of the rule's comment)
   sums, for a pool window r of stride R. */
uc_range uc_avg_pool_taps(const uc_axis *axis, int64_t r, int64_t R, int64_t u);

/* One number of a formula. */
double uc_param_number(uc_param_kind kind, double a, double b, double c);

/* Value of entry index of lowered->param from the caller's tensors (INPUT) or from earlier entries
   of value. Checks the tensor. number stays NULL for an input that nothing uses. */
upconv_status uc_param_evaluate(const uc_lowered *lowered, int index,
                                const upconv_parameters *parameters, uc_values *value);

/* param_count fits the epilogue and params is there. */
upconv_status uc_param_check_count(const uc_lowered *lowered, const upconv_parameters *parameters);

#endif
