/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program: the graph for inputs of known shapes. Values have sizes and places in memory; nodes
 * are tasks, with their attributes read and checked. plan.c makes tasks, segment.c joins them to
 * segments, place.c finds memory, run.c runs.
 */
#ifndef UPCONV_ONNX_PROGRAM_H
#define UPCONV_ONNX_PROGRAM_H

#include "graph.h"

/* ---------------------------------------------------------------- values */

/* A strided view of memory: of the host, or of the device that a session runs on. */
typedef struct uc_view {
  void *data;
  uc_onnx_dtype dtype; /* UC_ONNX_UNDEFINED: an input that was left out */
  int rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  int64_t stride[UC_ONNX_MAX_RANK];
} uc_view;

typedef struct uc_value {
  uc_onnx_dtype dtype;
  int rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  /* A constant's dense data, known while planning. */
  const void *data;
  void *owned; /* what to free of it */
  /* Memory: the first element lies `offset` elements behind the first one of value `root` (often
     the value itself). */
  int root;
  int64_t offset;
  int64_t stride[UC_ONNX_MAX_RANK];
} uc_value;

/* ---------------------------------------------------------------- operators */

/* Scalar functions of elementwise operators; fn.c evaluates them. */
typedef enum uc_fn {
  UC_FN_NONE = 0,
  /* two operands */
  UC_FN_ADD,
  UC_FN_SUB,
  UC_FN_MUL,
  UC_FN_DIV,
  UC_FN_POW,
  UC_FN_MAX,
  UC_FN_MIN,
  UC_FN_PRELU,
  UC_FN_EQUAL,
  UC_FN_GREATER,
  UC_FN_LESS,
  UC_FN_GREATER_EQUAL,
  UC_FN_LESS_EQUAL,
  UC_FN_AND,
  UC_FN_OR,
  UC_FN_XOR,
  /* three */
  UC_FN_WHERE,
  UC_FN_CLIP,
  /* one */
  UC_FN_CAST,
  UC_FN_NOT,
  UC_FN_RELU,
  UC_FN_LEAKY_RELU,
  UC_FN_ELU,
  UC_FN_SELU, /* attr: alpha, scale */
  UC_FN_CELU,
  UC_FN_SOFTPLUS, /* attr: beta, threshold */
  UC_FN_SOFTSIGN,
  UC_FN_GELU,
  UC_FN_GELU_TANH,
  UC_FN_SILU, /* attr: the factor of x in the sigmoid */
  UC_FN_MISH,
  UC_FN_HARDSWISH,
  UC_FN_HARDSIGMOID, /* attr: slope, offset */
  UC_FN_SIGMOID,
  UC_FN_TANH,
  UC_FN_ABS,
  UC_FN_NEG,
  UC_FN_SQRT,
  UC_FN_EXP,
  UC_FN_LOG,
  UC_FN_ERF,
  UC_FN_RECIPROCAL,
  UC_FN_FLOOR,
  UC_FN_CEIL,
  UC_FN_ROUND,
  UC_FN_SIGN,
  UC_FN_SIN,
  UC_FN_COS,
} uc_fn;

/* What the planner and the oracle may know of an operator beyond its functions. */
typedef enum uc_family {
  UC_FAMILY_SHAPE,       /* the result depends on shapes and constants alone */
  UC_FAMILY_VIEW,        /* the result shares the memory of the first input, or is a copy of it */
  UC_FAMILY_MOVE,        /* elements only move */
  UC_FAMILY_ELEMENTWISE, /* uc_onnx_task.fn of the inputs, broadcast */
  UC_FAMILY_POOL,        /* windows over the spatial axes */
  UC_FAMILY_REDUCE,
  UC_FAMILY_SOFTMAX,
  UC_FAMILY_MATRIX,
  UC_FAMILY_NORM,
  UC_FAMILY_CONV, /* the head of a segment */
} uc_family;

typedef struct uc_onnx_task uc_onnx_task;
typedef struct uc_onnx_program uc_onnx_program;

typedef struct uc_onnx_op {
  const char *name;
  uc_family family;
  int min_inputs, max_inputs; /* max -1: any number */
  int max_outputs;            /* outputs that are understood; -1: any number */
  /* Bit k: input k decides shapes, so its data must be known while planning. */
  unsigned constant_inputs;
  const char *attributes; /* names that are understood, each between blanks */
  int variant;            /* which one of a family: a uc_fn, ... */
  /* Reads attributes, checks inputs, sets type and shape of the outputs. */
  upconv_status (*plan)(uc_onnx_program *program, uc_onnx_task *task);
  /* Computes; also on doubles, since the oracle calls it. NULL: views and convolutions. */
  void (*run)(const uc_onnx_task *task, const uc_view *in, const uc_view *out);
} uc_onnx_op;

/* NULL: not supported. */
const uc_onnx_op *uc_onnx_op_find(const uc_onnx_node *node, int64_t opset);

/* ---------------------------------------------------------------- tasks */

/* A node whose attributes are read and whose sizes are known. Fields below `view` belong to the
   operator's family. */
struct uc_onnx_task {
  const uc_onnx_node *node;
  const uc_onnx_op *op;
  int input_count, output_count;
  int *input; /* value numbers or -1; not the node's own, since a pattern may replace them */
  const int *output;
  bool live;   /* its result is needed */
  bool folded; /* its outputs are constants */
  bool view;   /* its outputs share the memory of its first input */

  const struct uc_isa *isa; /* vector kernels; NULL: none, as while planning */
  uc_fn fn;                 /* elementwise */
  double attr[2];
  int axis, axis_end; /* the axes [axis, axis_end) of softmax; axis of concat */
  uint32_t axes;      /* bit i: axis i is reduced */
  bool keepdims;

  upconv_window window; /* pools: the spatial axes, outermost first */
  /* Moves: the index in the input for each index of the output, -1: attr[0]. */
  int64_t *map[UC_ONNX_MAX_RANK];
  int perm[UC_ONNX_MAX_RANK]; /* transpose */
  bool transpose[2];          /* Gemm */
  int64_t block;              /* depth to space */
  bool crd;
  upconv_problem_desc desc; /* convolutions */
  /* Conv: done by a pool of windows of 1 behind a convolution of stride 1. */
  int64_t conv_stride[UPCONV_MAX_SPATIAL];
};

struct uc_onnx_program {
  const uc_onnx_model *model;
  int value_count;
  uc_value *value; /* numbered as the model's */
  int task_count;
  uc_onnx_task *task; /* numbered as the model's nodes */
  size_t memory_limit;
  /* Bytes that constant folding may still touch; what is left over is computed at run time. */
  int64_t fold_budget;
  /* Readers of a value: tasks reader[first_reader[v]] to reader[first_reader[v + 1] - 1]. */
  int64_t *first_reader;
  int *reader;
};

/* ---- for operators' plan functions: task.c ---- */

/* The input or output `index`; NULL when it is left out or beyond the end. */
uc_value *uc_task_in(uc_onnx_program *program, const uc_onnx_task *task, int index);
uc_value *uc_task_out(uc_onnx_program *program, const uc_onnx_task *task, int index);

/* Attributes with their defaults; a wrong type is an error that names the attribute. */
upconv_status uc_task_int(const uc_onnx_task *task, const char *name, int64_t fallback,
                          int64_t *value);
upconv_status uc_task_float(const uc_onnx_task *task, const char *name, double fallback,
                            double *value);
upconv_status uc_task_string(const uc_onnx_task *task, const char *name, const char *fallback,
                             const char **value);
/* At most capacity numbers; *count is 0 when the attribute is not there. */
upconv_status uc_task_ints(const uc_onnx_task *task, const char *name, int capacity,
                           int64_t *values, int *count);
/* An axis in [-rank, rank), made non-negative. */
upconv_status uc_task_axis(const char *name, int64_t axis, int rank, int *result);
/* The integers that a constant input holds; *count is 0 when the input is left out. An input
   that is not constant is an error: shapes must not depend on data. */
upconv_status uc_task_constant_ints(uc_onnx_program *program, const uc_onnx_task *task, int index,
                                    const char *name, int capacity, int64_t *values, int *count);
/* Axes that newer operator sets give as input and older ones as attribute: *count -1 when
   neither is there. */
upconv_status uc_task_axes(uc_onnx_program *program, const uc_onnx_task *task, int input,
                           int64_t *axes, int *count);

upconv_status uc_task_is_float(uc_onnx_program *program, const uc_onnx_task *task, int index);
bool uc_dtype_is_float(uc_onnx_dtype dtype);
bool uc_dtype_is_int(uc_onnx_dtype dtype); /* bool counts as one */

/* Type and shape of a dense result; checks sizes. */
upconv_status uc_set_result(uc_onnx_program *program, const uc_onnx_task *task, int output,
                            uc_onnx_dtype dtype, int rank, const int64_t *shape);
/* A result that is input 0 seen with other strides, from `offset` elements on. */
upconv_status uc_set_view(uc_onnx_program *program, uc_onnx_task *task, int output, int rank,
                          const int64_t *shape, const int64_t *stride, int64_t offset);
/* Dense new data of a result that is known while planning, zeroed, freed with the program; NULL
   without memory. */
void *uc_set_constant(uc_onnx_program *program, const uc_onnx_task *task, int output);

/* NumPy's rule for two shapes; an error names both. */
upconv_status uc_broadcast(int *rank, int64_t *shape, const uc_value *value);

/* ---- views: view.c ---- */

void uc_dense_strides(int rank, const int64_t *shape, int64_t *stride);
bool uc_is_dense(int rank, const int64_t *shape, const int64_t *stride);
int64_t uc_shape_count(int rank, const int64_t *shape);
/* Strides of the same elements in another shape; false when there are none. */
bool uc_reshape_strides(int rank, const int64_t *shape, const int64_t *stride, int new_rank,
                        const int64_t *new_shape, int64_t *new_stride);
/* Makes the shapes of two views equal, which hold as many elements: one is seen in the shape of the
   other. False when neither can be. */
bool uc_view_match(uc_view *from, uc_view *to);
/* Element by element in the order of each view; types may differ, shapes too when they hold as
   many elements. */
void uc_view_copy(const uc_view *from, const uc_view *to);

/* ---- plan.c, live.c, pattern.c ---- */

/* Tasks and values for inputs of these shapes (in the model's order). Data of inputs may be
   NULL. */
upconv_status uc_onnx_program_plan(uc_onnx_program *program, const uc_onnx_tensor *const *inputs);
void uc_onnx_program_free(uc_onnx_program *program);
/* An operator that is not supported, without sizes. */
upconv_status uc_onnx_check_operators(const uc_onnx_model *model);
uc_view uc_constant_view(const uc_value *value);

/* True for tasks that run: live and not folded. */
bool uc_task_runs(const uc_onnx_task *task);
/* Finds what is live from the tasks' inputs, and fills the lists of readers. */
upconv_status uc_onnx_program_readers(uc_onnx_program *program);
/* Replaces what exporters write for gelu, silu, ... by one task. Readers must be found again
   afterwards. */
void uc_onnx_program_patterns(uc_onnx_program *program);

#endif
