/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVRTC that compiles nothing, fast: the image is a line about the architecture, the
 * options and the source behind it. "#error" in the source is an error. Variables:
 * FAKE_NVRTC_VERSION "12.4" (13.0 if not set) FAKE_NVRTC_COUNT a file that gets one byte longer
 * with every compilation
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { ARCHS = 6 };
static const int archs[ARCHS] = {75, 80, 86, 90, 100, 103};

typedef struct program {
  char *source, *image;
  const char *log;
} program;

EXPORT const char *nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_INPUT";
}

EXPORT int nvrtcVersion(int *major, int *minor) {
  const char *version = getenv("FAKE_NVRTC_VERSION");
  return sscanf(version ? version : "13.0", "%d.%d", major, minor) == 2 ? 0 : 3;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count) {
  *count = ARCHS;
  return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *arch) {
  memcpy(arch, archs, sizeof archs);
  return 0;
}

EXPORT int nvrtcCreateProgram(program **p, const char *source, const char *name, int header_count,
                              const char *const *headers, const char *const *header_names) {
  (void)name;
  (void)headers;
  (void)header_names;
  if (header_count != 0) return 3;
  *p = calloc(1, sizeof **p);
  if (!*p) return 1;
  (*p)->source = strdup(source);
  (*p)->log = "";
  return (*p)->source ? 0 : 1;
}

EXPORT int nvrtcDestroyProgram(program **p) {
  free((*p)->source);
  free((*p)->image);
  free(*p);
  *p = NULL;
  return 0;
}

static void count_compilation(void) {
  const char *path = getenv("FAKE_NVRTC_COUNT");
  if (!path) return;
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0) abort();
}

EXPORT int nvrtcCompileProgram(program *p, int option_count, const char *const *options) {
  count_compilation();
  if (strstr(p->source, "#error")) {
    p->log = "upconv.cu(1): warning #1: an errorless line\n\n"
             "upconv.cu(7): error: this is it\n"
             "upconv.cu(8): error: and another one\n";
    return 6;
  }
  size_t size = strlen(p->source) + 3;
  for (int i = 0; i < option_count; i++) size += strlen(options[i]) + 1;
  p->image = calloc(size, 1);
  if (!p->image) return 1;
  for (int i = 0; i < option_count; i++) strcat(strcat(p->image, options[i]), " ");
  strcat(strcat(p->image, ": "), p->source);
  p->log = "a warning\n";
  return 0;
}

EXPORT int nvrtcGetProgramLogSize(program *p, size_t *size) {
  *size = strlen(p->log) + 1;
  return 0;
}

EXPORT int nvrtcGetProgramLog(program *p, char *log) {
  strcpy(log, p->log);
  return 0;
}

EXPORT int nvrtcGetPTXSize(program *p, size_t *size) {
  *size = strlen(p->image) + 1;
  return 0;
}

EXPORT int nvrtcGetPTX(program *p, char *image) {
  strcpy(image, p->image);
  return 0;
}

EXPORT int nvrtcGetCUBINSize(program *p, size_t *size) { return nvrtcGetPTXSize(p, size); }
EXPORT int nvrtcGetCUBIN(program *p, char *image) { return nvrtcGetPTX(p, image); }
