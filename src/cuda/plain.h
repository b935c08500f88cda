/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain tensor operations on the device: what stands between fused convolutions.
 *
 *   uc_cuda_plain_set_create(context, &set);        one a session: the loaded kernels
 *   uc_cuda_plain_prepare(set, &op, &plain);        checks, compiles what is new, copies the maps
 *   uc_cuda_plain_workspace(plain)                  bytes that a run needs, often 0
 *   uc_cuda_plain_run(plain, in, out, workspace, stream)      launches, nothing else
 *   uc_cuda_plain_destroy(plain);
 *   uc_cuda_plain_set_destroy(set);                 after every plain of it
 *
 * An operation is described by values: nothing here knows a front-end. Sizes, strides and attributes are arguments of the
 * kernels; types and kinds decide what is compiled, so many operations share one compilation, and it comes from the disk
 * cache from the second time on. A context that only plans ("cuda:sm_90a") compiles and cannot run.
 *
 * Results do not depend on anything but the inputs: no atomics, sums have a fixed order. They are those of the CPU's plain
 * operators, with float64 sums: integers wrap around, floating point becomes an integer by truncation and saturation (NaN is
 * 0), a NaN wins in max and min.
 *
 * A set serves one thread at a time; a plain that was prepared may run on any thread, several times at once with different
 * workspaces.
 */
#ifndef UPCONV_CUDA_PLAIN_H
#define UPCONV_CUDA_PLAIN_H

#include "driver.h"
#include "upconv/upconv.h"

enum { UC_PLAIN_RANK = 8, UC_PLAIN_INPUTS = 5 };

typedef enum uc_plain_dtype {
  UC_PLAIN_NONE = 0, /* an input that is left out */
  UC_PLAIN_F32,
  UC_PLAIN_F16,
  UC_PLAIN_BF16,
  UC_PLAIN_F64,
  UC_PLAIN_I8,
  UC_PLAIN_U8,
  UC_PLAIN_I16,
  UC_PLAIN_U16,
  UC_PLAIN_I32,
  UC_PLAIN_U32,
  UC_PLAIN_I64,
  UC_PLAIN_U64,
  UC_PLAIN_BOOL, /* a byte; not 0 is true, 1 is written */
  UC_PLAIN_DTYPES
} uc_plain_dtype;

size_t uc_plain_dtype_size(uc_plain_dtype dtype); /* 0: NONE, and what is none */
const char *uc_plain_dtype_name(uc_plain_dtype dtype);

/* Strides in elements, 0 and negative ones too; not of results, whose elements must lie apart. The address of element
   (0, 0, ...) is given at run time. */
typedef struct uc_plain_view {
  uc_plain_dtype dtype;
  int rank; /* 0 to UC_PLAIN_RANK */
  int64_t shape[UC_PLAIN_RANK];
  int64_t stride[UC_PLAIN_RANK];
} uc_plain_view;

/* Scalar functions. Operands that are all integers (or bool, as the result) are computed in int64, any other in floating
   point. */
typedef enum uc_plain_fn {
  UC_PLAIN_FN_NONE = 0,
  /* two operands */
  UC_PLAIN_ADD,
  UC_PLAIN_SUB,
  UC_PLAIN_MUL,
  UC_PLAIN_DIV, /* of integers: truncated; by 0 is 0 */
  UC_PLAIN_POW,
  UC_PLAIN_MAX,
  UC_PLAIN_MIN,
  UC_PLAIN_PRELU, /* x, slope */
  UC_PLAIN_EQUAL,
  UC_PLAIN_GREATER,
  UC_PLAIN_LESS,
  UC_PLAIN_GREATER_EQUAL,
  UC_PLAIN_LESS_EQUAL,
  UC_PLAIN_AND,
  UC_PLAIN_OR,
  UC_PLAIN_XOR,
  /* three */
  UC_PLAIN_WHERE, /* in[0] != 0 ? in[1] : in[2] */
  UC_PLAIN_CLIP,  /* x, low, high; a bound that is left out is attr[0], attr[1] */
  /* one */
  UC_PLAIN_CAST,
  UC_PLAIN_NOT,
  UC_PLAIN_RELU,
  UC_PLAIN_LEAKY_RELU, /* attr: slope */
  UC_PLAIN_ELU,        /* attr: alpha */
  UC_PLAIN_SELU,       /* attr: alpha, scale */
  UC_PLAIN_CELU,       /* attr: alpha */
  UC_PLAIN_SOFTPLUS,   /* attr: beta, threshold */
  UC_PLAIN_SOFTSIGN,
  UC_PLAIN_GELU,
  UC_PLAIN_GELU_TANH,
  UC_PLAIN_SILU, /* attr: the factor of x in the sigmoid */
  UC_PLAIN_MISH,
  UC_PLAIN_HARDSWISH,
  UC_PLAIN_HARDSIGMOID, /* attr: slope, offset */
  UC_PLAIN_SIGMOID,
  UC_PLAIN_TANH,
  UC_PLAIN_ABS,
  UC_PLAIN_NEG,
  UC_PLAIN_SQRT,
  UC_PLAIN_EXP,
  UC_PLAIN_LOG,
  UC_PLAIN_ERF,
  UC_PLAIN_RECIPROCAL,
  UC_PLAIN_FLOOR,
  UC_PLAIN_CEIL,
  UC_PLAIN_ROUND, /* to even */
  UC_PLAIN_SIGN,
  UC_PLAIN_SIN,
  UC_PLAIN_COS,
  UC_PLAIN_FNS
} uc_plain_fn;

int uc_plain_fn_operands(uc_plain_fn fn); /* 0: none such */

typedef enum uc_plain_reduce {
  UC_PLAIN_REDUCE_SUM,
  UC_PLAIN_REDUCE_MEAN,
  UC_PLAIN_REDUCE_MAX,
  UC_PLAIN_REDUCE_MIN,
  UC_PLAIN_REDUCE_LOG_SUM_EXP,
  UC_PLAIN_REDUCE_SUM_SQUARE,
  UC_PLAIN_REDUCE_L1,
  UC_PLAIN_REDUCE_L2,
  UC_PLAIN_REDUCE_PROD,
  UC_PLAIN_REDUCE_LOG_SUM,
  UC_PLAIN_REDUCES
} uc_plain_reduce;

typedef enum uc_plain_kind {
  /* out = fn(in[0], ...): operands are broadcast to out as NumPy does (aligned at their last axes). out may be one of the
     operands, with the same view. */
  UC_PLAIN_ELEMENTWISE,
  /* out = in[0] in the order of elements of each: shapes may differ where they hold as many elements. Concat is several, each
     into its part of the result; DepthToSpace reads the input as rank 6. One type, bits are kept (UC_PLAIN_CAST converts). */
  UC_PLAIN_COPY,
  /* out[i, j, ...] = in[0][map[0][i], map[1][j], ...]; attr[0], converted, where a map says -1. One rank and type. map[a]
     NULL: the index itself; else out.shape[a] numbers from -1 to in[0].shape[a] - 1. Resize by the nearest, Pad, Gather,
     Tile. */
  UC_PLAIN_MAP,
  /* Windows over the spatial axes of in[0] [N, C, 1 to 3 axes]; out has the sizes that they lead to. */
  UC_PLAIN_POOL,
  /* Over the axes whose bits are set in `axes`; out has the rank of in[0], extent 1 along those. */
  UC_PLAIN_REDUCE,
  /* softmax, or with `log` its logarithm, over all axes of `axes` together. out has the shape of in[0]. */
  UC_PLAIN_SOFTMAX,
  /* NumPy's matmul: in[0] and in[1] have rank 1 or more, axes before the last two are broadcast; a vector is a row on the
     left, a column on the right, and out lacks that axis. */
  UC_PLAIN_MATMUL,
  /* attr[0] A B + attr[1] C, A = in[0] and B = in[1] of rank 2, transposed where transpose[k] says so; C = in[2] may be left
     out and is broadcast. */
  UC_PLAIN_GEMM,
  /* (x - mean) / sqrt(variance + attr[0]) * scale + bias; in: x [N, C, ...], then scale, bias, mean, variance [C]. */
  UC_PLAIN_BATCH_NORM,
  /* The same with the mean and variance of each channel of each item; in: x, scale, bias. */
  UC_PLAIN_INSTANCE_NORM,
  UC_PLAIN_KINDS
} uc_plain_kind;

typedef struct uc_plain_op {
  uc_plain_kind kind;
  uc_plain_view in[UC_PLAIN_INPUTS];
  uc_plain_view out;
  uc_plain_fn fn; /* ELEMENTWISE */
  double attr[2]; /* of fn; fill; alpha and beta; epsilon */
  uint32_t axes;  /* REDUCE, SOFTMAX */
  uc_plain_reduce reduce;
  bool log;                          /* SOFTMAX */
  bool transpose[2];                 /* GEMM */
  bool average;                      /* POOL: else the maximum */
  upconv_window window;              /* POOL */
  const int64_t *map[UC_PLAIN_RANK]; /* MAP: host memory, read by prepare alone */
} uc_plain_op;

typedef struct uc_plain_set uc_plain_set;
typedef struct uc_plain uc_plain;

/* context outlives the set; it must be of CUDA. */
upconv_status uc_cuda_plain_set_create(const upconv_context *context, uc_plain_set **set);
void uc_cuda_plain_set_destroy(uc_plain_set *set); /* NULL is fine */
/* Compilations (or readings from the disk cache) so far. */
int uc_cuda_plain_set_modules(const uc_plain_set *set);

/* UPCONV_INVALID_ARGUMENT or UPCONV_UNSUPPORTED name what is wrong with op. The set outlives the plain. */
upconv_status uc_cuda_plain_prepare(uc_plain_set *set, const uc_plain_op *op, uc_plain **plain);
void uc_cuda_plain_destroy(uc_plain *plain); /* NULL is fine */

/* Bytes of device memory for a run, aligned to 256. */
size_t uc_cuda_plain_workspace(const uc_plain *plain);

/* in[k]: device address of element (0, 0, ...) of op.in[k], for the inputs of the kind; NULL where one is left out or empty.
   Addresses are multiples of the element's size. Launches alone, capturable: no allocation, no synchronisation. */
upconv_status uc_cuda_plain_run(const uc_plain *plain, const void *const *in, void *out,
                                void *workspace, uc_cuda_stream stream);

#endif
