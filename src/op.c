/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include <math.h>

#include "status.h"

enum {
  ANY = UC_VALUE | UC_CONSTANT | UC_PARAM | UC_TENSOR,
  NUMBER = UC_CONSTANT | UC_PARAM,
  OPTIONAL = UC_PARAM | UC_ABSENT
};

/* Name, class, operands with the kinds each may have, attributes with their defaults. */
// clang-format off
static const uc_op_info table[UPCONV_OP_COUNT] = {
    [UPCONV_OP_ADD] = {"add", UC_CLASS_ELEMENTWISE, 2, {ANY, ANY}, 0, {0}},
    [UPCONV_OP_SUB] = {"sub", UC_CLASS_ELEMENTWISE, 2, {ANY, ANY}, 0, {0}},
    [UPCONV_OP_MUL] = {"mul", UC_CLASS_ELEMENTWISE, 2, {ANY, ANY}, 0, {0}},
    [UPCONV_OP_DIV] = {"div", UC_CLASS_ELEMENTWISE, 2, {ANY, ANY}, 0, {0}},
    [UPCONV_OP_RELU] = {"relu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_LEAKY_RELU] = {"leaky_relu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 1, {0.01}},
    [UPCONV_OP_PRELU] = {"prelu", UC_CLASS_ELEMENTWISE, 2, {UC_VALUE, NUMBER | UC_TENSOR}, 0, {0}},
    [UPCONV_OP_ELU] = {"elu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 1, {1}},
    [UPCONV_OP_SELU] = {"selu", UC_CLASS_ELEMENTWISE, 1,
        {UC_VALUE}, 2, {1.6732632423543772, 1.0507009873554805}},
    [UPCONV_OP_CELU] = {"celu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 1, {1}},
    [UPCONV_OP_SOFTPLUS] = {"softplus", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 2, {1, 20}},
    [UPCONV_OP_SOFTSIGN] = {"softsign", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_GELU] = {"gelu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_GELU_TANH] = {"gelu_tanh", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_SILU] = {"silu", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_MISH] = {"mish", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_HARDSWISH] = {"hardswish", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_HARDSIGMOID] = {"hardsigmoid", UC_CLASS_ELEMENTWISE, 1,
        {UC_VALUE}, 2, {1.0 / 6, 0.5}},
    [UPCONV_OP_CLAMP] = {"clamp", UC_CLASS_ELEMENTWISE, 1,
        {UC_VALUE}, 2, {-(double)INFINITY, (double)INFINITY}},
    [UPCONV_OP_SIGMOID] = {"sigmoid", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_TANH] = {"tanh", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_ABS] = {"abs", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_NEG] = {"neg", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_SQRT] = {"sqrt", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_EXP] = {"exp", UC_CLASS_ELEMENTWISE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_TWO_SLOPE] = {"two_slope", UC_CLASS_ELEMENTWISE, 3,
        {UC_VALUE, NUMBER, NUMBER}, 0, {0}},
    [UPCONV_OP_BATCH_NORM] = {"batch_norm", UC_CLASS_ELEMENTWISE, 5,
        {UC_VALUE, OPTIONAL, OPTIONAL, UC_PARAM, UC_PARAM}, 1, {1e-5}},
    [UPCONV_OP_MAX_POOL] = {"max_pool", UC_CLASS_POOL, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_AVG_POOL] = {"avg_pool", UC_CLASS_POOL, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_EXTREME_POOL] = {"extreme_pool", UC_CLASS_POOL, 2, {UC_VALUE, NUMBER}, 0, {0}},
    [UPCONV_OP_SOFTMAX] = {"softmax", UC_CLASS_CHANNELS, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_LOG_SOFTMAX] = {"log_softmax", UC_CLASS_CHANNELS, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_LOGSUMEXP] = {"logsumexp", UC_CLASS_REDUCE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_SUM] = {"sum", UC_CLASS_REDUCE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_MEAN] = {"mean", UC_CLASS_REDUCE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_MAX] = {"max", UC_CLASS_REDUCE, 1, {UC_VALUE}, 0, {0}},
    [UPCONV_OP_MIN] = {"min", UC_CLASS_REDUCE, 1, {UC_VALUE}, 0, {0}},
};
// clang-format on

const uc_op_info *uc_op_describe(upconv_op_kind kind) {
  /* Through a wider type: whether an enum is signed is the compiler's choice. */
  long long index = (long long)kind;
  return index >= 0 && index < UPCONV_OP_COUNT ? &table[index] : NULL;
}

uc_op_class uc_op_classify(upconv_op_kind kind) { return table[kind].op_class; }
int uc_op_operand_count(upconv_op_kind kind) { return table[kind].operand_count; }
int uc_op_attr_count(upconv_op_kind kind) { return table[kind].attr_count; }

const char *upconv_op_name(upconv_op_kind kind) {
  const uc_op_info *info = uc_op_describe(kind);
  return info ? info->name : "unknown";
}

upconv_status upconv_op_init(upconv_op *op, upconv_op_kind kind) {
  const uc_op_info *info = uc_op_describe(kind);
  if (!op) return uc_fail(UPCONV_INVALID_ARGUMENT, "op is NULL");
  if (!info)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "operator kind is %d; allowed: 0 to %d", (int)kind,
                   UPCONV_OP_COUNT - 1);
  upconv_op result = {.kind = kind, .window = {.count_include_pad = true}};
  for (int i = 0; i < UPCONV_MAX_ATTRS; i++) result.attr[i] = info->attr[i];
  for (int i = 0; i < UPCONV_MAX_SPATIAL; i++)
    result.window.kernel[i] = result.window.dilation[i] = 1;
  if (info->op_class == UC_CLASS_CHANNELS || kind == UPCONV_OP_LOGSUMEXP)
    result.axes = UPCONV_AXIS_CHANNEL;
  *op = result;
  return UPCONV_OK;
}

const char *uc_axis_label(int i) {
  static const char *const label[UC_RANK] = {"batch", "channels", "depth", "height", "width"};
  return label[i];
}
