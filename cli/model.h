/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX model made ready to run: session, inputs, outputs. What run, plan, bench and demo share. */
#ifndef UPCONV_CLI_MODEL_H
#define UPCONV_CLI_MODEL_H

#ifdef UPCONV_WITH_ONNX

#include "args.h"
#include "npy.h"
#include "onnx/onnx.h"

typedef struct model_run {
  const char *command, *path; /* for messages */
  uc_onnx_model *model;
  uc_onnx_session *session;
  uc_onnx_tensor *inputs; /* one per input of the model, in its order; names are the model's */
  int input_count;
  uc_onnx_tensor *outputs; /* likewise */
  int output_count;
  size_t memory_size; /* of what was allocated for them here */
} model_run;

/* What returns an int prints what is wrong and returns CLI_BAD. A run is closed whatever model_open returned. */
int model_open(const char *command, const char *path, upconv_context *context,
               const uc_onnx_options *options, model_run *run);
void model_close(model_run *run);

/* Replaces the session by another one of the same model. Inputs and outputs stay. */
int model_reopen(model_run *run, upconv_context *context, const uc_onnx_options *options);

/* Prints "COMMAND: PATH: the library's error". */
int model_fail(const model_run *run);

/* Gives the inputs shapes, and no data. shapes: NAME=SIZES; dims: SYMBOL=SIZE; whatever else is not declared gets
   `fallback`, or is an error when that is negative. */
int model_shapes(model_run *run, const arg_list *shapes, const arg_list *dims, int64_t fallback);

/* Gives the inputs data: uniform in [0, 1), the same each time. */
int model_fill(model_run *run);

/* Gives the outputs shapes and memory. */
int model_allocate_outputs(model_run *run);

int model_execute(model_run *run);

/* Which input (output) has the name, or -1 after a message that names those there are. */
int model_find_input(const model_run *run, const char *name, size_t length);
int model_find_output(const model_run *run, const char *name, size_t length);

/* One execution for timing_measure, on the data of the last model_execute: where there is a GPU, without copies. */
bool model_repeat(void *run);

/* Largest error of the run's outputs, as a fraction of its bound, by the float64 oracle. Stores one number per output. */
int model_verify(model_run *run, double *worst);

/* "x (float32 [N, 3, 16])" */
enum { MODEL_DESCRIBE_SIZE = 320 };
const char *model_describe(const uc_onnx_value_info *info, char text[MODEL_DESCRIBE_SIZE]);

/* The .npy type of the same numbers. false: there is none. */
bool model_npy_type(uc_onnx_dtype dtype, npy_type *type);

#endif

#endif
