/* SPDX-License-Identifier: Apache-2.0 */
#ifdef UPCONV_WITH_ONNX

#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "memory.h"
#include "random.h"

int model_fail(const model_run *run) {
  const char *message = upconv_last_error();
  /* Loading names the file already. */
  if (strncmp(message, run->path, strlen(run->path)) == 0)
    return cli_fail("%s: %s", run->command, message);
  return cli_fail("%s: %s: %s", run->command, run->path, message);
}

static int out_of_memory(const model_run *run) {
  return cli_fail("%s: %s: out of memory", run->command, run->path);
}

int model_reopen(model_run *run, upconv_context *context, const uc_onnx_options *options) {
  uc_onnx_session_destroy(run->session);
  run->session = NULL;
  if (uc_onnx_session_create(run->model, context, options, &run->session) == UPCONV_OK)
    return CLI_RIGHT;
  return model_fail(run);
}

int model_open(const char *command, const char *path, upconv_context *context,
               const uc_onnx_options *options, model_run *run) {
  *run = (model_run){.command = command, .path = path};
  if (uc_onnx_model_load(path, &run->model) != UPCONV_OK) return model_fail(run);
  int inputs = uc_onnx_model_input_count(run->model);
  int outputs = uc_onnx_model_output_count(run->model);
  run->inputs = calloc((size_t)inputs + 1, sizeof *run->inputs);
  run->outputs = calloc((size_t)outputs + 1, sizeof *run->outputs);
  if (!run->inputs || !run->outputs) return out_of_memory(run);
  run->input_count = inputs;
  run->output_count = outputs;
  for (int i = 0; i < inputs; i++)
    run->inputs[i].name = (char *)uc_onnx_model_input(run->model, i)->name;
  for (int i = 0; i < outputs; i++)
    run->outputs[i].name = (char *)uc_onnx_model_output(run->model, i)->name;
  return model_reopen(run, context, options);
}

void model_close(model_run *run) {
  for (int i = 0; i < run->input_count; i++) free(run->inputs[i].data);
  for (int i = 0; i < run->output_count; i++) free(run->outputs[i].data);
  free(run->inputs);
  free(run->outputs);
  uc_onnx_session_destroy(run->session);
  uc_onnx_model_destroy(run->model);
  *run = (model_run){0};
}

/* ---- names, types, shapes */

bool model_npy_type(uc_onnx_dtype dtype, npy_type *type) {
  switch (dtype) {
  case UC_ONNX_FLOAT:
    *type = NPY_F32;
    return true;
  case UC_ONNX_FLOAT16:
    *type = NPY_F16;
    return true;
  case UC_ONNX_BFLOAT16:
    *type = NPY_BF16;
    return true;
  case UC_ONNX_DOUBLE:
    *type = NPY_F64;
    return true;
  case UC_ONNX_BOOL:
    *type = NPY_BOOL;
    return true;
  case UC_ONNX_INT8:
    *type = NPY_I8;
    return true;
  case UC_ONNX_INT16:
    *type = NPY_I16;
    return true;
  case UC_ONNX_INT32:
    *type = NPY_I32;
    return true;
  case UC_ONNX_INT64:
    *type = NPY_I64;
    return true;
  case UC_ONNX_UINT8:
    *type = NPY_U8;
    return true;
  case UC_ONNX_UINT16:
    *type = NPY_U16;
    return true;
  case UC_ONNX_UINT32:
    *type = NPY_U32;
    return true;
  case UC_ONNX_UINT64:
    *type = NPY_U64;
    return true;
  default:
    return false;
  }
}

const char *model_describe(const uc_onnx_value_info *info, char text[MODEL_DESCRIBE_SIZE]) {
  const size_t size = MODEL_DESCRIBE_SIZE;
  size_t length =
      (size_t)snprintf(text, size, "%.100s (%s", info->name, uc_onnx_dtype_name(info->dtype));
  for (int i = 0; i < info->rank && length + 32 < size; i++) {
    const char *lead = i ? ", " : " [";
    if (info->shape[i] >= 0)
      length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, lead, info->shape[i]);
    else
      length += (size_t)snprintf(text + length, size - length, "%s%.20s", lead,
                                 info->symbol[i] ? info->symbol[i] : "?");
  }
  snprintf(text + length, size - length, "%s)",
           info->rank > 0    ? "]"
           : info->rank == 0 ? " []"
                             : "");
  return text;
}

typedef const uc_onnx_value_info *(*info_function)(const uc_onnx_model *model, int index);

static int find(const model_run *run, const char *kind, info_function get, int count,
                const char *name, size_t length) {
  char known[240] = "";
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    const char *candidate = get(run->model, i)->name;
    if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) return i;
    if (used + 1 < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", candidate);
  }
  cli_fail("%s: %s has no %s '%.*s'; its %ss: %s", run->command, run->path, kind, (int)length, name,
           kind, count ? known : "none");
  return -1;
}

int model_find_input(const model_run *run, const char *name, size_t length) {
  return find(run, "input", uc_onnx_model_input, run->input_count, name, length);
}

int model_find_output(const model_run *run, const char *name, size_t length) {
  return find(run, "output", uc_onnx_model_output, run->output_count, name, length);
}

static bool parse_size(const char *text, char **end, int64_t *size) {
  errno = 0;
  long long value = strtoll(text, end, 10);
  if (*end == text || errno || value < 0 || *text == '+' || *text == ' ') return false;
  *size = value;
  return true;
}

/* "1,3,16" or "1x3x16"; "" is the shape of a scalar. */
static bool parse_shape(const char *text, uc_onnx_tensor *tensor) {
  tensor->rank = 0;
  while (*text) {
    char *end;
    if (tensor->rank == UC_ONNX_MAX_RANK) return false;
    if (!parse_size(text, &end, &tensor->shape[tensor->rank++])) return false;
    if (*end && *end != ',' && *end != 'x') return false;
    text = end + (*end && end[1]);
    if (*end && !end[1]) return false;
  }
  return true;
}

/* Bindings from SYMBOL=SIZE; each must name a symbol of an input. Names are copied to `names`. */
static int parse_dims(const model_run *run, const arg_list *dims, uc_onnx_binding *bindings,
                      char **names) {
  for (int i = 0; i < dims->count; i++) {
    size_t length = 0;
    char *end = NULL;
    const char *value = args_split(dims->item[i], &length);
    if (!value || !length || !parse_size(value, &end, &bindings[i].size) || *end)
      return cli_fail("%s: --dim %s: must be NAME=SIZE", run->command, dims->item[i]);
    names[i] = strndup(dims->item[i], length);
    if (!names[i]) return out_of_memory(run);
    bindings[i].symbol = names[i];
    bool known = false;
    for (int k = 0; k < run->input_count; k++) {
      const uc_onnx_value_info *info = uc_onnx_model_input(run->model, k);
      for (int axis = 0; axis < info->rank; axis++)
        known = known || (info->symbol[axis] && strcmp(info->symbol[axis], names[i]) == 0);
    }
    if (!known)
      return cli_fail("%s: --dim %s: no input of %s has a dimension of that name", run->command,
                      dims->item[i], run->path);
  }
  return CLI_RIGHT;
}

static int set_shapes(model_run *run, const arg_list *shapes) {
  for (int i = 0; i < shapes->count; i++) {
    size_t length;
    const char *value = args_split(shapes->item[i], &length);
    if (!value)
      return cli_fail("%s: --shape %s: must be NAME=SIZES, as x=1,3,16,32", run->command,
                      shapes->item[i]);
    int index = model_find_input(run, shapes->item[i], length);
    if (index < 0) return CLI_BAD;
    if (!parse_shape(value, &run->inputs[index]))
      return cli_fail("%s: --shape %s: must be NAME=SIZES, as x=1,3,16,32, at most %d sizes",
                      run->command, shapes->item[i], UC_ONNX_MAX_RANK);
  }
  return CLI_RIGHT;
}

int model_shapes(model_run *run, const arg_list *shapes, const arg_list *dims, int64_t fallback) {
  size_t room = (size_t)dims->count + 1;
  uc_onnx_binding *bindings = calloc(room, sizeof *bindings);
  char **names = calloc(room, sizeof *names);
  int code = bindings && names ? parse_dims(run, dims, bindings, names) : out_of_memory(run);
  for (int i = 0; i < run->input_count && code == CLI_RIGHT; i++) {
    if (uc_onnx_model_input_tensor(run->model, i, bindings, dims->count, fallback,
                                   &run->inputs[i]) != UPCONV_OK)
      code = model_fail(run);
  }
  if (code == CLI_RIGHT) code = set_shapes(run, shapes);
  for (int i = 0; i < dims->count && names; i++) free(names[i]);
  free(names);
  free(bindings);
  return code;
}

/* ---- data */

static bool allocate(model_run *run, uc_onnx_tensor *tensor) {
  size_t bytes;
  tensor->data = NULL;
  if (uc_onnx_tensor_bytes(tensor, &bytes))
    tensor->data = memory_allocate(bytes, &run->memory_size);
  return tensor->data != NULL;
}

static bool is_real(uc_onnx_dtype dtype) {
  return dtype == UC_ONNX_FLOAT || dtype == UC_ONNX_FLOAT16 || dtype == UC_ONNX_BFLOAT16 ||
         dtype == UC_ONNX_DOUBLE;
}

int model_fill(model_run *run) {
  uint64_t seed = 1;
  for (int i = 0; i < run->input_count; i++) {
    uc_onnx_tensor *input = &run->inputs[i];
    if (!is_real(input->dtype))
      return cli_fail("%s: %s: no values can be made up for input %s of type %s", run->command,
                      run->path, input->name, uc_onnx_dtype_name(input->dtype));
    int64_t count;
    if (!allocate(run, input) || !uc_onnx_tensor_elements(input, &count)) return out_of_memory(run);
    for (int64_t k = 0; k < count; k++)
      uc_onnx_set(input->data, input->dtype, k, random_unit(&seed));
  }
  return CLI_RIGHT;
}

int model_allocate_outputs(model_run *run) {
  if (uc_onnx_shapes(run->session, run->inputs, run->input_count, run->outputs,
                     run->output_count) != UPCONV_OK)
    return model_fail(run);
  for (int i = 0; i < run->output_count; i++)
    if (!allocate(run, &run->outputs[i])) return out_of_memory(run);
  return CLI_RIGHT;
}

int model_execute(model_run *run) {
  if (uc_onnx_run(run->session, run->inputs, run->input_count, run->outputs, run->output_count) ==
      UPCONV_OK)
    return CLI_RIGHT;
  return model_fail(run);
}

bool model_repeat(void *data) {
  model_run *run = data;
  if (uc_onnx_stream(run->session)) return uc_onnx_repeat(run->session) == UPCONV_OK;
  return uc_onnx_run(run->session, run->inputs, run->input_count, run->outputs,
                     run->output_count) == UPCONV_OK;
}

int model_verify(model_run *run, double *worst) {
  uc_onnx_result *results = calloc((size_t)run->output_count + 1, sizeof *results);
  if (!results) return out_of_memory(run);
  for (int i = 0; i < run->output_count; i++) results[i].name = run->outputs[i].name;
  bool good = uc_onnx_reference(run->session, run->inputs, run->input_count, NULL, results,
                                run->output_count) == UPCONV_OK;
  for (int i = 0; i < run->output_count; i++) {
    good = good && uc_onnx_compare(&run->outputs[i], &results[i], &worst[i], NULL) == UPCONV_OK;
    uc_onnx_result_free(&results[i]);
  }
  free(results);
  return good ? CLI_RIGHT : model_fail(run);
}

#else
typedef int upconv_no_onnx; /* ISO C wants a declaration */
#endif
