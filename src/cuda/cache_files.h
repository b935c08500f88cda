/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the cache. Of the two levels below cache.h this is the lower one: it knows keys,
 * images and files, and nothing of compilers. Whatever goes wrong here costs a compilation, so
 * nothing reports an error except list and clear.
 */
#ifndef UPCONV_CUDA_CACHE_FILES_H
#define UPCONV_CUDA_CACHE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"
#include "sha256.h"

typedef struct uc_cache_key {
  uint8_t digest[UC_SHA256_SIZE];
} uc_cache_key;

/* Most bytes that the cache may hold. */
int64_t uc_cache_limit(void);

/* An entry that is whole and of this key, marked as just used. */
bool uc_cache_read(const char *directory, const uc_cache_key *key, void **image, size_t *size);

/* Makes the folder where it is missing, stores the entry with its source, and trims the cache. */
void uc_cache_write(const char *directory, const uc_cache_key *key, const void *image, size_t size,
                    const char *note, const char *source);

/* Removes what was not used for longest until the rest is within limit, and what crashed writers
   left behind. */
void uc_cache_trim(const char *directory, int64_t limit);

/* Counts what is there, and removes it if remove is set. */
upconv_status uc_cache_walk(const char *directory, bool remove, uc_cuda_cache_info *info);

/* KEY.bin and KEY.cu; while they are written, see ../files.h. */
#define UC_CACHE_IMAGE ".bin"
#define UC_CACHE_SOURCE ".cu"
enum { UC_CACHE_NAME = 2 * UC_SHA256_SIZE };

#endif
