/* SPDX-License-Identifier: Apache-2.0 */
/* From the texts of kernels/plain*.cu to loaded functions. */
#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"
#include "../text.h"
#include "cache.h"
#include "codegen.h"
#include "engine.h"
#include "plain_parts.h"

/* Without line numbers, which would make the code twice as large. */
static const char *const options[] = {"--std=c++17", "-default-device"};

typedef struct request {
  const char *file, *defines;
  bool with_scalar;
} request;

static void write_source(uc_text *text, const request *r) {
  uc_text_add(text, "// %s\n\n%s\n%s\n%s\n", r->file, uc_cuda_embedded("prelude"), r->defines,
              uc_cuda_embedded("plain"));
  if (r->with_scalar) uc_text_add(text, "%s\n", uc_cuda_embedded("plain_scalar"));
  uc_text_add(text, "%s", uc_cuda_embedded(r->file));
}

static char *make_source(const request *r) {
  uc_text text;
  uc_text_init(&text, NULL, 0);
  write_source(&text, r);
  size_t capacity = text.length + 1;
  char *source = malloc(capacity);
  if (!source) {
    uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes of source", capacity);
    return NULL;
  }
  uc_text_init(&text, source, capacity);
  write_source(&text, r);
  return source;
}

/* The context of the device, if there is one, is current. */
static upconv_status build(const uc_plain_set *set, const request *r, uc_cuda_module *module) {
  const uc_cuda_device *device = set->context->device;
  void *image = NULL;
  size_t size = 0;
  char *source = make_source(r);
  if (!source) return UPCONV_OUT_OF_MEMORY;
  upconv_status status =
      uc_cuda_cache_get(source, set->context->target->arch, options,
                        (int)(sizeof options / sizeof options[0]), &image, &size, NULL);
  free(source);
  if (status != UPCONV_OK) return status;
  if (device) status = uc_cuda_load_module(device, image, module);
  free(image);
  return status;
}

static char *make_key(const request *r) {
  size_t length = strlen(r->file) + strlen(r->defines) + 2;
  char *key = malloc(length);
  uc_text text;
  uc_text_init(&text, key, key ? length : 0);
  uc_text_add(&text, "%s\n%s", r->file, r->defines);
  return key;
}

static uc_plain_module *find_module(const uc_plain_set *set, const char *key) {
  uc_plain_module *m = set->first;
  while (m && strcmp(m->key, key) != 0) m = m->next;
  return m;
}

/* Takes over the key. */
static upconv_status add_module(uc_plain_set *set, const request *r, char *key,
                                uc_plain_module **module) {
  uc_plain_module *m = calloc(1, sizeof *m);
  upconv_status status =
      m ? build(set, r, &m->module) : uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a module");
  if (status != UPCONV_OK) {
    free(key);
    free(m);
    return status;
  }
  m->key = key;
  m->next = set->first;
  set->first = m;
  set->modules++;
  *module = m;
  return UPCONV_OK;
}

static upconv_status get_module(uc_plain_set *set, const request *r, uc_cuda_module *module) {
  char *key = make_key(r);
  if (!key) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a module's name");
  upconv_status status = UPCONV_OK;
  uc_plain_module *found = find_module(set, key);
  if (found)
    free(key);
  else
    status = add_module(set, r, key, &found);
  if (status == UPCONV_OK) *module = found->module;
  return status;
}

upconv_status uc_plain_functions(uc_plain_set *set, const char *file, const char *defines,
                                 bool with_scalar, int count, const char *const *name,
                                 uc_cuda_function *function) {
  const request r = {file, defines, with_scalar};
  const uc_cuda_device *device = set->context->device;
  uc_cuda_module module = NULL;
  upconv_status status = device ? uc_cuda_enter(device) : UPCONV_OK;
  if (status != UPCONV_OK) return status;
  status = get_module(set, &r, &module);
  for (int i = 0; i < count && device && status == UPCONV_OK; i++)
    status =
        uc_cuda_check(device->driver,
                      device->driver->cuModuleGetFunction(&function[i], module, name[i]), name[i]);
  if (device) uc_cuda_leave(device);
  return status;
}

void uc_plain_modules_free(uc_plain_set *set) {
  const uc_cuda_device *device = set->context->device;
  bool entered = device && uc_cuda_enter(device) == UPCONV_OK;
  while (set->first) {
    uc_plain_module *m = set->first;
    set->first = m->next;
    if (entered && m->module) device->driver->cuModuleUnload(m->module);
    free(m->key);
    free(m);
  }
  if (entered) uc_cuda_leave(device);
}
