/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the cache: read and checked, written aside and renamed. */
#define _GNU_SOURCE
#include "cache_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../files.h"

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
  if (file.st_size <= (off_t)sizeof h || !uc_read_all(fd, &h, sizeof h)) return NULL;
  if (!is_right(&h, key, file.st_size)) return NULL;
  size_t bytes = (size_t)h.image_size;
  void *image = malloc(bytes);
  if (!image) return NULL;
  uint8_t digest[UC_SHA256_SIZE];
  bool good = uc_read_all(fd, image, bytes);
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

void uc_cache_write(const char *directory, const uc_cache_key *key, const void *image, size_t size,
                    const char *note, const char *source) {
  int64_t limit = uc_cache_limit();
  if (size > (uint64_t)limit || strlen(source) > (uint64_t)limit - size) return;
  if (!uc_make_directory(directory)) return;
  header h = {.version = VERSION, .header_size = sizeof h, .image_size = size};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(h.key, key->digest, sizeof h.key);
  hash_image(image, size, h.image_hash);
  const uc_part entry[] = {{&h, sizeof h}, {image, size}};
  const uc_part text[] = {{note, strlen(note)}, {"\n", 1}, {source, strlen(source)}};
  char *entry_file = entry_path(directory, key, UC_CACHE_IMAGE);
  char *text_file = entry_path(directory, key, UC_CACHE_SOURCE);
  if (entry_file && text_file && uc_write_file(text_file, text, 3) &&
      !uc_write_file(entry_file, entry, 2))
    unlink(text_file);
  free(entry_file);
  free(text_file);
  uc_cache_trim(directory, limit);
}
