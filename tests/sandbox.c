/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sandbox.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_SIZE = 16384 };

static int say_to = -1;

void sandbox_say(const char *format, ...) {
  char text[4096];
  va_list values;
  va_start(values, format);
  int n = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  if (write(say_to, text, size) != (ssize_t)size) exit(99);
}

bool sandbox_finds(const char *text, const char *part) { return strstr(text, part) != NULL; }

static void make_parents(const char *path) {
  char parent[4096];
  for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    if (mkdir(parent, 0755) != 0 && errno != EEXIST) exit(98);
  }
}

void sandbox_write(const char *path, const void *data, size_t size) {
  make_parents(path);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) exit(97);
}

void sandbox_link(const char *target, const char *path) {
  make_parents(path);
  if (symlink(target, path) != 0) exit(96);
}

static int open_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info;
  (void)place;
  if (kind == FTW_D || kind == FTW_DNR) (void)!chmod(path, 0700);
  return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info;
  (void)kind;
  (void)place;
  return remove(path);
}

/* Tests take rights from folders. The first walk gives them back, on the way down. */
static void remove_folder(const char *folder) {
  nftw(folder, open_one, 16, FTW_PHYS);
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void clear_environment(const char *folder) {
  static const char *const names[] = {
      "UPCONV_LIBCUDA",      "UPCONV_NVRTC",         "UPCONV_CACHE_DIR",
      "UPCONV_CACHE_MAX_MB", "UPCONV_SITE_PACKAGES", "CUDA_HOME",
      "CUDA_PATH",           "CONDA_PREFIX",         "VIRTUAL_ENV",
      "XDG_CACHE_HOME",      "CUDA_VISIBLE_DEVICES", "UPCONV_TUNE",
      "UPCONV_TUNE_FILE"};
  for (size_t i = 0; i < CHECK_COUNT(names); i++) unsetenv(names[i]);
  setenv("HOME", folder, 1);
}

/* exit, not _exit: a leak checker shall have its say. */
static _Noreturn void be_child(void (*run)(void), const char *folder, int pipe_end) {
  say_to = pipe_end;
  clear_environment(folder);
  if (chdir(folder) != 0) exit(95);
  run();
  exit(0);
}

static size_t read_text(int fd, char *text) {
  size_t size = 0;
  for (;;) {
    ssize_t n = read(fd, text + size, TEXT_SIZE - 1 - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += (size_t)n;
  }
  text[size] = '\0';
  return size;
}

const char *sandbox_run(void (*run)(void)) {
  static char text[TEXT_SIZE];
  const char *root = getenv("TMPDIR");
  char folder[1024];
  snprintf(folder, sizeof folder, "%s/upconv-test-XXXXXX", root && *root ? root : "/tmp");
  int ends[2];
  if (!mkdtemp(folder) || pipe(ends) != 0) return "no temporary folder or pipe";
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    be_child(run, folder, ends[1]);
  }
  close(ends[1]);
  size_t size = child > 0 ? read_text(ends[0], text) : 0;
  close(ends[0]);
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  if (child < 0 || status != 0)
    snprintf(text + size, sizeof text - size, " [%s %d]", WIFEXITED(status) ? "exit" : "status",
             WIFEXITED(status) ? WEXITSTATUS(status) : status);
  remove_folder(folder);
  return text;
}
