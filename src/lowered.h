/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowered form: what rewrites produce and backends run. It is again a problem and an epilogue, plus
 *   params  how each parameter of the rewritten epilogue is computed, at pack time, from the caller's parameters
 *   folds   what happens, at pack time, to weights and bias
 * so that runtime parameters (a learned scale, batch norm) fold as well as constants do.
 *
 * Sizes are asked of the source: what it refuses is refused, and where its result is empty there is nothing to run. The
 * lowered program has the same output size everywhere else, but where the source's is empty it may have a negative one (an
 * overlapping pool, folded, at an input that gives no output of the convolution).
 */
#ifndef UPCONV_LOWERED_H
#define UPCONV_LOWERED_H

#include "epilogue.h"
#include "problem.h"

/* An operand of a pack-time formula: a constant, or an earlier entry of uc_lowered.param. */
typedef struct uc_ref {
  int param; /* index into uc_lowered.param, or -1: constant */
  double constant;
} uc_ref;

typedef enum uc_param_kind {
  UC_PARAM_INPUT, /* the caller's parameter number `input` */
  UC_PARAM_ADD,   /* a + b */
  UC_PARAM_SUB,
  UC_PARAM_MUL,
  UC_PARAM_DIV,
  UC_PARAM_SQRT,   /* sqrt(a) */
  UC_PARAM_SELECT, /* a > 0 ? b : c */
} uc_param_kind;

/* One pack-time parameter. Entries refer only to earlier ones. per_channel is false when all operands are single. */
typedef struct uc_param {
  uc_param_kind kind;
  int input;
  uc_ref a, b, c;
  bool per_channel;
  int64_t
      size; /* 1, or the channels of the value that uses it; 0: an input that no operator of the source uses */
} uc_param;

typedef enum uc_fold_kind {
  UC_FOLD_SCALE,    /* w[.., c, ..] *= by[c], bias[c] *= by[c] */
  UC_FOLD_SHIFT,    /* bias[c] += by[c] */
  UC_FOLD_AVG_POOL, /* w -> averaged weights of geometry `axis`; see docs/MATH.md, fold-avg-pool */
} uc_fold_kind;

typedef struct uc_fold {
  uc_fold_kind kind;
  uc_ref by;
  /* AVG_POOL: geometry before and after, and the window */
  uc_axis before[UC_AXES], after[UC_AXES];
  upconv_window window;
} uc_fold;

/* A rule that fired: its name and what it did, for explain. */
typedef struct uc_fired {
  const char *rule;
  char detail[160];
} uc_fired;

/* Bindings of the rewritten epilogue's parameters: declaration i of tail->param is uc_lowered.param[param_of_decl[i]]. */
typedef struct uc_lowered {
  upconv_problem source;        /* as the caller described it */
  upconv_epilogue *source_tail; /* as the caller wrote it */
  upconv_problem conv;          /* after folding */
  upconv_epilogue *tail; /* after rewriting; its tensors are the source's, with the same indices */
  int param_count, param_capacity;
  uc_param *param; /* the first source_tail->param_count entries are UC_PARAM_INPUT 0, 1, ... */
  int *param_of_decl;
  int fold_count, fold_capacity;
  uc_fold *fold;
  int fired_count, fired_capacity;
  uc_fired *fired;
} uc_lowered;

/*
 * Copies problem and epilogue (NULL: empty) and, unless no_rewrite, applies every rule until none fires. constants may
 * be NULL; when given, rules with preconditions on values may look at them. The tail's param declarations are named after
 * what they hold (@bias, @t0 for a derived one).
 */
upconv_status uc_lower(const upconv_problem *problem, const upconv_epilogue *epilogue,
                       const upconv_parameters *constants, bool no_rewrite, uc_lowered *lowered);
void uc_lowered_free(uc_lowered *lowered);

/* Pack-time results in float64. Freed with uc_folded_free. */
typedef struct uc_folded {
  double *weight; /* [in_channels, out_channels / groups, K0, K1, K2] of lowered->conv, dense */
  double *bias;   /* [out_channels]; zeros where there is none */
  double **param; /* per declaration of lowered->tail: one number, or one per channel */
  int param_count;
  /* what uc_fold_weights needs */
  upconv_tensor source_weight; /* the caller's, canonical */
  double *scale;               /* of the weights, per output channel */
} uc_folded;

/* Checks the caller's parameters against the source problem (names, ranks, shapes) and evaluates params and folds. */
upconv_status uc_fold_parameters(const uc_lowered *lowered, const upconv_parameters *parameters,
                                 uc_folded *folded);
/* The same, but for the weights: they are NULL. */
upconv_status uc_fold_all_but_weights(const uc_lowered *lowered,
                                      const upconv_parameters *parameters, uc_folded *folded);
/* The weights of `count` input channels of one group, from channel `first` of all on; number is the caller's to free. Large
   weights are packed so, piece by piece: a copy of all in float64 would take longer to get from the system than to fill. */
upconv_status uc_fold_weights(const uc_lowered *lowered, const uc_folded *folded, int64_t first,
                              int64_t count, double **number);
void uc_folded_free(uc_folded *folded);

/* The same checks without reading a number, for backends that fold where the parameters are. weight:
   canonical. */
upconv_status uc_lowered_check_parameters(const uc_lowered *lowered,
                                          const upconv_parameters *parameters,
                                          upconv_tensor *weight);

/* Number of elements of declaration i of lowered->tail: 1 or the channels of the value that uses it. */
int64_t uc_lowered_param_size(const uc_lowered *lowered, int decl);

/* Whether something of that kind was folded into the weights or the bias. */
bool uc_lowered_folds(const uc_lowered *lowered, uc_fold_kind kind);

/* Shapes of all values of conv and tail at the nominal extents: room for tail->op_count + 1. */
upconv_status uc_lowered_nominal_shapes(const uc_lowered *lowered, int64_t (*shape)[UC_RANK]);

#endif
