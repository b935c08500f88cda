/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a model or its user names: regular files only, sizes checked, external data kept
   inside the model's folder. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../status.h"
#include "graph.h"

size_t uc_onnx_machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  size_t fallback = SIZE_MAX / 2, bytes;
  if (pages <= 0 || page <= 0 || __builtin_mul_overflow((size_t)pages, (size_t)page, &bytes))
    return fallback;
  return bytes;
}

/* O_NONBLOCK, so that opening a pipe does not wait for its other end. */
static upconv_status open_regular(const char *path, int *descriptor, int64_t *size) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: cannot be opened: %s", path, strerror(errno));
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: is not a regular file", path);
  }
  *descriptor = fd;
  *size = (int64_t)info.st_size;
  return UPCONV_OK;
}

/* Reads exactly size bytes at offset into new memory. */
static upconv_status read_range(int fd, const char *path, int64_t offset, size_t size,
                                uc_onnx_bytes *bytes) {
  unsigned char *data = size <= uc_onnx_machine_memory() ? malloc(size ? size : 1) : NULL;
  if (!data) return uc_fail(UPCONV_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, size);
  for (size_t done = 0; done < size;) {
    size_t want = size - done < (size_t)1 << 30 ? size - done : (size_t)1 << 30;
    ssize_t got = pread(fd, data + done, want, (off_t)(offset + (int64_t)done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const char *reason = got < 0 ? strerror(errno) : "the file became shorter";
      free(data);
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: cannot be read: %s", path, reason);
    }
    done += (size_t)got;
  }
  bytes->data = data;
  bytes->size = size;
  return UPCONV_OK;
}

upconv_status uc_onnx_file_read(const char *path, size_t limit, uc_onnx_bytes *bytes) {
  int fd;
  int64_t size;
  upconv_status status = open_regular(path, &fd, &size);
  if (status) return status;
  if ((uint64_t)size > limit)
    status = uc_fail(UPCONV_INVALID_ARGUMENT, "%s: %lld bytes; at most %zu are allowed", path,
                     (long long)size, limit);
  else
    status = read_range(fd, path, 0, (size_t)size, bytes);
  close(fd);
  return status;
}

/* A relative path without "..", and not empty. */
static bool location_is_inside(const char *location) {
  if (!*location || *location == '/') return false;
  for (const char *part = location; *part;) {
    size_t length = strcspn(part, "/");
    if (length == 2 && part[0] == '.' && part[1] == '.') return false;
    part += length;
    while (*part == '/') part++;
  }
  return true;
}

/* Whether resolved, a path without links, lies below the folder. */
static bool lies_below(const char *resolved, const char *folder) {
  char root[PATH_MAX];
  if (!realpath(folder, root)) return false;
  size_t length = strlen(root);
  if (strcmp(root, "/") == 0) return true;
  return strncmp(resolved, root, length) == 0 && resolved[length] == '/';
}

/* The location's real path. A link inside the folder is followed, but not out of it. */
static upconv_status resolve(const char *directory, const char *location, char resolved[PATH_MAX]) {
  if (!location_is_inside(location))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "external data '%.200s': must be a relative path without '..'", location);
  char path[PATH_MAX];
  size_t a = strlen(directory), b = strlen(location);
  if (a + b + 2 > sizeof path)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "external data '%.200s': the path is too long",
                   location);
  memcpy(path, directory, a);
  path[a] = '/';
  memcpy(path + a + 1, location, b + 1);
  if (!realpath(path, resolved))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "external data '%.200s': cannot be opened: %s",
                   location, strerror(errno));
  if (!lies_below(resolved, directory))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "external data '%.200s': leads out of the model's folder", location);
  return UPCONV_OK;
}

upconv_status uc_onnx_external_read(const char *directory, const char *location, int64_t offset,
                                    int64_t length, uc_onnx_bytes *bytes) {
  char path[PATH_MAX];
  int fd;
  int64_t size;
  upconv_status status = resolve(directory, location, path);
  if (!status) status = open_regular(path, &fd, &size);
  if (status) return status;
  if (offset < 0 || offset > size || length < -1 || length > size - offset)
    status = uc_fail(UPCONV_INVALID_ARGUMENT,
                     "external data '%.200s': offset %lld and length %lld do not lie in a file of "
                     "%lld bytes",
                     location, (long long)offset, (long long)length, (long long)size);
  else
    status = read_range(fd, path, offset, (size_t)(length < 0 ? size - offset : length), bytes);
  close(fd);
  return status;
}
