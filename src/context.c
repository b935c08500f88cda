/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/threads.h"
#include "cuda/context.h"
#include "plan.h"
#include "status.h"
#include "tune.h"

/* "cuda", "cuda:1": a device. "cuda:sm_90a": an architecture to plan for. */
static upconv_status open_cuda(const char *name, upconv_context *c) {
  const char *rest = name + strlen("cuda");
  if (strncmp(rest, ":sm_", 4) == 0) return uc_cuda_context_plan_for(rest + 1, c);
  char *end = NULL;
  long ordinal = *rest == ':' && rest[1] >= '0' && rest[1] <= '9' ? strtol(rest + 1, &end, 10) : 0;
  if ((*rest != 0 && !end) || (end && *end != 0) || ordinal > 1023)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "device = \"%.64s\": must be cpu, cuda, cuda:N or cuda:sm_NN", name);
  return uc_cuda_context_open((int)ordinal, c);
}

static upconv_status open_cpu(int threads, upconv_context *c) {
  c->isa = uc_isa_choose();
  if (!c->isa) return UPCONV_INVALID_ARGUMENT;
  upconv_status status = uc_threads_create(threads, &c->threads);
  if (status != UPCONV_OK) return status;
  int count = uc_threads_count(c->threads);
  snprintf(c->describe, sizeof c->describe, "cpu: %s, %d thread%s", c->isa->name, count,
           count == 1 ? "" : "s");
  char name[64];
  uc_cpu_name(name, sizeof name);
  snprintf(c->identity, sizeof c->identity, "%s, %s, %d thread%s", name, c->isa->name, count,
           count == 1 ? "" : "s");
  c->meter = &uc_meter_cpu;
  return UPCONV_OK;
}

upconv_status upconv_context_create(const upconv_context_options *options,
                                    upconv_context **context) {
  static const upconv_context_options defaults = {NULL, 0};
  if (!context) return uc_fail(UPCONV_INVALID_ARGUMENT, "context: must not be NULL");
  if (!options) options = &defaults;
  const char *device = options->device ? options->device : "cpu";
  upconv_context *c = calloc(1, sizeof *c);
  if (!c) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a context");
  upconv_status status;
  if (strcmp(device, "cpu") == 0)
    status = open_cpu(options->threads, c);
  else if (strncmp(device, "cuda", 4) == 0)
    status = open_cuda(device, c);
  else
    status = uc_fail(UPCONV_INVALID_ARGUMENT,
                     "device = \"%.64s\": must be cpu, cuda, cuda:N or cuda:sm_NN", device);
  if (status == UPCONV_OK) status = uc_tuner_create(&c->tuner);
  if (status != UPCONV_OK) {
    upconv_context_destroy(c);
    return status;
  }
  *context = c;
  return UPCONV_OK;
}

void upconv_context_destroy(upconv_context *context) {
  if (!context) return;
  uc_tuner_destroy(context->tuner);
  uc_threads_destroy(context->threads);
  uc_cuda_context_close(context);
  free(context);
}

int upconv_context_threads(const upconv_context *context) {
  return context && context->threads ? uc_threads_count(context->threads) : 0;
}

const char *upconv_context_describe(const upconv_context *context) {
  return context ? context->describe : "";
}
