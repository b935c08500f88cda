/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of an epilogue, printed. */
#include "epilogue_text.h"
#include "op.h"
#include "status.h"

const uc_named_operand uc_batch_norm_operand[UC_BATCH_NORM_NAMES] = {
    {"mean", 3}, {"var", 4}, {"weight", 1}, {"bias", 2}};

/* ---- operands ---- */

static void print_param(const uc_param_decl *param, uc_text *text) {
  uc_text_add(text, "@%s%s", param->name, param->per_channel ? "" : "[]");
}

static void print_tensor(const uc_tensor_decl *tensor, int nd, uc_text *text) {
  static const char letter[] = "ncdhw";
  bool full = true;
  for (int i = 0; i < UC_RANK; i++)
    if (i < 2 || i >= UC_RANK - nd) full = full && (tensor->axes & 1u << i);
  uc_text_add(text, "#%s%s", tensor->name, full ? "" : "[");
  for (int i = 0; i < UC_RANK && !full; i++)
    if (tensor->axes & 1u << i) uc_text_add(text, "%c", letter[i]);
  if (!full) uc_text_add(text, "]");
  if (tensor->dtype != UPCONV_F32) uc_text_add(text, ":%s", upconv_dtype_name(tensor->dtype));
}

static void print_operand(const upconv_epilogue *epilogue, const upconv_operand *operand,
                          uc_text *text) {
  switch (operand->kind) {
  case UPCONV_OPERAND_NONE:
    break;
  case UPCONV_OPERAND_VALUE:
    uc_text_add(text, "%%%d", operand->index);
    break;
  case UPCONV_OPERAND_CONSTANT:
    uc_text_add_double(text, operand->constant);
    break;
  case UPCONV_OPERAND_PARAM:
    print_param(&epilogue->param[operand->index], text);
    break;
  case UPCONV_OPERAND_TENSOR:
    print_tensor(&epilogue->tensor[operand->index], epilogue->nd, text);
    break;
  }
}

/* ---- operators ---- */

static void print_batch_norm(const upconv_epilogue *epilogue, const upconv_op *op, uc_text *text) {
  for (int i = 0; i < UC_BATCH_NORM_NAMES; i++) {
    const upconv_operand *operand = &op->operand[uc_batch_norm_operand[i].operand];
    if (operand->kind == UPCONV_OPERAND_NONE) continue;
    uc_text_add(text, " %s=", uc_batch_norm_operand[i].key);
    print_operand(epilogue, operand, text);
  }
  if (op->attr[0] == uc_op_describe(op->kind)->attr[0]) return;
  uc_text_add(text, " eps=");
  uc_text_add_double(text, op->attr[0]);
}

static void print_window(const upconv_epilogue *epilogue, const upconv_op *op, uc_text *text) {
  const upconv_window *window = &op->window;
  int nd = epilogue->nd, first = UC_AXES - nd;
  bool own_stride = false, dilated = false;
  for (int a = first; a < UC_AXES; a++) {
    own_stride = own_stride || window->stride[a] != window->kernel[a];
    dilated = dilated || window->dilation[a] != 1;
  }
  uc_text_add(text, " ");
  uc_text_add_sizes(text, window->kernel + first, nd);
  if (own_stride) {
    uc_text_add(text, " s");
    uc_text_add_sizes(text, window->stride + first, nd);
  }
  if (dilated) {
    uc_text_add(text, " d");
    uc_text_add_sizes(text, window->dilation + first, nd);
  }
  uc_text_add_padding(text, window->pad_begin + first, window->pad_end + first, nd);
  if (window->ceil_mode) uc_text_add(text, " ceil");
  if (!window->count_include_pad) uc_text_add(text, " exclude_pad");
  if (window->divisor) uc_text_add(text, " div=%lld", (long long)window->divisor);
  if (op->kind == UPCONV_OP_EXTREME_POOL) {
    uc_text_add(text, " dir=");
    print_operand(epilogue, &op->operand[1], text);
  }
}

static void print_axes(const upconv_op *op, uc_text *text) {
  static const char letter[] = "cdhw";
  if (op->kind == UPCONV_OP_LOGSUMEXP) return;
  uc_text_add(text, " ");
  for (int i = 0; i <= UC_AXES; i++)
    if (op->axes & 1u << i) uc_text_add(text, "%c", letter[i]);
}

/* Trailing attributes that have their default are left out. */
static void print_elementwise(const upconv_epilogue *epilogue, const upconv_op *op, uc_text *text) {
  const uc_op_info *info = uc_op_describe(op->kind);
  for (int j = 1; j < info->operand_count; j++) {
    uc_text_add(text, " ");
    print_operand(epilogue, &op->operand[j], text);
  }
  int attrs = info->attr_count;
  while (attrs && op->attr[attrs - 1] == info->attr[attrs - 1]) attrs--;
  for (int i = 0; i < attrs; i++) {
    uc_text_add(text, " ");
    uc_text_add_double(text, op->attr[i]);
  }
}

void uc_op_print(const upconv_epilogue *epilogue, int index, uc_text *text) {
  const upconv_op *op = &epilogue->op[index];
  const upconv_operand *first = &op->operand[0];
  uc_text_add(text, "%s", upconv_op_name(op->kind));
  if (first->kind != UPCONV_OPERAND_VALUE || first->index != index) {
    uc_text_add(text, " ");
    print_operand(epilogue, first, text);
  }
  if (op->kind == UPCONV_OP_BATCH_NORM) {
    print_batch_norm(epilogue, op, text);
    return;
  }
  switch (uc_op_classify(op->kind)) {
  case UC_CLASS_ELEMENTWISE:
    print_elementwise(epilogue, op, text);
    break;
  case UC_CLASS_POOL:
    print_window(epilogue, op, text);
    break;
  case UC_CLASS_REDUCE:
    print_axes(op, text);
    break;
  case UC_CLASS_CHANNELS:
    break;
  }
}

/* ---- the whole ---- */

/* What has been mentioned so far: reading numbers parameters and tensors by their first mention. */
typedef struct mentions {
  int params, tensors;
  bool in_order;
} mentions;

static void mention(const upconv_operand *operand, mentions *seen) {
  if (operand->kind != UPCONV_OPERAND_PARAM && operand->kind != UPCONV_OPERAND_TENSOR) return;
  int *next = operand->kind == UPCONV_OPERAND_PARAM ? &seen->params : &seen->tensors;
  if (operand->index > *next)
    seen->in_order = false;
  else if (operand->index == *next)
    ++*next;
}

/* Whether the operators alone, read back, declare the same things in the same order. */
static bool mentioned_in_order(const upconv_epilogue *epilogue) {
  mentions seen = {0, 0, true};
  for (int i = 0; i < epilogue->op_count; i++) {
    const upconv_op *op = &epilogue->op[i];
    bool named = op->kind == UPCONV_OP_BATCH_NORM;
    int count = named ? UC_BATCH_NORM_NAMES : uc_op_operand_count(op->kind);
    for (int j = 0; j < count; j++)
      mention(&op->operand[named ? uc_batch_norm_operand[j].operand : j], &seen);
  }
  return seen.in_order && seen.params == epilogue->param_count &&
         seen.tensors == epilogue->tensor_count;
}

static void print_declarations(const upconv_epilogue *epilogue, uc_text *text) {
  uc_text_add(text, "declare");
  for (int i = 0; i < epilogue->param_count; i++) {
    uc_text_add(text, " ");
    print_param(&epilogue->param[i], text);
  }
  for (int i = 0; i < epilogue->tensor_count; i++) {
    uc_text_add(text, " ");
    print_tensor(&epilogue->tensor[i], epilogue->nd, text);
  }
}

void uc_epilogue_print(const upconv_epilogue *epilogue, uc_text *text) {
  bool declared = !mentioned_in_order(epilogue);
  if (declared) print_declarations(epilogue, text);
  for (int i = 0; i < epilogue->op_count; i++) {
    if (i || declared) uc_text_add(text, " | ");
    uc_op_print(epilogue, i, text);
  }
}

upconv_status upconv_epilogue_print(const upconv_epilogue *epilogue, char *buffer, size_t capacity,
                                    size_t *length) {
  if (!epilogue || (!buffer && capacity))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", epilogue ? "buffer" : "epilogue");
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  uc_epilogue_print(epilogue, &text);
  if (length) *length = text.length;
  return UPCONV_OK;
}
