/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "plan.h"

int open_context(const char *command, const char *device, int threads, upconv_context **context) {
  upconv_context_options options = {.device = device, .threads = threads};
  if (upconv_context_create(&options, context) != UPCONV_OK) return cli_fail_library(command);
  bool runs = !(*context)->target || (*context)->device;
  if (runs || strcmp(command, "plan") == 0) return CLI_RIGHT;
  upconv_context_destroy(*context);
  *context = NULL;
  return cli_fail("%s: --device %s: an architecture can be planned for (upconv plan), but nothing "
                  "runs there; devices that run are cpu, cuda and cuda:N",
                  command, device);
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
