/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of one operator that need no sizes. */
#include <math.h>

#include "op.h"
#include "status.h"

/* Window parameters are bounded, so that sizes and the search for empty windows stay small. */
static const int64_t LARGEST = INT64_C(1) << 24;

static const char *const operand_kind_name[] = {"nothing", "a value", "a constant", "a parameter",
                                                "a tensor"};

static upconv_status check_operand(const upconv_epilogue *epilogue, const upconv_operand *operand,
                                   unsigned accepts, int position) {
  enum { KINDS = UPCONV_OPERAND_TENSOR + 1 };
  const int limit[KINDS] = {1, epilogue->op_count + 1, 1, epilogue->param_count,
                            epilogue->tensor_count};
  long long kind = (long long)operand->kind;
  if (kind < 0 || kind >= KINDS)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the kind of operand %d is %lld; allowed: 0 to %d",
                   position, kind, KINDS - 1);
  if (!(accepts & 1u << kind))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "operand %d is %s, which this operator does not take",
                   position, operand_kind_name[kind]);
  if (kind == UPCONV_OPERAND_CONSTANT) {
    if (isnan(operand->constant))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "operand %d is the constant NaN", position);
    return UPCONV_OK;
  }
  if (kind != UPCONV_OPERAND_NONE && (operand->index < 0 || operand->index >= limit[kind]))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "operand %d is %s with index %d; there are %d, counted from 0", position,
                   operand_kind_name[kind], operand->index, limit[kind]);
  return UPCONV_OK;
}

/* A result of constants, parameters and tensors alone would have no shape of its own. */
static upconv_status check_operands(const upconv_epilogue *epilogue, const upconv_op *op,
                                    const uc_op_info *info) {
  bool reads_value = false;
  for (int i = 0; i < info->operand_count; i++) {
    upconv_status status = check_operand(epilogue, &op->operand[i], info->accepts[i], i);
    if (status) return status;
    reads_value = reads_value || op->operand[i].kind == UPCONV_OPERAND_VALUE;
  }
  if (!reads_value)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "no operand is a value; one at least must be");
  return UPCONV_OK;
}

static upconv_status check_attrs(const upconv_op *op, const uc_op_info *info) {
  for (int i = 0; i < info->attr_count; i++)
    if (isnan(op->attr[i])) return uc_fail(UPCONV_INVALID_ARGUMENT, "attribute %d is NaN", i);
  if (op->kind == UPCONV_OP_SOFTPLUS && op->attr[0] == 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "beta is 0; it divides");
  if (op->kind == UPCONV_OP_CELU && op->attr[0] == 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "alpha is 0; it divides");
  if (op->kind == UPCONV_OP_BATCH_NORM && op->attr[0] < 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "eps is negative; it must be at least 0");
  return UPCONV_OK;
}

static upconv_status check_window_axis(const upconv_window *window, int a) {
  int64_t reach = 0;
  const struct {
    const char *name;
    int64_t value;
  } positive[] = {{"kernel", window->kernel[a]},
                  {"stride", window->stride[a]},
                  {"dilation", window->dilation[a]}};
  for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
    if (positive[i].value < 1 || positive[i].value > LARGEST)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "window %s along %s is %lld; allowed: 1 to %lld",
                     positive[i].name, uc_axis_label(2 + a), (long long)positive[i].value,
                     (long long)LARGEST);
  reach = window->dilation[a] * (window->kernel[a] - 1);
  if (reach > LARGEST) reach = LARGEST;
  const int64_t pad[] = {window->pad_begin[a], window->pad_end[a]};
  for (int i = 0; i < 2; i++)
    if (pad[i] < 0 || pad[i] > reach)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "window pad_%s along %s is %lld; allowed: 0 to %lld, less than the window",
                     i ? "end" : "begin", uc_axis_label(2 + a), (long long)pad[i],
                     (long long)reach);
  return UPCONV_OK;
}

static bool window_axis_is_trivial(const upconv_window *window, int a) {
  return window->kernel[a] == 1 && window->stride[a] == 1 && window->dilation[a] == 1 &&
         window->pad_begin[a] == 0 && window->pad_end[a] == 0;
}

static upconv_status check_window(const upconv_epilogue *epilogue, const upconv_op *op) {
  for (int a = 0; a < UC_AXES; a++) {
    upconv_status status = check_window_axis(&op->window, a);
    if (status) return status;
    if (a < UC_AXES - epilogue->nd && !window_axis_is_trivial(&op->window, a))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "the window has a %s, but the epilogue is %d-D",
                     uc_axis_label(2 + a), epilogue->nd);
  }
  if (op->window.divisor && op->kind != UPCONV_OP_AVG_POOL)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "divisor is %lld; only avg_pool has one",
                   (long long)op->window.divisor);
  return UPCONV_OK;
}

static upconv_status check_axes(const upconv_epilogue *epilogue, const upconv_op *op) {
  uint32_t spatial = UC_AXES_SPATIAL & (UC_AXES_SPATIAL << (UC_AXES - epilogue->nd));
  if (op->axes == UC_AXES_CHANNEL) return UPCONV_OK;
  if (uc_op_classify(op->kind) == UC_CLASS_CHANNELS || op->kind == UPCONV_OP_LOGSUMEXP)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "axes: this operator works over channels alone");
  if (!op->axes || (op->axes & ~spatial))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "axes: allowed are the channels alone, or one or more of the %d spatial axes",
                   epilogue->nd);
  return UPCONV_OK;
}

upconv_status uc_op_check(const upconv_epilogue *epilogue, const upconv_op *op) {
  const uc_op_info *info = uc_op_describe(op->kind);
  if (!info)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "operator kind is %d; allowed: 0 to %d", (int)op->kind,
                   UPCONV_OP_COUNT - 1);
  upconv_status status = check_operands(epilogue, op, info);
  if (!status) status = check_attrs(op, info);
  if (!status && info->op_class == UC_CLASS_POOL) status = check_window(epilogue, op);
  if (!status && (info->op_class == UC_CLASS_CHANNELS || info->op_class == UC_CLASS_REDUCE))
    status = check_axes(epilogue, op);
  return status ? uc_fail_in(status, "%s", info->name) : UPCONV_OK;
}
