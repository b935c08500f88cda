/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upconv: transposed convolution (1-D, 2-D, 3-D) fused with what follows it.
 *
 * This header is the whole public interface and its manual.
 *
 * Five nouns:
 *   context    a device, its threads and its caches
 *   problem    what to convolve: sizes, strides, padding, data types, layouts
 *   epilogue   what follows: a short straight-line program (activation, pooling, softmax, ...)
 *   plan       how: immutable, printable, usable from many threads at once
 *   candidate  one way to carry out a plan; the plan holds the chosen one
 *
 * Life of a computation:
 *
 *   upconv_context_create(NULL, &context);
 *   upconv_problem_desc_init(&desc, 3);             describe ...
 *   upconv_problem_create(&desc, &problem);
 *   upconv_epilogue_parse(3, "leaky_relu 0.2 | max_pool 2", &epilogue);
 *   upconv_plan_create(context, problem, epilogue, NULL, &plan);      plan once
 *   upconv_plan_pack(plan, &parameters, packed, NULL);                pack once per weight update
 *   upconv_execute(plan, &arguments);                                 run as often as you like
 *   upconv_plan_destroy(plan);
 *
 * Rules that hold everywhere:
 *   - Every function that can fail returns an upconv_status. On failure the outputs are untouched and
 *     upconv_last_error() says, for the calling thread, which argument was wrong, its value, and what is allowed.
 *   - The library never prints, aborts, exits or raises a signal.
 *   - Sizes, strides and counts are int64_t and count elements, not bytes, unless the name says bytes.
 *   - Axis arrays hold spatial_dims entries, outermost first: depth, height, width in 3-D; width alone in 1-D.
 *   - What a *_create or *_parse function returns belongs to the caller, who frees it with *_destroy.
 *     *_destroy(NULL) does nothing. Problems and epilogues are copied into the plan.
 *   - Objects are immutable after creation (an epilogue: after the last append) and may then be shared by threads.
 */
#ifndef UPCONV_UPCONV_H
#define UPCONV_UPCONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define UPCONV_API
#else
#define UPCONV_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status and errors */

typedef enum upconv_status {
  UPCONV_OK = 0,
  UPCONV_INVALID_ARGUMENT, /* a value that can never be right: stride 0, channel mismatch, bad text */
  UPCONV_UNSUPPORTED,      /* meaningful, but not offered: float64, a rank of 4 */
  UPCONV_OVERFLOW,         /* a size or a product of sizes does not fit int64_t */
  UPCONV_OUT_OF_MEMORY,
  UPCONV_DEVICE_ERROR, /* the device or its driver is missing or failed */
} upconv_status;

/* A short English name: "ok", "invalid argument", ... Never NULL. */
UPCONV_API const char *upconv_status_string(upconv_status status);

/* The message of the last failed call of this thread, or "". Valid until this thread's next failing call. */
UPCONV_API const char *upconv_last_error(void);

/* "0.1.0" */
UPCONV_API const char *upconv_version(void);

/* ---------------------------------------------------------------- data types, layouts, tensors */

typedef enum upconv_dtype { UPCONV_F32 = 0, UPCONV_F16, UPCONV_BF16 } upconv_dtype;

typedef enum upconv_layout {
  UPCONV_CHANNELS_FIRST = 0, /* N C D H W: text form "ncdhw" (also for 1-D and 2-D) */
  UPCONV_CHANNELS_LAST,      /* N D H W C: text form "ndhwc" */
} upconv_layout;

/* Accumulation is float32 (or better) in every mode. */
typedef enum upconv_math {
  UPCONV_MATH_IEEE = 0, /* float32 products */
  UPCONV_MATH_TF32, /* float32 operands may be rounded to TF32 on hardware that has it; the CPU computes ieee */
} upconv_math;

enum { UPCONV_MAX_SPATIAL = 3, UPCONV_MAX_RANK = 5 };

UPCONV_API size_t upconv_dtype_size(upconv_dtype dtype);      /* bytes: 4 or 2 */
UPCONV_API const char *upconv_dtype_name(upconv_dtype dtype); /* "f32", "f16", "bf16" */

/*
 * A view of memory that the caller owns. Activations have rank spatial_dims + 2 and the logical axis order
 * N, C, spatial... whatever the layout: the strides say where elements lie. Any strides are correct; contiguous
 * channels-first and channels-last are fast. A stride of 0 is allowed for inputs (broadcast), not for outputs of
 * extent > 1.
 *
 * offset holds the coordinates of the view's first element inside the whole tensor (normally all 0). It is how
 * sub-volumes are passed: an output view with offset o and shape s asks for the box [o, o + s) alone, and an input
 * view must cover the box that upconv_plan_input_box names.
 */
typedef struct upconv_tensor {
  void *data;
  upconv_dtype dtype;
  int rank;
  int64_t shape[UPCONV_MAX_RANK];
  int64_t stride[UPCONV_MAX_RANK];
  int64_t offset[UPCONV_MAX_RANK];
} upconv_tensor;

/* A dense view of rank dimensions (0 to 5). For a rank of 3 to 5, layout orders the strides; else it is ignored. */
UPCONV_API upconv_tensor upconv_tensor_dense(void *data, upconv_dtype dtype, int rank,
                                             const int64_t *shape, upconv_layout layout);

/* ---------------------------------------------------------------- context */

typedef struct upconv_context upconv_context;

/*
 * device: "cpu" (also when NULL); "cuda" or "cuda:N", a GPU; "cuda:sm_90a", an architecture to plan and compile for
 * without a device. With a GPU every pointer of pack and execute is in its memory, and stream is a CUstream (NULL: the
 * default one).
 */
typedef struct upconv_context_options {
  const char *device;
  int threads; /* CPU threads; 0: as many as the affinity mask allows */
} upconv_context_options;

/* options may be NULL. A context may be used from several threads; it must outlive its plans. */
UPCONV_API upconv_status upconv_context_create(const upconv_context_options *options,
                                               upconv_context **context);
UPCONV_API void upconv_context_destroy(upconv_context *context);
UPCONV_API int upconv_context_threads(const upconv_context *context);
/* One line about the device: "cpu: avx512, 2 threads". Valid while the context lives. */
UPCONV_API const char *upconv_context_describe(const upconv_context *context);

/* ---------------------------------------------------------------- problem */

typedef struct upconv_problem upconv_problem;

/*
 * A transposed convolution, as PyTorch's ConvTranspose1d/2d/3d and ONNX's ConvTranspose define it. Per axis:
 *
 *   output = (in_size - 1) * stride - pad_begin - pad_end + dilation * (kernel - 1) + output_padding + 1
 *
 * Weights are [in_channels, out_channels / groups, kernel...], not flipped. Padding may be negative (the output then
 * extends beyond the natural one; those elements are the bias). output_padding rows are real sums, not zeros.
 */
typedef struct upconv_problem_desc {
  int spatial_dims; /* 1, 2 or 3 */
  int64_t batch;    /* nominal: a plan serves any batch and any in_size */
  int64_t in_channels;
  int64_t out_channels;
  int64_t groups;
  int64_t in_size[UPCONV_MAX_SPATIAL];
  int64_t kernel[UPCONV_MAX_SPATIAL];
  int64_t stride[UPCONV_MAX_SPATIAL];
  int64_t dilation[UPCONV_MAX_SPATIAL];
  int64_t pad_begin[UPCONV_MAX_SPATIAL];
  int64_t pad_end[UPCONV_MAX_SPATIAL];
  int64_t output_padding[UPCONV_MAX_SPATIAL]; /* 0 <= output_padding < max(stride, dilation) */
  bool bias;
  upconv_dtype x_dtype, w_dtype, y_dtype;
  upconv_layout x_layout,
      y_layout; /* what the planner should be fast for; execute accepts any strides */
  upconv_math math;
} upconv_problem_desc;

/* Defaults: batch, channels, groups and sizes 1, kernel 1, stride 1, dilation 1, no padding, no bias, f32, ncdhw, ieee. */
UPCONV_API upconv_status upconv_problem_desc_init(upconv_problem_desc *desc, int spatial_dims);

/* ONNX's auto_pad and output_shape, resolved into pad_begin and pad_end of desc. */
typedef enum upconv_auto_pad {
  UPCONV_PAD_NOTSET = 0, /* pads as given, unless output_shape is not NULL */
  UPCONV_PAD_VALID,      /* no padding */
  UPCONV_PAD_SAME_UPPER, /* output = in_size * stride, unless that is more than there is without padding; the odd element of
                            padding goes to the end */
  UPCONV_PAD_SAME_LOWER, /* ... to the beginning */
} upconv_auto_pad;

/* output_shape: spatial_dims sizes or NULL. See docs/MATH.md for the rule and its history. */
UPCONV_API upconv_status upconv_problem_desc_auto_pad(upconv_problem_desc *desc,
                                                      upconv_auto_pad mode,
                                                      const int64_t *output_shape);

UPCONV_API upconv_status upconv_problem_create(const upconv_problem_desc *desc,
                                               upconv_problem **problem);
UPCONV_API void upconv_problem_destroy(upconv_problem *problem);
UPCONV_API upconv_status upconv_problem_get_desc(const upconv_problem *problem,
                                                 upconv_problem_desc *desc);

/* Shape of the convolution's output, before the epilogue: N, C, spatial... (spatial_dims + 2 entries). */
UPCONV_API upconv_status upconv_problem_conv_shape(const upconv_problem *problem, int64_t *shape);

/*
 * One-line text form. Tokens in any order, separated by blanks; per-axis values "2" (all axes) or "3x5x7":
 *
 *   n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 d1 p1x2x3 pe1x2x3 op1 bias x=f16 w=f16 y=f32 math=tf32 xlayout=ndhwc
 *   ylayout=ndhwc
 *
 *   n batch, ci / co channels, g groups, in input size (it alone is required besides ci, co and k; its count of axes
 *   gives spatial_dims), k kernel, s stride, d dilation, p padding at the beginning (and, unless pe is given, at the
 *   end), op output padding, bias (absent: none), dtype=f16 for x, w and y together, layout=ndhwc for both layouts.
 *
 * An epilogue may follow after '|', in the form of upconv_epilogue_parse. upconv_problem_parse accepts both and stores
 * an epilogue (empty if there is none) when epilogue is not NULL.
 */
typedef struct upconv_epilogue upconv_epilogue;
UPCONV_API upconv_status upconv_problem_parse(const char *text, upconv_problem **problem,
                                              upconv_epilogue **epilogue);

/*
 * Prints problem and, when not NULL, epilogue as text that upconv_problem_parse reads back to the same thing.
 * Like snprintf: writes at most capacity bytes with the terminating 0 and stores the full length in *length
 * (may be NULL). buffer may be NULL when capacity is 0.
 */
UPCONV_API upconv_status upconv_problem_print(const upconv_problem *problem,
                                              const upconv_epilogue *epilogue, char *buffer,
                                              size_t capacity, size_t *length);

/* ---------------------------------------------------------------- epilogue */

/*
 * Operators. Every operator reads earlier values and makes one new value; value 0 is the convolution's output, value
 * i + 1 is made by operator i, and the last value is the result. Values keep rank spatial_dims + 2: a reduction leaves
 * an axis of extent 1. Elementwise operators broadcast axes of extent 1 as NumPy does.
 */
typedef enum upconv_op_kind {
  /* two operands, each a value, a constant, a parameter or a tensor */
  UPCONV_OP_ADD = 0,
  UPCONV_OP_SUB,
  UPCONV_OP_MUL,
  UPCONV_OP_DIV,
  /* one operand; attr[] as stated, formulas as in PyTorch */
  UPCONV_OP_RELU,
  UPCONV_OP_LEAKY_RELU, /* attr[0] = negative slope (default 0.01) */
  UPCONV_OP_PRELU,      /* operand 1 = slope: parameter, constant or tensor */
  UPCONV_OP_ELU,        /* attr[0] = alpha (1) */
  UPCONV_OP_SELU,       /* attr[0] = alpha (1.67326...), attr[1] = scale (1.05070...) */
  UPCONV_OP_CELU,       /* attr[0] = alpha (1) */
  UPCONV_OP_SOFTPLUS, /* attr[0] = beta (1), attr[1] = threshold (20): linear where beta * x > threshold */
  UPCONV_OP_SOFTSIGN,
  UPCONV_OP_GELU, /* with erf */
  UPCONV_OP_GELU_TANH,
  UPCONV_OP_SILU,
  UPCONV_OP_MISH,
  UPCONV_OP_HARDSWISH,
  UPCONV_OP_HARDSIGMOID, /* attr[0] = slope (1/6), attr[1] = offset (0.5) */
  UPCONV_OP_CLAMP,       /* attr[0] = lowest (-inf), attr[1] = highest (inf) */
  UPCONV_OP_SIGMOID,
  UPCONV_OP_TANH,
  UPCONV_OP_ABS,
  UPCONV_OP_NEG,
  UPCONV_OP_SQRT,
  UPCONV_OP_EXP,
  /* x > 0 ? a * x : b * x with operands 1 and 2 parameters or constants: what chains of leaky_relu, relu, abs, neg and
     scale merge into */
  UPCONV_OP_TWO_SLOPE,
  /* operands: value, weight, bias, mean, variance (parameters; weight and bias may be absent); attr[0] = epsilon (1e-5) */
  UPCONV_OP_BATCH_NORM,
  /* windows over the spatial axes */
  UPCONV_OP_MAX_POOL,
  UPCONV_OP_AVG_POOL,
  /* operand 1 = a parameter or constant: max pooling where it is >= 0, min pooling where it is < 0, per channel; what
     a max_pool becomes when a falling function is moved behind it */
  UPCONV_OP_EXTREME_POOL,
  /* over channels, keeping the shape */
  UPCONV_OP_SOFTMAX,
  UPCONV_OP_LOG_SOFTMAX,
  /* reductions over op.axes: the channels alone, or a set of spatial axes (LOGSUMEXP: channels only) */
  UPCONV_OP_LOGSUMEXP,
  UPCONV_OP_SUM,
  UPCONV_OP_MEAN,
  UPCONV_OP_MAX,
  UPCONV_OP_MIN,
  UPCONV_OP_COUNT
} upconv_op_kind;

typedef enum upconv_operand_kind {
  UPCONV_OPERAND_NONE = 0,
  UPCONV_OPERAND_VALUE,    /* index: 0 = convolution, i + 1 = result of operator i */
  UPCONV_OPERAND_CONSTANT, /* constant */
  UPCONV_OPERAND_PARAM, /* index into the epilogue's parameters: one number, or one per channel; given to pack */
  UPCONV_OPERAND_TENSOR, /* index into the epilogue's extra tensors; given to execute */
} upconv_operand_kind;

typedef struct upconv_operand {
  upconv_operand_kind kind;
  int index;
  double constant;
} upconv_operand;

/* Pooling window; arrays in the order of the axes. Zero stride entries mean "as the kernel"; see upconv_op_init. */
typedef struct upconv_window {
  int64_t kernel[UPCONV_MAX_SPATIAL];
  int64_t stride[UPCONV_MAX_SPATIAL];
  int64_t dilation[UPCONV_MAX_SPATIAL];
  int64_t pad_begin[UPCONV_MAX_SPATIAL];
  int64_t pad_end[UPCONV_MAX_SPATIAL];
  bool
      ceil_mode; /* size rounded up; a window that would start in the padding at the end is dropped */
  bool count_include_pad; /* AVG_POOL: padding counts in the divisor */
  int64_t divisor;        /* AVG_POOL: the divisor itself when not 0 */
} upconv_window;

enum { UPCONV_MAX_OPERANDS = 5, UPCONV_MAX_ATTRS = 2 };

/* Bits of upconv_op.axes. */
enum { UPCONV_AXIS_CHANNEL = 1 };
#define UPCONV_AXIS_SPATIAL(i) (2u << (i)) /* i = 0 is the outermost spatial axis */

typedef struct upconv_op {
  upconv_op_kind kind;
  upconv_operand operand[UPCONV_MAX_OPERANDS];
  double attr[UPCONV_MAX_ATTRS];
  upconv_window window;
  uint32_t axes;
} upconv_op;

/* The operator's defaults: attributes as listed, kernel and dilation 1, stride 0, count_include_pad as PyTorch: true. */
UPCONV_API upconv_status upconv_op_init(upconv_op *op, upconv_op_kind kind);
UPCONV_API const char *upconv_op_name(upconv_op_kind kind); /* as in the text form */

UPCONV_API upconv_status upconv_epilogue_create(int spatial_dims, upconv_epilogue **epilogue);
UPCONV_API void upconv_epilogue_destroy(upconv_epilogue *epilogue);

/* A parameter: one number (per_channel false) or one per channel of the value that uses it. name: letters, digits, '_',
   '.'; unique among parameters and tensors. */
UPCONV_API upconv_status upconv_epilogue_param(upconv_epilogue *epilogue, const char *name,
                                               bool per_channel, upconv_operand *operand);

/* An extra tensor, such as a residual. axes: bit 0 batch, bit 1 channel, bit 2 + i spatial axis i; an axis whose bit is
   unset has extent 1 and is broadcast. UPCONV_TENSOR_FULL sets all. */
#define UPCONV_TENSOR_FULL 0x1fu
UPCONV_API upconv_status upconv_epilogue_tensor(upconv_epilogue *epilogue, const char *name,
                                                uint32_t axes, upconv_dtype dtype,
                                                upconv_operand *operand);

/* Appends an operator; *value (may be NULL) becomes the operand that names its result. */
UPCONV_API upconv_status upconv_epilogue_append(upconv_epilogue *epilogue, const upconv_op *op,
                                                upconv_operand *value);

UPCONV_API int upconv_epilogue_op_count(const upconv_epilogue *epilogue);
UPCONV_API int upconv_epilogue_param_count(const upconv_epilogue *epilogue);
UPCONV_API int upconv_epilogue_tensor_count(const upconv_epilogue *epilogue);
/* NULL when index is out of range. */
UPCONV_API const char *upconv_epilogue_param_name(const upconv_epilogue *epilogue, int index);
UPCONV_API const char *upconv_epilogue_tensor_name(const upconv_epilogue *epilogue, int index);

/*
 * Text form: operators separated by '|', each "name operand... attribute... key=value...".
 *
 *   operands    0.5 a constant · %2 value 2 (%0 the convolution) · @name a parameter with one number per channel ·
 *               @name[] a parameter that is one number · #name a full tensor · #name[ncdhw] a tensor that has only the
 *               axes listed (e.g. #mask[ndhw] has one channel) · #name:f16 and #name[nc]:bf16 with a data type
 *   elementwise "add A": previous value + A · "sub A B": A - B · likewise mul, div; scale A is mul A; prelu A;
 *               two_slope A B; extreme_pool 2 dir=A
 *   attributes  positional, in the order of upconv_op_kind: "leaky_relu 0.2", "clamp 0 6", "softplus 1 20"
 *   batch_norm  "batch_norm mean=@m var=@v weight=@w bias=@b eps=1e-5"
 *   pools       "max_pool 2" kernel (stride as the kernel) · "max_pool 3 s2 p1 d1 ceil" · "avg_pool 2x3x3 s2 p1 pe0
 *               exclude_pad div=4"; per-axis values as in the problem
 *   reductions  "sum c" over channels · "mean dhw" over spatial axes (1-D: w; 2-D: hw) · softmax, log_softmax and
 *               logsumexp take no axes (channels) · global_avg_pool and global_max_pool are mean and max over all axes
 *   value       an operator that takes one value reads the previous one; "relu %0" reads value 0
 *   declare     "declare @b @a[] #t:f16 | ..." in front numbers parameters and tensors in that order; without it they are
 *               numbered as they are first mentioned
 *
 * An empty text is the empty epilogue.
 */
UPCONV_API upconv_status upconv_epilogue_parse(int spatial_dims, const char *text,
                                               upconv_epilogue **epilogue);
UPCONV_API upconv_status upconv_epilogue_print(const upconv_epilogue *epilogue, char *buffer,
                                               size_t capacity, size_t *length);

/* Shape of the result for a problem: spatial_dims + 2 entries. Checks that the two fit. */
UPCONV_API upconv_status upconv_output_shape(const upconv_problem *problem,
                                             const upconv_epilogue *epilogue, int64_t *shape);

/* ---------------------------------------------------------------- plan */

typedef struct upconv_plan upconv_plan;

/* Weights, bias and epilogue parameters, in the memory of the context's device. Any strides; f32, f16 or bf16 each. */
typedef struct upconv_parameters {
  upconv_tensor weight; /* [in_channels, out_channels / groups, kernel...] */
  upconv_tensor bias;   /* [out_channels]; data NULL when the problem has none */
  const upconv_tensor
      *params; /* one per epilogue parameter, in order: rank 0 or 1, shape [1] or [channels] */
  int param_count;
} upconv_parameters;

/* How the planner chooses among candidates; see upconv_tune. */
typedef enum upconv_tuning {
  UPCONV_TUNING_DEFAULT =
      0, /* UPCONV_TUNING_MEASURE if UPCONV_TUNE=1 is in the environment, else UPCONV_TUNING_STORED */
  UPCONV_TUNING_OFF,    /* by the cost model alone */
  UPCONV_TUNING_STORED, /* by a stored decision where there is one for the same problem and device, else by the cost model */
  UPCONV_TUNING_MEASURE, /* likewise, but where there is none the candidates are measured and the decision is stored: takes a
                            second or so. By the cost model where nothing can be measured: too little memory, a stream of the
                            device being captured */
} upconv_tuning;

typedef struct upconv_plan_options {
  const upconv_parameters *
      constants; /* parameters that will never change: lets rules look at their values. NULL: none */
  const char *candidate; /* force a candidate by name. NULL: the planner chooses */
  bool no_rewrite;       /* leave the program as written */
  bool
      no_fuse; /* operator by operator, each result in memory: the baseline of benchmarks. The cost model chooses */
  upconv_tuning tuning;
} upconv_plan_options;

/* epilogue and options may be NULL. */
UPCONV_API upconv_status upconv_plan_create(upconv_context *context, const upconv_problem *problem,
                                            const upconv_epilogue *epilogue,
                                            const upconv_plan_options *options, upconv_plan **plan);
UPCONV_API void upconv_plan_destroy(upconv_plan *plan);

/* Explains the plan to a person: phases, taps, rules fired, FLOP and bytes before and after, candidates and costs.
   Text of many lines; buffer as in upconv_problem_print. */
UPCONV_API upconv_status upconv_plan_print(const upconv_plan *plan, char *buffer, size_t capacity,
                                           size_t *length);
/* The program that a CUDA plan was compiled from: its kernels, then those that pack, each a file of its own that begins
   with the problem in a comment. UPCONV_UNSUPPORTED for candidates that come with the library, such as the CPU's. */
UPCONV_API upconv_status upconv_plan_source(const upconv_plan *plan, char *buffer, size_t capacity,
                                            size_t *length);
UPCONV_API const char *
upconv_plan_candidate(const upconv_plan *plan); /* name of the chosen candidate */
/* Names of candidates that apply to this plan's problem: index 0, 1, ...; NULL past the end. */
UPCONV_API const char *upconv_plan_candidate_name(const upconv_plan *plan, int index);
/* Names of the rewrite rules that fired, in order; NULL past the end. */
UPCONV_API const char *upconv_plan_rule(const upconv_plan *plan, int index);

/* Work of one run at the nominal extents: multiply-adds count 2. "source" is the program as written, with every
   intermediate read and written; "planned" is what the plan does. */
typedef struct upconv_work {
  double source_flop, planned_flop;
  double source_bytes, planned_bytes;
} upconv_work;
UPCONV_API upconv_status upconv_plan_work(const upconv_plan *plan, upconv_work *work);

/* Bytes of the packed buffer. It depends on the plan alone, never on batch or size. */
UPCONV_API size_t upconv_plan_packed_size(const upconv_plan *plan);
/* Packs weights, bias and parameters. packed: upconv_plan_packed_size bytes, aligned to 64. It may be shared by many
   executions, also at once, but must not be packed while one runs. stream: NULL on the CPU. */
UPCONV_API upconv_status upconv_plan_pack(const upconv_plan *plan,
                                          const upconv_parameters *parameters, void *packed,
                                          void *stream);

/* x and the output, with the extents of this run: shape[0] (batch) and the spatial sizes of x are free, channels are the
   plan's. x.shape + the problem decide the whole output's shape; sub-volumes: see upconv_arguments. */
UPCONV_API upconv_status upconv_plan_output_shape(const upconv_plan *plan, const int64_t *x_shape,
                                                  int64_t *y_shape);

/*
 * The box of x that the box [y_offset, y_offset + y_shape) of the output needs, for a whole x of shape x_shape.
 * The box may be empty (extent 0): then the output depends on the parameters alone.
 */
UPCONV_API upconv_status upconv_plan_input_box(const upconv_plan *plan, const int64_t *x_shape,
                                               const int64_t *y_offset, const int64_t *y_shape,
                                               int64_t *x_offset, int64_t *x_box_shape);

/* Bytes of workspace that upconv_execute needs for a whole x of x_shape. Bounded by tiles and threads, and by the
   results of spatial reductions; never by the size of the convolution's output (no_fuse excepted). */
UPCONV_API upconv_status upconv_plan_workspace_size(const upconv_plan *plan, const int64_t *x_shape,
                                                    size_t *bytes);

typedef struct upconv_arguments {
  upconv_tensor x;
  upconv_tensor
      y; /* y.shape: the box wanted (the whole output normally); y.offset: where it starts */
  const upconv_tensor
      *tensors; /* one per epilogue tensor, in order, each covering what y's box needs of it */
  int tensor_count;
  const int64_t *x_shape; /* shape of the whole x when x is only a part of it; NULL: x.shape */
  const void *packed;
  void *
      workspace; /* upconv_plan_workspace_size bytes, aligned to 64, not shared with another execution under way */
  size_t workspace_size;
  void *stream; /* NULL on the CPU */
} upconv_arguments;

/*
 * Runs the plan. Allocates nothing. Same plan, device and inputs give the same bits, for any number of threads, and a
 * box has the bits of the same box of the whole output. x and y must not overlap; y may lie inside a larger tensor.
 * Non-finite inputs: see docs/MATH.md. Thread safe.
 */
UPCONV_API upconv_status upconv_execute(const upconv_plan *plan, const upconv_arguments *arguments);

/* ---------------------------------------------------------------- tuning */

/*
 * Decisions that measuring made are kept as text, one line each, in the file UPCONV_TUNE_FILE (set but empty: nowhere), or, if
 * that is not set, in tuning.txt in the folder of the kernel cache. A line holds for one device and one problem with its
 * epilogue, whatever parameters and tensors are called. Plans find it when they are created; a plan that exists never
 * changes. Threads and processes may share the file; lines that are damaged, or name a candidate that does not apply, are
 * ignored. Which candidate is taken decides the last bits of results, so whoever needs the same bits on several machines
 * sets UPCONV_TUNING_OFF or names the candidate.
 */

/* One candidate, measured. */
typedef struct upconv_trial {
  const char *candidate; /* valid for ever */
  double estimated;      /* seconds, by the cost model */
  int runs;              /* 0: not measured; `why` says why not */
  double fastest, quartile,
      median; /* seconds, with cold caches. A quarter of the runs took at most `quartile`: by that
                                       candidates are compared, since what else a machine does lengthens runs */
  char why[160];
} upconv_trial;

enum { UPCONV_MAX_TRIALS = 32 };

typedef struct upconv_tune_result {
  int count;
  upconv_trial trial[UPCONV_MAX_TRIALS]; /* what the cost model takes for fastest comes first */
  int chosen;  /* index of the decision: the first, unless another is 2 % faster or more */
  bool stored; /* the decision is in the file */
} upconv_tune_result;

typedef struct upconv_tune_options {
  const upconv_parameters *constants; /* as for plans; their values only decide which rules fire */
  bool no_rewrite;
  bool dry_run; /* measure, and keep nothing */
  double
      seconds; /* about how long to measure all candidates, besides building them; 0: 0.3 for each */
  /* Called now and then by the calling thread, part going from 0 to 1; NULL: nobody wants to know. */
  void (*progress)(void *data, double part);
  void *progress_data;
} upconv_tune_options;

/*
 * Measures every candidate that applies at the problem's sizes, on made-up data and in memory of its own, and keeps the
 * decision. epilogue and options may be NULL. A candidate of which the model is sure that it is far behind and takes long is
 * left out, and says so. What a candidate fails with is in its trial; an error if none could be measured, such as
 * UPCONV_OUT_OF_MEMORY, or if the output is empty. Thread safe: threads of one context measure one after the other.
 */
UPCONV_API upconv_status upconv_tune(upconv_context *context, const upconv_problem *problem,
                                     const upconv_epilogue *epilogue,
                                     const upconv_tune_options *options,
                                     upconv_tune_result *result);

/* ---------------------------------------------------------------- oracle */

/* How the arithmetic under test rounds; see docs/MATH.md, "Error bounds". */
typedef struct upconv_error_model {
  double operand_rounding; /* v: 0 for ieee and 16-bit operands, 2^-11 for TF32 */
  bool tensor_core;        /* accumulation truncates: c = 4 + n / 16 instead of 4 + 2 sqrt(n) */
} upconv_error_model;

/*
 * The definition, in float64, slow and obviously right; shares nothing with the backends. Writes, per element of the
 * whole output in channels-first order, the value and a bound on the error that correct arithmetic of the given model,
 * stored as y_dtype, may have. bound is +inf where rounding decides between NaN and a number. arguments: x, tensors
 * (and y.dtype) are read; the rest is ignored. model may be NULL (ieee).
 */
UPCONV_API upconv_status upconv_reference(const upconv_problem *problem,
                                          const upconv_epilogue *epilogue,
                                          const upconv_parameters *parameters,
                                          const upconv_arguments *arguments,
                                          const upconv_error_model *model, double *value,
                                          double *bound);

/*
 * Compares y (any strides, whole output) with value and bound. *worst receives the largest |y - value| / bound over all
 * elements (0 where both are equal, +inf where one is NaN and the other is not, or infinities differ); *where (may be
 * NULL) its index in channels-first order. Passes iff *worst <= 1.
 */
UPCONV_API upconv_status upconv_compare(const upconv_tensor *y, const double *value,
                                        const double *bound, double *worst, int64_t *where);

#ifdef __cplusplus
}
#endif

#endif
