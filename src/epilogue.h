/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows the convolution: a straight-line program in SSA form. Value 0 is the convolution's output and operator i
 * makes value i + 1. Windows and axis sets are stored for three axes, right-aligned as in problem.h.
 */
#ifndef UPCONV_EPILOGUE_H
#define UPCONV_EPILOGUE_H

#include "problem.h"
#include "text.h"
#include "upconv/upconv.h"

/* Limits, so that a text of at most UC_MAX_TEXT bytes holds every valid program with its problem. */
enum { UC_MAX_OPS = 1024, UC_MAX_PARAMS = 4096, UC_MAX_TENSORS = 1024, UC_MAX_NAME = 127 };

typedef struct uc_param_decl {
  char *name;
  bool per_channel;
} uc_param_decl;

typedef struct uc_tensor_decl {
  char *name;
  uint32_t
      axes; /* bit i: axis i of N, C, D, H, W is present; canonical, so a 1-D problem never has bits 2 and 3 */
  upconv_dtype dtype;
} uc_tensor_decl;

struct upconv_epilogue {
  int nd;
  int op_count, op_capacity;
  upconv_op *
      op; /* windows: 3 canonical axes, strides resolved; axes: bit 0 channel, bit 1 + a canonical axis a */
  int param_count, param_capacity;
  uc_param_decl *param;
  int tensor_count, tensor_capacity;
  uc_tensor_decl *tensor;
};

/* Axes of a tensor: from the user's bits (batch, channel, nd spatial ones) to uc_tensor_decl's. */
static inline uint32_t uc_tensor_axes(uint32_t user, int nd) {
  uint32_t spatial = user & ~3u & ((4u << nd) - 1);
  return (user & 3u) | spatial << (UC_AXES - nd);
}

/* Bits of upconv_op.axes as stored. */
enum { UC_AXES_CHANNEL = 1u, UC_AXES_SPATIAL = 0xeu };

/* How an operator treats its operands: what passes and backends switch on, so that a new elementwise operator needs no
   new case there. */
typedef enum uc_op_class {
  UC_CLASS_ELEMENTWISE, /* ADD .. TWO_SLOPE, BATCH_NORM: element i of the result needs element i of the operands */
  UC_CLASS_POOL, /* MAX_POOL, AVG_POOL, EXTREME_POOL */
  UC_CLASS_CHANNELS, /* SOFTMAX, LOG_SOFTMAX: every channel of the result needs every channel; shape kept */
  UC_CLASS_REDUCE, /* LOGSUMEXP .. MIN over op.axes */
} uc_op_class;

uc_op_class uc_op_classify(upconv_op_kind kind);
int uc_op_operand_count(
    upconv_op_kind kind); /* ADD 2, RELU 1, TWO_SLOPE 3, BATCH_NORM 5, EXTREME_POOL 2, ... */
int uc_op_attr_count(upconv_op_kind kind);

upconv_status uc_epilogue_copy(const upconv_epilogue *from, upconv_epilogue **to);

/* Appends an operator whose window and axes are already canonical (rewrites build programs this way). */
upconv_status uc_epilogue_append_canonical(upconv_epilogue *epilogue, const upconv_op *op);

/* Shapes of all values: shape[0] is given (the convolution's N, C, D, H, W), shape[1..op_count] are written.
   Checks broadcasting, parameters against channels, windows against sizes, overflow. */
upconv_status uc_epilogue_shapes(const upconv_epilogue *epilogue, const int64_t conv_shape[UC_RANK],
                                 int64_t (*shape)[UC_RANK]);

/* Output size of a pooling window along canonical axis a; may be <= 0 where the window does not fit. PyTorch's rule: with
   ceil_mode the last window must start inside the input or the padding at its beginning. */
int64_t uc_window_output(const upconv_window *window, int a, int64_t in_size);

/* Elements that outputs [out.begin, out.end) of a window read along axis a, clipped to [0, in_size). */
uc_range uc_window_input(const upconv_window *window, int a, uc_range out, int64_t in_size);

/* AVG_POOL: the divisor of output element o (canonical axes), as PyTorch and ONNX define it. */
double uc_window_divisor(const upconv_window *window, const int64_t o[UC_AXES],
                         const int64_t in_size[UC_AXES]);

void uc_op_print(const upconv_epilogue *epilogue, int op, uc_text *text);
void uc_epilogue_print(const upconv_epilogue *epilogue, uc_text *text);

#endif
