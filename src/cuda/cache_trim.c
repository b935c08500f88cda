/* SPDX-License-Identifier: Apache-2.0 */
/* The cache as a whole: counted, bounded, emptied. Other files of the folder are left alone. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../files.h"
#include "cache_files.h"
#include "status.h"

/* A writer takes well under a minute; a temporary file older than this is nobody's. */
enum { STALE_SECONDS = 3600 };

typedef enum file_kind { FOREIGN, IMAGE, SOURCE, TEMPORARY } file_kind;

static file_kind find_kind(const char *name) {
  if (strncmp(name, UC_TEMPORARY, strlen(UC_TEMPORARY)) == 0) return TEMPORARY;
  if (strspn(name, "0123456789abcdef") != UC_CACHE_NAME) return FOREIGN;
  const char *suffix = name + UC_CACHE_NAME;
  if (strcmp(suffix, UC_CACHE_IMAGE) == 0) return IMAGE;
  return strcmp(suffix, UC_CACHE_SOURCE) == 0 ? SOURCE : FOREIGN;
}

typedef struct cache_file {
  char name[UC_CACHE_NAME + 8];
  file_kind kind;
  int64_t bytes;
  struct timespec used;
} cache_file;

typedef struct folder {
  DIR *stream;
  cache_file *file;
  size_t count, capacity;
} folder;

static bool add(folder *f, const cache_file *file) {
  if (f->count == f->capacity) {
    size_t capacity = f->capacity ? 2 * f->capacity : 64;
    cache_file *grown = reallocarray(f->file, capacity, sizeof *grown);
    if (!grown) return false;
    f->file = grown;
    f->capacity = capacity;
  }
  f->file[f->count++] = *file;
  return true;
}

/* false: no memory. Files that vanish meanwhile are no loss. */
static bool read_folder(folder *f) {
  for (struct dirent *entry; (entry = readdir(f->stream));) {
    cache_file file = {.kind = find_kind(entry->d_name)};
    struct stat info;
    size_t length = strlen(entry->d_name);
    if (file.kind == FOREIGN || length >= sizeof file.name) continue;
    if (fstatat(dirfd(f->stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    memcpy(file.name, entry->d_name, length + 1);
    file.bytes = info.st_size;
    file.used = info.st_mtim;
    if (!add(f, &file)) return false;
  }
  return true;
}

static void close_folder(folder *f) {
  if (f->stream) closedir(f->stream);
  free(f->file);
}

static bool remove_file(const folder *f, const cache_file *file) {
  return unlinkat(dirfd(f->stream), file->name, 0) == 0 || errno == ENOENT;
}

/* ---------------------------------------------------------------- trimming */

static int compare_names(const void *a, const void *b) {
  return strcmp(((const cache_file *)a)->name, ((const cache_file *)b)->name);
}

static int compare_uses(const void *a, const void *b) {
  const cache_file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Only images are marked when they are used: a source is as old as its image. By name they lie side
   by side. */
static void age_sources(folder *f) {
  qsort(f->file, f->count, sizeof *f->file, compare_names);
  for (size_t i = 0; i + 1 < f->count; i++)
    if (f->file[i].kind == IMAGE && f->file[i + 1].kind == SOURCE &&
        memcmp(f->file[i].name, f->file[i + 1].name, UC_CACHE_NAME) == 0)
      f->file[i + 1].used = f->file[i].used;
}

static bool have_same_key(const cache_file *a, const cache_file *b) {
  return a->kind != TEMPORARY && b->kind != TEMPORARY &&
         memcmp(a->name, b->name, UC_CACHE_NAME) == 0;
}

/* The files are in the order in which they go. An image takes its source along. */
static void remove_oldest(const folder *f, int64_t bytes, int64_t limit) {
  time_t stale = time(NULL) - STALE_SECONDS;
  const cache_file *removed = NULL;
  for (size_t i = 0; i < f->count; i++) {
    const cache_file *file = &f->file[i];
    bool goes = file->kind == TEMPORARY
                    ? file->used.tv_sec < stale
                    : bytes > limit || (removed && have_same_key(removed, file));
    if (!goes || !remove_file(f, file)) continue;
    bytes -= file->bytes;
    removed = file;
  }
}

void uc_cache_trim(const char *directory, int64_t limit) {
  folder f = {.stream = opendir(directory)};
  if (f.stream && read_folder(&f) && f.count > 0) {
    age_sources(&f);
    qsort(f.file, f.count, sizeof *f.file, compare_uses);
    int64_t bytes = 0;
    for (size_t i = 0; i < f.count; i++) bytes += f.file[i].bytes;
    remove_oldest(&f, bytes, limit);
  }
  close_folder(&f);
}

/* ---------------------------------------------------------------- counting and emptying */

static upconv_status walk(const folder *f, bool remove, uc_cuda_cache_info *info) {
  for (size_t i = 0; i < f->count; i++) {
    const cache_file *file = &f->file[i];
    if (remove && !remove_file(f, file))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "kernel cache: %s/%s cannot be removed: %s",
                     info->directory, file->name, strerror(errno));
    info->entries += file->kind == IMAGE;
    info->bytes += file->bytes;
  }
  return UPCONV_OK;
}

upconv_status uc_cache_walk(const char *directory, bool remove, uc_cuda_cache_info *info) {
  folder f = {.stream = opendir(directory)};
  if (!f.stream && errno == ENOENT) return UPCONV_OK;
  upconv_status status;
  if (!f.stream)
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "kernel cache %s: %s", directory, strerror(errno));
  else if (!read_folder(&f))
    status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the list of %s", directory);
  else
    status = walk(&f, remove, info);
  close_folder(&f);
  return status;
}
