/* SPDX-License-Identifier: Apache-2.0 */
/* upconv run: runs a model on .npy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "model.h"
#include "units.h"

typedef struct run_values {
  arg_list model, inputs, outputs;
  const char *device;
  int math, threads;
  bool verify;
} run_values;

#ifdef UPCONV_WITH_ONNX

/* A file to write an output to. */
typedef struct destination {
  int output;
  const char *path;
  output_file file;
} destination;

/* Takes NAME=FILE apart. */
static int split(const char *option, const char *text, size_t *length, const char **path) {
  *path = args_split(text, length);
  if (*path && *length && **path) return CLI_RIGHT;
  return cli_fail("run: --%s %s: must be NAME=FILE.npy", option, text);
}

static int read_input(model_run *run, int index, const char *path) {
  const uc_onnx_value_info *info = uc_onnx_model_input(run->model, index);
  uc_onnx_tensor *input = &run->inputs[index];
  npy_type type;
  if (!model_npy_type(info->dtype, &type))
    return cli_fail("run: input %s has type %s, which .npy files cannot hold", info->name,
                    uc_onnx_dtype_name(info->dtype));
  npy_array array;
  cli_error error;
  if (!npy_read(path, type, &array, &error))
    return cli_fail("run: input %s: %s", info->name, error.text);
  input->data = array.data; /* from here on the run frees it */
  if (array.rank > UC_ONNX_MAX_RANK)
    return cli_fail("run: input %s: %s has %d dimensions; %d are possible", info->name, path,
                    array.rank, UC_ONNX_MAX_RANK);
  input->dtype = info->dtype;
  input->rank = array.rank;
  memcpy(input->shape, array.shape, sizeof input->shape);
  return CLI_RIGHT;
}

static int read_inputs(const run_values *v, model_run *run) {
  for (int i = 0; i < v->inputs.count; i++) {
    size_t length;
    const char *path;
    int code = split("input", v->inputs.item[i], &length, &path);
    if (code) return code;
    int index = model_find_input(run, v->inputs.item[i], length);
    if (index < 0) return CLI_BAD;
    if (run->inputs[index].data)
      return cli_fail("run: input %s is given twice", uc_onnx_model_input(run->model, index)->name);
    code = read_input(run, index, path);
    if (code) return code;
  }
  for (int i = 0; i < run->input_count; i++) {
    char text[MODEL_DESCRIBE_SIZE];
    const uc_onnx_value_info *info = uc_onnx_model_input(run->model, i);
    if (!run->inputs[i].data)
      return cli_fail("run: input %s is missing; give it as --input %s=FILE.npy",
                      model_describe(info, text), info->name);
  }
  return CLI_RIGHT;
}

/* Finds the outputs and opens their files, so that a folder that cannot be written to shows before the work is done. */
static int open_outputs(const run_values *v, model_run *run, destination *to) {
  for (int i = 0; i < v->outputs.count; i++) {
    size_t length;
    const char *path;
    int code = split("output", v->outputs.item[i], &length, &path);
    if (code) return code;
    int index = model_find_output(run, v->outputs.item[i], length);
    if (index < 0) return CLI_BAD;
    for (int k = 0; k < i; k++)
      if (strcmp(to[k].path, path) == 0)
        return cli_fail("run: two outputs would be written to %s", path);
    cli_error error;
    to[i].output = index;
    to[i].path = path;
    if (!output_open(&to[i].file, path, &error)) return cli_fail("run: %s", error.text);
  }
  return CLI_RIGHT;
}

static int write_output(const uc_onnx_tensor *output, destination *to) {
  npy_type type;
  cli_error error;
  if (!model_npy_type(output->dtype, &type))
    return cli_fail("run: output %s has type %s, which .npy files cannot hold", output->name,
                    uc_onnx_dtype_name(output->dtype));
  if (!npy_write(&to->file, type, output->rank, output->shape, output->data, &error) ||
      !output_flush(&to->file, &error))
    return cli_fail("run: output %s: %s", output->name, error.text);
  return CLI_RIGHT;
}

/* All files are whole before the first one is put in its place. */
static int write_outputs(const run_values *v, model_run *run, destination *to) {
  cli_error error;
  for (int i = 0; i < v->outputs.count; i++) {
    int code = write_output(&run->outputs[to[i].output], &to[i]);
    if (code) return code;
  }
  for (int i = 0; i < v->outputs.count; i++)
    if (!output_commit(&to[i].file, &error)) return cli_fail("run: %s", error.text);
  return CLI_RIGHT;
}

static int verify(model_run *run) {
  double *worst = calloc((size_t)run->output_count + 1, sizeof *worst);
  if (!worst) return cli_fail("run: out of memory");
  int code = model_verify(run, worst);
  for (int i = 0; i < run->output_count && code != CLI_BAD; i++) {
    char number[UNITS_SIZE];
    bool right = worst[i] <= 1;
    cli_print_line("%s: largest error %s of its bound: %s", run->outputs[i].name,
                   units_number(worst[i], number), right ? "right" : "WRONG");
    if (!right) code = CLI_WRONG;
  }
  free(worst);
  return code;
}

static void print_outputs(const run_values *v, const model_run *run, const destination *to) {
  char shape[UNITS_SHAPE_SIZE];
  for (int i = 0; i < run->output_count; i++) {
    const uc_onnx_tensor *output = &run->outputs[i];
    const char *path = NULL;
    for (int k = 0; k < v->outputs.count; k++)
      if (to[k].output == i) path = to[k].path;
    cli_print_line("%s: %s %s%s%s", output->name, uc_onnx_dtype_name(output->dtype),
                   units_shape(output->rank, output->shape, shape), path ? " -> " : "",
                   path ? path : "");
  }
}

static int run_session(const run_values *v, model_run *run, destination *to) {
  int code = read_inputs(v, run);
  if (code == CLI_RIGHT) code = open_outputs(v, run, to);
  if (code == CLI_RIGHT) code = model_allocate_outputs(run);
  if (code == CLI_RIGHT) code = model_execute(run);
  if (code == CLI_RIGHT && v->verify) code = verify(run);
  if (code == CLI_RIGHT) code = write_outputs(v, run, to);
  if (code == CLI_RIGHT) print_outputs(v, run, to);
  return code;
}

static int run_model(const run_values *v, upconv_context *context) {
  destination *to = calloc((size_t)v->outputs.count + 1, sizeof *to);
  if (!to) return cli_fail("run: out of memory");
  model_run run;
  uc_onnx_options options = {.math = (upconv_math)v->math};
  int code = model_open("run", v->model.item[0], context, &options, &run);
  if (code == CLI_RIGHT) code = run_session(v, &run, to);
  for (int i = 0; i < v->outputs.count; i++) output_discard(&to[i].file);
  free(to);
  model_close(&run);
  return code;
}

static int run(const void *values) {
  const run_values *v = values;
  upconv_context *context;
  int code = open_context("run", v->device, v->threads, &context);
  if (code) return code;
  code = run_model(v, context);
  upconv_context_destroy(context);
  return code;
}

#else

static int run(const void *values) {
  (void)values;
  return fail_without_onnx("run");
}

#endif

static const arg_option options[] = {
    {"input", ARG_LIST, "NAME=FILE.npy", offsetof(run_values, inputs), 0, 0,
     "values of an input; once for each input of the model"},
    {"output", ARG_LIST, "NAME=FILE.npy", offsetof(run_values, outputs), 0, 0,
     "where an output goes; outputs that are not named are computed and dropped"},
    {"verify", ARG_FLAG, NULL, offsetof(run_values, verify), 0, 0,
     "compares with the float64 oracle (slow); a wrong result is not written, and the exit code "
     "is 1"},
    {"math", ARG_CHOICE, MATH_CHOICES, offsetof(run_values, math), 0, 0,
     "ieee: full float32 (the default); tf32: rounded operands where the device has that"},
    {"device", ARG_TEXT, "NAME", offsetof(run_values, device), 0, 0, DEVICE_HELP},
    {"threads", ARG_COUNT, "N", offsetof(run_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_run = {
    .name = "run",
    .summary = "Runs an ONNX model on .npy files.",
    .usage = "MODEL.onnx --input x=X.npy [--output y=Y.npy] [OPTION...]",
    .details = "Arrays are converted to the type of the model's input: any number becomes a "
               "floating point number, whole numbers become whole numbers that can hold them. "
               "Output files are written whole or not at all.",
    .examples = "  upconv run decoder.onnx --input x=x.npy --output y=y.npy\n"
                "  upconv run decoder.onnx --input x=x.npy --output y=y.npy --verify\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(run_values),
    .positionals = offsetof(run_values, model),
    .min_positionals = 1,
    .max_positionals = 1,
    .positional = "model",
    .run = run,
};
