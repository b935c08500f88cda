/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan does, for a person. */
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "plan.h"
#include "status.h"

/* ---- work ---- */

static double macs(const upconv_problem *p) {
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = p->axis[a].in_size;
  return uc_problem_macs(p, p->batch, in_size);
}

static double elements(const int64_t shape[UC_RANK]) {
  double count = 1;
  for (int i = 0; i < UC_RANK; i++) count *= (double)shape[i];
  return count;
}

static void x_shape_of(const upconv_problem *p, int64_t x[UC_RANK]) {
  x[0] = p->batch;
  x[1] = p->in_channels;
  for (int a = 0; a < UC_AXES; a++) x[a + 2] = p->axis[a].in_size;
}

/* Shapes of all values at the nominal sizes; NULL when there is no memory. Freed by the caller. */
static int64_t (*nominal_shapes(const upconv_problem *conv, const upconv_epilogue *tail))[UC_RANK] {
  int64_t(*shape)[UC_RANK] = calloc((size_t)tail->op_count + 1, sizeof *shape), x[UC_RANK];
  x_shape_of(conv, x);
  if (!shape) return NULL;
  if (uc_problem_conv_shape(conv, x[0], x + 2, shape[0]) == UPCONV_OK &&
      uc_epilogue_shapes(tail, shape[0], shape) == UPCONV_OK)
    return shape;
  free(shape);
  return NULL;
}

static double tensor_elements(const uc_tensor_decl *decl, const int64_t result[UC_RANK]) {
  double count = 1;
  for (int i = 0; i < UC_RANK; i++)
    if (decl->axes >> i & 1) count *= (double)result[i];
  return count;
}

/* Bytes of the extra tensors that operators read. */
static double tensor_bytes(const upconv_epilogue *tail, const int64_t (*shape)[UC_RANK]) {
  double bytes = 0;
  for (int k = 0; k < tail->op_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      const upconv_operand *o = &tail->op[k].operand[i];
      if (o->kind != UPCONV_OPERAND_TENSOR) continue;
      const uc_tensor_decl *decl = &tail->tensor[o->index];
      bytes += tensor_elements(decl, shape[k + 1]) * (double)upconv_dtype_size(decl->dtype);
    }
  return bytes;
}

/* Operator by operator, every intermediate is written once and read by each of its readers. */
static double intermediate_bytes(const upconv_epilogue *tail, const int64_t (*shape)[UC_RANK],
                                 size_t size) {
  double bytes = 0;
  for (int k = 0; k < tail->op_count; k++) {
    bytes += elements(shape[k]) * (double)size;
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
      if (tail->op[k].operand[i].kind == UPCONV_OPERAND_VALUE)
        bytes += elements(shape[tail->op[k].operand[i].index]) * (double)size;
  }
  return bytes;
}

/* x, weights and y, each once. */
static double outer_bytes(const upconv_problem *p, const int64_t y[UC_RANK]) {
  int64_t x[UC_RANK];
  x_shape_of(p, x);
  double weights =
      (double)(p->in_channels * (p->out_channels / p->groups)) * (double)uc_problem_kernel_size(p);
  return elements(x) * (double)upconv_dtype_size(p->x_dtype) +
         weights * (double)upconv_dtype_size(p->w_dtype) +
         elements(y) * (double)upconv_dtype_size(p->y_dtype);
}

upconv_status upconv_plan_work(const upconv_plan *plan, upconv_work *work) {
  if (!plan || !work)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", plan ? "work" : "plan");
  const uc_lowered *l = &plan->lowered;
  int64_t(*before)[UC_RANK] = nominal_shapes(&l->source, l->source_tail);
  int64_t(*after)[UC_RANK] = nominal_shapes(&l->conv, l->tail);
  upconv_status status = UPCONV_OK;
  if (before && after) {
    const int64_t(*b)[UC_RANK] = (const int64_t(*)[UC_RANK])before,
          (*a)[UC_RANK] = (const int64_t(*)[UC_RANK])after;
    size_t size = upconv_dtype_size(l->source.y_dtype);
    work->source_flop = 2 * macs(&l->source);
    work->planned_flop = 2 * macs(&l->conv);
    work->source_bytes = outer_bytes(&l->source, b[l->source_tail->op_count]) +
                         tensor_bytes(l->source_tail, b) +
                         intermediate_bytes(l->source_tail, b, size);
    work->planned_bytes = outer_bytes(&l->source, a[l->tail->op_count]) + tensor_bytes(l->tail, a);
    if (plan->no_fuse) work->planned_bytes += intermediate_bytes(l->tail, a, sizeof(float));
  } else {
    status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for shapes");
  }
  free(before);
  free(after);
  return status;
}

/* ---- text ---- */

static void add_shape(uc_text *text, const int64_t shape[UC_RANK], int nd) {
  uc_text_add(text, "%lldx%lld", (long long)shape[0], (long long)shape[1]);
  for (int a = UC_AXES - nd; a < UC_AXES; a++) uc_text_add(text, "x%lld", (long long)shape[a + 2]);
}

static void add_program(uc_text *text, const char *label, const upconv_problem *p,
                        const upconv_epilogue *tail) {
  uc_text_add(text, "%s", label);
  uc_problem_print(p, text);
  if (tail->op_count > 0) {
    uc_text_add(text, " | ");
    uc_epilogue_print(tail, text);
  }
  uc_text_add(text, "\n");
}

static void add_rules(uc_text *text, const uc_lowered *l) {
  if (l->fired_count == 0) uc_text_add(text, "rules       none applies\n");
  for (int i = 0; i < l->fired_count; i++)
    uc_text_add(text, "%s%s: %s\n", i == 0 ? "rules       " : "            ", l->fired[i].rule,
                l->fired[i].detail);
}

enum { LISTED_PHASES = 64 };

/* Taps of every phase, outermost axis first. */
static void add_phases(uc_text *text, const uc_lowered *l) {
  const uc_axis *axis = l->conv.axis;
  int64_t phases = axis[0].stride * axis[1].stride * axis[2].stride, shown = 0;
  uc_text_add(text, "phases      %lld, with", (long long)phases);
  for (int64_t i = 0; i < phases && shown < LISTED_PHASES; i++, shown++) {
    int64_t w = i % axis[2].stride, h = i / axis[2].stride % axis[1].stride,
            d = i / axis[2].stride / axis[1].stride;
    int64_t taps = uc_axis_phase(&axis[0], d).count * uc_axis_phase(&axis[1], h).count *
                   uc_axis_phase(&axis[2], w).count;
    uc_text_add(text, " %lld", (long long)taps);
  }
  int64_t after = uc_problem_kernel_size(&l->conv), before = uc_problem_kernel_size(&l->source);
  uc_text_add(text, "%s taps\n", phases > shown ? " ..." : "");
  uc_text_add(text, "taps        %lld", (long long)after);
  if (before != after) uc_text_add(text, " where %lld stood", (long long)before);
  uc_text_add(text, "\n");
}

static void add_work(uc_text *text, const upconv_plan *plan) {
  upconv_work work;
  if (upconv_plan_work(plan, &work) != UPCONV_OK) return;
  uc_text_add(text, "arithmetic  %.4g GFLOP; as written %.4g\n", work.planned_flop * 1e-9,
              work.source_flop * 1e-9);
  uc_text_add(text, "memory      %.4g MB; as written, operator by operator, %.4g\n",
              work.planned_bytes * 1e-6, work.source_bytes * 1e-6);
}

static void add_candidates(uc_text *text, const upconv_plan *plan) {
  uc_text_add(text, "candidates\n");
  for (int i = 0; uc_candidate_at(i); i++) {
    const uc_candidate *c = uc_candidate_at(i);
    const char *why = c->refuses(plan->context, &plan->lowered);
    const char *mark = c == plan->candidate ? "*" : " ";
    if (why)
      uc_text_add(text, "  %s %-12s does not apply: %s\n", mark, c->name, why);
    else
      uc_text_add(text, "  %s %-12s estimated %.3g ms\n", mark, c->name,
                  c->cost(plan->context, &plan->lowered) * 1e3);
  }
}

static void add_choice(uc_text *text, const upconv_plan *plan) {
  if (plan->choice == UC_CHOICE_STORED || plan->choice == UC_CHOICE_MEASURED)
    uc_text_add(text, "chosen      by %s: %s\n",
                plan->choice == UC_CHOICE_STORED ? "a stored measurement" : "measuring now",
                plan->decision.times);
}

upconv_status upconv_plan_print(const upconv_plan *plan, char *buffer, size_t capacity,
                                size_t *length) {
  if (!plan || (!buffer && capacity > 0))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", plan ? "buffer" : "plan");
  const uc_lowered *l = &plan->lowered;
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  add_program(&text, "program     ", &l->source, l->source_tail);
  int64_t(*shape)[UC_RANK] = nominal_shapes(&l->conv, l->tail);
  if (shape) {
    uc_text_add(&text, "output      ");
    add_shape(&text, shape[l->tail->op_count], l->source.nd);
    uc_text_add(&text, "\n");
  }
  free(shape);
  add_rules(&text, l);
  add_program(&text, "becomes     ", &l->conv, l->tail);
  add_phases(&text, l);
  add_work(&text, plan);
  uc_text_add(&text, "device      %s\n", plan->context->describe);
  add_candidates(&text, plan);
  add_choice(&text, plan);
  uc_text_add(&text, "passes%s\n", plan->no_fuse ? "      one per operator (no_fuse)" : "");
  plan->candidate->explain(plan->state, &text);
  if (length) *length = text.length;
  return UPCONV_OK;
}

upconv_status upconv_plan_source(const upconv_plan *plan, char *buffer, size_t capacity,
                                 size_t *length) {
  if (!plan || (!buffer && capacity > 0))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", plan ? "buffer" : "plan");
  const uc_candidate *c = plan->candidate;
  if (!c->source)
    return uc_fail(UPCONV_UNSUPPORTED,
                   "candidate %s: its code comes with the library; a plan for CUDA has a source",
                   c->name);
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  c->source(plan->state, &text);
  if (length) *length = text.length;
  return UPCONV_OK;
}
