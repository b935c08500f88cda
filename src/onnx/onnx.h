/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX models on upconv: an optional part that the program uses; not installed, not part of the
 * public interface.
 *
 *   model    a checked graph with its initialisers, read from a file or from memory
 *   session  a model on a context, of the CPU or of a GPU: for the shapes of its inputs the graph
 *            is cut into fused segments (a convolution and the longest tail that fuses) and plain
 *            operators; plans and packed weights are kept, so that a run with sizes seen before
 *            only computes
 *
 *   uc_onnx_model_load("decoder.onnx", &model);
 *   uc_onnx_session_create(model, context, NULL, &session);
 *   uc_onnx_run(session, inputs, input_count, outputs, output_count);
 *   uc_onnx_session_destroy(session);
 *   uc_onnx_model_destroy(model);
 *
 * Rules of upconv.h hold: upconv_status everywhere, the message in upconv_last_error(), one line
 * that names the file, the node, the operator or the tensor. Models come from strangers: nothing in
 * one may crash, hang or reach outside its folder. A session serves one thread at a time; a model
 * may be shared by sessions and must outlive them, as must the context.
 */
#ifndef UPCONV_ONNX_ONNX_H
#define UPCONV_ONNX_ONNX_H

#include "upconv/upconv.h"

/* ---------------------------------------------------------------- tensors in host memory */

/* Numbers as in ONNX's TensorProto.DataType. */
typedef enum uc_onnx_dtype {
  UC_ONNX_UNDEFINED = 0,
  UC_ONNX_FLOAT = 1,
  UC_ONNX_UINT8 = 2,
  UC_ONNX_INT8 = 3,
  UC_ONNX_UINT16 = 4,
  UC_ONNX_INT16 = 5,
  UC_ONNX_INT32 = 6,
  UC_ONNX_INT64 = 7,
  UC_ONNX_STRING = 8, /* never holds data here */
  UC_ONNX_BOOL = 9,
  UC_ONNX_FLOAT16 = 10,
  UC_ONNX_DOUBLE = 11,
  UC_ONNX_UINT32 = 12,
  UC_ONNX_UINT64 = 13,
  UC_ONNX_BFLOAT16 = 16,
} uc_onnx_dtype;

enum { UC_ONNX_MAX_RANK = 8 };

size_t
uc_onnx_dtype_size(uc_onnx_dtype dtype); /* bytes an element; 0 for types that are not numbers */
const char *
uc_onnx_dtype_name(uc_onnx_dtype dtype); /* "float", "float16", ...; "undefined" for unknown ones */

/* A dense tensor, last axis fastest. */
typedef struct uc_onnx_tensor {
  char *name; /* may be NULL */
  uc_onnx_dtype dtype;
  int rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  void *data;
  bool owned; /* uc_onnx_tensor_free frees name and data */
} uc_onnx_tensor;

/* Elements and bytes; false when a dimension is negative, the type is not a number, or the
   product overflows. */
bool uc_onnx_tensor_elements(const uc_onnx_tensor *tensor, int64_t *elements);
bool uc_onnx_tensor_bytes(const uc_onnx_tensor *tensor, size_t *bytes);
/* Frees what is owned and empties the struct. */
void uc_onnx_tensor_free(uc_onnx_tensor *tensor);

/* Element at index, as float64 and back (rounded to nearest even, integers saturated; bool:
   nonzero). */
double uc_onnx_get(const void *data, uc_onnx_dtype dtype, int64_t index);
void uc_onnx_set(void *data, uc_onnx_dtype dtype, int64_t index, double value);

/* A file that holds one TensorProto, such as input_0.pb of a backend test. The tensor is owned. */
upconv_status uc_onnx_tensor_read(const char *path, uc_onnx_tensor *tensor);
upconv_status uc_onnx_tensor_write(const char *path, const uc_onnx_tensor *tensor);

/* ---------------------------------------------------------------- model */

typedef struct uc_onnx_model uc_onnx_model;

/* Reads the file and the external data that it names, which must lie in the file's folder or
   below. */
upconv_status uc_onnx_model_load(const char *path, uc_onnx_model **model);
/* The same from memory; directory is where external data lie, NULL: the model may have none. */
upconv_status uc_onnx_model_parse(const void *data, size_t size, const char *directory,
                                  uc_onnx_model **model);
void uc_onnx_model_destroy(uc_onnx_model *model);

/* One graph input or output as declared. Initialisers that are listed as inputs as well are not
   inputs. */
typedef struct uc_onnx_value_info {
  const char *name;
  uc_onnx_dtype dtype;                  /* UC_ONNX_UNDEFINED: not declared */
  int rank;                             /* -1: not declared */
  int64_t shape[UC_ONNX_MAX_RANK];      /* -1: symbolic or not declared */
  const char *symbol[UC_ONNX_MAX_RANK]; /* name of a symbolic dimension; NULL: none */
} uc_onnx_value_info;

int uc_onnx_model_input_count(const uc_onnx_model *model);
int uc_onnx_model_output_count(const uc_onnx_model *model);
/* NULL when index is out of range. Valid while the model lives. */
const uc_onnx_value_info *uc_onnx_model_input(const uc_onnx_model *model, int index);
const uc_onnx_value_info *uc_onnx_model_output(const uc_onnx_model *model, int index);

/* The model's metadata entry of this key, such as "author"; NULL: there is none. Valid while the
   model lives. */
const char *uc_onnx_model_metadata(const uc_onnx_model *model, const char *key);

/* A size for a symbolic dimension. */
typedef struct uc_onnx_binding {
  const char *symbol;
  int64_t size;
} uc_onnx_binding;

/*
 * The tensor that input `index` wants: its name (the model's), type and shape, data NULL, not
 * owned. Symbols take their size from bindings; a symbol without one, or a dimension without a
 * name, takes fallback, or is an error naming it when fallback is negative.
 */
upconv_status uc_onnx_model_input_tensor(const uc_onnx_model *model, int index,
                                         const uc_onnx_binding *bindings, int binding_count,
                                         int64_t fallback, uc_onnx_tensor *tensor);

/* ---------------------------------------------------------------- session */

typedef struct uc_onnx_session uc_onnx_session;

typedef struct uc_onnx_options {
  upconv_math math;
  bool no_fuse;    /* segments run operator by operator: the baseline of benchmarks */
  bool no_rewrite; /* segments run as written */
  /* What follows a convolution runs as plain operators: a check of the translation. */
  bool no_tails;
  /* Forces a candidate by name, which has to apply to all segments. NULL: the planner chooses. */
  const char *candidate;
  /* Bytes that intermediate results may take together. 0: the machine's memory. */
  size_t memory_limit;
} uc_onnx_options;

/* options may be NULL. An operator that is not supported is reported here, with its node; what
   depends on shapes is reported by the functions below. */
upconv_status uc_onnx_session_create(const uc_onnx_model *model, upconv_context *context,
                                     const uc_onnx_options *options, uc_onnx_session **session);
void uc_onnx_session_destroy(uc_onnx_session *session);

/*
 * Inputs are found by name, or taken in the model's order where the name is NULL; every input must
 * be given. Outputs likewise; asking for a part of them is fine. Types must be the model's; shapes
 * must agree with the declared ones, and dimensions of the same symbol with each other. Tensors are
 * in host memory, also where the context is a GPU's: there inputs are uploaded before the first node
 * and outputs downloaded after the last one. On the CPU nothing is copied.
 */

/* Fills dtype, rank and shape of outputs. The inputs' data may be NULL unless a shape depends on
   their values. */
upconv_status uc_onnx_shapes(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                             int input_count, uc_onnx_tensor *outputs, int output_count);

/* Runs. An output with data is written there, dtype and shape having to be right (see
   uc_onnx_shapes); one without gets memory of its own (owned; name copied). Outputs must not
   overlap inputs. */
upconv_status uc_onnx_run(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                          uc_onnx_tensor *outputs, int output_count);

/*
 * The computation of the last run once more, on the data that it left on the GPU, without copies of
 * inputs or outputs: what benchmarks measure. Returns before it is done, having put it on
 * uc_onnx_stream. UPCONV_INVALID_ARGUMENT on the CPU, and when anything else was done with other
 * shapes since then.
 */
upconv_status uc_onnx_repeat(uc_onnx_session *session);
void *uc_onnx_stream(const uc_onnx_session *session); /* a CUstream; NULL on the CPU */

/* Bytes that the last plan for these shapes takes besides inputs, outputs, initialisers and
   packed weights. */
upconv_status uc_onnx_memory(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                             int input_count, size_t *bytes);

/* How the graph is cut: nodes of each segment, its problem, its plan (with `plans`: whole, else
   one line), plain operators. Inputs' data may be NULL as in uc_onnx_shapes. Text of many lines;
   buffer as in upconv_problem_print. */
upconv_status uc_onnx_print(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                            bool plans, char *buffer, size_t capacity, size_t *length);

/* Work of one run, summed over the segments (see upconv_work). */
upconv_status uc_onnx_work(uc_onnx_session *session, const uc_onnx_tensor *inputs, int input_count,
                           upconv_work *work);

/* Steps of the cut, for tests and for tables: fused segments and plain operators (views cost
   nothing and are not counted). */
upconv_status uc_onnx_step_counts(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                  int input_count, int *segments, int *plain);
/* The plan of segment `index`, in the order of execution; NULL past the end. Valid while the
   session lives. */
upconv_status uc_onnx_segment_plan(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                   int input_count, int index, const upconv_plan **plan);

/* ---------------------------------------------------------------- oracle */

/* One output in float64 with the bound on its error; see upconv_reference. */
typedef struct uc_onnx_result {
  const char *name; /* which output; NULL: in the model's order */
  uc_onnx_dtype dtype;
  int rank;
  int64_t shape[UC_ONNX_MAX_RANK];
  double *value; /* set by uc_onnx_reference, freed by uc_onnx_result_free */
  double *bound;
} uc_onnx_result;

/* The whole graph in float64, node by node as written for plain operators, through the library's
   oracle for segments; error bounds are carried from step to step. model as in
   upconv_reference; NULL: how the plan of each segment rounds. */
upconv_status uc_onnx_reference(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                int input_count, const upconv_error_model *model,
                                uc_onnx_result *results, int result_count);
void uc_onnx_result_free(uc_onnx_result *result);

/* Largest |tensor - value| / bound, as upconv_compare; *where may be NULL. Shapes must agree. */
upconv_status uc_onnx_compare(const uc_onnx_tensor *tensor, const uc_onnx_result *result,
                              double *worst, int64_t *where);

#endif
