/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a part of a test in a process of its own, for what happens once per process or hangs on the
   environment. */
#ifndef UPCONV_TESTS_SANDBOX_H
#define UPCONV_TESTS_SANDBOX_H

#include "check.h"

/* The process starts in an empty folder, which is removed afterwards and is its HOME, without any
   variable that steers upconv or CUDA. Returns what it said, or how it ended if not with exit code
   0; valid until the next call. */
const char *sandbox_run(void (*run)(void));

/* text, from sandbox_run or upconv_last_error, holds part. */
#define CHECK_SAYS(text, part) \
  CHECK_MSG(sandbox_finds(text, part), "no '%s' in: %s", (part), (text))
bool sandbox_finds(const char *text, const char *part);

/* In the sandbox: adds to what sandbox_run returns. */
void sandbox_say(const char *format, ...) CHECK_PRINTF(1, 2);

/* A file of the current folder, and the folders above it. */
void sandbox_write(const char *path, const void *data, size_t size);
void sandbox_link(const char *target, const char *path);

#endif
