/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"

int open_context(const char *command, const char *device, int threads, upconv_context **context) {
  upconv_context_options options = {.device = device, .threads = threads};
  if (upconv_context_create(&options, context) != UPCONV_OK) return cli_fail_library(command);
  bool cpu = !device || strcmp(device, "cpu") == 0;
  if (cpu || strcmp(command, "plan") == 0) return CLI_RIGHT;
  /* the commands' tensors are in host memory, which a CUDA plan cannot read */
  upconv_context_destroy(*context);
  *context = NULL;
  return cli_fail(
      "%s: --device %s: this command runs on the CPU in this version; a CUDA device can be "
      "planned for (upconv plan) and used through the C interface",
      command, device);
}

const upconv_error_model *find_error_model(upconv_math math, const char *device) {
  static const upconv_error_model tensor_cores = {.operand_rounding = 0x1p-11, .tensor_core = true};
  bool cpu = !device || strcmp(device, "cpu") == 0;
  return math == UPCONV_MATH_TF32 && !cpu ? &tensor_cores : NULL;
}

bool is_model(const char *argument) {
  const char *dot = strrchr(argument, '.');
  bool named_so = dot && strcasecmp(dot, ".onnx") == 0;
  return named_so || (!strchr(argument, ' ') && access(argument, F_OK) == 0);
}

int fail_without_onnx(const char *command) {
  return cli_fail("%s: this upconv was built without ONNX; install protobuf-c-compiler, "
                  "libprotobuf-c-dev and libonnx-dev (Debian's names) and build again",
                  command);
}
