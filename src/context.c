/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/threads.h"
#include "plan.h"
#include "status.h"

upconv_status upconv_context_create(const upconv_context_options *options, upconv_context **context) {
  static const upconv_context_options defaults = {NULL, 0};
  if (!context) return uc_fail(UPCONV_INVALID_ARGUMENT, "context: must not be NULL");
  if (!options) options = &defaults;
  if (options->device && strcmp(options->device, "cpu") != 0)
    return uc_fail(UPCONV_UNSUPPORTED, "device = \"%.64s\": this version knows \"cpu\" alone", options->device);
  const uc_isa *isa = uc_isa_choose();
  if (!isa) return UPCONV_INVALID_ARGUMENT;
  upconv_context *c = calloc(1, sizeof *c);
  if (!c) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a context");
  c->isa = isa;
  upconv_status status = uc_threads_create(options->threads, &c->threads);
  if (status != UPCONV_OK) {
    free(c);
    return status;
  }
  int threads = uc_threads_count(c->threads);
  snprintf(c->describe, sizeof c->describe, "cpu: %s, %d thread%s", isa->name, threads, threads == 1 ? "" : "s");
  *context = c;
  return UPCONV_OK;
}

void upconv_context_destroy(upconv_context *context) {
  if (!context) return;
  uc_threads_destroy(context->threads);
  free(context);
}

int upconv_context_threads(const upconv_context *context) { return context ? uc_threads_count(context->threads) : 0; }

const char *upconv_context_describe(const upconv_context *context) { return context ? context->describe : ""; }
