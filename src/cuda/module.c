/* SPDX-License-Identifier: Apache-2.0 */
/* From source to loaded functions. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>

#include "cache.h"

static const char *const options[] = {"--std=c++17", "-default-device", "-lineinfo"};

/* device NULL: compiles only. */
static upconv_status load(const uc_cuda_engine *e, const uc_cuda_device *device, const char *source,
                          uc_cuda_module *module) {
  void *image = NULL;
  size_t size = 0;
  upconv_status status =
      uc_cuda_cache_get(source, e->target.arch, options, (int)(sizeof options / sizeof options[0]),
                        &image, &size, NULL);
  if (status == UPCONV_OK && device)
    status = uc_cuda_check(device->driver, device->driver->cuModuleLoadData(module, image),
                           "loading a compiled kernel");
  free(image);
  return status;
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
                           &k->blocks_per_sm, k->function, (int)k->threads, shared),
                       "occupancy of a kernel");
}

static upconv_status load_kernel(const uc_cuda_engine *e, const uc_cuda_device *device,
                                 uc_cuda_kernel *k) {
  upconv_status status = load(e, device, k->source, &k->module);
  if (status != UPCONV_OK || !device) return status;
  status = find(device->driver, k->module, k->name, &k->function);
  if (status == UPCONV_OK) status = prepare(device->driver, k);
  if (status != UPCONV_OK || k->pass->reduce_op < 0) return status;
  char name[48];
  snprintf(name, sizeof name, "%s_combine", k->name);
  return find(device->driver, k->module, name, &k->combine);
}

static upconv_status load_all(uc_cuda_engine *e, const uc_cuda_device *device) {
  upconv_status status = load(e, device, e->pack_source, &e->module);
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
