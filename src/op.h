/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about each operator, in one table: a new elementwise operator is one line here. */
#ifndef UPCONV_OP_H
#define UPCONV_OP_H

#include "epilogue.h"

/* Sets of operand kinds: bit i is upconv_operand_kind i. */
enum {
  UC_ABSENT = 1u << UPCONV_OPERAND_NONE,
  UC_VALUE = 1u << UPCONV_OPERAND_VALUE,
  UC_CONSTANT = 1u << UPCONV_OPERAND_CONSTANT,
  UC_PARAM = 1u << UPCONV_OPERAND_PARAM,
  UC_TENSOR = 1u << UPCONV_OPERAND_TENSOR,
};

typedef struct uc_op_info {
  const char *name;
  uc_op_class op_class;
  int operand_count;
  unsigned accepts[UPCONV_MAX_OPERANDS]; /* kinds that each operand may have */
  int attr_count;
  double attr[UPCONV_MAX_ATTRS]; /* defaults */
} uc_op_info;

/* NULL when there is no such operator. */
const uc_op_info *uc_op_describe(upconv_op_kind kind);

/* Every field of the operator, already canonical, against what its kind allows; epilogue says what
   operands exist. Does not look at sizes. */
upconv_status uc_op_check(const upconv_epilogue *epilogue, const upconv_op *op);

/* "channel", "batch", "depth", ...: canonical axis i of N, C, D, H, W. */
const char *uc_axis_label(int i);

#endif
