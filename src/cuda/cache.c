/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../files.h"
#include "cache_files.h"
#include "nvrtc.h"
#include "status.h"
#include "text.h"

/* The length goes first, so that no two lists of texts look the same to the hash. */
static void add_text(uc_sha256 *hash, const char *text) {
  uint64_t length = strlen(text);
  uc_sha256_add(hash, &length, sizeof length);
  uc_sha256_add(hash, text, (size_t)length);
}

typedef struct request {
  const char *source, *arch;
  const char *const *options;
  int option_count;
  int major, minor; /* of the compiler */
} request;

static uc_cache_key make_key(const request *r) {
  char compiler[64];
  snprintf(compiler, sizeof compiler, "NVRTC %d.%d", r->major, r->minor);
  uc_sha256 hash;
  uc_sha256_init(&hash);
  add_text(&hash, compiler);
  add_text(&hash, r->arch);
  for (int i = 0; i < r->option_count; i++) add_text(&hash, r->options[i]);
  add_text(&hash, r->source);
  uc_cache_key key;
  uc_sha256_end(&hash, key.digest);
  return key;
}

/* A comment to put above the source: how it was compiled. It stays one line, whatever the options
   hold. */
static void write_note(const request *r, char *note, size_t capacity) {
  uc_text text;
  uc_text_init(&text, note, capacity);
  uc_text_add(&text, "// NVRTC %d.%d --gpu-architecture=%s", r->major, r->minor, r->arch);
  for (int i = 0; i < r->option_count; i++) uc_text_add(&text, " %s", r->options[i]);
  for (char *c = note; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == '\\') *c = ' ';
}

upconv_status uc_cuda_cache_get(const char *source, const char *arch, const char *const *options,
                                int option_count, void **image, size_t *size, bool *hit) {
  request r = {.source = source, .arch = arch, .options = options, .option_count = option_count};
  upconv_status status = uc_nvrtc_version(&r.major, &r.minor);
  if (status != UPCONV_OK) return status;
  uc_cache_key key = make_key(&r);
  char *directory = uc_cache_directory();
  bool found = directory && uc_cache_read(directory, &key, image, size);
  if (!found) status = uc_nvrtc_compile(source, arch, options, option_count, image, size, NULL);
  if (!found && status == UPCONV_OK && directory) {
    char note[4096];
    write_note(&r, note, sizeof note);
    uc_cache_write(directory, &key, *image, *size, note, source);
  }
  free(directory);
  if (status == UPCONV_OK && hit) *hit = found;
  return status;
}

static upconv_status walk(bool remove, uc_cuda_cache_info *info) {
  uc_cuda_cache_info found = {.directory = uc_cache_directory(), .limit = uc_cache_limit()};
  upconv_status status =
      found.directory ? uc_cache_walk(found.directory, remove, &found) : UPCONV_OK;
  if (status != UPCONV_OK || !info)
    free(found.directory);
  else
    *info = found;
  return status;
}

upconv_status uc_cuda_cache_list(uc_cuda_cache_info *info) { return walk(false, info); }

upconv_status uc_cuda_cache_clear(uc_cuda_cache_info *removed) { return walk(true, removed); }
