/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the cache: read and checked, written aside and renamed. */
#define _GNU_SOURCE
#include "cache_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* In front of the image. Native byte order: on a machine of the other one, version does not match.
   */
typedef struct header {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint8_t key[UC_SHA256_SIZE];
  uint64_t image_size;
  uint8_t image_hash[UC_SHA256_SIZE];
} header;

static const char magic[8] = {'u', 'p', 'c', 'o', 'n', 'v', '\r', '\n'};
enum { VERSION = 1, MEGABYTE = 1000000, DEFAULT_LIMIT_MB = 512 };

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

int64_t uc_cache_limit(void) {
  const char *text = secure_getenv("UPCONV_CACHE_MAX_MB");
  int64_t megabytes = DEFAULT_LIMIT_MB;
  if (text && *text >= '0' && *text <= '9') {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0 && value <= INT64_MAX / MEGABYTE) megabytes = value;
  }
  return megabytes * MEGABYTE;
}

static void hash_image(const void *image, size_t size, uint8_t digest[UC_SHA256_SIZE]) {
  uc_sha256 hash;
  uc_sha256_init(&hash);
  uc_sha256_add(&hash, image, size);
  uc_sha256_end(&hash, digest);
}

/* "DIRECTORY/KEYsuffix", or NULL. */
static char *entry_path(const char *directory, const uc_cache_key *key, const char *suffix) {
  char name[UC_CACHE_NAME + 1];
  for (int i = 0; i < UC_SHA256_SIZE; i++) snprintf(name + 2 * i, 3, "%02x", key->digest[i]);
  char *path = NULL;
  return asprintf(&path, "%s/%s%s", directory, name, suffix) < 0 ? NULL : path;
}

/* ---------------------------------------------------------------- reading */

static bool read_all(int fd, void *to, size_t size) {
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

/* An image is code that will run with this user's rights: only this user and root may have put it
   there. */
static bool is_trusted(const struct stat *file) {
  return S_ISREG(file->st_mode) && (file->st_uid == geteuid() || file->st_uid == 0);
}

static bool is_right(const header *h, const uc_cache_key *key, off_t file_size) {
  return memcmp(h->magic, magic, sizeof magic) == 0 && h->version == VERSION &&
         h->header_size == sizeof *h && memcmp(h->key, key->digest, sizeof h->key) == 0 &&
         h->image_size > 0 && h->image_size == (uint64_t)file_size - sizeof *h;
}

static void *read_entry(int fd, const uc_cache_key *key, size_t *size) {
  struct stat file;
  header h;
  if (fstat(fd, &file) != 0 || !is_trusted(&file)) return NULL;
  if (file.st_size <= (off_t)sizeof h || !read_all(fd, &h, sizeof h)) return NULL;
  if (!is_right(&h, key, file.st_size)) return NULL;
  size_t bytes = (size_t)h.image_size;
  void *image = malloc(bytes);
  if (!image) return NULL;
  uint8_t digest[UC_SHA256_SIZE];
  bool good = read_all(fd, image, bytes);
  if (good) hash_image(image, bytes, digest);
  if (!good || memcmp(digest, h.image_hash, sizeof digest) != 0) {
    free(image);
    return NULL;
  }
  *size = bytes;
  return image;
}

bool uc_cache_read(const char *directory, const uc_cache_key *key, void **image, size_t *size) {
  char *path = entry_path(directory, key, UC_CACHE_IMAGE);
  if (!path) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  free(path);
  if (fd < 0) return false;
  void *found = read_entry(fd, key, size);
  if (found) {
    *image = found;
    futimens(fd, NULL); /* used now; where that is not allowed the entry just ages */
  }
  close(fd);
  return found != NULL;
}

/* ---------------------------------------------------------------- writing */

typedef struct part {
  const void *data;
  size_t size;
} part;

enum { PARTS = 3 };

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
static bool is_allowed_size(const part parts[PARTS]) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  rlim_t room = limit.rlim_cur;
  for (int i = 0; i < PARTS; i++) {
    if (parts[i].size > room) return false;
    room -= parts[i].size;
  }
  return true;
}

/* Under its name there is always a whole file: the old one, or the new one. */
static bool write_file(const char *directory, const char *path, const part parts[PARTS]) {
  if (!is_allowed_size(parts)) return false;
  char *temporary = join(directory, "/" UC_CACHE_TEMPORARY "XXXXXX");
  if (!temporary) return false;
  int fd = mkostemp(temporary, O_CLOEXEC);
  if (fd < 0) {
    free(temporary);
    return false;
  }
  bool good = true;
  for (int i = 0; i < PARTS; i++) good = good && write_all(fd, parts[i].data, parts[i].size);
  good = good && fsync(fd) == 0;
  good = close(fd) == 0 && good;
  good = good && rename(temporary, path) == 0;
  if (!good) unlink(temporary);
  free(temporary);
  return good;
}

/* Makes the folder and those above it. They are this user's alone. */
static bool make_directory(const char *directory) {
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

void uc_cache_write(const char *directory, const uc_cache_key *key, const void *image, size_t size,
                    const char *note, const char *source) {
  int64_t limit = uc_cache_limit();
  if (size > (uint64_t)limit || strlen(source) > (uint64_t)limit - size) return;
  if (!make_directory(directory)) return;
  header h = {.version = VERSION, .header_size = sizeof h, .image_size = size};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(h.key, key->digest, sizeof h.key);
  hash_image(image, size, h.image_hash);
  const part entry[PARTS] = {{&h, sizeof h}, {image, size}, {"", 0}};
  const part text[PARTS] = {{note, strlen(note)}, {"\n", 1}, {source, strlen(source)}};
  char *entry_file = entry_path(directory, key, UC_CACHE_IMAGE);
  char *text_file = entry_path(directory, key, UC_CACHE_SOURCE);
  if (entry_file && text_file && write_file(directory, text_file, text) &&
      !write_file(directory, entry_file, entry))
    unlink(text_file);
  free(entry_file);
  free(text_file);
  uc_cache_trim(directory, limit);
}
