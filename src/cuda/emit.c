/* SPDX-License-Identifier: Apache-2.0 */
/* What generated text is made of: defines, numbers, views of tensors, elementwise operators as expressions. */
#include "emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../op.h"

const char *uc_cuda_type_name(upconv_dtype dtype) {
  return dtype == UPCONV_F32 ? "F32" : dtype == UPCONV_F16 ? "F16" : "BF16";
}

void uc_cuda_emit_define(uc_text *text, const char *name, int64_t value) {
  uc_text_add(text, "#define %s %lld\n", name, (long long)value);
}

void uc_cuda_emit_number(uc_text *text, int64_t *count, int64_t value) {
  uc_text_add(text, "%s%lld",
              *count == 0        ? ""
              : *count % 24 == 0 ? ",\n  "
                                 : ", ",
              (long long)value);
  ++*count;
}

void uc_cuda_emit_float(uc_text *text, double value) {
  float f = (float)value;
  if (isnan(f))
    uc_text_add(text, "__int_as_float(0x7fffffff)");
  else if (isinf(f))
    uc_text_add(text, f > 0 ? "INF" : "-INF");
  else
    uc_text_add(text, signbit(f) ? "(%.9ef)" : "%.9ef", (double)f);
}

int uc_cuda_view_of(uc_cuda_kernel *kernel, bool tensor, int index) {
  for (int i = 0; i < kernel->view_count && i < UC_CUDA_MAX_VIEWS; i++)
    if (kernel->view[i].tensor == tensor && kernel->view[i].index == index) return i;
  if (kernel->view_count < UC_CUDA_MAX_VIEWS)
    kernel->view[kernel->view_count] = (uc_cuda_view){tensor, index};
  return kernel->view_count++; /* beyond the limit the plan is refused */
}

/* Operators that are one call f(operands, attributes). */
static const char *function_of(upconv_op_kind kind) {
  switch (kind) {
  case UPCONV_OP_RELU:
    return "op_relu";
  case UPCONV_OP_LEAKY_RELU:
    return "op_prelu";
  case UPCONV_OP_PRELU:
    return "op_prelu";
  case UPCONV_OP_ELU:
    return "op_elu";
  case UPCONV_OP_SELU:
    return "op_selu";
  case UPCONV_OP_CELU:
    return "op_celu";
  case UPCONV_OP_SOFTPLUS:
    return "op_softplus";
  case UPCONV_OP_SOFTSIGN:
    return "op_softsign";
  case UPCONV_OP_GELU:
    return "op_gelu";
  case UPCONV_OP_GELU_TANH:
    return "op_gelu_tanh";
  case UPCONV_OP_SILU:
    return "op_silu";
  case UPCONV_OP_MISH:
    return "op_mish";
  case UPCONV_OP_HARDSWISH:
    return "op_hardswish";
  case UPCONV_OP_HARDSIGMOID:
    return "op_hardsigmoid";
  case UPCONV_OP_CLAMP:
    return "op_clamp";
  case UPCONV_OP_SIGMOID:
    return "op_sigmoid";
  case UPCONV_OP_TANH:
    return "tanhf";
  case UPCONV_OP_ABS:
    return "fabsf";
  case UPCONV_OP_NEG:
    return "-";
  case UPCONV_OP_SQRT:
    return "sqrtf";
  case UPCONV_OP_EXP:
    return "expf";
  case UPCONV_OP_TWO_SLOPE:
    return "op_slopes";
  case UPCONV_OP_BATCH_NORM:
    return "op_batch_norm";
  default:
    return NULL;
  }
}

static const char *infix_of(upconv_op_kind kind) {
  switch (kind) {
  case UPCONV_OP_ADD:
    return "+";
  case UPCONV_OP_SUB:
    return "-";
  case UPCONV_OP_MUL:
    return "*";
  case UPCONV_OP_DIV:
    return "/";
  default:
    return NULL;
  }
}

void uc_cuda_emit_elementwise(uc_text *text, const upconv_op *op,
                              char operand[UPCONV_MAX_OPERANDS][512]) {
  if (infix_of(op->kind)) {
    uc_text_add(text, "%s %s %s", operand[0], infix_of(op->kind), operand[1]);
    return;
  }
  uc_text_add(text, "%s(", function_of(op->kind));
  for (int i = 0; i < uc_op_operand_count(op->kind); i++)
    uc_text_add(text, "%s%s", i ? ", " : "", operand[i]);
  for (int i = 0; i < uc_op_attr_count(op->kind); i++) {
    uc_text_add(text, ", ");
    uc_cuda_emit_float(text, op->attr[i]);
  }
  uc_text_add(text, ")");
}
