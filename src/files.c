/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *b) {
  char *path = NULL;
  return asprintf(&path, "%s%s", a, b) < 0 ? NULL : path;
}

char *uc_cache_directory(void) {
  const char *own = secure_getenv("UPCONV_CACHE_DIR");
  if (own) return *own ? strdup(own) : NULL;
  const char *caches = secure_getenv("XDG_CACHE_HOME");
  if (caches && *caches == '/') return join(caches, "/upconv");
  const char *home = secure_getenv("HOME");
  return home && *home == '/' ? join(home, "/.cache/upconv") : NULL;
}

bool uc_make_directory(const char *directory) {
  char *path = strdup(directory);
  if (!path) return false;
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
  free(path);
  return made;
}

bool uc_read_all(int fd, void *to, size_t size) {
  char *at = to;
  while (size > 0) {
    ssize_t n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

static bool write_all(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

/* Beyond this limit a write would end the process with a signal. */
static bool is_allowed_size(const uc_part *part, int count) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  rlim_t room = limit.rlim_cur;
  for (int i = 0; i < count; i++) {
    if (part[i].size > room) return false;
    room -= part[i].size;
  }
  return true;
}

/* "FOLDER/.tmp-XXXXXX" for "FOLDER/NAME". */
static char *temporary_beside(const char *path) {
  const char *slash = strrchr(path, '/');
  char *temporary = NULL;
  int folder = slash ? (int)(slash - path) + 1 : 0;
  return asprintf(&temporary, "%.*s" UC_TEMPORARY "XXXXXX", folder, path) < 0 ? NULL : temporary;
}

bool uc_write_file(const char *path, const uc_part *part, int count) {
  if (!is_allowed_size(part, count)) return false;
  char *temporary = temporary_beside(path);
  if (!temporary) return false;
  int fd = mkostemp(temporary, O_CLOEXEC);
  if (fd < 0) {
    free(temporary);
    return false;
  }
  bool good = true;
  for (int i = 0; i < count; i++) good = good && write_all(fd, part[i].data, part[i].size);
  good = good && fsync(fd) == 0;
  good = close(fd) == 0 && good;
  good = good && rename(temporary, path) == 0;
  if (!good) unlink(temporary);
  free(temporary);
  return good;
}
