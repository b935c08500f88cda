/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"

/* ---- which values are kept in memory ---- */

static bool reduces_space(const upconv_op *op) {
  return uc_op_classify(op->kind) == UC_CLASS_REDUCE && (op->axes & UC_AXES_SPATIAL) != 0;
}

/* Extents that are equal for every input size have the same number. 0 is the convolution's, 1 is an extent of 1. */
typedef struct extent_class {
  int source; /* of this class, through a window ... */
  int64_t kernel, stride, dilation, pad;
  bool ceil_mode;
} extent_class;

enum { CONV_EXTENT = 0, SINGLE_EXTENT = 1, FIRST_EXTENT = 2 };

static int window_extent(const upconv_window *w, int a, int source, extent_class *known,
                         int *count) {
  extent_class c = {
      source,      w->kernel[a], w->stride[a], w->dilation[a], w->pad_begin[a] + w->pad_end[a],
      w->ceil_mode};
  if (c.stride == 1 && c.pad == c.dilation * (c.kernel - 1)) return source;
  for (int i = FIRST_EXTENT; i < *count; i++)
    if (known[i].source == c.source && known[i].kernel == c.kernel && known[i].stride == c.stride &&
        known[i].dilation == c.dilation && known[i].pad == c.pad &&
        known[i].ceil_mode == c.ceil_mode)
      return i;
  known[*count] = c;
  return (*count)++;
}

/* The extent of an elementwise operator's result along axis a. Operands whose extents may differ are kept: whether one is
   broadcast then depends on the input's size. */
static int elementwise_extent(const upconv_op *op, int a, const int (*extent)[UC_AXES], bool *kept,
                              int *count) {
  int first = -1, others = -1;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    if (op->operand[i].kind != UPCONV_OPERAND_VALUE) continue;
    int e = extent[op->operand[i].index][a];
    if (e == SINGLE_EXTENT) continue;
    if (first < 0)
      first = e;
    else if (e != first)
      others = e;
  }
  for (int i = 0; i < UPCONV_MAX_OPERANDS && first >= 0; i++) {
    if (op->operand[i].kind != UPCONV_OPERAND_VALUE) continue;
    int v = op->operand[i].index;
    if (others >= 0 || extent[v][a] == SINGLE_EXTENT) kept[v] = true;
  }
  return first < 0 ? SINGLE_EXTENT : others >= 0 ? (*count)++ : first;
}

/* Values that some input size broadcasts along a spatial axis. extent, known: room for all values, and 3 per value + 2. */
static void keep_broadcast(const uc_lowered *lowered, int (*extent)[UC_AXES], extent_class *known,
                           bool *kept) {
  int count = FIRST_EXTENT;
  for (int a = 0; a < UC_AXES; a++)
    extent[0][a] = a < UC_AXES - lowered->conv.nd ? SINGLE_EXTENT : CONV_EXTENT;
  for (int k = 0; k < lowered->tail->op_count; k++) {
    const upconv_op *op = &lowered->tail->op[k];
    for (int a = 0; a < UC_AXES; a++) {
      int source = op->operand[0].kind == UPCONV_OPERAND_VALUE ? extent[op->operand[0].index][a]
                                                               : SINGLE_EXTENT;
      uc_op_class class = uc_op_classify(op->kind);
      if (class == UC_CLASS_ELEMENTWISE)
        extent[k + 1][a] = elementwise_extent(op, a, (const int(*)[UC_AXES])extent, kept, &count);
      else if (class == UC_CLASS_POOL)
        extent[k + 1][a] = window_extent(&op->window, a, source, known, &count);
      else
        extent[k + 1][a] = reduces_space(op) && (op->axes >> (1 + a) & 1) ? SINGLE_EXTENT : source;
    }
  }
}

static upconv_status find_kept(const uc_lowered *lowered, bool keep_all, const bool *also_keep,
                               bool *kept) {
  size_t values = (size_t)lowered->tail->op_count + 1;
  int(*extent)[UC_AXES] = calloc(values, sizeof *extent);
  extent_class *known = calloc(values * UC_AXES + FIRST_EXTENT, sizeof *known);
  bool ok = extent && known;
  if (ok) {
    for (size_t v = 0; v < values; v++)
      kept[v] = keep_all || v == values - 1 || (also_keep && also_keep[v]);
    for (int k = 0; k < lowered->tail->op_count; k++)
      if (reduces_space(&lowered->tail->op[k])) kept[k + 1] = true;
    keep_broadcast(lowered, extent, known, kept);
  }
  free(extent);
  free(known);
  return ok ? UPCONV_OK
            : uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan of %zu operators", values - 1);
}

/* Axes, as bits of UC_AXES, along which a kept value has extent 1 because the program says so. */
static bool always_single(const uc_program *program, int value) {
  const upconv_epilogue *tail = program->lowered->tail;
  if (value == 0 || !reduces_space(&tail->op[value - 1])) return false;
  uint32_t real = 0;
  for (int a = UC_AXES - tail->nd; a < UC_AXES; a++) real |= 2u << a;
  return (tail->op[value - 1].axes & real) == real;
}

bool uc_program_is_scalar(const uc_program *program, const upconv_operand *operand) {
  if (operand->kind == UPCONV_OPERAND_TENSOR)
    return (program->lowered->tail->tensor[operand->index].axes & ~3u) == 0;
  return operand->kind == UPCONV_OPERAND_VALUE && program->kept[operand->index] &&
         always_single(program, operand->index);
}

/* ---- the steps of one pass ---- */

typedef struct builder {
  uc_program *program;
  uc_pass *pass;
  int *step_of; /* per value: the step that makes it in this pass, or -1 */
  bool *needed;
  const int64_t (*shape)[UC_RANK];
} builder;

static bool is_resident(const builder *b, const upconv_operand *o) {
  return o->kind == UPCONV_OPERAND_VALUE && !b->program->kept[o->index];
}

/* Values that the pass computes: the target, and what it needs that is not kept. */
static void mark_needed(const builder *b, int target) {
  const upconv_epilogue *tail = b->program->lowered->tail;
  memset(b->needed, 0, (size_t)b->program->value_count * sizeof *b->needed);
  b->needed[target] = true;
  for (int v = target; v > 0; v--) {
    if (!b->needed[v]) continue;
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
      const upconv_operand *o = &tail->op[v - 1].operand[i];
      if (is_resident(b, o)) b->needed[o->index] = true;
    }
  }
}

static uc_step *add_step(builder *b, uc_step_kind kind, int op, int operand) {
  uc_step *step = &b->pass->step[b->pass->step_count++];
  *step = (uc_step){.kind = kind, .op = op, .operand = operand, .slot = -1};
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) step->source[i] = step->copy[i] = -1;
  for (int a = 0; a < UC_AXES; a++) step->split[a] = 1;
  return step;
}

static int64_t operand_channels(const builder *b, const upconv_operand *o,
                                int64_t result_channels) {
  if (o->kind == UPCONV_OPERAND_VALUE) return b->shape[o->index][1];
  return b->program->lowered->tail->tensor[o->index].axes & 2u ? result_channels : 1;
}

/* Loads come before their operator, so that its sources are all earlier steps. */
static int add_load(builder *b, int op, int operand, int64_t result_channels) {
  const upconv_operand *o = &b->program->lowered->tail->op[op].operand[operand];
  uc_step *step = add_step(b, UC_STEP_LOAD, op, operand);
  step->channels = operand_channels(b, o, result_channels);
  return b->pass->step_count - 1;
}

static void add_op(builder *b, int k) {
  const upconv_op *op = &b->program->lowered->tail->op[k];
  bool elementwise = uc_op_classify(op->kind) == UC_CLASS_ELEMENTWISE;
  int source[UPCONV_MAX_OPERANDS];
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    const upconv_operand *o = &op->operand[i];
    source[i] = -1;
    if (is_resident(b, o))
      source[i] = b->step_of[o->index];
    else if (o->kind == UPCONV_OPERAND_VALUE || o->kind == UPCONV_OPERAND_TENSOR)
      if (!elementwise || !uc_program_is_scalar(b->program, o))
        source[i] = add_load(b, k, i, b->shape[k + 1][1]);
  }
  uc_step *step = add_step(b, UC_STEP_OP, k, 0);
  memcpy(step->source, source, sizeof source);
  step->channels = b->shape[k + 1][1];
  b->step_of[k + 1] = b->pass->step_count - 1;
  uc_op_class class = uc_op_classify(op->kind);
  if (class == UC_CLASS_CHANNELS || class == UC_CLASS_REDUCE) b->pass->all_channels = true;
}

static void add_conv(builder *b) {
  uc_step *step = add_step(b, UC_STEP_CONV, -1, 0);
  step->channels = b->shape[0][1];
  b->step_of[0] = b->pass->step_count - 1;
  b->pass->conv = true;
}

static void add_steps(builder *b, int value) {
  const upconv_epilogue *tail = b->program->lowered->tail;
  bool reduce = value > 0 && reduces_space(&tail->op[value - 1]);
  b->pass->result = value;
  b->pass->reduce_op = reduce ? value - 1 : -1;
  int target = reduce ? tail->op[value - 1].operand[0].index : value;
  if (reduce && b->program->kept[target]) {
    add_load(b, value - 1, 0, b->shape[target][1]);
  } else {
    mark_needed(b, target);
    if (b->needed[0]) add_conv(b);
    for (int v = 1; v <= target; v++)
      if (b->needed[v]) add_op(b, v - 1);
  }
  b->pass->target = b->pass->step_count - 1;
}

/* ---- splits, copies and slots ---- */

static bool same_split(const int64_t *a, const int64_t *b) {
  return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

static int uses(const uc_pass *pass, int step) {
  int count = step == pass->target ? 1 : 0;
  for (int k = 0; k < pass->step_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) count += pass->step[k].source[i] == step;
  return count;
}

/* Elementwise and channel operators work in the order of their first operand that is computed in this pass. */
static void choose_split(const uc_pass *pass, uc_step *step, uc_op_class class) {
  if (class == UC_CLASS_POOL) return;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int s = step->source[i];
    if (s < 0 || pass->step[s].kind == UC_STEP_LOAD) continue;
    memcpy(step->split, pass->step[s].split, sizeof step->split);
    break;
  }
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int s = step->source[i];
    if (s >= 0 && pass->step[s].kind == UC_STEP_LOAD)
      memcpy(pass->step[s].split, step->split, sizeof step->split);
  }
}

/* The step from which k has its layout: the convolution, a pool, or what reads neither. Two of them may lie differently with
   the same split, the convolution's rows at the pitch of its inputs' for one. */
static int layout_origin(const uc_pass *pass, const upconv_epilogue *tail, int k) {
  const uc_step *step = &pass->step[k];
  if (step->kind != UC_STEP_OP || uc_op_classify(tail->op[step->op].kind) == UC_CLASS_POOL)
    return k;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    if (step->source[i] >= 0 && pass->step[step->source[i]].kind != UC_STEP_LOAD)
      return layout_origin(pass, tail, step->source[i]);
  return k;
}

static bool one_origin(const uc_pass *pass, const upconv_epilogue *tail, const uc_step *step) {
  int first = -1;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int s = step->source[i];
    if (s < 0 || pass->step[s].kind == UC_STEP_LOAD) continue;
    int origin = layout_origin(pass, tail, s);
    if (first >= 0 && origin != first) return false;
    first = origin;
  }
  return true;
}

static bool needs_copy(const uc_pass *pass, const upconv_epilogue *tail, const uc_step *step,
                       int s) {
  const upconv_op *op = &tail->op[step->op];
  const uc_step *source = &pass->step[s];
  if (uc_op_classify(op->kind) == UC_CLASS_POOL) {
    for (int a = 0; a < UC_AXES; a++)
      if (op->window.stride[a] % source->split[a] != 0) return true;
    return false;
  }
  return source->kind != UC_STEP_LOAD &&
         (uses(pass, s) > 1 || !same_split(source->split, step->split) ||
          !one_origin(pass, tail, step));
}

typedef struct slots {
  int *last_use; /* per step */
  int *free;
  int free_count;
  int count;
} slots;

static int take_slot(slots *s) { return s->free_count > 0 ? s->free[--s->free_count] : s->count++; }
static void give_slot(slots *s, int slot) { s->free[s->free_count++] = slot; }

/* The operand whose buffer an elementwise operator may overwrite, or -1. */
static int in_place_source(const uc_pass *pass, const slots *s, int k) {
  const uc_step *step = &pass->step[k];
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++) {
    int source = step->source[i];
    if (source < 0 || step->copy[i] >= 0 || s->last_use[source] != k || uses(pass, source) > 1)
      continue;
    if (pass->step[source].channels == step->channels) return source;
  }
  return -1;
}

static void assign_slots(uc_pass *pass, const upconv_epilogue *tail, slots *s) {
  for (int k = 0; k < pass->step_count; k++)
    s->last_use[k] = k == pass->target ? pass->step_count : k;
  for (int k = 0; k < pass->step_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
      if (pass->step[k].source[i] >= 0 && pass->step[k].source[i] != pass->target)
        s->last_use[pass->step[k].source[i]] = k;
  for (int k = 0; k < pass->step_count; k++) {
    uc_step *step = &pass->step[k];
    bool operator= step->kind == UC_STEP_OP;
    uc_op_class class = operator? uc_op_classify(tail->op[step->op].kind) : UC_CLASS_POOL;
    int reuse = -1;
    if (operator) {
      for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
        if (step->source[i] >= 0 && needs_copy(pass, tail, step, step->source[i]))
          step->copy[i] = take_slot(s);
      if (class == UC_CLASS_ELEMENTWISE) reuse = in_place_source(pass, s, k);
    }
    step->slot = reuse >= 0 ? pass->step[reuse].slot : take_slot(s);
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
      if (step->copy[i] >= 0) give_slot(s, step->copy[i]);
    for (int j = 0; j < k; j++)
      if (s->last_use[j] == k && j != reuse) give_slot(s, pass->step[j].slot);
    if (s->last_use[k] == k) give_slot(s, step->slot); /* a dead operator's result */
  }
  pass->slot_count = s->count;
}

static upconv_status finish_pass(uc_pass *pass, const uc_lowered *lowered) {
  for (int k = 0; k < pass->step_count; k++) {
    uc_step *step = &pass->step[k];
    if (step->kind == UC_STEP_CONV)
      for (int a = 0; a < UC_AXES; a++) step->split[a] = lowered->conv.axis[a].stride;
    if (step->kind == UC_STEP_OP)
      choose_split(pass, step, uc_op_classify(lowered->tail->op[step->op].kind));
  }
  size_t most = (size_t)pass->step_count * (UPCONV_MAX_OPERANDS + 1);
  slots s = {.last_use = calloc((size_t)pass->step_count, sizeof(int)),
             .free = calloc(most, sizeof(int))};
  bool ok = s.last_use && s.free;
  if (ok) assign_slots(pass, lowered->tail, &s);
  free(s.last_use);
  free(s.free);
  return ok ? UPCONV_OK : uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan");
}

/* ---- the program ---- */

static upconv_status build_pass(uc_program *program, int value, const int64_t (*shape)[UC_RANK]) {
  uc_pass *pass = &program->pass[program->pass_count++];
  size_t values = (size_t)program->value_count;
  builder b = {program, pass, calloc(values, sizeof(int)), calloc(values, sizeof(bool)), shape};
  pass->step = calloc(values * (UPCONV_MAX_OPERANDS + 1), sizeof *pass->step);
  upconv_status status = UPCONV_OUT_OF_MEMORY;
  if (b.step_of && b.needed && pass->step) {
    for (size_t i = 0; i < values; i++) b.step_of[i] = -1;
    add_steps(&b, value);
    uc_step *shrunk = realloc(pass->step, (size_t)pass->step_count * sizeof *shrunk);
    if (shrunk) pass->step = shrunk;
    status = finish_pass(pass, program->lowered);
  } else {
    uc_fail(status, "no memory for a plan of %d operators", program->value_count - 1);
  }
  if (pass->step_count > program->max_steps) program->max_steps = pass->step_count;
  free(b.step_of);
  free(b.needed);
  return status;
}

upconv_status uc_program_build(const uc_lowered *lowered, bool keep_all, const bool *also_keep,
                               uc_program *program) {
  *program = (uc_program){.lowered = lowered, .value_count = lowered->tail->op_count + 1};
  size_t values = (size_t)program->value_count;
  program->kept = calloc(values, sizeof *program->kept);
  program->pass = calloc(values, sizeof *program->pass);
  int64_t(*shape)[UC_RANK] = calloc(values, sizeof *shape);
  upconv_status status = UPCONV_OK;
  if (!program->kept || !program->pass || !shape)
    status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a plan of %zu operators", values - 1);
  if (status == UPCONV_OK) status = uc_lowered_nominal_shapes(lowered, shape);
  if (status == UPCONV_OK) status = find_kept(lowered, keep_all, also_keep, program->kept);
  for (int v = 0; status == UPCONV_OK && v < program->value_count; v++)
    if (program->kept[v]) status = build_pass(program, v, (const int64_t(*)[UC_RANK])shape);
  free(shape);
  if (status != UPCONV_OK) uc_program_free(program);
  return status;
}

void uc_program_free(uc_program *program) {
  for (int i = 0; program->pass && i < program->pass_count; i++) free(program->pass[i].step);
  free(program->pass);
  free(program->kept);
  *program = (uc_program){0};
}
