/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Temporary files that a signal has to remove. Changed with those signals blocked, by the main thread alone. */
static output_file *pending;

static const int fatal_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };

static void remove_pending(int number) {
  for (output_file *file = pending; file; file = file->next) unlink(file->temporary);
  signal(number, SIG_DFL);
  raise(number);
}

static void install_handlers(void) {
  static bool installed;
  if (installed) return;
  installed = true;
  for (int i = 0; i < FATAL_SIGNALS; i++) {
    struct sigaction old;
    if (sigaction(fatal_signals[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {.sa_handler = remove_pending};
    sigemptyset(&action.sa_mask);
    sigaction(fatal_signals[i], &action, NULL);
  }
  /* A file size limit then shows as an error of write(), like a full disk. */
  signal(SIGXFSZ, SIG_IGN);
}

static void block_signals(sigset_t *old) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < FATAL_SIGNALS; i++) sigaddset(&set, fatal_signals[i]);
  sigprocmask(SIG_BLOCK, &set, old);
}

static void forget(output_file *file) {
  for (output_file **link = &pending; *link; link = &(*link)->next) {
    if (*link != file) continue;
    *link = file->next;
    return;
  }
}

/* A name in the folder of `path` that nobody else uses. It is short whatever the name of the file. */
static bool make_temporary_name(output_file *file, unsigned attempt) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t mix = ((uint64_t)now.tv_nsec + attempt) * 0x9E3779B97F4A7C15u + (uint64_t)getpid();
  const char *slash = strrchr(file->path, '/');
  int folder = slash ? (int)(slash - file->path) + 1 : 0;
  free(file->temporary);
  file->temporary = NULL;
  return asprintf(&file->temporary, "%.*s.upconv-%08x.tmp", folder, file->path,
                  (unsigned)(mix >> 32 ^ mix)) >= 0;
}

/* Creates the temporary file. errno tells why not. */
static bool create_temporary(output_file *file, mode_t mode, bool keep_mode) {
  for (unsigned attempt = 0; attempt < 100; attempt++) {
    if (!make_temporary_name(file, attempt)) break;
    sigset_t old;
    block_signals(&old);
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int reason = errno;
    if (file->fd >= 0) {
      file->next = pending;
      pending = file;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (file->fd >= 0) {
      if (keep_mode) (void)fchmod(file->fd, mode); /* the old file's, past the umask */
      return true;
    }
    errno = reason;
    if (errno != EEXIST) break;
  }
  int reason = errno;
  free(file->temporary);
  file->temporary = NULL;
  errno = reason;
  return false;
}

/* The path behind symbolic links, also when the last of them points at nothing yet. */
static char *resolve(const char *name) {
  char *path = realpath(name, NULL);
  if (path || errno != ENOENT) return path;
  char target[4096];
  ssize_t length = readlink(name, target, sizeof target - 1);
  if (length <= 0) return strdup(name);
  target[length] = 0;
  const char *slash = strrchr(name, '/');
  size_t folder = target[0] == '/' || !slash ? 0 : (size_t)(slash - name) + 1;
  char *joined = malloc(folder + (size_t)length + 1);
  if (!joined) return NULL;
  memcpy(joined, name, folder);
  memcpy(joined + folder, target, (size_t)length + 1);
  return joined;
}

bool output_open(output_file *file, const char *name, cli_error *error) {
  *file = (output_file){.name = name, .fd = -1};
  install_handlers();
  file->path = resolve(name);
  if (!file->path) return cli_error_set(error, "%s: %s", name, strerror(errno));
  struct stat info;
  bool exists = stat(file->path, &info) == 0;
  bool opened;
  if (exists && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    opened = false;
  } else if (exists && !S_ISREG(info.st_mode)) {
    file->fd = open(file->path, O_WRONLY | O_CLOEXEC);
    opened = file->fd >= 0;
  } else if (exists && access(file->path, W_OK) != 0) {
    opened = false; /* a rename would replace a file that its owner has protected */
  } else {
    opened = create_temporary(file, exists ? info.st_mode & 07777 : 0666, exists);
  }
  if (opened) return true;
  cli_error_set(error, "%s: %s", name, strerror(errno));
  output_discard(file);
  return false;
}

bool output_write(output_file *file, const void *data, size_t size, cli_error *error) {
  const char *next = data;
  while (size > 0) {
    ssize_t written = write(file->fd, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cli_error_set(error, "%s: %s", file->name, strerror(errno));
    next += written;
    size -= (size_t)written;
  }
  return true;
}

bool output_flush(output_file *file, cli_error *error) {
  /* Pipes and devices cannot be flushed, and say EINVAL. */
  bool flushed = fsync(file->fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
  int reason = errno;
  bool closed = close(file->fd) == 0;
  if (flushed) reason = errno;
  file->fd = -1;
  if (flushed && closed) return true;
  return cli_error_set(error, "%s: %s", file->name, strerror(reason));
}

/* So that the rename itself survives a power cut. A file system that cannot do it is no reason to fail. */
static void flush_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
  if (!folder) return;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
  free(folder);
}

bool output_commit(output_file *file, cli_error *error) {
  if (file->temporary) {
    sigset_t old;
    block_signals(&old);
    bool moved = rename(file->temporary, file->path) == 0;
    int reason = errno;
    if (moved) forget(file);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (!moved) return cli_error_set(error, "%s: %s", file->name, strerror(reason));
    free(file->temporary);
    file->temporary = NULL;
    flush_folder(file->path);
  }
  free(file->path);
  file->path = NULL;
  return true;
}

void output_discard(output_file *file) {
  if (!file->path) return;
  if (file->fd >= 0) close(file->fd);
  if (file->temporary) {
    sigset_t old;
    block_signals(&old);
    unlink(file->temporary);
    forget(file);
    sigprocmask(SIG_SETMASK, &old, NULL);
    free(file->temporary);
  }
  free(file->path);
  *file = (output_file){.fd = -1};
}
