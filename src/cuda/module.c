/* SPDX-License-Identifier: Apache-2.0 */
/* From source to loaded functions. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"
#include "cache.h"
#include "codegen.h"
#include "cubin.h"
#include "registers.h"

static const char *const options[] = {"--std=c++17", "-default-device", "-lineinfo"};

static upconv_status compile(const uc_cuda_engine *e, const char *source, void **image,
                             size_t *size) {
  return uc_cuda_cache_get(source, e->target.arch, options,
                           (int)(sizeof options / sizeof options[0]), image, size, NULL);
}

/* Loads an image and frees it. device NULL: only frees. */
static upconv_status load(const uc_cuda_device *device, void *image, uc_cuda_module *module) {
  upconv_status status = UPCONV_OK;
  if (device) status = uc_cuda_load_module(device, image, module);
  free(image);
  return status;
}

/* Registers that were lacking, for they were rationed so tightly that some values went to memory: as many at least as lay there at
   once. */
static int64_t lacking(const uc_cuda_kernel *k, const void *image, size_t size) {
  enum { MOST_FUNCTIONS = 8 };
  uc_cubin_function function[MOST_FUNCTIONS];
  int count = uc_cubin_functions(image, size, function, MOST_FUNCTIONS);
  for (int i = 0; i < count; i++)
    if (strcmp(function[i].name, k->name) == 0) return uc_ceil_div(function[i].frame, 4);
  return 0;
}

/* Compiles a kernel, again with more registers where it would spill otherwise. */
static upconv_status compile_kernel(const uc_cuda_engine *e, uc_cuda_kernel *k, void **image) {
  for (;;) {
    size_t size = 0;
    upconv_status status = compile(e, k->source, image, &size);
    int64_t count = status == UPCONV_OK ? lacking(k, *image, size) : 0;
    if (count == 0 || !uc_cuda_give_registers(k, count)) return status;
    free(*image);
    *image = NULL;
    status = uc_cuda_kernel_source(e, k, &k->source);
    if (status != UPCONV_OK) return status;
  }
}

static upconv_status find(const uc_cuda_driver *d, uc_cuda_module module, const char *name,
                          uc_cuda_function *f) {
  return uc_cuda_check(d, d->cuModuleGetFunction(f, module, name), name);
}

/* Shared memory beyond 48 KB must be asked for; how many blocks fit decides the grid. */
static upconv_status prepare(const uc_cuda_driver *d, uc_cuda_kernel *k) {
  size_t shared = (size_t)k->shared_floats * sizeof(float);
  upconv_status status = uc_cuda_check(
      d, d->cuFuncSetAttribute(k->function, UC_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, (int)shared),
      "shared memory of a kernel");
  if (status != UPCONV_OK) return status;
  return uc_cuda_check(d,
                       d->cuOccupancyMaxActiveBlocksPerMultiprocessor(
                           &k->blocks_per_sm, k->function, (int)(k->threads * k->teams), shared),
                       "occupancy of a kernel");
}

static upconv_status load_kernel(const uc_cuda_engine *e, const uc_cuda_device *device,
                                 uc_cuda_kernel *k) {
  void *image = NULL;
  upconv_status status = compile_kernel(e, k, &image);
  if (status == UPCONV_OK) status = load(device, image, &k->module);
  if (status != UPCONV_OK || !device) return status;
  status = find(device->driver, k->module, k->name, &k->function);
  if (status == UPCONV_OK) status = prepare(device->driver, k);
  char name[48];
  snprintf(name, sizeof name, "%s_rows", k->name);
  if (status == UPCONV_OK && uc_cuda_many_channels(k))
    status = find(device->driver, k->module, name, &k->rows);
  if (status != UPCONV_OK || k->pass->reduce_op < 0) return status;
  snprintf(name, sizeof name, "%s_combine", k->name);
  return find(device->driver, k->module, name, &k->combine);
}

static upconv_status load_all(uc_cuda_engine *e, const uc_cuda_device *device) {
  void *image = NULL;
  size_t size = 0;
  upconv_status status = compile(e, e->pack_source, &image, &size);
  if (status == UPCONV_OK) status = load(device, image, &e->module);
  if (status == UPCONV_OK && device)
    status = find(device->driver, e->module, "pack_params", &e->pack_params);
  if (status == UPCONV_OK && device)
    status = find(device->driver, e->module, "pack_weights", &e->pack_weights);
  for (int i = 0; i < e->kernel_count && status == UPCONV_OK; i++)
    status = load_kernel(e, device, &e->kernel[i]);
  return status;
}

upconv_status uc_cuda_load(uc_cuda_engine *e) {
  const uc_cuda_device *device = e->context->device;
  upconv_status status = device ? uc_cuda_enter(device) : UPCONV_OK;
  if (status != UPCONV_OK) return status;
  status = load_all(e, device);
  if (device) uc_cuda_leave(device);
  return status;
}

void uc_cuda_unload(uc_cuda_engine *e) {
  const uc_cuda_device *device = e->context->device;
  if (!device || uc_cuda_enter(device) != UPCONV_OK) return;
  for (int i = 0; i < e->kernel_count; i++)
    if (e->kernel[i].module) device->driver->cuModuleUnload(e->kernel[i].module);
  if (e->module) device->driver->cuModuleUnload(e->module);
  uc_cuda_leave(device);
}
