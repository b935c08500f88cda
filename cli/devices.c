/* SPDX-License-Identifier: Apache-2.0 */
/* upconv devices */
#include <stdio.h>

#include "cli.h"
#include "commands.h"

typedef struct devices_values {
  arg_list positionals;
} devices_values;

static int run(const void *values) {
  (void)values;
  upconv_context *context;
  int code = open_context("devices", NULL, 0, &context);
  if (code) return code;
  printf("%s\n", upconv_context_describe(context));
  upconv_context_destroy(context);
  return CLI_RIGHT;
}

const arg_command command_devices = {
    .name = "devices",
    .summary = "Lists the devices that --device accepts, one a line.",
    .usage = "",
    .values_size = sizeof(devices_values),
    .positionals = offsetof(devices_values, positionals),
    .run = run,
};
