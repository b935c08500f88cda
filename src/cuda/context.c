/* SPDX-License-Identifier: Apache-2.0 */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../meter.h"
#include "../status.h"
#include "engine.h"
#include "nvrtc.h"

/* Shared memory that a block may have, and multiprocessors of a typical device, when only planning. */
static void typical(uc_cuda_target *t) {
  static const struct {
    int capability, shared_bytes, sm_count;
  } known[] = {{75, 65536, 40},   {80, 166912, 108},  {86, 101376, 84},  {89, 101376, 128},
               {90, 232448, 132}, {100, 232448, 148}, {120, 101376, 170}};
  t->shared_bytes = 49152;
  t->sm_count = 80;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (t->major * 10 + t->minor >= known[i].capability) {
      t->shared_bytes = known[i].shared_bytes;
      t->sm_count = known[i].sm_count;
    }
}

upconv_status uc_cuda_context_plan_for(const char *arch, upconv_context *c) {
  char *end = NULL;
  long number = strtol(arch + 3, &end, 10);
  bool suffix = *end == 0 || ((*end == 'a' || *end == 'f') && end[1] == 0);
  if (end == arch + 3 || !suffix || number < 75 || number > 999)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "device = \"cuda:%.32s\": an architecture is sm_75 or later, such as sm_90a",
                   arch);
  int major = 0, minor = 0;
  upconv_status status = uc_nvrtc_version(&major, &minor);
  if (status != UPCONV_OK) return status;
  if (!uc_nvrtc_supports(arch))
    return uc_fail(UPCONV_UNSUPPORTED,
                   "device = \"cuda:%.32s\": NVRTC %d.%d does not know this architecture", arch,
                   major, minor);
  c->target = calloc(1, sizeof *c->target);
  if (!c->target) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a context");
  snprintf(c->target->arch, sizeof c->target->arch, "%s", arch);
  c->target->major = (int)(number / 10);
  c->target->minor = (int)(number % 10);
  typical(c->target);
  snprintf(c->describe, sizeof c->describe, "cuda: %s, planned for without a device", arch);
  return UPCONV_OK;
}

/* The device's own architecture, with what no other has if NVRTC knows it (wgmma), or the newest before it. */
static upconv_status choose_arch(uc_cuda_target *t) {
  upconv_status status = uc_nvrtc_choose_arch(t->major, t->minor, true, t->arch);
  return status == UPCONV_OK ? status : uc_nvrtc_choose_arch(t->major, t->minor, false, t->arch);
}

upconv_status uc_cuda_context_open(int ordinal, upconv_context *c) {
  c->target = calloc(1, sizeof *c->target);
  uc_cuda_device *device = calloc(1, sizeof *device);
  if (!c->target || !device) {
    free(device);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a context");
  }
  upconv_status status = uc_cuda_device_open(ordinal, device);
  if (status != UPCONV_OK) {
    free(device);
    return status;
  }
  c->device = device;
  uc_cuda_target *t = c->target;
  t->major = device->major;
  t->minor = device->minor;
  t->shared_bytes = device->shared_per_block_optin;
  t->sm_count = device->sm_count;
  if (t->major * 10 + t->minor < 75)
    return uc_fail(UPCONV_UNSUPPORTED,
                   "device = \"cuda:%d\": %s has compute capability %d.%d; 7.5 or later is needed",
                   ordinal, device->name, t->major, t->minor);
  int version[2];
  status = uc_nvrtc_version(&version[0], &version[1]);
  if (status == UPCONV_OK) status = choose_arch(t);
  if (status != UPCONV_OK) return status;
  snprintf(c->describe, sizeof c->describe, "cuda:%d: %.96s, %s", ordinal, device->name, t->arch);
  snprintf(c->identity, sizeof c->identity, "%.96s, %s, %d multiprocessors", device->name, t->arch,
           t->sm_count);
  c->meter = &uc_meter_cuda;
  return UPCONV_OK;
}

void uc_cuda_context_close(upconv_context *c) {
  if (c->device) uc_cuda_device_close(c->device);
  free(c->device);
  free(c->target);
}
