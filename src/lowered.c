/* SPDX-License-Identifier: Apache-2.0 */
#include "lowered.h"

#include <stdlib.h>

#include "rewrite.h"
#include "status.h"

static upconv_status no_memory(void) {
  return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the lowered program");
}

/* ---- what the caller wrote ---- */

static upconv_status copy_tail(const upconv_problem *problem, const upconv_epilogue *epilogue,
                               upconv_epilogue **copy) {
  if (!epilogue) return upconv_epilogue_create(problem->nd, copy);
  if (epilogue->nd != problem->nd)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "the epilogue has %d spatial axes; the problem needs %d", epilogue->nd,
                   problem->nd);
  return uc_epilogue_copy(epilogue, copy);
}

/* Size of each parameter that an operator uses, from the shape of that operator's result. */
static void size_inputs(uc_lowered *lowered, const int64_t (*shape)[UC_RANK]) {
  const upconv_epilogue *tail = lowered->source_tail;
  for (int i = 0; i < tail->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      const upconv_operand *operand = &tail->op[i].operand[j];
      if (operand->kind != UPCONV_OPERAND_PARAM) continue;
      uc_param *param = &lowered->param[operand->index];
      param->size = param->per_channel ? shape[i + 1][1] : 1;
    }
}

/* The epilogue fits the problem; its parameters become the first entries of lowered->param. */
static upconv_status declare_inputs(uc_lowered *lowered) {
  const upconv_epilogue *tail = lowered->source_tail;
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = lowered->source.axis[a].in_size;
  int64_t(*shape)[UC_RANK] = malloc(((size_t)tail->op_count + 1) * sizeof *shape);
  size_t count = (size_t)tail->param_count;
  lowered->param = calloc(count + 1, sizeof *lowered->param);
  lowered->param_of_decl = calloc(count + 1, sizeof *lowered->param_of_decl);
  upconv_status status = UPCONV_OK;
  if (!shape || !lowered->param || !lowered->param_of_decl) status = no_memory();
  if (!status)
    status = uc_problem_conv_shape(&lowered->source, lowered->source.batch, in_size, shape[0]);
  if (!status) status = uc_epilogue_shapes(tail, shape[0], shape);
  if (!status) {
    lowered->param_count = tail->param_count;
    lowered->param_capacity = tail->param_count + 1;
    for (int i = 0; i < tail->param_count; i++) {
      lowered->param[i] = (uc_param){.kind = UC_PARAM_INPUT,
                                     .input = i,
                                     .a = uc_ref_constant(0),
                                     .b = uc_ref_constant(0),
                                     .c = uc_ref_constant(0),
                                     .per_channel = tail->param[i].per_channel};
      lowered->param_of_decl[i] = i;
    }
    size_inputs(lowered, (const int64_t(*)[UC_RANK])shape);
  }
  free(shape);
  return status;
}

/* ---- pruning: what the rewritten program no longer uses ---- */

/* Keeps the declarations that operators read, in the order of their first mention, in which they
   need not be listed when the tail is printed. map: room for an index per declaration; new
   declarations are built in param and bound. */
static void order_declarations(uc_lowered *lowered, int *map, uc_param_decl *param, int *bound) {
  /* batch_norm names mean and variance first. */
  static const int order[UPCONV_MAX_OPERANDS] = {0, 3, 4, 1, 2};
  upconv_epilogue *tail = lowered->tail;
  int kept = 0;
  for (int i = 0; i < tail->param_count; i++) map[i] = -1;
  for (int i = 0; i < tail->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      bool norm = tail->op[i].kind == UPCONV_OP_BATCH_NORM;
      upconv_operand *operand = &tail->op[i].operand[norm ? order[j] : j];
      if (operand->kind != UPCONV_OPERAND_PARAM) continue;
      int old = operand->index;
      if (map[old] < 0) {
        map[old] = kept;
        bound[kept] = lowered->param_of_decl[old];
        param[kept++] = tail->param[old];
      }
      operand->index = map[old];
    }
  for (int i = 0; i < tail->param_count; i++)
    if (map[i] < 0) free(tail->param[i].name);
  tail->param_count = kept;
}

static upconv_status prune_declarations(uc_lowered *lowered, int *map) {
  upconv_epilogue *tail = lowered->tail;
  size_t count = (size_t)tail->param_count + 1;
  uc_param_decl *param = malloc(count * sizeof *param);
  int *bound = malloc(count * sizeof *bound);
  if (!param || !bound) {
    free(param);
    free(bound);
    return no_memory();
  }
  tail->param_capacity = tail->param_count + 1;
  order_declarations(lowered, map, param, bound);
  free(tail->param);
  free(lowered->param_of_decl);
  tail->param = param;
  lowered->param_of_decl = bound;
  return UPCONV_OK;
}

static void mark(int *map, uc_ref ref) {
  if (ref.param >= 0) map[ref.param] = 0;
}

static void renumber(const int *map, uc_ref *ref) {
  if (ref->param >= 0) ref->param = map[ref->param];
}

/* Drops formulas that neither a declaration nor a fold needs; the caller's parameters stay. */
static void prune_formulas(uc_lowered *lowered, int *map) {
  int inputs = lowered->source_tail->param_count, kept = 0;
  for (int i = 0; i < lowered->param_count; i++) map[i] = i < inputs ? 0 : -1;
  for (int i = 0; i < lowered->tail->param_count; i++) map[lowered->param_of_decl[i]] = 0;
  for (int i = 0; i < lowered->fold_count; i++) mark(map, lowered->fold[i].by);
  for (int i = lowered->param_count - 1; i >= 0; i--) {
    if (map[i] < 0) continue;
    mark(map, lowered->param[i].a);
    mark(map, lowered->param[i].b);
    mark(map, lowered->param[i].c);
  }
  for (int i = 0; i < lowered->param_count; i++) {
    if (map[i] < 0) continue;
    uc_param param = lowered->param[i];
    renumber(map, &param.a);
    renumber(map, &param.b);
    renumber(map, &param.c);
    map[i] = kept;
    lowered->param[kept++] = param;
  }
  lowered->param_count = kept;
  for (int i = 0; i < lowered->tail->param_count; i++)
    lowered->param_of_decl[i] = map[lowered->param_of_decl[i]];
  for (int i = 0; i < lowered->fold_count; i++) renumber(map, &lowered->fold[i].by);
}

static upconv_status prune(uc_lowered *lowered) {
  int declarations = lowered->tail->param_count, formulas = lowered->param_count;
  size_t count = (size_t)(declarations > formulas ? declarations : formulas) + 1;
  int *map = malloc(count * sizeof *map);
  if (!map) return no_memory();
  upconv_status status = prune_declarations(lowered, map);
  if (!status) prune_formulas(lowered, map);
  free(map);
  return status;
}

/* ---- the public steps ---- */

upconv_status uc_lower(const upconv_problem *problem, const upconv_epilogue *epilogue,
                       const upconv_parameters *constants, bool no_rewrite, uc_lowered *lowered) {
  uc_lowered result = {.source = *problem, .conv = *problem};
  upconv_status status = copy_tail(problem, epilogue, &result.source_tail);
  if (!status) status = uc_epilogue_copy(result.source_tail, &result.tail);
  if (!status) status = declare_inputs(&result);
  if (!status && !no_rewrite) status = uc_rewrite_apply(&result, constants);
  if (!status) status = prune(&result);
  if (status)
    uc_lowered_free(&result);
  else
    *lowered = result;
  return status;
}

void uc_lowered_free(uc_lowered *lowered) {
  if (!lowered) return;
  upconv_epilogue_destroy(lowered->source_tail);
  upconv_epilogue_destroy(lowered->tail);
  free(lowered->param);
  free(lowered->param_of_decl);
  free(lowered->fold);
  free(lowered->fired);
  *lowered = (uc_lowered){.source_tail = NULL};
}

int64_t uc_lowered_param_size(const uc_lowered *lowered, int decl) {
  return lowered->param[lowered->param_of_decl[decl]].size;
}

upconv_status uc_lowered_nominal_shapes(const uc_lowered *lowered, int64_t (*shape)[UC_RANK]) {
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = lowered->conv.axis[a].in_size;
  upconv_status status =
      uc_problem_conv_shape(&lowered->conv, lowered->conv.batch, in_size, shape[0]);
  return status == UPCONV_OK ? uc_epilogue_shapes(lowered->tail, shape[0], shape) : status;
}

bool uc_lowered_folds(const uc_lowered *lowered, uc_fold_kind kind) {
  for (int i = 0; i < lowered->fold_count; i++)
    if (lowered->fold[i].kind == kind) return true;
  return false;
}
