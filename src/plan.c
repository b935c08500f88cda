/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: lowering, the choice of a candidate, and the checks before every execution. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "region.h"
#include "status.h"
#include "tensor.h"
#include "tune.h"

enum { ALIGNMENT = 64, STACK_VALUES = 96 };

/* ---- create ---- */

/* With the reason of the backend's first candidate, which takes most problems. */
static upconv_status nothing_applies(const upconv_plan *plan) {
  for (int i = 0; uc_candidate_at(i); i++) {
    const uc_candidate *c = uc_candidate_at(i);
    const char *why = c->refuses(plan->context, &plan->lowered);
    if (why && strncmp(why, "the context is not", 18) != 0)
      return uc_fail(UPCONV_UNSUPPORTED, "no candidate applies to this problem; %s, for one: %s",
                     c->name, why);
  }
  return uc_fail(UPCONV_UNSUPPORTED, "no candidate applies to this problem");
}

upconv_status uc_plan_cheapest(const upconv_plan *plan, const uc_candidate **cheapest) {
  const uc_candidate *best = NULL;
  double best_cost = 0;
  for (int i = 0; uc_candidate_at(i); i++) {
    const uc_candidate *c = uc_candidate_at(i);
    if (c->refuses(plan->context, &plan->lowered)) continue;
    double cost = c->cost(plan->context, &plan->lowered);
    if (best && cost >= best_cost) continue;
    best = c;
    best_cost = cost;
  }
  if (!best) return nothing_applies(plan);
  *cheapest = best;
  return UPCONV_OK;
}

static upconv_status choose_named(upconv_plan *plan, const char *wanted) {
  const uc_candidate *c = uc_candidate_named(wanted);
  if (!c)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "candidate = \"%.64s\": no such candidate; `upconv plan` lists them", wanted);
  const char *why = c->refuses(plan->context, &plan->lowered);
  if (why) return uc_fail(UPCONV_UNSUPPORTED, "candidate %s does not apply: %s", wanted, why);
  plan->choice = UC_CHOICE_NAMED;
  plan->candidate = c;
  return UPCONV_OK;
}

static upconv_status choose(upconv_plan *plan, const upconv_plan_options *options) {
  if (options->candidate) return choose_named(plan, options->candidate);
  upconv_status status = uc_plan_cheapest(plan, &plan->candidate);
  if (status == UPCONV_OK) uc_tune_choose(plan, options);
  return status;
}

static upconv_status build(upconv_plan *plan) {
  return plan->candidate->create(plan->context, &plan->lowered, plan->no_fuse, &plan->state);
}

/* A decision is advice: if what it names cannot be built, the model's choice may. */
static upconv_status choose_and_build(upconv_plan *plan, const upconv_plan_options *options) {
  upconv_status status = choose(plan, options);
  if (status == UPCONV_OK) status = build(plan);
  if (status == UPCONV_OK ||
      (plan->choice != UC_CHOICE_STORED && plan->choice != UC_CHOICE_MEASURED))
    return status;
  plan->choice = UC_CHOICE_MODEL;
  status = uc_plan_cheapest(plan, &plan->candidate);
  return status == UPCONV_OK ? build(plan) : status;
}

/* Whether every value of the rewritten program has a size at the nominal extents. */
static bool has_sizes(const uc_lowered *l) {
  int64_t(*shape)[UC_RANK] = calloc((size_t)l->tail->op_count + 1, sizeof *shape);
  bool ok = shape && uc_lowered_nominal_shapes(l, shape) == UPCONV_OK;
  free(shape);
  return ok;
}

upconv_status uc_plan_lower(upconv_context *context, const upconv_problem *problem,
                            const upconv_epilogue *epilogue, const upconv_plan_options *options,
                            upconv_plan **result) {
  upconv_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
  plan->context = context;
  plan->no_fuse = options->no_fuse;
  bool as_written = options->no_rewrite || options->no_fuse;
  upconv_status status =
      uc_lower(problem, epilogue, options->constants, as_written, &plan->lowered);
  /* a rewritten program may have negative sizes where the output is empty: such a plan stays as written */
  if (status == UPCONV_OK && !as_written && !has_sizes(&plan->lowered)) {
    uc_lowered_free(&plan->lowered);
    status = uc_lower(problem, epilogue, options->constants, true, &plan->lowered);
  }
  if (status != UPCONV_OK) {
    free(plan);
    return status;
  }
  *result = plan;
  return UPCONV_OK;
}

upconv_status upconv_plan_create(upconv_context *context, const upconv_problem *problem,
                                 const upconv_epilogue *epilogue,
                                 const upconv_plan_options *options, upconv_plan **result) {
  static const upconv_plan_options defaults = {0};
  if (!context || !problem || !result)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL",
                   !context   ? "context"
                   : !problem ? "problem"
                              : "plan");
  if (!options) options = &defaults;
  upconv_plan *plan = NULL;
  upconv_status status = uc_plan_lower(context, problem, epilogue, options, &plan);
  if (status != UPCONV_OK) return status;
  status = choose_and_build(plan, options);
  if (status != UPCONV_OK) {
    upconv_plan_destroy(plan);
    return status;
  }
  *result = plan;
  return UPCONV_OK;
}

void upconv_plan_destroy(upconv_plan *plan) {
  if (!plan) return;
  if (plan->state) plan->candidate->destroy(plan->state);
  uc_lowered_free(&plan->lowered);
  free(plan);
}

const char *upconv_plan_candidate(const upconv_plan *plan) { return plan->candidate->name; }

/* Candidates on tensor cores have the instruction in their names. Full float32 operands, if any, become TF32 there. */
upconv_error_model uc_plan_error_model(const upconv_plan *plan) {
  const upconv_problem *p = &plan->lowered.source;
  bool wide = p->x_dtype == UPCONV_F32 || p->w_dtype == UPCONV_F32;
  upconv_error_model model = {.tensor_core = plan->candidate->tensor_core};
  if (model.tensor_core && wide) model.operand_rounding = 0x1p-11;
  return model;
}

const char *upconv_plan_candidate_name(const upconv_plan *plan, int index) {
  for (int i = 0; uc_candidate_at(i); i++) {
    if (uc_candidate_at(i)->refuses(plan->context, &plan->lowered)) continue;
    if (index-- == 0) return uc_candidate_at(i)->name;
  }
  return NULL;
}

const char *upconv_plan_rule(const upconv_plan *plan, int index) {
  return index >= 0 && index < plan->lowered.fired_count ? plan->lowered.fired[index].rule : NULL;
}

/* ---- pack ---- */

size_t upconv_plan_packed_size(const upconv_plan *plan) {
  return plan->candidate->packed_size(plan->state);
}

static bool misaligned(const void *pointer) { return (uintptr_t)pointer % ALIGNMENT != 0; }

upconv_status upconv_plan_pack(const upconv_plan *plan, const upconv_parameters *parameters,
                               void *packed, void *stream) {
  if (!plan || !parameters || !packed)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL",
                   !plan     ? "plan"
                   : !packed ? "packed"
                             : "parameters");
  if (misaligned(packed))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "packed = %p: must be aligned to 64 bytes", packed);
  return plan->candidate->pack(plan->state, parameters, packed, stream);
}

/* ---- shapes ---- */

/* x_shape as the user gives it (nd + 2 entries) in canonical form. */
static upconv_status canonical_x(const upconv_plan *plan, const int64_t *x_shape,
                                 int64_t x[UC_RANK]) {
  const upconv_problem *p = &plan->lowered.source;
  if (!x_shape) return uc_fail(UPCONV_INVALID_ARGUMENT, "x_shape: must not be NULL");
  x[0] = x_shape[0];
  x[1] = x_shape[1];
  for (int a = 0; a < UC_AXES; a++)
    x[a + 2] = a < UC_AXES - p->nd ? 1 : x_shape[2 + a - (UC_AXES - p->nd)];
  for (int i = 0; i < UC_RANK; i++)
    if (x[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "x_shape: %lld is negative", (long long)x[i]);
  if (x[1] != p->in_channels)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "x_shape: %lld channels, but the plan is for %lld",
                   (long long)x[1], (long long)p->in_channels);
  return UPCONV_OK;
}

static void user_shape(const upconv_plan *plan, const int64_t canonical[UC_RANK], int64_t *shape) {
  int skip = UC_AXES - plan->lowered.source.nd;
  shape[0] = canonical[0];
  shape[1] = canonical[1];
  for (int a = skip; a < UC_AXES; a++) shape[2 + a - skip] = canonical[a + 2];
}

/* Memory for what the checks need: shapes and regions of all values. */
typedef struct extents {
  int64_t (*shape)[UC_RANK];
  uc_region *region;
} extents;

static size_t value_count(const upconv_plan *plan) {
  return (size_t)uc_max(plan->lowered.tail->op_count, plan->lowered.source_tail->op_count) + 1;
}

static size_t extents_bytes(const upconv_plan *plan) {
  size_t values = value_count(plan);
  size_t bytes = values * (sizeof(int64_t[UC_RANK]) + sizeof(uc_region));
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Shapes and regions lie at the beginning of a workspace that the host can write to. */
static size_t host_bytes(const upconv_plan *plan) {
  return plan->candidate->host_memory ? extents_bytes(plan) : 0;
}

static extents place_extents(const upconv_plan *plan, void *memory) {
  size_t values = value_count(plan);
  extents e = {(int64_t(*)[UC_RANK])memory, NULL};
  e.region = (uc_region *)(void *)(e.shape + values);
  return e;
}

static upconv_status shapes_of(const upconv_problem *p, const upconv_epilogue *tail,
                               const int64_t x[UC_RANK], int64_t (*shape)[UC_RANK]) {
  upconv_status status = uc_problem_conv_shape(p, x[0], x + 2, shape[0]);
  return status == UPCONV_OK ? uc_epilogue_shapes(tail, shape[0], shape) : status;
}

static bool is_empty(const int64_t shape[UC_RANK]) {
  for (int i = 0; i < UC_RANK; i++)
    if (shape[i] == 0) return true;
  return false;
}

/* The output's shape, which the program as written decides, refusals too; then, unless the output is empty, the shapes
   of the rewritten program's values, which may be negative where it is. */
static upconv_status value_shapes(const upconv_plan *plan, const int64_t x[UC_RANK],
                                  const extents *e, int64_t y[UC_RANK]) {
  const uc_lowered *l = &plan->lowered;
  upconv_status status = shapes_of(&l->source, l->source_tail, x, e->shape);
  if (status != UPCONV_OK) return status;
  memcpy(y, e->shape[l->source_tail->op_count], sizeof(int64_t[UC_RANK]));
  return is_empty(y) ? UPCONV_OK : shapes_of(&l->conv, l->tail, x, e->shape);
}

static upconv_status output_shape(const upconv_plan *plan, const int64_t x[UC_RANK],
                                  int64_t y[UC_RANK]) {
  void *memory = malloc(extents_bytes(plan));
  if (!memory) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for shapes");
  extents e = place_extents(plan, memory);
  upconv_status status = value_shapes(plan, x, &e, y);
  free(memory);
  return status;
}

upconv_status upconv_plan_output_shape(const upconv_plan *plan, const int64_t *x_shape,
                                       int64_t *y_shape) {
  if (!plan || !y_shape)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", !plan ? "plan" : "y_shape");
  int64_t x[UC_RANK], y[UC_RANK];
  upconv_status status = canonical_x(plan, x_shape, x);
  if (status == UPCONV_OK) status = output_shape(plan, x, y);
  if (status == UPCONV_OK) user_shape(plan, y, y_shape);
  return status;
}

/* Regions for a box of the output; the box is checked against the output's shape. */
static upconv_status box_regions(const upconv_plan *plan, const int64_t y[UC_RANK],
                                 const int64_t offset[UC_RANK], const int64_t size[UC_RANK],
                                 const extents *e) {
  uc_region *region = &e->region[plan->lowered.tail->op_count];
  for (int i = 0; i < UC_RANK; i++) {
    if (offset[i] < 0 || size[i] < 0 || size[i] > y[i] || offset[i] > y[i] - size[i])
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "y: elements %lld to %lld of axis %s, but the output has %lld there",
                     (long long)offset[i], (long long)offset[i] + size[i],
                     (const char *[]){"N", "C", "D", "H", "W"}[i], (long long)y[i]);
    region->axis[i] = (uc_range){offset[i], offset[i] + size[i]};
  }
  if (is_empty(size))
    memset(e->region, 0, value_count(plan) * sizeof *e->region);
  else
    uc_regions(&plan->lowered, (const int64_t(*)[UC_RANK])e->shape, e->region);
  return UPCONV_OK;
}

/* A user's shape or offset with nd + 2 entries; `missing` fills the axes that are not there. */
static void canonical_index(const upconv_plan *plan, const int64_t *user, int64_t missing,
                            int64_t out[UC_RANK]) {
  int skip = UC_AXES - plan->lowered.source.nd;
  out[0] = user[0];
  out[1] = user[1];
  for (int a = 0; a < UC_AXES; a++) out[a + 2] = a < skip ? missing : user[2 + a - skip];
}

upconv_status upconv_plan_input_box(const upconv_plan *plan, const int64_t *x_shape,
                                    const int64_t *y_offset, const int64_t *y_shape,
                                    int64_t *x_offset, int64_t *x_box_shape) {
  if (!plan || !y_offset || !y_shape || !x_offset || !x_box_shape)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "upconv_plan_input_box: no argument may be NULL");
  int64_t x[UC_RANK], offset[UC_RANK], size[UC_RANK];
  upconv_status status = canonical_x(plan, x_shape, x);
  if (status != UPCONV_OK) return status;
  canonical_index(plan, y_offset, 0, offset);
  canonical_index(plan, y_shape, 1, size);
  void *memory = malloc(extents_bytes(plan));
  if (!memory) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for shapes");
  extents e = place_extents(plan, memory);
  int64_t y[UC_RANK];
  status = value_shapes(plan, x, &e, y);
  if (status == UPCONV_OK) status = box_regions(plan, y, offset, size, &e);
  if (status == UPCONV_OK) {
    uc_region in = uc_region_input(&plan->lowered.conv, x, &e.region[0]);
    for (int i = 0; i < UC_RANK; i++) {
      offset[i] = in.axis[i].begin;
      size[i] = uc_max(0, in.axis[i].end - in.axis[i].begin);
    }
    user_shape(plan, offset, x_offset);
    user_shape(plan, size, x_box_shape);
  }
  free(memory);
  return status;
}

upconv_status upconv_plan_workspace_size(const upconv_plan *plan, const int64_t *x_shape,
                                         size_t *bytes) {
  if (!plan || !bytes)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", !plan ? "plan" : "bytes");
  int64_t x[UC_RANK];
  size_t backend = 0;
  upconv_status status = canonical_x(plan, x_shape, x);
  int64_t y[UC_RANK];
  if (status == UPCONV_OK) status = output_shape(plan, x, y);
  if (status == UPCONV_OK && !is_empty(y))
    status = plan->candidate->workspace(plan->state, x, &backend);
  if (status == UPCONV_OK) *bytes = backend + host_bytes(plan);
  return status;
}

/* ---- execute ---- */

static upconv_status check_dtype(const char *name, upconv_dtype got, upconv_dtype wanted) {
  if (got == wanted) return UPCONV_OK;
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: dtype %s, but the plan is for %s", name,
                 upconv_dtype_name(got), upconv_dtype_name(wanted));
}

/* A view must hold what is needed of it. axes: those along which it is not broadcast. */
static upconv_status check_holds(const char *name, const upconv_tensor *view, const uc_region *need,
                                 uint32_t axes) {
  if (uc_region_empty(need)) return UPCONV_OK;
  for (int i = 0; i < UC_RANK; i++) {
    if (!(axes >> i & 1)) {
      if (view->shape[i] == 1) continue;
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "%s: %lld elements along axis %s, where it must have 1", name,
                     (long long)view->shape[i], (const char *[]){"N", "C", "D", "H", "W"}[i]);
    }
    if (view->offset[i] <= need->axis[i].begin &&
        need->axis[i].end <= view->offset[i] + view->shape[i])
      continue;
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "%s: holds elements %lld to %lld of axis %s, but %lld to %lld are needed", name,
                   (long long)view->offset[i], (long long)view->offset[i] + view->shape[i],
                   (const char *[]){"N", "C", "D", "H", "W"}[i], (long long)need->axis[i].begin,
                   (long long)need->axis[i].end);
  }
  return UPCONV_OK;
}

/* A tensor, of which view is a part, has the shape of the value that it is combined with: an operand that is larger along
   an axis of extent 1 would need a larger result. */
static upconv_status check_fits(const char *name, const upconv_tensor *view, const int64_t *value,
                                uint32_t axes) {
  for (int i = 0; i < UC_RANK; i++) {
    if (!(axes >> i & 1) || view->offset[i] + view->shape[i] <= value[i]) continue;
    return uc_fail(
        UPCONV_INVALID_ARGUMENT,
        "%s: holds elements %lld to %lld of axis %s, where the value that it is combined "
        "with has %lld",
        name, (long long)view->offset[i], (long long)view->offset[i] + view->shape[i],
        (const char *[]){"N", "C", "D", "H", "W"}[i], (long long)value[i]);
  }
  return UPCONV_OK;
}

static upconv_status check_output(const upconv_tensor *y) {
  for (int i = 0; i < UC_RANK; i++)
    if (y->shape[i] > 1 && y->stride[i] == 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "y: stride 0 on an axis of %lld elements, which would all be one",
                     (long long)y->shape[i]);
  return UPCONV_OK;
}

static upconv_status check_tensors(const upconv_plan *plan, const upconv_arguments *a,
                                   const extents *e) {
  const upconv_epilogue *tail = plan->lowered.tail;
  if (a->tensor_count != tail->tensor_count)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "tensor_count = %d: the epilogue has %d",
                   a->tensor_count, tail->tensor_count);
  if (tail->tensor_count > 0 && !a->tensors)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "tensors: must not be NULL");
  for (int k = 0; k < tail->op_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      const upconv_operand *o = &tail->op[k].operand[i];
      if (o->kind != UPCONV_OPERAND_TENSOR) continue;
      const uc_tensor_decl *decl = &tail->tensor[o->index];
      upconv_tensor view;
      upconv_status status =
          uc_tensor_canonical(&a->tensors[o->index], decl->name, tail->nd, &view);
      if (status == UPCONV_OK) status = check_dtype(decl->name, view.dtype, decl->dtype);
      if (status == UPCONV_OK)
        status = check_holds(decl->name, &view, &e->region[k + 1], decl->axes);
      if (status == UPCONV_OK) status = check_fits(decl->name, &view, e->shape[k + 1], decl->axes);
      if (status != UPCONV_OK) return status;
    }
  return UPCONV_OK;
}

static upconv_status check_memory(const upconv_plan *plan, const upconv_arguments *a) {
  if (!a->packed || misaligned(a->packed))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "packed = %p: must be aligned to 64 bytes and not NULL",
                   a->packed);
  if (!a->workspace || misaligned(a->workspace))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "workspace = %p: must be aligned to 64 bytes and not NULL", a->workspace);
  if (a->workspace_size < host_bytes(plan))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "workspace_size = %zu: upconv_plan_workspace_size says how much is needed",
                   a->workspace_size);
  return UPCONV_OK;
}

static upconv_status check_views(const upconv_plan *plan, const upconv_arguments *a,
                                 const extents *e, uc_call *call) {
  const upconv_problem *p = &plan->lowered.source;
  upconv_status status = value_shapes(plan, call->x_shape, e, call->y_shape);
  if (status != UPCONV_OK) return status;
  if ((status = check_dtype("x", call->x.dtype, p->x_dtype)) != UPCONV_OK) return status;
  if ((status = check_dtype("y", call->y.dtype, p->y_dtype)) != UPCONV_OK) return status;
  if ((status = check_output(&call->y)) != UPCONV_OK) return status;
  if (!a->x_shape && memcmp(call->x.offset, (int64_t[UC_RANK]){0}, sizeof call->x.offset) != 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "x.offset: not 0, so x_shape must say how large the whole x is");
  if ((status = box_regions(plan, call->y_shape, call->y.offset, call->y.shape, e)) != UPCONV_OK)
    return status;
  uc_region need = uc_region_input(&plan->lowered.conv, call->x_shape, &e->region[0]);
  if ((status = check_holds("x", &call->x, &need, 0x1f)) != UPCONV_OK) return status;
  return check_tensors(plan, a, e);
}

upconv_status upconv_execute(const upconv_plan *plan, const upconv_arguments *arguments) {
  if (!plan || !arguments)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL", plan ? "arguments" : "plan");
  int nd = plan->lowered.source.nd;
  uc_call call = {
      .tensors = arguments->tensors, .packed = arguments->packed, .stream = arguments->stream};
  upconv_status status = check_memory(plan, arguments);
  if (status == UPCONV_OK) status = uc_tensor_canonical(&arguments->x, "x", nd, &call.x);
  if (status == UPCONV_OK) status = uc_tensor_canonical(&arguments->y, "y", nd, &call.y);
  if (status == UPCONV_OK)
    status = canonical_x(plan, arguments->x_shape ? arguments->x_shape : arguments->x.shape,
                         call.x_shape);
  if (status != UPCONV_OK) return status;
  /* else there are few values: uc_candidate.refuses sees to it */
  struct {
    int64_t shape[STACK_VALUES][UC_RANK];
    uc_region region[STACK_VALUES];
  } here;
  extents e =
      place_extents(plan, plan->candidate->host_memory ? arguments->workspace : (void *)&here);
  status = check_views(plan, arguments, &e, &call);
  if (status != UPCONV_OK) return status;
  if (is_empty(call.y.shape)) return UPCONV_OK;
  call.workspace = (char *)arguments->workspace + host_bytes(plan);
  call.workspace_size = arguments->workspace_size - host_bytes(plan);
  return plan->candidate->execute(plan->state, &call);
}
