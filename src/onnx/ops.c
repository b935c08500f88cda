/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of ONNX that are understood: the one place to add one. */
#include "ops.h"

#include <string.h>

#define POOL \
  " auto_pad ceil_mode count_include_pad dilations kernel_shape pads storage_order strides "
#define LEGACY " axis broadcast consumed_inputs "
#define OLD " consumed_inputs "
#define REDUCE " axes keepdims noop_with_empty_axes "

/* clang-format off */
static const uc_onnx_op table[] = {
  /* name, family, least and most inputs, outputs, inputs that must be constant (bits), attributes, variant, plan, run */
  {"ConvTranspose", UC_FAMILY_CONV, 2, 3, 1, 0,
   " auto_pad dilations group kernel_shape output_padding output_shape pads strides ", 0, uc_plan_conv, NULL},
  {"Conv", UC_FAMILY_CONV, 2, 3, 1, 0, " auto_pad dilations group kernel_shape pads strides ", 1, uc_plan_conv, NULL},

  {"Add", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_ADD, uc_plan_binary, uc_run_elementwise},
  {"Sub", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_SUB, uc_plan_binary, uc_run_elementwise},
  {"Mul", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_MUL, uc_plan_binary, uc_run_elementwise},
  {"Div", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_DIV, uc_plan_binary, uc_run_elementwise},
  {"Pow", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_POW, uc_plan_binary, uc_run_elementwise},
  {"Sum", UC_FAMILY_ELEMENTWISE, 1, -1, 1, 0, OLD, UC_FN_ADD, uc_plan_binary, uc_run_elementwise},
  {"Max", UC_FAMILY_ELEMENTWISE, 1, -1, 1, 0, OLD, UC_FN_MAX, uc_plan_binary, uc_run_elementwise},
  {"Min", UC_FAMILY_ELEMENTWISE, 1, -1, 1, 0, OLD, UC_FN_MIN, uc_plan_binary, uc_run_elementwise},
  {"PRelu", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, OLD, UC_FN_PRELU, uc_plan_prelu, uc_run_elementwise},
  {"Equal", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_EQUAL, uc_plan_compare, uc_run_elementwise},
  {"Greater", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_GREATER, uc_plan_compare, uc_run_elementwise},
  {"Less", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_LESS, uc_plan_compare, uc_run_elementwise},
  {"GreaterOrEqual", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, " ", UC_FN_GREATER_EQUAL, uc_plan_compare, uc_run_elementwise},
  {"LessOrEqual", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, " ", UC_FN_LESS_EQUAL, uc_plan_compare, uc_run_elementwise},
  {"And", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_AND, uc_plan_binary, uc_run_elementwise},
  {"Or", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_OR, uc_plan_binary, uc_run_elementwise},
  {"Xor", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, LEGACY, UC_FN_XOR, uc_plan_binary, uc_run_elementwise},
  {"Where", UC_FAMILY_ELEMENTWISE, 3, 3, 1, 0, " ", UC_FN_WHERE, uc_plan_where, uc_run_elementwise},
  {"Clip", UC_FAMILY_ELEMENTWISE, 1, 3, 1, 0, " consumed_inputs max min ", UC_FN_CLIP, uc_plan_clip, uc_run_elementwise},
  {"Cast", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " round_mode saturate to ", UC_FN_CAST, uc_plan_cast, uc_run_elementwise},
  {"CastLike", UC_FAMILY_ELEMENTWISE, 2, 2, 1, 0, " round_mode saturate ", UC_FN_CAST, uc_plan_cast, uc_run_elementwise},
  {"Not", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_NOT, uc_plan_unary, uc_run_elementwise},
  {"Relu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_RELU, uc_plan_unary, uc_run_elementwise},
  {"LeakyRelu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha consumed_inputs ", UC_FN_LEAKY_RELU, uc_plan_unary, uc_run_elementwise},
  {"Elu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha consumed_inputs ", UC_FN_ELU, uc_plan_unary, uc_run_elementwise},
  {"Selu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha consumed_inputs gamma ", UC_FN_SELU, uc_plan_unary, uc_run_elementwise},
  {"Celu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha ", UC_FN_CELU, uc_plan_unary, uc_run_elementwise},
  {"Softplus", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_SOFTPLUS, uc_plan_unary, uc_run_elementwise},
  {"Softsign", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_SOFTSIGN, uc_plan_unary, uc_run_elementwise},
  {"Gelu", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " approximate ", UC_FN_GELU, uc_plan_gelu, uc_run_elementwise},
  {"Swish", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha ", UC_FN_SILU, uc_plan_swish, uc_run_elementwise},
  {"Mish", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_MISH, uc_plan_unary, uc_run_elementwise},
  {"HardSwish", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_HARDSWISH, uc_plan_unary, uc_run_elementwise},
  {"HardSigmoid", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " alpha beta consumed_inputs ", UC_FN_HARDSIGMOID, uc_plan_unary, uc_run_elementwise},
  {"Sigmoid", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_SIGMOID, uc_plan_unary, uc_run_elementwise},
  {"Tanh", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_TANH, uc_plan_unary, uc_run_elementwise},
  {"Abs", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_ABS, uc_plan_unary, uc_run_elementwise},
  {"Neg", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_NEG, uc_plan_unary, uc_run_elementwise},
  {"Sqrt", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_SQRT, uc_plan_unary, uc_run_elementwise},
  {"Exp", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_EXP, uc_plan_unary, uc_run_elementwise},
  {"Log", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_LOG, uc_plan_unary, uc_run_elementwise},
  {"Erf", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_ERF, uc_plan_unary, uc_run_elementwise},
  {"Reciprocal", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_RECIPROCAL, uc_plan_unary, uc_run_elementwise},
  {"Floor", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_FLOOR, uc_plan_unary, uc_run_elementwise},
  {"Ceil", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, OLD, UC_FN_CEIL, uc_plan_unary, uc_run_elementwise},
  {"Round", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_ROUND, uc_plan_unary, uc_run_elementwise},
  {"Sign", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_SIGN, uc_plan_unary, uc_run_elementwise},
  {"Sin", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_SIN, uc_plan_unary, uc_run_elementwise},
  {"Cos", UC_FAMILY_ELEMENTWISE, 1, 1, 1, 0, " ", UC_FN_COS, uc_plan_unary, uc_run_elementwise},

  {"BatchNormalization", UC_FAMILY_NORM, 5, 5, 1, 0,
   " consumed_inputs epsilon is_test momentum spatial training_mode ", 0, uc_plan_batch_norm, uc_run_batch_norm},
  {"InstanceNormalization", UC_FAMILY_NORM, 3, 3, 1, 0, " consumed_inputs epsilon ", 1, uc_plan_instance_norm, uc_run_instance_norm},

  {"MaxPool", UC_FAMILY_POOL, 1, 1, 1, 0, POOL, UC_POOL_MAX, uc_plan_pool, uc_run_pool},
  {"AveragePool", UC_FAMILY_POOL, 1, 1, 1, 0, POOL, UC_POOL_AVERAGE, uc_plan_pool, uc_run_pool},
  {"GlobalAveragePool", UC_FAMILY_REDUCE, 1, 1, 1, 0, " ", UC_REDUCE_MEAN, uc_plan_global_pool, uc_run_reduce},
  {"GlobalMaxPool", UC_FAMILY_REDUCE, 1, 1, 1, 0, " ", UC_REDUCE_MAX, uc_plan_global_pool, uc_run_reduce},
  {"ReduceSum", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_SUM, uc_plan_reduce, uc_run_reduce},
  {"ReduceMean", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_MEAN, uc_plan_reduce, uc_run_reduce},
  {"ReduceMax", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_MAX, uc_plan_reduce, uc_run_reduce},
  {"ReduceMin", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_MIN, uc_plan_reduce, uc_run_reduce},
  {"ReduceLogSumExp", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_LOG_SUM_EXP, uc_plan_reduce, uc_run_reduce},
  {"ReduceSumSquare", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_SUM_SQUARE, uc_plan_reduce, uc_run_reduce},
  {"ReduceL1", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_L1, uc_plan_reduce, uc_run_reduce},
  {"ReduceL2", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_L2, uc_plan_reduce, uc_run_reduce},
  {"ReduceProd", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_PROD, uc_plan_reduce, uc_run_reduce},
  {"ReduceLogSum", UC_FAMILY_REDUCE, 1, 2, 1, 2, REDUCE, UC_REDUCE_LOG_SUM, uc_plan_reduce, uc_run_reduce},
  {"Softmax", UC_FAMILY_SOFTMAX, 1, 1, 1, 0, " axis ", 0, uc_plan_softmax, uc_run_softmax},
  {"LogSoftmax", UC_FAMILY_SOFTMAX, 1, 1, 1, 0, " axis ", 1, uc_plan_softmax, uc_run_softmax},

  {"MatMul", UC_FAMILY_MATRIX, 2, 2, 1, 0, " ", 0, uc_plan_matmul, uc_run_matmul},
  {"Gemm", UC_FAMILY_MATRIX, 2, 3, 1, 0, " alpha beta broadcast transA transB ", 1, uc_plan_gemm, uc_run_gemm},

  {"Identity", UC_FAMILY_VIEW, 1, 1, 1, 0, " ", 0, uc_plan_identity, NULL},
  {"Dropout", UC_FAMILY_VIEW, 1, 3, 2, 4, " consumed_inputs is_test ratio seed ", 0, uc_plan_dropout, NULL},
  {"Reshape", UC_FAMILY_VIEW, 1, 2, 1, 2, " allowzero consumed_inputs shape ", 0, uc_plan_reshape, NULL},
  {"Flatten", UC_FAMILY_VIEW, 1, 1, 1, 0, " axis ", 0, uc_plan_flatten, NULL},
  {"Squeeze", UC_FAMILY_VIEW, 1, 2, 1, 2, " axes ", 0, uc_plan_squeeze, NULL},
  {"Unsqueeze", UC_FAMILY_VIEW, 1, 2, 1, 2, " axes ", 0, uc_plan_unsqueeze, NULL},
  {"Transpose", UC_FAMILY_VIEW, 1, 1, 1, 0, " perm ", 1, uc_plan_transpose, NULL},
  {"Expand", UC_FAMILY_VIEW, 2, 2, 1, 2, " ", 0, uc_plan_expand, NULL},
  {"Slice", UC_FAMILY_VIEW, 1, 5, 1, 30, " axes ends starts ", 0, uc_plan_slice, NULL},
  {"Split", UC_FAMILY_VIEW, 1, 2, -1, 2, " axis num_outputs split ", 0, uc_plan_split, NULL},
  {UC_ONNX_ALIGN, UC_FAMILY_VIEW, 2, 2, 1, 0, " axis ", 0, uc_plan_align, NULL},

  {"Concat", UC_FAMILY_MOVE, 1, -1, 1, 0, " axis ", 0, uc_plan_concat, uc_run_concat},
  {"Resize", UC_FAMILY_MOVE, 1, 4, 1, 14,
   " antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value"
   " keep_aspect_ratio_policy mode nearest_mode ", 0, uc_plan_resize, uc_run_map},
  {"Upsample", UC_FAMILY_MOVE, 1, 2, 1, 2, " mode scales ", 0, uc_plan_upsample, uc_run_map},
  {"Pad", UC_FAMILY_MOVE, 1, 4, 1, 14, " mode paddings pads value ", 0, uc_plan_pad, uc_run_map},
  {"Gather", UC_FAMILY_MOVE, 2, 2, 1, 2, " axis ", 0, uc_plan_gather, uc_run_gather},
  {"Tile", UC_FAMILY_MOVE, 2, 2, 1, 2, " ", 0, uc_plan_tile, uc_run_map},
  {"DepthToSpace", UC_FAMILY_MOVE, 1, 1, 1, 0, " blocksize mode ", 0, uc_plan_depth_to_space, uc_run_blocks},
  {"SpaceToDepth", UC_FAMILY_MOVE, 1, 1, 1, 0, " blocksize ", 1, uc_plan_space_to_depth, uc_run_blocks},

  {"Shape", UC_FAMILY_SHAPE, 1, 1, 1, 0, " end start ", 0, uc_plan_shape, NULL},
  {"Size", UC_FAMILY_SHAPE, 1, 1, 1, 0, " ", 0, uc_plan_size, NULL},
  {"Constant", UC_FAMILY_SHAPE, 0, 0, 1, 0, " value value_float value_floats value_int value_ints ", 0, uc_plan_constant, NULL},
  {"ConstantOfShape", UC_FAMILY_SHAPE, 1, 1, 1, 1, " value ", 0, uc_plan_constant_of_shape, NULL},
  {"Range", UC_FAMILY_SHAPE, 3, 3, 1, 7, " ", 0, uc_plan_range, NULL},
};
/* clang-format on */

const uc_onnx_op *uc_onnx_op_find(const uc_onnx_node *node, int64_t opset) {
  if (*node->domain || opset < 1) return NULL;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(table[i].name, node->op_type) == 0) return &table[i];
  return NULL;
}
