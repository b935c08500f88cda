/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tune_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

static const char header[] =
    "# What upconv measured, one decision a line: device, problem, rules that fired, fastest "
    "candidate, times.\n"
    "# Lines may be removed; `upconv tune` writes them. Newer ones stand further below.\n";

/* ---------------------------------------------------------------- texts */

/* Splits a line; true if all fields are there and hold what can be printed. */
static bool split(const char *line, size_t length, uc_field field[UC_TUNE_FIELDS]) {
  int count = 0;
  const char *begin = line, *end = line + length;
  for (const char *at = line; at <= end; at++) {
    if (at < end && *at != '\t') {
      if ((unsigned char)*at < 0x20 || *at == 0x7f) return false;
      continue;
    }
    if (count == UC_TUNE_FIELDS || at == begin) return false;
    field[count++] = (uc_field){begin, (size_t)(at - begin)};
    begin = at + 1;
  }
  return count == UC_TUNE_FIELDS && field[3].length < UC_TUNE_NAME &&
         field[4].length < UC_TUNE_TIMES;
}

/* What does not end in a line end was cut off. */
bool uc_tune_next(const char **at, const char *end, uc_field field[UC_TUNE_FIELDS]) {
  while (*at < end) {
    const char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));
    if (!newline) break;
    *at = newline + 1;
    if (*line != '#' && split(line, (size_t)(newline - line), field)) return true;
  }
  *at = end;
  return false;
}

/* The key is the first three fields with the tabs between them. */
static bool has_key(const uc_field field[UC_TUNE_FIELDS], const char *key, size_t length) {
  size_t found = (size_t)(field[2].text + field[2].length - field[0].text);
  return found == length && memcmp(field[0].text, key, length) == 0;
}

static void copy_field(char *to, const uc_field *field) {
  memcpy(to, field->text, field->length);
  to[field->length] = 0;
}

bool uc_tune_text_find(const char *text, size_t length, const char *key, uc_decision *decision) {
  uc_field field[UC_TUNE_FIELDS];
  size_t key_length = strlen(key);
  bool found = false;
  for (const char *at = text, *end = text + length; uc_tune_next(&at, end, field);) {
    if (!has_key(field, key, key_length)) continue;
    copy_field(decision->candidate, &field[3]);
    copy_field(decision->times, &field[4]);
    found = true;
  }
  return found;
}

/* A line as it stands in the text, with its end. */
static size_t line_length(const uc_field field[UC_TUNE_FIELDS]) {
  return (size_t)(field[4].text + field[4].length - field[0].text) + 1;
}

/* Bytes of the lines that a new decision of this key leaves. */
static size_t kept_bytes(const char *text, size_t length, const char *key) {
  uc_field field[UC_TUNE_FIELDS];
  size_t bytes = 0;
  for (const char *at = text, *end = text + length; uc_tune_next(&at, end, field);)
    if (!has_key(field, key, strlen(key))) bytes += line_length(field);
  return bytes;
}

char *uc_tune_text_put(const char *text, size_t length, const char *key,
                       const uc_decision *decision) {
  uc_field field[UC_TUNE_FIELDS];
  char *line = NULL, *result = NULL;
  int size = asprintf(&line, "%s\t%s\t%s\n", key, decision->candidate, decision->times);
  if (size < 0) return NULL;
  size_t added = (size_t)size, start = sizeof header - 1, kept = kept_bytes(text, length, key);
  if (split(line, added - 1, field) && start + added <= UC_TUNE_LIMIT)
    result = malloc(start + kept + added + 1);
  if (!result) {
    free(line);
    return NULL;
  }
  char *to = mempcpy(result, header, start);
  for (const char *at = text, *end = text + length; uc_tune_next(&at, end, field);) {
    if (has_key(field, key, strlen(key))) continue;
    size_t bytes = line_length(field);
    bool fits = start + kept + added <= UC_TUNE_LIMIT;
    if (fits) to = mempcpy(to, field[0].text, bytes);
    if (!fits) kept -= bytes;
  }
  memcpy(to, line, added + 1);
  free(line);
  return result;
}

/* ---------------------------------------------------------------- the file */

char *uc_tune_store_path(void) {
  const char *own = secure_getenv("UPCONV_TUNE_FILE");
  if (own) return *own ? strdup(own) : NULL;
  char *folder = uc_cache_directory(), *path = NULL;
  if (folder && asprintf(&path, "%s/tuning.txt", folder) < 0) path = NULL;
  free(folder);
  return path;
}

char *uc_tune_store_read(const char *path, size_t *length) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return NULL;
  struct stat file;
  char *text = NULL;
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
    size_t bytes = file.st_size < UC_TUNE_LIMIT ? (size_t)file.st_size : UC_TUNE_LIMIT;
    text = malloc(bytes + 1);
    if (text && !uc_read_all(fd, text, bytes)) {
      free(text);
      text = NULL;
    }
    if (text) text[bytes] = 0;
    *length = bytes;
  }
  close(fd);
  return text;
}

bool uc_tune_store_find(const char *key, uc_decision *decision) {
  char *path = uc_tune_store_path();
  if (!path) return false;
  size_t length = 0;
  char *text = uc_tune_store_read(path, &length);
  bool found = text && uc_tune_text_find(text, length, key, decision);
  free(text);
  free(path);
  return found;
}

#define LOCK ".lock"

/* The descriptor of PATH.lock, locked if that was possible: where it is not, two writers at once may lose a decision, which
   costs a measurement. */
static int lock_beside(const char *path) {
  static const struct timespec pause = {0, 5000000};
  enum { TRIES = 200 };
  char *name = NULL;
  if (asprintf(&name, "%s" LOCK, path) < 0) return -1;
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  free(name);
  for (int i = 0; i < TRIES && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++)
    nanosleep(&pause, NULL);
  return fd;
}

static bool make_folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return true;
  char *folder = strndup(path, (size_t)(slash - path));
  bool made = folder && uc_make_directory(folder);
  free(folder);
  return made;
}

/* A device or a folder of that name is no file to be replaced. */
static bool may_replace(const char *path) {
  struct stat file;
  return stat(path, &file) != 0 || S_ISREG(file.st_mode);
}

static bool put(const char *path, const char *key, const uc_decision *decision) {
  size_t length = 0;
  char *old = uc_tune_store_read(path, &length);
  char *text = uc_tune_text_put(old ? old : "", old ? length : 0, key, decision);
  bool good = text && uc_write_file(path, &(uc_part){text, strlen(text)}, 1);
  free(text);
  free(old);
  return good;
}

bool uc_tune_store_put(const char *key, const uc_decision *decision) {
  char *path = uc_tune_store_path();
  bool good = path && may_replace(path) && make_folder_of(path);
  if (good) {
    int lock = lock_beside(path);
    good = put(path, key, decision);
    if (lock >= 0) close(lock);
  }
  free(path);
  return good;
}

bool uc_tune_store_clear(const char *path) {
  char *lock = NULL;
  if (!may_replace(path)) {
    errno = EINVAL;
    return false;
  }
  if (unlink(path) != 0 && errno != ENOENT) return false;
  if (asprintf(&lock, "%s" LOCK, path) < 0) return true;
  unlink(lock);
  free(lock);
  return true;
}
