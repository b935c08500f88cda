/* SPDX-License-Identifier: Apache-2.0 */
/* upconv version */
#include <stdio.h>

#include "cli.h"
#include "commands.h"

typedef struct version_values {
  arg_list positionals;
} version_values;

static int run(const void *values) {
  (void)values;
#ifdef UPCONV_WITH_ONNX
  const char *onnx = "with ONNX";
#else
  const char *onnx = "without ONNX";
#endif
  printf("upconv %s (%s)\n", upconv_version(), onnx);
  return CLI_RIGHT;
}

const arg_command command_version = {
    .name = "version",
    .summary = "Prints the version, and whether ONNX models can be read.",
    .usage = "",
    .values_size = sizeof(version_values),
    .positionals = offsetof(version_values, positionals),
    .run = run,
};
