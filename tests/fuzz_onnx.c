/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a model: parsed, planned for small sizes, printed, and run when that is little work.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"

enum { MOST_INPUTS = 8, MOST_OUTPUTS = 8, MEMORY = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static upconv_context *the_context(void) {
  static upconv_context *context;
  const upconv_context_options options = {.threads = 1};
  if (!context && upconv_context_create(&options, &context)) abort();
  return context;
}

/* Zeros for all inputs; false when there is none to give, or too much. */
static bool make_inputs(const uc_onnx_model *model, uc_onnx_tensor *inputs, int count) {
  for (int i = 0; i < count; i++) {
    size_t bytes;
    if (uc_onnx_model_input_tensor(model, i, NULL, 0, 3, &inputs[i])) return false;
    if (!uc_onnx_tensor_bytes(&inputs[i], &bytes) || bytes > MEMORY) return false;
    inputs[i].data = calloc(1, bytes + 1);
    if (!inputs[i].data) abort();
  }
  return true;
}

static void try_session(uc_onnx_session *session, uc_onnx_tensor *inputs, int count, int outputs) {
  const double little = 1e6;
  uc_onnx_tensor output[MOST_OUTPUTS] = {{.name = NULL}};
  upconv_work work;
  size_t length;
  if (uc_onnx_print(session, inputs, count, false, NULL, 0, &length)) return;
  if (uc_onnx_work(session, inputs, count, &work) || !(work.source_flop < little)) return;
  if (outputs > MOST_OUTPUTS) return;
  (void)uc_onnx_run(session, inputs, count, output, outputs);
  for (int i = 0; i < outputs; i++) uc_onnx_tensor_free(&output[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uc_onnx_options options = {.memory_limit = MEMORY};
  uc_onnx_tensor inputs[MOST_INPUTS] = {{.name = NULL}};
  uc_onnx_model *model;
  uc_onnx_session *session;
  if (uc_onnx_model_parse(data, size, NULL, &model)) return 0;
  int count = uc_onnx_model_input_count(model);
  if (count <= MOST_INPUTS && make_inputs(model, inputs, count) &&
      !uc_onnx_session_create(model, the_context(), &options, &session)) {
    try_session(session, inputs, count, uc_onnx_model_output_count(model));
    uc_onnx_session_destroy(session);
  }
  for (int i = 0; i < MOST_INPUTS; i++) free(inputs[i].data);
  uc_onnx_model_destroy(model);
  return 0;
}
