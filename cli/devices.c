/* SPDX-License-Identifier: Apache-2.0 */
/* upconv devices */
#include <stdio.h>

#include "cli.h"
#include "commands.h"
#include "cuda/driver.h"
#include "cuda/nvrtc.h"
#include "units.h"

typedef struct devices_values {
  arg_list positionals;
} devices_values;

static void print_cuda_device(const uc_cuda_device *device) {
  char memory[UNITS_SIZE];
  printf("cuda:%d: %s, sm_%d%d, %d multiprocessors, %s, driver CUDA %d.%d", device->ordinal,
         device->name, device->major, device->minor, device->sm_count,
         units_bytes((double)device->memory_bytes, memory), device->driver->version / 1000,
         device->driver->version % 1000 / 10);
  int major, minor;
  if (uc_nvrtc_version(&major, &minor) == UPCONV_OK)
    printf(", NVRTC %d.%d\n", major, minor);
  else
    printf(", no compiler: %s\n", upconv_last_error());
}

/* A machine without them is as good as any: why there are none is told, and no error. */
static void print_cuda_devices(void) {
  const uc_cuda_driver *driver;
  if (uc_cuda_driver_get(&driver) != UPCONV_OK) {
    printf("no cuda: %s\n", upconv_last_error());
    return;
  }
  for (int i = 0; i < driver->device_count; i++) {
    uc_cuda_device device;
    if (uc_cuda_device_query(i, &device) == UPCONV_OK)
      print_cuda_device(&device);
    else
      printf("no cuda:%d: %s\n", i, upconv_last_error());
  }
}

static int run(const void *values) {
  (void)values;
  upconv_context *context;
  int code = open_context("devices", NULL, 0, &context);
  if (code) return code;
  printf("%s\n", upconv_context_describe(context));
  upconv_context_destroy(context);
  print_cuda_devices();
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
