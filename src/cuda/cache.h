/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled kernels, kept on disk. The cache is never in the way: what cannot be read is compiled
 * again, what cannot be written is not kept. Threads and processes share it without locks.
 *
 * In UPCONV_CACHE_DIR (set but empty: no cache), else $XDG_CACHE_HOME/upconv, else
 * $HOME/.cache/upconv. KEY.bin is a header and the image, KEY.cu the source, for whoever looks into
 * it. KEY is a hash of all that decides the image. UPCONV_CACHE_MAX_MB (default 512) bounds the
 * whole; what was not used for longest goes first.
 */
#ifndef UPCONV_CUDA_CACHE_H
#define UPCONV_CUDA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upconv/upconv.h"

/* uc_nvrtc_compile, or the same image from the cache: *hit (may be NULL) says which. *image is
   released by free(). */
upconv_status uc_cuda_cache_get(const char *source, const char *arch, const char *const *options,
                                int option_count, void **image, size_t *size, bool *hit);

typedef struct uc_cuda_cache_info {
  char *directory; /* NULL: there is no cache; released by free() */
  int64_t entries;
  int64_t bytes; /* of everything in the cache */
  int64_t limit; /* bytes */
} uc_cuda_cache_info;

upconv_status uc_cuda_cache_list(uc_cuda_cache_info *info);

/* Removes every entry, and no other file of the folder. removed (may be NULL) describes what went.
   A file that cannot be removed is an error. */
upconv_status uc_cuda_cache_clear(uc_cuda_cache_info *removed);

#endif
