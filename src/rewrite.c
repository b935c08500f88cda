/* SPDX-License-Identifier: Apache-2.0 */
#include "rewrite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

/*
 * In the order in which they are tried; after one has fired, the driver starts again from the top.
 * First what makes the program smaller, because the folds need value 0 to have one reader; then the
 * folds; then hoisting, which must be done before merging: a two_slope of unknown slopes is not
 * monotone, its parts are; pools are merged after they have met. Each rule removes an operator or
 * moves a pool towards the convolution, so the process ends.
 */
static const struct {
  const char *name;
  uc_rule_function *apply;
} rules[] = {
    {"drop-dead", uc_rule_dead_operator},       {"drop-identity", uc_rule_identity},
    {"fold-norm", uc_rule_fold_norm},           {"fold-scale", uc_rule_fold_scale},
    {"fold-bias", uc_rule_fold_bias},           {"fold-avg-pool", uc_rule_fold_avg_pool},
    {"hoist-max-pool", uc_rule_hoist_max_pool}, {"merge-activations", uc_rule_merge_activations},
    {"merge-pools", uc_rule_merge_pools},
};

static void out_of_memory(uc_rewrite *rewrite) {
  if (!rewrite->status)
    rewrite->status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for rewriting the program");
}

/* Room for one element more: array, or a larger copy. NULL: out of memory, and the array is as it
   was. */
static void *reserve(uc_rewrite *rewrite, void *array, int count, int *capacity, size_t size) {
  if (count < *capacity) return array;
  int larger = *capacity < 4 ? 8 : *capacity * 2;
  void *grown = realloc(array, (size_t)larger * size);
  if (grown)
    *capacity = larger;
  else
    out_of_memory(rewrite);
  return grown;
}

/* ---- the program ---- */

static void count_uses(uc_rewrite *rewrite) {
  const upconv_epilogue *tail = rewrite->lowered->tail;
  memset(rewrite->uses, 0, ((size_t)tail->op_count + 1) * sizeof *rewrite->uses);
  for (int i = 0; i < tail->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++)
      if (tail->op[i].operand[j].kind == UPCONV_OPERAND_VALUE)
        rewrite->uses[tail->op[i].operand[j].index]++;
  rewrite->uses[tail->op_count]++;
}

bool uc_rewrite_reads_one_value(const upconv_op *op, int *position) {
  int values = 0;
  for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
    const upconv_operand *operand = &op->operand[j];
    if (operand->kind == UPCONV_OPERAND_TENSOR) return false;
    if (operand->kind == UPCONV_OPERAND_CONSTANT && !isfinite(operand->constant)) return false;
    if (operand->kind != UPCONV_OPERAND_VALUE) continue;
    values++;
    *position = j;
  }
  return values == 1;
}

int uc_rewrite_only_reader(const uc_rewrite *rewrite, int value) {
  const upconv_epilogue *tail = rewrite->lowered->tail;
  if (rewrite->uses[value] != 1) return -1;
  for (int i = value; i < tail->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++)
      if (tail->op[i].operand[j].kind == UPCONV_OPERAND_VALUE &&
          tail->op[i].operand[j].index == value)
        return i;
  return -1; /* the use is the result */
}

void uc_rewrite_remove(uc_rewrite *rewrite, int op, int value) {
  upconv_epilogue *tail = rewrite->lowered->tail;
  tail->op_count--;
  memmove(&tail->op[op], &tail->op[op + 1], (size_t)(tail->op_count - op) * sizeof *tail->op);
  for (int i = op; i < tail->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      upconv_operand *operand = &tail->op[i].operand[j];
      if (operand->kind != UPCONV_OPERAND_VALUE || operand->index <= op) continue;
      operand->index = operand->index == op + 1 ? value : operand->index - 1;
    }
}

void uc_rewrite_note(uc_rewrite *rewrite, int op) {
  uc_text text;
  uc_text_init(&text, rewrite->detail, sizeof rewrite->detail);
  uc_op_print(rewrite->lowered->tail, op, &text);
}

/* ---- pack-time arithmetic ---- */

uc_ref uc_rewrite_ref(const uc_rewrite *rewrite, upconv_operand operand) {
  if (operand.kind == UPCONV_OPERAND_PARAM)
    return (uc_ref){rewrite->lowered->param_of_decl[operand.index], 0};
  return uc_ref_constant(operand.constant);
}

static bool name_taken(const upconv_epilogue *tail, const char *name) {
  for (int i = 0; i < tail->param_count; i++)
    if (strcmp(tail->param[i].name, name) == 0) return true;
  for (int i = 0; i < tail->tensor_count; i++)
    if (strcmp(tail->tensor[i].name, name) == 0) return true;
  return false;
}

/* Declares an entry of lowered->param in the tail as t0, t1, ... Not by upconv_epilogue_param,
   whose limit on parameters is one for users: with the declarations that pruning will drop, a valid
   program may pass it. */
static void declare(uc_rewrite *rewrite, int param) {
  uc_lowered *lowered = rewrite->lowered;
  upconv_epilogue *tail = lowered->tail;
  enum { LONGEST = 16 };
  size_t count = (size_t)tail->param_count;
  char *name = malloc(LONGEST);
  int *bindings = realloc(lowered->param_of_decl, (count + 1) * sizeof *bindings);
  if (bindings) lowered->param_of_decl = bindings;
  uc_param_decl *grown =
      reserve(rewrite, tail->param, tail->param_count, &tail->param_capacity, sizeof *tail->param);
  if (grown) tail->param = grown;
  if (!name || !bindings || !grown) {
    free(name);
    out_of_memory(rewrite);
    return;
  }
  int number = 0;
  do snprintf(name, LONGEST, "t%d", number++);
  while (name_taken(tail, name));
  bindings[count] = param;
  grown[count] = (uc_param_decl){name, lowered->param[param].per_channel};
  tail->param_count++;
}

upconv_operand uc_rewrite_operand(uc_rewrite *rewrite, uc_ref ref) {
  if (ref.param < 0)
    return (upconv_operand){.kind = UPCONV_OPERAND_CONSTANT, .constant = ref.constant};
  const uc_lowered *lowered = rewrite->lowered;
  int decl = 0;
  while (decl < lowered->tail->param_count && lowered->param_of_decl[decl] != ref.param) decl++;
  if (decl == lowered->tail->param_count) declare(rewrite, ref.param);
  return (upconv_operand){.kind = UPCONV_OPERAND_PARAM, .index = decl};
}

void uc_rewrite_bounds(const uc_rewrite *rewrite, uc_ref ref, double *low, double *high) {
  *low = *high = ref.constant;
  if (ref.param < 0) return;
  *low = -INFINITY;
  *high = INFINITY;
  const uc_values *known = ref.param < rewrite->known_count ? &rewrite->known[ref.param] : NULL;
  if (!known || !known->number) return;
  double least = INFINITY, greatest = -INFINITY;
  for (int64_t i = 0; i < known->size; i++) {
    if (!isfinite(known->number[i])) return;
    least = fmin(least, known->number[i]);
    greatest = fmax(greatest, known->number[i]);
  }
  *low = least;
  *high = greatest;
}

/* Whether the formula is one of its operands or a constant. Parameters are finite: 0 times one is
   0. */
static bool simplify(const uc_rewrite *rewrite, const uc_param *p, uc_ref *result) {
  bool constant = p->a.param < 0 && p->b.param < 0 && p->c.param < 0;
  if (constant) {
    /* + 0: a slope of -0 is 0. */
    *result =
        uc_ref_constant(uc_param_number(p->kind, p->a.constant, p->b.constant, p->c.constant) + 0);
    return true;
  }
  double low, high;
  switch (p->kind) {
  case UC_PARAM_ADD:
    *result = uc_ref_is(p->a, 0) ? p->b : p->a;
    return uc_ref_is(p->a, 0) || uc_ref_is(p->b, 0);
  case UC_PARAM_SUB:
    *result = p->a;
    return uc_ref_is(p->b, 0);
  case UC_PARAM_MUL:
    *result = uc_ref_is(p->a, 1) || uc_ref_is(p->b, 0) ? p->b : p->a;
    return uc_ref_is(p->a, 1) || uc_ref_is(p->b, 1) || uc_ref_is(p->a, 0) || uc_ref_is(p->b, 0);
  case UC_PARAM_DIV:
    *result = p->a;
    return uc_ref_is(p->b, 1);
  case UC_PARAM_SELECT:
    uc_rewrite_bounds(rewrite, p->a, &low, &high);
    *result = low > 0 ? p->b : p->c;
    return low > 0 || high <= 0 || uc_ref_equal(p->b, p->c);
  case UC_PARAM_INPUT:
  case UC_PARAM_SQRT:
    break;
  }
  return false;
}

static int64_t ref_size(const uc_lowered *lowered, uc_ref ref) {
  return ref.param < 0 ? 1 : lowered->param[ref.param].size;
}

static bool ref_per_channel(const uc_lowered *lowered, uc_ref ref) {
  return ref.param >= 0 && lowered->param[ref.param].per_channel;
}

static int find_formula(const uc_lowered *lowered, const uc_param *p) {
  for (int i = 0; i < lowered->param_count; i++) {
    const uc_param *q = &lowered->param[i];
    if (q->kind == p->kind && uc_ref_equal(q->a, p->a) && uc_ref_equal(q->b, p->b) &&
        uc_ref_equal(q->c, p->c))
      return i;
  }
  return -1;
}

/* Evaluates entry number known_count of lowered->param, when its value is known. */
static void learn(uc_rewrite *rewrite, const upconv_parameters *constants) {
  uc_values *grown = reserve(rewrite, rewrite->known, rewrite->known_count, &rewrite->capacity,
                             sizeof *rewrite->known);
  if (!grown) return;
  rewrite->known = grown;
  grown[rewrite->known_count] = (uc_values){0, NULL};
  upconv_status status =
      uc_param_evaluate(rewrite->lowered, rewrite->known_count, constants, grown);
  if (status && !rewrite->status) rewrite->status = status;
  rewrite->known_count++;
}

uc_ref uc_rewrite_formula(uc_rewrite *rewrite, uc_param_kind kind, uc_ref a, uc_ref b, uc_ref c) {
  uc_lowered *lowered = rewrite->lowered;
  uc_param p = {.kind = kind, .a = a, .b = b, .c = c};
  uc_ref simple;
  if (simplify(rewrite, &p, &simple)) return simple;
  int found = find_formula(lowered, &p);
  if (found >= 0) return (uc_ref){found, 0};
  uc_param *grown = reserve(rewrite, lowered->param, lowered->param_count, &lowered->param_capacity,
                            sizeof *lowered->param);
  if (!grown) return uc_ref_constant(0);
  lowered->param = grown;
  p.per_channel =
      ref_per_channel(lowered, a) || ref_per_channel(lowered, b) || ref_per_channel(lowered, c);
  int64_t size = ref_size(lowered, a), size_b = ref_size(lowered, b), size_c = ref_size(lowered, c);
  if (size_b > size) size = size_b;
  if (size_c > size) size = size_c;
  p.size = size;
  grown[lowered->param_count++] = p;
  if (rewrite->constant) learn(rewrite, NULL);
  return (uc_ref){lowered->param_count - 1, 0};
}

uc_fold *uc_rewrite_fold(uc_rewrite *rewrite, uc_fold_kind kind, uc_ref by) {
  uc_lowered *lowered = rewrite->lowered;
  uc_fold *grown = reserve(rewrite, lowered->fold, lowered->fold_count, &lowered->fold_capacity,
                           sizeof *lowered->fold);
  if (!grown) return NULL;
  lowered->fold = grown;
  uc_fold *fold = &grown[lowered->fold_count++];
  *fold = (uc_fold){.kind = kind, .by = by};
  return fold;
}

/* ---- the driver ---- */

static void record(uc_rewrite *rewrite, const char *rule) {
  uc_lowered *lowered = rewrite->lowered;
  uc_fired *grown = reserve(rewrite, lowered->fired, lowered->fired_count, &lowered->fired_capacity,
                            sizeof *lowered->fired);
  if (!grown) return;
  lowered->fired = grown;
  uc_fired *fired = &grown[lowered->fired_count++];
  fired->rule = rule;
  memcpy(fired->detail, rewrite->detail, sizeof fired->detail);
}

/* Tries the rules in order; true when one has fired. */
static bool step(uc_rewrite *rewrite) {
  count_uses(rewrite);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    bool fired = rules[i].apply(rewrite);
    if (rewrite->status) return false;
    if (!fired) continue;
    record(rewrite, rules[i].name);
    return true;
  }
  return false;
}

upconv_status uc_rewrite_apply(uc_lowered *lowered, const upconv_parameters *constants) {
  uc_rewrite rewrite = {.lowered = lowered, .constant = constants != NULL};
  rewrite.uses = malloc(((size_t)lowered->tail->op_count + 1) * sizeof *rewrite.uses);
  if (!rewrite.uses) out_of_memory(&rewrite);
  if (constants && !rewrite.status) rewrite.status = uc_param_check_count(lowered, constants);
  if (constants)
    for (int i = 0; i < lowered->param_count && !rewrite.status; i++) learn(&rewrite, constants);
  while (!rewrite.status && step(&rewrite)) continue;
  /* Once, at the end: it reads the final program and enables no other rule. */
  if (!rewrite.status && uc_rule_unread_planes(&rewrite)) record(&rewrite, "drop-dead");
  for (int i = 0; i < rewrite.known_count; i++) free(rewrite.known[i].number);
  free(rewrite.known);
  free(rewrite.uses);
  return rewrite.status;
}
